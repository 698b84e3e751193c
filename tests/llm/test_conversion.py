"""Models from one kind of file to the other and back: the same logits, tokens and prompts, or an error and no file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt.cli import main
from smelt.errors import ArgumentError, MissingFileError, ParseError
from smelt.formats import Folder, Gguf, write_gguf, write_safetensors
from smelt.formats.blocks import BLOCKS
from smelt.llm import conversion as module
from smelt.llm.config import ModelConfig
from smelt.llm.conversion import TYPES, convert
from smelt.llm.loading import _byte_tokens, opened
from smelt.llm.tokens import Tokenizer, writing
from smelt.llm.weights import load_model
from tests.llm.converted import converted
from tests.llm.test_decoder import TOKENS, at_once
from tests.llm.tiny_models import CONFIGS, random_tensors, reference_logits
from tests.llm.tokens.small import TEXT, byte_level_json, byte_level_metadata, scores_metadata, spaces_json

ROUND = ["llama", "llama-biases", "llama-3", "llama-yarn", "mixtral", "qwen2", "qwen3-moe", "gemma2", "gemma3", "gpt2"]


def folder_of(path: Path, name: str) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    config, tensors = CONFIGS[name], random_tensors(CONFIGS[name])
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    write_safetensors(path / "model.safetensors", tensors)
    return path, config, tensors


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_comes_back_from_both_kinds_of_files(name: str) -> None:
    config = ModelConfig.from_huggingface(CONFIGS[name])
    metadata, factors = module.gguf_metadata(config)
    names = converted(CONFIGS[name], random_tensors(CONFIGS[name]))[1]
    assert (factors is not None) == ("rope_freqs.weight" in names)
    module._check_config(config, ModelConfig.from_huggingface(module.huggingface_config(config)))
    again = ModelConfig.from_gguf(metadata, names)
    if name != "llama-3":  # whose factors are a tensor
        module._check_config(config, again)


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("name", ROUND)
def test_a_folder_becomes_a_gguf_file_and_a_folder_again(name: str, tmp_path: Path) -> None:
    folder, config, tensors = folder_of(tmp_path / "model", name)
    expected = reference_logits(config, tensors, TOKENS)
    seen: list[tuple[int, int]] = []
    found = convert(folder, tmp_path / "model.gguf", report=lambda *told: seen.append(told))
    assert found.error < 1e-7  # 1 was added to norms and taken off again
    assert seen[-1][0] == seen[-1][1] > 0
    np.testing.assert_allclose(at_once(load_model(found.path), TOKENS), expected, atol=2e-4, rtol=1e-4)
    back = convert(found.path, tmp_path / "again")
    np.testing.assert_allclose(at_once(load_model(back.path), TOKENS), expected, atol=2e-4, rtol=1e-4)
    again = Folder(back.path)
    assert again.config["model_type"] == config["model_type"]
    assert set(again) == set(tensors)
    for key, array in tensors.items():
        np.testing.assert_allclose(again.array(key), array, atol=1e-6)


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind not in ("f32", "f16", "bf16")])
def test_quantized_files_are_near_and_keep_what_is_small(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    metadata, arrays = converted(CONFIGS["llama"], random_tensors(CONFIGS["llama"]))
    wide = {"blk.0.ffn_up.weight": rng.standard_normal((4, 256)).astype(np.float32)}
    arrays = {key: array for key, array in arrays.items()} | wide
    write_gguf(tmp_path / "a.gguf", metadata, arrays)
    found = convert(tmp_path / "a.gguf", tmp_path / "b.gguf", kind)
    file = Gguf(found.path)
    formats = {name: entry.block.name for name, entry in file.entries.items()}
    assert formats["blk.0.ffn_up.weight"] == kind.upper()
    assert formats["output.weight"] == "Q8_0"
    assert formats["output_norm.weight"] == "F32"
    # 48 is no multiple of any block
    assert formats["blk.0.ffn_down.weight"] == "F16"
    assert 0 < found.error < 0.2
    better = convert(tmp_path / "a.gguf", tmp_path / "c.gguf", kind, search=True)
    name = "blk.0.ffn_up.weight"
    before, after = (np.square(Gguf(one.path).array(name) - arrays[name]).sum() for one in (found, better))
    assert after <= before
    # The same type again: the same bytes.
    same = convert(found.path, tmp_path / "d.gguf", kind)
    assert all(np.array_equal(Gguf(same.path).raw(name), file.raw(name)) for name in file)
    assert same.error == 0


def test_blocks_of_256_fall_back_to_those_of_32(tmp_path: Path) -> None:
    metadata, arrays = converted(CONFIGS["llama"], random_tensors(CONFIGS["llama"]))
    write_gguf(tmp_path / "a.gguf", metadata, arrays)
    found = convert(tmp_path / "a.gguf", tmp_path / "b.gguf", "q4_k")
    assert Gguf(found.path).entries["blk.0.attn_q.weight"].block is BLOCKS["Q5_0"]


def test_a_large_folder_has_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SHARD", 10_000)
    folder, _, tensors = folder_of(tmp_path / "model", "llama")
    found = convert(folder, tmp_path / "other", "f16")
    assert (found.path / "model.safetensors.index.json").is_file()
    again = Folder(found.path)
    assert len(list(found.path.glob("*.safetensors"))) > 3
    assert again.config["dtype"] == "float16"
    for name, array in tensors.items():
        np.testing.assert_array_equal(again.array(name), array.astype(np.float16))


TOKENIZERS = {
    "gpt-2": (byte_level_metadata, byte_level_json),
    "smollm": (lambda: byte_level_metadata("smollm"), lambda: byte_level_json("smollm")),
    "deepseek-coder": (lambda: byte_level_metadata("deepseek-coder"), lambda: byte_level_json("deepseek-coder")),
    "scores": (scores_metadata, lambda: spaces_json("prepend")),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_tokenizers_are_carried_over_both_ways(name: str) -> None:
    metadata, described = (make() for make in TOKENIZERS[name])
    old = Tokenizer.from_gguf_metadata(metadata)
    files = writing.huggingface_files(old, "{{ messages }}")
    new = Tokenizer.from_tokenizer_json(*files.values())
    assert files["tokenizer_config.json"]["chat_template"] == "{{ messages }}"
    assert module._check_tokenizer(old, new) == []
    texts = [TEXT, " a", "  <|im_end|> x", "\u00e9\U0001f680 <s>"]
    for text in texts:
        assert new.encode(text) == old.encode(text)
        assert new.encode(text, special=True) == old.encode(text, special=True)
    old = Tokenizer.from_tokenizer_json(described, {"eos_token": "</s>", "bos_token": "<s>"})
    new = Tokenizer.from_gguf_metadata(writing.gguf_metadata(old, old.size + 3))
    assert new.size == old.size + 3
    for text in texts:
        assert new.encode(text) == old.encode(text)


def test_what_the_other_file_cannot_say_is_an_error(tmp_path: Path) -> None:
    first = spaces_json("first")
    old = Tokenizer.from_tokenizer_json(first)
    with pytest.raises(ParseError, match="same tokens"):
        module._check_tokenizer(old, Tokenizer.from_gguf_metadata(byte_level_metadata()))
    metadata, arrays = converted(CONFIGS["llama"], random_tensors(CONFIGS["llama"]))
    factors = np.linspace(1, 9, 4).astype(np.float32)
    write_gguf(tmp_path / "a.gguf", metadata, arrays | {"rope_freqs.weight": factors})
    with pytest.raises(ArgumentError, match="not Llama 3's"):
        convert(tmp_path / "a.gguf", tmp_path / "b")
    write_gguf(tmp_path / "a.gguf", metadata, arrays | {"more.weight": np.ones(2, np.float32)})
    with pytest.raises(ParseError, match=r"no place for 'more\.weight'"):
        convert(tmp_path / "a.gguf", tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def test_a_window_that_is_lost_is_said(tmp_path: Path) -> None:
    folder, *_ = folder_of(tmp_path / "model", "mistral")
    found = convert(folder, tmp_path / "b.gguf")
    assert any("windows" in note for note in found.notes)


@pytest.mark.parametrize("when", ["making", "reading"])
def test_whatever_fails_leaves_nothing_behind(when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _, tensors = folder_of(tmp_path / "model", "llama")
    (tmp_path / "old.gguf").write_bytes(b"old")
    if when == "making":
        write_safetensors(
            folder / "model.safetensors", tensors | {"lm_head.weight": np.full((61, 32), 1e6, np.float32)}
        )
    else:
        monkeypatch.setattr(module.zlib, "crc32", lambda data, seen=[0]: seen.append(0) or len(seen))
    for target in ("old.gguf", "new.gguf", "other"):
        with pytest.raises((ArgumentError, ParseError), match=r"too large|not written as it was made"):
            convert(folder, tmp_path / target, "f16", replaces=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "old.gguf"]
    assert (tmp_path / "old.gguf").read_bytes() == b"old"


def test_mistakes(tmp_path: Path) -> None:
    folder, *_ = folder_of(tmp_path / "model", "llama")
    with pytest.raises(ArgumentError, match="types are f32"):
        convert(folder, tmp_path / "x.gguf", "q2_k")
    with pytest.raises(ArgumentError, match="folders have no q8_0"):
        convert(folder, tmp_path / "x", "q8_0")
    with pytest.raises(ArgumentError, match="there already"):
        convert(folder, folder)
    with pytest.raises(MissingFileError):
        convert(tmp_path / "none.gguf", tmp_path / "x.gguf")
    with pytest.raises(MissingFileError, match="no folder"):
        convert(folder, tmp_path / "none" / "x.gguf")


def test_the_command_carries_tokenizer_and_template_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = CONFIGS["llama"] | {"vocab_size": 300}
    tensors = random_tensors(config)
    metadata, arrays = converted(config, tensors)
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    write_gguf(tmp_path / "a.gguf", metadata | _byte_tokens(300) | {"tokenizer.chat_template": template}, arrays)
    assert main(["convert", str(tmp_path / "a.gguf"), str(tmp_path / "b"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["tensors"] == {"F32": len(arrays)}
    assert main(["convert", str(tmp_path / "b"), str(tmp_path / "c.gguf"), "--type", "q8_0"]) == 0
    assert "MB, tensors: " in capsys.readouterr().out
    messages = [{"role": "user", "content": "Größe <|end|>"}]
    prompts = []
    for name in ("a.gguf", "b", "c.gguf"):
        _, tokenizer, template_ = opened(str(tmp_path / name))
        assert template_ is not None
        prompts.append(template_.prompt(messages))
        assert 256 in tokenizer.stops
    assert prompts[0] == prompts[1] == prompts[2]
    assert main(["convert", str(tmp_path / "b"), str(tmp_path / "c.gguf")]) == 1
    assert "--force" in capsys.readouterr().err

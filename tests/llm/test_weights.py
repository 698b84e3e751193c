"""Files to models: every tensor in its place, or an error that names it; configs are checked first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, ParseError
from smelt.formats import Gguf, SafeTensors, write_gguf, write_safetensors
from smelt.llm.config import ModelConfig, Rope
from smelt.llm.loading import RANDOM_TYPES, random_config
from smelt.llm.perplexity import agreements, perplexity
from smelt.llm.weights import from_gguf, from_huggingface, load_model, random_model
from tests.llm.converted import converted
from tests.llm.test_decoder import SMALL, TOKENS, Held, at_once
from tests.llm.tiny_models import CONFIGS, random_tensors


def test_models_of_both_kinds_of_files(tmp_path: Path) -> None:
    config, tensors = CONFIGS["llama-3"], random_tensors(CONFIGS["llama-3"])
    expected = at_once(from_huggingface(config, Held(tensors)), TOKENS)
    sm.save({name: sm.from_numpy(array) for name, array in tensors.items()}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config))
    np.testing.assert_array_equal(at_once(load_model(tmp_path), TOKENS), expected)
    write_gguf(tmp_path / "model.gguf", *converted(config, tensors))
    np.testing.assert_allclose(at_once(load_model(tmp_path / "model.gguf"), TOKENS), expected, atol=1e-4)


@pytest.mark.parametrize("layout", ["safetensors", "gguf"])
@pytest.mark.parametrize("name", ["llama-biases", "gemma3", "gpt2", "mixtral"])
def test_every_tensor_is_needed_and_no_other(name: str, layout: str) -> None:
    config = CONFIGS[name]
    metadata, arrays = converted(config, random_tensors(config))
    if layout == "safetensors":
        metadata, arrays = config, random_tensors(config)
    load = from_gguf if layout == "gguf" else from_huggingface
    with pytest.raises(ParseError, match=r"no place for blk\.77\.x\.weight, more\.bias"):
        load(metadata, Held({**arrays, "more.bias": np.ones(2), "blk.77.x.weight": np.ones(2)}))
    names = [key for key in arrays if ".0." in key or "norm" in key or "ln_f" in key][:12]
    for missing in names:
        left = {key: array for key, array in arrays.items() if key != missing}
        with pytest.raises(ParseError, match=r"missing|no place for"):
            load(metadata, Held(left))
        with pytest.raises(ParseError, match="has shape"):
            load(metadata, Held({**arrays, missing: np.ones((*np.shape(arrays[missing]), 1), np.float32)}))


@pytest.mark.parametrize("name", ["llama", "mixtral", "gemma2", "gpt2"])
def test_a_file_that_lacks_its_last_tensor_is_refused_before_any_is_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, tensors = CONFIGS[name], random_tensors(CONFIGS[name])
    metadata, arrays = converted(config, tensors)
    (folder := tmp_path / "folder").mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    read: list[str] = []
    for kind in (Gguf, SafeTensors):
        monkeypatch.setattr(kind, "array", lambda self, name: read.append(name))
    for left, change in ((arrays, None), (tensors, None), (arrays, 1), (tensors, 1)):
        last = next(key for key in reversed(left) if ".2." in key and key.endswith("weight"))
        wrong = {last: np.ones(3, np.float32)} if change else {}
        changed = {key: array for key, array in left.items() if key != last} | wrong
        write_gguf(tmp_path / "model.gguf", metadata, changed)
        write_safetensors(folder / "model.safetensors", changed)
        with pytest.raises(ParseError, match=f"{last} (is missing|has shape)"):
            load_model(tmp_path / "model.gguf" if left is arrays else folder)
    assert read == []


def test_files_of_the_bare_model_and_what_is_no_weight() -> None:
    config, tensors = CONFIGS["gpt2"], random_tensors(CONFIGS["gpt2"])
    bare = {name.removeprefix("transformer."): array for name, array in tensors.items()}
    bare |= {"h.0.attn.bias": np.ones((1, 1, 64, 64)), "lm_head.weight": tensors["transformer.wte.weight"]}
    expected = at_once(from_huggingface(config, Held(tensors)), TOKENS)
    np.testing.assert_array_equal(at_once(from_huggingface(config, Held(bare)), TOKENS), expected)


def test_tied_heads_are_one_tensor() -> None:
    model = from_huggingface(CONFIGS["gemma"], Held(random_tensors(CONFIGS["gemma"])))
    assert model.head.weight is model.embedding.weight  # type: ignore[attr-defined]


def test_random_models_depend_on_the_seed() -> None:
    first, again, other = (at_once(random_model(SMALL, seed), [1, 2, 3]) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3


def test_perplexity_of_what_a_model_knows_nothing_of() -> None:
    tokens = np.random.default_rng(0).integers(0, 31, 100).tolist()
    result = perplexity(random_model(SMALL), tokens, context=32)
    assert (result.chunks, result.tokens) == (3, 45)
    assert 28 < result.value < 34
    assert perplexity(random_model(SMALL), tokens, context=32, bos=tokens[0]).value != result.value


def test_agreement_with_another_model_is_that_of_their_probabilities() -> None:
    tokens = np.random.default_rng(0).integers(0, 31, 64).tolist()
    models = [random_model(SMALL, seed) for seed in (0, 1)]
    expected = np.zeros(2)
    for start in (0, 32):
        p, q = (np.exp(at_once(model, tokens[start : start + 32])[16:31].astype(np.float64)) for model in models)
        p, q = (x / x.sum(-1, keepdims=True) for x in (p, q))
        expected += (p.argmax(-1) == q.argmax(-1)).sum(), (q * np.log(q / p)).sum()
    found = list(agreements(*models, tokens, context=32))[-1]
    np.testing.assert_allclose((found.same_token, found.divergence), expected / 30, rtol=1e-3)
    values = [perplexity(model, tokens, context=32).value for model in models]
    np.testing.assert_allclose((found.value, found.reference), values, rtol=1e-5)
    with pytest.raises(ArgumentError, match="512 tokens, 8192 positions"):
        next(agreements(models[0], random_model(random_config("tiny")[0]), tokens, context=32))


@pytest.mark.parametrize(
    ("tokens", "context", "message"),
    [([1] * 10, 16, "10 tokens"), ([1] * 200, 128, "chunks of 128"), ([1] * 20 + [31], 20, "vocabulary"), ([], 2, "0")],
)
def test_perplexity_refuses(tokens: list[int], context: int, message: str) -> None:
    if "vocabulary" in message:
        tokens = tokens[1:] + tokens[:1]
    with pytest.raises(ArgumentError, match=message):
        perplexity(random_model(SMALL), tokens, context)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "bert"}, "model_type is 'bert'"),
        ({"model_type": ["llama"]}, "model_type"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"hidden_size": "32"}, "hidden_size is '32'"),
        ({"hidden_size": True}, "hidden_size is True"),
        ({"num_hidden_layers": 10**30}, "layers is"),
        ({"num_hidden_layers": 0}, "layers is 0"),
        ({"num_attention_heads": 0}, "heads is 0"),
        ({"num_key_value_heads": 3}, "4 heads share 3"),
        ({"vocab_size": -1}, "vocabulary is -1"),
        ({"rms_norm_eps": float("nan")}, "eps is nan"),
        ({"rms_norm_eps": 10**400}, "bounds"),
        ({"hidden_act": "relu"}, "activation is 'relu'"),
        ({"head_dim": 7}, "dim is 7"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type is 'dynamic'"),
        ({"rope_parameters": [1]}, "rope_parameters"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}, "original_max_position_embeddings"),
        ({"partial_rotary_factor": 0.0}, "partial_rotary_factor"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"num_experts": 4, "num_experts_per_tok": 5}, "5 of 4 experts"),
        ({"num_experts": 4, "num_experts_per_tok": 2, "decoder_sparse_step": 2}, "only some layers"),
    ],
)
def test_configs_that_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises((ParseError, ArgumentError), match=message):
        ModelConfig.from_huggingface({**CONFIGS["llama"], **change})


def test_configs_of_earlier_files() -> None:
    """Where `rope_theta` and `rope_scaling` stood, and windows followed from the family."""
    old = {**CONFIGS["llama"], "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}, "head_dim": None}
    assert ModelConfig.from_huggingface(old).rope == Rope(8, 5e5, scaling=(("factor", 2.0), ("rope_type", "linear")))
    gemma = {k: v for k, v in CONFIGS["gemma3"].items() if k != "rope_parameters"}
    found = ModelConfig.from_huggingface({**gemma, "rope_theta": 1e6, "rope_local_base_freq": 1e4})
    assert (found.rope, found.local_rope) == (Rope(16, 1e6), Rope(16, 1e4))
    assert found.windows == (5, 5, 5, 5, 5, 0, 5)
    assert ModelConfig.from_huggingface({**CONFIGS["qwen2"], "sliding_window": 4}).windows == ()


def test_metadata_that_is_refused() -> None:
    metadata, arrays = converted(CONFIGS["llama"], random_tensors(CONFIGS["llama"]))
    for change, message in [
        ({"general.architecture": "mamba"}, "general.architecture is 'mamba'"),
        ({"llama.block_count": None}, "block_count is missing"),
        ({"llama.attention.head_count": [4, 4, 4]}, "head_count is"),
        ({"llama.attention.value_length": 16}, "differ in size"),
        ({"llama.rope.dimension_count": 1 << 25}, "rope turns 33554432"),
        ({"llama.vocab_size": 60}, "token_embd.weight has shape"),
        ({"llama.rope.scaling.type": "longrope", "llama.rope.scaling.factor": 2.0}, "longrope"),
    ]:
        with pytest.raises((ParseError, ArgumentError), match=message):
            from_gguf({**metadata, **change}, Held(arrays))


@pytest.mark.parametrize("kind", [kind for kind in RANDOM_TYPES if kind != "f32"])
def test_random_models_in_blocks_have_numbers_of_the_usual_size(kind: str) -> None:
    config, found = random_config(f"tiny:{kind}")
    model = random_model(config, kind=found.upper())
    layer = model.blocks[0].attention.out
    assert isinstance(layer, sm.nn.QuantizedLinear)
    weight = layer(sm.eye(64)).numpy()
    assert abs(weight.mean()) < 2e-3
    assert 0.015 < weight.std() < 0.025
    assert isinstance(model.head, sm.nn.QuantizedLinear)


def test_random_models_that_are_not_known_are_refused() -> None:
    for name in ("9b", "tiny:q9", "tiny:f32:f32"):
        with pytest.raises(ArgumentError, match="no random model"):
            random_config(name)
    assert random_config("8b")[1] == "q4_1"
    assert random_config("tiny")[1] == "f32"

"""Models as folders: what is in them is found by name, and nothing outside of them is opened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import MissingFileError, ParseError
from smelt.formats import Folder

INDEX = "model.safetensors.index.json"
SHARDS = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}


def folder_of(path: Path, **files: Any) -> Path:
    """A folder with a config and other files, whose names have _ for the last dot."""
    for name, value in {"config_json": {"model_type": "llama"}, **files}.items():
        place = path / ".".join(name.rsplit("_", 1))
        place.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path


def sharded(path: Path, index: Any = None, **more: Any) -> Path:
    for number, (name, shard) in enumerate(SHARDS.items()):
        sm.save({name: sm.full((2, 3), number), **more}, path / shard)
    (path / INDEX).write_text(json.dumps({"weight_map": SHARDS} if index is None else index))
    return folder_of(path)


def test_a_model_in_one_file(tmp_path: Path) -> None:
    sm.save(
        {"a.weight": sm.arange(6).reshape(2, 3), "b": sm.ones(2, dtype=sm.bfloat16)}, tmp_path / "model.safetensors"
    )
    model = Folder(folder_of(tmp_path))
    assert model.config == {"model_type": "llama"}
    assert sorted(model) == ["a.weight", "b"]
    assert model["a.weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert np.array_equal(model.array("a.weight"), np.arange(6).reshape(2, 3))
    assert model.entries["b"].dtype is sm.bfloat16
    assert (model.tokenizer, model.tokenizer_config, model.generation_config, model.chat_template) == (None,) * 4
    with pytest.raises(KeyError):
        model["c"]


def test_a_model_in_shards(tmp_path: Path) -> None:
    model = Folder(sharded(tmp_path))
    assert {name: model[name].tolist()[0] for name in model} == {"a": [0, 0, 0], "b": [1, 1, 1]}
    assert {name: entry.shape for name, entry in model.entries.items()} == {"a": (2, 3), "b": (2, 3)}


def test_the_other_files_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    files = {"tokenizer_json": {"model": {"type": "BPE"}}, "tokenizer_config_json": {"eos_token": "</s>"}}
    model = Folder(folder_of(sharded(tmp_path), generation_config_json={"top_k": 3}, **files))
    assert model.tokenizer == {"model": {"type": "BPE"}}
    assert model.tokenizer_config == {"eos_token": "</s>"}
    assert model.generation_config == {"top_k": 3}
    assert model.chat_template is None


TEMPLATES: dict[str, tuple[dict[str, Any], str | None]] = {
    "own file": (
        {"chat_template_jinja": b"{{ \xc3\xbc }}", "tokenizer_config_json": {"chat_template": "x"}},
        "{{ ü }}",
    ),
    "in the config": ({"tokenizer_config_json": {"chat_template": "{{ x }}"}}, "{{ x }}"),
    "several": (
        {
            "tokenizer_config_json": {
                "chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
            }
        },
        "d",
    ),
    "none of several": ({"tokenizer_config_json": {"chat_template": [{"name": "rag", "template": "r"}]}}, None),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_of_chats(name: str, tmp_path: Path) -> None:
    files, wanted = TEMPLATES[name]
    assert Folder(folder_of(sharded(tmp_path), **files)).chat_template == wanted


BAD_TEXTS: dict[str, tuple[bytes, str]] = {
    "no json": (b"{", "cannot be read"),
    "no object": (b"[1]", "no object"),
    "twice": (b'{"a": 1, "a": 2}', "twice"),
    "nan": (b'{"a": NaN}', "NaN"),
    "deep": (b'{"a":' + b"[" * 100_000, "cannot be read"),
    "digits": (b'{"a":' + b"9" * 10_000 + b"}", "cannot be read"),
    "not utf-8": (b'{"a": "\xff"}', "cannot be read"),
    "half character": (b'{"a": "\\ud800"}', "cannot be read"),
    "half characters": (b'{"a": ["\\uDC00\\uDFFF"]}', "cannot be read"),
}


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_bad_texts_are_refused(name: str, tmp_path: Path) -> None:
    text, message = BAD_TEXTS[name]
    with pytest.raises(ParseError, match=rf"config\.json: .*{message}"):
        Folder(folder_of(sharded(tmp_path), config_json=text))
    model = Folder(folder_of(sharded(tmp_path), tokenizer_json=text, chat_template_jinja=b"\xff"))
    with pytest.raises(ParseError, match=rf"tokenizer\.json: .*{message}"):
        print(model.tokenizer)
    with pytest.raises(ParseError, match=r"chat_template\.jinja: .*UTF-8"):
        print(model.chat_template)


def test_whole_characters_may_be_written_by_halves(tmp_path: Path) -> None:
    model = Folder(folder_of(sharded(tmp_path), config_json=b'{"a": "\\ud83d\\ude00"}'))
    assert model.config == {"a": "😀"}


def test_texts_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smelt.formats.huggingface.LARGEST_TEXT", 10)
    with pytest.raises(ParseError, match="more than 10 bytes"):
        Folder(folder_of(tmp_path))


BAD_INDEXES: dict[str, tuple[Any, str]] = {
    "no map": ({}, "weight_map"),
    "list": ({"weight_map": ["a"]}, "weight_map"),
    "number": ({"weight_map": {"a": 1}}, "weight_map"),
    "absolute": ({"weight_map": {"a": "/etc/x.safetensors"}}, "plain names"),
    "above": ({"weight_map": {"a": "../x.safetensors"}}, "plain names"),
    "windows": ({"weight_map": {"a": "..\\x.safetensors"}}, "plain names"),
    "nul": ({"weight_map": {"a": "x\0.safetensors"}}, "plain names"),
    "dots": ({"weight_map": {"a": ".."}}, "plain names"),
    "pickle": ({"weight_map": {"a": "pytorch_model.bin"}}, "plain names"),
    "many": ({"weight_map": {str(n): f"{n}.safetensors" for n in range(2000)}}, "2000 files"),
    "not there": ({"weight_map": {**SHARDS, "c": SHARDS["b"]}}, "does not have 'c'"),
    "elsewhere": ({"weight_map": {"a": SHARDS["b"], "b": SHARDS["a"]}}, "does not expect there"),
    "unnamed": ({"weight_map": {"a": SHARDS["a"], "c": SHARDS["b"]}}, "does not expect there"),
}


@pytest.mark.parametrize("name", BAD_INDEXES)
def test_bad_indexes_are_refused(name: str, tmp_path: Path) -> None:
    index, message = BAD_INDEXES[name]
    with pytest.raises(ParseError, match=message):
        Folder(sharded(tmp_path, index))


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    both = {"weight_map": {**SHARDS, "c": SHARDS["a"]}}
    with pytest.raises(ParseError, match=r"model-00002-of-00002\.safetensors: it has 'c'"):
        Folder(sharded(tmp_path, both, c=sm.ones(1)))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "model.pt"])
def test_pickles_are_named_and_not_opened(name: str, tmp_path: Path) -> None:
    (folder_of(tmp_path) / name).write_bytes(b"\x80\x04")
    with pytest.raises(ParseError, match=rf"(?s){name}: .*Convert them to safetensors"):
        Folder(tmp_path)
    sm.save({"a": sm.ones(1)}, tmp_path / "model.safetensors")  # beside these they do not matter
    assert list(Folder(tmp_path)) == ["a"]


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="is no folder"):
        Folder(tmp_path / "nothing")
    with pytest.raises(MissingFileError, match=r"config\.json"):
        Folder(tmp_path)
    with pytest.raises(MissingFileError, match=r"neither model\.safetensors nor"):
        Folder(folder_of(tmp_path))
    (sharded(tmp_path) / SHARDS["b"]).unlink()
    with pytest.raises(MissingFileError, match=f"has no {SHARDS['b']}"):
        Folder(tmp_path)

"""Block formats and files beside the `gguf` package: the same bits, in both directions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt.formats import Folder, Gguf, write_gguf
from smelt.formats.blocks import BLOCKS

pytestmark = pytest.mark.peers

gguf: Any = pytest.importorskip("gguf", reason="peers: gguf is not installed")
quants: Any = pytest.importorskip("gguf.quants", reason="peers: gguf is not installed")

PACKED = [name for name, block in BLOCKS.items() if block.dtype is None]
BOTH_MAKE = ["BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]


def kind(name: str) -> Any:
    return gguf.GGMLQuantizationType[name]


def same_bits(ours: Any, theirs: Any) -> bool:
    """Whether arrays are equal bit for bit, but for the kind of NaN."""
    nan = np.isnan(theirs)
    return np.array_equal(nan, np.isnan(ours)) and np.array_equal(ours.view("i4")[~nan], theirs.view("i4")[~nan])


def test_the_table_is_theirs() -> None:
    for block in BLOCKS.values():
        assert kind(block.name).value == block.number
        assert gguf.GGML_QUANT_SIZES[kind(block.name)] == (block.size, block.nbytes)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("name", [*PACKED, "BF16"])
@pytest.mark.parametrize("seed", range(4))
def test_random_blocks_are_the_same_numbers(name: str, seed: int) -> None:
    block = BLOCKS[name]
    raw = np.random.default_rng(seed).integers(0, 256, (7, 100, block.nbytes), np.uint8)
    assert same_bits(block.dequantize(raw), quants.dequantize(raw.reshape(7, -1), kind(name)))


@pytest.mark.parametrize("name", BOTH_MAKE)
@pytest.mark.parametrize("power", [-4, 0, 3])
def test_blocks_that_are_made_are_the_same_bytes(name: str, power: int) -> None:
    block = BLOCKS[name]
    values = np.random.default_rng(power + 9).normal(size=(40, 512)).astype(np.float32) * np.float32(10.0**power)
    values[0, :100] = 0
    values[1] = np.round(values[1])  # ties
    assert np.array_equal(block.quantize(values).reshape(40, -1), quants.quantize(values, kind(name)))


def test_they_read_our_files(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    metadata = {"general.architecture": "llama", "n": 3, "f": 0.5, "words": ["a", "ü"], "types": [1, 2], "yes": True}
    tensors = {f"t.{name}": (name, random.normal(size=(3, 512)).astype(np.float32)) for name in BOTH_MAKE}
    tensors |= {"plain": ("F32", np.arange(6, dtype=np.float32).reshape(1, 2, 3))}
    write_gguf(tmp_path / "ours.gguf", metadata, tensors)
    theirs = gguf.GGUFReader(tmp_path / "ours.gguf")
    assert {name: theirs.fields[name].contents() for name in metadata} == metadata
    ours = Gguf(tmp_path / "ours.gguf")
    assert [tensor.name for tensor in theirs.tensors] == list(tensors)
    for tensor in theirs.tensors:
        assert tensor.tensor_type.name == ours.entries[tensor.name].block.name
        assert tuple(reversed(tensor.shape.tolist())) == ours.entries[tensor.name].shape
        assert tensor.data.tobytes() == ours.raw(tensor.name).tobytes()


def test_we_read_their_files(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(tmp_path / "theirs.gguf", "llama")
    writer.add_block_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_token_list(["a", "b", "ü"])
    writer.add_token_scores([0.5, 1.0, -1.0])
    writer.add_bool("yes", True)
    tensors = {name: quants.quantize(random.normal(size=(4, 256)).astype(np.float32), kind(name)) for name in BOTH_MAKE}
    for name, data in tensors.items():
        writer.add_tensor(name, data, raw_dtype=kind(name))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    ours = Gguf(tmp_path / "theirs.gguf")
    assert (ours.metadata["llama.block_count"], ours.metadata["yes"]) == (2, True)
    assert ours.metadata["llama.attention.layer_norm_rms_epsilon"] == np.float32(1e-5)
    assert ours.metadata["tokenizer.ggml.tokens"] == ["a", "b", "ü"]
    assert np.array_equal(ours.metadata["tokenizer.ggml.scores"], [0.5, 1.0, -1.0])
    for name, data in tensors.items():
        assert ours.entries[name].shape == (4, 256)
        assert same_bits(ours.array(name).astype(np.float32), quants.dequantize(data, kind(name)))


def test_we_read_their_split_files(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama", split_max_tensors=2)
    for number in range(5):
        writer.add_tensor(f"x{number}", np.full((2, 3), number, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    ours = Gguf(tmp_path / "model-00001-of-00003.gguf")
    assert [float(ours.array(f"x{number}")[1, 2]) for number in range(5)] == [0, 1, 2, 3, 4]


def test_we_read_folders_of_transformers(tmp_path: Path) -> None:
    transformers: Any = pytest.importorskip("transformers", reason="peers: transformers is not installed")
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4
    )
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(tmp_path / "whole")
    model.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    for name in ("whole", "shards"):
        folder = Folder(tmp_path / name)
        assert (folder.config["model_type"], folder.config["num_hidden_layers"]) == ("llama", 2)
        assert folder.generation_config is not None
        theirs = model.state_dict()
        assert set(folder) == set(theirs)
        assert all(np.array_equal(folder.array(name), theirs[name].numpy()) for name in folder)

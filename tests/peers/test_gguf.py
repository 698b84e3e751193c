"""Block formats and files beside the `gguf` package: the same bits, in both directions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm
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


# What llama.cpp rounds the inputs of a format's products to; blocks of 256 take one scale for all.
WITH_SUMS = ("Q4_1", "Q5_1")


def rounded_as_by_llama_cpp(x: Any, name: str) -> Any:
    """Inputs as its products of bytes see them, and for formats with minimums of their own the sums of their blocks."""
    if BLOCKS[name].size == 256:
        blocks = x.reshape(len(x), -1, 256)
        largest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1, keepdims=True), -1)
        inverse = np.float32(-127) / largest
        codes = np.minimum(np.rint(inverse * blocks), 127)
        found = codes.astype(np.float64) / inverse.astype(np.float64)
        return found.reshape(x.shape), None
    blocks = x.reshape(len(x), -1, 32)
    step = np.abs(blocks).max(-1, keepdims=True) / np.float32(127)
    scaled = blocks * (np.float32(1) / step)
    codes = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))
    sums = (codes.sum(-1, keepdims=True) * step).astype(np.float16) if name in WITH_SUMS else None
    return (codes * step.astype(np.float16).astype(np.float64)).reshape(x.shape), sums


def random_weights(name: str, rows: int, columns: int, random: Any) -> Any:
    """Blocks of usual numbers: made where smelt can make them, else any codes with the same scales."""
    block = BLOCKS[name]
    if block.fit is not None:
        return block.quantize(random.normal(size=(rows, columns)).astype(np.float32)).reshape(rows, -1)
    raw = random.integers(0, 256, (rows, columns // block.size, block.nbytes), np.uint8)
    for at in {"Q2_K": (80, 82), "Q3_K": (108,)}.get(name, (0,)):
        raw[..., at : at + 2] = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
    return raw.reshape(rows, -1)


@pytest.mark.parametrize("spread", [0.0, 1.0])
@pytest.mark.parametrize("name", PACKED)
def test_products_are_as_near_as_those_of_llama_cpp(name: str, spread: float) -> None:
    """Of both ways of rounding inputs, the distance to exact products of the same codes; and of none at all."""
    random, block = np.random.default_rng(3), BLOCKS[name]
    raw = random_weights(name, 96, 1024, random)
    weights = quants.dequantize(raw, kind(name)).astype(np.float64)
    x = random.normal(size=(8, 1024)) * np.exp(spread * random.normal(size=1024))  # some inputs are larger
    x = x.astype(np.float32)
    exact = x.astype(np.float64) @ weights.T

    def distance(found: Any) -> float:
        return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))

    seen, sums = rounded_as_by_llama_cpp(x, name)
    if sums is None:
        theirs = distance(seen @ weights.T)
    else:  # codes times scales, and minimums times sums that are rounded to half precision
        minimum = block.apart(raw).minimum.astype(np.float64)
        centered = weights - np.repeat(minimum, 32, axis=1)
        theirs = distance(seen @ centered.T + sums[..., 0].astype(np.float64) @ minimum.T)
    layer = sm.nn.QuantizedLinear(sm.nn.QuantizedWeight(*block.apart(raw)))
    ours = distance(layer(sm.asarray(x)).numpy())
    layer.exact = True
    unrounded = distance(layer(sm.asarray(x)).numpy())
    print(f"{name}, spread {spread}: {ours:.2e}, llama.cpp {theirs:.2e} ({ours / theirs:.2f} x), exact {unrounded:.1e}")
    assert ours <= 1.2 * theirs
    assert unrounded <= 1e-5

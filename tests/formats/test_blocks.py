"""Numbers in blocks: where their bits lie, and what comes back. `tests/peers/test_gguf.py` compares with GGUF's own."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.formats.blocks import BLOCKS, BY_NUMBER

ONE, HALF = (0x00, 0x3C), (0x00, 0x38)  # in half precision
MADE = [name for name, block in BLOCKS.items() if block.fit is not None]
# How far a number may be from what it was, as a share of its block's range, 0 included.
ERRORS = {"Q4_0": 1 / 16, "Q4_1": 1 / 30, "Q5_0": 1 / 32, "Q5_1": 1 / 62, "Q8_0": 1 / 254}
ERRORS |= {"Q4_K": 1 / 18, "Q5_K": 1 / 28, "Q6_K": 1 / 48}  # scales of groups are rounded, too


class Golden(NamedTuple):
    """Bytes of a block by where they are, all others 0; and some of its numbers by where they are."""

    raw: dict[int, tuple[int, ...]]
    values: dict[int, float]


GOLDEN = {
    "F32": Golden({0: (0, 0, 0x80, 0x3F)}, {0: 1.0}),
    "F16": Golden({0: (1, 0)}, {0: 2.0**-24}),
    "BF16": Golden({0: (0x80, 0xBF)}, {0: -1.0}),
    "I16": Golden({0: (0xFE, 0xFF)}, {0: -2.0}),
    "Q4_0": Golden({0: HALF, 2: (0x1F,), 17: (0x80,)}, {0: 3.5, 16: -3.5, 1: -4.0, 15: -4.0, 31: 0.0}),
    "Q4_1": Golden({0: (*HALF, *ONE), 4: (0x1F,)}, {0: 8.5, 16: 1.5, 1: 1.0}),
    "Q5_0": Golden({0: HALF, 2: (1, 2, 0, 0x80), 6: (0x1F,)}, {0: 7.5, 16: -7.5, 9: 0.0, 31: 0.0, 1: -8.0}),
    "Q5_1": Golden({0: (*HALF, *ONE), 4: (1, 2, 0, 0x80), 8: (0x1F,)}, {0: 16.5, 16: 1.5, 9: 9.0, 31: 9.0, 1: 1.0}),
    "Q8_0": Golden({0: HALF, 2: (0xFF, 3, 0x80), 33: (0x7F,)}, {0: -0.5, 1: 1.5, 2: -64.0, 31: 63.5, 3: 0.0}),
    "Q2_K": Golden(
        {0: (0x21, 0x01, 0x03), 8: (0x02,), 16: (0xE7,), 32: (1,), 48: (2,), 80: (*ONE, *HALF)},
        {0: 3 - 1.0, 1: -1.0, 16: 1.0, 32: 1 * 3.0, 64: 0.0, 128: 2 * 2.0},
    ),
    "Q3_K": Golden(
        {0: (1, 0, 0x10), 32: (3,), 66: (1,), 96: (0x01,), 104: (0x02,), 108: ONE},
        {0: 3.0 * 1, 1: -4.0 * 1, 16: -4.0 * -32, 128: -4.0 * -32, 130: 1.0 * -32},
    ),
    "Q4_K": Golden(
        {0: (*ONE, *HALF), 4: (1 | 0x40, 2, 0, 0, 7, 0, 0, 0, 0x23), 16: (0x53,), 80: (0x09,)},
        {0: 3 - 3.5, 32: 10.0, 1: -3.5, 128: (16 + 3) * 9 - 1.0, 129: -1.0, 160: 0.0},
    ),
    "Q5_K": Golden(
        {0: (*ONE, *HALF), 4: (1 | 0x40, 2, 0, 0, 7, 0, 0, 0, 0x23), 16: (0x11,), 48: (0x53,), 112: (0x09,)},
        {0: 19 - 3.5, 32: 10.0, 1: -3.5, 128: (16 + 3) * 25 - 1.0, 129: -1.0, 160: 0.0},
    ),
    "Q6_K": Golden(
        {0: (0x21,), 128: (0x39,), 192: (1, 1, 0xFF, 1, 2), 208: HALF},
        {0: (17 - 32) / 2, 1: -16.0, 32: (32 - 32) / 2, 33: 16.0, 64: 2 + 48 - 32.0, 96: 0.0},
    ),
    "IQ4_NL": Golden({0: ONE, 2: (0xF8,)}, {0: 1.0, 16: 113.0, 1: -127.0}),
    "IQ4_XS": Golden(
        {0: ONE, 2: (0x02, 0x80), 4: (0x31, 0, 0, 0x40), 8: (0xF8,), 120: (0x08,)},
        {0: 1.0 * 1, 16: 113.0, 32: -127.0 * (3 - 32), 224: 1.0 * (36 - 32), 240: -127.0 * 4},
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_bits_are_where_the_format_has_them(name: str) -> None:
    block = BLOCKS[name]
    raw = np.zeros((1, block.nbytes), np.uint8)
    for at, part in GOLDEN[name].raw.items():
        raw[0, at : at + len(part)] = part
    values = block.dequantize(raw)
    assert values.shape == (block.size,)
    assert values.dtype == np.float32
    assert {at: float(values[at]) for at in GOLDEN[name].values} == GOLDEN[name].values


def test_rows_have_numbers_and_names_of_their_own() -> None:
    assert len(BY_NUMBER) == len(BLOCKS)
    for block in BLOCKS.values():
        assert all(field.groups * field.width * 8 // field.bits == block.size for field in block.fields)


@pytest.mark.parametrize("name", BLOCKS)
def test_many_blocks_are_as_one_by_one(name: str) -> None:
    block = BLOCKS[name]
    raw = np.random.default_rng(0).integers(0, 256, (2, (1 << 16) // block.size + 3, block.nbytes), np.uint8)
    values = block.dequantize(raw)
    assert values.shape == (2, raw.shape[1] * block.size)
    for at in (0, raw.shape[1] - 1):
        one = block.dequantize(raw[1, at : at + 1])
        assert np.array_equal(values[1, at * block.size : (at + 1) * block.size], one, equal_nan=True)


@pytest.mark.parametrize("half", [1, 0x3FF, 0x400, 0x8001], ids=hex)
def test_small_scales_are_widened_exactly(half: int) -> None:
    raw = np.zeros((1, 34), np.uint8)
    raw[0, :3] = half & 255, half >> 8, 1
    exact = np.array(half, np.uint16).view(np.float16)
    assert BLOCKS["Q8_0"].dequantize(raw)[0] == np.float64(exact)


@pytest.mark.parametrize("name", MADE)
@given(seed=st.integers(0, 999), power=st.integers(-3, 3), shift=st.sampled_from([0.0, 1.0, -3.0]))
def test_numbers_come_back_near_to_what_they_were(name: str, seed: int, power: int, shift: float) -> None:
    block = BLOCKS[name]
    values = np.random.default_rng(seed).normal(shift, 1, (2, 2 * block.size)).astype(np.float32) * 10.0**power
    back = block.dequantize(block.quantize(values))
    far = np.abs(back - values).reshape(-1, block.size).max(axis=1)
    rows = values.reshape(-1, block.size)
    spread = np.maximum(rows.max(axis=1), 0) - np.minimum(rows.min(axis=1), 0)
    assert (far <= spread * (ERRORS[name] + 2**-10)).all()  # scales and minimums are halves


@pytest.mark.parametrize("name", ["F32", "F64", "I8", "I64", "F16", "BF16"])
def test_plain_numbers_come_back(name: str) -> None:
    values = np.arange(-4, 4).reshape(2, 4)
    assert BLOCKS[name].dequantize(BLOCKS[name].quantize(values)).tolist() == values.tolist()


@pytest.mark.parametrize("name", MADE)
def test_zeros_stay_zeros_and_the_tiniest_numbers_do_no_harm(name: str) -> None:
    block = BLOCKS[name]
    for value in (0.0, 1e-45, -1e-40, 1e-30):
        back = block.dequantize(block.quantize(np.full(block.size, value, np.float32)))
        assert np.abs(back).max() <= abs(value)


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_what_has_no_scale_is_refused(name: str, value: float) -> None:
    values = np.zeros(BLOCKS[name].size, np.float32)
    values[3] = value
    with pytest.raises(ArgumentError, match="not finite"):
        BLOCKS[name].quantize(values)


MISTAKES: dict[str, tuple[Any, Any, str]] = {
    "row": (lambda: BLOCKS["Q4_0"].quantize(np.zeros(33)), ShapeError, "multiples of 32"),
    "scalar": (lambda: BLOCKS["F32"].quantize(np.zeros(())), ShapeError, "multiples of 1"),
    "only read": (lambda: BLOCKS["Q2_K"].quantize(np.zeros(256)), DTypeError, "can be made of Q4_0"),
    "bytes": (lambda: BLOCKS["Q4_0"].dequantize(np.zeros((1, 17), np.uint8)), ShapeError, "blocks, 18"),
    "dtype": (lambda: BLOCKS["Q4_0"].dequantize(np.zeros((1, 18), np.int8)), ShapeError, "uint8"),
    "rank": (lambda: BLOCKS["Q4_0"].dequantize(np.zeros(18, np.uint8)), ShapeError, "blocks, 18"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    call, error, text = MISTAKES[name]
    with pytest.raises(error, match=text):
        call()

"""Casts round once, saturate, and know NaN; bitcasts keep bits."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import smelt as sm
from smelt import dtypes
from smelt.dtypes import DType
from smelt.graph.interpret import interpret

SHORT = (dtypes.float16, dtypes.bfloat16)


def nearest(value: float | int, dtype: DType) -> float:
    """The number of a 16-bit dtype nearest to a number, ties to even, by exact arithmetic."""
    if isinstance(value, float) and not np.isfinite(value):
        return value
    infinity = 0x7C00 if dtype is dtypes.float16 else 0x7F80
    table = np.arange(infinity, dtype=np.uint16).view(dtype.numpy).astype(np.float64)
    size = abs(Fraction(value))
    beyond = 2 * Fraction(table[-1]) - Fraction(table[-2])
    at = int(np.searchsorted(table, float(size)))
    places = [j for j in range(at - 2, at + 2) if 0 <= j <= infinity]
    best = min(places, key=lambda j: (abs((Fraction(table[j]) if j < infinity else beyond) - size), j % 2))
    return float(np.copysign(table[best] if best < infinity else np.inf, value))


def results(x: NDArray[Any], dtype: DType) -> list[NDArray[Any]]:
    """The cast of an array, compiled and interpreted."""
    tensor = sm.from_numpy(x).astype(dtype)
    reference = interpret([tensor._node], lambda leaf: leaf.attribute.numpy())[0]
    return [tensor.numpy(), reference]


@pytest.mark.parametrize("dtype", SHORT, ids=str)
def test_float64_to_16_bits_rounds_once(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    digits = 2.0 ** -(11 if dtype is dtypes.float16 else 8)
    # just above and below halves between two numbers: float32 in between would make them ties
    ties = (1 + digits * (1 + 2 * rng.integers(0, 100, 40))) * (1 + rng.choice([-1, 1], 40) * 2.0**-45)
    spread = np.exp2(rng.uniform(-140, 130, 100)) * rng.choice([-1, 1], 100)
    edges = [0.0, -0.0, np.inf, -np.inf, 65519.99999999999, 65520.0, 2.0**-25, 2.0**-25 * (1 + 2.0**-40), 1e300, 5e-324]
    x = np.concatenate([ties, spread, edges])
    wanted = np.array([nearest(float(v), dtype) for v in x])
    for got in results(x, dtype):
        wide = got.astype(np.float64)
        assert np.array_equal(wide, wanted)
        assert np.array_equal(np.signbit(wide), np.signbit(wanted))


@pytest.mark.parametrize("source", [dtypes.int32, dtypes.int64, dtypes.uint32, dtypes.uint64], ids=str)
def test_integers_to_16_bits_round_once(source: DType) -> None:
    rng = np.random.default_rng(1)
    places = [int(k) for k in rng.integers(9, source.bits - 2, 60)]
    sign = -1 if source.is_signed else 1
    ties = [(1 << k) + (1 << (k - 8)) + int(extra) for k, extra in zip(places, rng.integers(-1, 2, 60), strict=True)]
    x = np.array([*ties, *(sign * v for v in ties), source.maximum, source.minimum, 0, 1], source.numpy)
    for dtype in SHORT:
        wanted = [nearest(int(v), dtype) for v in x]
        for got in results(x, dtype):
            assert got.astype(np.float64).tolist() == wanted


@pytest.mark.parametrize("dtype", dtypes.INTEGERS, ids=str)
def test_floats_to_integers_saturate_and_nan_is_zero(dtype: DType) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 1.9, -1.9, -0.0])
    low, high = int(dtype.minimum), int(dtype.maximum)
    for got in results(x, dtype):
        assert got.tolist() == [0, high, low, high, low, 1, max(low, -1), 0]


@pytest.mark.parametrize("dtype", SHORT, ids=str)
def test_every_number_of_16_bits_keeps_its_bits(dtype: DType) -> None:
    bits = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    with np.errstate(invalid="ignore"):  # some of NaN's codes are signals
        bits = bits[~np.isnan(bits.view(dtype.numpy))]
    assert np.array_equal(sm.from_numpy(bits.view(dtype.numpy)).view(sm.uint16).numpy(), bits)
    assert np.array_equal(sm.from_numpy(bits).view(dtype).numpy().view(np.uint16), bits)


def test_what_is_widened_signals_nothing() -> None:
    """NumPy warns of signaling NaN on some processors, whenever such an array is computed with."""
    halves = np.arange(0x7C01, 0x8000, dtype=np.uint16).view(np.float16)
    quarters = np.array([0x7D, 0x7E, 0x7F], np.uint8).view(sm.float8_e5m2.numpy)
    for codes in (halves, quarters):
        bits = sm.from_numpy(codes).astype(sm.float32).view(sm.uint32).numpy()
        assert (bits >> 22 == 0x1FF).all()


def test_view_takes_a_shape_or_a_dtype() -> None:
    x = sm.arange(6, dtype=sm.float32)
    assert x.view(2, 3).shape == (2, 3)
    assert x.view((3, 2)).shape == (3, 2)
    assert x.view(sm.int32).dtype is sm.int32


def test_bools_are_bytes_of_zero_and_one() -> None:
    assert sm.asarray([True, False]).view(sm.uint8).tolist() == [1, 0]
    assert sm.asarray([True, False]).view(sm.int8).tolist() == [1, 0]

"""8-bit floats and 4-bit integers: every code, every rounding, what moves them, and what refuses them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import dtypes
from smelt.dtypes import DType, as_dtype
from smelt.errors import DTypeError

FLOAT8 = (sm.float8_e4m3fn, sm.float8_e5m2)
INT4 = (sm.int4, sm.uint4)
Array = np.ndarray[Any, Any]

storage = pytest.mark.parametrize("dtype", dtypes.STORAGE, ids=str)
float8 = pytest.mark.parametrize("dtype", FLOAT8, ids=str)
int4 = pytest.mark.parametrize("dtype", INT4, ids=str)


def codes(dtype: DType) -> Array:
    """Every value of a dtype."""
    return np.arange(256 if dtype.is_float else 16, dtype=np.uint8).view(dtype.numpy)


def same(got: Array, expected: Array) -> bool:
    """Equal values, NaN and the sign of zero included."""
    a, b = got.astype(np.float64), expected.astype(np.float64)
    return got.shape == expected.shape and bool(
        (((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))).all()
    )


def numbers() -> Array:
    """float32 numbers around every value, every half between two, the smallest, the largest and the special ones."""
    rng = np.random.default_rng(0)
    exact = np.concatenate([codes(dtype).astype(np.float32) for dtype in FLOAT8])
    exact = np.unique(exact[np.isfinite(exact)])
    halves = (exact[1:] + exact[:-1]) / 2
    middle = np.concatenate([exact, halves])
    near = [np.nextafter(middle, np.float32(side)) for side in (-np.inf, np.inf)]
    special = np.array(
        [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 3e38, -3e38, 480, 500, 511], np.float32
    )
    random = rng.integers(0, 2**32, 20_001, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        return np.concatenate([middle, *near, special, random, rng.normal(size=2001).astype(np.float32) * 50])


@storage
@pytest.mark.parametrize("target", dtypes.ALL, ids=str)
@pytest.mark.by_turns(3)
def test_every_code_widens(dtype: DType, target: DType) -> None:
    x = codes(dtype)
    wide = x.astype(np.float32) if dtype.is_float else x.astype(np.int32)
    expected = dtypes.cast_array(wide, target)
    assert same(sm.from_numpy(x).astype(target).numpy(), expected)


@float8
@pytest.mark.parametrize("source", dtypes.FLOATS, ids=str)
def test_floats_round_as_in_ml_dtypes(dtype: DType, source: DType) -> None:
    with np.errstate(all="ignore"):
        x = numbers().astype(source.numpy)
        expected = x.astype(np.float32).astype(dtype.numpy)
    assert same(sm.from_numpy(x).astype(dtype).numpy(), expected)


@float8
def test_float64_rounds_as_in_ml_dtypes(dtype: DType) -> None:
    x = np.random.default_rng(1).normal(size=10_007) * 30
    assert same(sm.from_numpy(x).astype(dtype).numpy(), x.astype(dtype.numpy))


def test_what_is_too_large() -> None:
    x = sm.asarray([464.0, 465.0, -1e9, float("inf")])
    assert x.astype(sm.float8_e4m3fn).numpy().view(np.uint8).tolist() == [0x7E, 0x7F, 0xFF, 0x7F]
    x = sm.asarray([61439.0, 61440.0, -1e9, float("inf")])
    assert x.astype(sm.float8_e5m2).tolist() == [57344.0, float("inf"), float("-inf"), float("inf")]


def test_integers_wrap_and_floats_saturate() -> None:
    x = np.arange(-40, 40)
    for source in dtypes.INTEGERS:
        given = sm.from_numpy(x.astype(source.numpy))
        assert given.astype(sm.uint4).tolist() == (x & 15).tolist()
        assert given.astype(sm.int4).tolist() == ((x + 8 & 15) - 8).tolist()
    values = sm.asarray([-99.0, -8.9, -1.5, 7.9, 99.0, float("nan"), float("inf")])
    assert values.astype(sm.int4).tolist() == [-8, -8, -1, 7, 7, 0, 7]
    assert values.astype(sm.uint4).tolist() == [0, 0, 0, 7, 15, 0, 15]


@int4
def test_memory_is_that_of_ml_dtypes(dtype: DType) -> None:
    values = np.array([1, 7, -1 if dtype.is_signed else 15, 0])
    stored = sm.asarray(values, dtype=dtype)
    assert stored.nbytes == 4
    assert stored.numpy().view(np.uint8).tolist() == values.astype(dtype.numpy).view(np.uint8).tolist()
    unclean = np.array([0xF3, 0x8F], np.uint8).view(dtype.numpy)
    assert sm.from_numpy(unclean).astype(sm.int32).tolist() == [3, -1 if dtype.is_signed else 15]


@storage
@pytest.mark.by_turns(2)
def test_movement(dtype: DType) -> None:
    x = codes(dtype)[:12].reshape(3, 4)
    t = sm.from_numpy(x)
    assert same((t.T)[1:].numpy(), x.T[1:])
    assert same(sm.flip(t, axis=1).numpy(), x[:, ::-1])
    assert same(sm.concat([t, t], axis=0).numpy(), np.concatenate([x, x]))
    assert same(sm.where(sm.asarray([True, False, True, False]), t, t[0]).numpy(), np.where([1, 0, 1, 0], x, x[0]))
    assert same(sm.pad(t, ((1, 0), (0, 2))).numpy(), np.pad(x, ((1, 0), (0, 2))))
    assert same(
        sm.random.choice(t, (2,), key=sm.random.key(0)).numpy(),
        x[sm.random.choice(3, (2,), key=sm.random.key(0)).numpy()],
    )
    assert same(sm.zeros((0, 2), dtype=dtype).numpy(), np.zeros((0, 2), dtype.numpy))
    assert same(sm.full((), 3, dtype=dtype).numpy(), np.full((), 3).astype(dtype.numpy))


@storage
def test_products_have_a_wider_sum(dtype: DType) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(0, 8, shape).astype(dtype.numpy) for shape in ((5, 37), (37, 11)))
    product = sm.from_numpy(a) @ sm.from_numpy(b)
    assert product.dtype is (sm.float32 if dtype.is_float else sm.int32)
    assert np.array_equal(product.numpy(), a.astype(np.int64) @ b.astype(np.int64))


@storage
def test_through_a_fused_kernel(dtype: DType) -> None:
    x = np.linspace(-9, 17, 131, dtype=np.float32)
    wide = (sm.from_numpy(x) * 1.5).astype(dtype).astype(sm.float32) + 1
    assert same(wide.numpy(), dtypes.cast_array(x * np.float32(1.5), dtype).astype(np.float32) + 1)


@storage
def test_arithmetic_is_refused(dtype: DType) -> None:
    x = sm.zeros((2,), dtype=dtype)
    for mistake in (
        lambda: x + x,
        lambda: x * 2,
        lambda: -x,
        lambda: x < 1,
        x.sum,
        x.max,
        lambda: x + sm.ones((2,)),
        lambda: x / x,
        x.mean,
        lambda: x.softmax(-1),
        lambda: sm.lerp(x, x, x),
        lambda: sm.cumsum(x),
        lambda: sm.random.normal((2,), dtype=dtype),
    ):
        with pytest.raises(DTypeError) as caught:
            mistake()
        assert "test_storage_dtypes.py" in str(caught.value)
    with pytest.raises(DTypeError, match="astype"):
        _ = x + x
    with pytest.raises(DTypeError, match="no common"):
        sm.result_type(dtype, sm.float32)


@storage
def test_questions(dtype: DType) -> None:
    assert as_dtype(dtype.name) is dtype and as_dtype(dtype.numpy) is dtype and sm.result_type(dtype, dtype) is dtype
    assert repr(dtype) == f"smelt.{dtype.name}"
    assert not sm.isdtype(dtype, "numeric") and sm.isdtype(dtype, dtype)
    limits = sm.finfo(dtype) if dtype.is_float else sm.iinfo(dtype)
    values = codes(dtype).astype(np.float64)
    assert limits.max == values[np.isfinite(values)].max() and limits.min == values[np.isfinite(values)].min()
    if not dtype.is_float:  # the protocol knows 8-bit floats
        with pytest.raises((DTypeError, BufferError)):
            sm.zeros((2,), dtype=dtype).__dlpack__()
    assert dtype.name in repr(sm.zeros((2,), dtype=dtype)) and "1" in str(sm.ones((2,), dtype=dtype))

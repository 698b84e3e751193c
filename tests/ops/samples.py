"""Inputs for the op table: shapes and values that nobody tuned for, the same in every run."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from smelt.dtypes import DType

Array = NDArray[Any]


class Sample(NamedTuple):
    """The arguments of one call. Arrays stand for tensors; the reference gets them with wider floats."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def call(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


def values(dtype: DType, *shape: int, low: float = -4.0, high: float = 4.0) -> Array:
    """Ordinary numbers, which depend on the shape and dtype only."""
    generator = np.random.default_rng(zlib.crc32(f"{dtype}{shape}{low}{high}".encode()))
    if dtype.is_bool:
        return generator.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_integer:
        first = max(int(low), int(dtype.minimum))
        return generator.integers(first, int(high) + 1, shape).astype(dtype.numpy)
    return generator.uniform(low, high, shape).astype(dtype.numpy)


def special(dtype: DType) -> Array:
    """The numbers at which formulas break."""
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_integer:
        numbers = [dtype.minimum, int(dtype.minimum) + 1, 0, 1, 2, 3, 7, int(dtype.maximum) - 1, dtype.maximum]
        return np.array(numbers + ([-1, -2, -3] if dtype.is_signed else []), dtype.numpy)
    limits = ml_dtypes.finfo(dtype.numpy)
    small, large = float(limits.smallest_normal), float(dtype.maximum)
    numbers = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 11.0, 88.0, small, 3 * small, large, np.inf]
    return np.array([*numbers, *(-n for n in numbers), np.nan]).astype(dtype.numpy)


def strided(dtype: DType, *shape: int, **bounds: float) -> Array:
    """An array whose axes are reversed, skipping and in the wrong order in memory."""
    large = values(dtype, *(2 * size for size in reversed(shape)), **bounds)
    steps = [slice(None, None, 2) if axis % 2 else slice(None, None, -2) for axis in range(len(shape))]
    return large[tuple(steps)].transpose()


def repeated(dtype: DType, *shape: int) -> Array:
    """An array that shows the same elements many times."""
    return np.broadcast_to(values(dtype, *shape[-1:]), shape)


def as_real(x: Array) -> Array:
    """Floats as they are, others by way of float32: what functions of real numbers make of their arguments."""
    return x if x.dtype.kind == "f" else x.astype(np.float32).astype(np.float64)


Samples = Callable[[DType], list[Sample]]


def one(dtype: DType, **bounds: float) -> list[Sample]:
    """Calls of a function of one tensor."""
    shapes: Sequence[tuple[int, ...]] = [(), (0,), (3, 0, 2), (1,), (7, 11), (2, 3, 5, 1), (1031,)]
    arrays = [values(dtype, *shape, **bounds) for shape in shapes]
    if not bounds:
        arrays.append(special(dtype))
    return [call(x) for x in [*arrays, strided(dtype, 5, 3, 7, **bounds), repeated(dtype, 4, 13)]]


def two(dtype: DType, **bounds: float) -> list[Sample]:
    """Calls of a function of two tensors, with every kind of broadcasting."""
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((), ()),
        ((5,), ()),
        ((0,), (1,)),
        ((0, 3), (3,)),
        ((7, 11), (7, 11)),
        ((3, 1), (1, 7)),
        ((2, 3, 5), (3, 1)),
        ((1,), (2, 1, 3, 1, 1, 2)),
    ]
    # The other operand comes from other bounds, so that equal shapes do not give equal numbers.
    low, high = bounds.get("low", -4.0), bounds.get("high", 4.0)
    pairs = [(values(dtype, *a, low=low, high=high), values(dtype, *b, low=low, high=high + 1)) for a, b in shapes]
    pairs.append((strided(dtype, 5, 3, low=low, high=high), values(dtype, 5, 3, low=low, high=high)))
    if not bounds:
        pairs.append((special(dtype)[:, None], special(dtype)))
    return [call(a, b) for a, b in pairs]


def folds(dtype: DType, *, empty: bool = True, **bounds: float) -> list[Sample]:
    """Calls of a reduction: all axes, one, several, none left, kept or not."""
    x = values(dtype, 5, 1, 7, 3, **bounds)
    calls = [
        call(values(dtype, **bounds)),
        call(x),
        call(x, axis=0),
        call(x, axis=-1, keepdims=True),
        call(x, axis=(1, 3)),
        call(x, axis=(0, 1, 2, 3), keepdims=True),
        call(x, axis=()),
        call(strided(dtype, 4, 5, 6, **bounds), axis=1),
        call(values(dtype, 3, 1031, **bounds), axis=1),
        call(values(dtype, 1031, 3, **bounds), axis=0),
        call(values(dtype, 3, 0, **bounds), axis=0),
    ]
    if empty:
        calls += [call(values(dtype, 0, **bounds)), call(values(dtype, 3, 0, 2, **bounds), axis=1)]
    return calls


def fold_specials(dtype: DType) -> list[Sample]:
    """Reductions that meet NaN, infinities and extreme values."""
    x = special(dtype)
    rows = np.stack([np.roll(x, shift)[:3] for shift in range(len(x))])
    return [call(rows, axis=1), call(x)]

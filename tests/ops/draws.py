"""Random numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import smelt as sm
from smelt import dtypes
from smelt.dtypes import DType
from smelt.errors import ArgumentError, DTypeError, ShapeError
from tests.ops.samples import (
    Array,
    Sample,
    Samples,
    call,
)
from tests.ops.spec import (
    FLOATS,
    INTEGERS,
    OpSpec,
    Tolerance,
    too_large,
    wrong,
    zeros,
)

# --- random numbers


def threefry(key: Array, first: Any, second: Any) -> tuple[Array, Array]:
    """threefry2x32 with 20 rounds, written out."""
    with np.errstate(over="ignore"):
        keys = [np.uint32(key[0]), np.uint32(key[1]), np.uint32(key[0]) ^ np.uint32(key[1]) ^ np.uint32(0x1BD11BDA)]
        x, y = np.uint32(first) + keys[0], np.uint32(second) + keys[1]
        for group in range(5):
            for distance in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
                x = x + y
                y = (y << np.uint32(distance) | y >> np.uint32(32 - distance)) ^ x
            x = x + keys[(group + 1) % 3]
            y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
        return x, y


def drawn(shape: Any, key: Array) -> tuple[Array, Array]:
    shape = shape if isinstance(shape, tuple) else (shape,)
    x, y = threefry(key, np.arange(math.prod(shape), dtype=np.uint32), np.zeros((), np.uint32))
    return x.reshape(shape), y.reshape(shape)


def words(shape: Any, key: Array) -> Array:
    x, y = drawn(shape, key)
    return x.astype(np.uint64) | y.astype(np.uint64) << np.uint64(32)


PRECISION = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def uniform(shape: Any = (), low: float = 0.0, high: float = 1.0, *, dtype: DType, key: Array) -> Array:
    kept_bits = PRECISION[dtype.name]
    whole = words(shape, key) >> np.uint64(11) if kept_bits == 53 else drawn(shape, key)[0] >> np.uint32(32 - kept_bits)
    return low + whole.astype(np.float64) * 2.0**-kept_bits * (high - low)


def normal(shape: Any = (), mean: float = 0.0, std: float = 1.0, *, dtype: DType, key: Array) -> Array:
    x, y = drawn(shape, key)
    precise = np.float64 if dtype is dtypes.float64 else np.float32
    share = ((x.astype(precise) + precise(0.5)) * precise(2.0**-32)).astype(np.float64)
    turn = (y >> np.uint32(8)).astype(np.float64) * 2.0**-24
    return mean + std * np.sqrt(-2 * np.log(share)) * np.cos(2 * np.pi * turn)


def bits(shape: Any = (), *, dtype: DType, key: Array) -> Array:
    return words(shape, key) if dtype.bits == 64 else drawn(shape, key)[0].astype(dtype.numpy)


def randint(low: int, high: int, shape: Any = (), *, dtype: DType, key: Array) -> Array:
    span = high - low
    if span > 2**32:
        offsets = [int(word) % span for word in words(shape, key).reshape(-1)]
    else:
        offsets = [int(word) * span >> 32 for word in drawn(shape, key)[0].reshape(-1)]
    whole = np.array([low + offset for offset in offsets], dtype=object)
    return whole.astype(dtype.numpy).reshape(shape)


def draws(*arguments: Sample) -> Samples:
    def samples(dtype: DType) -> list[Sample]:
        keys = [np.array([0, 0], np.uint32), np.array([0x13198A2E, 0x03707344], np.uint32)]
        return [call(*s.args, **s.kwargs, dtype=dtype, key=keys[i % 2]) for i, s in enumerate(arguments)]

    return samples


UNSIGNED = tuple(d for d in INTEGERS if not d.is_signed)
BAD_KEY = wrong(ArgumentError, "a key is float32(2,)", (2,), key=zeros(2))
TOO_MANY = wrong(ShapeError, "shape (131072, 131072) has more than 2**32 elements", (2**17, 2**17))
NEGATIVE = wrong(ShapeError, "a size is negative", (2, -1))
LOWS = np.array([0.5, 1.0, 0.0, 3.0, -0.25], np.float32)
KEY_TENSOR = np.array([3, 5], np.uint32)

RANDOM = [
    OpSpec(
        "random.bits",
        bits,
        draws(call((3, 5)), call(()), call(7), call((0, 2)), call((1031,))),
        UNSIGNED,
        errors=[
            BAD_KEY,
            TOO_MANY,
            NEGATIVE,
            wrong(DTypeError, "must be an unsigned integer", (2,), dtype=sm.int32),
        ],
    ),
    OpSpec(
        "random.uniform",
        uniform,
        draws(call((3, 5)), call(()), call(7), call((1031,))),
        FLOATS,
        errors=[
            BAD_KEY,
            wrong(DTypeError, "must be a float", (2,), dtype=sm.int32),
            TOO_MANY,
            NEGATIVE,
            wrong(ArgumentError, "low is 2 and high is 1", (2,), 2, 1),
            too_large("high", (2,)),
        ],
    ),
    OpSpec(
        "random.uniform",
        uniform,
        draws(call((31,), -2.0, 5.0), call((3, 5), 0, 8.0), call((3, 5), LOWS, 8.0), call((3, 5), -1.0, LOWS)),
        FLOATS,
        tolerance=Tolerance(4, 8),
    ),
    OpSpec(
        "random.normal",
        normal,
        draws(call((3, 5)), call(()), call((257,)), call((5,), 3.0, 0.5)),
        FLOATS,
        # cos near its zeros and log near 1 have errors that are large compared with the result, not with 1.
        tolerance=Tolerance(ulps=32, epsilons=32),
        errors=[
            BAD_KEY,
            TOO_MANY,
            NEGATIVE,
            wrong(DTypeError, "normal: the dtype must be a float, got int32", (2,), dtype=sm.int32),
            wrong(ArgumentError, "normal: std must be at least 0, got -1", (2,), std=-1),
            wrong(ShapeError, "normal: parameters of shape (3, 2) do not broadcast to (2,)", (2,), zeros(3, 2)),
            too_large("mean", (2,)),
        ],
    ),
    OpSpec(
        "random.rand",
        lambda *shape, **more: uniform(shape[0] if isinstance(shape[0], tuple) else shape, **more),
        draws(call(3, 5), call((3, 5)), call(0)),
        FLOATS,
        tolerance=Tolerance(4, 8),
        errors=[BAD_KEY, TOO_MANY, NEGATIVE],
    ),
    OpSpec(
        "random.randn",
        lambda *shape, **more: normal(shape[0] if isinstance(shape[0], tuple) else shape, **more),
        draws(call(3, 5), call((3, 5)), call(0)),
        FLOATS,
        tolerance=Tolerance(ulps=32, epsilons=32),
        errors=[BAD_KEY, TOO_MANY, NEGATIVE],
    ),
    OpSpec(
        "random.randint",
        randint,
        draws(call(0, 10, (3, 5)), call(0, 1, (2,)), call(3, 127, 31)),
        INTEGERS,
        errors=[
            wrong(ArgumentError, "low must be less than high", 3, 3),
            wrong(ArgumentError, "is uint8", 0, 300, dtype=sm.uint8),
            wrong(DTypeError, "must be an integer", 0, 3, dtype=sm.float32),
        ],
    ),
    OpSpec(
        "random.randint",
        randint,
        draws(call(-5, 2**40, (11,)), call(-(2**63), 2**63, (5,)), call(-(2**31), 2**31, (5,))),
        (dtypes.int64,),
    ),
    OpSpec(
        "random.split",
        lambda key, count=2: np.stack(threefry(key, np.arange(count, dtype=np.uint32), np.uint32(0xFFFFFFFF)), 1),
        lambda dtype: [call(KEY_TENSOR), call(KEY_TENSOR, 5), call(KEY_TENSOR, 0)],
        (dtypes.uint32,),
        errors=[
            wrong(ArgumentError, "a key is float32(3,)", zeros(3)),
            wrong(ArgumentError, "not be negative", KEY_TENSOR, -1),
            wrong(ArgumentError, "the number of keys must be an integer, got 2.5", KEY_TENSOR, 2.5),
            wrong(ArgumentError, f"split: {2**33} keys", KEY_TENSOR, 2**33),
        ],
    ),
    OpSpec(
        "random.fold_in",
        lambda key, data: np.stack(threefry(key, np.uint32(data), np.uint32(0xFFFFFFFE))),
        lambda dtype: [call(KEY_TENSOR, 0), call(KEY_TENSOR, 2**32 - 1)],
        (dtypes.uint32,),
        errors=[
            wrong(ArgumentError, "a key is float32(3,)", zeros(3), 1),
            wrong(ArgumentError, "fold_in: the seed must be an integer, got 0.5", KEY_TENSOR, 0.5),
            wrong(ArgumentError, "got a tensor float32(2,)", KEY_TENSOR, zeros(2)),
            wrong(ArgumentError, "fold_in: 18446744073709551616 does not fit in 64 bits", KEY_TENSOR, 2**64),
        ],
    ),
    OpSpec(
        "random.key",
        lambda seed: np.array([seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF], np.uint32),
        lambda dtype: [call(0), call(2**40 + 3), call(-1), call(2**64 - 1)],
        (dtypes.uint32,),
        errors=[
            wrong(ArgumentError, "key: 18446744073709551616 does not fit in 64 bits", 2**64),
            wrong(ArgumentError, "key: the seed must be an integer, got 1.5", 1.5),
            wrong(ArgumentError, "key: the seed must be an integer, got None", None),
            wrong(ArgumentError, "got a tensor float32(2,)", zeros(2)),
        ],
    ),
]

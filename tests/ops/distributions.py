"""Distributions, choices and first weights: NumPy's way from the words of the generator to the numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import smelt as sm
from smelt import dtypes
from smelt.dtypes import DType
from smelt.errors import ArgumentError, AxisError, DTypeError, ShapeError
from tests.ops.draws import BAD_KEY, drawn, threefry, words
from tests.ops.samples import Array, Sample, Samples, call
from tests.ops.spec import (
    FLOATS,
    INTEGERS,
    OpSpec,
    Tolerance,
    Wrong,
    not_flag,
    not_number,
    too_large,
    wrong,
    zeros,
)

KEY = np.array([0x13198A2E, 0x03707344], np.uint32)
NEAR = Tolerance(ulps=64, epsilons=64)
NO_FLOAT = wrong(DTypeError, "must be a float", (2,), dtype=sm.int32)


def draws_of(shape: Any, key: Array, start: int, count: int) -> tuple[Array, Array]:
    """Both words of several draws, along a first axis."""
    n = math.prod(shape)
    pairs = [threefry(key, np.arange(n, dtype=np.uint32), np.uint32(start + i)) for i in range(count)]
    return tuple(np.stack([pair[k] for pair in pairs]).reshape(count, *shape) for k in range(2))  # type: ignore[return-value]


def wide(dtype: DType) -> Any:
    return np.float64 if dtype is dtypes.float64 else np.float32


def share(word: Array, dtype: DType) -> Array:
    precise = wide(dtype)
    width = 8 * word.dtype.itemsize
    return ((word.astype(precise) + precise(0.5)) * precise(2.0**-width)).astype(np.float64)


def exponent(a: Array, b: Array, dtype: DType) -> Array:
    whole = a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)
    half = 0.5 * share(whole if dtype is dtypes.float64 else a, dtype)
    coin = (a if dtype is dtypes.float64 else b) & np.uint32(1)
    return -np.where(coin != 0, np.log(half), np.log1p(-half))


def gaussian(a: Array, b: Array, dtype: DType) -> Array:
    turn = (b >> np.uint32(8)).astype(np.float64) * 2.0**-24
    return np.sqrt(-2 * np.log(share(a, dtype))) * np.cos(2 * np.pi * turn)


def exponential(shape: Any, scale: Any = 1.0, *, dtype: DType, key: Array) -> Array:
    return exponent(*drawn(shape, key), dtype) * scale


def laplace(shape: Any, mean: Any = 0.0, scale: Any = 1.0, *, dtype: DType, key: Array) -> Array:
    a, b = drawn(shape, key)
    return mean + scale * np.where(b & np.uint32(2), -1, 1) * exponent(a, b, dtype)


def gumbel(shape: Any, mean: Any = 0.0, scale: Any = 1.0, *, dtype: DType, key: Array) -> Array:
    return mean - scale * np.log(exponent(*drawn(shape, key), dtype))


def bernoulli(p: Any, shape: Any, *, dtype: DType = dtypes.bool_, key: Array) -> Array:
    return ((words(shape, key) >> np.uint64(11)).astype(np.float64) * 2.0**-53 < p).astype(dtype.numpy)


def tail(x: float) -> float:
    return 0.5 * math.erfc(x / math.sqrt(2))


def truncated_normal(
    shape: Any,
    lower: float = -2.0,
    upper: float = 2.0,
    mean: float = 0.0,
    std: float = 1.0,
    *,
    dtype: DType,
    key: Array,
) -> Array:
    """By bisection of the tail."""
    left, right = (lower - mean) / std, (upper - mean) / std
    sign = -1.0 if left + right < 0 else 1.0
    low, high = (left, right) if sign > 0 else (-right, -left)
    found = []
    for part in share(words(shape, key), dtypes.float64).reshape(-1):
        wanted = tail(high) + part * (tail(low) - tail(high))
        a, b = max(low, -40.0), min(high, 40.0)
        for _ in range(200):
            middle = (a + b) / 2
            a, b = (middle, b) if tail(middle) > wanted else (a, middle)
        found.append(mean + std * sign * (a + b) / 2)
    return np.array(found).reshape(shape)


def truncated(shape: Any, mean: float, std: float, lower: float, upper: float, *, dtype: DType, key: Array) -> Array:
    return truncated_normal(shape, lower, upper, mean, std, dtype=dtype, key=key)


def gamma_parts(alpha: Any, shape: Any, dtype: DType, key: Array, start: int) -> tuple[Array, Array]:
    alpha = np.broadcast_to(np.asarray(alpha, np.float64), shape)
    d = np.where(alpha < 1, alpha + 1, alpha) - 1 / 3
    t = gaussian(*draws_of(shape, key, start, 10), dtype) / np.sqrt(9 * d)
    u = share(draws_of(shape, key, start + 10, 10)[0], dtype)
    v = (1 + t) ** 3
    with np.errstate(invalid="ignore"):
        accepted = (t > -1) & (np.log(u) < 4.5 * d * t * t + d - d * v + d * np.log(v))
    first = np.argmax(accepted, 0)[None]
    boost = -exponent(*(x[0] for x in draws_of(shape, key, start + 20, 1)), dtype) / alpha
    return d * np.take_along_axis(v, first, 0)[0], np.where(alpha < 1, boost, 0.0)


def gamma(concentration: Any, shape: Any, *, scale: float = 1.0, dtype: DType, key: Array) -> Array:
    number, boost = gamma_parts(concentration, shape, dtype, key, 0)
    return number * np.exp(boost) * scale


def beta(a: Any, b: Any, shape: Any, *, dtype: DType, key: Array) -> Array:
    x, p = gamma_parts(a, shape, dtype, key, 0)
    y, q = gamma_parts(b, shape, dtype, key, 21)
    return 1 / (1 + y / x * np.exp(q - p))


def poisson(rate: Any, shape: Any, *, dtype: DType = dtypes.int64, key: Array) -> Array:
    rates = np.broadcast_to(np.asarray(rate, np.float64), shape)
    u = (words(shape, key) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    a, b = draws_of(shape, key, 1, 20)
    result = np.zeros(shape)
    for at in np.ndindex(*shape):
        result[at] = one_poisson(float(rates[at]), float(u[at]), a[:, *at], b[:, *at])
    return result


def one_poisson(rate: float, u: float, first: Array, second: Array) -> float:
    if not rate >= 0:
        return -1
    if rate < 10:
        count, term = 0, math.exp(-rate)
        total = term
        while total <= u and count < 43:
            count += 1
            term *= rate / count
            total += term
        return count
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = 0.02483 * b - 0.059
    for x, y in zip(share(first, dtypes.float64) - 0.5, share(second, dtypes.float64), strict=True):
        room = 0.5 - abs(x)
        count = math.floor((2 * a / room + b) * x + rate + 0.43)
        chance = math.log(y * (1.1239 + 1.1328 / (b - 3.4)) / (a / room**2 + b))
        if count >= 0 and chance <= count * math.log(rate) - rate - math.lgamma(count + 1):
            return count
    return math.floor(rate)


def categorical(
    logits: Any = None, *, probs: Any = None, axis: int = -1, shape: Any = None, dtype: DType = dtypes.int64, key: Array
) -> Array:
    with np.errstate(divide="ignore"):
        scores = np.moveaxis(logits if probs is None else np.log(probs), axis, -1)
    size = (*(scores.shape[:-1] if shape is None else shape), scores.shape[-1])
    return np.argmax(scores - np.log(exponent(*drawn(size, key), dtypes.float32)), -1)


def cumulative(unit_shape: Any, weights: Array, key: Array) -> Array:
    """For each trial (last axis) and category, whether the trial lies below the category's end."""
    u = (words(unit_shape, key) >> np.uint64(12)).astype(np.float64) * 2.0**-52
    sums = np.cumsum(weights, -1)[..., None, :]
    return u[..., None] * sums[..., -1:] < sums


def multinomial(n: int, probs: Array, shape: Any = None, *, dtype: DType = dtypes.int64, key: Array) -> Array:
    size = probs.shape[:-1] if shape is None else shape
    below = cumulative((*size, n), probs, key).sum(-2)
    return np.diff(below, prepend=0, axis=-1)


def permutation(x: Any, *, axis: int = 0, key: Array) -> Array:
    count = x if isinstance(x, int) else x.shape[axis]
    order = np.argsort(words(count, key), kind="stable")
    return order if isinstance(x, int) else np.take(x, order, axis)


def choice(a: Any, shape: Any, *, replace: bool = True, p: Any = None, axis: int = 0, key: Array) -> Array:
    count = a if isinstance(a, int) else a.shape[axis]
    if replace and p is not None:
        places = (~cumulative(shape, np.asarray(p), key)).sum(-1)
    elif replace:
        places = np.array([int(w) * count >> 32 for w in drawn(shape, key)[0].reshape(-1)], np.int64).reshape(shape)
    elif p is not None:
        with np.errstate(divide="ignore"):
            scores = np.log(np.asarray(p)) - np.log(exponent(*drawn(count, key), dtypes.float64))
        places = np.argsort(-scores, kind="stable")[: math.prod(shape)].reshape(shape)
    else:
        places = np.argsort(words(count, key), kind="stable")[: math.prod(shape)].reshape(shape)
    return places if isinstance(a, int) else np.take(a, places, axis)


def weights(uniform: bool, std: Any) -> Any:
    def reference(shape: Any, *args: Any, dtype: DType, key: Array, **keywords: Any) -> Array:
        a, b = drawn(shape, key)
        deviation = std(shape[1] * math.prod(shape[2:]), shape[0] * math.prod(shape[2:]), *args, **keywords)
        if not uniform:
            return deviation * gaussian(a, b, dtype)
        kept = 53 if dtype is dtypes.float64 else 24
        whole = words(shape, key) >> np.uint64(11) if kept == 53 else a >> np.uint32(8)
        return math.sqrt(3) * deviation * (2 * whole.astype(np.float64) * 2.0**-kept - 1)

    return reference


def kaiming(fan_in: int, fan_out: int, mode: str = "fan_in", nonlinearity: str = "leaky_relu", a: float = 0.0) -> float:
    gain = {"leaky_relu": math.sqrt(2 / (1 + a * a)), "relu": math.sqrt(2), "tanh": 5 / 3}[nonlinearity]
    return gain / math.sqrt(fan_in if mode == "fan_in" else fan_out)


def xavier(fan_in: int, fan_out: int, gain: float = 1.0) -> float:
    return gain * math.sqrt(2 / (fan_in + fan_out))


def lecun(fan_in: int, fan_out: int) -> float:
    return 1 / math.sqrt(fan_in)


def orthogonal(shape: Any, gain: float = 1.0, *, dtype: DType, key: Array) -> Array:
    u, _, v = np.linalg.svd(
        gaussian(*drawn((shape[0], math.prod(shape[1:])), key), dtypes.float64), full_matrices=False
    )
    return (gain * u @ v).reshape(shape)


def samples(*calls: Sample, typed: bool = True) -> Samples:
    def made(dtype: DType) -> list[Sample]:
        return [call(*s.args, **s.kwargs, key=KEY, **({"dtype": dtype} if typed else {})) for s in calls]

    return made


def initializer(name: str, reference: Any, *extra: Sample, errors: tuple[Wrong, ...] = ()) -> OpSpec:
    refused = [
        wrong(ShapeError, "has no fan", (3,)),
        wrong(DTypeError, "must be a float", (3, 4), dtype=sm.int64),
        wrong(ArgumentError, "a key is float32(2,)", (2, 3), key=zeros(2)),
        *errors,
    ]
    return OpSpec(
        f"random.{name}",
        reference,
        samples(call((5, 7)), call((4, 3, 2)), *extra),
        FLOATS,
        tolerance=NEAR,
        errors=refused,
    )


BAD_MODE = wrong(ArgumentError, "fan_in or fan_out", (2, 3), mode="fan")
BAD_SLOPE = not_number("a", (2, 3))
LARGE_SLOPE = too_large("a", (2, 3))
LISTED_GAIN = wrong(ArgumentError, "no gain for ['relu']", (2, 3), nonlinearity=["relu"])
KAIMING_ERRORS = (BAD_SLOPE, LARGE_SLOPE, LISTED_GAIN)
BAD_GAIN = wrong(ArgumentError, "no gain for 'cos'", (2, 3), nonlinearity="cos")
KAIMING = (call((5, 7), mode="fan_out"), call((3, 2), nonlinearity="tanh"), call((3, 2), a=0.5))
NEGATIVE_GAIN = wrong(ArgumentError, "the gain must be at least 0, got -1.0", (2, 3), -1.0)
GAIN_ERRORS = (NEGATIVE_GAIN, not_number("gain", (2, 3)), too_large("gain", (2, 3)))

PLACE = {"exponential": exponential, "laplace": laplace, "gumbel": gumbel}
INTEGER_DTYPE = wrong(DTypeError, "must be an integer", 3, [0.5, 0.5], dtype=sm.float32)

DISTRIBUTIONS = [
    OpSpec(
        f"random.{name}",
        reference,
        samples(
            call((3, 5)), call(()), call((131,)), call((0, 2)), call((2, 3), np.array([0.5, 2.0, 1.0], np.float32))
        ),
        FLOATS,
        tolerance=NEAR,
        errors=[
            BAD_KEY,
            NO_FLOAT,
            wrong(ArgumentError, "scale must be at least 0, got -1", (2,), scale=-1),
            wrong(ShapeError, "do not broadcast to (2,)", (2,), np.ones((3, 2), np.float32)),
        ],
    )
    for name, reference in PLACE.items()
] + [
    OpSpec(
        "random.bernoulli",
        bernoulli,
        samples(call(0.3, (3, 5)), call(0.0, (7,)), call(1.0, (7,)), call(np.array([0.1, 0.9], np.float32), (31, 2))),
        FLOATS + INTEGERS,
        errors=[
            wrong(ArgumentError, "p must be from 0 to 1, got 1.5", 1.5),
            wrong(ArgumentError, "p must be from 0 to 1, got 2", (2, 3)),
            wrong(ArgumentError, "got nan", math.nan),
            wrong(DTypeError, "p is a bool tensor", np.array([True])),
        ],
    ),
    OpSpec(
        "random.truncated_normal",
        truncated_normal,
        samples(call((3, 5)), call((11,), 3.0, 4.0), call((7,), -math.inf, -5.0), call((5,), 0.0, 9.0, 1.0, 2.0)),
        FLOATS,
        tolerance=NEAR,
        errors=[
            wrong(ArgumentError, "lower must be less", (2,), 1.0, 1.0),
            wrong(ArgumentError, "std must be positive", (2,), std=0.0),
            NO_FLOAT,
        ],
    ),
    OpSpec(
        "random.gamma",
        gamma,
        samples(call(2.5, (3, 5)), call(0.3, (11,)), call(np.array([1.0, 40.0, 0.01], np.float32), (7, 3), scale=2.0)),
        FLOATS,
        tolerance=Tolerance(512, 512),
        errors=[
            wrong(ArgumentError, "the concentration must be positive, got 0", 0.0),
            wrong(ArgumentError, "scale must be positive", 1.0, scale=-1.0),
            wrong(DTypeError, "must be a float", 1.0, dtype=sm.int8),
        ],
    ),
    OpSpec(
        "random.beta",
        beta,
        samples(call(2.5, 1.0, (3, 5)), call(0.3, 0.01, (11,)), call(np.array([1.0, 40.0], np.float32), 2.0, (7, 2))),
        FLOATS,
        tolerance=Tolerance(512, 512),
        errors=[
            wrong(ArgumentError, "a must be positive", 0.0, 1.0),
            wrong(ArgumentError, "b must be positive", 1.0, -2.0),
            wrong(ShapeError, "do not broadcast to ()", np.ones(3, np.float32), 1.0, ()),
        ],
    ),
    OpSpec(
        "random.poisson",
        poisson,
        samples(call(3.0, (3, 5)), call(50, (31,)), call(np.array([0.0, 9.99, 10.0, 100.0], np.float32), (11, 4))),
        INTEGERS[3:4] + INTEGERS[:1] + (dtypes.float32,),
        errors=[
            wrong(ArgumentError, "rate must be at least 0, got -1", -1),
            wrong(DTypeError, "must be an integer or a float", 1, dtype=sm.bool),
            wrong(ArgumentError, "a key is float32(2,)", 1, key=zeros(2)),
        ],
    ),
    OpSpec(
        "random.categorical",
        categorical,
        samples(
            call(np.array([[0.0, 1.0, 2.0], [5.0, -5.0, 0.0]], np.float32)),
            call(np.zeros((3, 4), np.float32), axis=0),
            call(probs=np.array([0.0, 3.0, 1.0], np.float32), shape=(5, 7)),
        ),
        (dtypes.int64, dtypes.uint8),
        errors=[
            wrong(ArgumentError, "either logits or probs"),
            wrong(ShapeError, "no categories", zeros(3, 0)),
            wrong(AxisError, "axis 2", zeros(2, 3), axis=2),
            wrong(ShapeError, "does not broadcast to (1,)", zeros(2, 3), shape=(1,)),
        ],
    ),
    OpSpec(
        "random.multinomial",
        multinomial,
        samples(
            call(20, np.array([0.5, 0.25, 0.0, 0.25, 0.0])),
            call(0, np.array([1.0, 1.0])),
            call(7, np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]]), (3, 2)),
        ),
        (dtypes.int64, dtypes.int16),
        errors=[
            wrong(ArgumentError, "must not be negative", -1, [0.5, 0.5]),
            wrong(ShapeError, "a scalar has no categories", 3, np.array(1.0)),
            INTEGER_DTYPE,
        ],
    ),
    OpSpec(
        "random.permutation",
        permutation,
        samples(
            call(17),
            call(0),
            call(1),
            call(np.arange(12).reshape(4, 3)),
            call(np.arange(12).reshape(3, 4), axis=1),
            typed=False,
        ),
        (dtypes.int64,),
        errors=[
            wrong(ArgumentError, "must not be negative, got -1", -1),
            wrong(ArgumentError, "must be an integer", 1.5),
            wrong(AxisError, "axis 2", zeros(2, 3), axis=2),
            wrong(ShapeError, "a scalar tensor has no parts", np.array(3.0)),
        ],
    ),
    OpSpec(
        "random.choice",
        choice,
        samples(
            call(5, (3, 4)),
            call(np.arange(12).reshape(4, 3), (2,), axis=1),
            call(7, (2, 3), replace=False),
            call(4, (9,), p=[0.0, 1.0, 0.5, 0.0]),
            call(4, (3,), replace=False, p=[0.5, 1.0, 0.5, 0.0]),
            typed=False,
        ),
        (dtypes.int64,),
        errors=[
            wrong(ArgumentError, "4 of 3 without replacement", 3, (4,), replace=False),
            wrong(ShapeError, "p has shape (2,) for 3 choices", 3, p=[0.5, 0.5]),
            wrong(ArgumentError, "nothing to choose from", 0),
            wrong(ArgumentError, f"there are {2**33} choices", 2**33),
            not_flag("replace", 3),
        ],
    ),
    initializer("kaiming_uniform", weights(True, kaiming), *KAIMING, errors=(BAD_MODE, BAD_GAIN, *KAIMING_ERRORS)),
    initializer("kaiming_normal", weights(False, kaiming), *KAIMING, errors=(BAD_MODE, BAD_GAIN, *KAIMING_ERRORS)),
    initializer("xavier_uniform", weights(True, xavier), call((3, 2), 2.0), errors=GAIN_ERRORS),
    initializer("xavier_normal", weights(False, xavier), call((3, 2), 2.0), errors=GAIN_ERRORS),
    initializer("lecun_uniform", weights(True, lecun)),
    initializer("lecun_normal", weights(False, lecun)),
    OpSpec(
        "random.truncated",
        truncated,
        samples(call((3, 5), 0.0, 0.02, -0.04, 0.04)),
        FLOATS,
        tolerance=NEAR,
        errors=[NO_FLOAT, BAD_KEY, wrong(ArgumentError, "std must be positive", (2,), 0.0, -1.0)],
    ),
    OpSpec(
        "random.orthogonal",
        orthogonal,
        samples(call((3, 3)), call((2, 7), 0.5), call((5, 2, 2))),
        (dtypes.float32,),
        tolerance=NEAR,
        errors=[
            wrong(ShapeError, "has no fan", (3,)),
            NEGATIVE_GAIN,
            wrong(DTypeError, "must be a float", (3, 4), dtype=sm.int64),
        ],
    ),
]

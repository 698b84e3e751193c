"""Inverse, hyperbolic and special functions, and what floats are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import elementwise_rules
from tests.ops.elementwise import NO_BOOL, binary, kept, real, verdict
from tests.ops.samples import Array, Sample, as_real, call, special, two, values
from tests.ops.spec import (
    ALL,
    FLOATS,
    MATH,
    NUMBERS,
    ROUNDED,
    TWO_BOOLS,
    OpSpec,
    Tolerance,
    not_computed,
    not_flag,
    not_number,
    not_tensors,
    to_bool,
    too_large,
    unequal,
    unequal_dtypes,
    wrong,
    zeros,
)

ABSOLUTE = Tolerance(ulps=4, epsilons=16)


def sinc(x: Array) -> Array:
    part = x - np.rint(x)
    sign = np.where(np.rint(x) % 2 == 0, 1, -1)
    return np.where(x == 0, 1, np.where(part == 0, 0, sign * np.sin(np.pi * part) / (np.pi * np.where(x == 0, 1, x))))


def logit(x: Array, eps: float | None = None) -> Array:
    x = x if eps is None else np.clip(x, eps, 1 - eps)
    return np.log(x) - np.log1p(-x)


def shares(dtype: DType) -> list[Sample]:
    x = values(dtype, 31, low=0.0, high=1.0)
    edges = np.array([0.0, 1.0, 0.5, 0.25, -0.5, 2.0, np.nan], np.float32).astype(dtype.numpy)
    return [call(x), call(edges), call(x, 0.25), call(x, eps=0.1)]


def replaced(x: Array, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Array:
    """Beyond the infinities, NumPy's own defaults would be those of the wider type."""
    return np.where(np.isnan(x), nan, np.where(x == np.inf, posinf, np.where(x == -np.inf, neginf, x)))


def replacements(dtype: DType) -> list[Sample]:
    most = float(dtype.maximum)
    x = special(dtype)
    return [call(x, 0.0, most, -most), call(x, nan=3.0, posinf=5.0, neginf=-7.0)]


UNARY = [
    real("asin", np.arcsin),
    real("acos", np.arccos),
    real("atan", np.arctan),
    real("sinh", np.sinh),
    real("cosh", np.cosh),
    real("asinh", np.arcsinh),
    real("acosh", np.arccosh),
    real("atanh", np.arctanh),
    real("log10", np.log10),
    real("cbrt", np.cbrt),
    real("erfc", elementwise_rules.erfc),
    real("erfinv", elementwise_rules.erfinv),
    real("lgamma", elementwise_rules.lgamma, ABSOLUTE),
    real("digamma", elementwise_rules.digamma, Tolerance(ulps=4, epsilons=64)),
    real("deg2rad", np.deg2rad),
    real("rad2deg", np.rad2deg),
    real("sinc", sinc),
    OpSpec(
        "logit",
        lambda x, eps=None: logit(as_real(x), eps),
        shares,
        FLOATS,
        tolerance=Tolerance(ulps=4, epsilons=4),
        errors=[
            wrong(ArgumentError, "logit: eps is 0.75", zeros(2), 0.75),
            not_number("eps", zeros(2)),
            not_computed("logit"),
            *not_tensors("logit"),
        ],
    ),
    kept(
        "frac", lambda x: np.copysign(x - np.trunc(x), x) if x.dtype.kind == "f" else np.zeros_like(x), errors=[NO_BOOL]
    ),
    verdict("signbit", lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0),
    OpSpec(
        "nan_to_num",
        replaced,
        replacements,
        FLOATS,
        errors=[
            *(not_number(what, zeros(2)) for what in ("nan", "posinf", "neginf")),
            too_large("nan", zeros(2)),
            not_computed("nan_to_num"),
            *not_tensors("nan_to_num"),
        ],
    ),
]


def angles(dtype: DType) -> list[Sample]:
    edges = special(dtype)
    return [*two(dtype), call(edges[:, None], edges), call(values(dtype, 3), 2), call(1, values(dtype, 3))]


def logaddexp(a: Array, b: Array) -> Array:
    return np.logaddexp(as_real(np.asarray(a)), as_real(np.asarray(b)))


def xlogy(a: Array, b: Array) -> Array:
    return np.where((a == 0) & ~np.isnan(b), 0, a * np.log(b))


def neighbors(dtype: DType) -> list[Sample]:
    edges = special(dtype)
    return [*two(dtype)[:4], call(edges[:, None], edges)]


def nextafter_of(dtype_numpy: Any) -> Callable[[Array, Array], Array]:
    """The reference gets wider floats, so it goes back to the dtype first and steps there by hand."""

    def step(a: Array, b: Array) -> Array:
        x, y = np.broadcast_arrays(np.asarray(a).astype(dtype_numpy), np.asarray(b).astype(dtype_numpy))
        bits = np.dtype(f"i{x.dtype.itemsize}")
        i = x.copy().view(bits)
        up = (y > x) == (x > 0)
        moved = np.where(up, i + 1, i - 1).astype(bits).view(x.dtype)
        tiny = np.array(1, bits).view(x.dtype).astype(np.float64)
        wide = np.where(x == 0, np.copysign(tiny, y.astype(np.float64)), moved.astype(np.float64))
        wide = np.where(x == y, y.astype(np.float64), wide)
        return np.where(np.isnan(a) | np.isnan(b), np.nan, wide)

    return step


def fmod(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.fmod(a, b)
    return np.where(b == 0, 0, np.fmod(a, np.where(b == 0, 1, b))).astype(a.dtype)


def steps(dtype: DType) -> list[Sample]:
    x = np.concatenate([special(dtype), values(dtype, 13)])
    return [call(x, values(dtype, 1)), call(x, 1), *two(dtype)[:3]]


CLOSE = [
    wrong(ArgumentError, "rtol is -1", zeros(2), zeros(2), rtol=-1),
    wrong(ArgumentError, "atol is 'x'", zeros(2), zeros(2), atol="x"),
    wrong(ShapeError, "shapes do not broadcast", zeros(2), zeros(3)),
    not_flag("equal_nan", zeros(2), zeros(2)),
]


SAME = [
    *unequal_dtypes("array_equal"),
    not_flag("equal_nan", zeros(2), zeros(2)),
    *not_tensors("array_equal", zeros(2)),
]


def near(dtype: DType) -> list[Sample]:
    x = np.concatenate([special(dtype), values(dtype, 13)])
    if not dtype.is_float:
        return [call(x, x), call(x, x[::-1]), call(x, x[::-1], rtol=0.5, atol=1.0)]
    with np.errstate(all="ignore"):
        close = (x.astype(np.float64) * (1 + 2e-3)).astype(dtype.numpy)
    return [
        call(x, x),
        call(x, close, rtol=1e-2),
        call(x, close, rtol=1e-4, atol=0.0),
        call(x, x[::-1], equal_nan=True),
        call(x[:, None], x, atol=0.25, rtol=0.0, equal_nan=True),
    ]


def isclose(a: Array, b: Array, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Array:
    return np.isclose(as_real(a), as_real(b), rtol, atol, equal_nan)


def same(dtype: DType) -> list[Sample]:
    x = values(dtype, 3, 5)
    return [call(x, x), call(x, x[:2]), call(x, x[::-1]), call(special(dtype), special(dtype), equal_nan=True)]


def array_equal(a: Array, b: Array, equal_nan: bool = False) -> Array:
    return np.asarray(np.array_equal(a, b, equal_nan and a.dtype.kind == "f"))


def bitcasts(target: Any) -> Callable[[DType], list[Sample]]:
    def samples(dtype: DType) -> list[Sample]:
        x = np.concatenate([special(dtype), values(dtype, 13)])
        return [call(x[~np.isnan(x.astype(np.float64))], target), call(values(dtype, 0), target)]

    return samples


def bits_of(dtype: Any, target: DType) -> Callable[..., Array]:
    return lambda x, _: x.astype(dtype).view(target.numpy)


BINARY = [
    binary("atan2", np.arctan2, FLOATS, tolerance=MATH, samples=angles),
    binary("hypot", np.hypot, FLOATS, tolerance=MATH, samples=angles),
    binary("copysign", np.copysign, FLOATS, samples=angles),
    binary("logaddexp", logaddexp, FLOATS, tolerance=MATH, samples=angles),
    binary("xlogy", xlogy, FLOATS, tolerance=MATH, samples=angles),
    binary("fmod", fmod, NUMBERS, errors=[TWO_BOOLS]),
    binary("fmax", np.fmax, ALL, tolerance=ROUNDED),
    binary("fmin", np.fmin, ALL, tolerance=ROUNDED),
    binary("heaviside", np.heaviside, FLOATS, samples=steps),
    *(
        OpSpec("nextafter", nextafter_of(dtype.numpy), neighbors, (dtype,), errors=unequal("nextafter"))
        for dtype in FLOATS
    ),
    OpSpec("isclose", isclose, near, NUMBERS, to_bool, errors=CLOSE),
    OpSpec("allclose", lambda *a, **k: np.all(isclose(*a, **k)), near, NUMBERS, to_bool, errors=CLOSE),
    OpSpec("array_equal", array_equal, same, ALL, to_bool, errors=SAME),
    *(
        OpSpec(
            "bitcast",
            bits_of(source.numpy, target),
            bitcasts(target),
            (source,),
            lambda _, target=target: target,  # type: ignore[misc]
            errors=[
                wrong(DTypeError, "bitcast: float32 has 32 bits and int64 has 64", zeros(2), dtypes.int64),
                wrong(DTypeError, "not every byte is a bool", np.zeros(2, np.int8), dtypes.bool_),
                wrong(DTypeError, "is not a dtype that smelt has", zeros(2), "float99"),
            ],
        )
        for source, target in (
            (dtypes.float32, dtypes.int32),
            (dtypes.float16, dtypes.int16),
            (dtypes.bfloat16, dtypes.uint16),
            (dtypes.float64, dtypes.uint64),
        )
    ),
]

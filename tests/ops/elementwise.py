"""Elementwise functions of one, two and three tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType
from smelt.errors import ArgumentError, DTypeError, ShapeError
from tests.ops.samples import (
    Array,
    Sample,
    Samples,
    as_real,
    call,
    one,
    special,
    two,
    values,
)
from tests.ops.spec import (
    ALL,
    BOOLS,
    EXACT,
    FLOATS,
    INTEGERS,
    MATH,
    NUMBERS,
    ROUNDED,
    TWO_BOOLS,
    OpSpec,
    Tolerance,
    Wrong,
    not_computed,
    not_tensors,
    to_bool,
    to_float,
    unequal,
    wrong,
    zeros,
)

# --- elementwise functions of one tensor


def real(name: str, reference: Callable[[Array], Array], tolerance: Tolerance = MATH) -> OpSpec:
    """A function of real numbers, which also takes integers."""

    def wide(x: Array) -> Array:
        return reference(as_real(x))

    supported = (*FLOATS, dtypes.int32, dtypes.bool_)
    return OpSpec(name, wide, one, supported, to_float, tolerance, (not_computed(name), *not_tensors(name)))


def kept(
    name: str, reference: Callable[[Array], Array], supported: tuple[DType, ...] = NUMBERS, errors: Sequence[Wrong] = ()
) -> OpSpec:
    """A function that keeps the dtype."""
    return OpSpec(name, reference, one, supported, errors=(*errors, *not_tensors(name)))


def verdict(name: str, reference: Callable[[Array], Array]) -> OpSpec:
    return OpSpec(name, reference, one, ALL, to_bool, errors=not_tensors(name))


def erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def floats_only(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: function(x) if x.dtype.kind == "f" else x


def decimals(x: Array, places: int) -> Array:
    """NumPy's, but for numbers so large that they have no decimals, which stay as they are."""
    return (
        np.where(np.isfinite(x * 10.0**places), np.round(x, places), x) if x.dtype.kind == "f" else np.round(x, places)
    )


def rounds(dtype: DType) -> list[Sample]:
    return [call(values(dtype, 5, 7, low=0, high=99), places) for places in (1, 2, -1)] + [
        call(special(dtype), 2) if dtype.is_float else call(values(dtype, 3), 3)
    ]


NO_BOOL = wrong(DTypeError, "bool is not supported", np.array([True]))
FLOAT_NO_BITS = wrong(DTypeError, "float32 is not supported", zeros(2))

UNARY = [
    kept("abs", np.abs, errors=[NO_BOOL, not_computed("abs")]),
    kept("negative", np.negative, errors=[NO_BOOL, not_computed("negative")]),
    kept("positive", np.array, ALL),
    kept("sign", np.sign, errors=[NO_BOOL, not_computed("sign")]),
    kept("square", np.square, INTEGERS, errors=[NO_BOOL, not_computed("square")]),
    OpSpec("square", np.square, one, FLOATS, tolerance=ROUNDED),
    # What complex numbers have is tested in tests/tensor/test_complex.py.
    kept("real", np.real, BOOLS, errors=[not_computed("real")]),
    kept("imag", np.imag, BOOLS, errors=[not_computed("imag")]),
    OpSpec("conj", np.asarray, one, errors=[not_computed("conj"), *not_tensors("conj")]),
    OpSpec(
        "angle",
        lambda x: np.angle(x.astype(np.float64)),
        one,
        result=to_float,
        tolerance=ROUNDED,
        errors=[not_computed("angle"), *not_tensors("angle")],
    ),
    kept("floor", floats_only(np.floor), errors=[NO_BOOL, not_computed("floor")]),
    kept("ceil", floats_only(np.ceil), errors=[NO_BOOL, not_computed("ceil")]),
    kept("trunc", floats_only(np.trunc), errors=[NO_BOOL, not_computed("trunc")]),
    kept(
        "round",
        floats_only(np.rint),
        errors=[
            NO_BOOL,
            not_computed("round"),
            wrong(ArgumentError, "decimals must be an integer, got 1.5", zeros(2), 1.5),
            wrong(ArgumentError, "round: 301 decimals", zeros(2), 301),
        ],
    ),
    OpSpec("round", decimals, rounds, NUMBERS, tolerance=ROUNDED),
    kept("bitwise_invert", np.invert, INTEGERS + BOOLS, errors=[FLOAT_NO_BITS, not_computed("bitwise_invert")]),
    verdict("logical_not", np.logical_not),
    verdict("isnan", lambda x: np.isnan(x.astype(np.float64))),
    verdict("isinf", lambda x: np.isinf(x.astype(np.float64))),
    verdict("isfinite", lambda x: np.isfinite(x.astype(np.float64))),
    real("exp", np.exp),
    real("exp2", np.exp2),
    real("expm1", np.expm1),
    real("log", np.log),
    real("log2", np.log2),
    real("log1p", np.log1p),
    real("sqrt", np.sqrt, ROUNDED),
    real("rsqrt", lambda x: 1 / np.sqrt(x)),
    real("reciprocal", lambda x: 1 / x, ROUNDED),
    real("sin", np.sin),
    real("cos", np.cos),
    real("tan", np.tan),
    real("tanh", np.tanh),
    real("erf", erf),
]

# --- elementwise functions of two tensors

TWO_FLOATS = wrong(DTypeError, "float32 is not supported", zeros(2), zeros(2))


def binary(
    name: str,
    reference: Callable[[Array, Array], Any],
    supported: tuple[DType, ...] = NUMBERS,
    result: Callable[[DType], DType] = lambda dtype: dtype,
    tolerance: Tolerance = EXACT,
    samples: Samples = two,
    errors: Sequence[Wrong] = (),
) -> OpSpec:
    rest = zeros(2) if dtypes.float32 in supported else np.zeros(2, np.int32)
    mistakes = (*unequal(name, rest.dtype), *errors, *not_tensors(name, rest))
    return OpSpec(name, reference, samples, supported, result, tolerance, mistakes)


def logical(name: str, reference: Callable[[Array, Array], Any]) -> OpSpec:
    """A function of truth values, for which all dtypes go together."""
    mismatch, *_, no_tensor = unequal(name)
    ragged = wrong(ArgumentError, f"{name}: no tensor can be made of a list", zeros(2), [[1], [1, 2]])
    text = wrong(DTypeError, f"{name}: no tensor can hold elements of the NumPy dtype <U1", zeros(2), ["a"])
    mistakes = (mismatch, no_tensor, ragged, text, *not_tensors(name, zeros(2)))
    return OpSpec(name, reference, two, ALL, to_bool, EXACT, mistakes)


def zero_safe(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Integers divided by zero give zero."""

    def safe(a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return function(a, b)
        return np.where(b == 0, np.zeros((), a.dtype), function(a, np.where(b == 0, np.ones((), a.dtype), b)))

    return safe


def floor_divided(a: Array, b: Array) -> Array:
    """floor(a / b) where one is infinite, as the array API has it."""
    return np.where(np.isinf(a) | np.isinf(b), np.floor(a / b), np.floor_divide(a, b))


def shifted(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def safe(a: Array, b: Array) -> Array:
        inside = (b >= 0) & (b < 8 * a.dtype.itemsize)
        return np.where(inside, function(a, np.where(inside, b, 0).astype(a.dtype)), 0).astype(a.dtype)

    return safe


def small_powers(dtype: DType) -> list[Sample]:
    calls = [s for s in two(dtype, low=0, high=3)]
    if dtype.is_float:
        calls.append(call(special(dtype)[:, None], special(dtype)))
    return calls


def scalars(dtype: DType) -> list[Sample]:
    x = values(dtype, 3, 5)
    return [
        *two(dtype),
        call(x, 3),
        call(2, x),
        call(x, True),
        *([call(x, 0.25), call(1.5, x)] if dtype.is_float else []),
    ]


BINARY = [
    binary("add", np.add, INTEGERS, samples=scalars, errors=[TWO_BOOLS]),
    binary("add", np.add, FLOATS, tolerance=ROUNDED, samples=scalars),
    binary("subtract", np.subtract, INTEGERS, errors=[TWO_BOOLS]),
    binary("subtract", np.subtract, FLOATS, tolerance=ROUNDED),
    binary("multiply", np.multiply, INTEGERS, samples=scalars),
    binary("multiply", np.multiply, FLOATS, tolerance=ROUNDED, samples=scalars),
    binary("divide", np.divide, FLOATS, tolerance=ROUNDED),
    binary("divide", np.divide, (dtypes.int32, dtypes.uint8, dtypes.bool_), to_float, Tolerance(ulps=2)),
    binary("floor_divide", zero_safe(np.floor_divide), INTEGERS, errors=[TWO_BOOLS]),
    binary("floor_divide", floor_divided, FLOATS, samples=lambda dtype: two(dtype, low=1, high=9)),
    binary("remainder", zero_safe(np.remainder), INTEGERS, errors=[TWO_BOOLS]),
    binary(
        "remainder", np.remainder, FLOATS, tolerance=Tolerance(2, 8), samples=lambda dtype: two(dtype, low=1, high=9)
    ),
    binary(
        "divmod",
        lambda a, b: (zero_safe(np.floor_divide)(a, b), zero_safe(np.remainder)(a, b)),
        INTEGERS,
        errors=[TWO_BOOLS],
    ),
    binary(
        "divmod",
        lambda a, b: (floor_divided(a, b), np.remainder(a, b)),
        FLOATS,
        tolerance=Tolerance(2, 8),
        samples=lambda dtype: two(dtype, low=1, high=9),
    ),
    binary("pow", np.power, INTEGERS, samples=lambda dtype: two(dtype, low=0, high=3)),
    binary(
        "pow",
        np.power,
        FLOATS,
        tolerance=MATH,
        samples=small_powers,
        errors=[wrong(ArgumentError, "an integer tensor to the power -1", np.int32([2]), -1)],
    ),
    binary("maximum", np.maximum, ALL, tolerance=ROUNDED),
    binary("minimum", np.minimum, ALL, tolerance=ROUNDED),
    binary("bitwise_and", np.bitwise_and, INTEGERS + BOOLS, errors=[TWO_FLOATS]),
    binary("bitwise_or", np.bitwise_or, INTEGERS + BOOLS, errors=[TWO_FLOATS]),
    binary("bitwise_xor", np.bitwise_xor, INTEGERS + BOOLS, errors=[TWO_FLOATS]),
    binary("bitwise_left_shift", shifted(np.left_shift), INTEGERS, errors=[TWO_FLOATS, TWO_BOOLS]),
    binary("bitwise_right_shift", shifted(np.right_shift), INTEGERS, errors=[TWO_FLOATS, TWO_BOOLS]),
    binary("equal", np.equal, ALL, to_bool),
    binary("not_equal", np.not_equal, ALL, to_bool),
    binary("less", np.less, ALL, to_bool),
    binary("less_equal", np.less_equal, ALL, to_bool),
    binary("greater", np.greater, ALL, to_bool),
    binary("greater_equal", np.greater_equal, ALL, to_bool),
    logical("logical_and", np.logical_and),
    logical("logical_or", np.logical_or),
    logical("logical_xor", np.logical_xor),
]

# --- elementwise functions of more tensors


def choices(dtype: DType) -> list[Sample]:
    truth = values(dtypes.bool_, 3, 1)
    calls = [call(s.args[0] if s.args[0].dtype == np.bool_ else s.args[0] > 0, *s.args) for s in two(dtype)[:4]]
    return [
        *calls,
        call(truth, values(dtype, 7), values(dtype, 2, 1, 1)),
        call(np.array(True), special(dtype), special(dtype)[::-1]),
    ]


def clips(dtype: DType) -> list[Sample]:
    x = np.concatenate([special(dtype), values(dtype, 13)])
    low, high = values(dtype, 3, 1, low=0, high=1), values(dtype, 2, 1, 1, low=1, high=3)
    return [call(x, 1, 2), call(x, min=1), call(x, max=2), call(x), call(x, low, high), call(x, None, high)]


def lerp(a: Any, b: Any, w: Any) -> Any:
    return a + w * (b - a)


def lerps(dtype: DType) -> list[Sample]:
    a, b, w = values(dtype, 3, 5), values(dtype, 5, low=0, high=1), values(dtype, 3, 1, low=0, high=1)
    return [call(a, b, w), call(a, b, 0.25), call(0.0, b, w)]


TERNARY = [
    OpSpec(
        "where",
        np.where,
        choices,
        ALL,
        errors=[
            wrong(DTypeError, "the condition is float32", zeros(2), zeros(2), zeros(2)),
            wrong(ShapeError, "shapes do not broadcast", np.array([True] * 3), zeros(2), zeros(2)),
            wrong(DTypeError, "where: no tensor can hold", "text", zeros(2), zeros(2)),
            wrong(ArgumentError, "where: one of x and y is missing", np.array([True]), zeros(1)),
        ],
    ),
    OpSpec(
        "clip",
        lambda x, min=None, max=None: np.clip(x, min, max),
        clips,
        NUMBERS,
        errors=[
            *not_tensors("clip"),
            *unequal("clip"),
            wrong(ShapeError, "shapes do not broadcast\n    (3,) and (2,)", zeros(3), max=zeros(2)),
        ],
    ),
    OpSpec(
        "lerp",
        lerp,
        lerps,
        FLOATS,
        tolerance=Tolerance(4, 4),
        errors=[
            *not_tensors("lerp", zeros(2), 0.5),
            wrong(ShapeError, "lerp: shapes do not broadcast", zeros(2), zeros(3), 0.5),
            wrong(DTypeError, "lerp: uint64 and int64 have no common dtype", np.uint64([1]), np.int64([1]), 0.5),
            wrong(DTypeError, "lerp: no tensor can hold elements of the NumPy dtype <U4", zeros(2), zeros(2), "half"),
        ],
    ),
]

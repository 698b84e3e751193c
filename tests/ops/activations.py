"""The nonlinearities beyond the common ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.dtypes import DType
from smelt.errors import ArgumentError, ShapeError
from tests.ops.networks import ROWS_ERRORS, activation, moderate, rows, sigmoid, softmax
from tests.ops.samples import Array, Sample, as_real, call, one, special, values
from tests.ops.spec import (
    FLOATS,
    NUMBERS,
    OpSpec,
    Tolerance,
    not_computed,
    not_number,
    not_tensors,
    too_large,
    unequal_dtypes,
    wrong,
    zeros,
)

CLOSE = Tolerance(ulps=8, epsilons=4)
SELU = (1.0507009873554805, 1.6732632423543772)


def quick_gelu(x: Array, approximate: str) -> Array:
    return x * sigmoid(1.702 * x)


def selu(x: Array) -> Array:
    return SELU[0] * np.where(x > 0, x, SELU[1] * np.expm1(x))


def ramp(x: Array) -> Array:
    return np.clip(x + 3, 0, 6) / 6


def pairs(dtype: DType) -> list[Sample]:
    x = values(dtype, 3, 4, 6)
    return [
        call(x),
        call(x, 1),
        call(x, axis=-1),
        call(x, dim=1),
        call(values(dtype, 0, 2)),
        call(values(dtype, 2, 62)),
    ]


def halves(x: Array, axis: int | None, dim: int | None) -> list[Array]:
    at = -1 if axis is None and dim is None else dim if axis is None else axis
    return np.split(as_real(x), 2, at)  # type: ignore[arg-type]


def glu(x: Array, axis: int | None = None, dim: int | None = None) -> Array:
    a, b = halves(x, axis, dim)
    return a * sigmoid(b)


def swiglu(x: Array, axis: int | None = None, dim: int | None = None) -> Array:
    a, b = halves(x, axis, dim)
    return a * sigmoid(a) * b


def channels(dtype: DType) -> list[Sample]:
    x = values(dtype, 2, 5, 3)
    weights = values(dtype, 5, low=0, high=1)
    return [call(x, weights), call(x, 0.25), call(x, weights[:1]), call(values(dtype, 7), 0.5), call(x[0], weights[:3])]


def prelu(x: Array, weight: Any) -> Array:
    slope = np.asarray(weight)
    if slope.ndim and x.ndim > 1:
        slope = slope.reshape(-1, *([1] * (x.ndim - 2)))
    return np.where(x > 0, x, slope * x)


def thresholds(dtype: DType) -> list[Sample]:
    x = np.concatenate([special(dtype), values(dtype, 13)])
    return [call(x, 1, 2), call(x, 0, 0)]


ODD = wrong(ShapeError, "axis 1 has size 3", zeros(2, 3))

ACTIVATIONS = [
    activation("gelu", quick_gelu, moderate(approximate="quick")),
    activation("log_sigmoid", lambda x: -np.logaddexp(0, -x)),
    activation("softsign", lambda x: x / (1 + np.abs(x)), moderate()),
    activation("tanhshrink", lambda x: x - np.tanh(x), moderate()),
    activation("celu", lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x / alpha)), moderate(0.5)),
    activation(
        "celu",
        lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x / alpha)),
        errors=[
            wrong(ArgumentError, "celu: alpha is 0", zeros(2), 0),
            not_number("alpha", zeros(2)),
            too_large("alpha", zeros(2)),
            not_computed("celu"),
        ],
    ),
    activation("selu", selu, moderate()),
    activation("mish", lambda x: x * np.tanh(np.logaddexp(0, x)), moderate()),
    activation("hard_sigmoid", ramp),
    activation("hard_swish", lambda x: x * ramp(x), moderate()),
    activation("softmin", lambda x, *a, **k: softmax(-as_real(x), *a, **k), rows, errors=ROWS_ERRORS),
    OpSpec(
        "relu6", lambda x: np.clip(x, 0, 6) + 0.0, one, NUMBERS, errors=[not_computed("relu6"), *not_tensors("relu6")]
    ),
    OpSpec(
        "hard_tanh",
        lambda x, low=-1, high=1: np.clip(x, low, high),
        lambda dtype: [call(*s.args, -2, 3) for s in one(dtype)] + one(dtype),
        FLOATS,
        errors=[
            wrong(ArgumentError, "min_val is 2 and max_val is 1", zeros(2), 2, 1),
            not_number("min_val", zeros(2)),
            not_number("max_val", zeros(2)),
            *not_tensors("hard_tanh"),
        ],
    ),
    OpSpec(
        "threshold",
        lambda x, limit, value: np.where(x <= limit, np.asarray(value).astype(x.dtype), x),
        thresholds,
        NUMBERS,
        errors=[
            wrong(ArgumentError, "threshold: threshold must be a number, got [1]", zeros(2), [1], 1),
            wrong(ArgumentError, "threshold: value must be a number, got 'x'", zeros(2), 1, "x"),
            wrong(ArgumentError, "does not fit in uint8", np.zeros(2, np.uint8), 1, 300),
        ],
    ),
    OpSpec(
        "prelu",
        prelu,
        channels,
        FLOATS,
        tolerance=CLOSE,
        errors=[
            wrong(ShapeError, "prelu: weights of shape (3,) for x of shape (2, 4)", zeros(2, 4), zeros(3)),
            wrong(ShapeError, "prelu: weights of shape (2, 2)", zeros(2, 2), zeros(2, 2)),
            *unequal_dtypes("prelu"),
            *not_tensors("prelu", 0.5),
        ],
    ),
    OpSpec("glu", glu, pairs, FLOATS, tolerance=CLOSE, errors=[ODD, *ROWS_ERRORS]),
    OpSpec("swiglu", swiglu, pairs, FLOATS, tolerance=CLOSE, errors=[ODD, *ROWS_ERRORS]),
]

"""Functions that combine each element with those before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType
from smelt.errors import ArgumentError, AxisError, DTypeError, ShapeError
from tests.ops.samples import Array, Sample, as_real, call, special, strided, values
from tests.ops.spec import (
    ALL,
    AXIS_2,
    AXIS_FLOAT,
    AXIS_NONE,
    BOTH_AXES,
    FLOATS,
    SUM,
    OpSpec,
    Tolerance,
    not_computed,
    not_flag,
    to_float,
    to_sum,
    wrong,
    zeros,
)


def walks(dtype: DType, **bounds: float) -> list[Sample]:
    """Calls along every axis, long and short, contiguous and not, empty, and of a scalar."""
    x = values(dtype, 5, 1, 7, 3, **bounds)
    return [
        call(values(dtype, **bounds)),
        call(x),
        *(call(x, axis=axis) for axis in (0, 1, -2, 3)),
        call(strided(dtype, 4, 5, 6, **bounds), axis=1),
        call(strided(dtype, 3, 19, **bounds), axis=-1),
        call(values(dtype, 1031, **bounds), axis=0),
        call(values(dtype, 2, 257, **bounds), axis=1),
        call(values(dtype, 67, 37, **bounds), axis=0),
        call(values(dtype, 0, **bounds)),
        call(values(dtype, 3, 0, 2, **bounds), axis=0),
        call(values(dtype, 3, 0, 2, **bounds), axis=1),
    ]


def with_specials(dtype: DType) -> list[Sample]:
    # NumPy's extremes of 0.0 and -0.0 differ from type to type, so there is only one zero.
    x = np.where(special(dtype) == 0, np.zeros((), dtype.numpy), special(dtype))
    return [*walks(dtype), call(x), call(np.flip(x)), call(np.stack([x, x, np.flip(x)]), axis=0)]


def positive(dtype: DType) -> list[Sample]:
    # No cancellation, so that the order of a sum does not matter much.
    calls = walks(dtype, low=0, high=2)
    if dtype.is_float:
        calls.append(call(np.array([-0.0, 1.0, np.inf, 2.0, -np.inf, 1.0]).astype(dtype.numpy)))
        calls.append(call(np.array([[1.0, np.nan, 2.0], [3.0, 4.0, 5.0]]).astype(dtype.numpy), axis=1))
    return calls


def factors(dtype: DType) -> list[Sample]:
    return [s for s in walks(dtype, low=1, high=1.125) if s.args[0].size < 500]


def accumulated(function: Callable[..., Any]) -> Callable[..., Any]:
    def reference(x: Array, axis: Any = None) -> Any:
        wide = x.dtype if x.dtype.kind == "f" else np.uint64 if x.dtype.kind == "u" else np.int64
        return function(x, axis=axis, dtype=wide)

    return reference


def cumulative(function: Callable[..., Any], first: int) -> Callable[..., Any]:
    def reference(x: Array, axis: Any = None, include_initial: bool = False) -> Any:
        result = accumulated(function)(x, 0 if axis is None else axis)
        if not include_initial:
            return result
        axis = 0 if axis is None else axis
        shape = [1 if at == axis % result.ndim else size for at, size in enumerate(result.shape)]
        return np.concatenate([np.full(shape, first, result.dtype), result], axis=axis)

    return reference


def cumulatives(samples: Callable[[DType], list[Sample]]) -> Callable[[DType], list[Sample]]:
    def made(dtype: DType) -> list[Sample]:
        calls = [s for s in samples(dtype) if s.kwargs or s.args[0].ndim == 1]
        initial = [call(*s.args, **s.kwargs, include_initial=True) for s in calls if s.args[0].size < 300]
        return [*calls, *initial]

    return made


def extreme(function: np.ufunc) -> Callable[..., Any]:
    def reference(x: Array, axis: Any = None) -> Any:
        return function.accumulate(x.reshape(-1) if axis is None else x, axis=0 if axis is None else axis)

    return reference


def logcumsumexp(x: Array, axis: Any = None) -> Any:
    return extreme(np.logaddexp)(as_real(x), axis)


def diffs(dtype: DType) -> list[Sample]:
    x = values(dtype, 5, 4)
    return [
        call(x),
        call(x, axis=0),
        call(x, 2, 0),
        call(x, n=0),
        call(x, n=7, axis=1),
        call(strided(dtype, 4, 5, 6), axis=1),
        call(values(dtype, 1031)),
        call(values(dtype, 0)),
        call(values(dtype, 1)),
        call(x, axis=0, prepend=values(dtype, 1, 4), append=values(dtype, 2, 4)),
        call(x, prepend=values(dtype)),
        *([] if dtype.is_integer else [call(special(dtype))]),
    ]


SCALAR = wrong(AxisError, "axis 0 is out of range", zeros(), axis=0)
ERRORS = (AXIS_2, AXIS_FLOAT, BOTH_AXES, SCALAR)
AS_BOOL = wrong(DTypeError, "bool is not supported", zeros(3), axis=0, dtype=dtypes.bool_)
INITIAL = not_flag("include_initial", zeros(3))
NO_AXIS = wrong(AxisError, "shape (2, 3) needs an axis", zeros(2, 3))
CUMULATIVE_ERRORS = (AXIS_2, AXIS_FLOAT, AS_BOOL, NO_AXIS, wrong(AxisError, "needs an axis", zeros()), INITIAL)

SCANS = [
    OpSpec("cumsum", accumulated(np.cumsum), positive, ALL, to_sum, SUM, (*ERRORS, AS_BOOL)),
    OpSpec("cumprod", accumulated(np.cumprod), factors, ALL, to_sum, SUM, (*ERRORS, AS_BOOL)),
    OpSpec("cumulative_sum", cumulative(np.cumsum, 0), cumulatives(positive), ALL, to_sum, SUM, CUMULATIVE_ERRORS),
    OpSpec("cumulative_prod", cumulative(np.cumprod, 1), cumulatives(factors), ALL, to_sum, SUM, CUMULATIVE_ERRORS),
    OpSpec("cummax", extreme(np.maximum), with_specials, ALL, errors=ERRORS),
    OpSpec("cummin", extreme(np.minimum), with_specials, ALL, errors=ERRORS),
    OpSpec(
        "logcumsumexp",
        logcumsumexp,
        with_specials,
        (*FLOATS, dtypes.int32),
        to_float,
        Tolerance(32, 32),
        ERRORS,
    ),
    OpSpec(
        "diff",
        np.diff,
        diffs,
        ALL,
        tolerance=Tolerance(1, 4),
        errors=(
            AXIS_2,
            AXIS_FLOAT,
            BOTH_AXES,
            AXIS_NONE,
            wrong(ArgumentError, "n must not be negative, got -1", zeros(3), n=-1),
            wrong(ArgumentError, "n must be an integer, got 1.5", zeros(3), 1.5),
            wrong(ShapeError, "diff: tensors 0 and 1 do not fit together", zeros(2, 3), prepend=zeros(1, 1)),
            not_computed("diff"),
        ),
    ),
]

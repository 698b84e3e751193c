"""Functions that fold axes away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType
from smelt.errors import ArgumentError, AxisError, DTypeError, ShapeError
from tests.ops.samples import (
    Array,
    Sample,
    as_real,
    call,
    fold_specials,
    folds,
    special,
    values,
)
from tests.ops.spec import (
    ALL,
    AXIS_2,
    AXIS_FLOAT,
    AXIS_TENSOR,
    AXIS_TWICE,
    BOTH_AXES,
    FLOATS,
    SUM,
    OpSpec,
    Tolerance,
    Wrong,
    not_computed,
    not_flag,
    not_number,
    to_bool,
    to_float,
    to_index,
    to_sum,
    too_large,
    wrong,
    zeros,
)

# --- reductions


def fold(function: Callable[..., Any], **fixed: Any) -> Callable[..., Any]:
    """A NumPy reduction with the names that smelt accepts."""

    def reference(x: Array, axis: Any = None, keepdims: bool = False, **more: Any) -> Any:
        return function(x, axis=axis, keepdims=keepdims, **fixed, **more)

    return reference


def summed(function: Callable[..., Any]) -> Callable[..., Any]:
    def reference(x: Array, axis: Any = None, keepdims: bool = False) -> Any:
        wide = x.dtype if x.dtype.kind == "f" else np.uint64 if x.dtype.kind == "u" else np.int64
        return function(x, axis=axis, keepdims=keepdims, dtype=wide)

    return reference


def logsumexp(x: Array, axis: Any = None, keepdims: bool = False) -> Any:
    largest = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    offset = np.where(np.isfinite(largest), largest, 0)
    result = np.log(np.sum(np.exp(x - offset), axis=axis, keepdims=True)) + offset
    return result if keepdims else result.reshape(np.sum(x, axis=axis).shape)


def mean(x: Array, axis: Any = None, keepdims: bool = False) -> Any:
    count = np.sum(np.ones_like(x), axis=axis, keepdims=keepdims, dtype=np.float64)
    return np.divide(np.sum(x, axis=axis, keepdims=keepdims, dtype=np.float64), count)


def variance(x: Array, axis: Any = None, keepdims: bool = False, correction: float = 0) -> Any:
    count = np.sum(np.ones_like(x), axis=axis, keepdims=keepdims)
    total = np.sum((x - mean(x, axis, True)) ** 2, axis=axis, keepdims=keepdims)
    return np.divide(total, np.where((count > correction) | (correction == 0), count - correction, np.nan))


def deviation(x: Array, axis: Any = None, keepdims: bool = False, correction: float = 0) -> Any:
    return np.sqrt(variance(x, axis, keepdims, correction))


def variances(dtype: DType) -> list[Sample]:
    calls = folds(dtype)
    return [*calls, *(call(s.args[0], **s.kwargs, correction=1) for s in calls[1:5])]


def positions(dtype: DType) -> list[Sample]:
    calls = [s for s in folds(dtype, empty=False) if not isinstance(s.kwargs.get("axis"), tuple)]
    return [
        *calls,
        *fold_specials(dtype),
        call(np.zeros((3, 4), dtype.numpy), axis=1),
        call(values(dtype, 2, 3), keepdims=True),
    ]


def positive(dtype: DType) -> list[Sample]:
    # No cancellation, so that the order of a sum does not matter much; special values separately.
    return [*folds(dtype, low=0, high=2), *(fold_specials(dtype) if dtype.is_float else [])]


def factors(dtype: DType) -> list[Sample]:
    return [s for s in folds(dtype, low=1, high=1.25) if s.args[0].size < 500]


def with_specials(dtype: DType) -> list[Sample]:
    return [*folds(dtype), *fold_specials(dtype)]


def extremes(dtype: DType) -> list[Sample]:
    return [*folds(dtype, empty=False), *fold_specials(dtype)]


NOTHING = wrong(ShapeError, "there are no elements", zeros(0))
KEEP_ERRORS = (not_flag("keepdims", zeros(2, 3)), not_flag("keepdim", zeros(2, 3)))
FOLD_ERRORS = (AXIS_2, AXIS_TWICE, AXIS_FLOAT, AXIS_TENSOR, BOTH_AXES, *KEEP_ERRORS)
DTYPE_ERRORS = (wrong(DTypeError, "Tensor(shape=(2,), dtype=float32", zeros(3), dtype=zeros(2)),)
VARIANCE_ERRORS = (*FOLD_ERRORS, not_number("correction", zeros(3)), too_large("correction", zeros(3)))


def place_errors(name: str) -> tuple[Wrong, ...]:
    return (NOTHING, AXIS_2, AXIS_FLOAT, BOTH_AXES, *KEEP_ERRORS, not_computed(name))


def argument(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axis=None, keepdims=False: function(x, axis=axis, keepdims=keepdims)


REDUCTIONS = [
    OpSpec("sum", summed(np.sum), positive, ALL, to_sum, SUM, (*FOLD_ERRORS, *DTYPE_ERRORS)),
    OpSpec("prod", summed(np.prod), factors, ALL, to_sum, SUM, (*FOLD_ERRORS, *DTYPE_ERRORS)),
    OpSpec("max", fold(np.max), extremes, ALL, errors=(NOTHING, *FOLD_ERRORS)),
    OpSpec("min", fold(np.min), extremes, ALL, errors=(NOTHING, *FOLD_ERRORS)),
    OpSpec("any", fold(np.any), with_specials, ALL, to_bool, errors=FOLD_ERRORS),
    OpSpec("all", fold(np.all), with_specials, ALL, to_bool, errors=FOLD_ERRORS),
    OpSpec("count_nonzero", fold(np.count_nonzero), with_specials, ALL, to_index, errors=FOLD_ERRORS),
    OpSpec(
        "mean",
        mean,
        folds,
        (*FLOATS, dtypes.int32, dtypes.bool_),
        to_float,
        SUM,
        (*FOLD_ERRORS, *DTYPE_ERRORS),
    ),
    OpSpec(
        "var",
        variance,
        variances,
        FLOATS,
        to_float,
        SUM,
        VARIANCE_ERRORS,
    ),
    OpSpec(
        "std",
        deviation,
        variances,
        FLOATS,
        to_float,
        SUM,
        VARIANCE_ERRORS,
    ),
    OpSpec("logsumexp", logsumexp, with_specials, FLOATS, tolerance=Tolerance(8, 8), errors=FOLD_ERRORS),
    OpSpec("argmax", argument(np.argmax), positions, ALL, to_index, errors=place_errors("argmax")),
    OpSpec("argmin", argument(np.argmin), positions, ALL, to_index, errors=place_errors("argmin")),
]


# --- norms


def norm(x: Array, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    size = np.abs(as_real(x))
    fold = {"axis": axis, "keepdims": keepdims}
    if ord == 0:
        return np.sum(size != 0, **fold).astype(size.dtype)
    if np.isinf(ord):
        return (np.max if ord > 0 else np.min)(size, **fold)
    return np.sum(size**ord, **fold) ** (1 / ord)


def norms(dtype: DType) -> list[Sample]:
    some = folds(dtype)
    orders = [call(values(dtype, 4, 7), ord=p, axis=1) for p in (0, 1, 2, 3, 2.5, -1, np.inf, -np.inf)]
    # Squares of the largest floats overflow, as they do in NumPy: special values where nothing is squared.
    odd = np.array([[np.nan, 1, 2], [np.inf, -np.inf, 3], [0, -0.0, 0]]).astype(dtype.numpy) if dtype.is_float else []
    return [
        *some,
        *orders,
        *(call(odd, axis=1, ord=p) for p in (0, 1, 2, 3, -1, np.inf, -np.inf) if dtype.is_float),
        call(special(dtype), ord=np.inf),
        call(special(dtype), ord=0),
    ]


NORM_ERRORS = (
    *FOLD_ERRORS,
    wrong(ArgumentError, "ord must be a number, got 'fro'", zeros(2, 3), ord="fro"),
    wrong(ArgumentError, "ord must not be NaN", zeros(2, 3), ord=np.nan),
    too_large("ord", zeros(2, 3)),
    wrong(ShapeError, "there are no elements", zeros(2, 0), ord=np.inf),
)

NORMS = [
    OpSpec("vector_norm", norm, norms, (*FLOATS, dtypes.int32), to_float, SUM, NORM_ERRORS),
    OpSpec(
        "norm",
        norm,
        lambda dtype: [*norms(dtype), call(values(dtype, 4, 7), 1, 0)],
        (*FLOATS, dtypes.int32),
        to_float,
        SUM,
        NORM_ERRORS,
    ),
]


# --- quantiles


def median(x: Array, axis: Any = None, keepdims: bool = False) -> Any:
    return np.median(as_real(x), axis=axis, keepdims=keepdims)


def quantile(x: Array, q: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return np.quantile(as_real(x), q, axis=axis, keepdims=keepdims)


def medians(dtype: DType) -> list[Sample]:
    # NumPy refuses to sort along no axis at all.
    calls = [s for s in folds(dtype, empty=False) if s.kwargs.get("axis") != ()]
    odd = [call(np.array([[np.nan, 1, 2], [np.inf, -np.inf, 3]]).astype(dtype.numpy), axis=1)] if dtype.is_float else []
    return [*calls, *odd, call(values(dtype, 4), keepdims=True), call(np.zeros((3, 4), dtype.numpy), axis=1)]


def quantiles(dtype: DType) -> list[Sample]:
    shares: list[Any] = [0, 1, 0.5, 0.3, [0.25, 0.75], [0.1], (0.0, 1.0)]
    return [call(*s.args, shares[k % len(shares)], **s.kwargs) for k, s in enumerate(medians(dtype))]


QUANTILES = [
    OpSpec("median", median, medians, (*FLOATS, dtypes.int32), to_float, SUM, (NOTHING, *FOLD_ERRORS)),
    OpSpec(
        "quantile",
        quantile,
        quantiles,
        (*FLOATS, dtypes.int32),
        to_float,
        SUM,
        (
            wrong(ArgumentError, "must lie between 0 and 1, got 1.5", zeros(3), 1.5),
            wrong(ArgumentError, "a share must be a number, got 'half'", zeros(3), "half"),
            wrong(ArgumentError, "there are no shares", zeros(3), []),
            wrong(ShapeError, "there are no elements", zeros(0), 0.5),
            wrong(AxisError, "axis 2 is out of range", zeros(2, 3), 0.5, axis=2),
            not_flag("keepdims", zeros(3), 0.5),
        ),
    ),
]

"""Functions that fold axes away."""

from __future__ import annotations

import warnings
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
    NUMBERS,
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
DTYPE_ERRORS = (wrong(DTypeError, "is not a dtype that smelt has", zeros(3), dtype=zeros(2)),)
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


# --- without NaN


def with_gaps(dtype: DType, **bounds: float) -> list[Sample]:
    """Reductions of numbers of which some are missing, in one row all."""
    if not dtype.is_float:
        return [s for s in folds(dtype, empty=False, **bounds) if s.kwargs.get("axis") != ()]
    x, small = values(dtype, 5, 7, 3, **bounds), values(dtype, 31, **bounds)
    x[::2, 1:5], small[::3] = np.nan, np.nan
    x[1], small[5] = np.nan, 1
    return [
        call(x),
        call(x, axis=0),
        call(x, axis=-1, keepdims=True),
        call(x, axis=(0, 2)),
        call(small),
        call(values(dtype, 3, 7, **bounds), axis=1),
        call(np.full((2, 3), np.nan).astype(dtype.numpy), axis=1),
    ]


def gaps_left_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy's, which warns where nothing is left."""

    def reference(x: Array, *args: Any, axis: Any = None, keepdims: bool = False, **more: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return function(as_real(x), *args, axis=axis, keepdims=keepdims, **more)

    return reference


def less_one(function: Callable[..., Any]) -> Callable[..., Any]:
    plain = gaps_left_out(function)
    return lambda x, correction=0, **more: plain(x, ddof=correction, **more)


def corrected(dtype: DType) -> list[Sample]:
    calls = with_gaps(dtype)
    return [*calls, *(call(*s.args, **s.kwargs, correction=1) for s in calls)]


def shares(*chosen: Any) -> Callable[[DType], list[Sample]]:
    return lambda dtype: [call(*s.args, chosen[k % len(chosen)], **s.kwargs) for k, s in enumerate(with_gaps(dtype))]


WITHOUT_NAN = [
    OpSpec("nansum", summed(np.nansum), lambda d: with_gaps(d, low=0), ALL, to_sum, SUM, (*FOLD_ERRORS, *DTYPE_ERRORS)),
    OpSpec(
        "nanprod",
        summed(np.nanprod),
        lambda d: [s for s in with_gaps(d, low=1, high=1.25) if s.args[0].size < 500],
        ALL,
        to_sum,
        SUM,
        (*FOLD_ERRORS, *DTYPE_ERRORS),
    ),
    OpSpec("nanmax", gaps_left_out(np.nanmax), with_gaps, NUMBERS, errors=(NOTHING, *FOLD_ERRORS)),
    OpSpec("nanmin", gaps_left_out(np.nanmin), with_gaps, NUMBERS, errors=(NOTHING, *FOLD_ERRORS)),
    OpSpec(
        "nanmean",
        gaps_left_out(np.nanmean),
        with_gaps,
        (*FLOATS, dtypes.int32),
        to_float,
        SUM,
        (*FOLD_ERRORS, *DTYPE_ERRORS),
    ),
    OpSpec("nanvar", less_one(np.nanvar), corrected, FLOATS, to_float, SUM, VARIANCE_ERRORS),
    OpSpec("nanstd", less_one(np.nanstd), corrected, FLOATS, to_float, SUM, VARIANCE_ERRORS),
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


def share_errors(whole: int) -> tuple[Wrong, ...]:
    return (
        wrong(ArgumentError, f"must lie between 0 and {whole}, got {1.5 * whole}", zeros(3), 1.5 * whole),
        wrong(ArgumentError, "a share must be a number, got 'half'", zeros(3), "half"),
        wrong(ArgumentError, "there are no shares", zeros(3), []),
        wrong(ShapeError, "there are no elements", zeros(0), 0.5),
        wrong(AxisError, "axis 2 is out of range", zeros(2, 3), 0.5, axis=2),
        not_flag("keepdims", zeros(3), 0.5),
    )


REAL = (*FLOATS, dtypes.int32)
MANY = (0, 1, 0.5, 0.3, [0.25, 0.75], (0.0, 1.0))
IN_HUNDREDTHS = tuple([100 * q for q in many] if isinstance(many, list | tuple) else 100 * many for many in MANY)

QUANTILES = [
    OpSpec("median", median, medians, REAL, to_float, SUM, (NOTHING, *FOLD_ERRORS)),
    OpSpec("quantile", quantile, quantiles, REAL, to_float, SUM, share_errors(1)),
    OpSpec(
        "percentile",
        lambda x, q, **more: np.percentile(as_real(x), q, **more),
        lambda dtype: [call(s.args[0], IN_HUNDREDTHS[k % 6], **s.kwargs) for k, s in enumerate(medians(dtype))],
        REAL,
        to_float,
        SUM,
        share_errors(100),
    ),
    OpSpec("nanmedian", gaps_left_out(np.nanmedian), with_gaps, REAL, to_float, SUM, (NOTHING, *FOLD_ERRORS)),
    OpSpec("nanquantile", gaps_left_out(np.nanquantile), shares(*MANY), REAL, to_float, SUM, share_errors(1)),
    OpSpec(
        "nanpercentile",
        gaps_left_out(np.nanpercentile),
        shares(*IN_HUNDREDTHS),
        REAL,
        to_float,
        SUM,
        share_errors(100),
    ),
]

"""Functions that sort, find and count."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.dtypes import DType, float32, float64, int64
from smelt.errors import ArgumentError, AxisError, DTypeError, ShapeError
from tests.ops.samples import Array, Sample, call, special, strided, values
from tests.ops.spec import (
    ALL,
    AXIS_2,
    AXIS_FLOAT,
    BOTH_AXES,
    INTEGERS,
    NUMBERS,
    SUM,
    OpSpec,
    Wrong,
    not_computed,
    not_flag,
    not_tensors,
    to_bool,
    to_index,
    unequal_dtypes,
    wrong,
    zeros,
)

RANK_0 = wrong(AxisError, "out of range for a tensor of rank 0", zeros())
SORT_ERRORS = (
    AXIS_2,
    RANK_0,
    AXIS_FLOAT,
    BOTH_AXES,
    not_flag("stable", zeros(3)),
    wrong(ArgumentError, "descending must be True or False, got ['x']", zeros(3), descending=["x"]),
)


def order(x: Array, axis: int | None = -1, descending: bool = False) -> Array:
    """Stable in both directions."""
    if axis is None:
        return order(x.ravel(), -1, descending)
    if not descending:
        return np.argsort(x, axis, kind="stable")
    size = x.shape[axis]
    return np.asarray(size - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis))


def ordered(x: Array, axis: int | None = -1, descending: bool = False, **_: Any) -> Array:
    return np.take_along_axis(x, order(x, axis, descending), axis)


def best(x: Array, k: int, axis: int = -1, largest: bool = True) -> tuple[Array, Array]:
    places = np.take(order(x, axis, largest), np.arange(k), axis)
    return np.take_along_axis(x, places, axis), places


def sorts(dtype: DType) -> list[Sample]:
    x = values(dtype, 5, 7, 3)
    return [
        call(special(dtype)),
        call(special(dtype), descending=True),
        call(x),
        call(x, axis=0, descending=True),
        call(x, axis=1),
        call(x, axis=None),
        call(strided(dtype, 4, 5, 6), axis=1),
        call(values(dtype, 1031)),
        call(values(dtype, 0)),
        call(values(dtype, 3, 1), axis=1),
        call(values(dtype, 2, 0, 3), axis=0),
    ]


def selections(dtype: DType) -> list[Sample]:
    x = values(dtype, 5, 7, 3)
    calls = [call(x, 2), call(x, 0), call(x, 7, axis=1), call(x, 1, axis=0, largest=False)]
    return [*calls, call(special(dtype), 2), call(values(dtype, 1031), 5), call(values(dtype, 1031), 5, largest=False)]


def masks(dtype: DType) -> list[Sample]:
    arrays = [values(dtype, 7), values(dtype, 5, 3, 4), strided(dtype, 4, 5), special(dtype), values(dtype, 0, 3)]
    return [*(call(x) for x in arrays), call(np.zeros((2, 3), dtype.numpy)), call(values(dtype, 5, 7), size=50)]


def flat_masks(dtype: DType) -> list[Sample]:
    return [call(values(dtype)), *masks(dtype), call(values(dtype, 11), size=20, fill_value=-1)]


def padded(x: Array, size: int | None, fill: int = 0) -> Array:
    if size is None:
        return x
    return np.concatenate([x[:size], np.full((max(0, size - len(x)), *x.shape[1:]), fill, np.int64)])


def distincts(dtype: DType) -> list[Sample]:
    # Several NaN differ in the array API: they have samples of their own.
    x = special(dtype)
    return [call(x), call(values(dtype, 5, 7)), call(values(dtype)), call(values(dtype, 0)), call(values(dtype, 1031))]


def unique_parts(*names: str) -> Any:
    def reference(x: Array) -> Any:
        found = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
        table = dict(zip(("values", "indices", "inverse", "counts"), found, strict=True))
        table["values"] = x.reshape(-1)[table["indices"]]  # of two zeros, the first
        table["inverse"] = table["inverse"].reshape(x.shape)
        parts = tuple(table[name] for name in names)
        return parts if len(parts) > 1 else parts[0]

    return reference


def members(dtype: DType) -> list[Sample]:
    x = values(dtype, 5, 7)
    return [
        call(x, values(dtype, 4)),
        call(x, values(dtype, 2, 3), invert=True),
        call(special(dtype), special(dtype)[::2]),
        call(values(dtype), values(dtype)),
        call(values(dtype, 0), values(dtype, 3)),
        call(x, values(dtype, 0)),
        call(x, values(dtype, 0), invert=True),
    ]


def bins(dtype: DType) -> list[Sample]:
    x, empty = values(dtype, 40, low=0, high=9), values(dtype, 0)
    return [call(x), call(x, minlength=20), call(empty), call(empty, minlength=3), call(x, length=4)]


def counts(x: Array, minlength: int = 0, length: int | None = None) -> Array:
    found = np.bincount(x.astype(np.int64), minlength=max(minlength, length or 0))
    return found if length is None else found[:length]


def histograms(dtype: DType) -> list[Sample]:
    x, weights = values(dtype, 7, 11), values(dtype, 7, 11, low=0, high=1)
    return [
        call(x, density=True),
        call(x, 5, (-2, 3), density=True),
        call(x, [-3.5, -1.0, 0.25, 4.0], density=True),
        call(x, 4, weights=weights),
        call(np.full(3, 2, dtype.numpy), 4, density=True),
    ]


def digits(dtype: DType) -> list[Sample]:
    x = values(dtype, 5, 7, low=0, high=9)
    edges = np.array([1, 3, 5, 8], dtype.numpy)
    return [call(x, edges), call(x, edges, right=True), call(x, [1, 3, 5]), call(x, [5, 3, 1]), call(x, [5, 3], True)]


NOT_LESS = wrong(ArgumentError, "size must not be negative", zeros(3), size=-1)
NOT_WHOLE = wrong(ArgumentError, "size must be an integer", zeros(3), size=1.5)
FAR_FILL = wrong(ArgumentError, f"the fill value {2**70} is not int64", zeros(3), size=2, fill_value=2**70)
FILLS = wrong(ArgumentError, "2 fill values for 1 axes", zeros(3), size=2, fill_value=(0, 1))
NO_AXES = wrong(ShapeError, "rank 0 has no axes", zeros())


def distinct_errors(name: str) -> tuple[Wrong, ...]:
    return (not_computed(name), *not_tensors(name))


ORDERING = [
    OpSpec("sort", ordered, sorts, ALL, errors=SORT_ERRORS),
    OpSpec(
        "argsort",
        lambda x, axis=-1, descending=False: order(x, axis, descending),
        sorts,
        ALL,
        to_index,
        errors=SORT_ERRORS,
    ),
    OpSpec(
        "topk",
        best,
        selections,
        (int64,),
        errors=(
            wrong(ArgumentError, "k is 4, and axis 1 of shape (2, 3) has 3 elements", zeros(2, 3), 4),
            wrong(ArgumentError, "k is -1", zeros(2, 3), -1),
            wrong(ArgumentError, "k must be an integer, got 1.5", zeros(2, 3), 1.5),
            wrong(AxisError, "axis 2 is out of range", zeros(2, 3), 1, axis=2),
            wrong(ArgumentError, "an axis must be an integer, got None", zeros(2, 3), 1, axis=None),
            not_flag("largest", zeros(3), 1),
            not_flag("sorted", zeros(3), 1),
        ),
    ),
    OpSpec(
        "nonzero",
        lambda x, size=None: tuple(padded(axis, size) for axis in np.nonzero(x)),
        masks,
        ALL,
        to_index,
        errors=(NO_AXES, NOT_LESS, NOT_WHOLE, FILLS, FAR_FILL),
    ),
    OpSpec(
        "argwhere",
        lambda x, size=None: padded(np.argwhere(x), size),
        masks,
        ALL,
        to_index,
        errors=(NO_AXES, NOT_LESS, NOT_WHOLE, FILLS, FAR_FILL),
    ),
    OpSpec(
        "flatnonzero",
        lambda x, size=None, fill_value=0: padded(np.flatnonzero(x), size, fill_value),
        flat_masks,
        ALL,
        to_index,
        errors=(NOT_LESS, NOT_WHOLE, FILLS, FAR_FILL),
    ),
    OpSpec(
        "bincount",
        counts,
        bins,
        INTEGERS,
        to_index,
        errors=(
            wrong(ShapeError, "x must be a vector", np.zeros((2, 2), np.int64)),
            wrong(DTypeError, "x must be integers, not float32", zeros(3)),
            wrong(ArgumentError, "x has the negative element -2", np.array([1, -2])),
            wrong(ArgumentError, "minlength must not be negative", np.array([1]), minlength=-1),
            wrong(ShapeError, f"there would be {2**70} elements", np.array([1]), minlength=2**70),
            wrong(ShapeError, "x and weights have shapes (3,) and (2,)", np.zeros(3, np.int64), zeros(2)),
        ),
    ),
    OpSpec(
        "histogram",
        np.histogram,
        histograms,
        (float32, float64),
        tolerance=SUM,
        errors=(
            wrong(ArgumentError, "histogram: 0 bins", zeros(3), 0),
            wrong(ArgumentError, "bins must be an integer, got 'auto'", zeros(3), "auto"),
            wrong(ShapeError, "edges of shape (1,)", zeros(3), [1.0]),
            wrong(ArgumentError, "range is (2, 1)", zeros(3), range=(2, 1)),
            wrong(ArgumentError, "range is 3", zeros(3), range=3),
            wrong(ShapeError, "x and weights have shapes (3,) and (2,)", zeros(3), weights=zeros(2)),
            not_flag("density", zeros(3)),
            not_computed("histogram"),
        ),
    ),
    OpSpec(
        "digitize",
        np.digitize,
        digits,
        NUMBERS,
        to_index,
        errors=(
            wrong(ShapeError, "edges of shape (1, 2)", zeros(3), [[1.0, 2.0]]),
            wrong(ArgumentError, "the edges neither rise nor fall", zeros(3), [1.0, 3.0, 2.0]),
            not_flag("right", zeros(3), [1.0]),
            not_computed("digitize", [1.0]),
        ),
    ),
    OpSpec("unique_values", unique_parts("values"), distincts, ALL, errors=distinct_errors("unique_values")),
    OpSpec(
        "unique_counts", unique_parts("values", "counts"), distincts, (int64,), errors=distinct_errors("unique_counts")
    ),
    OpSpec(
        "unique_inverse",
        unique_parts("values", "inverse"),
        distincts,
        (int64,),
        errors=distinct_errors("unique_inverse"),
    ),
    OpSpec(
        "unique_all",
        unique_parts("values", "indices", "inverse", "counts"),
        distincts,
        (int64,),
        errors=distinct_errors("unique_all"),
    ),
    OpSpec(
        "unique",
        unique_parts("values"),
        distincts,
        ALL,
        errors=(
            *(not_flag(f"return_{what}", zeros(3)) for what in ("index", "inverse", "counts")),
            not_flag("equal_nan", zeros(3)),
            *distinct_errors("unique"),
        ),
    ),
    OpSpec(
        "isin",
        lambda x, y, invert=False: np.isin(x, y, invert=invert),
        members,
        ALL,
        to_bool,
        errors=(
            *unequal_dtypes("isin"),
            not_flag("invert", zeros(3), zeros(2)),
            wrong(DTypeError, "isin: no tensor can hold elements of the NumPy dtype <U4", zeros(3), "text"),
        ),
    ),
]

"""Functions that find elements by index, put them there, or say where they would go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from smelt.dtypes import DType, int64
from smelt.errors import ArgumentError, AxisError, DTypeError, IndexRangeError, ShapeError
from tests.ops.samples import Array, Sample, Samples, call, special, strided, values
from tests.ops.spec import (
    ALL,
    EXACT,
    INTEGERS,
    NUMBERS,
    SUM,
    OpSpec,
    Tolerance,
    Wrong,
    not_flag,
    to_index,
    wrong,
    zeros,
)

FLOAT_INDEX = zeros(2)


def found(
    name: str,
    reference: Callable[..., Any],
    samples: Samples,
    *errors: Wrong,
    dtypes: tuple[DType, ...] = ALL,
    result: Callable[[DType], DType] = lambda dtype: dtype,
    tolerance: Tolerance = EXACT,
) -> OpSpec:
    return OpSpec(name, reference, samples, dtypes, result, tolerance, errors)


def places(size: int, *shape: int, dtype: Any = np.int64) -> Array:
    """Indices of an axis, negative ones among them where the dtype has them."""
    low = 0 if np.dtype(dtype).kind == "u" else -size
    return np.random.default_rng(size + len(shape)).integers(low, size, shape).astype(dtype)


def takes(dtype: DType) -> list[Sample]:
    x = strided(dtype, 5, 3, 7)
    return [
        call(x, places(5, 11), axis=0),
        call(x, places(3, 2, 4, dtype=np.int8), axis=1),
        call(x, places(7, 13, dtype=np.uint64), axis=-1),
        call(strided(dtype, 37), places(37, 6)),
        call(x, [1, -1, 0], axis=2),
        call(x, 2, axis=1),
        call(x, places(3, 0), axis=1),
        call(special(dtype), places(special(dtype).size, 40), axis=0),
        call(values(dtype, 1), places(1, 1031), axis=0),
        call(values(dtype, 4, 0), places(4, 3), axis=0),
    ]


def take(x: Array, indices: Any, axis: int | None = None) -> Array:
    return np.take(x, indices, axis)


def selections(dtype: DType) -> list[Sample]:
    x = strided(dtype, 5, 7)
    return [call(x, 0, places(5, 9)), call(x, -1, places(7, 17, dtype=np.int16)), call(x, 1, [0, 6, -7])]


def along(dtype: DType) -> list[Sample]:
    x = strided(dtype, 5, 3, 7)
    return [
        call(x, places(7, 5, 3, 2)),
        call(x, places(5, 4, 3, 7), axis=0),
        call(x, places(3, 1, 6, 7, dtype=np.int32), axis=1),
        call(values(dtype, 1, 3, 7), places(7, 5, 1, 4), axis=-1),
        call(values(dtype, 9), places(9, 0), axis=0),
    ]


def gathers(dtype: DType) -> list[Sample]:
    x = strided(dtype, 5, 3, 7)
    return [call(x, 0, places(5, 8, 2, 7)), call(x, -1, places(7, 5, 1, 3)), call(values(dtype, 13), 0, places(13, 40))]


def gathered(x: Array, axis: int, index: Array) -> Array:
    axis %= x.ndim
    kept = tuple(slice(None) if k == axis else slice(size) for k, size in enumerate(index.shape))
    return np.take_along_axis(x[kept], index, axis)


def scatters(dtype: DType) -> list[Sample]:
    x, index = strided(dtype, 5, 3), places(5, 4, 2)
    samples = [
        call(x, 0, index, values(dtype, 4, 3)),
        call(x, 1, places(3, 5, 2), values(dtype, 6, 2)),
        call(x, 0, index, np.asarray(values(dtype, 1))[0].item()),
    ]
    if not dtype.is_bool:
        samples += [call(x, 0, index, values(dtype, 4, 3), reduce=op) for op in ("add", "multiply", "min", "amax")]
    return samples


def scatter_adds(dtype: DType) -> list[Sample]:
    return [
        call(strided(dtype, 5, 3), 0, places(5, 4, 3), values(dtype, 4, 3)),
        call(values(dtype, 7), -1, places(7, 50), 1),
        call(values(dtype, 7), 0, places(7, 0), 1),
    ]


def scattered(x: Array, axis: int, index: Array, src: Any, reduce: str | None = None) -> Array:
    axis %= x.ndim
    result = x.copy()
    src = np.broadcast_to(src, index.shape) if np.ndim(src) == 0 else src
    combine = {
        "add": lambda a, b: a + b,
        "multiply": lambda a, b: a * b,
        "min": np.minimum,
        "amax": np.maximum,
        None: lambda a, b: b,
    }[reduce]
    for at in np.ndindex(index.shape):
        place = (*at[:axis], index[at], *at[axis + 1 :])
        result[place] = combine(result[place], src[at])
    return result


def scatter_added(x: Array, axis: int, index: Array, src: Any) -> Array:
    return scattered(x, axis, index, src, "add")


def fills(dtype: DType) -> list[Sample]:
    x = strided(dtype, 5, 3)
    mask = np.arange(15).reshape(5, 3) % 2 == 0
    number: Any = True if dtype.is_bool else 3
    return [call(x, mask, number), call(x, mask[:, :1], values(dtype)), call(special(dtype), np.array(True), number)]


def filled(x: Array, mask: Array, value: Any) -> Array:
    return np.where(mask, np.asarray(value).astype(x.dtype), x)


def masked(dtype: DType) -> list[Sample]:
    x = strided(dtype, 5, 3)
    mask = np.arange(15).reshape(5, 3) % 2 == 0
    return [call(x, mask), call(x, mask[0]), call(x, mask & False), call(values(dtype), np.array(True))]


def masked_selected(x: Array, mask: Array) -> Array:
    x, mask = np.broadcast_arrays(x, mask)
    return np.asarray(x[mask]).reshape(-1)


def classes(dtype: DType) -> list[Sample]:
    return [call(values(dtype, 7), 3), call(values(dtype, 2, 3), 5), call(values(dtype), 1), call(special(dtype), 4)]


def one_hot(x: Array, count: int) -> Array:
    return x[..., None] == np.arange(count)


def embeddings(dtype: DType) -> list[Sample]:
    table = strided(dtype, 7, 5)
    return [
        call(places(7, 11), table),
        call(places(7, 2, 3, dtype=np.int32), table),
        call([[1, 2]], table),
        call(places(7, 0), table),
        call(places(1, 4), values(dtype, 1, 1)),
    ]


def searches(dtype: DType) -> list[Sample]:
    table = np.sort(values(dtype, 37))
    wanted = values(dtype, 5, 7, low=-6, high=6)
    order = np.random.default_rng(3).permutation(37)
    shuffled = np.empty_like(table)
    shuffled[order] = table
    with_nan = np.sort(special(dtype))
    return [
        call(table, wanted),
        call(table, wanted, side="right"),
        call(shuffled, wanted, sorter=order),
        call(with_nan, special(dtype)),
        call(with_nan, special(dtype), side="right"),
        call(values(dtype, 1), wanted),
        call(values(dtype, 0), wanted),
        call(table, values(dtype)),
    ]


def searched(a: Array, v: Any, side: str = "left", sorter: Any = None) -> Array:
    return np.asarray(np.searchsorted(a, v, side, sorter))


LOOKUPS = [
    found(
        "take",
        take,
        takes,
        wrong(IndexRangeError, "take: index 5 is out of range for axis 0", zeros(5, 2), [0, 5], axis=0),
        wrong(AxisError, "axis 2 is out of range for a tensor of rank 2", zeros(2, 3), [0], axis=2),
        wrong(DTypeError, "take: indices must be integers, not float32", zeros(2, 3), FLOAT_INDEX, axis=0),
        wrong(ArgumentError, "has rank 2, and no axis is given", zeros(2, 3), [0]),
        wrong(ArgumentError, "take: an axis must be an integer, got ()", zeros(2, 3), [0], axis=()),
        wrong(IndexRangeError, "there is nothing to read", zeros(0, 3), np.array([0]), axis=0),
    ),
    found(
        "index_select",
        lambda x, axis, index: np.take(x, index, axis),
        selections,
        wrong(ShapeError, "the index has shape (1, 1)", zeros(2, 3), 0, np.array([[0]])),
        wrong(AxisError, "axis -3 is out of range", zeros(2, 3), -3, np.array([0])),
        wrong(IndexRangeError, "index -4 is out of range for axis 1", zeros(2, 3), 1, [0, -4]),
    ),
    found(
        "take_along_axis",
        lambda x, indices, axis=-1: np.take_along_axis(*_spread(x, indices, axis), axis),
        along,
        wrong(ShapeError, "both must have the same rank", zeros(2, 3), np.array([0])),
        wrong(ShapeError, "shapes do not broadcast", zeros(2, 3), np.zeros((3, 3), int)),
        wrong(DTypeError, "indices must be integers, not float32", zeros(2), FLOAT_INDEX),
    ),
    found(
        "gather",
        gathered,
        gathers,
        wrong(ShapeError, "the index is larger than the tensor", zeros(2, 3), 1, np.zeros((3, 3), int)),
        wrong(ShapeError, "both must have the same rank", zeros(2, 3), 1, np.array([0])),
        wrong(DTypeError, "indices must be integers, not bool", zeros(2), 0, np.array([True])),
    ),
    found(
        "scatter",
        scattered,
        scatters,
        wrong(ArgumentError, "there is no reduction called 'mean'", zeros(2), 0, np.array([0]), 1.0, reduce="mean"),
        wrong(ArgumentError, "there is no reduction called ['add']", zeros(2), 0, np.array([0]), 1.0, reduce=["add"]),
        wrong(ShapeError, "the index is larger than src", zeros(2), 0, np.array([0, 1]), zeros(1)),
        wrong(DTypeError, "values of float32 do not go into int64", np.array([1, 2]), 0, np.array([0]), zeros(1)),
        tolerance=SUM,
    ),
    found(
        "scatter_add",
        scatter_added,
        scatter_adds,
        wrong(DTypeError, "bool is not supported", np.array([True]), 0, np.array([0]), True),
        wrong(ShapeError, "the index is larger than the tensor", zeros(2, 1), 0, np.zeros((1, 2), int), 1.0),
        wrong(AxisError, "axis 1 is out of range", zeros(2), 1, np.array([0]), 1.0),
        dtypes=NUMBERS,
        tolerance=SUM,
    ),
    found(
        "masked_fill",
        filled,
        fills,
        wrong(DTypeError, "the mask is float32", zeros(2), zeros(2), 1.0),
        wrong(ShapeError, "cannot expand", zeros(2), np.array([True, False, True]), 1.0),
        wrong(ShapeError, "it must be a single number", zeros(2), np.array(True), zeros(2)),
    ),
    found(
        "masked_select",
        masked_selected,
        masked,
        wrong(DTypeError, "the mask is int64", zeros(2), np.array([1, 0])),
        wrong(ShapeError, "shapes do not broadcast", zeros(2), np.array([True, False, True])),
        wrong(DTypeError, "masked_select: no tensor can hold elements", zeros(2), "mask"),
    ),
    found(
        "one_hot",
        one_hot,
        classes,
        wrong(DTypeError, "classes must be integers, not float32", zeros(2), 3),
        wrong(ArgumentError, "there are 0 classes", np.array([0]), 0),
        wrong(ArgumentError, "the number of classes must be an integer, got 2.5", np.array([0]), 2.5),
        dtypes=INTEGERS,
        result=lambda dtype: int64,
    ),
    found(
        "embedding",
        lambda indices, weight: np.take(weight, indices, 0),
        embeddings,
        wrong(ShapeError, "the table has shape (2,)", np.array([0]), zeros(2)),
        wrong(IndexRangeError, "index 2 is out of range for axis 0", [2], zeros(2, 3)),
        wrong(DTypeError, "indices must be integers, not float32", FLOAT_INDEX, zeros(2, 3)),
    ),
    found(
        "searchsorted",
        searched,
        searches,
        wrong(ArgumentError, "side is 'middle'", zeros(2), zeros(2), side="middle"),
        wrong(ShapeError, "what is searched must be a vector", zeros(2, 2), zeros(2)),
        not_flag("right", zeros(2), zeros(2)),
        wrong(ShapeError, "the sorter has shape (1,)", zeros(2), zeros(2), sorter=np.array([0])),
        dtypes=NUMBERS,
        result=to_index,
    ),
]


def _spread(x: Array, indices: Array, axis: int) -> tuple[Array, Array]:
    """Both with their other axes broadcast, which NumPy does for the indices only."""
    axis %= x.ndim
    shape = np.broadcast_shapes(
        *(tuple(1 if k == axis else n for k, n in enumerate(array.shape)) for array in (x, indices))
    )

    def whole(array: Array) -> Array:
        return np.broadcast_to(array, [array.shape[k] if k == axis else n for k, n in enumerate(shape)])

    return whole(x), whole(indices)

"""Builders of nodes whose elements are found by value (gather, scatter, nonzero) or put in order (scan, sort)."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.dtypes import STORAGE, DType, bool_, int64
from smelt.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from smelt.graph.build_elementwise import bitwise_and, cast, check_fold, const, le, lt, only_stored
from smelt.graph.build_reduce import size_node
from smelt.graph.index import IndexLike, as_index
from smelt.graph.node import Node, Shape, made
from smelt.graph.ops import SCANS, SCATTERS, Gathering, Op, Scanning, Scattering, Sorting
from smelt.graph.shapes import normalized_axis


def gather(
    x: Node,
    indices: Sequence[Node],
    axes: Sequence[int],
    shape: Shape | None = None,
    *,
    checked: bool = False,
    name: str = "gather",
) -> Node:
    """Elements of x found by index tensors, which all have the shape of the result.

    `axes` has an entry for each axis of x: k >= 0 is axis k of the result, -1 - k is index tensor k. Indices count from
    the front; those outside read the nearest element, which `checked` reports.
    """
    shape = indices[0].shape if shape is None else shape
    _check_indices(indices, shape, name)
    for axis, size in zip(axes, x.shape, strict=True):
        if axis < 0 and as_index(size).low == 0 and 0 not in shape:
            raise IndexRangeError(
                f"{name}: there is nothing to read: an indexed axis has size {size}",
                hint="" if size == 0 else "Declare the dim with a lower bound of at least 1.",
            )
    return made(Op.GATHER, x.dtype, shape, (x, *indices), Gathering(tuple(axes), checked))


def scatter(
    op: str,
    target: Node,
    updates: Node,
    indices: Sequence[Node],
    axes: Sequence[int],
    *,
    checked: bool = False,
    name: str = "scatter",
) -> Node:
    """The target with updates combined into the elements that index tensors name; see `Scattering` for `axes`."""
    if op not in SCATTERS:
        raise ArgumentError(f"{name}: there is no update called {op!r}", hint=f"Use one of: {', '.join(SCATTERS)}.")
    if target.dtype is not updates.dtype:
        raise DTypeError(f"{name}: the target is {target.dtype}, the updates are {updates.dtype}")
    check_fold(op, target.dtype, name)
    _check_indices(indices, updates.shape, name)
    attribute = Scattering(op, tuple(axes), checked)
    return made(Op.SCATTER, target.dtype, target.shape, (target, updates, *indices), attribute)


def _check_indices(indices: Sequence[Node], shape: Shape, name: str) -> None:
    for index in indices:
        if not index.dtype.is_integer:
            raise DTypeError(f"{name}: indices must be integers, not {index.dtype}", hint="Cast them to int64.")
        if index.shape != shape:
            raise ShapeError(f"{name}: index tensors of shapes {index.shape} and {shape}")


def in_range(index: Node, size: IndexLike) -> Node:
    """Where int64 indices lie inside an axis."""
    return bitwise_and(le(const(0, int64), index), lt(index, size_node(size, int64)))


def nonzero(x: Node, size: IndexLike) -> Node:
    """The positions of the true elements of a vector, in order; after the last one, the vector's size."""
    return made(Op.NONZERO, int64, (size,), (cast(x, bool_),))


def scan(op: str, x: Node, axis: int, *, name: str = "") -> Node:
    """Element i along the axis becomes the elements up to and with i, combined."""
    if op not in SCANS:
        raise ArgumentError(f"scan: there is no scan called {op!r}", hint=f"Use one of: {', '.join(SCANS)}.")
    axis = normalized_axis(axis, x.rank, name or op)
    check_fold(op, x.dtype, name or op)
    if op == "logaddexp" and not x.dtype.is_float:
        raise DTypeError(f"{name or op}: {x.dtype} is not supported", hint="Cast to a float first.")
    return x if x.shape[axis] == 1 else made(Op.SCAN, x.dtype, x.shape, (x,), Scanning(op, axis))


def sort(
    x: Node, axis: int, *, descending: bool = False, indices: bool = False, count: int | None = None, name: str = "sort"
) -> Node:
    """The elements along an axis in order, or (`indices`) where they stood; with `count` only the first ones."""
    axis = normalized_axis(axis, x.rank, name)
    if x.dtype in STORAGE:
        raise only_stored(x.dtype, name)
    size = x.shape[axis]
    if count is None:
        count = size  # type: ignore[assignment]
    elif isinstance(size, int) and not 0 <= count <= size:
        raise ArgumentError(f"{name}: {count} elements are wanted of an axis of {size}")
    assert count is not None
    dtype: DType = int64 if indices else x.dtype
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return made(Op.SORT, dtype, shape, (x,), Sorting(axis, descending, indices))

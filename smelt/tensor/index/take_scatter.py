"""Functions that find elements by index, put them there, or say where they would go.

Negative indices count from the end. An index outside its axis raises `IndexRangeError`: at the call where the indices
are known there, else when the value of the result is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smelt import dtypes
from smelt.dtypes import DType, as_dtype, bool_, int64
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import (
    Index,
    Node,
    Ranges,
    Shape,
    Span,
    as_index,
    broadcast_shapes,
    build,
    marked,
    nonnegative,
    normalized_axis,
    product_of,
    shape_text,
)
from smelt.graph.checks import wrapped, written
from smelt.tensor.arguments import flag, integer
from smelt.tensor.handle import Handle, computed, node_of, pair, wrap
from smelt.tensor.index.keys import select
from smelt.tensor.index.read_write import read, updates_of
from smelt.tensor.types import DTypeLike, Operand, TensorLike

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "embedding",
    "gather",
    "index_select",
    "masked_fill",
    "masked_select",
    "one_hot",
    "scatter",
    "scatter_add",
    "searchsorted",
    "take",
    "take_along_axis",
]

_REDUCTIONS = {
    None: "set",
    "add": "add",
    "sum": "add",
    "multiply": "mul",
    "prod": "mul",
    "min": "min",
    "amin": "min",
    "max": "max",
    "amax": "max",
}


def take(x: Tensor, indices: TensorLike, axis: int | None = None) -> Tensor:
    """Elements along an axis, in the order of the indices. The axis may be left out for a vector.

    >>> sm.take(sm.asarray([[1, 2, 3], [4, 5, 6]]), [2, 0], axis=1).tolist()
    [[3, 1], [6, 4]]
    """
    node = node_of(x, "take")
    if axis is None and node.rank != 1:
        raise ArgumentError(
            f"take: shape {shape_text(node.shape)} has rank {node.rank}, and no axis is given",
            hint="Name the axis, or take from x.flatten().",
        )
    return wrap(_taken(node, indices, normalized_axis(0 if axis is None else axis, node.rank, "take"), "take"))


def index_select(x: Tensor, axis: int, index: TensorLike) -> Tensor:
    """Elements along an axis in the order of a vector of indices (PyTorch's name for `take` with an axis).

    >>> sm.index_select(sm.asarray([[1, 2, 3], [4, 5, 6]]), 0, [1, 1]).tolist()
    [[4, 5, 6], [4, 5, 6]]
    """
    node, chosen = node_of(x, "index_select"), node_of(index, "index_select")
    if chosen.rank != 1:
        raise ShapeError(f"index_select: the index has shape {shape_text(chosen.shape)}", rule="it must be a vector.")
    return wrap(_taken(node, index, normalized_axis(axis, node.rank, "index_select"), "index_select"))


def _taken(node: Node, indices: Any, axis: int, name: str) -> Node:
    """`x[:, .., indices]`, with indices of any rank."""
    if not isinstance(indices, Handle | int | list | tuple) and not hasattr(indices, "__array__"):
        raise ArgumentError(f"{name}: a {type(indices).__name__} cannot be used as indices")
    _integers(node_of(indices, name), name)
    chosen = list(indices) if isinstance(indices, tuple) else indices
    return read(select(node, (*[slice(None)] * axis, chosen), name), name)


def _integers(node: Node, name: str) -> Node:
    if not node.dtype.is_integer and product_of(node.shape) != 0:
        raise DTypeError(f"{name}: indices must be integers, not {node.dtype}", hint="Cast them to int64.")
    return computed(node, name) if node.dtype.is_integer else build.cast(node, int64)


def take_along_axis(x: Tensor, indices: TensorLike, axis: int = -1) -> Tensor:
    """For each place in `indices`, the element of x at that place but for its index along the axis.

    The other axes of both broadcast. With `argsort` or `argmax`, this gives the elements that those have found.

    >>> x = sm.asarray([[3.0, 1.0], [2.0, 5.0]])
    >>> sm.take_along_axis(x, x.argmax(1, keepdims=True), 1).tolist()
    [[3.0], [5.0]]
    """
    name = "take_along_axis"
    node, chosen = node_of(x, name), _integers(node_of(indices, name), name)
    _same_rank(node, chosen, name)
    at = normalized_axis(axis, node.rank, name)
    others = broadcast_shapes(_with(node.shape, at, 1), _with(chosen.shape, at, 1), name)
    node = build.broadcast_to(node, _with(others, at, node.shape[at]))
    chosen = build.broadcast_to(chosen, _with(others, at, chosen.shape[at]))
    return wrap(_along(node, chosen, at, name))


def gather(x: Tensor, axis: int, index: TensorLike) -> Tensor:
    """PyTorch's gather: `take_along_axis` of the first elements of x along the other axes, as many as the index has.

    >>> sm.gather(sm.asarray([[1, 2], [3, 4]]), 1, sm.asarray([[0, 0], [1, 0]])).tolist()
    [[1, 1], [4, 3]]
    """
    node, chosen = node_of(x, "gather"), _integers(node_of(index, "gather"), "gather")
    at = _fitting(node, chosen, axis, "gather")
    spans = [Span(0, n if k == at else m, 1) for k, (n, m) in enumerate(zip(node.shape, chosen.shape, strict=True))]
    return wrap(_along(build.slice_(node, spans), chosen, at, "gather"))


def _along(node: Node, chosen: Node, axis: int, name: str) -> Node:
    places = [-1 if k == axis else k for k in range(node.rank)]
    inside = wrapped(chosen, node.shape[axis], Ranges())
    return written(build.gather(node, [inside], places, chosen.shape, checked=True, name=name), name)


def _with(shape: Shape, axis: int, size: Any) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _same_rank(node: Node, chosen: Node, name: str) -> None:
    if node.rank != chosen.rank:
        raise ShapeError(
            f"{name}: the tensor has shape {shape_text(node.shape)}, the index {shape_text(chosen.shape)}",
            rule="both must have the same rank.",
        )


def _fitting(node: Node, chosen: Node, axis: int, name: str) -> int:
    """The axis, if the index is no larger than the tensor along the others."""
    at = normalized_axis(axis, node.rank, name)
    _same_rank(node, chosen, name)
    sizes = enumerate(zip(node.shape, chosen.shape, strict=True))
    wrong = {k for k, (n, m) in sizes if k != at and not nonnegative(as_index(n) - m)}
    if wrong:
        raise ShapeError(
            f"{name}: the index is larger than the tensor\n"
            + marked((chosen.shape, wrong), " in ", (node.shape, wrong))
        )
    return at


def scatter(x: Tensor, axis: int, index: TensorLike, src: Operand, reduce: str | None = None) -> Tensor:
    """PyTorch's scatter: a copy of x with the elements of `src` put where `gather` with this index would read.

    `src` is a number, or at least as large as the index. Of several values for one place the last stays, or with
    `reduce` ("add", "multiply", "min" or "max") all of them are combined with what was there.

    >>> sm.scatter(sm.zeros(4), 0, sm.asarray([3, 1]), sm.asarray([7.0, 8.0])).tolist()
    [0.0, 8.0, 0.0, 7.0]
    """
    if reduce not in tuple(_REDUCTIONS):
        raise ArgumentError(
            f"scatter: there is no reduction called {reduce!r}",
            hint=f"Use one of: {', '.join(str(op) for op in _REDUCTIONS if op)}.",
        )
    return wrap(_scattered(x, axis, index, src, _REDUCTIONS[reduce], "scatter"))


def scatter_add(x: Tensor, axis: int, index: TensorLike, src: Operand) -> Tensor:
    """`scatter` with `reduce="add"`.

    >>> sm.scatter_add(sm.zeros(3), 0, sm.asarray([2, 2, 0]), 1.0).tolist()
    [1.0, 0.0, 2.0]
    """
    return wrap(_scattered(x, axis, index, src, "add", "scatter_add"))


def _scattered(x: Any, axis: int, index: Any, src: Any, op: str, name: str) -> Node:
    node, chosen = node_of(x, name), _integers(node_of(index, name), name)
    at = _fitting(node, chosen, axis, name)
    updates = updates_of(src, node, name)
    if not updates.rank:
        updates = build.broadcast_to(updates, chosen.shape)
    _same_rank(updates, chosen, name)
    sizes = enumerate(zip(updates.shape, chosen.shape, strict=True))
    wrong = {k for k, (n, m) in sizes if not nonnegative(as_index(n) - m)}
    if wrong:
        raise ShapeError(
            f"{name}: the index is larger than src\n" + marked((chosen.shape, wrong), " in ", (updates.shape, wrong))
        )
    updates = build.slice_(updates, [Span(0, m, 1) for m in chosen.shape])
    indices = [wrapped(chosen, node.shape[at], Ranges())]
    axes: list[int] = []
    for k, (n, m) in enumerate(zip(node.shape, chosen.shape, strict=True)):
        if k == at or n != m:
            axes.append(-1 if k == at else -1 - len(indices))
        else:
            axes.append(k)
        if k != at and n != m:
            lead = [m if j == k else 1 for j in range(chosen.rank)]
            indices.append(build.broadcast_to(build.reshape(build.iota(m, int64), lead), chosen.shape))
    return written(build.scatter(op, node, updates, indices, axes, checked=True, name=name), name)


def masked_fill(x: Tensor, mask: Operand, value: Operand) -> Tensor:
    """A copy of x with a value where the mask, which broadcasts to x, is true.

    >>> sm.masked_fill(sm.asarray([1.0, 2.0]), sm.asarray([True, False]), 0).tolist()
    [0.0, 2.0]
    """
    name = "masked_fill"
    node, where = node_of(x, name), _mask(mask, name)
    fill = updates_of(value, node, name)
    if fill.rank:
        raise ShapeError(f"{name}: the value has shape {shape_text(fill.shape)}", rule="it must be a single number.")
    where = build.broadcast_to(where, node.shape, name=name)
    return wrap(build.where(where, build.broadcast_to(fill, node.shape), node))


def masked_select(x: Tensor, mask: Operand) -> Tensor:
    """The elements of x where the mask is true, as a vector; both broadcast. Not inside `jit`: the size is not known.

    >>> sm.masked_select(sm.asarray([1, 2, 3]), sm.asarray([True, False, True])).tolist()
    [1, 3]
    """
    name = "masked_select"
    node, where = node_of(x, name), _mask(mask, name)
    shape = broadcast_shapes(node.shape, where.shape, name)
    node, where = build.broadcast_to(node, shape), build.broadcast_to(where, shape)
    if not shape:
        node, where = build.reshape(node, (1,)), build.reshape(where, (1,))
    return wrap(read(select(node, wrap(where), name, sized=True), name))


def _mask(mask: Any, name: str) -> Node:
    node = node_of(mask, name)
    if node.dtype is not bool_:
        raise DTypeError(f"{name}: the mask is {node.dtype}", rule="it must be bool.")
    return node


def one_hot(x: Tensor, num_classes: int, *, dtype: DTypeLike = int64) -> Tensor:
    """For each integer a vector that is 1 there and 0 elsewhere. Integers outside the classes give zeros.

    >>> sm.one_hot(sm.asarray([2, 0]), 3).tolist()
    [[0, 0, 1], [1, 0, 0]]
    """
    node = node_of(x, "one_hot")
    if not node.dtype.is_integer:
        raise DTypeError(f"one_hot: classes must be integers, not {node.dtype}")
    count = num_classes if isinstance(num_classes, Index) else integer(num_classes, "one_hot", "the number of classes")
    if not isinstance(count, Index) and count < 1:
        raise ArgumentError(f"one_hot: there are {count} classes", rule="there must be at least one.")
    shape = (*node.shape, count)
    wide: DType = node.dtype if node.dtype is dtypes.uint64 else int64
    given = build.broadcast_to(build.reshape(build.cast(node, wide), (*node.shape, 1)), shape)
    classes = build.broadcast_to(build.iota(count, wide), shape)
    return wrap(build.cast(build.eq(given, classes), as_dtype(dtype, "one_hot")))


def embedding(indices: TensorLike, weight: Tensor) -> Tensor:
    """The rows of a table that indices of any shape name.

    >>> sm.embedding([[1, 0]], sm.asarray([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[[3.0, 4.0], [1.0, 2.0]]]
    """
    node = node_of(weight, "embedding")
    if node.rank != 2:
        raise ShapeError(f"embedding: the table has shape {shape_text(node.shape)}", rule="it must be a matrix.")
    return wrap(_taken(node, indices, 0, "embedding"))


def searchsorted(
    a: Tensor, v: Operand, *, side: str = "left", sorter: TensorLike | None = None, right: bool = False
) -> Tensor:
    """Where the elements of v would go into the ascending vector a: before equal ones, or after with side="right".

    `sorter` is an order that sorts a. NaN counts as greater than everything.

    >>> sm.searchsorted(sm.asarray([1, 3, 5]), sm.asarray([0, 3, 9])).tolist()
    [0, 1, 3]
    """
    name = "searchsorted"
    if side not in ("left", "right"):
        raise ArgumentError(f"{name}: side is {side!r}", rule='it must be "left" or "right".')
    table = node_of(a, name)
    if table.rank != 1:
        raise ShapeError(f"{name}: shape {shape_text(table.shape)}", rule="what is searched must be a vector.")
    size = table.shape[0]
    if sorter is not None:
        order = _integers(node_of(sorter, name), name)
        if order.shape != table.shape:
            raise ShapeError(f"{name}: the sorter has shape {shape_text(order.shape)}", rule="it must be that of a.")
        table = _along(table, order, 0, name)
    table, wanted = pair(wrap(table), v, name)
    low = build.const(0, int64, wanted.shape)
    if size == 0:
        return wrap(low)
    return wrap(_search(table, wanted, low, flag(right, name, "right") or side == "right"))


def _search(table: Node, wanted: Node, low: Node, right: bool) -> Node:
    """Halving: each step reads one element for each that is searched for."""
    size = table.shape[0]
    count = build.broadcast_to(build.size_node(size, int64), wanted.shape)
    one = build.const(1, int64, wanted.shape)
    high = count
    for _ in range(as_index(size).high.bit_length()):
        middle = build.binary("shr", build.add(low, high), one)
        found = build.gather(table, [middle], (-1,), name="searchsorted")
        before = build.logical_not(_less(wanted, found)) if right else _less(found, wanted)
        before = build.bitwise_and(before, build.lt(low, high))
        low, high = build.where(before, build.add(middle, one), low), build.where(before, high, middle)
    return low


def _less(a: Node, b: Node) -> Node:
    """a < b, with NaN as the greatest."""
    if not a.dtype.is_float:
        return build.lt(a, b)
    last = build.bitwise_and(build.logical_not(build.unary("isnan", a)), build.unary("isnan", b))
    return build.binary("or", build.lt(a, b), last)

"""Functions that move elements without changing them. They cost nothing until a kernel reads through them.

Where NumPy and PyTorch differ, these follow NumPy and the array API: `transpose` takes an order of axes, `repeat`
repeats elements, `split` takes a number of parts or the places to cut (and `chunk` is PyTorch's).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.dtypes import int64
from smelt.errors import ArgumentError, AxisError, ShapeError
from smelt.graph import (
    Index,
    Node,
    Shape,
    build,
    infer_reshape,
    least,
    normalized_axes,
    normalized_axis,
    product_of,
    shape_text,
    size_of,
)
from smelt.graph import broadcast_shapes as _broadcast_shapes
from smelt.tensor.arguments import as_shape, axis_or_dim, check_copy, diagonal_number, integer, many_axes, spread
from smelt.tensor.handle import Handle, node_of, wrap
from smelt.tensor.types import DT, A, Axes, B, R, ShapeLike, Size, TensorLike

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "diag",
    "diagonal",
    "expand",
    "expand_dims",
    "flatten",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "ravel",
    "repeat",
    "reshape",
    "roll",
    "rot90",
    "squeeze",
    "swapaxes",
    "tile",
    "transpose",
    "tril",
    "triu",
    "unflatten",
]


# --- shapes


def reshape(
    x: Tensor[DT, *tuple[Any, ...]], shape: ShapeLike = (), *sizes: Size, copy: bool | None = None
) -> Tensor[DT, *tuple[Any, ...]]:
    """The same elements, in row-major order, in another shape: `reshape(2, -1)` or `reshape((2, -1))`.

    Tensors never change, so a copy could not be told from a view: `copy` makes no difference.
    """
    check_copy(copy, "reshape")
    node = node_of(x, "reshape")
    return wrap(build.reshape(node, infer_reshape(node.shape, spread((shape, *sizes)))))


def flatten(x: Tensor, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """The axes from `start_axis` to `end_axis` (both included) as one."""
    node = node_of(x, "flatten")
    if not node.shape:
        return wrap(build.reshape(node, (1,)))
    first = normalized_axis(start_axis, node.rank, "flatten")
    last = normalized_axis(end_axis, node.rank, "flatten")
    if last < first:
        raise AxisError(f"flatten: end_axis {end_axis} comes before start_axis {start_axis}")
    middle = product_of(node.shape[first : last + 1])
    return wrap(build.reshape(node, (*node.shape[:first], middle, *node.shape[last + 1 :])))


def ravel(x: Tensor) -> Tensor:
    """All elements along one axis, in row-major order.

    >>> import smelt as sm
    >>> sm.ravel(sm.asarray([[1, 2], [3, 4]])).tolist()
    [1, 2, 3, 4]
    """
    node = node_of(x, "ravel")
    return wrap(build.reshape(node, (product_of(node.shape),)))


def unflatten(x: Tensor, axis: int, sizes: Sequence[Size]) -> Tensor:
    """One axis as several of these sizes; one of them may be -1.

    >>> import smelt as sm
    >>> sm.unflatten(sm.arange(6), 0, (2, -1)).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    node = node_of(x, "unflatten")
    at = normalized_axis(axis, node.rank, "unflatten")
    if not isinstance(sizes, Sequence):
        raise ArgumentError(f"unflatten: the sizes must be a list or tuple, got {sizes!r}")
    inner = infer_reshape((node.shape[at],), tuple(sizes), "unflatten")
    return wrap(build.reshape(node, (*node.shape[:at], *inner, *node.shape[at + 1 :]), name="unflatten"))


def atleast_1d(*xs: Tensor) -> Any:
    """x as it is, a scalar with one axis. Several tensors give a list.

    >>> import smelt as sm
    >>> sm.atleast_1d(sm.asarray(3.0)).shape
    (1,)
    """
    return _at_least(xs, 1, "atleast_1d")


def atleast_2d(*xs: Tensor) -> Any:
    """x with new axes of size 1 in front, up to rank 2. Several tensors give a list.

    >>> import smelt as sm
    >>> sm.atleast_2d(sm.arange(3)).shape
    (1, 3)
    """
    return _at_least(xs, 2, "atleast_2d")


def atleast_3d(*xs: Tensor) -> Any:
    """x with new axes of size 1, up to rank 3: a vector becomes (1, n, 1), a matrix (m, n, 1). Several give a list.

    >>> import smelt as sm
    >>> sm.atleast_3d(sm.arange(3)).shape
    (1, 3, 1)
    """
    return _at_least(xs, 3, "atleast_3d")


def _at_least(xs: Sequence[Any], rank: int, name: str) -> Any:
    if not xs:
        raise ArgumentError(f"{name}: there are no tensors")
    raised = [wrap(with_rank(node_of(x, name), rank)) for x in xs]
    return raised[0] if len(raised) == 1 else raised


def with_rank(node: Node, rank: int) -> Node:
    """A node with axes of size 1 where NumPy's `atleast` functions put them."""
    missing = max(0, rank - node.rank)
    after = 1 if rank == 3 and missing else 0
    return build.reshape(node, (*(1,) * (missing - after), *node.shape, *(1,) * after))


def squeeze(x: Tensor, axis: Axes = None, *, dim: Axes = None) -> Tensor:
    """Without the given axes, which must have size 1; without all axes of size 1 if none is given."""
    node = node_of(x, "squeeze")
    axis = axis_or_dim(axis, dim, "squeeze")
    if axis is None:
        gone: tuple[int, ...] = tuple(a for a, size in enumerate(node.shape) if size == 1)
    else:
        gone = many_axes(axis, node.rank, "squeeze")
    for a in gone:
        if node.shape[a] != 1:
            raise ShapeError(
                f"squeeze: axis {a} of shape {shape_text(node.shape)} has size {node.shape[a]}",
                rule="only axes of size 1 can be left out.",
            )
    return wrap(build.reshape(node, tuple(size for a, size in enumerate(node.shape) if a not in gone)))


def expand_dims(x: Tensor, axis: Axes = 0, *, dim: Axes = None) -> Tensor:
    """With new axes of size 1 at the given places (0, unless given) of the result."""
    node = node_of(x, "expand_dims")
    places: Any = axis_or_dim(axis, dim, "expand_dims", default=0)
    places = tuple(places) if isinstance(places, Sequence) else (places,)
    rank = node.rank + len(places)
    new = normalized_axes(places, rank, "expand_dims")
    sizes = iter(node.shape)
    return wrap(build.reshape(node, tuple(1 if a in new else next(sizes) for a in range(rank))))


# --- order of axes


def permute_dims(x: Tensor, axes: int | Sequence[int] = (), *more: int) -> Tensor:
    """Axes in another order, `(2, 0, 1)` or `2, 0, 1`: axis i of the result is axis `axes[i]` of x."""
    return wrap(build.permute(node_of(x, "permute_dims"), spread((axes, *more)), name="permute_dims"))


def transpose(x: Tensor, *axes: Any) -> Tensor:
    """Axes in the given order, or in reverse. `swapaxes` exchanges two, as PyTorch's `transpose(0, 1)` does."""
    node = node_of(x, "transpose")
    if len(axes) == 2 and not isinstance(axes[0], tuple | list):
        _refuse_exchange(node, axes)
    order = spread(axes) if axes and axes != (None,) else tuple(reversed(range(node.rank)))
    return wrap(build.permute(node, order, name="transpose"))


def _refuse_exchange(node: Node, axes: tuple[Any, ...]) -> None:
    """Two axes of more, or two in the order that they have: somebody means to exchange them."""
    if normalized_axes(axes, node.rank, "transpose") == (0, 1) or node.rank != 2:
        raise ArgumentError(
            f"transpose: the axes {axes[0]} and {axes[1]} of a tensor of rank {node.rank}",
            rule="transpose takes all axes in their new order.",
            hint=f"To exchange two write x.swapaxes({axes[0]}, {axes[1]}); permute_dims takes any order.",
        )


def matrix_transpose(x: Tensor[DT, *R, A, B]) -> Tensor[DT, *R, B, A]:
    """The last two axes exchanged."""
    node = node_of(x, "matrix_transpose")
    if node.rank < 2:
        raise ShapeError(
            f"matrix_transpose: shape {shape_text(node.shape)} has rank {node.rank}",
            rule="a matrix needs at least two axes.",
        )
    axes = (*range(node.rank - 2), node.rank - 1, node.rank - 2)
    return wrap(build.permute(node, axes, name="matrix_transpose"))


def swapaxes(x: Tensor, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged."""
    node = node_of(x, "swapaxes")
    a, b = (normalized_axis(axis, node.rank, "swapaxes") for axis in (axis1, axis2))
    order = list(range(node.rank))
    order[a], order[b] = b, a
    return wrap(build.permute(node, order))


def moveaxis(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """The `source` axes moved to the places `destination`; the others keep their order."""
    node = node_of(x, "moveaxis")
    start = many_axes(source, node.rank, "moveaxis")
    end = many_axes(destination, node.rank, "moveaxis")
    if len(start) != len(end):
        raise ArgumentError(f"moveaxis: {len(start)} source axes and {len(end)} destinations")
    order = [axis for axis in range(node.rank) if axis not in start]
    for place, axis in sorted(zip(end, start, strict=True)):
        order.insert(place, axis)
    return wrap(build.permute(node, order))


def flip(x: Tensor, axis: Axes = None, *, dim: Axes = None) -> Tensor:
    """The given axes (all, unless given) in reverse."""
    node = node_of(x, "flip")
    axes = many_axes(axis_or_dim(axis, dim, "flip"), node.rank, "flip")
    spans = [(size - 1, size, -1) if a in axes else (0, size, 1) for a, size in enumerate(node.shape)]
    return wrap(build.slice_(node, spans, name="flip"))


def rot90(x: Tensor, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """x turned by k quarters in the plane of two axes, from the first towards the second.

    >>> import smelt as sm
    >>> sm.rot90(sm.asarray([[1, 2], [3, 4]])).tolist()
    [[2, 4], [1, 3]]
    """
    node = node_of(x, "rot90")
    plane = normalized_axes(axes, node.rank, "rot90") if isinstance(axes, Sequence) else ()
    if len(plane) != 2:
        raise ArgumentError(f"rot90: axes must be two axes, got {axes!r}")
    turns = integer(k, "rot90", "the number of turns") % 4
    a, b = plane
    order = list(range(node.rank))
    if turns % 2:
        order[a], order[b] = b, a
    # A turn exchanges the axes and reverses one of them; half a turn reverses both.
    reversed_axes = ((), (a,), (a, b), (b,))[turns]
    node = build.permute(node, order)
    spans = [(size - 1, size, -1) if axis in reversed_axes else (0, size, 1) for axis, size in enumerate(node.shape)]
    return wrap(build.slice_(node, spans, name="rot90"))


def roll(x: Tensor, shift: int | Sequence[int], axis: Axes = None, *, dim: Axes = None) -> Tensor:
    """Elements moved along the axes; what falls off one end comes in at the other. Without axes, as if x were flat."""
    node = node_of(x, "roll")
    axis = axis_or_dim(axis, dim, "roll")
    shifts = tuple(integer(s, "roll", "a shift") for s in spread(shift))
    if axis is None:
        flat = build.reshape(node, (product_of(node.shape),))
        for amount in shifts:
            flat = _rolled(flat, 0, amount)
        return wrap(build.reshape(flat, node.shape))
    axes = tuple(normalized_axis(a, node.rank, "roll") for a in spread(axis))
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(axes) == 1:
        axes *= len(shifts)
    if len(shifts) != len(axes):
        raise ArgumentError(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    for amount, a in zip(shifts, axes, strict=True):
        node = _rolled(node, a, amount)
    return wrap(node)


def _rolled(node: Node, axis: int, amount: int) -> Node:
    size = node.shape[axis]
    if isinstance(size, Index):
        cut = size_of(size - amount) if amount >= 0 else -amount
    elif size:
        cut = -amount % size
    else:
        return node
    if cut == 0:
        return node
    return build.concat([_cut(node, axis, cut, size), _cut(node, axis, 0, cut)], axis)


def _cut(node: Node, axis: int, start: Size, stop: Size) -> Node:
    spans: list[tuple[Size, Size, int]] = [(0, size, 1) for size in node.shape]
    spans[axis] = (start, stop - start, 1)
    return build.slice_(node, spans)


# --- repetition


def broadcast_to(x: Tensor, shape: ShapeLike = (), *sizes: Size) -> Tensor:
    """x repeated to a shape, by NumPy's rules: new axes in front, axes of size 1 repeated."""
    return wrap(build.broadcast_to(node_of(x, "broadcast_to"), as_shape((shape, *sizes), "broadcast_to")))


def expand(x: Tensor, *shape: Any) -> Tensor:
    """`broadcast_to`, where -1 keeps the size of an axis."""
    node = node_of(x, "expand")
    sizes = spread(shape)
    missing = len(sizes) - node.rank
    kept = [
        node.shape[a - missing] if isinstance(size, int) and size == -1 and a >= missing >= 0 else size
        for a, size in enumerate(sizes)
    ]
    return wrap(build.broadcast_to(node, as_shape(kept, "expand"), name="expand"))


def broadcast_shapes(*shapes: ShapeLike) -> tuple[Size, ...]:
    """The shape that tensors of these shapes share by broadcasting."""
    result: Shape = ()
    for shape in shapes:
        result = _broadcast_shapes(result, as_shape(shape, "broadcast_shapes"), "broadcast_shapes")
    return result


def broadcast_arrays(*xs: Tensor) -> list[Tensor]:
    """The tensors, all repeated to the shape that they share."""
    nodes = [node_of(x, "broadcast_arrays") for x in xs]
    shape: Shape = ()
    for node in nodes:
        shape = _broadcast_shapes(shape, node.shape, "broadcast_arrays")
    return [wrap(build.broadcast_to(node, shape)) for node in nodes]


def tile(x: Tensor, *repetitions: Any) -> Tensor:
    """Copies of x side by side: `repetitions` of them along each axis, matched from the last axis backwards."""
    node = node_of(x, "tile")
    counts = _counts(spread(repetitions), "tile")
    rank = max(node.rank, len(counts))
    counts = (1,) * (rank - len(counts)) + counts
    sizes: Shape = (1,) * (rank - node.rank) + node.shape
    between = tuple(part for size in sizes for part in (1, size))
    grown = tuple(part for count, size in zip(counts, sizes, strict=True) for part in (count, size))
    shape = tuple(size_of(count * size) for count, size in zip(counts, sizes, strict=True))
    return wrap(build.reshape(build.expand(build.reshape(node, between), grown), shape))


def repeat(x: Tensor, repeats: Size | TensorLike, axis: int | None = None, *, dim: int | None = None) -> Tensor:
    """Each element `repeats` times in a row, along an axis; without one, of the flattened tensor.

    Each may have a count of its own; those of a tensor are computed at the call, as the size of the result depends on
    them. True counts as 1, and one count for all may be a `Dim`.

    >>> sm.repeat(sm.asarray([1, 2]), 2).tolist(), sm.repeat(sm.asarray([1, 2]), [3, 1]).tolist()
    ([1, 1, 2, 2], [1, 1, 1, 2])
    """
    node = node_of(x, "repeat")
    axis = axis_or_dim(axis, dim, "repeat")
    if axis is None:
        node = build.reshape(node, (product_of(node.shape),))
    at = 0 if axis is None else normalized_axis(axis, node.rank, "repeat")
    each = _each_count(repeats)
    if len(each) != 1:
        return _repeated(node, each, at)
    count = each[0]
    before, size, after = node.shape[:at], node.shape[at], node.shape[at + 1 :]
    grown = build.expand(build.reshape(node, (*before, size, 1, *after)), (*before, size, count, *after))
    return wrap(build.reshape(grown, (*before, size_of(size * count), *after)))


def _each_count(repeats: Any) -> Shape:
    """How often each element is repeated; one number stands for all."""
    if isinstance(repeats, Handle):
        from smelt.tensor.interop import numpy

        repeats = numpy(wrap(repeats._node), "repeat")
    if isinstance(repeats, np.ndarray):
        if repeats.ndim > 1:
            raise ShapeError(f"repeat: counts of shape {repeats.shape}", rule="counts are a vector, or one number.")
        repeats = repeats.tolist()
    each = repeats if isinstance(repeats, list | tuple) else (repeats,)
    return _counts([int(count) if isinstance(count, bool | np.bool_) else count for count in each], "repeat")


def _repeated(node: Node, counts: Shape, axis: int) -> Tensor:
    size = node.shape[axis]
    known = [count for count in counts if not isinstance(count, Index)]
    if len(known) < len(counts):
        raise ArgumentError(
            f"repeat: the counts {shape_text(counts)} are not known",
            rule="each element has a count of its own by a list of integers; a Dim may be the count of all.",
        )
    if size != len(counts):
        raise ShapeError(
            f"repeat: {len(counts)} counts for axis {axis} of shape {shape_text(node.shape)}",
            rule="there is one for each element along the axis, or one for all.",
        )
    places = node_of(np.repeat(np.arange(len(known)), known), "repeat")
    shape = (*node.shape[:axis], places.shape[0], *node.shape[axis + 1 :])
    chosen = build.broadcast_to(build.reshape(places, (places.shape[0],) + (1,) * (node.rank - axis - 1)), shape)
    return wrap(build.gather(node, [chosen], [-1 if k == axis else k for k in range(node.rank)], shape, name="repeat"))


def _counts(values: Sequence[Any], name: str) -> Shape:
    counts = tuple(
        size_of(value) if isinstance(value, Index) else integer(value, name, "a number of repetitions")
        for value in values
    )
    if any(least(count) < 0 for count in counts):
        raise ArgumentError(f"{name}: the number of repetitions must not be negative, got {shape_text(counts)}")
    return counts


def tril(x: Tensor, k: int = 0) -> Tensor:
    """x with 0 above the k-th diagonal of its last two axes."""
    return _triangle(x, k, lower=True)


def triu(x: Tensor, k: int = 0) -> Tensor:
    """x with 0 below the k-th diagonal of its last two axes."""
    return _triangle(x, k, lower=False)


def _triangle(x: Any, k: int, lower: bool) -> Tensor:
    name = "tril" if lower else "triu"
    node = node_of(x, name)
    if node.rank < 2:
        raise ShapeError(f"{name}: shape {shape_text(node.shape)} has rank {node.rank}", rule="it must be at least 2.")
    rows, columns = node.shape[-2:]
    row = build.reshape(build.iota(rows, int64), (rows, 1))
    if k := diagonal_number(k, name):
        row = build.add(row, build.const(k, int64))
    column = build.reshape(build.iota(columns, int64), (1, columns))
    # Places are compared as attention's causal masks do, which rule out whole blocks.
    keep = build.le(column, row) if lower else build.le(row, column)
    return wrap(build.where(keep, node, build.const(0, node.dtype)))


def diagonal(x: Tensor, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor:
    """The elements whose places on two axes differ by `offset`, along a new last axis.

    >>> import smelt as sm
    >>> sm.diagonal(sm.arange(9).reshape(3, 3), 1).tolist()
    [1, 5]
    """
    node = node_of(x, "diagonal")
    if node.rank < 2:
        raise ShapeError(
            f"diagonal: shape {shape_text(node.shape)} has rank {node.rank}", rule="it must be at least 2."
        )
    first, second = normalized_axes((axis1, axis2), node.rank, "diagonal")
    return wrap(diagonal_of(node, integer(offset, "diagonal", "offset"), first, second, "diagonal"))


def diagonal_of(node: Node, offset: int, first: int, second: int, name: str) -> Node:
    """A diagonal as a view: the two axes as one, walked with a step."""
    rows, columns = node.shape[first], node.shape[second]
    others = [axis for axis in range(node.rank) if axis not in (first, second)]
    if isinstance(columns, Index) or isinstance(rows, Index):
        raise ShapeError(f"{name}: the diagonal of axes of symbolic sizes {rows} and {columns}")
    count = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    start = (offset if offset >= 0 else -offset * columns) if count else 0
    lead = tuple(node.shape[axis] for axis in others)
    flat = build.reshape(build.permute(node, (*others, first, second)), (*lead, rows * columns))
    return build.slice_(flat, [*((0, size, 1) for size in lead), (start, count, columns + 1)])


def diag(x: Tensor, k: int = 0) -> Tensor:
    """A matrix with a vector on its k-th diagonal and zeros elsewhere; for a matrix, its k-th diagonal.

    >>> import smelt as sm
    >>> sm.diag(sm.asarray([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    node = node_of(x, "diag")
    shift = integer(k, "diag", "k")
    if node.rank == 2:
        return wrap(diagonal_of(node, shift, 0, 1, "diag"))
    if node.rank != 1:
        raise ShapeError(f"diag: shape {shape_text(node.shape)} has rank {node.rank}", rule="it must be 1 or 2.")
    size = size_of(node.shape[0] + abs(shift))
    grown = build.pad(node, [(max(0, shift), max(0, -shift))], build.const(0, node.dtype))
    offset = diagonal_offset(size, size)
    on = build.eq(offset, build.const(shift, offset.dtype))
    return wrap(build.where(on, grown, build.const(0, node.dtype)))


def diagonal_offset(rows: Size, columns: Size) -> Node:
    """For each element of a matrix, how far right of the main diagonal it lies."""
    down = build.reshape(build.iota(rows, int64), (rows, 1))
    return build.sub(
        build.broadcast_to(build.iota(columns, int64), (rows, columns)), build.expand(down, (rows, columns))
    )

"""Functions that put tensors together and take them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smelt.errors import ArgumentError, ShapeError
from smelt.graph import Index, Node, build, marked, product_of, shape_text
from smelt.tensor.arguments import axis_or_dim, integer, one_axis
from smelt.tensor.handle import all_common, node_of, wrap
from smelt.tensor.shape.movement import with_rank
from smelt.tensor.types import Size

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "array_split",
    "chunk",
    "column_stack",
    "concat",
    "dstack",
    "hstack",
    "meshgrid",
    "split",
    "stack",
    "unstack",
    "vstack",
]


def concat(xs: Sequence[Tensor], axis: int | None = 0, *, dim: int | None = None) -> Tensor:
    """Tensors one after the other along an axis; flattened first if the axis is None."""
    nodes = _nodes(xs, "concat")
    axis = axis_or_dim(axis, dim, "concat", default=0)
    if axis is None:
        nodes, axis = [build.reshape(node, (product_of(node.shape),)) for node in nodes], 0
    return wrap(build.concat(nodes, axis))


def stack(xs: Sequence[Tensor], axis: int = 0, *, dim: int | None = None) -> Tensor:
    """Tensors of one shape along a new axis."""
    nodes = _nodes(xs, "stack")
    first = nodes[0].shape
    for at, node in enumerate(nodes):
        if node.shape != first:
            raise ShapeError(
                f"stack: tensors 0 and {at} differ in shape\n" + marked((first, ()), " and ", (node.shape, ())),
                rule="all must have the same shape.",
            )
    place = one_axis(axis, dim, len(first) + 1, "stack", default=0)
    shape = (*first[:place], 1, *first[place:])
    return wrap(build.concat([build.reshape(node, shape) for node in nodes], place))


def vstack(xs: Sequence[Tensor]) -> Tensor:
    """Tensors one below the other: joined along the first axis, vectors as rows.

    >>> import smelt as sm
    >>> sm.vstack([sm.asarray([1, 2]), sm.asarray([3, 4])]).tolist()
    [[1, 2], [3, 4]]
    """
    return wrap(build.concat([with_rank(node, 2) for node in _nodes(xs, "vstack")], 0, name="vstack"))


def hstack(xs: Sequence[Tensor]) -> Tensor:
    """Tensors side by side: joined along the second axis, vectors along their only one.

    >>> import smelt as sm
    >>> sm.hstack([sm.asarray([1, 2]), sm.asarray([3])]).tolist()
    [1, 2, 3]
    """
    nodes = [with_rank(node, 1) for node in _nodes(xs, "hstack")]
    return wrap(build.concat(nodes, 0 if nodes[0].rank == 1 else 1, name="hstack"))


def dstack(xs: Sequence[Tensor]) -> Tensor:
    """Tensors one behind the other: joined along the third axis, matrices as (rows, columns, 1).

    >>> import smelt as sm
    >>> sm.dstack([sm.asarray([1, 2]), sm.asarray([3, 4])]).tolist()
    [[[1, 3], [2, 4]]]
    """
    return wrap(build.concat([with_rank(node, 3) for node in _nodes(xs, "dstack")], 2, name="dstack"))


def column_stack(xs: Sequence[Tensor]) -> Tensor:
    """Vectors as the columns of a matrix; matrices are joined as they are.

    >>> import smelt as sm
    >>> sm.column_stack([sm.asarray([1, 2]), sm.asarray([3, 4])]).tolist()
    [[1, 3], [2, 4]]
    """
    nodes = _nodes(xs, "column_stack")
    columns = [build.reshape(node, (product_of(node.shape), 1)) if node.rank < 2 else node for node in nodes]
    return wrap(build.concat(columns, 1, name="column_stack"))


def _nodes(xs: Any, name: str) -> list[Node]:
    if not isinstance(xs, tuple | list):
        kind = type(xs).__name__
        raise ArgumentError(
            f"{name}: the tensors must come in a list or tuple, got {kind}", hint=f"Write {name}([x, y])."
        )
    if not xs:
        raise ArgumentError(f"{name}: there is nothing to join", rule="give at least one tensor.")
    return all_common(xs, name)


def unstack(x: Tensor, axis: int = 0, *, dim: int | None = None) -> tuple[Tensor, ...]:
    """The slices of x along an axis, which they no longer have."""
    node = node_of(x, "unstack")
    at = one_axis(axis, dim, node.rank, "unstack", default=0)
    size = _known(node, at, "unstack")
    shape = node.shape[:at] + node.shape[at + 1 :]
    return tuple(wrap(build.reshape(part, shape)) for part in _cuts(node, at, list(range(1, size)))[:size])


def split(
    x: Tensor, sections_or_indices: int | Sequence[int], axis: int = 0, *, dim: int | None = None
) -> list[Tensor]:
    """Equal parts, if given their number; or the parts between the places to cut, if given those."""
    node = node_of(x, "split")
    at = one_axis(axis, dim, node.rank, "split", default=0)
    if isinstance(sections_or_indices, Sequence):
        return _split_at(node, sections_or_indices, at, "split")
    parts = integer(sections_or_indices, "split", "the number of parts")
    size = _known(node, at, "split")
    if parts < 1 or size % parts:
        raise ShapeError(
            f"split: {size} elements along axis {at} of shape {shape_text(node.shape)} do not make {parts} equal parts",
            hint="Use chunk for parts that may differ, or give the places to cut.",
        )
    return [wrap(part) for part in _cuts(node, at, [i * (size // parts) for i in range(1, parts)])]


def chunk(x: Tensor, chunks: int, axis: int = 0, *, dim: int | None = None) -> list[Tensor]:
    """At most `chunks` parts of the same size; the last may be smaller."""
    node = node_of(x, "chunk")
    at = one_axis(axis, dim, node.rank, "chunk", default=0)
    count = integer(chunks, "chunk", "the number of chunks")
    if count < 1:
        raise ArgumentError(f"chunk: the number of chunks must be at least 1, got {count}")
    size = _known(node, at, "chunk")
    step = max(1, -(-size // count))
    return [wrap(part) for part in _cuts(node, at, list(range(step, size, step)))]


def array_split(
    x: Tensor, sections_or_indices: int | Sequence[int], axis: int = 0, *, dim: int | None = None
) -> list[Tensor]:
    """`split`, where the parts may differ by one element: the first ones are the longer ones.

    >>> import smelt as sm
    >>> [part.tolist() for part in sm.array_split(sm.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    node = node_of(x, "array_split")
    at = one_axis(axis, dim, node.rank, "array_split", default=0)
    if isinstance(sections_or_indices, Sequence):
        return _split_at(node, sections_or_indices, at, "array_split")
    parts = integer(sections_or_indices, "array_split", "the number of parts")
    if parts < 1:
        raise ArgumentError(f"array_split: the number of parts must be at least 1, got {parts}")
    size, more = divmod(_known(node, at, "array_split"), parts)
    places = [i * size + min(i, more) for i in range(1, parts)]
    return [wrap(part) for part in _cuts(node, at, places)]


def _split_at(node: Node, places: Sequence[int], axis: int, name: str) -> list[Tensor]:
    size = _known(node, axis, name)
    return [wrap(part) for part in _cuts(node, axis, [_place(place, size, name) for place in places])]


def _place(place: Any, size: int, name: str) -> int:
    return slice(integer(place, name, "an index")).indices(size)[1]


def _known(node: Node, axis: int, name: str) -> int:
    size = node.shape[axis]
    if isinstance(size, Index):
        raise ShapeError(
            f"{name}: axis {axis} has the symbolic size {size}", rule="the number of parts must be known beforehand."
        )
    return size


def _cuts(node: Node, axis: int, places: list[int]) -> list[Node]:
    size = _known(node, axis, "split")
    parts = []
    for start, stop in zip([0, *places], [*places, size], strict=True):
        spans: list[tuple[Size, Size, int]] = [(0, other, 1) for other in node.shape]
        spans[axis] = (start, max(0, stop - start), 1)
        parts.append(build.slice_(node, spans))
    return parts


def meshgrid(*xs: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Coordinates of a grid from the coordinates of its axes; "xy" puts the second axis first, "ij" keeps the order."""
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    nodes = all_common(xs, "meshgrid") if xs else []
    for node in nodes:
        if node.rank != 1:
            raise ShapeError(f"meshgrid: shape {shape_text(node.shape)} has rank {node.rank}", rule="it must be 1.")
    order = list(range(len(nodes)))
    if indexing == "xy" and len(nodes) > 1:
        order[:2] = [1, 0]
    shape = tuple(nodes[i].shape[0] for i in order)
    grids = []
    for i, node in enumerate(nodes):
        aligned = build.reshape(node, tuple(node.shape[0] if axis == i else 1 for axis in order))
        grids.append(wrap(build.expand(aligned, shape)))
    return grids

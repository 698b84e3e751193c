"""Functions that put elements in order. NaN counts as greater than everything, and equal elements keep their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from smelt.errors import ArgumentError
from smelt.graph import Index, Node, Span, build, product_of, shape_text
from smelt.tensor.arguments import axis_or_dim, flag, integer, one_axis
from smelt.tensor.handle import node_of, wrap

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "argsort",
    "sort",
    "topk",
]


class TopK(NamedTuple):
    """What `topk` gives."""

    values: Tensor
    indices: Tensor


def sort(
    x: Tensor, axis: int | None = -1, *, descending: bool = False, stable: bool = True, dim: int | None = None
) -> Tensor:
    """The elements along an axis in ascending or descending order, NaN as the greatest; all of them in one row if the
    axis is None.

    >>> sm.sort(sm.asarray([3, 1, 2]), descending=True).tolist()
    [3, 2, 1]
    """
    return wrap(_sorted(x, axis, descending, stable, dim, "sort", indices=False))


def argsort(
    x: Tensor, axis: int | None = -1, *, descending: bool = False, stable: bool = True, dim: int | None = None
) -> Tensor:
    """Where the elements of `sort` stood, as int64; the first of equal ones comes first. If the axis is None, places in
    the flattened tensor.

    >>> sm.argsort(sm.asarray([3, 1, 2])).tolist()
    [1, 2, 0]
    """
    return wrap(_sorted(x, axis, descending, stable, dim, "argsort", indices=True))


def _sorted(
    x: Tensor, axis: int | None, descending: bool, stable: bool, dim: int | None, name: str, indices: bool
) -> Node:
    flag(stable, name, "stable")  # it is in any case
    node = node_of(x, name)
    along = axis_or_dim(axis, dim, name, default=-1)
    if along is None:
        node, along = build.reshape(node, (product_of(node.shape),)), 0
    return build.sort(node, along, descending=flag(descending, name, "descending"), indices=indices, name=name)


def topk(
    x: Tensor,
    k: int,
    axis: int = -1,
    *,
    largest: bool = True,
    sorted: bool = True,
    dim: int | None = None,
) -> TopK:
    """The k largest (or smallest) elements along an axis (the last one), in order, and where they stood.

    >>> values, indices = sm.topk(sm.asarray([3, 9, 1, 7]), 2)
    >>> values.tolist(), indices.tolist()
    ([9, 7], [1, 3])
    """
    node = node_of(x, "topk")
    along = one_axis(axis, dim, node.rank, "topk", default=-1)
    flag(sorted, "topk", "sorted")
    descending = flag(largest, "topk", "largest")
    count, size = integer(k, "topk", "k"), node.shape[along]
    if count < 0 or count > (size.low if isinstance(size, Index) else size):
        raise ArgumentError(
            f"topk: k is {count}, and axis {along} of shape {shape_text(node.shape)} has {size} elements",
            rule="k is at least 0 and at most the size of the axis.",
        )

    indices = build.sort(node, along, descending=descending, indices=True, count=count, name="topk")
    axes = [-1 if axis == along else axis for axis in range(node.rank)]
    values = build.gather(node, [indices], axes, name="topk") if count else build.slice_(node, _none(node, along))
    return TopK(wrap(values), wrap(indices))


def _none(node: Node, axis: int) -> list[Span]:
    return [Span(0, 0 if k == axis else size, 1) for k, size in enumerate(node.shape)]

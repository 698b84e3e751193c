"""Values at given ranks: medians and quantiles, which sort along the axes that they fold.

Between two elements the value is taken on the line through them, as NumPy does by default. NaN anywhere gives NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smelt.errors import ArgumentError, ShapeError
from smelt.graph import build
from smelt.graph.index import Index, product_of
from smelt.graph.node import Node
from smelt.tensor.arguments import axis_or_dim, keep_axes, many_axes
from smelt.tensor.handle import floating, widened, wrap
from smelt.tensor.reductions import refuse_empty
from smelt.tensor.types import Axes, Size

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "median",
    "quantile",
]


def median(x: Tensor, axis: Axes = None, *, keepdims: bool = False, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """The middle value along the axes given, or of everything; of an even number, the mean of the middle two.

    >>> sm.median(sm.asarray([7.0, 1.0, 3.0, 2.0])).item()
    2.5
    """
    original, axes, rows = _sorted("median", x, axis, dim)
    return wrap(_shaped(original, _at(rows, 0.5), axes, keep_axes(keepdims, keepdim, "median")))


def quantile(
    x: Tensor,
    q: float | Sequence[float],
    axis: Axes = None,
    *,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """The value below which a share q of the elements lies, along the axes given, or of everything.

    Several shares give a first axis of as many.

    >>> sm.quantile(sm.asarray([1.0, 2.0, 3.0, 4.0, 5.0]), [0.0, 0.25, 0.9]).tolist()
    [1.0, 2.0, 4.599999904632568]
    """
    shares = [_share(share) for share in q] if isinstance(q, list | tuple) else [_share(q)]
    original, axes, rows = _sorted("quantile", x, axis, dim)
    keep = keep_axes(keepdims, keepdim, "quantile")
    found = [_shaped(original, _at(rows, share), axes, keep) for share in shares]
    if not isinstance(q, list | tuple):
        return wrap(found[0])
    if not found:
        raise ArgumentError("quantile: there are no shares to find", hint="Give a number or a list of numbers.")
    return wrap(build.concat([build.reshape(node, (1, *node.shape)) for node in found], 0))


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArgumentError(f"quantile: a share must be a number, got {value!r}", hint="Give Python numbers.")
    if not 0 <= value <= 1:
        raise ArgumentError(f"quantile: a share must lie between 0 and 1, got {value}")
    return float(value)


def _sorted(name: str, x: Any, axis: Axes, dim: Axes) -> tuple[Node, tuple[int, ...], Node]:
    """The argument, the axes to fold, and rows of their elements in order, along the last axis."""
    original = floating(x, name)
    axes = many_axes(axis_or_dim(axis, dim, name), original.rank, name)
    refuse_empty(original, axes, name)
    size = product_of(original.shape[axis] for axis in axes)
    if isinstance(size, Index):
        raise ShapeError(f"{name}: {size} elements, a symbolic size", rule="the size must be known beforehand.")
    kept = [axis for axis in range(original.rank) if axis not in axes]
    together = build.permute(original, (*kept, *sorted(axes)))
    rows = build.reshape(together, (*(original.shape[axis] for axis in kept), size))
    return original, axes, build.sort(rows, -1, name=name)


def _at(rows: Node, share: float) -> Node:
    """The value at a share of each row, in the type that formulas are computed in."""
    size = rows.shape[-1]
    assert isinstance(size, int)
    place = share * (size - 1)
    low = min(math.floor(place), size - 1)
    a, b = _element(rows, low), _element(rows, min(low + 1, size - 1))
    share_of_b, distance = place - low, build.sub(b, a)
    if share_of_b < 0.5:
        between = build.add(a, build.mul(distance, build.const(share_of_b, a.dtype)))
    else:  # from the nearer one, as NumPy does it: an infinite neighbor then stays infinite
        between = build.sub(b, build.mul(distance, build.const(1 - share_of_b, a.dtype)))
    # Equal infinities have no difference. NaN is sorted behind everything else.
    value = build.where(build.eq(a, b), a, between) if place > low else a
    last = _element(rows, size - 1)
    return build.where(build.unary("isnan", last), last, value)


def _element(rows: Node, place: int) -> Node:
    spans: list[tuple[Size, Size, int]] = [(0, size, 1) for size in rows.shape[:-1]]
    return widened(build.reshape(build.slice_(rows, [*spans, (place, 1, 1)]), rows.shape[:-1]))


def _shaped(original: Node, value: Node, axes: tuple[int, ...], keep: bool) -> Node:
    if keep:
        value = build.reshape(value, tuple(1 if a in axes else size for a, size in enumerate(original.shape)))
    return build.cast(value, original.dtype)

"""Which bin each element falls into, and how many fall into each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.dtypes import float64, int64
from smelt.errors import ArgumentError, ShapeError
from smelt.graph import Index, Node, build, product_of, shape_text
from smelt.tensor.arguments import flag, integer, real_number
from smelt.tensor.handle import Handle, computed, node_of, wrap
from smelt.tensor.index.take_scatter import searchsorted
from smelt.tensor.types import Operand, TensorLike

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "digitize",
    "histogram",
]


def histogram(
    x: Tensor,
    bins: int | TensorLike = 10,
    range: tuple[float, float] | None = None,
    *,
    weights: Tensor | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:
    """How many elements fall into each bin (or the sum of their weights), and the edges of the bins.

    `bins` is how many of equal width lie between the smallest and the largest element, or in `range`; or their
    ascending edges. A bin has its lower edge, the last one both. With `density`, the sum of all counts times the
    widths of their bins is 1. Edges are floats, float64 for integers. NaN falls into no bin, but makes edges NaN that
    are taken from the elements.

    >>> counts, edges = sm.histogram(sm.asarray([1.0, 2.0, 1.0, 4.0]), bins=3)
    >>> counts.tolist(), edges.tolist()
    ([2, 1, 1], [1.0, 2.0, 3.0, 4.0])
    """
    name = "histogram"
    node = computed(node_of(x, name), name)
    flat = build.reshape(node, (product_of(node.shape),))
    edges = _edges(flat, bins, range)
    updates = _weights(node, weights)
    count = int(edges.shape[0]) - 1  # type: ignore[arg-type]
    wide, values = build.cast(edges, float64), build.cast(flat, float64)
    number = build.sub(searchsorted(wrap(wide), wrap(values), side="right")._node, _integer(1))
    last = build.reshape(build.slice_(wide, [(count, 1, 1)]), ())
    outside = build.binary("or", build.lt(number, _integer(0)), build.lt(_integer(count - 1), number))
    # The last bin has its upper edge; what lies outside goes into one behind all others, which is left out.
    index = build.where(outside, _integer(count), number)
    index = build.where(build.eq(values, last), _integer(count - 1), index)
    sums = build.scatter("add", build.const(0, updates.dtype, (count + 1,)), updates, [index], (-1,), name=name)
    found = build.slice_(sums, [(0, count, 1)])
    if flag(density, name, "density"):
        shares = build.cast(found, float64)
        widths = build.sub(build.slice_(wide, [(1, count, 1)]), build.slice_(wide, [(0, count, 1)]))
        found = build.cast(build.div(build.div(shares, widths), build.reduce("add", shares, (0,))), edges.dtype)
    return wrap(found), wrap(edges)


def _integer(value: int) -> Node:
    return build.const(value, int64)


def _edges(flat: Node, bins: Any, span: Any) -> Node:
    """The edges of the bins, in the dtype in which they are given back."""
    name = "histogram"
    dtype = flat.dtype if flat.dtype.is_float else float64
    if isinstance(bins, Handle | np.ndarray | list | tuple):
        edges = _listed(bins, flat, name)
        if edges.rank != 1 or isinstance(edges.shape[0], Index) or edges.shape[0] < 2:
            raise ShapeError(
                f"{name}: edges of shape {shape_text(edges.shape)}", rule="edges of bins are a vector of two or more."
            )
        return edges if edges.dtype.is_float else build.cast(edges, float64)
    count = integer(bins, name, "bins")
    if not 1 <= count < 2**31:
        raise ArgumentError(f"{name}: {count} bins", rule="there must be one or more, and fewer than 2**31.")
    low, high = _ends(flat, span)
    same = build.eq(low, high)
    half = build.const(0.5, float64)
    low, high = build.where(same, build.sub(low, half), low), build.where(same, build.add(high, half), high)
    steps = build.iota(count + 1, float64)
    width = build.div(build.sub(high, low), build.const(count, float64))
    between = build.add(build.mul(steps, width), low)
    edges = build.where(build.eq(steps, build.const(count, float64)), high, between)  # exact, whatever the rounding
    return build.cast(edges, dtype)


def _listed(bins: Any, values: Node, name: str) -> Node:
    """Edges as they were given; those in lists take the dtype of the values that they are compared with, if it holds
    them, or float64.
    """
    edges, dtype = node_of(bins, name), values.dtype
    if not isinstance(bins, list | tuple):
        return edges
    array = np.asarray(bins)
    if edges.dtype.is_float or dtype.is_float:
        return node_of(array.astype(dtype.numpy if dtype.is_float else np.float64), name)
    if dtype.is_integer and array.size and dtype.minimum <= array.min() and array.max() <= dtype.maximum:
        return node_of(array.astype(dtype.numpy), name)
    return edges


def _ends(flat: Node, span: Any) -> tuple[Node, Node]:
    """Where the first bin begins and the last one ends."""
    if span is None and flat.shape[0] == 0:
        span = (0.0, 1.0)
    if span is None:
        low, high = (build.cast(build.reduce(op, flat, (0,)), float64) for op in ("min", "max"))
        return low, high
    if not isinstance(span, tuple | list) or len(span) != 2:
        raise ArgumentError(f"histogram: range is {span!r:.80}", rule="it must be a pair of numbers.")
    first, last = (float(real_number(value, "histogram", "an end of the range")) for value in span)
    if not (first <= last and math.isfinite(first) and math.isfinite(last)):
        raise ArgumentError(f"histogram: range is {span!r}", rule="it must be two finite numbers, the lower one first.")
    return build.const(first, float64), build.const(last, float64)


def _weights(node: Node, weights: Any) -> Node:
    size = product_of(node.shape)
    if weights is None:
        return build.const(1, int64, (size,))
    given = node_of(weights, "histogram")
    if given.shape != node.shape:
        shapes = f"{shape_text(node.shape)} and {shape_text(given.shape)}"
        raise ShapeError(f"histogram: x and weights have shapes {shapes}", rule="each element has a weight.")
    return build.reshape(given if given.dtype.is_float else build.cast(given, float64), (size,))


def digitize(x: Operand, bins: TensorLike, right: bool = False) -> Tensor:
    """The number of the bin that each element falls into: 0 below the first edge, as many as there are edges above the
    last one, as int64.

    A bin has its lower edge, or with `right` its upper one. Edges rise; edges that are known at the call may fall.

    >>> sm.digitize(sm.asarray([0.5, 1.0, 7.0]), [1.0, 2.0]).tolist()
    [0, 1, 2]
    """
    name = "digitize"
    closed = flag(right, name, "right")
    values = computed(node_of(x, name), name)
    edges = _listed(bins, values, name)
    if edges.rank != 1:
        raise ShapeError(f"{name}: edges of shape {shape_text(edges.shape)}", rule="edges of bins are a vector.")
    steps = np.zeros(0) if isinstance(bins, Handle) else np.diff(np.asarray(bins, np.float64))
    falling = bool((steps < 0).any())
    if falling and (steps > 0).any():
        raise ArgumentError(f"{name}: the edges neither rise nor fall", hint="Sort them first.")
    size = edges.shape[0]
    upward = build.slice_(edges, [(size - 1, size, -1)]) if falling else edges
    found = searchsorted(wrap(upward), wrap(values), side="left" if closed else "right")._node
    return wrap(build.sub(build.size_node(size, int64), found) if falling else found)

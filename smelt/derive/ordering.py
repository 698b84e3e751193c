"""Derivatives of reductions that choose or multiply, of scans, and of sorting."""

from __future__ import annotations

import math
from collections.abc import Iterable, Set

from smelt.derive.moves import (
    broadcast_back,
    exclusive_products,
    flat_last,
    flip,
    recurrence,
    shift,
    unflatten_last,
    wide,
    zeros,
)
from smelt.dtypes import int64
from smelt.graph import Node, build

Parts = Iterable[tuple[Node, Node]]


def product_map(x: Node, axes: tuple[int, ...], t: Node) -> Node:
    """Changes of the elements of a product, each times all other elements."""
    flat, order = flat_last(wide(x), axes)
    others = unflatten_last(exclusive_products(flat), order, x.shape)
    return build.cast(build.mul(wide(t), others), x.dtype)


def extreme_share(x: Node, node: Node, axes: tuple[int, ...]) -> tuple[Node, Node]:
    """Of a largest or smallest element: the share of each of those that are equal, and where they are."""
    mask = build.eq(x, broadcast_back(node, axes, x.shape))
    count = build.reduce("add", wide(build.cast(mask, x.dtype)), axes)
    return build.reciprocal(count), mask


# --- scans


def scan_back(node: Node, ct: Node, wanted: Set[Node]) -> Parts:
    x = node.sources[0]
    op, axis = node.attribute
    if op == "add":
        return [(x, flip(build.scan("add", flip(ct, axis), axis), axis))]
    if op in ("max", "min"):
        found = first_places(node)
        return [(x, build.scatter("add", zeros(x.shape, ct), ct, [found], _along(x, axis)))]
    factors, entering = scan_steps(node)
    # The way back of a recurrence is a recurrence that runs the other way.
    summed = flip(recurrence(shift(flip(factors, axis), axis, 1, 0), flip(wide(ct), axis), axis), axis)
    return [(x, build.cast(build.mul(summed, entering), x.dtype))]


def scan_steps(node: Node) -> tuple[Node, Node]:
    """A scan as a recurrence: what a change of one element is multiplied by on its way to the next, and how much of a
    change of x enters at its own place.
    """
    x = wide(node.sources[0])
    y = wide(node)
    op, axis = node.attribute
    if op == "mul":
        return x, shift(y, axis, 1, 1)
    # Nothing flows where nothing but -inf has been met: there the differences would be NaN.
    empty = build.eq(y, build.const(-math.inf, y.dtype, y.shape))
    nothing = zeros(y.shape, y)

    def share(part: Node) -> Node:
        return build.where(empty, nothing, build.exp(build.sub(part, build.where(empty, nothing, y))))

    return share(shift(y, axis, 1, -math.inf)), share(x)


def first_places(node: Node) -> Node:
    """Where along its axis each result of a running maximum or minimum stands in x: the last such place so far."""
    x = node.sources[0]
    axis = node.attribute.axis
    sizes = [1] * x.rank
    sizes[axis] = x.shape[axis]
    places = build.broadcast_to(build.reshape(build.iota(x.shape[axis], int64), sizes), x.shape)
    return build.scan("max", build.where(build.eq(x, node), places, zeros(x.shape, places)), axis)


def _along(x: Node, axis: int) -> tuple[int, ...]:
    """Axes of a gather or scatter whose index tensor runs along one axis."""
    return tuple(-1 if k == axis else k for k in range(x.rank))


def picked(x: Node, places: Node, axis: int) -> Node:
    """Elements of x at places along an axis."""
    return build.gather(x, [places], _along(x, axis))


# --- sorting


def sorted_places(node: Node) -> Node:
    """Where the elements of a sorted tensor stood."""
    axis, descending, _ = node.attribute
    return build.sort(node.sources[0], axis, descending=descending, indices=True, count=node.shape[axis])


def sort_back(node: Node, ct: Node, wanted: Set[Node]) -> Parts:
    x = node.sources[0]
    axis = node.attribute.axis
    return [(x, build.scatter("add", zeros(x.shape, ct), ct, [sorted_places(node)], _along(x, axis)))]

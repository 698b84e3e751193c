"""Derivatives of what chooses among elements or multiplies them: gathers and scatters, reductions, scans, sorting."""

from __future__ import annotations

import math
from collections.abc import Set

from smelt.derive.moves import (
    Parts,
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
from smelt.dtypes import bool_, int64
from smelt.graph import Node, Op, Ranges, Shape, build, product_of

# --- elements that are found by index tensors


def gather_back(node: Node, ct: Node, wanted: Set[Node]) -> Parts:
    """What was read several times gets the sum."""
    x, *indices = node.sources
    return [(x, build.scatter("add", zeros(x.shape, ct), ct, indices, node.attribute.axes))]


def scatter_back(node: Node, ct: Node, wanted: Set[Node]) -> Parts:
    """What was overwritten or dropped gets nothing; of a product or an extreme, each gets its share."""
    target, updates, *indices = node.sources
    op, axes, _ = node.attribute
    if op not in ("set", "add"):
        for_target, for_updates = slopes(node)
        yield target, build.mul(ct, for_target)
        yield updates, build.mul(read(node, ct), for_updates)
        return
    nothing = zeros(updates.shape, ct)
    if target in wanted:
        yield target, build.scatter("set", ct, nothing, indices, axes) if op == "set" else ct
    if updates in wanted:
        yield updates, build.where(winners(node) if op == "set" else landed(node), read(node, ct), nothing)


def slopes(node: Node) -> tuple[Node, Node]:
    """How much of a change of the target, and of the updates, a scatter that folds them lets through."""
    return _product_slopes(node) if node.attribute.op == "mul" else _extreme_shares(node)


def read(node: Node, x: Node) -> Node:
    """What a tensor like the target of a scatter has where the updates went."""
    _, updates, *indices = node.sources
    return build.gather(x, indices, node.attribute.axes, updates.shape)


def landed(node: Node) -> Node:
    """Which updates lie inside the target: others were dropped."""
    target, updates, *indices = node.sources
    inside, ranges = build.const(True, bool_, updates.shape), Ranges()
    for axis, place in enumerate(node.attribute.axes):
        if place < 0 and not ranges.inside(indices[-1 - place], target.shape[axis]):
            within = build.in_range(build.cast(indices[-1 - place], int64), target.shape[axis])
            inside = build.bitwise_and(inside, within)
    return inside


def winners(node: Node) -> Node:
    """Which updates of a scatter that sets have stayed: the last of each element."""
    target, updates, *indices = node.sources
    number = numbered(updates.shape)
    nobody = build.const(-1, int64, target.shape)
    held = build.scatter("set", nobody, number, indices, node.attribute.axes)
    return build.bitwise_and(build.eq(read(node, held), number), landed(node))


def numbered(shape: Shape) -> Node:
    """0, 1, 2, … in row-major order."""
    return build.reshape(build.iota(product_of(shape), int64), shape)


def _product_slopes(node: Node) -> tuple[Node, Node]:
    """Of a scatter that multiplies: the product of all other factors, for the target and for the updates.

    Where factors are zero it is not divided by them: they are counted, and left out of the product.
    """
    target, updates, *indices = node.sources
    one, none = (build.const(k, target.dtype, updates.shape) for k in (1, 0))
    zero_there, zero_update = build.eq(target, zeros(target.shape, target)), build.eq(updates, none)
    ones = build.const(1, target.dtype, target.shape)
    axes = node.attribute.axes
    factors = build.where(zero_update, one, updates)
    others = build.scatter("mul", ones, factors, indices, axes)
    count = build.scatter("add", zeros(target.shape, target), build.cast(zero_update, target.dtype), indices, axes)
    nothing = zeros(target.shape, target)
    for_target = build.where(build.eq(count, nothing), others, nothing)
    product = read(node, build.mul(others, build.where(zero_there, ones, target)))
    among_all = read(node, build.add(count, build.cast(zero_there, target.dtype)))
    among_others = build.sub(among_all, build.cast(zero_update, target.dtype))
    share = build.div(product, factors)
    return for_target, build.where(build.bitwise_and(landed(node), build.eq(among_others, none)), share, none)


def _extreme_shares(node: Node) -> tuple[Node, Node]:
    """Of a scatter that keeps the largest or smallest: the shares that target and updates have in the result."""
    target, updates, *indices = node.sources
    at_target = build.eq(target, node)
    at_update = build.bitwise_and(build.eq(updates, read(node, node)), landed(node))
    hits = wide(build.cast(at_update, updates.dtype))
    count = build.add(
        wide(build.cast(at_target, target.dtype)),
        build.scatter("add", zeros(target.shape, hits), hits, indices, node.attribute.axes),
    )
    share = build.cast(build.reciprocal(count), target.dtype)
    for_updates = build.where(at_update, read(node, share), zeros(updates.shape, updates))
    return build.where(at_target, share, zeros(target.shape, target)), for_updates


# --- reductions


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
        return put_back(node, ct, wanted)
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


# --- scans that keep an extreme, and sorting: elements of x at places along an axis


def put_back(node: Node, ct: Node, wanted: Set[Node]) -> Parts:
    x = node.sources[0]
    return [(x, build.scatter("add", zeros(x.shape, ct), ct, [_places(node)], _along(node)))]


def _along(node: Node) -> tuple[int, ...]:
    """Axes of a gather or scatter whose index tensor runs along the axis of the node."""
    return tuple(-1 if k == node.attribute.axis else k for k in range(node.rank))


def _places(node: Node) -> Node:
    """Where along its axis each element stood; of a running maximum or minimum, the last such place so far."""
    x, axis = node.sources[0], node.attribute.axis
    if node.op is Op.SORT:
        return build.sort(x, axis, descending=node.attribute.descending, indices=True, count=node.shape[axis])
    sizes = [1] * x.rank
    sizes[axis] = x.shape[axis]
    places = build.broadcast_to(build.reshape(build.iota(x.shape[axis], int64), sizes), x.shape)
    return build.scan("max", build.where(build.eq(x, node), places, zeros(x.shape, places)), axis)

"""Reductions: merged, and freed from axes and movements that they do not need.

Max, min and whatever is done to integers do not depend on the order of their operands; float sums and products do, so
rules that may change the order are `reassociates`.
"""

from __future__ import annotations

import math

from smelt.graph import Node, Op, as_index, build, constant_value
from smelt.rewrite.rule import Contract, Family
from smelt.rewrite.rules.pattern import expanded_axes, narrowed, only_ones_differ, proper_axes

family = Family("reduction")
_REASSOCIATES = Contract.REASSOCIATES


# --- merging


@family.rule(Op.REDUCE, of=Op.REDUCE, contract=_REASSOCIATES, sole=True)
def merge_reductions(node: Node, inner: Node, x: Node) -> Node | None:
    """A reduction of the same reduction → one over all axes."""
    op, axes = inner.attribute
    if op != node.attribute.op:
        return None
    left = [axis for axis in range(x.rank) if axis not in axes]
    return build.reduce(op, x, (*axes, *(left[axis] for axis in node.attribute.axes)))


@family.rule(Op.REDUCE, of=Op.PERMUTE, contract=_REASSOCIATES)
def reduce_below_permute(node: Node, inner: Node, x: Node) -> Node | None:
    """reduce(permute(x)) → permute(reduce(x))."""
    order = inner.attribute
    gone = [order[axis] for axis in node.attribute.axes]
    kept = [axis for position, axis in enumerate(order) if position not in node.attribute.axes]
    ranks = {axis: rank for rank, axis in enumerate(sorted(kept))}
    return build.permute(build.reduce(node.attribute.op, x, gone), tuple(ranks[axis] for axis in kept))


# --- axes of size 1


# 0.0 + -0.0 is 0.0: a float sum of one element may lose the sign of a zero.
@family.rule(Op.REDUCE, contract=_REASSOCIATES)
def drop_unit_axes(node: Node) -> Node | None:
    """A reduction over axes of size 1 → without them."""
    (x,) = node.sources
    axes = [axis for axis in node.attribute.axes if x.shape[axis] != 1]
    if len(axes) == len(node.attribute.axes):
        return None
    return build.reshape(build.reduce(node.attribute.op, x, axes), node.shape)


@family.rule(Op.REDUCE, of=Op.RESHAPE)
def reduce_below_reshape(node: Node, inner: Node, x: Node) -> Node | None:
    """A reduction of a reshape that only adds or removes axes of size 1 → reshape of the reduction."""
    axes = node.attribute.axes
    if not only_ones_differ(x.shape, inner.shape) or any(inner.shape[axis] == 1 for axis in axes):
        return None
    places = dict(zip(proper_axes(inner.shape), proper_axes(x.shape), strict=True))
    return build.reshape(build.reduce(node.attribute.op, x, [places[axis] for axis in axes]), node.shape)


# --- repeated axes


@family.rule(Op.REDUCE, of=Op.EXPAND)
def extremum_of_repeated(node: Node, inner: Node, x: Node) -> Node | None:
    """max or min over a repeated axis → without the repetition."""
    op, folded = node.attribute
    if op not in ("max", "min"):
        return None
    axes = [axis for axis in expanded_axes(inner) if axis in folded and as_index(inner.shape[axis]).low >= 1]
    return build.reduce(op, narrowed(inner, axes), folded) if axes else None


@family.rule(Op.REDUCE, of=Op.EXPAND, contract=_REASSOCIATES)
def sum_of_repeated(node: Node, inner: Node, x: Node) -> Node | None:
    """A sum over a repeated axis → multiply by its size, if the dtype holds that."""
    op, folded = node.attribute
    sizes = {axis: size for axis in expanded_axes(inner) if axis in folded and type(size := inner.shape[axis]) is int}
    axes = [axis for axis, size in sizes.items() if size > 0]
    if op != "add" or not axes:
        return None
    count = math.prod(sizes[axis] for axis in axes)
    factor = build.const(count, node.dtype)
    if node.dtype.is_float and constant_value(factor) != count:
        return None
    total = build.reduce("add", narrowed(inner, axes), folded)
    return build.binary("mul", total, build.broadcast_to(factor, total.shape))

"""Reductions: merged, and freed from axes and movements that they do not need.

Max, min and integer sums do not depend on the order of their operands; float sums and products do, so rules that may
change the order exist twice, once as `exact` and once as `reassociates`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from smelt.graph import Node, Op, as_index, build, constant_value
from smelt.rewrite.rule import Contract, Family, Matcher
from smelt.rewrite.rules.pattern import expanded_axes, narrowed, only_ones_differ, proper_axes

family = Family("reduction")


def _any_order(node: Node) -> bool:
    """True if the operands of this REDUCE may come in any order without changing a bit."""
    return node.attribute.op in ("max", "min") or not node.dtype.is_float


def _twins(of: Op | None = None, sole: bool = False) -> Callable[[Matcher], Matcher]:
    """Enter a rule that may change the order of operands: once for reductions that do not mind, once for the others."""

    def enter(function: Matcher) -> Matcher:
        def exactly(node: Node, *below: Node) -> Node | None:
            return function(node, *below) if _any_order(node) else None

        def roughly(node: Node, *below: Node) -> Node | None:
            return None if _any_order(node) else function(node, *below)

        summary = str(function.__doc__).rstrip(".")
        exactly.__name__, exactly.__doc__ = function.__name__, summary
        roughly.__name__, roughly.__doc__ = f"{function.__name__}_float", f"{summary}: float sums and products"
        family.rule(Op.REDUCE, of=of, sole=sole)(exactly)
        family.rule(Op.REDUCE, of=of, contract=Contract.REASSOCIATES, sole=sole)(roughly)
        return function

    return enter


# --- merging


@_twins(of=Op.REDUCE, sole=True)
def merge_reductions(node: Node, inner: Node, x: Node) -> Node | None:
    """A reduction of the same reduction → one over all axes."""
    op, axes = inner.attribute
    left = [axis for axis in range(x.rank) if axis not in axes]
    return (
        build.reduce(op, x, (*axes, *(left[axis] for axis in node.attribute.axes))) if op == node.attribute.op else None
    )


@_twins(of=Op.PERMUTE)
def reduce_below_permute(node: Node, inner: Node, x: Node) -> Node | None:
    """reduce(permute(x)) → permute(reduce(x))."""
    order = inner.attribute
    gone = [order[axis] for axis in node.attribute.axes]
    kept = [axis for position, axis in enumerate(order) if position not in node.attribute.axes]
    ranks = {axis: rank for rank, axis in enumerate(sorted(kept))}
    return build.permute(build.reduce(node.attribute.op, x, gone), tuple(ranks[axis] for axis in kept))


# --- axes of size 1


# 0.0 + -0.0 is 0.0: a float sum of one element may lose the sign of a zero.
@_twins()
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


@_twins(of=Op.EXPAND)
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

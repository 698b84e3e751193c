"""Sums of products: factored, multiplied out, and summed before they are multiplied."""

from __future__ import annotations

from smelt.egraph.rules.products import Factor, multiplied
from smelt.graph import Node, Op, build
from smelt.rewrite import Contract, Family, expanded_axes

family = Family("sums")
_REGROUPS = Contract.REGROUPS


@family.rule("add", over=(Op.CONTRACT, Op.CONTRACT), contract=_REGROUPS)
def factor_sum(node: Node, first: Node, second: Node) -> Node | None:
    """a b + a c → a (b + c)."""
    return _factored(node, first, second)


@family.rule("sub", over=(Op.CONTRACT, Op.CONTRACT), contract=_REGROUPS)
def factor_difference(node: Node, first: Node, second: Node) -> Node | None:
    """a b - a c → a (b - c)."""
    return _factored(node, first, second)


def _factored(node: Node, first: Node, second: Node) -> Node | None:
    """Two products with a factor in common as one, if they are alike but for the other factor."""
    for i in (0, 1):
        for j in (0, 1):
            common = first.sources[i]
            if common is not second.sources[j] or common.dtype is not node.dtype:
                continue
            labels, mine = first.attribute[i], first.attribute[1 - i]
            names = dict(zip(second.attribute[j], labels, strict=True))
            for there, here in zip(second.attribute.out, first.attribute.out, strict=True):
                if names.setdefault(there, here) != here:
                    return None
            if len(set(names.values())) != len(names):
                return None  # what one sums, the other keeps
            theirs = [names.get(label) for label in second.attribute[1 - j]]
            if set(theirs) != set(mine) or len(theirs) != len(mine):
                continue
            moved = build.permute(second.sources[1 - j], tuple(theirs.index(label) for label in mine))
            joined = Factor(build.binary(node.attribute, first.sources[1 - i], moved), mine)
            pair = (Factor(common, labels), joined) if i == 0 else (joined, Factor(common, labels))
            return multiplied(*pair, first.attribute.out).node
    return None


@family.rule("add", over=(("add", Op.CONTRACT, None), Op.CONTRACT), contract=_REGROUPS)
def products_together(node: Node, inner: Node, second: Node) -> Node | None:
    """(a b + x) + a c → (a b + a c) + x."""
    first, other = inner.sources
    if not any(source in second.sources for source in first.sources):
        return None
    return build.add(build.add(first, second), other)


@family.rule(Op.CONTRACT, over=(("add", None, Op.CONTRACT), None), contract=_REGROUPS)
def multiply_out_left(node: Node, total: Node, other: Node) -> Node | None:
    """(a + b c) d → a d + (b c) d."""
    return _multiplied_out(node, 0)


@family.rule(Op.CONTRACT, over=(None, ("add", None, Op.CONTRACT)), contract=_REGROUPS)
def multiply_out_right(node: Node, other: Node, total: Node) -> Node | None:
    """a (b + c d) → a b + a (c d)."""
    return _multiplied_out(node, 1)


@family.rule(Op.CONTRACT, over=(("add", None, ("mul", Op.EXPAND, Op.EXPAND)), None), contract=_REGROUPS)
def multiply_out_outer_left(node: Node, total: Node, other: Node) -> Node | None:
    """(a + u v) d → a d + (u v) d, for vectors u and v."""
    return _multiplied_out(node, 0)


@family.rule(Op.CONTRACT, over=(None, ("add", None, ("mul", Op.EXPAND, Op.EXPAND))), contract=_REGROUPS)
def multiply_out_outer_right(node: Node, other: Node, total: Node) -> Node | None:
    """a (b + u v) → a b + a (u v), for vectors u and v."""
    return _multiplied_out(node, 1)


def _multiplied_out(node: Node, which: int) -> Node | None:
    left, right, out = node.attribute
    total = node.sources[which]
    if total.dtype is not node.dtype:
        return None
    parts = []
    for term in total.sources:
        sources = (term, node.sources[1]) if which == 0 else (node.sources[0], term)
        parts.append(build.contract(*sources, left, right, out, node.dtype))
    return build.add(*parts)


@family.rule(Op.REDUCE, over=(Op.CONTRACT,), contract=_REGROUPS)
def sum_factors_first(node: Node, product: Node) -> Node | None:
    """The sum of a product over an axis that one factor has → that factor is summed before."""
    a, b = product.sources
    left, right, out = product.attribute
    if node.attribute.op != "add" or a.dtype is not node.dtype:
        return None
    gone = {out[axis] for axis in node.attribute.axes}
    first, second = _summed(a, left, gone - set(right)), _summed(b, right, gone - set(left))
    return multiplied(first, second, tuple(label for label in out if label not in gone)).node


def _summed(x: Node, labels: tuple[int, ...], gone: set[int]) -> Factor:
    axes = [axis for axis, label in enumerate(labels) if label in gone]
    return Factor(build.reduce("add", x, axes), tuple(label for label in labels if label not in gone))


@family.rule(Op.REDUCE, over=(("add", Op.CONTRACT, None),), contract=_REGROUPS, helps=False)
def sum_terms(node: Node, total: Node) -> Node | None:
    """sum(a b + x) → sum(a b) + sum(x)."""
    return _sum_of_terms(node, total)


@family.rule(Op.REDUCE, over=(("add", ("add", Op.CONTRACT, None), None),), contract=_REGROUPS)
def sum_more_terms(node: Node, total: Node) -> Node | None:
    """sum((a b + x) + y) → sum(a b + x) + sum(y)."""
    return _sum_of_terms(node, total)


def _sum_of_terms(node: Node, total: Node) -> Node | None:
    if node.attribute.op != "add" or not node.dtype.is_float:
        return None
    return build.add(*(build.reduce("add", term, node.attribute.axes) for term in total.sources))


@family.rule(
    Op.REDUCE, over=(("mul", ("sub", Op.EXPAND, Op.EXPAND), ("sub", Op.EXPAND, Op.EXPAND)),), contract=Contract.FAST
)
def squares_of_differences(node: Node, product: Node) -> Node | None:
    """sum((x - y)²) of all pairs → sum(x²) + sum(y²) - 2 x y."""
    first, second = product.sources
    if node.attribute.op != "add" or first is not second or not node.dtype.is_float:
        return None
    x, y = first.sources
    axes = node.attribute.axes
    repeated = set(expanded_axes(x)), set(expanded_axes(y))
    # Of rows with the same rows there is nothing to gain, and along what both are repeated greedy rules have cut it.
    if not repeated[0] or not repeated[1] or repeated[0] & repeated[1] or set(axes) & (repeated[0] | repeated[1]):
        return None
    labels = tuple(range(product.rank))
    out = tuple(axis for axis in labels if axis not in axes)
    small = [_narrow(z, labels) for z in (x, y)]
    squares = []
    for z in small:
        total = build.reduce("add", build.mul(z.node, z.node), [k for k, label in enumerate(z.labels) if label in axes])
        kept = [label for label in z.labels if label not in axes]
        shape = tuple(product.shape[label] if label in kept else 1 for label in out)
        squares.append(build.broadcast_to(build.reshape(total, shape), node.shape))
    twice = build.scale(multiplied(small[0], small[1], out).node, 2.0)
    # Rounding must not make a distance negative.
    return build.maximum(build.sub(build.add(*squares), twice), build.const(0.0, node.dtype, node.shape))


def _narrow(x: Node, labels: tuple[int, ...]) -> Factor:
    gone = expanded_axes(x)
    kept = tuple(axis for axis in labels if axis not in gone)
    return Factor(build.reshape(x.sources[0], tuple(x.shape[axis] for axis in kept)), kept)

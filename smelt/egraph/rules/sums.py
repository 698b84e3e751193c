"""Sums of products: factored, multiplied out, and summed before they are multiplied."""

from __future__ import annotations

from smelt.egraph.rules.products import Factor, factor_of, multiplied
from smelt.graph import Node, Op, build
from smelt.rewrite import Contract, Family, any_of, expanded_axes, key_of

family = Family("sums")
_REGROUPS = Contract.REGROUPS


@family.rule((any_of("add", "sub"), Op.CONTRACT, Op.CONTRACT), contract=_REGROUPS)
def common_factor(node: Node, first: Node, second: Node) -> Node | None:
    """a b + a c → a (b + c), and so for differences: one product instead of two with a factor in common."""
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


@family.rule(("add", ("add", Op.CONTRACT, None), Op.CONTRACT), contract=_REGROUPS)
def products_together(node: Node, inner: Node, second: Node) -> Node | None:
    """(a b + x) + a c → (a b + a c) + x: products with a factor in common are added first."""
    first, other = inner.sources
    if not any(source in second.sources for source in first.sources):
        return None
    return build.add(build.add(first, second), other)


_TERMS = [("add", None, term) for term in (Op.CONTRACT, ("mul", Op.EXPAND, Op.EXPAND))]


@family.rule(
    *((Op.CONTRACT, total, None) for total in _TERMS),
    *((Op.CONTRACT, None, total) for total in _TERMS),
    contract=_REGROUPS,
)
def multiply_out(node: Node, *sources: Node) -> Node | None:
    """(a + b c) d → a d + (b c) d, on either side: a sum with a product as a term is multiplied term by term."""
    which = 0 if key_of(sources[0]) == "add" else 1
    total = sources[which]
    if total.dtype is not node.dtype:
        return None
    left, right, out = node.attribute
    pairs = [(term, sources[1]) if which == 0 else (sources[0], term) for term in total.sources]
    return build.add(*(build.contract(*pair, left, right, out, node.dtype) for pair in pairs))


@family.rule((Op.REDUCE, Op.CONTRACT), contract=_REGROUPS)
def sum_factors_first(node: Node, product: Node) -> Node | None:
    """sum(a b) → sum(a) b: what only one factor varies along is summed before the product."""
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


@family.rule(
    (Op.REDUCE, ("add", Op.CONTRACT, None)),
    (Op.REDUCE, ("add", ("add", Op.CONTRACT, None), None)),
    contract=_REGROUPS,
)
def sum_terms(node: Node, total: Node) -> Node | None:
    """sum(a b + x) → sum(a b) + sum(x): the terms of a sum with a product among them are summed one by one."""
    if node.attribute.op != "add" or not node.dtype.is_float:
        return None
    return build.add(*(build.reduce("add", term, node.attribute.axes) for term in total.sources))


@family.rule((Op.REDUCE, ("mul", ("sub", Op.EXPAND, Op.EXPAND), ("sub", Op.EXPAND, Op.EXPAND))), contract=Contract.FAST)
def squares_of_differences(node: Node, product: Node) -> Node | None:
    """sum((x - y)²) → sum(x²) + sum(y²) - 2 x y: distances of all pairs of rows are one matrix product."""
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
    small = [factor_of(z, labels) for z in (x, y)]
    squares = []
    for z in small:
        total = build.reduce("add", build.mul(z.node, z.node), [k for k, label in enumerate(z.labels) if label in axes])
        kept = [label for label in z.labels if label not in axes]
        shape = tuple(product.shape[label] if label in kept else 1 for label in out)
        squares.append(build.broadcast_to(build.reshape(total, shape), node.shape))
    twice = build.scale(multiplied(small[0], small[1], out).node, 2.0)
    # Rounding must not make a distance negative.
    return build.maximum(build.sub(build.add(*squares), twice), build.const(0.0, node.dtype, node.shape))

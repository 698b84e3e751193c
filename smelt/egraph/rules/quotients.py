"""Products of what was divided: divided before, or after."""

from __future__ import annotations

from smelt.egraph.rules.products import factor_of
from smelt.graph import Node, Op, build
from smelt.rewrite import Contract, Family

family = Family("quotients")


@family.rule(Op.CONTRACT, over=(("div", None, Op.EXPAND), None), contract=Contract.REGROUPS)
def divide_after_product_left(node: Node, *_: Node) -> Node | None:
    """(a / d) b, with d the same for all that is summed → (a b) / d."""
    return _divided_after(node, 0)


@family.rule(Op.CONTRACT, over=(None, ("div", None, Op.EXPAND)), contract=Contract.REGROUPS)
def divide_after_product_right(node: Node, *_: Node) -> Node | None:
    """a (b / d), with d the same for all that is summed → (a b) / d."""
    return _divided_after(node, 1)


def _divided_after(node: Node, which: int) -> Node | None:
    left, right, out = node.attribute
    quotient = node.sources[which]
    if quotient.dtype is not node.dtype or not node.dtype.is_float:
        return None
    above, below = quotient.sources
    divisor, labels = factor_of(below, (left, right)[which])
    if not set(labels) <= set(out):
        return None
    sources = (above, node.sources[1]) if which == 0 else (node.sources[0], above)
    product = build.contract(*sources, left, right, out, node.dtype)
    kept = sorted(range(len(labels)), key=lambda k: out.index(labels[k]))
    divisor = build.permute(divisor, tuple(kept))
    shape = tuple(size if label in labels else 1 for label, size in zip(out, node.shape, strict=True))
    return build.div(product, build.broadcast_to(build.reshape(divisor, shape), node.shape))

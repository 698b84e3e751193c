"""Products of what was divided: divided before, or after."""

from __future__ import annotations

from typing import Final

from smelt.egraph.rules.products import factor_of
from smelt.graph import Node, Op, build
from smelt.rewrite import Contract, Family, expanded_axes, key_of

family = Family("quotients")


_QUOTIENT: Final = ("div", None, Op.EXPAND)


@family.rule((Op.CONTRACT, _QUOTIENT, None), (Op.CONTRACT, None, _QUOTIENT), contract=Contract.REGROUPS)
def divide_after_product(node: Node, *_: Node) -> Node | None:
    """(a / d) b → (a b) / d, and so on the other side, where d is the same for all that is summed."""
    quotients = [side for side in (0, 1) if key_of(node.sources[side]) == "div"]
    return next((found for side in quotients if (found := _divided_after(node, side)) is not None), None)


def _divided_after(node: Node, which: int) -> Node | None:
    left, right, out = node.attribute
    quotient = node.sources[which]
    if quotient.dtype is not node.dtype or not node.dtype.is_float:
        return None
    above, below = quotient.sources
    if not expanded_axes(below):
        return None
    divisor, labels = factor_of(below, (left, right)[which])
    if not set(labels) <= set(out):
        return None
    sources = (above, node.sources[1]) if which == 0 else (node.sources[0], above)
    product = build.contract(*sources, left, right, out, node.dtype)
    kept = sorted(range(len(labels)), key=lambda k: out.index(labels[k]))
    divisor = build.permute(divisor, tuple(kept))
    shape = tuple(size if label in labels else 1 for label, size in zip(out, node.shape, strict=True))
    return build.div(product, build.broadcast_to(build.reshape(divisor, shape), node.shape))

"""Functions that cost much: fewer of them, or of fewer elements."""

from __future__ import annotations

from typing import Final

from smelt.graph import Node, Op, build, least, product_of, upper
from smelt.rewrite import Contract, Family, any_of

family = Family("functions")
_FAST = Contract.FAST


@family.rule(("mul", "exp", "exp"), contract=_FAST)
def one_exponential(node: Node, a: Node, b: Node) -> Node | None:
    """exp(a) exp(b) → exp(a + b): one exponential instead of two."""
    return build.exp(build.add(a.sources[0], b.sources[0]))


@family.rule(("add", "log", "log"), contract=_FAST)
def one_logarithm(node: Node, a: Node, b: Node) -> Node | None:
    """log(a) + log(b) → log(a b): one logarithm instead of two."""
    return build.log(build.mul(a.sources[0], b.sources[0]))


@family.rule(("div", None, Op.EXPAND), contract=_FAST)
def divide_once(node: Node, x: Node, y: Node) -> Node | None:
    """x / y → x (1 / y): what many elements are divided by is divided by once."""
    small = y.sources[0]
    if upper(product_of(node.shape)) < 8 * upper(product_of(small.shape)):
        return None
    return build.mul(x, build.expand(build.reciprocal(small), node.shape))


INCREASING: Final = ("exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "cbrt", "tanh", "sinh", "atan", "erf")


@family.rule((Op.REDUCE, any_of(*INCREASING)), contract=_FAST)
def extreme_before_increasing(node: Node, x: Node) -> Node | None:
    """max(exp(x)) → exp(max(x)), and so for min and other increasing functions: one is computed, of the extreme."""
    if node.attribute.op not in ("max", "min") or any(least(x.shape[axis]) < 1 for axis in node.attribute.axes):
        return None  # of nothing, the largest is no value of the function
    return build.unary(x.attribute, build.reduce(node.attribute.op, x.sources[0], node.attribute.axes))

"""Functions that cost much: fewer of them, or of fewer elements."""

from __future__ import annotations

from typing import Final

from smelt.egraph.classes import known
from smelt.graph import Node, Op, build, least, product_of, upper
from smelt.rewrite import Contract, Family

family = Family("functions")
_FAST = Contract.FAST


@family.rule("mul", over=("exp", "exp"), contract=_FAST)
def one_exponential(node: Node, a: Node, b: Node) -> Node | None:
    """exp(a) * exp(b) → exp(a + b)."""
    return build.exp(build.add(a.sources[0], b.sources[0]))


@family.rule("add", over=("log", "log"), contract=_FAST)
def one_logarithm(node: Node, a: Node, b: Node) -> Node | None:
    """log(a) + log(b) → log(a * b)."""
    return build.log(build.mul(a.sources[0], b.sources[0]))


@family.rule("div", over=(None, Op.EXPAND), contract=_FAST)
def divide_once(node: Node, x: Node, y: Node) -> Node | None:
    """x / y, with y the same for many → x * (1 / y)."""
    small = y.sources[0]
    if upper(product_of(node.shape)) < 8 * upper(product_of(small.shape)):
        return None
    return build.mul(x, build.expand(build.reciprocal(small), node.shape))


def _extreme_first(node: Node, x: Node) -> Node | None:
    if node.attribute.op not in ("max", "min") or any(least(x.shape[axis]) < 1 for axis in node.attribute.axes):
        return None  # of nothing, the largest is no value of the function
    return build.unary(x.attribute, build.reduce(node.attribute.op, x.sources[0], node.attribute.axes))


_INCREASING: Final = ("exp", "tanh", "log", "sqrt", "erf", "log1p", "expm1", "sinh", "atan", "cbrt", "exp2", "log2")
for _name in _INCREASING:
    _summary = f"max({_name}(x)) → {_name}(max(x))"
    _rule = family.rule(Op.REDUCE, over=(_name,), contract=_FAST, name=f"extreme_before_{_name}", summary=_summary)
    _rule(_extreme_first)


LARGEST_POWER: Final = 60.0  # of e whose sums over many elements float32 still holds


@family.rule("softmax", contract=_FAST)
def softmax_unshifted(node: Node) -> Node | None:
    """softmax(x) of values that are known to be small → without their largest one taken off first."""
    (x,) = node.sources
    if known(x).bound > LARGEST_POWER or x.dtype.itemsize < 4:
        return None
    axis = dict(node.attribute.parameters)["axis"]
    powers = build.exp(x)
    share = build.reciprocal(build.reduce("add", powers, (axis,), keep_axes=True))
    return build.mul(powers, build.broadcast_to(share, x.shape))

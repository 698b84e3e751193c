"""Functions that cost much: fewer of them, of fewer elements, or of none where only the place of the largest counts."""

from __future__ import annotations

from typing import Any, Final

from smelt.egraph.classes import known
from smelt.graph import Node, Op, build, least
from smelt.rewrite import Contract, Family, any_of, expanded_axes

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
    if node.elements < 8 * small.elements:
        return None
    return build.mul(x, build.expand(build.reciprocal(small), node.shape))


INCREASING: Final = ("exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "cbrt", "tanh", "sinh", "atan", "erf")


@family.rule((Op.REDUCE, any_of(*INCREASING)), contract=_FAST)
def extreme_before_increasing(node: Node, x: Node) -> Node | None:
    """max(exp(x)) → exp(max(x)), and so for min and other increasing functions: one is computed, of the extreme."""
    if node.attribute.op not in ("max", "min") or any(least(x.shape[axis]) < 1 for axis in node.attribute.axes):
        return None  # of nothing, the largest is no value of the function
    return build.unary(x.attribute, build.reduce(node.attribute.op, x.sources[0], node.attribute.axes))


LARGEST_POWER: Final = 60.0  # of e whose sums over many elements float32 still holds


@family.rule("softmax", contract=_FAST)
def softmax_unshifted(node: Node) -> Node | None:
    """softmax(x) of values that are known to be small → exp(x) / sum(exp(x)), without the look for the largest."""
    (x,) = node.sources
    if known(x).bound > LARGEST_POWER or x.dtype.itemsize < 4:
        return None
    axis = dict(node.attribute.parameters)["axis"]
    powers = build.exp(x)
    share = build.reciprocal(build.reduce("add", powers, (axis,), keep_axes=True))
    return build.mul(powers, build.broadcast_to(share, x.shape))


# --- argmax of increasing functions


def _argmax(of: Any) -> tuple[Any, ...]:
    """The pattern of argmax of something, as it is written out."""
    extreme = (Op.EXPAND, (Op.RESHAPE, (Op.REDUCE, of)))
    return (Op.REDUCE, (Op.WHERE, ("or", ("eq", of, extreme), ("isnan", of)), None, None))


def _looked_at(node: Node) -> Node:
    """What argmax looks at."""
    looked: Node = node.sources[0].sources[0].sources[0].sources[0]
    return looked


def _argmax_of(node: Node, x: Node) -> Node | None:
    """The same argmax of another tensor."""
    test, places, nowhere = node.sources[0].sources
    equal, unknown = test.sources
    extreme = equal.sources[1].sources[0].sources[0]
    axes = node.attribute.axes
    if node.attribute.op != "min" or extreme.attribute != ("max", axes):
        return None
    if not equal.sources[0] is extreme.sources[0] is unknown.sources[0]:
        return None  # where one tensor has the largest value of another
    found = build.binary("or", build.eq(x, build.reduce("max", x, axes, keep_axes=True)), build.unary("isnan", x))
    return build.reduce("min", build.where(found, places, nowhere), axes)


@family.rule(_argmax(any_of(*INCREASING, "log10", "softmax", "log_softmax")), contract=_FAST)
def argmax_of_increasing(node: Node, *_: Node) -> Node | None:
    """argmax(exp(x)) → argmax(x), and so for other increasing functions and a softmax: the place is the same."""
    x = _looked_at(node)
    if x.op is Op.COMPOSITE and (dict(x.attribute.parameters)["axis"],) != node.attribute.axes:
        return None
    return _argmax_of(node, x.sources[0])


@family.rule(_argmax((any_of("mul", "div", "add", "sub"), None, Op.EXPAND)), contract=_FAST)
def argmax_of_scaled(node: Node, *_: Node) -> Node | None:
    """argmax(x y) or argmax(x + y) → argmax(x), where y is one number for all of x; if a factor, a positive one."""
    looked = _looked_at(node)
    x, other = looked.sources
    if not set(node.attribute.axes) <= set(expanded_axes(other)):
        return None
    if looked.attribute in ("mul", "div") and not known(other).positive:
        return None
    return _argmax_of(node, x)

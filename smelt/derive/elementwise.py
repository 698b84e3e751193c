"""Derivatives of elementwise functions, as linear maps: what a small change `t` of one operand does to the result.

The same table serves both directions: pulled back or pushed forward, an element is multiplied by the same number.
Functions that are flat wherever they have a derivative, and those of integers, are not listed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from smelt.derive.moves import wide, zeros
from smelt.graph import Node, Op, constant_of
from smelt.graph import build as b

UnaryMap = Callable[[Node, Node, Node], Node]  # of the change, the operand and the result
BinaryMap = Callable[[Node, Node, Node, Node], Node]  # of the change, both operands and the result

_LN2, _LN10 = math.log(2), math.log(10)


def _square(x: Node) -> Node:
    return b.mul(x, x)


def _times(function: str) -> UnaryMap:
    return lambda t, x, y: b.mul(t, b.unary(function, x))


def _gauss(t: Node, x: Node, factor: float) -> Node:
    return b.mul(t, b.scale(b.exp(b.neg(_square(x))), factor))


def _one_minus(x: Node) -> Node:
    return b.shift(b.neg(x), 1.0)


UNARY_MAPS: Final[dict[str, UnaryMap]] = {
    "neg": lambda t, x, y: b.neg(t),
    "abs": _times("sign"),
    "exp": lambda t, x, y: b.mul(t, y),
    "exp2": lambda t, x, y: b.mul(t, b.scale(y, _LN2)),
    "expm1": lambda t, x, y: b.mul(t, b.shift(y, 1.0)),
    "log": lambda t, x, y: b.div(t, x),
    "log2": lambda t, x, y: b.div(t, b.scale(x, _LN2)),
    "log10": lambda t, x, y: b.div(t, b.scale(x, _LN10)),
    "log1p": lambda t, x, y: b.div(t, b.shift(x, 1.0)),
    "sqrt": lambda t, x, y: b.div(b.scale(t, 0.5), y),
    "rsqrt": lambda t, x, y: b.mul(t, b.scale(b.mul(_square(y), y), -0.5)),
    "cbrt": lambda t, x, y: b.div(t, b.scale(_square(y), 3.0)),
    "reciprocal": lambda t, x, y: b.neg(b.mul(t, _square(y))),
    "sin": _times("cos"),
    "cos": lambda t, x, y: b.neg(b.mul(t, b.unary("sin", x))),
    "tan": lambda t, x, y: b.mul(t, b.shift(_square(y), 1.0)),
    "asin": lambda t, x, y: b.mul(t, b.rsqrt(_one_minus(_square(x)))),
    "acos": lambda t, x, y: b.neg(b.mul(t, b.rsqrt(_one_minus(_square(x))))),
    "atan": lambda t, x, y: b.div(t, b.shift(_square(x), 1.0)),
    "sinh": _times("cosh"),
    "cosh": _times("sinh"),
    "tanh": lambda t, x, y: b.mul(t, _one_minus(_square(y))),
    "asinh": lambda t, x, y: b.mul(t, b.rsqrt(b.shift(_square(x), 1.0))),
    "acosh": lambda t, x, y: b.mul(t, b.rsqrt(b.mul(b.shift(x, -1.0), b.shift(x, 1.0)))),
    "atanh": lambda t, x, y: b.div(t, b.mul(_one_minus(x), b.shift(x, 1.0))),
    "erf": lambda t, x, y: _gauss(t, x, 2 / math.sqrt(math.pi)),
    "erfc": lambda t, x, y: _gauss(t, x, -2 / math.sqrt(math.pi)),
    "erfinv": lambda t, x, y: b.mul(t, b.scale(b.exp(_square(y)), math.sqrt(math.pi) / 2)),
    "lgamma": _times("digamma"),
    "digamma": lambda t, x, y: b.mul(t, _trigamma(x)),
}

# Bernoulli numbers of even order: the asymptotic series of the trigamma function.
_BERNOULLI: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
_SHIFTS = 12  # how far arguments are moved up before the series is good to the last digit


def _trigamma(x: Node) -> Node:
    """The derivative of digamma: by recurrence to large arguments, by reflection from negative ones."""
    mirrored = b.lt(x, zeros(x.shape, x))
    z = b.where(mirrored, _one_minus(x), x)
    result = zeros(x.shape, x)
    for k in range(_SHIFTS):
        result = b.add(result, b.reciprocal(_square(b.shift(z, float(k)))))
    large = b.shift(z, float(_SHIFTS))
    inverse = b.reciprocal(large)
    square = _square(inverse)
    series = zeros(x.shape, x)
    for number in reversed(_BERNOULLI):
        series = b.mul(b.shift(series, number), square)
    # 1/z + 1/(2 z²) + (the series) / z
    tail = b.mul(inverse, b.shift(b.add(b.scale(inverse, 0.5), series), 1.0))
    result = b.add(result, tail)
    sine = b.unary("sin", b.scale(x, math.pi))
    return b.where(mirrored, b.sub(b.div(b.const(math.pi**2, x.dtype, x.shape), _square(sine)), result), result)


def _chosen(name: str, t: Node, mine: Node, other: Node, result: Node) -> Node:
    """Of the larger or smaller of two. Equal ones share, but a constant, as in relu, takes all: then the result is
    beyond it exactly where the other one is, and what relu is taken of need not be kept.
    """
    fixed = constant_of(other) is not None
    if fixed:
        mine = result
    first, second = (other, mine) if name == "max" else (mine, other)
    nothing = zeros(t.shape, t)
    tied = nothing if fixed else b.where(b.eq(mine, other), b.scale(t, 0.5), nothing)
    return b.where(b.lt(first, second), t, tied)


def _power_base(t: Node, x: Node, n: Node, y: Node) -> Node:
    one = b.const(1, n.dtype, n.shape)
    slope = b.mul(n, b.binary("pow", x, b.sub(n, one)))
    return b.mul(t, b.where(b.eq(n, zeros(n.shape, n)), zeros(n.shape, n), slope))


def _power_exponent(t: Node, x: Node, n: Node, y: Node) -> Node:
    nothing = zeros(x.shape, x)
    is_zero = b.eq(x, nothing)
    # The logarithm of something harmless where x is zero: what is not chosen must not be infinite either.
    slope = b.mul(y, b.log(b.where(is_zero, b.const(1, x.dtype, x.shape), x)))
    return b.mul(t, b.where(is_zero, nothing, slope))


def _legs(t: Node, leg: Node, y: Node) -> Node:
    """Of hypot: no direction at the origin."""
    nothing = zeros(y.shape, y)
    return b.mul(t, b.where(b.eq(y, nothing), nothing, b.div(leg, y)))


def _circle(x: Node, y: Node) -> Node:
    """The square of the distance from the origin, and 1 at it: no direction there."""
    square = b.add(_square(x), _square(y))
    return b.where(b.eq(square, zeros(square.shape, square)), b.const(1, square.dtype, square.shape), square)


def _copysign(t: Node, x: Node, s: Node, y: Node) -> Node:
    return b.where(b.eq(x, y), t, b.neg(t))


# For the first and for the second operand; None where the result does not depend on it smoothly.
BINARY_MAPS: Final[dict[str, tuple[BinaryMap, BinaryMap | None]]] = {
    "add": (lambda t, x, z, y: t, lambda t, x, z, y: t),
    "sub": (lambda t, x, z, y: t, lambda t, x, z, y: b.neg(t)),
    "mul": (lambda t, x, z, y: b.mul(t, z), lambda t, x, z, y: b.mul(t, x)),
    "div": (lambda t, x, z, y: b.div(t, z), lambda t, x, z, y: b.neg(b.div(b.mul(t, y), z))),
    "mod": (lambda t, x, z, y: t, lambda t, x, z, y: b.neg(b.mul(t, b.binary("floordiv", x, z)))),
    "pow": (_power_base, _power_exponent),
    "atan2": (
        lambda t, x, z, y: b.div(b.mul(t, z), _circle(x, z)),
        lambda t, x, z, y: b.neg(b.div(b.mul(t, x), _circle(x, z))),
    ),
    "hypot": (lambda t, x, z, y: _legs(t, x, y), lambda t, x, z, y: _legs(t, z, y)),
    "copysign": (_copysign, None),
    "max": (lambda t, x, z, y: _chosen("max", t, x, z, y), lambda t, x, z, y: _chosen("max", t, z, x, y)),
    "min": (lambda t, x, z, y: _chosen("min", t, x, z, y), lambda t, x, z, y: _chosen("min", t, z, x, y)),
}


def applied(node: Node, k: int, t: Node) -> Node | None:
    """A change of one source of an elementwise function as it appears in the result, in the wide type; None if the
    function is flat there.
    """
    maps = (UNARY_MAPS.get(node.attribute),) if node.op is Op.UNARY else BINARY_MAPS.get(node.attribute, (None, None))
    apply: Callable[..., Node] | None = maps[k]
    return None if apply is None else apply(wide(t), *map(wide, node.sources), wide(node))

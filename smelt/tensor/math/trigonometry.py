"""Inverse, hyperbolic and two-argument trigonometric functions, and angles in degrees."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from smelt import dtypes
from smelt.graph import Node, build, pairs
from smelt.tensor.handle import floating, pair, widened, wrap
from smelt.tensor.types import DT, Operand, S

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cosh",
    "deg2rad",
    "hypot",
    "rad2deg",
    "sinc",
    "sinh",
]


def _real(function: str, x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    return wrap(build.unary(function, floating(x, function)))


def floating_pair(x: Any, y: Any, name: str) -> tuple[Node, Node]:
    """Two operands in their common dtype, in float32 unless that is a float."""
    a, b = pair(x, y, name)
    if a.dtype.is_inexact:
        return a, b
    return build.cast(a, dtypes.float32), build.cast(b, dtypes.float32)


def asin(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The angle between -pi/2 and pi/2 whose sine is x; NaN beyond -1 and 1.

    >>> sm.asin(sm.asarray([0.0, 1.0])).tolist()
    [0.0, 1.5707963705062866]
    """
    return _real("asin", x)


def acos(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The angle between 0 and pi whose cosine is x; NaN beyond -1 and 1.

    >>> sm.acos(sm.asarray([1.0, -1.0])).tolist()
    [0.0, 3.1415927410125732]
    """
    return _real("acos", x)


def atan(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The angle between -pi/2 and pi/2 whose tangent is x.

    >>> sm.atan(sm.asarray([0.0, sm.inf])).tolist()
    [0.0, 1.5707963705062866]
    """
    return _real("atan", x)


def atan2(y: Operand, x: Operand) -> Tensor:
    """The angle of the point (x, y), between -pi and pi; the signs of zeros count.

    >>> sm.atan2(sm.asarray([1.0, 0.0]), sm.asarray([0.0, -1.0])).tolist()
    [1.5707963705062866, 3.1415927410125732]
    """
    a, b = floating_pair(y, x, "atan2")
    return wrap(build.binary("atan2", a, b))


def sinh(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The hyperbolic sine.

    >>> sm.sinh(sm.asarray([0.0, 1.0])).tolist()
    [0.0, 1.175201177597046]
    """
    return _real("sinh", x)


def cosh(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The hyperbolic cosine.

    >>> sm.cosh(sm.asarray([0.0, 1.0])).tolist()
    [1.0, 1.5430806875228882]
    """
    return _real("cosh", x)


def asinh(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The number whose hyperbolic sine is x.

    >>> sm.asinh(sm.asarray([0.0, 1.0])).tolist()
    [0.0, 0.8813735842704773]
    """
    return _real("asinh", x)


def acosh(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The number from 0 on whose hyperbolic cosine is x; NaN below 1.

    >>> sm.acosh(sm.asarray([1.0, 2.0])).tolist()
    [0.0, 1.316957950592041]
    """
    return _real("acosh", x)


def atanh(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The number whose hyperbolic tangent is x; infinite at -1 and 1, NaN beyond.

    >>> sm.atanh(sm.asarray([0.0, 0.5])).tolist()
    [0.0, 0.5493061542510986]
    """
    return _real("atanh", x)


def deg2rad(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """Degrees as radians.

    >>> sm.deg2rad(sm.asarray([0.0, 180.0])).tolist()
    [0.0, 3.1415927410125732]
    """
    return _scaled(x, math.pi / 180, "deg2rad")


def rad2deg(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """Radians as degrees.

    >>> sm.rad2deg(sm.asarray([0.0, sm.pi])).tolist()
    [0.0, 180.0]
    """
    return _scaled(x, 180 / math.pi, "rad2deg")


def _scaled(x: Tensor[DT, *S], factor: float, name: str) -> Tensor[Any, *S]:
    node = floating(x, name)
    return wrap(build.cast(build.scale(widened(node), factor), node.dtype))


def hypot(x: Operand, y: Operand) -> Tensor:
    """The square root of x*x + y*y, without overflow in between.

    >>> sm.hypot(sm.asarray([3.0]), sm.asarray([4.0])).tolist()
    [5.0]
    """
    a, b = floating_pair(x, y, "hypot")
    return wrap(build.binary("hypot", a, b))


def sinc(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """sin(pi x) / (pi x), and 1 at 0.

    >>> sm.sinc(sm.asarray([0.0, 0.5, 1.0])).tolist()
    [1.0, 0.6366197466850281, 0.0]
    """
    stored = floating(x, "sinc")
    node = widened(stored)
    # The nearest whole number is taken away first, so that the sine is exact near its zeros.
    real, *imaginary = pairs.parts(node)[: 1 + node.dtype.is_complex]
    whole = build.unary("round", real)
    part = build.sub(real, whole)
    part = pairs.paired(part, *imaginary) if imaginary else part
    odd = build.ne(build.scale(build.unary("floor", build.scale(whole, 0.5)), 2), whole)
    wave = build.unary("sin", build.scale(part, math.pi))
    wave = build.where(odd, build.neg(wave), wave)
    zero = build.eq(node, build.const(0, node.dtype))
    ratio = build.div(wave, build.scale(build.where(zero, build.const(1, node.dtype), node), math.pi))
    ratio = build.add(ratio, build.const(0, node.dtype))  # no -0
    return wrap(build.cast(build.where(zero, build.const(1, node.dtype), ratio), stored.dtype))

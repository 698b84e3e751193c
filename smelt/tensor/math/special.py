"""Logarithms and roots beyond the basic ones, the error function's kin, and gamma's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from smelt import dtypes
from smelt.errors import ArgumentError
from smelt.graph import build
from smelt.tensor.arguments import real_number
from smelt.tensor.handle import floating, widened, wrap
from smelt.tensor.math.trigonometry import floating_pair
from smelt.tensor.types import DT, Operand, S

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "cbrt",
    "digamma",
    "erfc",
    "erfinv",
    "lgamma",
    "log10",
    "logaddexp",
    "logit",
    "xlogy",
]


def _real(function: str, x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    return wrap(build.unary(function, floating(x, function)))


def log10(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The logarithm to base 10.

    >>> sm.log10(sm.asarray([1.0, 1000.0])).tolist()
    [0.0, 3.0]
    """
    return _real("log10", x)


def cbrt(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The cube root, also of negative numbers.

    >>> sm.cbrt(sm.asarray([27.0, -8.0])).tolist()
    [3.0, -2.0]
    """
    return _real("cbrt", x)


def logaddexp(x: Operand, y: Operand) -> Tensor:
    """log(exp(x) + exp(y)), without overflow.

    >>> sm.logaddexp(sm.asarray([0.0, 1000.0]), sm.asarray([0.0, 1000.0])).tolist()
    [0.6931471824645996, 1000.6931762695312]
    """
    stored, other = floating_pair(x, y, "logaddexp")
    # Where the two terms cancel, only a wider type keeps the digits.
    a, b = build.cast(stored, dtypes.float64), build.cast(other, dtypes.float64)
    a, b = (build.broadcast_to(node, build.broadcast_shapes(a.shape, b.shape, "logaddexp")) for node in (a, b))
    tied = build.eq(a, b)  # both share the gradient then, also with a constant
    largest = build.where(tied, build.add(build.scale(a, 0.5), build.scale(b, 0.5)), build.maximum(a, b))
    gap = build.where(tied, build.const(0, a.dtype), build.neg(build.unary("abs", build.sub(a, b))))
    total = build.add(largest, build.unary("log1p", build.exp(gap)))
    return wrap(build.cast(total, stored.dtype))


def xlogy(x: Operand, y: Operand) -> Tensor:
    """x * log(y), and 0 where x is 0, unless y is NaN.

    >>> sm.xlogy(sm.asarray([0.0, 2.0]), sm.asarray([0.0, 1.0])).tolist()
    [0.0, 0.0]
    """
    stored, other = floating_pair(x, y, "xlogy")
    a, b = widened(stored), widened(other)
    a, b = (build.broadcast_to(node, build.broadcast_shapes(a.shape, b.shape, "xlogy")) for node in (a, b))
    # Where the logarithm is finite the product is 0 by itself, with its own gradient.
    low, high = build.const(0, b.dtype), build.const(math.inf, b.dtype)
    infinite = build.binary("or", build.le(b, low), build.eq(b, high))
    zero = build.bitwise_and(build.eq(a, build.const(0, a.dtype)), infinite)
    product = build.mul(a, build.log(build.where(zero, build.const(1, b.dtype), b)))
    return wrap(build.cast(build.where(zero, build.const(0, a.dtype), product), stored.dtype))


def logit(x: Tensor[DT, *S], eps: float | None = None) -> Tensor[Any, *S]:
    """log(x / (1 - x)), the inverse of `sigmoid`; with `eps`, x is first kept between eps and 1 - eps.

    >>> sm.logit(sm.asarray([0.5, 1.0])).tolist()
    [0.0, inf]
    """
    eps = None if eps is None else real_number(eps, "logit", "eps")
    if eps is not None and not 0 <= eps <= 0.5:
        raise ArgumentError(f"logit: eps is {eps}", rule="it must lie between 0 and 0.5, so that eps is below 1 - eps.")
    stored = floating(x, "logit")
    node = widened(stored)
    if eps is not None:
        node = build.minimum(build.maximum(node, build.const(eps, node.dtype)), build.const(1 - eps, node.dtype))
    # Around 1/2 the quotient would lose what 2x - 1 keeps.
    tail = build.log(build.div(node, build.sub(build.const(1, node.dtype), node)))
    center = build.scale(build.unary("atanh", build.shift(build.scale(node, 2), -1)), 2)
    low = build.lt(node, build.const(0.25, node.dtype))
    return wrap(build.cast(build.where(low, tail, center), stored.dtype))


def erfc(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """1 - erf(x), exact also where it is small.

    >>> sm.erfc(sm.asarray([0.0, 5.0])).tolist()
    [1.0, 1.5374598295869735e-12]
    """
    return _real("erfc", x)


def erfinv(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The number whose error function is x; infinite at -1 and 1, NaN beyond.

    >>> sm.erfinv(sm.asarray([0.0, 0.5])).tolist()
    [0.0, 0.4769362807273865]
    """
    return _real("erfinv", x)


def lgamma(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The logarithm of the absolute value of the gamma function; infinite at 0 and the negative whole numbers.

    >>> sm.lgamma(sm.asarray([1.0, 5.0])).tolist()
    [0.0, 3.178053855895996]
    """
    return _real("lgamma", x)


def digamma(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The derivative of `lgamma`; infinite at 0, NaN at the negative whole numbers.

    >>> sm.digamma(sm.asarray([1.0])).tolist()
    [-0.5772156715393066]
    """
    return _real("digamma", x)

"""The normal distribution between two bounds, by the inverse of its tail, which keeps its digits however far out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from smelt import dtypes
from smelt.graph import Node, build, draws
from smelt.tensor.handle import wrap
from smelt.tensor.random import generator
from smelt.tensor.random.arguments import POSITIVE, check_order, draw_shape, float_dtype, parameter, shape_first
from smelt.tensor.types import DTypeLike, Operand, ShapeLike

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

_FAR = 1e100  # infinite bounds become these, whose squares are finite
_LOG_2 = math.log(2.0)
_SLOPE = math.sqrt(2.0 / math.pi)

# (1 + x) erfcx(x / sqrt 2) for x >= 0 as a polynomial in t = (x - 4) / (x + 4): a Chebyshev fit, relative error 5e-15.
_SCALED_TAIL = (
    0.9441064130196883,
    -0.19340695465312283,
    0.0279992694492053,
    0.0572007281124786,
    -0.06439567487060302,
    0.035872194839784634,
    -0.010004756954846825,
    -0.000571244969677654,
    0.0013897923783531055,
    -0.00018886748129989431,
    -0.0001756977742005025,
    4.252423482227684e-05,
    2.7228627502069007e-05,
    -6.917723472122983e-06,
    -5.178776950110708e-06,
    8.854966611287185e-07,
    1.0475698737987525e-06,
    -6.769717198327286e-08,
    -1.8017137233827402e-07,
    2.4242822678483197e-10,
    1.7904784977842672e-08,
)


@shape_first
def truncated_normal(
    shape: ShapeLike | None = None,
    lower: Operand = -2.0,
    upper: Operand = 2.0,
    mean: Operand = 0.0,
    std: Operand = 1.0,
    *,
    dtype: DTypeLike = dtypes.float32,
    key: Tensor | None = None,
) -> Tensor:
    """Numbers from the normal distribution, given that they lie between `lower` and `upper`; either may be infinite.

    The bounds are values of the result, not multiples of `std`.

    >>> x = sm.random.truncated_normal((5,), 3.0, 4.0)
    >>> bool((x >= 3).all()), bool((x <= 4).all())
    (True, True)
    """
    name, wide = "truncated_normal", dtypes.float64
    wanted = float_dtype(dtype, name)
    check_order(lower, upper, name, ("lower", "upper"))
    low, high = parameter(lower, wide, name, "lower"), parameter(upper, wide, name, "upper")
    center, scale = parameter(mean, wide, name, "mean"), parameter(std, wide, name, "std", POSITIVE)
    shape = draw_shape(shape, (low, high, center, scale), name)
    a, b = generator.draw_words(shape, key, name)
    left, right = (_bounded(build.div(build.sub(x, center), scale)) for x in (low, high))
    x = _between(left, right, draws.share(draws.joined(a, b), wide))
    result = build.add(build.mul(x, scale), center)
    result = build.maximum(build.minimum(result, high), low)
    invalid = build.logical_not(build.bitwise_and(build.lt(low, high), build.lt(build.const(0.0, wide), scale)))
    return wrap(build.cast(build.where(invalid, build.const(math.nan, wide), result), wanted))


def _bounded(x: Node) -> Node:
    return build.maximum(build.minimum(x, build.const(_FAR, x.dtype)), build.const(-_FAR, x.dtype))


def _between(left: Node, right: Node, share: Node) -> Node:
    """The number of the standard normal distribution between two bounds that has a share of what lies between above it.

    Everything is turned so that the interval reaches further to the right. If it lies right of 0, the logarithm of the
    tail at the result is that at the nearer bound plus what the share takes away. Otherwise the tail itself has enough
    digits, and beyond the middle the result is minus that of the other tail.
    """
    zero = build.const(0.0, share.dtype)
    flip = build.lt(build.add(left, right), zero)
    low = build.where(flip, build.neg(right), left)
    high = build.where(flip, build.neg(left), right)
    outside = build.le(zero, low)
    tail_low, tail_high = _log_tail(build.unary("abs", low)), _log_tail(high)
    # right of 0: the share of the tail at `low` that is kept
    rest = build.exp(build.sub(tail_low, tail_high))
    kept = build.add(rest, build.mul(share, build.shift(build.neg(rest), 1.0)))
    beyond = build.sub(tail_low, build.log(kept))
    # around 0: the tail itself
    start = build.shift(build.neg(build.exp(build.neg(tail_low))), 1.0)
    end = build.exp(build.neg(tail_high))
    tail = build.add(end, build.mul(share, build.sub(start, end)))
    less = build.shift(build.neg(tail), 1.0)
    other = build.lt(less, tail)
    around = build.neg(build.log(build.where(other, less, tail)))
    x = _inverse_log_tail(build.where(outside, beyond, around))
    x = build.where(build.bitwise_and(other, build.logical_not(outside)), build.neg(x), x)
    return build.where(flip, build.neg(x), x)


def _scaled_tail(x: Node) -> Node:
    """erfcx(x / sqrt 2) = 2 exp(x**2 / 2) times the tail of the normal distribution right of x >= 0."""
    t = build.div(build.shift(x, -4.0), build.shift(x, 4.0))
    value = build.const(_SCALED_TAIL[-1], x.dtype, x.shape)
    for coefficient in _SCALED_TAIL[-2::-1]:
        value = build.shift(build.mul(value, t), coefficient)
    return build.div(value, build.shift(x, 1.0))


def _log_tail(x: Node) -> Node:
    """Minus the logarithm of the tail right of x >= 0."""
    return build.sub(build.scale(build.mul(x, x), 0.5), build.log(build.scale(_scaled_tail(x), 0.5)))


def _inverse_log_tail(c: Node) -> Node:
    """The x >= 0 at which minus the logarithm of the tail is c >= log 2.

    The function is convex, with slope sqrt(2/pi) at 0 and above x**2/2 + log 2: the start is beyond the root, and three
    of Halley's steps reach the last digits.
    """
    over = build.maximum(build.shift(c, -_LOG_2), build.const(0.0, c.dtype))
    x = build.minimum(build.scale(over, 1 / _SLOPE), build.sqrt(build.scale(over, 2.0)))
    for _ in range(3):
        scaled = _scaled_tail(x)
        slope = build.div(build.const(_SLOPE, c.dtype), scaled)
        value = build.sub(build.scale(build.mul(x, x), 0.5), build.log(build.scale(scaled, 0.5)))
        step = build.div(build.sub(value, c), slope)
        bend = build.shift(build.scale(build.mul(step, build.sub(slope, x)), -0.5), 1.0)
        x = build.maximum(build.sub(x, build.div(step, bend)), build.const(0.0, c.dtype))
    return x

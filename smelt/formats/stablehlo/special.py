"""Functions of CHLO: those that smelt has, and formulas for the rest, computed in at least float32."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from smelt.dtypes import compute_dtype, int64, uint64
from smelt.formats.stablehlo.elementwise import UNSIGNED, number
from smelt.formats.stablehlo.rows import Call, Row, rows
from smelt.graph import Node, build, pairs
from smelt.tensor import wrap
from smelt.tensor.math import floats

# exp(-x) I1(x) / x on 0 … 8, and exp(-x) I1(x) sqrt(x) by 1/x beyond, as Chebyshev series.
_BESSEL_NEAR: Final = (
    *(0.12629359322181682, -0.17641651835783403, 0.10264365868984708, -0.052945981208094954, 0.024726449030626468),
    *(
        -0.010564084894626149,
        0.004156422944312832,
        -0.001513572450631191,
        0.0005122859561684905,
        -0.0001617608158257912,
    ),
    *(4.7815651075352454e-05, -1.3273163655881015e-05, 3.4702513079473874e-06, -8.568720262908025e-07),
    *(2.003294751468054e-07, -4.445059105931941e-08, 9.38153708258098e-09, -1.8872494186816445e-09),
    *(3.6255861764872095e-10, -6.66345063244528e-11, 1.1735744404722625e-11, -1.983529296233391e-12),
    *(3.2183188685715044e-13, -4.9869382816806805e-14, 6.9639634560761836e-15),
)
_BESSEL_FAR: Final = (
    *(0.38928811750914, -0.009761097491361469, -0.00011058893876270949, -3.882564808897503e-06),
    *(-2.512236238956162e-07, -2.63146884611816e-08, -3.835380474120703e-09, -5.589743359537793e-10),
    *(-1.8975177396430144e-11, 3.252604276772023e-11, 1.4125438473221329e-11, 2.035620643241558e-12),
    *(-7.203332580624428e-13, -4.0833591652000434e-13, -2.152187892921507e-14, 4.273330660524792e-14),
    *(9.589037383058759e-15, -3.79840192221292e-15, -2.650574148347824e-15),
)
# Bernoulli's numbers B(2k) over (2k)!.
_BERNOULLI: Final = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600)
_ZETA_TERMS = 10


def _chebyshev(t: Node, series: Sequence[float]) -> Node:
    """A Chebyshev series, by Clenshaw's recurrence."""
    double = build.scale(t, 2.0)
    after, now = number(0.0, t), number(0.0, t)
    for coefficient in reversed(series[1:]):
        after, now = now, build.shift(build.sub(build.mul(double, now), after), coefficient)
    return build.shift(build.sub(build.mul(t, now), after), series[0])


def bessel_i1e(x: Node) -> Node:
    """exp(-|x|) I1(x), to about 4 ULP of float32 and 1e-13 of float64."""
    size = build.unary("abs", x)
    eight = number(8.0, x)
    near = build.mul(_chebyshev(build.shift(build.scale(build.minimum(size, eight), 0.25), -1.0), _BESSEL_NEAR), size)
    large = build.maximum(size, eight)
    far = build.div(_chebyshev(build.shift(build.div(number(16.0, x), large), -1.0), _BESSEL_FAR), build.sqrt(large))
    return build.binary("copysign", build.where(build.le(size, eight), near, far), x)


def _zeta_above(x: Node, q: Node) -> Node:
    """The sum over k of (q + k)^-x for q above 0, by the formula of Euler and Maclaurin after the first terms."""
    power = build.neg(x)
    total = build.binary("pow", q, power)
    for k in range(1, _ZETA_TERMS):
        total = build.add(total, build.binary("pow", build.shift(q, float(k)), power))
    a = build.shift(q, float(_ZETA_TERMS))
    last = build.binary("pow", a, power)
    total = build.add(total, build.div(build.mul(last, a), build.shift(x, -1.0)))
    total = build.add(total, build.scale(last, 0.5))
    factor, falling = x, build.div(last, a)
    for k, coefficient in enumerate(_BERNOULLI):
        total = build.add(total, build.scale(build.mul(factor, falling), coefficient))
        factor = build.mul(factor, build.mul(build.shift(x, 2.0 * k + 1), build.shift(x, 2.0 * k + 2)))
        falling = build.div(falling, build.mul(a, a))
    return total


def zeta(x: Node, q: Node) -> Node:
    """The sum over k of (q + k)^-x. Of numbers q below 0 that are no integers it exists for integers x alone: it is the
    sum over all integers k, which only asks for the fraction of q, less the terms that come before q. All are sums of
    numbers above 0; from q itself, only the first terms of the formula would be.
    """
    zero, one, nan, infinite = (number(v, x) for v in (0.0, 1.0, math.nan, math.inf))
    pole = build.bitwise_and(build.eq(build.unary("floor", q), q), build.le(q, zero))
    below = build.bitwise_and(build.lt(q, zero), build.unary("not", pole))
    even = build.eq(build.binary("mod", x, number(2.0, x)), zero)  # both sides of a pole have one sign
    after = _zeta_above(x, build.where(below, build.sub(one, q), q))
    opposite = build.neg(q)
    fraction = build.where(below, build.sub(opposite, build.unary("floor", opposite)), number(0.5, x))
    left, right = _zeta_above(x, fraction), _zeta_above(x, build.sub(one, fraction))
    summed = build.where(even, build.sub(build.add(right, left), after), build.add(build.sub(right, left), after))
    summed = build.where(build.eq(build.unary("floor", x), x), summed, nan)
    total = build.where(below, summed, after)
    total = build.where(pole, build.where(even, infinite, nan), total)
    total = build.where(build.eq(x, one), infinite, total)
    return build.where(build.lt(x, one), nan, total)


def polygamma(n: Node, x: Node) -> Node:
    """The n-th derivative of digamma."""
    order = build.shift(n, 1.0)
    factorial = build.exp(build.unary("lgamma", order))
    even = build.eq(build.binary("mod", n, number(2.0, n)), number(0.0, n))
    value = build.mul(factorial, zeta(order, x))
    signed = build.where(even, build.neg(value), value)
    result = build.where(build.eq(n, number(0.0, n)), build.unary("digamma", x), signed)
    unfit = build.binary("or", build.lt(n, number(0.0, n)), build.ne(build.unary("floor", n), n))
    return build.where(unfit, number(math.nan, x), result)


def widened(function: Callable[..., Node]) -> Callable[..., Node]:
    """A formula of several steps, which rounds once."""

    def wide(*operands: Node) -> Node:
        dtype = operands[0].dtype
        return build.cast(function(*(build.cast(x, compute_dtype(dtype)) for x in operands)), dtype)

    return wide


def next_after(a: Node, b: Node) -> Node:
    """The next float after a, toward b."""
    return floats.nextafter(wrap(a), wrap(b))._node


def mulhi(a: Node, b: Node) -> Node:
    """The upper half of a product."""
    bits = a.dtype.bits
    if bits < 64:
        wide = int64 if a.dtype.is_signed else uint64
        product = build.mul(build.cast(a, wide), build.cast(b, wide))
        return build.cast(build.binary("shr", product, number(bits, product)), a.dtype)
    x, y = (build.bitcast(n, UNSIGNED[64]) for n in (a, b))
    mask, half = number((1 << 32) - 1, x), number(32, x)
    (x0, x1), (y0, y1) = ((build.bitwise_and(n, mask), build.binary("shr", n, half)) for n in (x, y))
    low = build.binary("shr", build.mul(x0, y0), half)
    first = build.add(build.mul(x1, y0), low)
    second = build.add(build.mul(x0, y1), build.bitwise_and(first, mask))
    high = build.add(build.mul(x1, y1), build.binary("shr", first, half))
    result = build.add(high, build.binary("shr", second, half))
    if a.dtype.is_signed:
        zero, nothing = number(0, a), number(0, x)
        result = build.sub(result, build.where(build.lt(a, zero), y, nothing))
        result = build.sub(result, build.where(build.lt(b, zero), x, nothing))
    return build.bitcast(result, a.dtype)


def _row(function: Callable[..., Node], operands: int = 1, note: str = "") -> Row:
    return Row(lambda call: function(*call.operands), (), operands, note)


def _plain(name: str) -> Row:
    return Row(lambda call: build.unary(name, *call.operands), (), 1)


def _square(call: Call) -> Node:
    (x,) = call.operands
    return build.mul(x, x)


ROWS: Final = rows(
    {
        **{name: _plain(name) for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "tan")},
        **{name: _plain(name) for name in ("erf", "erfc", "lgamma", "digamma")},
        "erf_inv": _plain("erfinv"),
        "square": Row(_square, (), 1),
        "conj": Row(lambda call: pairs.conj(call.operands[0]), (), 1),
        "next_after": _row(next_after, 2),
        "mulhi": _row(mulhi, 2),
        "bessel_i1e": _row(widened(bessel_i1e), 1, "4 ULP of float32"),
        "zeta": _row(widened(zeta), 2, "1e-6 of float32"),
        "polygamma": _row(widened(polygamma), 2, "1e-6 of float32"),
        "is_inf": _row(lambda x: build.eq(build.unary("abs", x), number(math.inf, x))),
        "is_pos_inf": _row(lambda x: build.eq(x, number(math.inf, x))),
        "is_neg_inf": _row(lambda x: build.eq(x, number(-math.inf, x))),
    },
    "chlo",
)

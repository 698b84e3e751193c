"""Gamma, beta and Poisson numbers: proposals that are accepted or refused.

There are no loops: every element has a fixed number of proposals along an axis of their own, and the first accepted one
is taken. Their number is such that all are refused less often than once in 10**12; then the middle of the distribution
stands in.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from smelt import dtypes
from smelt.dtypes import DType, as_dtype
from smelt.errors import DTypeError
from smelt.graph import Node, Shape, build, draws
from smelt.tensor.handle import wrap
from smelt.tensor.random import generator
from smelt.tensor.random.arguments import NOT_NEGATIVE, POSITIVE, draw_shape, float_dtype, is_number, parameter
from smelt.tensor.types import DTypeLike, Operand, ShapeLike

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

_GAMMA_TRIES = 10  # at least 95 % of them are accepted
_POISSON_TRIES = 20  # at least 75 %
_SMALL_RATE = 10.0
_SMALL_COUNTS = 44  # a count beyond these has a probability below 2**-53 at the largest small rate
_GAMMA_DRAWS = 2 * _GAMMA_TRIES + 1


def gamma(
    concentration: Operand,
    shape: ShapeLike | None = None,
    *,
    scale: Operand = 1.0,
    dtype: DTypeLike = dtypes.float32,
    key: Tensor | None = None,
) -> Tensor:
    """Numbers from the gamma distribution with this shape parameter, times `scale`.

    >>> sm.random.gamma(2.5, (3,)).shape
    (3,)
    """
    wanted = float_dtype(dtype, "gamma")
    inside = dtypes.compute_dtype(wanted)
    alpha = parameter(concentration, inside, "gamma", "the concentration", POSITIVE)
    stretch = parameter(scale, inside, "gamma", "scale", POSITIVE)
    number, boost = _gamma(alpha, draw_shape(shape, (alpha, stretch), "gamma"), key, "gamma", 0)
    node = build.mul(number, build.exp(boost))
    node = node if is_number(scale) and scale == 1 else build.mul(node, stretch)
    return wrap(build.cast(node, wanted))


def beta(
    a: Operand,
    b: Operand,
    shape: ShapeLike | None = None,
    *,
    dtype: DTypeLike = dtypes.float32,
    key: Tensor | None = None,
) -> Tensor:
    """Numbers from the beta distribution on 0 to 1.

    >>> x = sm.random.beta(0.5, 0.5, (3,))
    >>> bool((x >= 0).all()), bool((x <= 1).all())
    (True, True)
    """
    wanted = float_dtype(dtype, "beta")
    inside = dtypes.compute_dtype(wanted)
    first = parameter(a, inside, "beta", "a", POSITIVE)
    second = parameter(b, inside, "beta", "b", POSITIVE)
    wide = draw_shape(shape, (first, second), "beta")
    x, boost_x = _gamma(first, wide, key, "beta", 0)
    y, boost_y = _gamma(second, wide, key, "beta", _GAMMA_DRAWS)
    # x / (x + y). Both may be too small for a float, so what boosts them is compared, and only the difference used.
    ratio = build.mul(build.div(y, x), build.exp(build.sub(boost_y, boost_x)))
    return wrap(build.cast(build.reciprocal(build.shift(ratio, 1.0)), wanted))


def _gamma(alpha: Node, shape: Shape, key: Any, name: str, start: int) -> tuple[Node, Node]:
    """A gamma number, as one of at least shape parameter 1 and the logarithm of a factor.

    Marsaglia and Tsang's method (2000): d (1 + t)**3 with t = c x, c = 1 / sqrt(9 d), for a normal x is accepted if
    log(u) < x**2 / 2 + d (1 - (1 + t)**3 + 3 log(1 + t)), which is 3 d (log(1 + t) - t + t**2/2 - t**3/3).
    """
    dtype = alpha.dtype
    one = build.const(1.0, dtype)
    small = build.lt(alpha, one)
    d = build.shift(build.where(small, build.shift(alpha, 1.0), alpha), -1.0 / 3.0)
    d = build.broadcast_to(d, shape)
    c = build.rsqrt(build.scale(d, 9.0))
    words = generator.draw_words(shape, key, name, _GAMMA_TRIES, start=start)
    t = build.mul(draws.gaussian(*words, dtype), c)
    a, _ = generator.draw_words(shape, key, name, _GAMMA_TRIES, start=start + _GAMMA_TRIES)
    limit = build.mul(build.scale(d, 3.0), _log1p_beyond_cubic(t))
    fits = build.lt(build.log(draws.share(a, dtype)), limit)
    base = build.shift(t, 1.0)
    accepted = build.bitwise_and(fits, build.lt(build.const(0.0, dtype), base))
    cube = _first(accepted, build.mul(base, build.mul(base, base)), one)
    number = build.where(build.lt(build.const(0.0, dtype), alpha), build.mul(d, cube), build.const(math.nan, dtype))
    # Below 1: a number of shape parameter alpha + 1, times u ** (1 / alpha).
    last = generator.draw_words(shape, key, name, start=start + 2 * _GAMMA_TRIES)
    power = build.neg(build.div(draws.exponential(*last, dtype), alpha))
    return number, build.where(small, power, build.const(0.0, dtype))


def _log1p_beyond_cubic(t: Node) -> Node:
    """log(1 + t) - t + t**2/2 - t**3/3: by its series near 0, where the terms cancel."""
    series = build.const(-1.0 / 11.0, t.dtype, t.shape)
    for power in range(10, 3, -1):
        series = build.shift(build.mul(series, build.neg(t)), -1.0 / power)
    square = build.mul(t, t)
    series = build.mul(series, build.mul(square, square))
    cubic = build.mul(t, build.shift(build.mul(t, build.shift(build.scale(t, -1.0 / 3.0), 0.5)), -1.0))
    exact = build.add(build.unary("log1p", t), cubic)
    return build.where(build.lt(build.unary("abs", t), build.const(0.1, t.dtype)), series, exact)


def _first(accepted: Node, proposals: Node, otherwise: Node) -> Node:
    """The first accepted proposal along the first axis. Proposals must not be negative.

    The proposals are asked for one by one, which has them stored: one plain kernel makes all, another one selects.
    """
    marked = build.where(accepted, proposals, build.const(-1.0, proposals.dtype))
    tries, *shape = proposals.shape
    whole = [(0, size, 1) for size in shape]
    value = build.broadcast_to(otherwise, tuple(shape))
    for number in reversed(range(tries)):  # type: ignore[arg-type]
        proposal = build.reshape(build.slice_(marked, [(number, 1, 1), *whole]), tuple(shape))
        value = build.where(build.le(build.const(0.0, value.dtype), proposal), proposal, value)
    return value


# --- counts


def poisson(
    rate: Operand,
    shape: ShapeLike | None = None,
    *,
    dtype: DTypeLike = dtypes.int64,
    key: Tensor | None = None,
) -> Tensor:
    """Counts from the Poisson distribution of mean `rate`. A tensor's rate below 0 or NaN gives -1 (floats: NaN).

    >>> sm.random.poisson(0.0, (3,)).tolist()
    [0, 0, 0]
    """
    wanted, wide = as_dtype(dtype, "poisson"), dtypes.float64
    if wanted not in dtypes.INTEGERS + dtypes.FLOATS:
        raise DTypeError(f"poisson: the dtype must be an integer or a float, got {wanted}")
    mean = parameter(rate, wide, "poisson", "rate", NOT_NEGATIVE)
    size = draw_shape(shape, (mean,), "poisson")
    mean = build.broadcast_to(mean, size)
    if is_number(rate):
        made = _few if float(rate) < _SMALL_RATE else _many
        return wrap(build.cast(made(mean, size, key), wanted))
    few, limit = build.lt(mean, build.const(_SMALL_RATE, wide)), build.const(_SMALL_RATE, wide)
    counts = build.where(few, _few(build.minimum(mean, limit), size, key), _many(build.maximum(mean, limit), size, key))
    valid = build.le(build.const(0.0, wide), mean)
    invalid = build.const(math.nan if wanted.is_float else -1.0, wide)
    return wrap(build.cast(build.where(valid, counts, invalid), wanted))


def _few(rate: Node, shape: Shape, key: Any) -> Node:
    """Counts of a small rate: how many of the sums of the first probabilities a random number is above."""
    dtype = rate.dtype
    u = generator.draw("uniform", dtype, shape, key, "poisson")
    probability = total = build.exp(build.neg(rate))
    one, zero = build.const(1.0, dtype), build.const(0.0, dtype)
    count = build.where(build.le(total, u), one, zero)
    for number in range(1, _SMALL_COUNTS):
        probability = build.mul(probability, build.scale(rate, 1.0 / number))
        total = build.add(total, probability)
        count = build.add(count, build.where(build.le(total, u), one, zero))
    return count


def _many(rate: Node, shape: Shape, key: Any) -> Node:
    """Counts of a rate of at least 10, by Hörmann's transformed rejection PTRS (1993), without its shortcuts."""
    dtype: DType = rate.dtype
    root = build.sqrt(rate)
    b = build.shift(build.scale(root, 2.53), 0.931)
    a = build.shift(build.scale(b, 0.02483), -0.059)
    inverse_alpha = build.shift(build.div(build.const(1.1328, dtype), build.shift(b, -3.4)), 1.1239)
    # One value of 64 bits, which the compiler can store if the whole is too large for a kernel.
    both = draws.joined(*generator.draw_words(shape, key, "poisson", _POISSON_TRIES, start=1))
    high = build.binary("shr", both, build.const(32, dtypes.uint64))
    u, v = (draws.share(build.cast(x, dtypes.uint32), dtype) for x in (both, high))
    u = build.shift(u, -0.5)
    room = build.shift(build.neg(build.unary("abs", u)), 0.5)
    place = build.mul(build.add(build.div(build.scale(a, 2.0), room), b), u)
    count = build.unary("floor", build.shift(build.add(place, rate), 0.43))
    hat = build.add(build.div(a, build.mul(room, room)), b)
    chance = build.log(build.div(build.mul(v, inverse_alpha), hat))
    fits = build.le(chance, _log_probability(build.maximum(count, build.const(0.0, dtype)), rate))
    accepted = build.bitwise_and(fits, build.le(build.const(0.0, dtype), count))
    return _first(accepted, count, build.unary("floor", rate))


def _log_probability(count: Node, rate: Node) -> Node:
    """The logarithm of a Poisson probability: Stirling's series, relative to the rate so that no large terms meet."""
    dtype = count.dtype
    k = build.maximum(count, build.const(10.0, dtype))
    away = build.div(build.sub(rate, k), k)
    main = build.mul(k, build.sub(build.unary("log1p", away), away))
    inverse = build.reciprocal(k)
    square = build.mul(inverse, inverse)
    series = build.const(-1.0 / 1680.0, dtype, square.shape)
    for coefficient in (1.0 / 1260.0, -1.0 / 360.0, 1.0 / 12.0):
        series = build.shift(build.mul(series, square), coefficient)
    large = build.sub(
        build.sub(main, build.scale(build.log(build.scale(k, 2 * math.pi)), 0.5)), build.mul(series, inverse)
    )
    factorial = build.const(0.0, dtype)
    for number in range(2, 10):
        reached = build.le(build.const(float(number), dtype), count)
        factorial = build.where(reached, build.const(math.lgamma(number + 1.0), dtype), factorial)
    small = build.sub(build.sub(build.mul(count, build.log(rate)), rate), factorial)
    return build.where(build.lt(count, build.const(10.0, dtype)), small, large)

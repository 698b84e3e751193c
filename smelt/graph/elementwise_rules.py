"""What elementwise functions compute on NumPy arrays, where NumPy's own functions are not what `ops` says."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"


def _where_both_zero(a: Array, b: Array, zero: Array, otherwise: Array) -> Array:
    return np.where((a == 0) & (b == 0), zero, otherwise) if a.dtype.kind == "f" else otherwise


def maximum(a: Array, b: Array) -> Array:
    """NaN wins; +0 is larger than -0."""
    return _where_both_zero(a, b, a + b, np.maximum(a, b))


def minimum(a: Array, b: Array) -> Array:
    return _where_both_zero(a, b, -(-a - b) if a.dtype.kind == "f" else a, np.minimum(a, b))


def floor_divide(a: Array, b: Array) -> Array:
    """Infinities as the array API says: floor(a / b), where NumPy pairs the quotient with its remainder."""
    if a.dtype.kind != "f":
        return np.asarray(np.floor_divide(a, b))
    return np.where(np.isinf(a) | np.isinf(b), np.floor(a / b), np.floor_divide(a, b))


def power(a: Array, b: Array) -> Array:
    """Floats as C's pow. Integers wrap; a negative exponent gives 0, except for the bases 1 and -1."""
    if a.dtype.kind == "f":
        return np.asarray(np.float_power(a, b))  # np.power takes a lone exponent of 1/2 for a square root
    result = np.asarray(np.power(a, np.maximum(b, 0)))
    if a.dtype.kind == "u":
        return result
    inverse = np.where(a == 1, 1, np.where(a == -1, np.where(b & 1, -1, 1), 0))
    return np.where(b < 0, inverse, result).astype(a.dtype)


def dot(a: Array, b: Array, first: Any, second: Any, wide: Any) -> Array:
    """The inner products of the numbers in words, of these types, computed in a wider one."""
    pairs = ((a, first), (b, second))
    x, y = (np.ascontiguousarray(words[..., None]).view(kind).astype(wide) for words, kind in pairs)
    return np.asarray((x * y).sum(-1, dtype=wide))


def shifted_bytes(words: Array, counts: Array) -> Array:
    """Each byte of int32 words shifted to the right by the word's count, which is taken modulo 8."""
    octets = np.ascontiguousarray(words[..., None]).view(np.uint8)
    return np.asarray((octets >> (counts[..., None] & 7).astype(np.uint8)).view(np.int32)[..., 0])


def shifted(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """A shift that gives 0 for counts outside 0 to width - 1."""

    def rule(a: Array, b: Array) -> Array:
        inside = (b >= 0) & (b < 8 * a.dtype.itemsize)
        count = np.where(inside, b, 0).astype(b.dtype)
        return np.where(inside, function(a, count), 0).astype(a.dtype)

    return rule


# --- the error function and its kin, and the logarithm of gamma and its derivative, of float64

erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])

# Bernoulli's numbers B(2k) over 2k.
_DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_DIGAMMA_LARGE = 20


def erfinv(x: Array) -> Array:
    """Halley's method from Winitzki's approximation, on erf near zero and on erfc far from it."""
    a = np.abs(np.asarray(x, np.float64))
    log = np.log1p(-(np.where(a < 1, a, 0) ** 2))
    half = 2 / (math.pi * 0.147) + log / 2
    r = np.sqrt(np.sqrt(half * half - log / 0.147) - half)
    r = np.where(a < 1e-3, a * (math.sqrt(math.pi) / 2), r)
    for _ in range(4):
        off = np.where(a < 0.5, erf(r) - a, (1 - a) - erfc(r))
        u = off * (math.sqrt(math.pi) / 2) * np.exp(r * r)
        r = r - u / (1 + r * u)
    r = np.where(a < 1, r, np.where(a == 1, np.inf, np.nan))
    return np.copysign(r, x)


def _one_lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # a pole, or beyond the largest float
        return math.inf


lgamma = np.vectorize(_one_lgamma, otypes=[np.float64])


def digamma(x: Array) -> Array:
    """The recurrence up to large arguments and the asymptotic series there; reflection below zero."""
    x = np.asarray(x, np.float64)
    wide = x.astype(np.longdouble)
    t = np.where(x < 0, 1 - wide, wide)
    total = np.zeros_like(t)
    for _ in range(_DIGAMMA_LARGE):
        small = t < _DIGAMMA_LARGE
        total = total - np.where(small, 1 / np.where(small, t, 1), 0)
        t = np.where(small, t + 1, t)
    z = 1 / (t * t)
    series = np.zeros_like(t)
    for coefficient in reversed(_DIGAMMA_SERIES):
        series = (series + coefficient) * z
    result = total + np.log(t) - 0.5 / t - series
    turn = wide - np.rint(wide)
    pi = np.longdouble("3.14159265358979323846264338327950288")
    reflected = np.where(turn == 0, np.nan, result - pi / np.tan(pi * turn))
    return np.where(x == 0, -1 / x, np.where(x < 0, reflected, result)).astype(np.float64)

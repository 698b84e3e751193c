"""What elementwise functions compute on NumPy arrays, where NumPy's own functions are not what `ops` says."""

from __future__ import annotations

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
    result = np.ones_like(a)
    base, exponent = a.copy(), np.maximum(b, 0)
    for _ in range(8 * a.dtype.itemsize):
        result = np.where(exponent & 1, result * base, result)
        base = base * base
        exponent = exponent >> 1
    if a.dtype.kind == "u":
        return result
    inverse = np.where(a == 1, 1, np.where(a == -1, np.where(b & 1, -1, 1), 0))
    return np.where(b < 0, inverse, result).astype(a.dtype)


def shifted(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """A shift that gives 0 for counts outside 0 to width - 1."""

    def rule(a: Array, b: Array) -> Array:
        inside = (b >= 0) & (b < 8 * a.dtype.itemsize)
        count = np.where(inside, b, 0).astype(b.dtype)
        return np.where(inside, function(a, count), 0).astype(a.dtype)

    return rule

"""What each elementwise function computes, on NumPy arrays.

Floats arrive wide (float64) and bools and integers as they are; the caller rounds the result to the dtype of the node
and silences floating-point warnings. The kernel interpreter and the constant folder use the same tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from smelt.graph import special_rules

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"


def _where_both_zero(a: Array, b: Array, zero: Array, otherwise: Array) -> Array:
    return np.where((a == 0) & (b == 0), zero, otherwise) if a.dtype.kind == "f" else otherwise


def _maximum(a: Array, b: Array) -> Array:
    """NaN wins; +0 is larger than -0."""
    return _where_both_zero(a, b, a + b, np.maximum(a, b))


def _minimum(a: Array, b: Array) -> Array:
    return _where_both_zero(a, b, -(-a - b) if a.dtype.kind == "f" else a, np.minimum(a, b))


def _floor_divide(a: Array, b: Array) -> Array:
    """Infinities as the array API says: floor(a / b), where NumPy pairs the quotient with its remainder."""
    if a.dtype.kind != "f":
        return np.asarray(np.floor_divide(a, b))
    return np.where(np.isinf(a) | np.isinf(b), np.floor(a / b), np.floor_divide(a, b))


def _power(a: Array, b: Array) -> Array:
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


def _shift(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """A shift that gives 0 for counts outside 0 to width - 1."""

    def rule(a: Array, b: Array) -> Array:
        inside = (b >= 0) & (b < 8 * a.dtype.itemsize)
        count = np.where(inside, b, 0).astype(b.dtype)
        return np.where(inside, function(a, count), 0).astype(a.dtype)

    return rule


UNARY_RULES: Final[dict[str, Callable[[Array], Any]]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "not": np.invert,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "cbrt": np.cbrt,
    "reciprocal": lambda x: 1.0 / x,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": special_rules.erf,
    "erfc": special_rules.erfc,
    "erfinv": special_rules.erfinv,
    "lgamma": special_rules.lgamma,
    "digamma": special_rules.digamma,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "isnan": np.isnan,
}

BINARY_RULES: Final[dict[str, Callable[[Array, Array], Any]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": _floor_divide,
    "mod": np.remainder,
    "pow": _power,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "max": _maximum,
    "min": _minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": _shift(np.left_shift),
    "shr": _shift(np.right_shift),
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
}

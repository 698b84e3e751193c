"""What elementwise functions cost, in rough nanoseconds per element of vector code on one core.

The numbers only have to be right in proportion: they decide what is recomputed, what is kept, and how much work makes
a task.
"""

from __future__ import annotations

from typing import Final

COSTLY: Final = frozenset(
    {
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "cbrt", "hypot"),
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
        *("erf", "erfc", "erfinv", "lgamma", "digamma"),
    }
)
"""Functions dear enough that computing them twice is worse than reading a stored result."""

_DIVIDING: Final = frozenset({"div", "sqrt", "rsqrt", "reciprocal", "floordiv", "mod"})
_FREE: Final = frozenset({"const", "index"})


def nanoseconds(op: str) -> float:
    """One element of one operation."""
    if op in COSTLY:
        return 0.5
    if op in _DIVIDING:
        return 0.3
    if op == "load":
        return 0.15
    return 0.0 if op in _FREE else 0.05

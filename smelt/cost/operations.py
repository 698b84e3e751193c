"""What elementwise functions cost in proportion: in vector instructions, those of a whole vector taken together.

The numbers decide what is recomputed and what is kept. A load has those of waiting for a cache, too. They are the same
for all machines, so that a graph is cut into the same kernels everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_TIMES_EXP: Final = {
    1: ("exp", "exp2"),
    2: ("expm1", "log"),
    3: ("log2", "erf"),
    4: ("tanh", "log1p", "hypot"),
    8: ("sin", "cos", "tan", "asin", "acos", "atan", "cosh"),
    12: ("log10", "cbrt"),
    18: ("sinh", "pow", "atan2"),
    24: ("asinh", "acosh", "atanh"),
    32: ("erfc",),
    64: ("erfinv", "lgamma", "digamma"),
}
EXPONENTIALS: Final = {op: times for times, ops in _TIMES_EXP.items() for op in ops}
"""What a function takes in times that exp takes, about: float32, in vectors, out of the caches."""

COSTLY: Final = frozenset(EXPONENTIALS)
"""Functions dear enough that computing them twice is worse than reading a stored result."""

DIVIDING: Final = frozenset({"div", "sqrt", "rsqrt", "reciprocal", "floordiv", "mod"})
FREE: Final = frozenset({"const", "index", "copy"})


UNCACHED: Final = 1 << 20  # elements that are read back from memory, not from a cache
HIDDEN: Final = 6  # instructions that take no time beside reading a vector that they are applied to
MEMORY_TRIP: Final = 6  # those that could be done, beyond that, while a vector is written to memory and read back
CACHE_TRIP: Final = 3


def instructions(operations: Iterable[str]) -> int:
    """Those of one vector."""
    total = 0
    for op in operations:
        total += 10 if op in COSTLY else 6 if op in DIVIDING else 3 if op == "load" else 0 if op in FREE else 1
    return total


def again_pays(op: str, elements: int, kernels: int) -> bool:
    """Whether computing a value again in each of some kernels costs no more than storing it once and reading it back.

    All of them read something in either case, and cheap operations hide behind that.
    """
    beyond = max(0, instructions([op]) - HIDDEN)
    return (kernels - 1) * beyond <= (MEMORY_TRIP if elements >= UNCACHED else CACHE_TRIP)


# --- limits that the cost model does not decide, and why it does not

# A value is kept from phase to phase where computing it again takes more instructions than this. To weigh the two by
# the model, each region would have to be lowered both ways, which doubles the time of scheduling.
KEEP_INSTRUCTIONS: Final = 6

LINE: Final = 64  # bytes that caches hold and move together

# A result of at least this part of the last-level cache is stored past it. Whether somebody reads it soon, a kernel
# does not know.
STREAM_SHARE: Final = 2

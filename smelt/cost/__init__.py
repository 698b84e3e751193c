"""What the machine is like, and what work costs on it.

Gives a `Profile` (vectors, registers, caches, cores), `Rates` (how fast these are), and by them the cost of a kernel
(`cost`) and of elementwise work (`instructions`). Always holds: choices depend on the profile alone, and asking for
them measures nothing.
"""

from smelt.cost.kernel import NO_WORK, Work, chunk_nanoseconds, cost, rows_in_cache
from smelt.cost.limits import KEEP_INSTRUCTIONS, STREAM_SHARE
from smelt.cost.operations import COSTLY, again_pays, instructions
from smelt.cost.profile import Profile, profile
from smelt.cost.rates import Rates, assumed, known, remember, stored

__all__ = [
    "COSTLY",
    "KEEP_INSTRUCTIONS",
    "NO_WORK",
    "Profile",
    "Rates",
    "STREAM_SHARE",
    "Work",
    "again_pays",
    "assumed",
    "chunk_nanoseconds",
    "cost",
    "instructions",
    "known",
    "profile",
    "remember",
    "rows_in_cache",
    "stored",
]

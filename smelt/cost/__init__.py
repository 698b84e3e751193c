"""What the machine is like, and what work costs on it.

Gives a `Profile` (vectors, registers, caches, cores) and rough nanoseconds of elementwise work. Always holds: both
depend on the machine alone, and asking for them measures nothing.
"""

from smelt.cost.profile import Profile, profile
from smelt.cost.operations import COSTLY, instructions

__all__ = ["COSTLY", "Profile", "instructions", "profile"]

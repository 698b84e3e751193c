"""What the machine is like, and what work costs on it.

Gives a `Profile` (vectors, registers, caches, cores), `Rates` (how fast these are), and by them the cost of a kernel
(`cost`) and of elementwise work (`instructions`, `EXPONENTIALS`). Always holds: choices depend on the profile alone,
and asking for them measures nothing.
"""

from smelt.cost.operations import EXPONENTIALS, instructions
from smelt.cost.profile import Profile, facts_of, profile
from smelt.cost.rates import Rates, assumed, known

__all__ = ["EXPONENTIALS", "Profile", "Rates", "assumed", "facts_of", "instructions", "known", "profile"]

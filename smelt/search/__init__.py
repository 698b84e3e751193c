"""Takes a region and schedules for it; says which of them are right, and which is faster than the default.

Always holds: nothing that was not found right is timed, the default takes part in every race, and none of this runs
unless somebody asks for it: `jit` never times anything.
"""

from smelt.search.contender import Contender, Measurer, Outcome, Timed, Verdict

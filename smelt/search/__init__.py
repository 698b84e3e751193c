"""Takes regions and schedules for them; says which are right, which is faster than the default, and keeps that.

Always holds: nothing that was not found right is timed, the default takes part in every race, and none of this runs
unless somebody asks for it. Compiling never measures anything: it asks `Tuned`, whose answers count only where they
were measured, and only if they still mean the source that was measured.
"""

from smelt.search.tuned import Tuned

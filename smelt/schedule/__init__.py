"""Takes a region and a device profile; gives a schedule that is good without any search, and its kernel.

Always holds: there is a schedule for every region, and it depends on nothing but the region and the profile.
"""

from smelt.schedule.choice import Candidate, Choice, Refused
from smelt.schedule.default import candidates, choose
from smelt.schedule.panels import Panels, panels_of
from smelt.schedule.routines import routine_steps

__all__ = ["Candidate", "Choice", "Panels", "Refused", "candidates", "choose", "panels_of", "routine_steps"]

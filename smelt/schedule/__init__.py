"""Takes a region and a device profile; gives a schedule that is good without any search, and its kernel.

Always holds: there is a schedule for every region, and it depends on nothing but the region and the profile.
"""

from smelt.schedule.choice import Candidate, Choice, Template
from smelt.schedule.default import candidates, choose, lowered, named, templates
from smelt.schedule.panels import Panels, panels_of
from smelt.schedule.routines import routine_steps
from smelt.schedule.word_tiles import chosen

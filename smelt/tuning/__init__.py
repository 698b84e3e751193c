"""Takes a function, or a script; finds faster schedules for the kernels that it runs, and stores them for every program
of this user.

Always holds: a choice is stored only if it was verified, raced against the default in processes of its own, and the
whole program was faster with it. What runs is what ran before until then.
"""

from smelt.tuning.outside import Recording, Replay
from smelt.tuning.pace import Budget
from smelt.tuning.programs import tune, tune_programs
from smelt.tuning.progress import Progress
from smelt.tuning.report import Row, Tuning
from smelt.tuning.watching import Watched, watching

"""Kernels: regions say what is computed, schedules say how, Kernel IR is the result.

Takes a `Region` (expressions over named axes) and a schedule (a tuple of actions); `lower` gives a `Kernel`, a loop
tree over small tiles that renderers spell out. Any legal schedule, also the empty one, gives a correct kernel; a
schedule that does not fit raises `Illegal`. Kernels and schedules have text forms that print and parse; `verify` checks
a kernel, `interpret` runs it slowly on NumPy arrays, and `evaluate_region` computes a region directly, for comparison.
"""

from __future__ import annotations

from smelt.kernel.actions import Action, Keep, Schedule, parse_action, parse_schedule, print_schedule
from smelt.kernel.actions.cuts import Split, Sub
from smelt.kernel.actions.group import Group
from smelt.kernel.actions.loops import Bind, Order, Unroll
from smelt.kernel.actions.matrix import Matrix
from smelt.kernel.actions.online import Online
from smelt.kernel.actions.outputs import Apart, Stream, Together
from smelt.kernel.actions.skip import Skip
from smelt.kernel.actions.stage import Stage
from smelt.kernel.evaluate import evaluate_region
from smelt.kernel.interpret import interpret
from smelt.kernel.ir import Kernel
from smelt.kernel.lowering.lower import lower
from smelt.kernel.lowering.plan import Illegal
from smelt.kernel.region import Region
from smelt.kernel.routine import Routine, Step, Temporary, print_routine
from smelt.kernel.text import parse_kernel, parse_region, print_kernel, print_region
from smelt.kernel.verify import verify

__all__ = [
    "Action",
    "Apart",
    "Bind",
    "Group",
    "Illegal",
    "Keep",
    "Kernel",
    "Matrix",
    "Online",
    "Order",
    "Region",
    "Routine",
    "Schedule",
    "Skip",
    "Split",
    "Stage",
    "Step",
    "Stream",
    "Sub",
    "Together",
    "Temporary",
    "Unroll",
    "evaluate_region",
    "interpret",
    "lower",
    "parse_action",
    "parse_kernel",
    "parse_region",
    "parse_schedule",
    "print_kernel",
    "print_region",
    "print_routine",
    "print_schedule",
    "verify",
]

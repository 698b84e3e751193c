"""Takes launches over values; gives a memory plan and a `CompiledGraph` that replays them by one native call.

Always holds: values that are alive at the same launch do not overlap; outputs and inputs are outside the arena.
"""

from smelt.plan.compiled import (
    ARENA,
    INPUTS,
    SCALARS,
    Alias,
    CompiledGraph,
    KernelRecord,
    Placed,
    Stored,
    concrete,
    pointer_of,
    watch,
    watcher,
)
from smelt.plan.memory import Lifetime, assign
from smelt.plan.needs import MemoryPlan
from smelt.plan.order import Step, reordered

__all__ = [
    "ARENA",
    "INPUTS",
    "SCALARS",
    "Alias",
    "CompiledGraph",
    "KernelRecord",
    "Lifetime",
    "MemoryPlan",
    "Placed",
    "Step",
    "Stored",
    "assign",
    "concrete",
    "pointer_of",
    "reordered",
    "watch",
    "watcher",
]

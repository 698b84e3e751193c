"""Takes launches over values; gives a memory plan and a `CompiledGraph` that replays them by one native call.

Always holds: values that are alive at the same launch do not overlap; outputs and inputs are outside the arena. What
depends on dims is placed anew for the sizes of a call.
"""

from smelt.plan.compiled import (
    ARENA,
    INPUTS,
    SCALARS,
    Alias,
    CompiledGraph,
    GraphRecord,
    KernelRecord,
    Made,
    MemoryPlan,
    Placed,
    Prepared,
    Stored,
    concrete,
    pointer_of,
    watch,
    watcher,
)
from smelt.plan.memory import Home, Lifetime, assign, assign_sized
from smelt.plan.order import Step, reordered

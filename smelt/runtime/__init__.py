"""Takes nodes; gives leaves that hold their values.

Holds the process's compiled graphs, its random state and the stack of traces. Always holds: a computed value is never
written again, and a value that has been computed is not computed twice.
"""

from smelt.runtime.randomness import advance_random, seed_random, take_random
from smelt.runtime.realize import clear_graphs, device, find, graph_count, outputs, pack_scalars, realize, report
from smelt.runtime.storage import Storage, host_leaf, leaf
from smelt.runtime.tracing import Placeholder, Trace, current_trace, is_traced_input, is_tracing, is_weak, tracing

__all__ = [
    "Placeholder",
    "Storage",
    "Trace",
    "advance_random",
    "clear_graphs",
    "current_trace",
    "device",
    "find",
    "graph_count",
    "host_leaf",
    "is_traced_input",
    "is_tracing",
    "is_weak",
    "leaf",
    "outputs",
    "pack_scalars",
    "realize",
    "report",
    "seed_random",
    "take_random",
    "tracing",
]

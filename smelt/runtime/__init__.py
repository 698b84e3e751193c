"""Takes nodes; gives leaves that hold their values.

`current()` is what the process remembers: devices, compiled graphs, kernels, the random state. Always holds: a
computed value is never written again, and a value that has been computed is not computed twice.
"""

from smelt.runtime.devices import available, common_device, default_device, device, set_default
from smelt.runtime.randomness import take_random
from smelt.runtime.realize import find, outputs, pack_scalars, realize, realize_sized, report
from smelt.runtime.state import Runtime, current, using
from smelt.runtime.storage import Storage, host_leaf, leaf, new_leaf
from smelt.runtime.tracing import (
    Narrowed,
    Placeholder,
    batching,
    counted,
    effect,
    effects,
    free_to_read,
    is_differentiated,
    is_plain,
    is_traced,
    is_tracing,
    is_transforming,
    is_weak,
    note_narrowed,
    noting_effects,
    tracing,
    tracing_body,
    transform_depth,
    transforming,
)

__all__ = [
    "Narrowed",
    "Placeholder",
    "Runtime",
    "Storage",
    "available",
    "common_device",
    "counted",
    "current",
    "default_device",
    "device",
    "effect",
    "effects",
    "find",
    "free_to_read",
    "host_leaf",
    "is_differentiated",
    "is_plain",
    "is_traced",
    "is_tracing",
    "is_transforming",
    "is_weak",
    "leaf",
    "new_leaf",
    "note_narrowed",
    "batching",
    "noting_effects",
    "outputs",
    "pack_scalars",
    "realize",
    "realize_sized",
    "report",
    "set_default",
    "take_random",
    "tracing",
    "tracing_body",
    "transform_depth",
    "transforming",
    "using",
]

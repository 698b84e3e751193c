"""Takes nodes; gives leaves that hold their values.

`current()` is what the process remembers: devices, compiled graphs, kernels, the random state. Always holds: a
computed value is never written again, and a value that has been computed is not computed twice.
"""

from smelt.runtime.devices import available, common_device, default_device, device, set_default
from smelt.runtime.prepared import Watch
from smelt.runtime.realize import Fixed, find, realize, realize_sized, run
from smelt.runtime.state import Runtime, current, using
from smelt.runtime.storage import Signature, Storage, host_leaf, is_constant, leaf, new_leaf, set_constant, signature
from smelt.runtime.tracing import (
    Narrowed,
    Placeholder,
    Trace,
    as_number,
    as_tensor,
    assert_sizes,
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
    scope,
    take_random,
    tracing,
    tracing_body,
    transform_depth,
    transforming,
)

"""Computing values whose sizes depend on other values: one compiled graph serves every size."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from smelt.device.memory import NOWHERE
from smelt.errors import TraceError
from smelt.graph.node import Node
from smelt.graph.sizes import with_sizes
from smelt.runtime.devices import common_device
from smelt.runtime.realize import find, outputs, pack_scalars, report
from smelt.runtime.storage import Storage, leaf
from smelt.runtime.tracing import is_traced_input, is_transforming


def realize_sized(nodes: Sequence[Node], dims: Mapping[str, int]) -> list[Node]:
    """Leaves with the values of nodes whose shapes have dims, for given values of the dims, which are at least 1.

    Inside a transform the nodes themselves come back, with these sizes: they keep their history.
    """
    if is_transforming():
        return with_sizes(nodes, dims)
    from smelt.compiler import trace

    traced = trace(nodes, integers=True)
    if any(is_traced_input(view.leaf) for view in traced.inputs):
        raise TraceError(
            "a size depends on values, and is needed while its function is being traced",
            hint="Inside jit and vmap give the size as an argument, or use sm.where.",
        )
    storages: list[Storage] = [view.leaf.attribute for view in traced.inputs]
    offsets = [view.offset for view in traced.inputs]
    device = common_device(storages)
    storages = [storage.on(device.name) for storage in storages]
    compiled = find(traced, device)
    pointers = [storage.shifted(offset) for storage, offset in zip(storages, offsets, strict=True)]
    sizes = [dims[v.name] for v in traced.dims]
    integers = struct.pack(f"{len(sizes) + len(traced.starts)}q", *sizes, *traced.starts)
    scalars = pack_scalars(traced.scalars, device)
    values = {f"d{k}": size for k, size in enumerate(sizes)}
    pointer = NOWHERE if scalars is None else scalars.pointer
    memories = compiled.run(pointers, pointer, integers, compiled.sizes(values))
    results = outputs(compiled, memories, storages, offsets, values)
    if traced.checks:
        report(traced.checks, results[len(nodes) :])
    return [leaf(storage) for storage in results[: len(nodes)]]

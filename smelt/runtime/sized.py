"""Computing values whose sizes depend on other values: one compiled graph serves every size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from smelt.errors import TraceError
from smelt.graph.node import Node
from smelt.graph.sizes import with_sizes
from smelt.runtime.realize import arguments, find, run
from smelt.runtime.storage import leaf
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
    storages, device = arguments(traced)
    results = run(find(traced, device), traced, storages, len(nodes), dims)
    return [leaf(storage) for storage in results]

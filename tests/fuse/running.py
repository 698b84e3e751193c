"""Running fused graphs region by region, on the region reference: no schedule, no C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smelt.cost import Profile
from smelt.fuse import build_region, contiguous, merge_axes, partition, ready, storable
from smelt.fuse.chains import Chain
from smelt.fuse.choices import NO_CHOICES, Choices
from smelt.graph.index import Index
from smelt.graph.node import Node
from tests.kernel.runners import evaluate_region

Array = NDArray[Any]


def run_fused(
    roots: Sequence[Node],
    leaves: dict[Node, Array],
    dims: dict[str, int],
    merge: bool = True,
    choices: Choices = NO_CHOICES,
    profile: Profile | None = None,
) -> list[Array]:
    """The values of the roots, computed kernel by kernel; with a profile, after the passes for such a device."""
    values = {node: np.ascontiguousarray(array).reshape(-1) for node, array in leaves.items()}

    def concrete(node: Node) -> tuple[int, ...]:
        return tuple(size.evaluate(dims) if isinstance(size, Index) else size for size in node.shape)

    roots = [storable(root) for root in roots]
    pieces: set[Node] = set()
    chains: list[Chain] = []
    if profile is not None:
        roots, pieces, chains = ready(roots, contiguous, profile, None, choices)
    for group in partition(list(dict.fromkeys(roots)), pieces, chains, choices).groups:
        if 0 in (size.evaluate(dims) if isinstance(size, Index) else size for size in group.result.shape):
            for node in (group.sink, *(result.sink for result in group.also)):
                values.setdefault(node, np.zeros(int(np.prod(concrete(node))), node.dtype.numpy))
            continue
        region, nodes = build_region(group, contiguous)
        if merge:
            region = merge_axes(region)
        for node in (group.sink, *(result.sink for result in group.also)):
            if node not in values:
                values[node] = np.zeros(int(np.prod(concrete(node))), node.dtype.numpy)
        names = [buffer.name for buffer in region.buffers()]
        evaluate_region(region, {name: values[node] for name, node in zip(names, nodes, strict=True)}, dims)
    return [values[root].reshape(concrete(root)) for root in roots]

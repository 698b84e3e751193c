"""Takes nodes; gives leaves that hold their values (for now: the reference interpreter)."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.graph.node import Node, topological
from smelt.graph.ops import Op
from smelt.runtime.randomness import advance_random, seed_random, take_random
from smelt.runtime.storage import Storage, host_leaf, leaf
from smelt.runtime.tracing import Placeholder, Trace, current_trace, is_tracing, is_weak, tracing


def realize(nodes: Sequence[Node]) -> list[Node]:
    from smelt.graph.interpret import interpret

    leaves = {}
    for node in topological(nodes):
        if node.leaf is not None:
            leaves[node] = node.leaf.attribute.numpy()
        elif node.op is Op.LEAF:
            leaves[node] = node.attribute.numpy()
    results = interpret(nodes, leaves, {})
    out = []
    for node, value in zip(nodes, results, strict=True):
        if node.op is Op.LEAF:
            out.append(node)
            continue
        node.leaf = leaf(Storage.of(value, True))
        out.append(node.leaf)
    return out

"""Graphs with symbolic sizes replaced by numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smelt.graph.index import IndexLike, size_of
from smelt.graph.node import Node, make, topological
from smelt.graph.ops import Op, Span


def with_sizes(roots: Sequence[Node], sizes: Mapping[str, int]) -> list[Node]:
    """The same graph for given values of its dims, by name."""

    def known(size: IndexLike) -> IndexLike:
        if isinstance(size, int):
            return size
        return size_of(size.substitute({v: sizes[v.name] for v in size.variables() if v.name in sizes}))

    def attribute(node: Node) -> Any:
        if node.op is Op.SLICE:
            return tuple(Span(known(start), known(size), step) for start, size, step in node.attribute)
        if node.op is Op.PAD:
            return tuple((known(before), known(after)) for before, after in node.attribute)
        return node.attribute

    new: dict[Node, Node] = {}
    for node in topological(roots):
        if node.leaf is not None or node.op is Op.LEAF:
            new[node] = node
            continue
        sources = tuple([new[source] for source in node.sources])
        shape = tuple([known(size) for size in node.shape])
        changed = attribute(node)
        same = shape == node.shape and sources == node.sources and changed == node.attribute
        new[node] = node if same else make(node.op, node.dtype, shape, sources, changed)
    return [new[root] for root in roots]

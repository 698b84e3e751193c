"""Bodies of loops and branches, simplified like any graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smelt.graph.closed import bodies_of, items, with_bodies
from smelt.graph.node import Node, make, topological, with_sources
from smelt.graph.ops import CONTROL, Op

Simplify = Callable[[Sequence[Node]], list[Node]]


def simple_bodies(roots: Sequence[Node], simplify: Simplify) -> list[Node]:
    """The graph with the bodies in it simplified. Sources come first, so they are in their last form."""
    new: dict[Node, Node] = {}
    values: dict[Node, list[Node]] = {}  # of the loops and branches
    for node in topological(roots):
        if node.op is Op.ITEM:
            new[node] = values[node.sources[0]][node.attribute]
            continue
        replaced = with_sources(node, tuple([new[source] for source in node.sources]))
        new[node] = replaced
        if node.op in CONTROL:
            values[node] = _simple(replaced, simplify)
    return [new[root] for root in roots]


def _simple(node: Node, simplify: Simplify) -> list[Node]:
    """The values of a loop or branch with simpler bodies."""
    bodies = [simplify(body) for body in bodies_of(node)]
    return items(make(node.op, node.dtype, node.shape, node.sources, with_bodies(node.attribute, bodies)))

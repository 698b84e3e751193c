"""Nodes that have the value of their first source, and are told apart from it while functions are differentiated.

The attribute is compared by identity. Further sources are what a derivative of its own reads. Aliases never reach the
compiler: a trace looks past them, and `without_aliases` takes them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smelt.graph.checks import rewritten
from smelt.graph.closed import bodies_of, with_bodies
from smelt.graph.node import Node, made, make, topological, with_sources
from smelt.graph.ops import CONTROL, Op


def alias(x: Node, attribute: Any, *others: Node) -> Node:
    """x under another name."""
    return made(Op.ALIAS, x.dtype, x.shape, (x, *others), attribute)


def is_alias(node: Node) -> bool:
    """Whether a node has the value of its first source; one that has been computed is a value of its own."""
    return node.op is Op.ALIAS and node.leaf is None


def without_aliases(roots: Sequence[Node]) -> list[Node]:
    """The same values, with every alias replaced by what it stands for, also inside of loops and branches; what has
    been computed is a leaf.
    """
    order = topological(roots)
    bodies = {node: without for node in order if node.op in CONTROL for without in [_plain_bodies(node)] if without}
    if not bodies and not any(node.op is Op.ALIAS for node in order):
        return list(roots)
    new: dict[Node, Node] = {}
    for node in order:
        sources = () if node.leaf is not None else tuple([new[source] for source in node.sources])
        if node.leaf is not None:
            new[node] = node.leaf
        elif node.op is Op.ALIAS:
            new[node] = sources[0]
        elif node in bodies:
            new[node] = make(node.op, node.dtype, node.shape, sources, with_bodies(node.attribute, bodies[node]))
        else:
            new[node] = rewritten(node, with_sources(node, sources), 0)
    return [new[root] for root in roots]


def _plain_bodies(node: Node) -> list[list[Node]] | None:
    """The bodies of a loop or branch without aliases; None if they have none."""
    bodies = bodies_of(node)
    plain = [without_aliases(body) for body in bodies]
    return None if all(list(body) == new for body, new in zip(bodies, plain, strict=True)) else plain

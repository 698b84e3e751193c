"""Nodes that have the value of their first source, and are told apart from it while functions are differentiated.

The attribute is compared by identity. Further sources are what a derivative of its own reads. Aliases never reach the
compiler: `without_aliases` takes them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smelt.graph.node import Node, topological, with_sources
from smelt.graph.ops import Op
from smelt.graph.verify import made


def alias(x: Node, attribute: Any, *others: Node) -> Node:
    """x under another name."""
    return made(Op.ALIAS, x.dtype, x.shape, (x, *others), attribute)


def without_aliases(roots: Sequence[Node]) -> list[Node]:
    """The same values, with every alias replaced by what it stands for; what has been computed is a leaf."""
    order = topological(roots)
    if not any(node.op is Op.ALIAS for node in order):
        return list(roots)
    new: dict[Node, Node] = {}
    for node in order:
        if node.leaf is not None:
            new[node] = node.leaf
        elif node.op is Op.ALIAS:
            new[node] = new[node.sources[0]]
        else:
            new[node] = with_sources(node, tuple([new[source] for source in node.sources]))
    return [new[root] for root in roots]

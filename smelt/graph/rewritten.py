"""Graphs with some of their nodes replaced: the walk that does it, and what is done with it everywhere.

An alias has the value of its first source, and is told apart from it while functions are differentiated. Its attribute
is compared by identity; further sources are what a derivative of its own reads. Aliases never reach the compiler: a
trace looks past them, and `without_aliases` takes them out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.graph.index import IndexLike, size_of
from smelt.graph.node import Node, made, make, topological, with_sources
from smelt.graph.ops import CONTROL, Branch, Hosted, Loop, Op, Span
from smelt.graph.origins import derived

Body = tuple[Node, ...]
Attribute = Loop | Branch | Hosted


def rewritten(
    roots: Sequence[Node], change: Callable[[Node, Node], Node], new: dict[Node, Node] | None = None
) -> list[Node]:
    """The roots, where each node below them becomes what `change` says of it and of the same operation on what its
    sources have become (which is the node itself if it has a value). Nodes that are in `new` are not asked about, nor
    is what is below them; what all others became is added to it.
    """
    new = {} if new is None else new
    for node in topological(roots, known=new):
        same = node if node.leaf is not None else with_sources(node, tuple([new[source] for source in node.sources]))
        derived(same, node)
        new[node] = change(node, same)
    return [new[root] for root in roots]


def substituted(roots: Sequence[Node], new: Mapping[Node, Node]) -> list[Node]:
    """The roots with nodes replaced by others of the same types. Bodies inside have parameters of their own."""
    return rewritten(roots, lambda node, same: same, dict(new))


def remade(roots: Sequence[Node], new: Mapping[Node, Node]) -> list[Node]:
    """The roots with nodes replaced by others of the same types, and all others made again where this thread makes
    nodes: a function that is traced has made them then, and does not take them from elsewhere.
    """
    known = dict(new)
    for node in topological(roots, through_leaves=True, known=known):
        sources = tuple([known[source] for source in node.sources])
        known[node] = node if node.op is Op.LEAF else make(node.op, node.dtype, node.shape, sources, node.attribute)
        derived(known[node], node)
    return [known[root] for root in roots]


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

    def change(node: Node, same: Node) -> Node:
        if node.leaf is not None or node.op is Op.LEAF:
            return node
        shape, changed = tuple([known(size) for size in node.shape]), attribute(node)
        if shape == node.shape and changed == node.attribute:
            return same
        return make(node.op, node.dtype, shape, same.sources, changed)

    return rewritten(roots, change)


def bodies_of(node: Node) -> tuple[Body, ...]:
    """The closed graphs in the attribute of a LOOP or BRANCH; a HOST has none."""
    if node.op is Op.HOST:
        return ()
    if node.op is Op.BRANCH:
        return tuple(node.attribute)
    return (node.attribute.body,) if node.attribute.test is None else (node.attribute.body, node.attribute.test)


def with_bodies(attribute: Attribute, bodies: Sequence[Sequence[Node]]) -> Attribute:
    """The attribute with other closed graphs, in the order of `bodies_of`."""
    if isinstance(attribute, Hosted):
        return attribute
    made_of = [tuple(body) for body in bodies]
    if isinstance(attribute, Branch):
        return Branch(*made_of)
    return attribute._replace(body=made_of[0], test=made_of[1] if attribute.test is not None else None)


def alias(x: Node, attribute: Any, *others: Node) -> Node:
    """x under another name."""
    return made(Op.ALIAS, x.dtype, x.shape, (x, *others), attribute)


def without_aliases(roots: Sequence[Node]) -> list[Node]:
    """The same values, with every alias replaced by what it stands for, also inside of loops and branches; what has
    been computed is a leaf.
    """
    if not any(node.op is Op.ALIAS or node.op in CONTROL for node in topological(roots)):
        return list(roots)

    def change(node: Node, same: Node) -> Node:
        if node.leaf is not None:
            return node.leaf
        if node.op in CONTROL:
            attribute = with_bodies(node.attribute, [without_aliases(body) for body in bodies_of(node)])
            if attribute != node.attribute:  # or an equal node from outside would become one of those that are private
                return make(node.op, node.dtype, node.shape, same.sources, attribute)
        return same.sources[0] if node.op is Op.ALIAS else same

    return rewritten(roots, change)

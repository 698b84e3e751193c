"""Closed graphs: the bodies of loops and branches, whose only inputs are PARAMETER nodes.

`close` makes a body of nodes that were computed from stand-ins, and `open_body` puts arguments in the place of the
parameters again. `values_of` makes the nodes that run bodies, and gives one ITEM for each of their values.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Final, NamedTuple

from smelt.dtypes import DType
from smelt.graph.node import Node, Shape, find, made, shown, topological, with_sources
from smelt.graph.ops import CONTROL, Branch, Hosted, Loop, Op
from smelt.graph.origins import derived
from smelt.graph.rewritten import Attribute, Body, remade
from smelt.graph.verify import value_types

_OPS: Final = {Loop: Op.LOOP, Branch: Op.BRANCH, Hosted: Op.HOST}
_used = False  # whether there has been a loop or branch: most programs have none


class Closed(NamedTuple):
    """Graphs over parameters, one tuple of roots for each that was given, and the nodes that became constants."""

    bodies: tuple[Body, ...]
    hoisted: tuple[Node, ...]


def parameter(number: int, dtype: DType, shape: Shape) -> Node:
    """An input of a closed graph."""
    return made(Op.PARAMETER, dtype, shape, (), number)


def close(
    graphs: Sequence[Sequence[Node]],
    stand_ins: Sequence[Node],
    at: int | None = None,
    own: Sequence[Container[Node]] = (),
) -> Closed:
    """Graphs with the same parameters, in the place of the stand-ins and of whatever does not depend on them.

    Parameters are numbered in the order of the stand-ins. Every largest part that depends on none of them is hoisted:
    it becomes a parameter, too, all of them in one row before stand-in number `at`, or after the last. Views of such a
    part stay inside, and so do numbers and counts, which take no memory, and nodes that are called a body's `own`.
    """
    roots = [root for graph in graphs for root in graph]
    at = len(stand_ins) if at is None else at
    inside = set(stand_ins)
    order = topological(roots, known=inside)  # a stand-in may be an alias: what is below it is no part of the graphs
    for node in order:
        if node.leaf is not None or node.op is Op.LEAF:
            continue  # it has a value, which does not depend on anything
        if not inside.isdisjoint(node.sources) or any(node in nodes for nodes in own):
            inside.add(node)
    asked = [source for node in order if node in inside for source in node.sources]
    hoisted = dict.fromkeys(base for node in (*asked, *roots) if node not in inside for base in _bases(node))
    ordered = [*stand_ins[:at], *hoisted, *stand_ins[at:]]
    new = {node: parameter(k, node.dtype, node.shape) for k, node in enumerate(ordered)}
    for node in order:  # which holds all that lies above the parameters
        if node not in new:
            sources = tuple([new.get(source, source) for source in node.sources])
            new[node] = node if node.leaf is not None else with_sources(node, sources)
            derived(new[node], node)
    each = iter([new[root] for root in roots])
    return Closed(tuple(tuple(next(each) for _ in graph) for graph in graphs), tuple(hoisted))


def _bases(node: Node) -> Iterator[Node]:
    """What lies below views; nothing if that takes no memory."""
    node = shown(node)
    if node.leaf is not None or (node.op is not Op.CONST and node.op is not Op.IOTA):
        yield node


def open_body(body: Sequence[Node], arguments: Sequence[Node]) -> list[Node]:
    """The roots of a closed graph, computed from arguments instead of its parameters."""
    given = {node: arguments[node.attribute] for node in topological(body) if node.op is Op.PARAMETER}
    return remade(body, given)


def values_of(attribute: Attribute, sources: Sequence[Node]) -> list[Node]:
    """The values of a loop (the last states, then the stacked ys), a branch or a call of Python's over its sources."""
    global _used
    _used = True
    types = value_types(attribute)
    return items(made(_OPS[type(attribute)], *types[0], tuple(sources), attribute)) if types else []


def items(node: Node) -> list[Node]:
    """One ITEM for each value of a LOOP, BRANCH or HOST."""
    types = value_types(node.attribute)
    return [made(Op.ITEM, dtype, shape, (node,), k) for k, (dtype, shape) in enumerate(types)]


def living_items(roots: Sequence[Node]) -> Iterator[Node]:
    """The values of loops and branches below the roots that somebody still holds."""
    for node in topological(roots) if _used else ():
        if node.op in CONTROL:
            for k, (dtype, shape) in enumerate(value_types(node.attribute)):
                item = find(Op.ITEM, dtype, shape, (node,), k)
                if item is not None:
                    yield item

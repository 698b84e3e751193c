"""What tells one group from another, but for the values that it reads and stores.

The layers of a network give groups that differ in nothing else, so that one region serves them all. Finding that out
takes a fraction of the time in which a region is built.
"""

from __future__ import annotations

from collections.abc import Hashable

from smelt.fuse.group import Group, Result
from smelt.fuse.layout import LayoutOf
from smelt.graph import Node, Op


def signature(group: Group, layout: LayoutOf, moved: bool = False) -> tuple[Hashable, list[Node]] | None:
    """A mark that groups share for which `build_region` gives the same region, and the nodes of this one.

    The nodes of groups with the same mark play the same parts at the same positions. None for groups that read by
    index: how those do depends on where the indices come from.
    """
    if group.picks:
        return None
    numbers: dict[Node, int] = {}
    computed = [_computed(group, node, numbers) for node in group.inside]
    results = group.results
    stored = [_stored(result, numbers, moved) for result in results]
    # A kernel may store what it only reads: a piece of a concat.
    made = {*group.inside, *(result.sink for result in results)}
    read = [_read(node, layout) for node in numbers if node not in made]
    return (group.axes, tuple(computed), tuple(read), tuple(stored), moved), list(numbers)


def _number(node: Node, numbers: dict[Node, int]) -> int:
    return numbers.setdefault(node, len(numbers))


def _computed(group: Group, node: Node, numbers: dict[Node, int]) -> Hashable:
    places = group.places[node]
    own = _number(node, numbers)
    sources = tuple([_number(source, numbers) for source in node.sources])
    folds = node.op is Op.REDUCE or node.op is Op.CONTRACT
    folded = tuple([group.reduced.get((node, place)) for place in places]) if folds else ()
    return own, node.op, node.dtype, node.shape, node.attribute, sources, tuple(places), folded


def _read(node: Node, layout: LayoutOf) -> Hashable:
    if node.op is Op.CONST or node.op is Op.IOTA:
        return node.op, node.dtype, node.shape, node.attribute
    return node.dtype, layout(node)


def _stored(result: Result, numbers: dict[Node, int], moved: bool) -> Hashable:
    sink, piece = result.sink, result.piece
    where = _number(sink, numbers), _number(result.result, numbers)
    if piece is not None and moved:
        return where, sink.dtype, result.place, result.result.shape, piece.moved
    return where, sink.dtype, sink.shape, result.place, result.result.shape, piece

"""What tells one group from another, but for the values that it reads and stores, and where its slices start.

The layers of a network give groups that differ in nothing else, so that one region serves them all. Finding that out
takes a fraction of the time in which a region is built.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from smelt.fuse.group import Group, Result
from smelt.fuse.layout import LayoutOf
from smelt.fuse.movement import Place
from smelt.graph import Index, IndexLike, Node, Op, Ranges, Variable, as_index, of


class Signature(NamedTuple):
    """A mark that groups share for which `build_region` gives the same region but for the names of slice starts. Nodes
    and starts of groups with the same mark play the same parts at the same positions.
    """

    mark: Hashable
    nodes: list[Node]
    starts: list[str]


def signature(group: Group, layout: LayoutOf, moved: bool = False) -> Signature:
    """What tells a group from others."""
    numbers: dict[Node, int] = {}
    starts = _Starts(group)
    computed = [_computed(group, node, numbers, starts) for node in group.inside]
    results = group.results
    stored = [_stored(result, numbers, moved) for result in results]
    # A kernel may store what it only reads: a piece of a concat.
    made = {*group.inside, *(result.sink for result in results)}
    read = [_read(node, layout) for node in numbers if node not in made]
    # What is read by index is read differently by the range of that index.
    ranges = Ranges()
    picks = [(v, _number(node, numbers), ranges(node), starts.place(at)) for v, (node, at) in group.picks.items()]
    mark = group.axes, tuple(computed), tuple(read), tuple(stored), tuple(picks), moved
    return Signature(mark, list(numbers), [v.name for v in starts.new])


class _Starts:
    """Slice starts by the order of their use: what they are called in the graph depends on all that comes before."""

    def __init__(self, group: Group) -> None:
        slices = [node.attribute for node in group.inside if node.op is Op.SLICE]
        found = dict.fromkeys(v for spans in slices for start, *_ in spans for v in _variables(start))
        old = [v for v in found if v.name.startswith("s")]
        self.new = {v: of(Variable(f"p{k}", v.first, v.last)) for k, v in enumerate(old)}
        self._known: dict[Index, Index] = {}

    def index(self, index: IndexLike) -> IndexLike:
        """An index with other names."""
        if isinstance(index, int) or self.new.keys().isdisjoint(index.variables()):
            return index
        if index not in self._known:
            self._known[index] = index.substitute(self.new)
        return self._known[index]

    def place(self, place: Place) -> Place:
        """A place with other names."""
        if not self.new:
            return place
        indices = tuple([as_index(self.index(i)) for i in place.indices])
        return Place(indices, tuple([condition.substitute(self.new) for condition in place.mask]))


def _variables(start: IndexLike) -> list[Variable]:
    return [] if isinstance(start, int) else sorted(start.variables(), key=lambda v: (len(v.name), v.name))


def _number(node: Node, numbers: dict[Node, int]) -> int:
    return numbers.setdefault(node, len(numbers))


def _computed(group: Group, node: Node, numbers: dict[Node, int], starts: _Starts) -> Hashable:
    places, attribute = group.places[node], node.attribute
    own = _number(node, numbers)
    sources = tuple([_number(source, numbers) for source in node.sources])
    folds = node.op is Op.REDUCE or node.op is Op.CONTRACT
    folded = tuple([group.reduced.get((node, place)) for place in places]) if folds else ()
    if node.op is Op.SLICE and starts.new:
        attribute = tuple([(starts.index(start), *rest) for start, *rest in attribute])
    return own, node.op, node.dtype, node.shape, attribute, sources, tuple(map(starts.place, places)), folded


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

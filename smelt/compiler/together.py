"""Parts that are computed alike and then joined, such as heads of attention in a loop: computed together, as a batch.

Each part would be kernels of its own, launched one after the other, each too small for all cores. Together they are one
kernel with a further axis. This takes nothing but another view if parts differ only in which slice of the same tensors
they read; it is looked for before the places of slices are taken out of a graph.

Bounds: one look at each node of a graph that joins something. What is large stays apart: there is little to gain, and
somebody may go part by part in order to need less memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from smelt.derive import batch_dependent
from smelt.graph import ELEMENTWISE, VIEWS, Node, Op, build, make_leaf, shown, substituted, users, with_sources

FEWEST: Final = 3  # parts that are worth it
MOST_NODES: Final = 128  # of a part
LARGEST: Final = 1 << 20  # elements of any value of all parts
_ALIKE: Final = frozenset({*ELEMENTWISE, *VIEWS, Op.REDUCE, Op.SCAN, Op.CONTRACT, Op.COMPOSITE})


def together(roots: Sequence[Node], order: Sequence[Node]) -> list[Node]:
    """The roots with parts that are alike computed together, whose sums may then be taken in another order; `order` has
    all that is computed for them.
    """
    readers: Mapping[Node, Sequence[Node]] | None = None
    new: dict[Node, Node] = {}
    for node in order:
        if node.op is not Op.CONCAT or node.leaf is not None or len(node.sources) < FEWEST:
            continue
        if readers is None:
            readers = users(order)
            outside = set(roots)
        found = _Parts(node, readers, outside).batched()
        if found is not None:
            new[node] = found
    if not new:
        return list(roots)
    done: dict[Node, Node] = {}
    for node, found in new.items():  # parts that are joined later may read what was joined before
        (done[node],) = substituted([found], done)
    return substituted(roots, done)


class _Differ(Exception):
    """Parts are not alike, or what they read lies in no order."""


class _Parts:
    """The parts of a concatenation, walked side by side."""

    def __init__(self, node: Node, readers: Mapping[Node, Sequence[Node]], outside: set[Node]) -> None:
        self.node, self.readers, self.outside = node, readers, outside
        self.number = len(node.sources)
        self.known: dict[tuple[Node, ...], Node] = {}
        self.shared: dict[Node, Node] = {}  # by stand-in: what all parts read
        self.stacked: dict[Node, Node] = {}  # by stand-in: what each part reads a slice of, with an axis for parts
        self.walked, self.pays = 0, False

    def batched(self) -> Node | None:
        """What is joined, computed together; None if parts are not alike or there is nothing to gain."""
        try:
            one = self._one(self.node.sources)
        except _Differ:
            return None
        if not self.pays or not self.stacked:
            return None
        (found,) = batch_dependent([one], self.stacked, self.number)
        if found is None:
            return None
        (all_parts,) = substituted([found], self.shared)
        axis = self.node.attribute
        order = (*range(1, axis + 1), 0, *range(axis + 1, one.rank + 1))
        return build.reshape(build.permute(all_parts, order), self.node.shape)

    def _one(self, parts: Sequence[Node]) -> Node:
        """One of these nodes, one of each part, over stand-ins; raises if they are not alike."""
        parts = tuple(shown(part, {Op.ALIAS}) for part in parts)
        if parts not in self.known:
            self.walked += 1
            if self.walked > MOST_NODES:
                raise _Differ
            self.known[parts] = self._alike(parts)
        return self.known[parts]

    def _alike(self, parts: tuple[Node, ...]) -> Node:
        first = parts[0]
        if all(part is first for part in parts):
            stand_in = make_leaf(first.dtype, first.shape, object())
            self.shared[stand_in] = first
            return stand_in
        if any((x.op, x.dtype, x.shape) != (first.op, first.dtype, first.shape) for x in parts):
            raise _Differ
        if any(part.leaf is not None for part in parts) or first.op not in _ALIKE or not _fits(first, self.number):
            raise _Differ
        if first.op is Op.SLICE and all(part.sources == first.sources for part in parts):
            stand_in = make_leaf(first.dtype, first.shape, object())
            self.stacked[stand_in] = _stacked(parts)
            return stand_in
        if any(part.attribute != first.attribute or not self._private(part) for part in parts):
            raise _Differ
        self.pays |= first.op is Op.CONTRACT
        columns = zip(*(part.sources for part in parts), strict=True)
        return with_sources(first, tuple([self._one(column) for column in columns]))

    def _private(self, part: Node) -> bool:
        """Whether one node alone reads this one, so that it is not computed for others as well; views cost nothing."""
        if part.op in VIEWS:
            return True
        return part not in self.outside and len(set(self.readers[part])) == 1


def _fits(node: Node, number: int) -> bool:
    elements = number
    for size in node.shape:
        if not isinstance(size, int):
            return False
        elements *= size
    return elements <= LARGEST


def _stacked(slices: Sequence[Node]) -> Node:
    """Slices of a tensor that lie one behind the other, as one tensor with an axis for them in front."""
    first, (x,) = slices[0].attribute, slices[0].sources
    moved = [k for k, span in enumerate(first) if any(other.attribute[k] != span for other in slices)]
    if len(moved) != 1:
        raise _Differ
    (axis,) = moved
    start, size, step = first[axis]
    if step != 1 or not isinstance(start, int) or not isinstance(size, int):
        raise _Differ
    if any(other.attribute[axis] != (start + k * size, size, 1) for k, other in enumerate(slices)):
        raise _Differ
    whole = build.slice_(x, [(start, len(slices) * size, 1) if k == axis else span for k, span in enumerate(first)])
    shape = (*whole.shape[:axis], len(slices), size, *whole.shape[axis + 1 :])
    order = (axis, *(k for k in range(len(shape)) if k != axis))
    return build.permute(build.reshape(whole, shape), order)

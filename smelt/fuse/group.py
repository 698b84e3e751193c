"""What one kernel computes, while that is being decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from smelt.fuse.movement import Place, source_place, within
from smelt.graph import ELEMENTWISE, ZERO, Index, IndexLike, Node, Op, Variable, as_index, label_sizes, of, variable


class Piece(NamedTuple):
    """Where a part of a concat lies in the memory of the whole, counted in elements."""

    start: IndexLike
    strides: tuple[IndexLike, ...]  # of the axes of the result

    @property
    def moved(self) -> Piece:
        """The piece for a caller that says where it begins, if that is known: pieces that are alike then share a
        kernel.
        """
        return self._replace(start=0) if isinstance(self.start, int) else self


class Result(NamedTuple):
    """A further node that a kernel stores, in terms of its axes: see `Group`."""

    sink: Node
    place: Place
    result: Node
    piece: Piece | None = None


@dataclass(eq=False)
class Group:
    """One kernel: it stores `sink`, or if that is a concat one `piece` of it.

    The sink of a reshape is stored in the shape of `result`, what it reshapes; so is a piece. Kernels that were joined
    store several results (`also`).
    """

    sink: Node
    axes: tuple[Variable, ...]
    place: Place  # of the result, in terms of the axes
    result: Node  # what is computed: the sink, one source of a concat, or the source of a reshape
    piece: Piece | None = None
    also: list[Result] = field(default_factory=list)
    places: dict[Node, list[Place]] = field(default_factory=dict)  # which elements of each node are asked for
    inside: list[Node] = field(default_factory=list)  # nodes computed here, users before sources
    work: int = 0  # how many of them are elementwise: views cost nothing
    reduced: dict[tuple[Node, Place], tuple[Index, ...]] = field(default_factory=dict)  # new axes of reductions
    picked: dict[tuple[Node, Place], tuple[Index, ...]] = field(default_factory=dict)  # stand-ins for indices
    picks: dict[Variable, tuple[Node, Place]] = field(default_factory=dict)  # what each of them stands for
    reductions: list[frozenset[Variable]] = field(default_factory=list)  # what each reduction varies over
    contraction: Node | None = None
    keys: dict[Node, Index] = field(default_factory=dict)  # the axis that the folds of a chain share
    members: frozenset[Node] = frozenset()  # of that chain
    scanned: Index | None = None  # the axis that scans walk
    operands: set[Node] = field(default_factory=set)  # nodes that only the contraction's operands need
    waiting: set[Node] = field(default_factory=set)  # asked for and not computed here
    walked: set[Variable] = field(default_factory=set)  # its axes, those of reductions too: no dims, nor stand-ins
    counter: int = 0
    expected: int = 0  # nodes that only this kernel would ask for, and has not given away

    def __post_init__(self) -> None:
        self.walked.update(self.axes)

    @property
    def results(self) -> list[Result]:
        """All that is stored."""
        return [Result(self.sink, self.place, self.result, self.piece), *self.also]

    def starts(self) -> list[int]:
        """By how many bytes each result that is `moved` begins after its memory."""
        pieces = [(result.piece, result.sink.dtype.itemsize) for result in self.results]
        return [p.start * size if p is not None and isinstance(p.start, int) else 0 for p, size in pieces]

    def fresh(self, size: IndexLike) -> Index:
        """A new reduced axis; an axis of size 1 needs none."""
        if size == 1:
            return ZERO
        self.counter += 1
        axis = variable(f"r{self.counter - 1}", 0, as_index(size) - 1)
        self.walked |= axis.variables()
        return axis

    def ask(self, node: Node, place: Place) -> bool:
        """Note that an element of a node is needed; says whether that is the first one."""
        places = self.places.setdefault(node, [])
        if place not in places:
            places.append(place)
            return len(places) == 1
        return False

    def free_axes(self, place: Place) -> frozenset[Variable]:
        """The axes that an element's index varies over."""
        return frozenset(v for i in place.indices for v in i.variables() if v in self.walked)

    def pick(self, gather: Node, place: Place) -> tuple[Index, ...]:
        """For each index tensor of a gather, a variable that stands for its element."""
        key = (gather, place)
        if key not in self.picked:
            x, *indices = gather.sources
            sizes = {-1 - axis: size for axis, size in zip(gather.attribute.axes, x.shape, strict=True)}
            found: list[Index] = []
            for k, index in enumerate(indices):
                stand_in = Variable(f"g{len(self.picks)}", 0, as_index(sizes[k]) - 1)
                self.picks[stand_in] = (index, place)
                found.append(of(stand_in))
            self.picked[key] = tuple(found)
        return self.picked[key]


def demands(group: Group, node: Node, place: Place) -> Iterator[tuple[Node, Place]]:
    """Which elements of its sources a node needs for one of its own."""
    if node.op in ELEMENTWISE or node.op is Op.SCAN:
        for source in node.sources:
            yield source, place
    elif node.op is Op.CONCAT:
        yield from concat_pieces(node, place)
    elif node.op is Op.REDUCE:
        axes = node.attribute.axes
        new = _new_axes(group, node, place, [node.sources[0].shape[axis] for axis in axes])
        kept, folded = iter(place.indices), iter(new)
        rank = len(node.sources[0].shape)
        yield node.sources[0], Place(tuple(next(folded) if k in axes else next(kept) for k in range(rank)), place.mask)
    elif node.op is Op.CONTRACT:
        left, right, out = node.attribute
        sizes = label_sizes(node)
        summed = [label for label in sizes if label not in out]
        index = dict(zip(out, place.indices, strict=True))
        index.update(zip(summed, _new_axes(group, node, place, [sizes[label] for label in summed]), strict=True))
        for source, labels in zip(node.sources, (left, right), strict=True):
            yield source, Place(tuple(index[label] for label in labels), place.mask)
    elif node.op is Op.GATHER:
        for source in node.sources[1:]:
            yield source, place
        chosen = group.pick(node, place)
        yield (
            node.sources[0],
            Place(tuple(place.indices[k] if k >= 0 else chosen[-1 - k] for k in node.attribute.axes), place.mask),
        )
    else:
        yield node.sources[0], source_place(node, place)
        for fill in node.sources[1:]:
            yield fill, Place((), place.mask)


def concat_pieces(node: Node, place: Place) -> Iterator[tuple[Node, Place]]:
    """For each source of a concat, the element there and the condition that it is this source's."""
    axis, start = node.attribute, as_index(0)
    for source in node.sources:
        moved = place.indices[axis] - start
        index = (*place.indices[:axis], moved, *place.indices[axis + 1 :])
        yield source, Place(index, place.mask + tuple(within(moved, 0, source.shape[axis])))
        start = start + source.shape[axis]


def _new_axes(group: Group, node: Node, place: Place, sizes: list[IndexLike]) -> tuple[Index, ...]:
    """The axes that a reduction or contraction folds.

    A reduction walks an axis that the kernel has already where there is one of the same extent: then what it folds
    and what its users read is one expression over one axis, which can be kept from one phase to the next.
    """
    key = (node, place)
    if key in group.reduced:
        return group.reduced[key]
    if node in group.keys:
        group.reduced[key] = (group.keys[node],)
        return group.reduced[key]
    there: list[Index] = []
    if node.op is Op.REDUCE:
        folded = [v for axes in group.reduced.values() for i in axes for v in i.variables()]
        there = [of(v) for v in dict.fromkeys((*group.axes, *folded)) if v not in group.free_axes(place)]
    found: list[Index] = []
    for size in sizes:
        fitting = [i for i in there if i not in found and as_index(size) == next(iter(i.variables())).last + 1]
        # The last one: reductions usually run over the innermost axis.
        found.append(fitting[-1] if fitting and size != 1 else group.fresh(size))
    group.reduced[key] = tuple(found)
    return group.reduced[key]

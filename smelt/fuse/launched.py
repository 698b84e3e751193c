"""Nodes that are launches of their own: routines, loops and branches. Where what they read lies, and what has to be
stored for them first.

They read memory, never expressions. Most operands must be contiguous; the updates and indices of a scatter may be seen
through broadcasting and permutations, so that an index per row is not written out for every element. The body of a loop
reads constants and slices as they lie, and states in row-major order, since the second iteration finds them where the
first has written them. Amounts that depend on dims are computed in the graph, as further sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from smelt.dtypes import int64
from smelt.fuse.layout import LayoutOf, is_contiguous
from smelt.graph import (
    CONTROL,
    SOURCES,
    Index,
    IndexLike,
    Loop,
    Node,
    Op,
    as_index,
    build,
    make,
    product_of,
    rewritten,
    row_major,
    shown,
    size_of,
    substituted,
    topological,
    value_types,
    with_sources,
)

ROUTINES: Final = frozenset({Op.SORT, Op.SCATTER, Op.NONZERO})


class Operand(NamedTuple):
    """What a routine reads: a node in memory, and the stride of each axis of the operand there."""

    node: Node
    strides: tuple[IndexLike, ...]

    @property
    def is_scalar(self) -> bool:
        """Whether there is only one element behind it."""
        return all(stride == 0 for stride in self.strides)


def operands(node: Node, layout: LayoutOf) -> list[Operand]:
    """The operands of a routine, which `prepared` has made readable."""
    return [_operand(node, position, layout) for position in range(len(node.sources))]


def bases(node: Node) -> Iterator[Node]:
    """The nodes that a routine, loop or branch reads and that have to be stored."""
    found = (_base(node, position) for position in range(len(node.sources)))
    return (base for base in found if base.op is not Op.LEAF)


def prepared(roots: Sequence[Node], layout: LayoutOf) -> list[Node]:
    """The graph with copies of those sources of routines, loops and branches that cannot be read as they lie."""
    order = topological(roots)
    if not any(node.op in ROUTINES or node.op in CONTROL for node in order):
        return list(roots)

    def change(node: Node, same: Node) -> Node:
        if node.op in ROUTINES or node.op in CONTROL:
            same = with_sources(
                node, tuple([_readable(same, position, layout) for position in range(len(same.sources))])
            )
        return _with_amounts(same, layout) if node.op is Op.LOOP else same

    return rewritten(roots, change)


def _readable(node: Node, position: int, layout: LayoutOf) -> Node:
    """A source, over a copy where the memory that it shows cannot be read as it lies."""
    source, base = node.sources[position], _base(node, position)
    if base.op not in SOURCES or (base.op is Op.LEAF and _is_readable(node, position, base, layout)):
        return source
    return substituted([source], {base: make(Op.CAST, base.dtype, base.shape, (base,))})[0]


def _is_readable(node: Node, position: int, base: Node, layout: LayoutOf) -> bool:
    if is_contiguous(base, layout):
        return True
    if node.op not in CONTROL:
        return _is_strided(node, position) or _operand(node, position, layout).is_scalar
    # What Python is given lies in row-major order, as a state does.
    states = node.attribute.states if node.op is Op.LOOP else len(node.sources) if node.op is Op.HOST else 0
    return position >= states and node.sources[position] is base


def _is_strided(node: Node, position: int) -> bool:
    """Whether an operand may have any strides: the updates and indices of a scatter."""
    return node.op is Op.SCATTER and position > 0


def _base(node: Node, position: int) -> Node:
    source = node.sources[position]
    seen = _view_base(source)
    if node.op is Op.SCATTER and (position > 0 or product_of(seen.shape) == 1):
        return seen
    return base(source)


def _operand(node: Node, position: int, layout: LayoutOf) -> Operand:
    source, base = node.sources[position], _base(node, position)
    if _is_strided(node, position):
        return Operand(base, _strides(source, layout))
    # Only a scatter's target may be one repeated element: the others are read as they lie.
    if node.op is Op.SCATTER and base.op is Op.LEAF and all(stride == 0 for stride in layout(base).strides):
        return Operand(base, (0,) * source.rank)
    return Operand(base, (0,) * source.rank if product_of(base.shape) == 1 else row_major(source.shape))


def _view_base(node: Node) -> Node:
    while _is_view(node):
        node = node.sources[0]
    return node


def _is_view(node: Node) -> bool:
    """Whether a node is its source with axes of size 1 added, removed or repeated, or in another order."""
    return node.op is Op.EXPAND or only_renames(node)


def only_renames(node: Node) -> bool:
    """Whether a node has the axes of its source, but for their order and axes of size 1."""
    if node.op is not Op.RESHAPE:
        return node.op is Op.PERMUTE
    return [size for size in node.shape if size != 1] == [size for size in node.sources[0].shape if size != 1]


def _strides(node: Node, layout: LayoutOf) -> tuple[IndexLike, ...]:
    if not _is_view(node):
        return layout(node).strides
    source = node.sources[0]
    strides = _strides(source, layout)
    if node.op is Op.PERMUTE:
        return tuple(strides[axis] for axis in node.attribute)
    if node.op is Op.EXPAND:
        sizes = zip(strides, source.shape, node.shape, strict=True)
        return tuple(0 if old == 1 and new != 1 else stride for stride, old, new in sizes)
    kept = iter([stride for stride, size in zip(strides, source.shape, strict=True) if size != 1])
    return tuple(0 if size == 1 else next(kept) for size in node.shape)


# --- how far the pointers of loops move


class Walk(NamedTuple):
    """How a pointer to slices moves, in bytes: from where it starts, by how much each time."""

    start: IndexLike
    step: IndexLike


class LoopSizes(NamedTuple):
    """What the steps of a loop need to know, in bytes."""

    length: IndexLike | None
    states: tuple[IndexLike, ...]
    xs: tuple[Walk, ...]
    ys: tuple[Walk, ...]

    def symbolic(self) -> Iterator[Index]:
        """Those that are only known at the call."""
        walks = [amount for walk in (*self.xs, *self.ys) for amount in walk]
        for amount in (*((self.length,) if self.length is not None else ()), *self.states, *walks):
            if isinstance(amount, Index):
                yield amount


def loop_sizes(node: Node, layout: LayoutOf) -> LoopSizes:
    """The amounts of a LOOP over sources that lie in memory."""
    loop: Loop = node.attribute
    first = loop.states + loop.constants
    types = value_types(loop)
    states = tuple(_product(dtype.itemsize, *shape) for dtype, shape in types[: loop.states])
    rows = [_product(dtype.itemsize, *shape[1:]) for dtype, shape in types[loop.states :]]
    strides = [
        _product(x.dtype.itemsize, layout(base(x)).strides[0] if base(x) is x else product_of(x.shape[1:]))
        for x in node.sources[first : first + loop.xs]
    ]
    xs, ys = (tuple(_walk(step, loop) for step in steps) for steps in (strides, rows))
    return LoopSizes(loop.length, states, xs, ys)


def _product(*factors: IndexLike) -> IndexLike:
    return size_of(as_index(product_of(factors)))


def _walk(step: IndexLike, loop: Loop) -> Walk:
    if not loop.reverse or loop.length is None:
        return Walk(0, step)
    return Walk(size_of(as_index(step) * (as_index(loop.length) - 1)), size_of(as_index(step) * -1))


def amount_node(amount: Index) -> Node:
    """An amount as an int64 scalar: an element of a range, which starts where the amount's bounds do."""
    first = min(amount.low, 0)
    place = amount - first
    found = build.reshape(build.slice_(build.iota(place + 1, int64), [(place, 1, 1)]), ())
    return build.add(found, build.const(first, int64)) if first else found


def base(source: Node) -> Node:
    """The node whose memory a source of a loop or branch is."""
    return shown(source, {Op.RESHAPE})


def _with_amounts(node: Node, layout: LayoutOf) -> Node:
    """A LOOP with the amounts that depend on dims as further sources."""
    amounts = dict.fromkeys(amount_node(amount) for amount in loop_sizes(node, layout).symbolic())
    return with_sources(node, (*node.sources, *amounts))

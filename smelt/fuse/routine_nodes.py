"""Nodes that become routines: where their operands lie, and what has to be stored for them first.

A routine is a kernel of its own and reads memory, never expressions. Most operands must be contiguous; the updates and
indices of a scatter may be seen through broadcasting and permutations, so that an index per row is not written out for
every element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from smelt.fuse.control_nodes import base as memory_of
from smelt.fuse.control_nodes import with_amounts
from smelt.fuse.layout import LayoutOf, is_contiguous
from smelt.graph import CONTROL, SOURCES, IndexLike, Node, Op, make, product_of, row_major, topological, with_sources

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
    new: dict[Node, Node] = {}
    for node in order:
        changed = with_sources(node, tuple(new[source] for source in node.sources))
        if node.op in ROUTINES or node.op in CONTROL:
            readable = tuple(_readable(changed, position, layout) for position in range(len(changed.sources)))
            changed = with_sources(node, readable)
        new[node] = with_amounts(changed, layout) if node.op is Op.LOOP else changed
    return [new[root] for root in roots]


def _readable(node: Node, position: int, layout: LayoutOf) -> Node:
    """A source, over a copy where the memory that it shows cannot be read as it lies."""
    source, base = node.sources[position], _base(node, position)
    if base.op not in SOURCES or (base.op is Op.LEAF and _is_readable(node, position, base, layout)):
        return source
    return _with_base(source, base, make(Op.CAST, base.dtype, base.shape, (base,)))


def _is_readable(node: Node, position: int, base: Node, layout: LayoutOf) -> bool:
    if is_contiguous(base, layout):
        return True
    if node.op not in CONTROL:
        return _is_strided(node, position) or _operand(node, position, layout).is_scalar
    # What Python is given lies in row-major order, as a state does.
    states = node.attribute.states if node.op is Op.LOOP else len(node.sources) if node.op is Op.HOST else 0
    return position >= states and node.sources[position] is base


def _with_base(node: Node, base: Node, new: Node) -> Node:
    """A chain of views over another node."""
    if node is base:
        return new
    return with_sources(node, (_with_base(node.sources[0], base, new),))


def _is_strided(node: Node, position: int) -> bool:
    """Whether an operand may have any strides: the updates and indices of a scatter."""
    return node.op is Op.SCATTER and position > 0


def _base(node: Node, position: int) -> Node:
    source = node.sources[position]
    if node.op in CONTROL:
        return memory_of(source)
    if _is_strided(node, position):
        return _view_base(source)
    single = _view_base(source)
    if node.op is Op.SCATTER and product_of(single.shape) == 1:
        return single
    while source.op is Op.RESHAPE:
        source = source.sources[0]
    return source


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

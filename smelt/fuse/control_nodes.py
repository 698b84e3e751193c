"""Loops and branches as launches of their own: what has to be stored for them, and how far their pointers move.

A body reads memory: constants and slices as they lie, states in row-major order, since the second iteration finds them
where the first has written them. Amounts that depend on dims are computed in the graph, as further sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from smelt.dtypes import int64
from smelt.fuse.layout import LayoutOf
from smelt.graph import (
    Index,
    IndexLike,
    Loop,
    Node,
    Op,
    as_index,
    build,
    product_of,
    size_of,
    value_types,
    with_sources,
)


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
    while source.op is Op.RESHAPE and source.leaf is None:
        source = source.sources[0]
    return source


def with_amounts(node: Node, layout: LayoutOf) -> Node:
    """A LOOP with the amounts that depend on dims as further sources."""
    amounts = dict.fromkeys(amount_node(amount) for amount in loop_sizes(node, layout).symbolic())
    return with_sources(node, (*node.sources, *amounts))

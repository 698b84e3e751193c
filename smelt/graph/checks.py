"""Indices that must lie inside their axes: small reductions beside a graph, which say whether one did not.

A gather or scatter with `checked` is safe whatever its indices are; that one of them lies outside is reported after the
graph has run. Indices whose range the graph shows need no check.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import NamedTuple

from smelt.dtypes import int64, uint64
from smelt.errors import IndexRangeError, Location, user_location
from smelt.graph import build
from smelt.graph.index import Index, IndexLike, as_index
from smelt.graph.node import Node, constant_value
from smelt.graph.ops import Op
from smelt.graph.ranges import Ranges

FINE = int(int64.minimum)  # the value of a check that found nothing


class _Written(NamedTuple):
    """What a user called to make a checked node. `batched` axes in front are not in the user's tensor."""

    name: str
    location: Location | None
    batched: int = 0


_written: weakref.WeakKeyDictionary[Node, _Written] = weakref.WeakKeyDictionary()


class Check(NamedTuple):
    """What to say about an index outside its axis, and where the user wrote it."""

    name: str
    axis: int
    size: IndexLike
    location: Location | None

    def report(self, found: int) -> None:
        """Raise if a check has found an index."""
        if found == FINE:
            return
        allowed = f"allowed here: {-self.size} to {self.size - 1}." if isinstance(self.size, int) else ""
        raise IndexRangeError(
            f"{self.name}: index {found} is out of range for axis {self.axis} of size {self.size}",
            rule=allowed,
            location=self.location,
        )


def written(node: Node, name: str) -> Node:
    """Note the user's line as the one that wrote a checked gather or scatter; `name` is the function called there."""
    if node.attribute.checked and node not in _written:
        _written[node] = _Written(name, user_location())
    return node


def rewritten(old: Node, new: Node, batched: int) -> Node:
    """Note that a gather or scatter does what the user wrote as another one, with `batched` more axes in front."""
    known = _written.get(old)
    if known is not None and new not in _written:
        _written[new] = known._replace(batched=known.batched + batched)
    return new


def checks_of(order: Iterable[Node]) -> dict[Node, Check]:
    """For the nodes of a graph: scalars that are `FINE` or an index outside its axis, and what to say then."""
    found: dict[Node, Check] = {}
    ranges = Ranges()
    for node in order:
        if (node.op is Op.GATHER or node.op is Op.SCATTER) and node.attribute.checked and node.leaf is None:
            name, location, batched = _written.get(node, _Written(node.op.value, None))
            first = 1 if node.op is Op.GATHER else 2
            for axis, (k, size) in enumerate(zip(node.attribute.axes, node.sources[0].shape, strict=True)):
                if k < 0 and not _is_inside(ranges(node.sources[first - 1 - k]), size):
                    check = Check(name, axis - batched, size, location)
                    found.setdefault(_worst(node.sources[first - 1 - k], size), check)
    return found


def _is_inside(values: tuple[int, int], size: IndexLike) -> bool:
    return values[0] >= 0 and values[1] < as_index(size).low


def _worst(index: Node, size: IndexLike) -> Node:
    """The largest index that lies outside, or `FINE`."""
    index, wrapped = _original(index)
    if index.dtype is uint64:
        index = build.minimum(index, build.const(int64.maximum, index.dtype))
    index = build.cast(index, int64)
    end = build.broadcast_to(build.size_node(size, int64), index.shape)
    start = build.neg(end) if wrapped else build.const(0, index.dtype)
    inside = build.bitwise_and(build.le(start, index), build.lt(index, end))
    # The smallest integer of all means that nothing was found.
    outside = build.maximum(index, build.const(FINE + 1, index.dtype))
    kept = build.where(inside, build.const(FINE, index.dtype), outside)
    return build.reduce("max", kept, tuple(range(kept.rank))) if kept.rank else kept


def _original(index: Node) -> tuple[Node, bool]:
    """The index as the user gave it, not repeated, and whether negative ones count from the end."""
    index = _bare(index)
    if index.op is Op.WHERE and index.leaf is None:
        condition, _, given = index.sources
        if condition.op is Op.BINARY and condition.attribute == "lt" and condition.sources[0] is given:
            zero = _bare(condition.sources[1])
            if zero.op is Op.CONST and constant_value(zero) == 0:
                return _bare(given), True
    return index, False


def _bare(node: Node) -> Node:
    """A node that is not merely repeated or seen in another shape."""
    while node.op in (Op.EXPAND, Op.RESHAPE, Op.PERMUTE, Op.ALIAS) and node.leaf is None:
        node = node.sources[0]
    return node


def wrapped(index: Node, size: IndexLike, ranges: Ranges) -> Node:
    """Negative indices counted from the end of an axis."""
    if ranges(index)[0] >= 0:
        return index
    if isinstance(size, Index) or size > index.dtype.maximum:
        index = build.cast(index, int64)
    count = build.cast(build.size_node(size, int64), index.dtype)
    negative = build.lt(index, build.const(0, index.dtype))
    return build.where(negative, build.add(index, build.broadcast_to(count, index.shape)), index)

"""Where the first extreme value of a long row is (argmax, argmin), by blocks.

Comparing each element with the extreme value, and its place with the best so far, takes several times as long as the
extreme value alone. So a row is walked once, for the extreme value of each block, and which block has the first of the
best follows that by a law (`kernel.laws`); then only that block is searched. All of it is one kernel. Where there are
few rows, pieces of rows are its tasks, and a second, small kernel compares what they have found.
"""

from __future__ import annotations

from smelt.dtypes import DType
from smelt.fuse.chains import anywhere, down, led
from smelt.fuse.movement import REPEATING
from smelt.graph import IndexLike, Node, Op, build, product_of, shown, upper
from smelt.kernel import Follower

LARGE = 1 << 18  # elements that are worth the blocks
LONG = 1 << 12  # and of a row
BLOCK = 128  # elements of a block, at least
BLOCKS = 32  # blocks of a row, about: comparing places takes longer, and so does folding each block's vectors
ROWS = 64  # rows that are tasks enough
PIECE = 1 << 14  # elements of a piece of a row, at least


def place_in_blocks(node: Node, pieces: set[Node]) -> Node | None:
    """The same place, found by blocks, if a node is the place of an extreme value in a large value that is there."""
    found = led(node)
    if found is None or not _is_searched(node, found.by):
        return None
    x, op = found.by.x, found.lead.attribute.op
    size = x.shape[-1]
    rows = product_of(x.shape[:-1])
    most = x.elements // PIECE if upper(rows) < ROWS else 1
    cuts = ((n, _block(size, n)) for n in range(min(ROWS, max(1, most)), 0, -1))
    count, block = next(((n, block) for n, block in cuts if block is not None), (0, 0))
    if not block or not isinstance(size, int):
        return None
    dtype, tasks = node.dtype, (rows, count)
    lying = build.reshape(x, (*tasks, size // count // block, block))
    best = _first(op, build.reduce(op, lying, (3,)), dtype)
    beside = build.broadcast_to(build.reshape(best, (*tasks, 1)), (*tasks, block))
    chosen = build.gather(lying, [beside], (0, 1, -1, 2), (*tasks, block))
    place = build.add(build.mul(best, build.const(block, dtype, tasks)), _first(op, chosen, dtype))
    if count > 1:
        start = build.mul(build.iota(count, dtype), build.const(size // count, dtype, (count,)))
        place = build.add(place, build.broadcast_to(start, tasks))
        pieces.add(place)
        place = _first(op, build.gather(build.reshape(x, (rows, size)), [place], (0, -1), tasks), dtype, place)
    return build.reshape(place, node.shape)


def _is_searched(node: Node, by: Follower) -> bool:
    """Whether a node is the place of an extreme value along the last axis of what is large, and in memory."""
    x, axis = by.x, by.x.rank - 1
    below = shown(x, {Op.RESHAPE})
    there = below.op is Op.LEAF or below.leaf is not None
    if by.law.name != "places" or by.rest is None or not there or node.attribute.axes != (axis,) or x.elements < LARGE:
        return False
    (*_, places), at = down(by.rest, anywhere(x), REPEATING)
    return places.op is Op.IOTA and at.indices[0] == anywhere(x).indices[axis]


def _first(op: str, x: Node, dtype: DType, places: Node | None = None) -> Node:
    """The first place along the last axis of the extreme value, or of NaN."""
    size = x.shape[-1]
    found = build.eq(x, build.reduce(op, x, (x.rank - 1,), keep_axes=True))
    if x.dtype.is_float:
        found = build.binary("or", found, build.unary("isnan", x))
    places = build.iota(size, dtype) if places is None else places
    return build.reduce("min", build.where(found, places, build.const(dtype.maximum, dtype)), (x.rank - 1,))


def _block(size: IndexLike, pieces: int) -> int | None:
    """The length of blocks in which a row, cut into pieces, is searched; None where it is short, or does not divide."""
    if not isinstance(size, int) or size < LONG or size % pieces:
        return None
    length = size // pieces
    return next((n for n in range(max(2 * BLOCK, length // BLOCKS), BLOCK - 1, -1) if length % n == 0), None)

"""How an axis is cut, and what happens at its edges.

A `Cut` lists the pieces of an axis. Each level of loops runs over *segments*: stretches in which every iteration covers
the same number of elements with the same tile. Every policy for edges is a list of segments; a body is generated once
for each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from smelt.graph import Index, IndexLike, as_index, size_of, upper


class Piece(NamedTuple):
    """So many of what comes after it: one after the other (`loop`), or at once, in registers, threads or lanes."""

    kind: str
    extent: int
    stride: int = 0  # of threads: how far apart neighbors are in their group


@dataclass(frozen=True)
class Cut:
    """What an axis consists of inside its outermost loop, from the outside in: further loops, then a tile."""

    pieces: tuple[Piece, ...] = ()
    tail: str = "shrink"

    @cached_property
    def loops(self) -> tuple[int, ...]:
        return tuple(piece.extent for piece in self.pieces if piece.kind == "loop")

    @cached_property
    def levels(self) -> int:
        return 1 + len(self.loops)

    @cached_property
    def inner(self) -> tuple[Piece, ...]:
        """The pieces of the tile."""
        return tuple(piece for piece in self.pieces if piece.kind != "loop")

    @cached_property
    def tiles(self) -> tuple[int, ...]:
        """The extents of a full tile's parts."""
        return tuple(piece.extent for piece in self.inner)

    @cached_property
    def tile(self) -> int:
        return math.prod(self.tiles)

    @cached_property
    def vector(self) -> int:
        """The elements of one register: those of all its threads and lanes. Where fewer are left, it is masked."""
        return math.prod(piece.extent for piece in self.inner if piece.kind != "reg")

    def has(self, kind: str) -> bool:
        return any(piece.kind == kind for piece in self.pieces)

    def extent(self, kind: str) -> int:
        """How many elements of a kind there are."""
        return math.prod(piece.extent for piece in self.pieces if piece.kind == kind)

    def with_stride(self, stride: int) -> Cut:
        """The same, with a place for its threads in their group."""
        return replace(self, pieces=tuple(p._replace(stride=stride) if p.kind == "thread" else p for p in self.pieces))

    def width(self, level: int) -> int:
        """How many elements one iteration of a loop covers, at most."""
        return math.prod(self.loops[level:]) * self.tile


@dataclass(frozen=True, slots=True)
class Segment:
    """`count` iterations that cover `width` elements each, from `start` on."""

    start: Index
    count: Index
    width: int
    tiles: tuple[int, ...] = ()  # the tile's extents, on the innermost level
    masked: bool = False  # the tile may reach past the end
    inner: IndexLike = 0  # how many elements are left to the loops inside, on outer levels
    uneven: bool = False  # the last tile begins early enough to be whole; on outer levels the last block is shorter


def segments(total: IndexLike, cut: Cut, level: int, even: bool = False) -> list[Segment]:
    """The segments of one level of loops over `total` elements; none of them is known to be empty.

    A shorter last block is one more iteration, if all its tiles are whole, or a segment of its own (`even`).
    """
    total = size_of(total)
    whole = cut.tail == "overlap" and _are_whole(total, cut, level)
    if whole and level < cut.levels - 1:
        found = [Segment(as_index(0), _ceiling(total, cut.width(level)), cut.width(level), (), False, total, True)]
    elif whole:
        found = [Segment(as_index(0), _ceiling(total, cut.tile), cut.tile, cut.tiles, uneven=True)]
    elif level < cut.levels - 1:
        found = _blocks(total, cut, level, even)
    elif cut.tile == 1:
        found = [Segment(as_index(0), as_index(total), 1, cut.tiles)]
    elif isinstance(total, int):
        found = _static_tiles(total, cut)
    else:
        found = _symbolic_tiles(total, cut)
    return [segment for segment in found if segment.count.high > 0]


def _are_whole(total: IndexLike, cut: Cut, level: int) -> bool:
    """Whether there is a rest, and room for a whole tile in it, or in all if tiles are not in blocks."""
    rest = as_index(total) % cut.width(level)
    return rest != 0 and (rest if level < cut.levels - 1 else as_index(total)).low >= cut.tile


def _ceiling(total: IndexLike, width: int) -> Index:
    return (as_index(total) + (width - 1)) // width


def _blocks(total: IndexLike, cut: Cut, level: int, even: bool) -> list[Segment]:
    """An outer level: whole blocks, then what is left."""
    width = cut.width(level)
    whole = as_index(total) // width
    rest = as_index(total) % width
    if not even and isinstance(total, int) and whole != 0 and rest != 0 and total % cut.tile == 0:
        return [Segment(as_index(0), whole + 1, width, (), False, total, True)]
    return [
        Segment(as_index(0), whole, width, inner=width),
        Segment(whole * width, _ceiling(rest, width), width, inner=size_of(rest)),
    ]


def _static_tiles(total: int, cut: Cut) -> list[Segment]:
    step, lane = cut.tile, cut.vector
    whole, rest = divmod(total, step)
    if cut.tail == "mask" and rest:
        return [_segment(0, whole + 1, step, cut.tiles, masked=True)]
    if cut.tail == "unit" and lane == 1:
        ones = tuple(1 for _ in cut.tiles)
        return [_segment(0, whole, step, cut.tiles), _segment(whole * step, rest, 1, ones)]
    if cut.tail == "balance" and rest and cut.has("reg"):
        return _balanced(total, cut)
    last = _segment(whole * step, 1 if rest else 0, step, _registers(cut, -(-rest // lane)), masked=rest % lane != 0)
    return [_segment(0, whole, step, cut.tiles), last]


def _balanced(total: int, cut: Cut) -> list[Segment]:
    """As few tiles as possible, whose registers differ by at most one; only the last vector may be masked."""
    lane = cut.vector
    registers = -(-total // lane)
    tiles = -(-registers // cut.extent("reg"))
    small, large = divmod(registers, tiles)
    found: list[Segment] = []
    start = 0
    for count, size in ((large, small + 1), (tiles - large, small)):
        masked = bool(count) and start + count * size * lane > total
        whole = count - 1 if masked else count
        found.append(_segment(start, whole, size * lane, _registers(cut, size)))
        if masked:
            found.append(_segment(start + whole * size * lane, 1, size * lane, _registers(cut, size), masked=True))
        start += count * size * lane
    return found


def _symbolic_tiles(total: Index, cut: Cut) -> list[Segment]:
    step = cut.tile
    if cut.tail == "mask":
        return [Segment(as_index(0), _ceiling(total, step), step, cut.tiles, masked=True)]
    whole = total // step
    full = Segment(as_index(0), whole, step, cut.tiles)
    rest = total % step
    if not cut.has("lane") and not cut.has("thread"):
        return [full, Segment(whole * step, rest, 1, tuple(1 for _ in cut.tiles))]
    return [full, Segment(whole * step, _ceiling(rest, step), step, cut.tiles, masked=True)]


def _segment(start: int, count: int, width: int, tiles: tuple[int, ...], masked: bool = False) -> Segment:
    return Segment(as_index(start), as_index(count), width, tiles, masked)


def _registers(cut: Cut, count: int) -> tuple[int, ...]:
    """The extents of a tile with fewer registers."""
    return tuple(count if piece.kind == "reg" else piece.extent for piece in cut.inner)


def reach(total: IndexLike, cut: Cut, level: int = 0) -> int:
    """One past the last element that the tiles of a walk over `total` elements can touch, overshoot included."""
    return max([end for end, _ in _stretches(total, cut, level)], default=0)


def largest_tile(total: IndexLike, cut: Cut) -> tuple[int, ...]:
    """The extents that a tile can have, per part, at most; an accumulator needs no more."""
    found = [tiles for _, tiles in _stretches(total, cut, 0)]
    return tuple(max(extents) for extents in zip(*found, strict=True)) if found else tuple(1 for _ in cut.tiles)


def _stretches(total: IndexLike, cut: Cut, level: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """For each stretch of equal tiles where they end at most, and their extents."""
    for segment in segments(total, cut, level):
        before = segment.start.high + max(0, segment.count.high - 1) * segment.width
        inner = [(math.prod(segment.tiles), segment.tiles)]
        for end, tiles in inner if level == cut.levels - 1 else _stretches(segment.inner, cut, level + 1):
            yield upper(total) if segment.uneven else before + end, tiles

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

from smelt.graph import ZERO, Index, IndexLike, as_index, size_of, upper


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
    outer, width = level < cut.levels - 1, cut.width(level)
    if cut.tail == "overlap" and _are_whole(total, cut, level):
        tiles, inner = ((), size_of(total)) if outer else (cut.tiles, 0)
        found = [Segment(ZERO, _ceiling(total, width), width, tiles, inner=inner, uneven=True)]
    else:
        found = _blocks(size_of(total), cut, level, even) if outer else _tiles(as_index(total), cut)
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
        return [Segment(ZERO, whole + 1, width, (), False, total, True)]
    return [
        Segment(ZERO, whole, width, inner=width),
        Segment(whole * width, _ceiling(rest, width), width, inner=size_of(rest)),
    ]


def _tiles(total: Index, cut: Cut) -> list[Segment]:
    """The innermost level: whole tiles, then what is left, as the tail says."""
    step, lane = cut.tile, cut.vector
    whole, rest = total // step, total % step
    if cut.tail == "mask" and rest != 0:
        return [Segment(ZERO, _ceiling(total, step), step, cut.tiles, masked=True)]
    if cut.tail == "balance" and total.value is not None and rest != 0 and cut.has("reg"):
        return _balanced(total.value, cut)
    full = Segment(ZERO, whole, step, cut.tiles)
    if lane == 1 and (cut.tail == "unit" or total.value is None):
        return [full, Segment(whole * step, rest, 1, (1,) * len(cut.tiles))]
    if rest.value is None:  # a whole tile, of which any part may be there
        return [full, Segment(whole * step, _ceiling(rest, step), step, cut.tiles, masked=True)]
    tiles, masked = _registers(cut, -(-rest.value // lane)), rest.value % lane != 0
    return [full, Segment(whole * step, _ceiling(rest, step), step, tiles, masked)]


def _balanced(total: int, cut: Cut) -> list[Segment]:
    """As few tiles as possible, whose registers differ by at most one; only the last vector may be masked."""
    lane = cut.vector
    registers = -(-total // lane)
    tiles = -(-registers // cut.extent("reg"))
    small, large = divmod(registers, tiles)
    found: list[Segment] = []
    start = 0
    for count, size in ((large, small + 1), (tiles - large, small)):
        width, extents = size * lane, _registers(cut, size)
        masked = bool(count) and start + count * width > total
        whole = count - 1 if masked else count
        found.append(Segment(as_index(start), as_index(whole), width, extents))
        if masked:
            found.append(Segment(as_index(start + whole * width), as_index(1), width, extents, masked=True))
        start += count * width
    return found


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

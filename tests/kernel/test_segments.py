"""Every way to cut an axis covers every element exactly once."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from smelt.graph.index import IndexLike, Variable, as_index, of
from smelt.kernel.segments import Cut, Piece, largest_tile, reach, segments


def cut(
    loops: Sequence[int] = (),
    reg: int | None = None,
    lane: int | None = None,
    tail: str = "shrink",
    thread: int | None = None,
) -> Cut:
    tile = (("reg", reg), ("thread", thread), ("lane", lane))
    pieces = [Piece("loop", extent) for extent in loops] + [Piece(kind, n, 1) for kind, n in tile if n is not None]
    return Cut(tuple(pieces), tail)


cuts = st.builds(
    cut,
    st.lists(st.sampled_from([1, 2, 3, 5]), max_size=2),
    st.sampled_from([None, 1, 2, 3, 6]),
    st.sampled_from([None, 2, 4, 8]),
    st.sampled_from(["shrink", "balance", "overlap", "mask", "unit"]),
    thread=st.sampled_from([None, 1, 4, 16]),
)


def covered(total: IndexLike, cut: Cut, level: int, values: dict[str, int], start: int = 0) -> list[int]:
    """The elements that the tiles touch, without those past the end, and those that another tile has finished."""
    end = start + int(as_index(total).evaluate(values))
    found: list[int] = []
    for segment in segments(total, cut, level):
        for i in range(int(segment.count.evaluate(values))):
            place = start + int(segment.start.evaluate(values)) + i * segment.width
            if level < cut.levels - 1:
                inner = min(segment.width, end - place) if segment.uneven else segment.inner
                found += covered(inner, cut, level + 1, values, place)
                continue
            first = min(place, end - segment.width) if segment.uneven else place
            tile = range(first, first + math.prod(segment.tiles))
            assert first >= start and (segment.masked or all(element < end for element in tile))
            assert all(size <= most for size, most in zip(segment.tiles, cut.tiles, strict=True))
            found += [element for element in tile if place <= element < end]
    return found


@given(st.integers(0, 200), cuts)
def test_static_segments_cover_the_axis_once(total: int, cut: Cut) -> None:
    assert sorted(covered(total, cut, 0, {})) == list(range(total))


@given(st.integers(0, 90), st.sampled_from([1, 2, 4, 6]), cuts)
def test_symbolic_segments_cover_the_axis_once(total: int, times: int, cut: Cut) -> None:
    size = of(Variable("n", 0, 90)) * times
    assert sorted(covered(size, cut, 0, {"n": total})) == list(range(total * times))


@given(st.integers(0, 90), cuts)
def test_no_tile_reaches_beyond_its_reach(total: int, cut: Cut) -> None:
    n = of(Variable("n", 0, total))
    for size in (as_index(total), n):
        assert reach(size, cut) >= total
        assert reach(size, cut) <= total + 2 * cut.width(0)
        assert all(a <= b for a, b in zip(largest_tile(size, cut), cut.tiles, strict=True))


def test_balanced_tiles_differ_by_one_register() -> None:
    assert [(s.count, s.tiles) for s in segments(13, cut(reg=6, tail="balance"), 0)] == [(1, (5,)), (2, (4,))]
    assert [(s.count, s.tiles) for s in segments(13, cut(reg=6), 0)] == [(2, (6,)), (1, (1,))]


def test_only_the_last_vector_of_a_tail_is_masked() -> None:
    found = segments(77, cut(reg=4, lane=8), 0)
    assert [(s.start, s.tiles, s.masked) for s in found] == [(0, (4, 8), False), (64, (2, 8), True)]

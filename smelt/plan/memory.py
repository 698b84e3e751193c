"""Where intermediates lie: lifetimes to offsets in one arena.

Input: for each value its bytes and the first and last launch that touch it. Output: an offset each, and the size of
the arena. Values whose lifetimes meet never overlap. The bound is the largest sum of bytes alive at one launch;
placing large values first comes within a few percent of it.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from smelt.graph import Index, IndexLike, upper, variable

ALIGNMENT = 64
EXACT_LIMIT = 2000  # values up to which every pair is looked at


class Home(NamedTuple):
    """A place for values whose sizes depend on dims: the bytes of each value that lives there, and for how long."""

    nbytes: tuple[IndexLike, ...]
    first: int
    last: int


class Lifetime(NamedTuple):
    """A value lives from the launch that writes it to the last that reads it, both included."""

    nbytes: int
    first: int
    last: int


def assign(values: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Offsets, and the bytes that they need."""
    return _largest_first(values) if len(values) <= EXACT_LIMIT else _in_time(values)


def assign_sized(homes: Sequence[Home], limits: Mapping[str, int]) -> tuple[list[int], int]:
    """Offsets of homes, and the bytes that they need, while no dim is larger than its limit."""
    known: dict[IndexLike, int] = {}

    def most(nbytes: IndexLike) -> int:
        if nbytes not in known:
            known[nbytes] = upper(_limited(nbytes, limits))
        return known[nbytes]

    return assign([Lifetime(max(map(most, home.nbytes)), home.first, home.last) for home in homes])


def _limited(size: IndexLike, limits: Mapping[str, int]) -> IndexLike:
    if not isinstance(size, Index):
        return size
    return size.substitute({v: variable(v.name, v.low, limits[v.name]) for v in size.variables()})


def _rounded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _largest_first(values: Sequence[Lifetime]) -> tuple[list[int], int]:
    offsets = [0] * len(values)
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last; sorted
    total = 0
    for k in sorted(range(len(values)), key=lambda k: (-values[k].nbytes, k)):
        nbytes, begin, finish = values[k]
        size = _rounded(nbytes)
        at = 0
        for offset, end, first, last in placed:
            if last < begin or finish < first:
                continue
            if at + size <= offset:
                break
            at = max(at, end)
        offsets[k] = at
        total = max(total, at + size)
        insort(placed, (at, at + size, begin, finish))
    return offsets, total


def _in_time(values: Sequence[Lifetime]) -> tuple[list[int], int]:
    """First fit in order of time over a list of free ranges: nearly linear, for very long graphs."""
    offsets = [0] * len(values)
    free: list[tuple[int, int]] = []  # offset, size; sorted, not touching
    total = 0
    ending: dict[int, list[int]] = {}
    for k, value in enumerate(values):
        ending.setdefault(value.last, []).append(k)
    done = -1
    for k in sorted(range(len(values)), key=lambda k: values[k].first):
        while done < values[k].first - 1:
            done += 1
            for old in ending.get(done, ()):
                free = _freed(free, offsets[old], _rounded(values[old].nbytes))
        size = _rounded(values[k].nbytes)
        for position, (offset, room) in enumerate(free):
            if room >= size:
                offsets[k] = offset
                free[position : position + 1] = [(offset + size, room - size)] if room > size else []
                break
        else:
            offsets[k] = total
            total += size
    return offsets, total


def _freed(free: list[tuple[int, int]], offset: int, size: int) -> list[tuple[int, int]]:
    if size == 0:
        return free
    merged: list[tuple[int, int]] = []
    for start, room in sorted([*free, (offset, size)]):
        if merged and merged[-1][0] + merged[-1][1] == start:
            merged[-1] = (merged[-1][0], merged[-1][1] + room)
        else:
            merged.append((start, room))
    return merged

"""Where intermediates lie: lifetimes to offsets in one arena.

Input: for each value its bytes and the first and last launch that touch it. Output: an offset each, and the size of
the arena. Values whose lifetimes meet never overlap. The bound is the largest sum of bytes alive at one launch;
placing large values first comes within a few percent of it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from smelt.graph import Index, IndexLike, upper, variable

ALIGNMENT: Final = 64


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


def assign_sized(homes: Sequence[Home], limits: Mapping[str, int]) -> tuple[list[int], int]:
    """Offsets of homes, and the bytes that they need, while no dim is larger than its limit."""

    @functools.cache
    def most(nbytes: IndexLike) -> int:
        if not isinstance(nbytes, Index):
            return nbytes
        return upper(nbytes.substitute({v: variable(v.name, v.low, limits[v.name]) for v in nbytes.variables()}))

    return assign([Lifetime(max(map(most, home.nbytes)), home.first, home.last) for home in homes])


def assign(values: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Offsets, and the bytes that they need. The largest value comes first; each takes the lowest place that is free
    for as long as it lives.
    """
    order = sorted(range(len(values)), key=lambda k: -values[k].nbytes)
    sizes = [-(-values[k].nbytes // ALIGNMENT) * ALIGNMENT for k in order]
    firsts, lasts = np.array([values[k][1:] for k in order], np.int64).reshape(-1, 2).T
    starts = np.zeros(len(order), np.int64 if sum(sizes) < 1 << 63 else object)  # dims may be so large
    ends = starts + sizes
    for k, size in enumerate(sizes):
        meets = ((firsts[:k] <= lasts[k]) & (lasts[:k] >= firsts[k])).nonzero()[0]
        meets = meets[starts[meets].argsort()]
        begins, reached = starts[meets], np.maximum.accumulate(ends[meets])
        if len(meets) and begins[0] < size:
            fits = reached[:-1] + size <= begins[1:]
            starts[k] = reached[fits.argmax() if fits.any() else -1]
            ends[k] += starts[k]
    offsets = dict(zip(order, starts.tolist(), strict=True))
    return [offsets[k] for k in range(len(values))], max(ends.tolist(), default=0)

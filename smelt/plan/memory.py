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
    rounded = [-(-values[k].nbytes // ALIGNMENT) * ALIGNMENT for k in order]
    most = sum(rounded)
    number = np.int64 if most < 1 << 63 else object  # dims may be so large
    sizes, starts = np.array(rounded, number), np.zeros(len(rounded), number)
    firsts, lasts = np.array([values[k][1:] for k in order], np.int64).reshape(-1, 2).T
    for k, size in enumerate(rounded):
        meets = np.flatnonzero((firsts[:k] <= lasts[k]) & (lasts[:k] >= firsts[k]))
        if len(meets):
            meets = meets[np.argsort(starts[meets])]
            # Where gaps begin, the first at 0 and the last behind everything, and where they end.
            begins = np.append(0, np.maximum.accumulate(starts[meets] + sizes[meets]))
            starts[k] = begins[np.argmax(begins + size <= np.append(starts[meets], most))]
    offsets = dict(zip(order, starts.tolist(), strict=True))
    return [offsets[k] for k in range(len(values))], int(max(starts + sizes, default=0))

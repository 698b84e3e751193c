"""What a run leaves to others: cases that take turns, and shards.

Of the cases of a test marked `by_turns(n)` a sampled run takes one in n, and of fewer than n none at some turns;
SMELT_TEST_TURN says which. Without that variable it takes all of them, and so does SMELT_TEST_ALL=1.
SMELT_TEST_SHARD=2/3 runs the second third of whatever would be run. Continuous integration derives both from the
commit, so that a few commits see everything.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, TypeVar
from zlib import crc32

import pytest

T = TypeVar("T")

TEST_ALL: Final = os.environ.get("SMELT_TEST_ALL") == "1"
TURN: Final = int(os.environ.get("SMELT_TEST_TURN") or 0)
_TAKES_TURNS: Final = bool(os.environ.get("SMELT_TEST_TURN")) and not TEST_ALL


def one_in(count: int, cases: Sequence[T], offset: int = 0) -> Sequence[T]:
    """Of cases inside of a test, those whose turn it is in a sampled run; all where everything is tested."""
    return cases if TEST_ALL else cases[(TURN + offset) % min(count, max(1, len(cases))) :: count]


def in_turn(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """The items whose turn it is."""
    if not _TAKES_TURNS:
        return set(items)
    chosen = set()
    for name, group in groupby(items, lambda item: item.nodeid.partition("[")[0]):
        # In no order that the parameters know of, so that a turn has some of each.
        cases = sorted(group, key=lambda item: _hash(item.nodeid))
        marker = cases[0].get_closest_marker("by_turns")
        count = marker.args[0] if marker else 1
        chosen.update(cases[(_hash(name) + TURN) % count :: count])
    return chosen


def in_shard(items: set[pytest.Item]) -> set[pytest.Item]:
    """The items of the shard that SMELT_TEST_SHARD names."""
    number, count = map(int, (os.environ.get("SMELT_TEST_SHARD") or "1/1").split("/"))
    return {item for item in items if _hash(item.nodeid) % count == number - 1}


def _hash(text: str) -> int:
    """The same in every process."""
    return crc32(text.encode())

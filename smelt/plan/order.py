"""The order of launches: as given, but what frees at least as much memory as it takes runs as soon as it can.

In a gradient graph, for one, the updates of parameters would otherwise wait until the way back is over, with all that
they read alive.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple


class Step(NamedTuple):
    """What a launch reads and writes. Several launches may write one value: parts of it, one after the other."""

    reads: frozenset[Hashable]
    writes: frozenset[Hashable]


def reordered(steps: Sequence[Step], sizes: Mapping[Any, int]) -> list[int]:
    """The numbers of the steps in a new order. `sizes` are the bytes of values that live only between launches."""
    waits, followers = _dependencies(steps)
    users: dict[Hashable, int] = {}  # launches that have not touched a value yet
    for step in steps:
        for value in step.reads | step.writes:
            users[value] = users.get(value, 0) + 1
    alive: set[Hashable] = set()
    ready = [k for k, count in enumerate(waits) if count == 0]
    order: list[int] = []

    def gain(k: int) -> int:
        """Bytes that a step frees, less those that it takes."""
        step = steps[k]
        freed = sum(sizes.get(value, 0) for value in step.reads | step.writes if users[value] == 1)
        return freed - sum(sizes.get(value, 0) for value in step.writes if value not in alive)

    while ready:
        gains = {k: gain(k) for k in ready}
        best = max(ready, key=lambda k: (gains[k], -k))
        chosen = best if gains[best] >= 0 else min(ready)
        ready.remove(chosen)
        order.append(chosen)
        alive |= steps[chosen].writes
        for value in steps[chosen].reads | steps[chosen].writes:
            users[value] -= 1
        for k in followers[chosen]:
            waits[k] -= 1
            if waits[k] == 0:
                ready.append(k)
    return order


def _dependencies(steps: Sequence[Step]) -> tuple[list[int], list[list[int]]]:
    """For each step, how many others it waits for, and which wait for it."""
    waits = [0] * len(steps)
    followers: list[list[int]] = [[] for _ in steps]
    writers: dict[Hashable, list[int]] = {}
    readers: dict[Hashable, list[int]] = {}
    for k, step in enumerate(steps):
        before = {j for value in step.reads | step.writes for j in writers.get(value, ())}
        before |= {j for value in step.writes for j in readers.get(value, ())}
        waits[k] = len(before)
        for j in before:
            followers[j].append(k)
        for value in step.writes:
            writers.setdefault(value, []).append(k)
        for value in step.reads:
            readers.setdefault(value, []).append(k)
    return waits, followers

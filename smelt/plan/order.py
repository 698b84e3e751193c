"""The order of launches: as given, but what frees at least as much memory as it takes runs as soon as it can.

In a gradient graph, for one, the updates of parameters would otherwise wait until the way back is over, with all that
they read alive.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple


class Step(NamedTuple):
    """What a launch reads and writes. Several launches may write one value: parts of it, one after the other."""

    reads: frozenset[Hashable]
    writes: frozenset[Hashable]


def reordered(steps: Sequence[Step], sizes: Mapping[Any, int]) -> list[int]:
    """The numbers of the steps in a new order. `sizes` are the bytes of values that live only between launches."""
    waits, followers = _dependencies(steps)
    touching: dict[Hashable, list[int]] = {}  # by value, the steps that read or write it
    for k, step in enumerate(steps):
        for value in step.reads | step.writes:
            touching.setdefault(value, []).append(k)
    users = {value: len(those) for value, those in touching.items()}  # launches that have not touched a value yet
    alive: set[Hashable] = set()
    # Of the steps that are ready, the least of which is next: bytes that each takes beyond those that it frees, all
    # losses being alike, and its number. The heap may hold what is no longer so.
    losses: dict[int, tuple[int, int]] = {}
    heap: list[tuple[int, int]] = []
    order: list[int] = []

    def weigh(k: int) -> None:
        step = steps[k]
        freed = sum(sizes.get(value, 0) for value in step.reads | step.writes if users[value] == 1)
        loss = sum(sizes.get(value, 0) for value in step.writes if value not in alive) - freed
        losses[k] = min(loss, 1), k
        heappush(heap, losses[k])

    for k, count in enumerate(waits):
        if count == 0:
            weigh(k)
    while losses:
        least = heappop(heap)
        chosen = least[1]
        if losses.get(chosen) != least:
            continue
        del losses[chosen]
        order.append(chosen)
        changed: set[int] = set()
        for value in steps[chosen].reads | steps[chosen].writes:
            users[value] -= 1
            if users[value] == 1 or (value in steps[chosen].writes and value not in alive):
                changed.update(touching[value])
        alive |= steps[chosen].writes
        for k in changed & losses.keys():
            weigh(k)
        for k in followers[chosen]:
            waits[k] -= 1
            if waits[k] == 0:
                weigh(k)
    return order


def _dependencies(steps: Sequence[Step]) -> tuple[list[int], list[list[int]]]:
    """For each step, how many others it waits for, and which wait for it."""
    waits = [0] * len(steps)
    followers: list[list[int]] = [[] for _ in steps]
    writers: dict[Hashable, int] = {}  # the last one so far: it has waited for all that was done to the value before
    readers: dict[Hashable, list[int]] = {}  # since then
    for k, step in enumerate(steps):
        before = {writers[value] for value in step.reads | step.writes if value in writers}
        before |= {j for value in step.writes for j in readers.pop(value, ())}
        waits[k] = len(before)
        for j in before:
            followers[j].append(k)
        for value in step.writes:
            writers[value] = k
        for value in step.reads:
            readers.setdefault(value, []).append(k)
    return waits, followers

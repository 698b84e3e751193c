"""Programs over a queue, with one that only counts."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from smelt.device import Launch, Listing
from smelt.device.queue import Program


class Counting:
    """A queue and a library in which every launch takes as many seconds as it has tasks."""

    lock = contextlib.nullcontext()

    def kernel(self, step: Launch) -> str:
        return step.kernel

    def launch(self, kernel: Any, tasks: int, threads: int, addresses: Iterable[int], integers: Sequence[int]) -> int:
        return tasks

    def seconds(self, launched: int) -> float:
        return float(launched)

    def flush(self) -> None:
        """Nothing waits."""


def test_launches_without_tasks_have_their_place_among_the_times() -> None:
    steps = [Launch(0, "k", "d0", 0, 1, 1, (0,), (0,)), Launch(0, "k", "", 3, 1, 1, (0,), ())]
    queue: Any = Counting()
    program = Program(queue, Listing(steps, [(1, 0)]), [queue])
    taken = []
    for size in (0, 2):
        program.run(struct.pack("2q", 0, 64), struct.pack("q", size))
        taken.append(program.launch_seconds())
    assert taken == [[0.0, 3.0], [2.0, 3.0]]

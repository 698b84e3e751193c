"""Programs in processes of their own, which a crash or an endless loop ends without ending the hunt."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import NamedTuple

PATIENCE = 300.0  # seconds for one program, on a busy machine


class Outcome(NamedTuple):
    seed: int
    way: str
    seconds: float  # of processor time
    fault: str  # empty: none


def _processor_time() -> float:
    """Of this process and its C compilers."""
    return sum(os.times()[:4])


def tried(seed: int) -> Outcome:
    """Run the program of a seed, and make it shorter if it goes wrong."""
    from tests.hunt.ways import difference, program_for, reduced

    start = _processor_time()
    program, way = program_for(seed)
    fault = difference(program, way)
    if fault is not None:
        shorter = reduced(program, way)
        fault = f"{shorter}\n{difference(shorter, way) or fault}"
    return Outcome(seed, way, _processor_time() - start, fault or "")


def _work(pipe: Connection, seeds: range) -> None:
    from smelt.errors import TraceWarning

    warnings.simplefilter("ignore", TraceWarning)  # of many sizes at one line: that is what a hunt is
    for seed in seeds:
        pipe.send(tried(seed))


class _Worker:
    """A process that walks through seeds, and where it is."""

    def __init__(self, seeds: range) -> None:
        self.seeds, self.heard = seeds, time.monotonic()
        if seeds:
            context = get_context("spawn")
            self.pipe, theirs = context.Pipe()
            self.process = context.Process(target=_work, args=(theirs, seeds), daemon=True)
            self.process.start()
            theirs.close()

    def outcome(self) -> Outcome:
        try:
            found = self.pipe.recv()
        except EOFError:
            return self.stopped("the process died")
        self.seeds, self.heard = self.seeds[1:], time.monotonic()
        return found

    def stopped(self, fault: str) -> Outcome:
        """The fault of the program that runs; another process goes on behind it."""
        self.process.kill()
        self.process.join()
        seed = self.seeds[0]
        self.__init__(self.seeds[1:])  # type: ignore[misc]
        return Outcome(seed, "?", 0.0, f"{fault}: python -m tests.hunt --count 1 --seed {seed}")


def outcomes(seeds: range, processes: int) -> Iterator[Outcome]:
    """Of all seeds, as they come in."""
    if processes == 1:
        yield from map(tried, seeds)
        return
    workers = [_Worker(seeds[k::processes]) for k in range(processes)]
    while busy := [worker for worker in workers if worker.seeds]:
        ready = wait([worker.pipe for worker in busy], timeout=10.0)
        for worker in busy:
            if worker.pipe in ready:
                yield worker.outcome()
            elif time.monotonic() - worker.heard > PATIENCE:
                yield worker.stopped(f"no result after {PATIENCE:.0f} seconds")

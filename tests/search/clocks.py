"""Simulated machines: clocks with heavy tails and slow phases, on which it is known who is faster."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from smelt.search.contender import Timed
from smelt.search.race import MARK, race


@dataclass
class Machine:
    """Contenders take `seconds`, each run a little longer: now and then much longer, and in slow phases all of them."""

    seconds: Sequence[float]
    rng: random.Random
    noise: float = 0.02
    tail: float = 0.05  # how often a run is disturbed by far more than that
    phase: float = 0.3  # the share of turns in slow phases
    at: float = 0.0
    slow: bool = False

    def now(self) -> float:
        return self.at

    def clock(self, order: Sequence[int]) -> list[float]:
        if self.rng.random() < 0.1:
            self.slow = self.rng.random() < self.phase
        found = []
        for number in order:
            taken = (50e-6 if number == MARK else self.seconds[number]) * (1 + abs(self.rng.gauss(0, self.noise)))
            taken *= 1.4 if self.slow else 1.0
            if self.rng.random() < self.tail:
                taken *= 1 + self.rng.paretovariate(1.5)
            found.append(taken)
            self.at += taken
        return found

    def raced(self, budget: float = 1.0) -> list[Timed]:
        """The results of a race on this machine."""
        return race(self.clock, len(self.seconds), budget, self.now, self.rng)


def duel(ratio: float, rng: random.Random, long: float = 1.0, **noise: float) -> Timed:
    """What a fresh process finds out about a contender that is so much faster than the incumbent. Runs may be long."""
    return Machine((long * 1e-3, long * 1e-3 / ratio), rng, **noise).raced(long)[1]

"""How long tuning may take, and how that time is shared out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from smelt.errors import ArgumentError
from smelt.search import climb
from smelt.tuning.watching import Program, Watched

_SETTLE_SECONDS: Final = 9.0  # for comparing whole programs, if their calls are short
LARGEST: Final = 0.6  # of the time: a comparison that takes longer leaves none to find anything
_LEAST_SETTLING: Final = 4  # calls, if more would take longer than this share of the time
_SETTLED: Final = 0.1
_CONFIRMING: Final = 0.15  # of the time is for whole programs, at most
_STARTING: Final = 0.1  # seconds of a script, besides what it computes


@dataclass(frozen=True)
class Budget:
    """How long tuning may take, in all and for one kernel whose runs are short."""

    name: str
    seconds: float
    each: float
    stale: int = climb.STALE  # rounds without anything better, after which a kernel is left alone

    @classmethod
    def of(cls, budget: str | float) -> Budget:
        """From "quick", "max", a number of seconds, or a text like "90s"."""
        if isinstance(budget, str) and budget in BUDGETS:
            return BUDGETS[budget]
        found = re.fullmatch(r"(\d+(?:\.\d+)?)s?", str(budget))
        if not found or not 1 <= float(found[1]) <= 1e6:
            raise ArgumentError(
                f"tune: {budget!r:.40} is no budget",
                hint='Give "quick", "max", or seconds from 1 on, as in 90 or "90s".',
            )
        return cls(f"{found[1]} s", float(found[1]), float(found[1]))


BUDGETS: Final = {"quick": Budget("quick", 10.0, 1.15, 1), "max": Budget("max", 600.0, 60.0, 4)}


class Pace:
    """Shares out the time of a budget: it begins when the program has run once."""

    def __init__(self, budget: Budget, calls: int, clock: Callable[[], float]) -> None:
        self.budget, self.calls, self.now = budget, calls, clock
        self.count, self.once = 0, 0.0  # how often it ran, and what the last time took
        self.whole_seconds = 0.0  # that it takes at least to compare what was found in whole programs
        self.began = self._last = clock()
        self._before: dict[int, int] = {}  # how often programs had run before the last time

    def is_settled(self, watched: Watched) -> bool:
        """Whether the program has run often enough; asked before each time."""
        now = self.now()
        done, self.count = self.count, self.count + 1
        if done:
            # Some time on the way, what can be prepared is compiled anew.
            self.once = min(now - self._last, self.once if done > 1 else math.inf)
        self._last = now
        if done <= 1:  # the first time, everything was compiled
            self.began = now
        if done >= self.calls or (done >= _LEAST_SETTLING and now - self.began > _SETTLED * self.budget.seconds):
            self.count = done
            return True
        self._before = {key: program.calls for key, program in watched.programs.items()}
        return False

    def latest(self, watched: Watched) -> list[Program]:
        """The programs that ran the last time: what ran before inputs were prepared will not run again."""
        return [program for key, program in watched.programs.items() if program.calls > self._before.get(key, 0)]

    def comparing(self, calls: int, programs: Sequence[Program]) -> float:
        """How long it takes to compare versions of programs in so many calls."""
        running = sum(program.seconds for program in programs)
        # What ran once was compiled meanwhile: that will not take time again.
        once = min(self.once, 2 * running + _STARTING) if self.count == 1 else self.once
        often = max([1, *(program.calls // self.count for program in programs)])
        return once * -(-calls // often)

    @property
    def end(self) -> float:
        """When all of it ends."""
        return self.began + self.budget.seconds

    @property
    def left(self) -> float:
        """Seconds that are left for kernels."""
        reserved = max(min(_CONFIRMING * self.budget.seconds, _SETTLE_SECONDS), 1.25 * self.whole_seconds)
        return self.end - min(reserved, LARGEST * self.budget.seconds) - self.now()

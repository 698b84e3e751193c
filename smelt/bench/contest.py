"""Contenders in processes of their own, timed in alternation.

A contender is a child process that prepares one case, says that it is ready, and then runs it as often as it is told,
answering with the seconds per call. Threads, allocators and caches of one library so never meet those of another.
`serve` is the child's side.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from smelt.bench.report import Bounds, Measured
from smelt.bench.timing import ChildError, relative_error
from smelt.search import race

_LEAST_ROUNDS, _TOLERANCE = 5, 0.02


class Contender:
    """A running child; use it in a `with` block."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
            cwd=folder,
            text=True,
        )
        self.facts: dict[str, Any] = {}

    def __enter__(self) -> Contender:
        try:
            self.facts = self._answer()
        except ChildError:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def seconds(self, calls: int) -> float:
        """Seconds per call."""
        return float(self.ask(str(calls))["seconds"])

    def ask(self, text: str) -> dict[str, Any]:
        """What the child answers to one line."""
        assert self._process.stdin is not None
        try:
            print(text, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            pass  # how it ended is found when the answer is read
        answer = self._answer()
        if "error" in answer:
            raise ChildError(str(answer["error"]))
        return answer

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ChildError(f"a contender ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@dataclass(frozen=True)
class Contest:
    """Two contenders: their seconds per call, round by round, and what the mark took beside the first.

    `ratio` is the median of the paired ratios: above 1, the first is faster.
    """

    times: Sequence[tuple[float, float]]
    marks: Sequence[float] = ()

    @property
    def ratio(self) -> Bounds:
        return bounded([b / a for a, b in self.times])

    @property
    def error(self) -> float:
        """How uncertain the ratio still is, as a share of it."""
        return relative_error([b / a for a, b in self.times])

    @property
    def first(self) -> Bounds:
        return bounded([a for a, _ in self.times])

    @property
    def second(self) -> Bounds:
        return bounded([b for _, b in self.times])

    def measured(self, **more: Any) -> Measured:
        """What is reported of the first, with `more` than is known here."""
        firsts = [a for a, _ in self.times]
        low, _, high = statistics.quantiles(firsts, n=4) if len(firsts) > 1 else (0.0, 0.0, 0.0)
        marks = bounded([a / mark for a, mark in zip(firsts, self.marks, strict=True)]) if self.marks else None
        spread = (high - low) / statistics.median(firsts)
        known: dict[str, Any] = {"seconds": self.first, "spread": spread, "ratio": self.ratio, "marks": marks}
        return Measured(**known | {"rounds": len(firsts)} | more)


def bounded(values: Sequence[float]) -> Bounds:
    """The median, with bounds that hold whatever the distribution is."""
    return Bounds(statistics.median(values), *race.bounds(values))


def contest(first: Contender, second: Contender, *, window: float = 0.2, most: int = 25) -> Contest:
    """Rounds in alternation, each of as many calls as fill `window` seconds, until the ratio is known well."""
    calls = [max(1, round(window / max(contender.seconds(1), 1e-9))) for contender in (first, second)]
    found = Contest([])
    while len(found.times) < most and (len(found.times) < _LEAST_ROUNDS or found.error > _TOLERANCE):
        # Who begins alternates too.
        late = second.seconds(calls[1]) if len(found.times) % 2 else None
        answer = first.ask(str(calls[0]))
        times = (float(answer["seconds"]), second.seconds(calls[1]) if late is None else late)
        marks = (float(answer["mark"]),) if "mark" in answer else ()
        found = Contest((*found.times, times), (*found.marks, *marks))
    return found


def alone(contender: Contender, *, window: float = 0.2, most: int = 25) -> Contest:
    """Rounds of one contender that has nobody to meet but itself."""
    calls = max(1, round(window / max(contender.seconds(1), 1e-9)))
    answers = [contender.ask(str(calls)) for _ in range(min(most, 2 * _LEAST_ROUNDS))]
    times = [float(answer["seconds"]) for answer in answers]
    return Contest([(time, time) for time in times], [float(answer["mark"]) for answer in answers if "mark" in answer])


def serve(call: Callable[[], object], facts: Mapping[str, Any], mark: Callable[[], float] | None = None) -> None:
    """Say what was prepared, then answer each number on stdin with the seconds per call of so many calls."""
    print(json.dumps(facts), flush=True)
    for line in sys.stdin:
        seconds = seconds_per_call(call, int(line))
        beside = {} if mark is None else {"mark": mark()}
        come_to_rest()
        print(json.dumps({"seconds": seconds} | beside), flush=True)


def pin(threads: int) -> None:
    """Keep the process on so many of its cores: every library then sees no more of them."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def seconds_per_call(call: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def come_to_rest(longest: float = 0.5) -> None:
    """Wait until the threads of this process sleep, for then others can be measured.

    OpenBLAS, for one, keeps its threads spinning for an eighth of a second after a call: on two cores, whoever comes
    next has one of them left.
    """
    until = time.perf_counter() + longest
    while time.perf_counter() < until:
        began, used = time.perf_counter(), time.process_time()
        time.sleep(0.01)
        if time.process_time() - used < 0.2 * (time.perf_counter() - began):
            return

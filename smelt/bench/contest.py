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

from smelt.bench.timing import ChildError, relative_error

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


@dataclass(frozen=True, slots=True)
class Contest:
    """Two contenders. `ratio` is the median of the paired ratios: above 1, the first is faster."""

    ratio: float
    error: float  # how uncertain the ratio still is, as a share of it
    first: float  # median seconds per call
    second: float
    rounds: int


def contest(first: Contender, second: Contender, *, window: float = 0.2, most: int = 25) -> Contest:
    """Rounds in alternation, each of as many calls as fill `window` seconds, until the ratio is known well."""
    calls = [max(1, round(window / max(contender.seconds(1), 1e-9))) for contender in (first, second)]
    times: list[tuple[float, float]] = []
    error = float("inf")
    while len(times) < most and (len(times) < _LEAST_ROUNDS or error > _TOLERANCE):
        times.append((first.seconds(calls[0]), second.seconds(calls[1])))
        error = relative_error([b / a for a, b in times])
    ratio = statistics.median(b / a for a, b in times)
    medians = (statistics.median(a for a, _ in times), statistics.median(b for _, b in times))
    return Contest(ratio, error, *medians, len(times))


def serve(call: Callable[[], object], facts: Mapping[str, Any]) -> None:
    """Say what was prepared, then answer each number on stdin with the seconds per call of so many calls."""
    print(json.dumps(facts), flush=True)
    for line in sys.stdin:
        seconds = seconds_per_call(call, int(line))
        come_to_rest()
        print(json.dumps({"seconds": seconds}), flush=True)


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

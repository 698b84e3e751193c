"""How things are timed: the best of several rounds, contenders in alternation, and whole processes.

The clock is `time.perf_counter` unless said otherwise. Nothing here knows what it measures.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.errors import SmeltError

CHILD_SECONDS = 600.0  # a child that takes longer has hung
_MOST_CALLS = 1_000_000
Clock = Callable[[], float]
_SHOWN_LINES = 12  # of what a failed child wrote to stderr


class ChildError(SmeltError, RuntimeError):
    """A child process that failed, or did not print what was asked for."""


# --- calls


def best_of(
    function: Callable[[], object],
    *,
    rounds: int = 5,
    window: float = 0.002,
    pause: float = 0.0,
    clock: Clock = time.perf_counter,
) -> float:
    """Seconds per call: the fastest of `rounds` rounds, each of as many calls as fill `window` seconds.

    The window is shorter than the turns that a scheduler gives, so that on a busy machine some rounds are undisturbed.
    A `pause` between rounds spreads them over the seconds for which a neighbor on the same machine may be busy.
    """
    calls = _calls_filling(function, window, clock)
    best = _round(function, calls, clock)
    for _ in range(rounds - 1):
        if pause:
            time.sleep(pause)
            _round(function, calls, clock)  # after a rest the caches are cold
        best = min(best, _round(function, calls, clock))
    return best


@dataclass(frozen=True, slots=True)
class Paired:
    """Two contenders timed in alternation. `ratio` is the median of the paired ratios: above 1, the first is faster."""

    ratio: float
    error: float  # how uncertain the ratio still is, as a share of it
    first: float  # median seconds per call
    second: float
    first_best: float  # seconds per call in the best round
    second_best: float
    rounds: int


def paired(
    first: Callable[[], object],
    second: Callable[[], object],
    *,
    window: float = 0.02,
    least: int = 7,
    most: int = 101,
    tolerance: float = 0.01,
    clock: Clock = time.perf_counter,
) -> Paired:
    """Time two functions in alternating rounds, until the median ratio is known to within `tolerance`.

    A disturbance hits both halves of a round, or spoils that round alone. There are at least `least` rounds, and at
    most `most`. With `time.process_time` for a clock, what other processes do does not count, and what the threads of
    this one do counts together.
    """
    calls = _calls_filling(first, window, clock), _calls_filling(second, window, clock)
    times: list[tuple[float, float]] = []
    while True:
        # Who goes first alternates too, so that neither always finds the other's data in the caches.
        if len(times) % 2:
            late = _round(second, calls[1], clock)
            times.append((_round(first, calls[0], clock), late))
        else:
            early = _round(first, calls[0], clock)
            times.append((early, _round(second, calls[1], clock)))
        ratios = [b / a for a, b in times]
        ratio, error = statistics.median(ratios), relative_error(ratios)
        if len(times) >= most or (len(times) >= least and error <= tolerance):
            break
    firsts, seconds = [a for a, _ in times], [b for _, b in times]
    medians = statistics.median(firsts), statistics.median(seconds)
    return Paired(ratio, error, *medians, min(firsts), min(seconds), len(times))


def _round(function: Callable[[], object], calls: int, clock: Clock) -> float:
    start = clock()
    for _ in range(calls):
        function()
    return (clock() - start) / calls


def _calls_filling(function: Callable[[], object], window: float, clock: Clock) -> int:
    """How many undisturbed calls fill the window; the calls made here are the warm-up.

    The best of three decides, since contenders whose rounds differ in length are not disturbed equally often.
    """
    calls = 1
    function()
    while True:
        seconds = min(_round(function, calls, clock) for _ in range(3))
        if seconds * calls >= window / 8 or calls >= _MOST_CALLS:
            return max(1, min(_MOST_CALLS, round(window / max(seconds, 1e-9))))
        calls *= 2


def relative_error(values: Sequence[float]) -> float:
    """The standard error of the median, estimated from the quartiles and as a share of the median."""
    if len(values) < 4:
        return float("inf")
    low, middle, high = statistics.quantiles(values, n=4)
    # The quartiles of normal noise lie 1.349 deviations apart; its median strays 1.253 times as far as its mean.
    return (high - low) / 1.349 * 1.253 / math.sqrt(len(values)) / middle


# --- processes


def run_process(
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    timeout: float = CHILD_SECONDS,
    folder: Path | None = None,
) -> tuple[float, str]:
    """Run this Python with `arguments`, in `folder`; give the seconds from start to end, and what it printed."""
    command = [sys.executable, *arguments]
    start = time.perf_counter()
    try:
        done = subprocess.run(
            command,
            # An empty value lets Python keep byte code, as installed packages have it: a start is no test of parsing.
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", **(environment or {})},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ChildError(f"a benchmark's process was still running after {timeout:.0f} seconds") from None
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[-_SHOWN_LINES:])
        raise ChildError(f"a benchmark's process ended with status {done.returncode}", rule=tail)
    return seconds, done.stdout


def run_json(
    arguments: Sequence[str], environment: Mapping[str, str] | None = None, *, folder: Path | None = None
) -> Any:
    """Run this Python with `arguments` and parse what it printed as JSON."""
    _, text = run_process(arguments, environment, folder=folder)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ChildError(f"a benchmark's process printed no JSON: {error}", rule=text[:200]) from None


def processes_in_turn(contenders: Sequence[Callable[[], float]], rounds: int) -> list[list[float]]:
    """What each contender measures, round by round in alternation, after one unrecorded round to warm the disk."""
    for contender in contenders:
        contender()
    times: list[list[float]] = [[] for _ in contenders]
    for _ in range(rounds):
        for contender, taken in zip(contenders, times, strict=True):
            taken.append(contender())
    return times


@contextmanager
def private_cache() -> Iterator[dict[str, str]]:
    """The environment of a process that starts with an empty cache, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="smelt-bench-") as folder:
        yield {"SMELT_CACHE_DIR": folder, "SMELT_DISK_CACHE": "1"}

"""The cpu suite: for each case, all contenders are screened, then smelt meets the fastest in a contest."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from smelt.bench.contest import Contender, Contest, contest
from smelt.bench.cpu.cases import CASES, GROUPS, Case, Group
from smelt.bench.cpu.library import TUNING_PEERS, competes, installed
from smelt.bench.cpu.memory import memory_row
from smelt.bench.report import Row
from smelt.bench.timing import ChildError

_BAR_THREADS = 2
THREAD_VARIABLES = ("SMELT_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_COPIED, _COPIED_QUICKLY = 1 << 30, 1 << 26  # bytes moved for the machine's own figures: 512 MB copied

Progress = Callable[[str], None]


class Ring:
    """The running contenders of one number of threads, each started when it is first asked for."""

    def __init__(self, threads: int, folder: str, quick: bool) -> None:
        self.threads, self.quick = threads, quick
        self._folder = folder
        self._running: dict[str, Contender] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Ring:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
        self._running.clear()

    def prepare(self, library: str, case: str) -> dict[str, Any]:
        """Make a contender ready for a case; gives its facts. A contender that refuses or dies is a ChildError."""
        if library not in self._running:
            words = ["smelt.bench.cpu.contender", library, str(self.threads), self._folder]
            environment = {name: str(self.threads) for name in THREAD_VARIABLES}
            contender = Contender([*words, *(["quick"] if self.quick else [])], environment)
            self._running[library] = self._stack.enter_context(contender)
        try:
            return self._running[library].ask(f"case {case}")
        except ChildError:
            self.dismiss(library)
            raise

    def contest(self, first: str, second: str) -> Contest:
        window, most = (0.05, 5) if self.quick else (0.1, 25)
        return contest(self._running[first], self._running[second], window=window, most=most)

    def dismiss(self, library: str) -> None:
        contender = self._running.pop(library, None)
        if contender is not None:
            contender.__exit__(None, None, None)


def chosen(names: Sequence[str], groups: Mapping[str, Group] = GROUPS) -> dict[str, list[str]]:
    """The cases that names of groups and cases stand for, by group; all of them when there is no name."""
    wanted = {
        group: [name for name in groups[group].cases if not names or group in names or name in names]
        for group in groups
    }
    return {group: cases for group, cases in wanted.items() if cases}


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def measure_cpu(
    names: Sequence[str],
    threads: Sequence[int],
    peers: Sequence[str],
    quick: bool,
    progress: Progress,
    groups: Mapping[str, Group] = GROUPS,
) -> list[Row]:
    """The machine's own figures, then a row for each case and number of threads, and the geometric means."""
    peers = [peer for peer in peers if installed(peer)]
    with tempfile.TemporaryDirectory(prefix="smelt-bench-") as folder:
        rows = [row for count in threads for row in _machine(count, folder, quick, progress)]
        for group, cases in chosen(names, groups).items():
            if groups[group].memory:
                progress(f"{group}: {CASES[cases[0]].summary}")
                rows.append(memory_row(quick))
                continue
            for count in threads:
                with Ring(count, folder, quick) as ring:
                    rows += _group(ring, group, groups[group], cases, peers, progress)
            for file in Path(folder).iterdir():
                file.unlink()
    return rows


def _machine(threads: int, folder: str, quick: bool, progress: Progress) -> list[Row]:
    progress(f"the machine itself, {_threads(threads)}")
    with Ring(threads, folder, quick) as ring:
        flops = ring.prepare("peak", "multiply-adds")
        moved = _COPIED_QUICKLY if quick else _COPIED
        copied = ring.prepare("copy", str(moved))
    words = _threads(threads)
    return [
        Row(f"machine: multiply-adds, {words}", flops["flops"] / flops["seconds"], "GFLOP/s", detail="float32"),
        Row(
            f"machine: copy, {words}",
            moved / copied["seconds"],
            "GB/s",
            detail=f"{moved >> 21} MB with plain stores; bytes read and written",
        ),
    ]


def _group(
    ring: Ring, title: str, group: Group, cases: Sequence[str], peers: Sequence[str], progress: Progress
) -> list[Row]:
    judged = not ring.quick and (ring.threads == _BAR_THREADS or group.always)
    rows: list[Row] = []
    for name in cases:
        progress(f"{name}, {_threads(ring.threads)}: {CASES[name].summary}")
        try:
            rows.append(_case(ring, name, peers, _bar(group, CASES[name]) if judged else None))
        except ChildError as error:
            rows.append(Row(f"{name}, {_threads(ring.threads)}", None, "×", detail=f"smelt: {_first_line(error)}"))
    ratios = [row.figure for row in rows if row.figure and row.unit == "×"]
    if group.geomean and len(cases) > 1 and ratios:
        geomean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        complete = len(ratios) == len(group.cases)
        bar = group.geomean if judged and complete else None
        name = f"{title}: geometric mean, {_threads(ring.threads)}"
        rows.append(Row(name, geomean, "×", bar, at_least=True, detail="" if complete else "of a part of the group"))
    return rows


def _bar(group: Group, case: Case) -> float | None:
    return group.each if case.bar is None else case.bar


def _case(ring: Ring, name: str, peers: Sequence[str], bar: float | None) -> Row:
    case = CASES[name]
    notes: list[str] = []
    times: dict[str, float] = {}
    best: str | None = None
    for peer in (peer for peer in peers if competes(peer, case.peers)):
        try:
            facts = ring.prepare(peer, name)
            times[peer] = float(facts["seconds"])
            notes += [f"{peer} searched for {facts['first']:.1f} s"] if peer in TUNING_PEERS else []
        except ChildError as error:
            notes.append(f"{peer} failed: {_first_line(error)}")
            continue
        slower = best if best is None or times[peer] < times[best] else peer
        best = min(times, key=lambda peer: times[peer])
        if case.heavy and slower is not None:
            ring.dismiss(slower)
    ours = float(ring.prepare("smelt", name)["seconds"])
    screened = ", ".join(f"{peer} {_milliseconds(times[peer])}" for peer in sorted(times, key=lambda peer: times[peer]))
    opponent = "copy" if case.share else best
    if opponent is None:
        detail = "; ".join(["nobody to compete with", *notes, case.summary])
        return Row(f"{name}, {_threads(ring.threads)}", ours, "ms", detail=detail)
    if case.share:
        ring.prepare(opponent, str(int(case.nbytes)))
    found = ring.contest("smelt", opponent)
    if case.heavy:
        ring.dismiss("smelt")
        ring.dismiss(opponent)
    parts = [
        f"{_milliseconds(found.first)}{_speed(case, found.first, ring.quick)} against "
        f"{_milliseconds(found.second)} ({opponent})",
        f"±{100 * found.error:.0f} % after {found.rounds} rounds",
        *([f"screened: {screened}"] if len(times) > 1 or case.share else []),
        *notes,
        "a small one in its place" if ring.quick and case.quick else case.summary,
    ]
    return Row(f"{name}, {_threads(ring.threads)}", found.ratio, "×", bar, at_least=True, detail="; ".join(parts))


def _speed(case: Case, seconds: float, quick: bool) -> str:
    if quick and case.quick:
        return ""
    if case.flops:
        return f", {1e-9 * case.flops / seconds:.0f} GFLOP/s,"
    return f", {1e-9 * case.nbytes / seconds:.1f} GB/s,"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"

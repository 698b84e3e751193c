"""The cpu suite: for each case, all contenders are screened, then smelt meets the fastest in a contest."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from smelt.bench.contest import Contender, Contest, alone, contest
from smelt.bench.cpu.cases import CASES, GROUPS, Case, Group, case_named
from smelt.bench.cpu.library import PEERS, TUNING_PEERS, installed
from smelt.bench.cpu.memory import memory_row
from smelt.bench.report import Measured, Report, Row, threads_text, time_text
from smelt.bench.roof import Roof, measured_roof
from smelt.bench.timing import ChildError

_BAR_THREADS = 2
THREAD_VARIABLES = ("SMELT_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """How to measure: with how many threads, against whom. Peers that were `named` meet every case that they can do."""

    threads: Sequence[int]
    peers: Sequence[str] = PEERS
    named: bool = False
    quick: bool = False
    tune: str = ""  # a budget: cases are tuned for so long before they are measured
    progress: Progress = lambda text: None

    def choices(self, folder: str) -> dict[str, str]:
        """What children are started with: those that tune have a database of their own."""
        return {"SMELT_DATA_DIR": folder, "SMELT_TUNED": "on"} if self.tune else {}

    def meeting(self, case: Case) -> list[str]:
        """The peers of a case that are there."""
        return [peer for peer in self.peers if case.meets(peer, self.named) and installed(peer)]


class Ring:
    """The running contenders of one number of threads, each started when it is first asked for.

    Their caches begin empty, so that first calls compile.
    """

    module = "smelt.bench.cpu.contender"

    def __init__(self, threads: int, folder: str, quick: bool, environment: Mapping[str, str] | None = None) -> None:
        self.threads, self.quick = threads, quick
        self._references = Path(folder) / "references"
        self._references.mkdir(exist_ok=True)
        self._stack = ExitStack()
        caches = self._stack.enter_context(tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True))
        self._environment = dict.fromkeys(THREAD_VARIABLES, str(threads)) | {
            "SMELT_CACHE_DIR": f"{caches}/smelt",
            "TORCHINDUCTOR_CACHE_DIR": f"{caches}/torch",
            **(environment or {}),
        }
        self._running: dict[str, Contender] = {}

    def __enter__(self) -> Ring:
        return self

    def __exit__(self, *error: object) -> None:
        for library in list(self._running):
            self.dismiss(library)
        self._stack.close()

    def prepare(self, library: str, case: str) -> dict[str, Any]:
        """Make a contender ready for a case; gives its facts. A contender that refuses or dies is a ChildError."""
        if library not in self._running:
            words = [self.module, library, str(self.threads), str(self._references)]
            contender = Contender([*words, *(["quick"] if self.quick else [])], self._environment)
            self._running[library] = contender.__enter__()
        return self.ask(library, f"case {case}")

    def ask(self, library: str, text: str) -> dict[str, Any]:
        """What a contender that was prepared answers."""
        try:
            return self._running[library].ask(text)
        except ChildError:
            self.dismiss(library)
            raise

    def contest(self, first: str, second: str) -> Contest:
        """Two of them in alternation; one that meets itself is alone."""
        window, most = (0.05, 5) if self.quick else (0.1, 25)
        if first == second:
            return alone(self._running[first], window=window, most=most)
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


def measure_cpu(names: Sequence[str], asked: Asked, groups: Mapping[str, Group] = GROUPS) -> Report:
    """The machine's own figures, then a row for each case and number of threads, and the geometric means."""
    found = machine_report(asked)
    roofs = {roof.threads: roof for roof in found.roofs}
    with tempfile.TemporaryDirectory(prefix="smelt-bench-", ignore_cleanup_errors=True) as folder:
        for group, cases in chosen(names, groups).items():
            if groups[group].memory:
                asked.progress(f"{group}: {CASES[cases[0]].summary}")
                found.rows.append(memory_row(asked.quick))
                continue
            for count in asked.threads:
                with Ring(count, folder, asked.quick, asked.choices(folder)) as ring:
                    found.rows += _group(ring, roofs[count], group, groups[group], cases, asked)
            for file in (Path(folder) / "references").iterdir():
                file.unlink()
    return found


def measure_kernel(kernel: str, sizes: Sequence[int], dtype: str, asked: Asked, is_dumped: bool) -> Report:
    """One kernel at sizes of its own: as it is, and if it is to be tuned, once more after that."""
    found, text = machine_report(asked), list[str]()
    name, shown = (f"{kernel} {between.join(map(str, sizes))} {dtype}" for between in " ×")
    with tempfile.TemporaryDirectory(prefix="smelt-bench-", ignore_cleanup_errors=True) as folder:
        for roof in found.roofs:
            asked.progress(f"{shown}, {threads_text(roof.threads)}")
            with Ring(roof.threads, folder, asked.quick, asked.choices(folder)) as ring:
                for budget in ("", asked.tune) if asked.tune else ("",):
                    title = f"{shown}{f', tuned {budget}' if budget else ''}, {threads_text(roof.threads)}"
                    try:
                        found.rows.append(_case(ring, roof, name, title, replace(asked, tune=budget), None))
                        text += [f"{title}\n{ring.ask('smelt', 'schedule')['text']}"] if is_dumped else []
                    except ChildError as error:
                        found.rows.append(Row(title, None, "×", detail=f"smelt: {_first_line(error)}"))
    return replace(found, text="\n\n".join(text))


def machine_report(asked: Asked) -> Report:
    """The machine's own figures."""
    rows: list[Row] = []
    roofs: list[Roof] = []
    for threads in asked.threads:
        words = threads_text(threads)
        asked.progress(f"the machine itself, {words}")
        roof = measured_roof(threads)
        roofs.append(roof)
        rows += [
            Row(f"machine: multiply-adds, {words}", roof.flops, "GFLOP/s", detail="float32, in registers"),
            Row(f"machine: copy, {words}", roof.copy, "GB/s", detail="from memory to memory; bytes read and written"),
        ]
    return Report(rows, roofs=roofs, facts={"roofs": [roof.json() for roof in roofs]})


def _group(ring: Ring, roof: Roof, title: str, group: Group, cases: Sequence[str], asked: Asked) -> list[Row]:
    judged = not ring.quick and (ring.threads == _BAR_THREADS or group.always)
    rows: list[Row] = []
    for name in cases:
        shown = f"{name}, {threads_text(ring.threads)}"
        asked.progress(f"{shown}: {CASES[name].summary}")
        try:
            bar = _bar(group, CASES[name]) if judged else None
            rows.append(_case(ring, roof, name, shown, asked, bar))
        except ChildError as error:
            rows.append(Row(shown, None, "×", detail=f"smelt: {_first_line(error)}"))
    ratios = [row.figure for row in rows if row.figure and row.unit == "×"]
    if group.geomean and len(cases) > 1 and ratios:
        geomean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        complete = len(ratios) == len(group.cases)
        bar = group.geomean if judged and complete else None
        name = f"{title}: geometric mean, {threads_text(ring.threads)}"
        rows.append(Row(name, geomean, "×", bar, at_least=True, detail="" if complete else "of a part of the group"))
    return rows


def _bar(group: Group, case: Case) -> float | None:
    return group.each if case.bar is None else case.bar


@dataclass
class _Screened:
    """Peers that were made ready for a case, and what they said."""

    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def fastest(self) -> str | None:
        return min(self.facts, key=lambda peer: float(self.facts[peer]["seconds"]), default=None)

    def text(self) -> str:
        order = sorted(self.facts, key=lambda peer: float(self.facts[peer]["seconds"]))
        return ", ".join(f"{peer} {time_text(self.facts[peer]['seconds'])}" for peer in order)


def _screen(ring: Ring, name: str, case: Case, asked: Asked) -> _Screened:
    """All peers, of a heavy case never two at once."""
    found = _Screened()
    for peer in asked.meeting(case):
        best = found.fastest()
        try:
            facts = found.facts[peer] = ring.prepare(peer, name)
            found.notes += [f"{peer} searched for {facts['first']:.1f} s"] if peer in TUNING_PEERS else []
        except ChildError as error:
            found.notes.append(f"{peer} failed: {_first_line(error)}")
            continue
        if case.heavy and best is not None:
            ring.dismiss(peer if found.fastest() == best else best)
    return found


def _case(ring: Ring, roof: Roof, name: str, title: str, asked: Asked, bar: float | None) -> Row:
    case = case_named(name)
    screened = _screen(ring, name, case, asked)
    ours = ring.prepare("smelt", name)
    notes = screened.notes
    if asked.tune:
        tuning = ring.ask("smelt", f"tune {asked.tune}")
        notes = [f"tuned for {tuning['tuning']:.1f} s: {tuning['stored'] or 'no'} kernels changed", *notes]
        ours = {"errors": tuning["errors"]}  # its first call found what was compiled before
    copied = _copied(ring, case) if case.share else None
    opponent = screened.fastest()
    found = ring.contest("smelt", opponent or "smelt")
    if case.heavy:
        for library in ("smelt", "copy", *screened.facts):
            ring.dismiss(library)
    stands_in = ring.quick and bool(case.quick)
    measured = _measured(found, replace(case, flops=0.0, nbytes=0.0) if stands_in else case, roof, ours, screened)
    parts = [
        *([f"against {time_text(found.second.median)} ({opponent})"] if opponent else ["nobody to compete with"]),
        *([f"screened: {screened.text()}"] if len(screened.facts) > 1 else []),
        *notes,
        "a small one in its place" if stands_in else case.summary,
    ]
    if copied is not None:
        parts.insert(0, f"a share of a copy, {time_text(copied.second.median)}")
    ratio = (copied or found).ratio.median
    if opponent is None and copied is None:
        return Row(title, found.first.median, "ms", detail="; ".join(parts), measured=measured)
    return Row(title, ratio, "×", bar, at_least=True, detail="; ".join(parts), measured=measured)


def _copied(ring: Ring, case: Case) -> Contest:
    """smelt against a copy that moves as many bytes."""
    ring.prepare("copy", str(int(case.nbytes)))
    return ring.contest("smelt", "copy")


def _measured(found: Contest, case: Case, roof: Roof, ours: Mapping[str, Any], screened: _Screened) -> Measured:
    """All columns of a case; `ours` are the facts of smelt's contender."""
    opponent = screened.fastest()
    known = found.measured(
        threads=roof.threads,
        against=opponent or "",
        flops=case.flops,
        nbytes=case.nbytes,
        roof=roof.share(found.first.median, case.flops, case.nbytes, case.dtype),
        errors=ours.get("errors"),
        memory=ours.get("memory"),
        first=ours.get("first"),
        peers={peer: {key: facts.get(key) for key in PEER_FACTS} for peer, facts in screened.facts.items()},
    )
    return known if opponent else replace(known, ratio=None)


PEER_FACTS = ("seconds", "first", "memory", "errors")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]

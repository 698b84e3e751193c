"""What a suite reports: rows with a figure and a bar, as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from importlib import metadata
from typing import Any, NamedTuple

import smelt as sm
from smelt.bench.roof import Roof
from smelt.search import place


class Verdict(Enum):
    PASS = "pass"
    MISS = "miss"
    FAILED = "failed"  # it did not run
    NONE = "-"  # there is no bar


class Bounds(NamedTuple):
    """A median, and what it lies between 95 of 100 times, whatever the distribution is."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What is known of the calls behind a row, besides its figure."""

    seconds: Bounds  # of a call
    threads: int = 0  # that it may use; 0: all
    spread: float  # what lies between the quartiles of its rounds, as a share of the median
    ratio: Bounds | None = None  # of speeds, against whom it met
    against: str = ""
    rounds: int = 0
    marks: Bounds | None = None  # a call, in runs of a kernel that is always the same and ran beside it
    flops: float = 0.0
    nbytes: float = 0.0
    roof: float | None = None  # share of what the machine was measured to do at most
    errors: Mapping[str, float] | None = None  # max, mean, l2
    memory: float | None = None  # bytes
    first: float | None = None  # seconds of the first call, which compiles
    peers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # what each said when all were screened

    def json(self) -> dict[str, Any]:
        """As plain data: seconds, bytes and shares."""
        ratio, marks = self.ratio or _UNKNOWN, self.marks or _UNKNOWN
        return {
            "ratio": ratio[0],
            "low": ratio[1],
            "high": ratio[2],
            "against": self.against or None,
            "seconds": self.seconds.median,
            "seconds_low": self.seconds.low,
            "seconds_high": self.seconds.high,
            "spread": self.spread,
            "threads": self.threads or None,
            "rounds": self.rounds,
            "marks": marks[0],
            "marks_low": marks[1],
            "marks_high": marks[2],
            "flops": self.flops,
            "bytes": self.nbytes,
            "flops_per_second": self.flops / self.seconds.median,
            "bytes_per_second": self.nbytes / self.seconds.median,
            "roofline": self.roof,
            **{f"error_{name}": (self.errors or {}).get(name) for name in ("max", "mean", "l2")},
            "memory": self.memory,
            "first_call": self.first,
            "peers": {name: dict(facts) for name, facts in self.peers.items()},
        }

    def cells(self) -> tuple[str, ...]:
        """The columns of a table that `COLUMNS` names."""
        seconds, errors = self.seconds.median, self.errors or {}
        return (
            "" if self.ratio is None else f"{self.ratio.low:.2f}",
            f"{time_text(seconds)} ±{50 * self.spread:.0f}%",
            f"{1e-9 * self.flops / seconds:.1f}" if self.flops else "",
            f"{1e-9 * self.nbytes / seconds:.1f}" if self.nbytes else "",
            "" if self.roof is None else f"{self.roof:.0%}",
            " ".join(f"{errors[name]:.0e}" for name in ("max", "mean", "l2") if name in errors),
            "" if self.memory is None else f"{1e-6 * self.memory:.1f} MB",
            "" if self.first is None else time_text(self.first),
        )


_UNKNOWN = (None, None, None)
COLUMNS = ("at least", "time", "GFLOP/s", "GB/s", "roof", "error max mean l2", "memory", "first call")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. Seconds, shares and rates are kept as they are; `unit` says how to print them (see `_SCALES`)."""

    name: str
    figure: float | None
    unit: str
    bar: float | None = None
    at_least: bool = False  # the bar is a floor, not a ceiling
    detail: str = ""
    measured: Measured | None = None
    columns: Mapping[str, str] = field(default_factory=dict)  # those that only the table of its suite has

    @property
    def verdict(self) -> Verdict:
        if self.figure is None:
            return Verdict.FAILED
        if self.bar is None:
            return Verdict.NONE
        reached = self.figure >= self.bar if self.at_least else self.figure <= self.bar
        return Verdict.PASS if reached else Verdict.MISS

    def json(self) -> dict[str, Any]:
        """As plain data; every row has a name, and `ratio`, `low` and `seconds`, which may be unknown."""
        kind = _KINDS.get(self.unit, "seconds")
        plain = {name: self.figure if name == kind else None for name in ("ratio", "low", "seconds")}
        return {
            "name": self.name,
            "figure": self.figure,
            "unit": kind,
            "bar": self.bar,
            "bar_is": None if self.bar is None else "floor" if self.at_least else "ceiling",
            "verdict": None if self.verdict is Verdict.NONE else self.verdict.value,
            "detail": self.detail,
            **(plain if self.measured is None else self.measured.json()),
        }


@dataclass
class Report:
    """What a suite gives: rows, facts about the machine, and what only this suite has to say."""

    rows: list[Row]
    facts: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)  # for programs
    text: str = ""  # for people, below the table
    failed: bool | None = None  # unless it says so, a suite has failed if one of its rows did not run
    roofs: Sequence[Roof] = ()


_BUSY = 0.5  # load per core above which figures suffer
_SCALES = {"s": 1.0, "ms": 1e3, "µs": 1e6, "×": 1.0, "GFLOP/s": 1e-9, "GB/s": 1e-9}
_KINDS = {"×": "ratio", "GFLOP/s": "operations per second", "GB/s": "bytes per second"}


def cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The rows as texts under a heading; columns of `Measured` and of a suite only where something is in them."""
    found = [
        (dict(zip(COLUMNS, row.measured.cells(), strict=True)) if row.measured else {}) | dict(row.columns)
        for row in rows
    ]
    every = dict.fromkeys((*COLUMNS, *(name for columns in found for name in columns)))
    inner = [name for name in every if any(columns.get(name) for columns in found)]
    lines = [("name", "figure", "bar", "", *inner, "detail")]
    for row, columns in zip(rows, found, strict=True):
        own = (columns.get(name, "") for name in inner)
        lines.append((row.name, _figure(row), _bar(row), row.verdict.value, *own, row.detail))
    return lines


def table(rows: Sequence[Row]) -> str:
    """The rows under a heading, in columns."""
    return "\n".join(aligned(cells(rows), left=(0, 3)))


def aligned(lines: Sequence[tuple[str, ...]], left: Sequence[int]) -> list[str]:
    """Lines of columns, a heading first; the last column is as wide as it likes, some have their texts on the left."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]) - 1)]
    texts = []
    for line in lines:
        parts = [
            f"{text:<{width}}" if column in left else f"{text:>{width}}"
            for column, (text, width) in enumerate(zip(line, widths, strict=False))
        ]
        texts.append("  ".join([*parts, line[-1]]).rstrip())
    return [texts[0], "-" * max(len(text) for text in texts), *texts[1:]]


def to_json(suite: str, rows: Iterable[Row], facts: dict[str, Any], extra: Mapping[str, Any] | None = None) -> str:
    """Everything in the table, and the machine it was measured on."""
    found = {"suite": suite, "machine": facts, "results": [row.json() for row in rows], **(extra or {})}
    return json.dumps(found, indent=2, ensure_ascii=False)


def machine() -> dict[str, Any]:
    """What a reader has to know to repeat a figure. Ask before measuring: the load should be that of others."""
    from smelt.device import toolchain
    from smelt.device.cpu import CPU

    profile, compiler = CPU().profile, toolchain.compiler()
    return {
        "processor": profile.name,
        "family": place.place_of(CPU())["family"],
        "cores": profile.cores,
        "vector_bytes": profile.vector_bytes,
        "system": platform.platform(),
        "compiler": compiler.version,
        "python": platform.python_version(),
        "numpy": metadata.version("numpy"),
        "smelt": sm.__version__,
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def machine_text(facts: dict[str, Any]) -> str:
    """The same for people, with a warning when the machine was already busy."""
    lines = [
        f"{facts['processor']}, {facts['cores']} cores, {facts['vector_bytes']}-byte vectors",
        f"{facts['compiler']}; Python {facts['python']}, NumPy {facts['numpy']}, smelt {facts['smelt']}",
    ]
    if facts.get("peers"):
        lines.append("; ".join(f"{name} {version or 'is not installed'}" for name, version in facts["peers"].items()))
    if facts["load"] is not None and facts["load"] > _BUSY * facts["cores"]:
        lines.append(
            f"The machine was busy before this began (load {facts['load']}): figures are worse than they could be."
        )
    return "\n".join(lines)


def time_text(seconds: float) -> str:
    """Three digits, in a unit that fits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{1e6 * seconds:.3g} µs"


def threads_text(count: int) -> str:
    """So many, in words."""
    return f"{count} thread{'s' if count > 1 else ''}"


def _figure(row: Row) -> str:
    return "" if row.figure is None else f"{_number(row.figure * _SCALES[row.unit])} {row.unit}"


def _bar(row: Row) -> str:
    if row.bar is None:
        return ""
    return f"{'≥' if row.at_least else '≤'} {_number(row.bar * _SCALES[row.unit])} {row.unit}"


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"

"""What a suite reports: rows with a figure and a bar, as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from typing import Any

import smelt as sm


class Verdict(Enum):
    PASS = "pass"
    MISS = "miss"
    FAILED = "failed"  # it did not run
    NONE = "-"  # there is no bar


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. Seconds, shares and rates are kept as they are; `unit` says how to print them (see `_SCALES`)."""

    name: str
    figure: float | None
    unit: str
    bar: float | None = None
    at_least: bool = False  # the bar is a floor, not a ceiling
    detail: str = ""

    @property
    def verdict(self) -> Verdict:
        if self.figure is None:
            return Verdict.FAILED
        if self.bar is None:
            return Verdict.NONE
        reached = self.figure >= self.bar if self.at_least else self.figure <= self.bar
        return Verdict.PASS if reached else Verdict.MISS


_BUSY = 0.5  # load per core above which figures suffer
_SCALES = {"s": 1.0, "ms": 1e3, "µs": 1e6, "×": 1.0, "GFLOP/s": 1e-9, "GB/s": 1e-9}
_KINDS = {"×": "ratio", "GFLOP/s": "operations per second", "GB/s": "bytes per second"}


def table(rows: Sequence[Row]) -> str:
    """The rows under a heading, in columns."""
    lines = [("name", "figure", "bar", "", "detail")]
    lines += [(row.name, _figure(row), _bar(row), row.verdict.value, row.detail) for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    texts = [
        f"{name:<{widths[0]}}  {figure:>{widths[1]}}  {bar:>{widths[2]}}  {verdict:<{widths[3]}}  {detail}".rstrip()
        for name, figure, bar, verdict, detail in lines
    ]
    return "\n".join([texts[0], "-" * max(len(text) for text in texts), *texts[1:]])


def to_json(suite: str, rows: Iterable[Row], facts: dict[str, Any]) -> str:
    """Everything in the table, and the machine it was measured on."""
    results = [
        {
            "name": row.name,
            "figure": row.figure,
            "unit": _KINDS.get(row.unit, "seconds"),
            "bar": row.bar,
            "bar_is": None if row.bar is None else "floor" if row.at_least else "ceiling",
            "verdict": None if row.verdict is Verdict.NONE else row.verdict.value,
            "detail": row.detail,
        }
        for row in rows
    ]
    return json.dumps({"suite": suite, "machine": facts, "results": results}, indent=2, ensure_ascii=False)


def machine() -> dict[str, Any]:
    """What a reader has to know to repeat a figure. Ask before measuring: the load should be that of others."""
    from smelt.device import toolchain
    from smelt.device.cpu import CPU

    profile, compiler = CPU().profile, toolchain.compiler()
    return {
        "processor": profile.name,
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
    if "peers" in facts:
        lines.append("; ".join(f"{name} {version or 'is not installed'}" for name, version in facts["peers"].items()))
    if facts["load"] is not None and facts["load"] > _BUSY * facts["cores"]:
        lines.append(
            f"The machine was busy before this began (load {facts['load']}): figures are worse than they could be."
        )
    return "\n".join(lines)


def _figure(row: Row) -> str:
    return "" if row.figure is None else f"{_number(row.figure * _SCALES[row.unit])} {row.unit}"


def _bar(row: Row) -> str:
    if row.bar is None:
        return ""
    return f"{'≥' if row.at_least else '≤'} {_number(row.bar * _SCALES[row.unit])} {row.unit}"


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"

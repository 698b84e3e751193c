"""An earlier report against a new one, row by row.

Machines are not equally fast at all times, so times are compared in runs of a mark, a kernel that is always the same
and ran beside each round. A row counts as slower only beyond all noise: the bounds of both medians lie apart, by more
than a tenth, and if both reports have met the same version of the same peer, smelt has lost as much against it, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from smelt.bench.report import Bounds, aligned, time_text
from smelt.errors import ArgumentError

BEYOND = 1.1  # times as long: less may be chance
_FIGURE = 0.15  # how far a figure may be off of which no rounds are known
_SAME = ("processor", "family", "cores", "vector_bytes")  # of machines whose figures may be compared
_NOTED = ("compiler", "python", "numpy", "smelt", "tuned")

Facts = Mapping[str, Any]


class Change(NamedTuple):
    """A row before and now: `speed` is above 1 where it is faster now."""

    name: str
    verdict: str  # same, faster, slower, failed, new, gone
    speed: float | None = None
    before: float | None = None  # seconds
    now: float | None = None

    def cells(self) -> tuple[str, ...]:
        times = ("" if seconds is None else time_text(seconds) for seconds in (self.before, self.now))
        return (self.name, *times, "" if self.speed is None else f"{self.speed:.2f} ×", self.verdict)


@dataclass(frozen=True)
class Differences:
    """All that changed, and what else is not as it was."""

    changes: Sequence[Change]
    notes: Sequence[str] = ()

    @property
    def is_worse(self) -> bool:
        """Whether anything is slower or no longer runs, or nothing could be compared."""
        compared = any(change.speed is not None for change in self.changes)
        return not compared or any(change.verdict in ("slower", "failed") for change in self.changes)

    def text(self) -> str:
        """For people."""
        heading = ("against the baseline", "before", "now", "speed", "")
        lines = aligned([heading, *(change.cells() for change in self.changes)], left=(0, 4))
        slower = [change.name for change in self.changes if change.verdict in ("slower", "failed")]
        end = "slower beyond noise: " + (", ".join(slower) or "none")
        if not any(change.speed is not None for change in self.changes):
            end = "there is no row in both reports whose times are known"
        return "\n".join([*lines, *self.notes, end])


@dataclass(frozen=True)
class Baseline:
    """A report that was written with `--json`."""

    file: str
    suite: str
    facts: Facts
    rows: Mapping[str, Facts]

    @classmethod
    def read(cls, file: Path) -> Baseline:
        """From a file, which may be anything."""
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            rows = {str(row["name"]): dict(row) for row in found["results"]}
            return cls(str(file), str(found["suite"]), dict(found["machine"]), rows)
        except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
            raise ArgumentError(
                f"bench: {file} is no report: {type(error).__name__}: {error!s:.80}",
                hint="Write one with: smelt bench SUITE --json FILE.",
            ) from None

    def check(self, suite: str, facts: Facts) -> None:
        """Refuse what says nothing about a change of smelt."""
        ours, theirs = (
            ", ".join(f"{name} {given.get(name)}" for name in (*_SAME, "quick"))
            for given in (facts, {"quick": False, **self.facts})
        )
        if ours != theirs or suite != self.suite:
            raise ArgumentError(
                f"bench: {self.file} was not measured like this",
                rule=f"it has {self.suite}: {theirs}. Here is {suite}: {ours}.",
                hint="Write a baseline here first, or give --anyway.",
            )

    def differences(self, facts: Facts, rows: Sequence[Facts]) -> Differences:
        """What a new report says of each row."""
        now = {str(row["name"]): row for row in rows}
        notes = [f"{name}: {old} before, {new} now" for name, old, new in self._changed(facts) if old != new]
        try:
            changes = [self._change(name, facts, self.rows.get(name), now.get(name)) for name in {**self.rows, **now}]
        except (KeyError, TypeError, AttributeError) as error:
            raise ArgumentError(f"bench: {self.file} is damaged: {type(error).__name__}: {error!s:.80}") from None
        return Differences([change for change in changes if change is not None], notes)

    def _changed(self, facts: Facts) -> list[tuple[str, Any, Any]]:
        names = [(name, self.facts.get(name), facts.get(name)) for name in _NOTED]
        before, now = self.facts.get("peers") or {}, facts.get("peers") or {}
        return names + [(name, before[name], now[name]) for name in before if name in now]

    def _change(self, name: str, facts: Facts, old: Facts | None, new: Facts | None) -> Change | None:
        """What became of a row; nothing of one that has no times."""
        if old is None or new is None:
            known = _seconds(new or old or {})
            return None if known is None else Change(name, "new" if old is None else "gone")
        if new.get("verdict") == "failed":
            return None if old.get("verdict") == "failed" else Change(name, "failed")
        is_marked = old.get("marks") is not None and new.get("marks") is not None
        before, now = (_time(*one, is_marked) for one in ((old, self.facts), (new, facts)))
        if before is None or now is None:
            return None
        verdict = _verdict(before, now)
        if self._met_the_same(old, new, facts) and verdict != "same":
            # Ratios of speeds: more is better.
            verdict = verdict if _verdict(_bounds(new, "ratio"), _bounds(old, "ratio")) == verdict else "same"
        return Change(name, verdict, before.median / now.median, _seconds(old), _seconds(new))

    def _met_the_same(self, old: Facts, new: Facts, facts: Facts) -> bool:
        """Whether both rows have ratios against the same version of the same peer."""
        peer = str(new.get("against"))
        name = peer.partition(".")[0]
        before, now = ((given.get("peers") or {}).get(name, given.get(name)) for given in (self.facts, facts))
        known = old.get("low") is not None and new.get("low") is not None
        return known and peer == old.get("against") and before == now


def _verdict(before: Bounds, now: Bounds) -> str:
    """Of times, of which less is better."""
    if now.low > before.high and now.median > BEYOND * before.median:
        return "slower"
    if now.high < before.low and before.median > BEYOND * now.median:
        return "faster"
    return "same"


def _time(row: Facts, facts: Facts, is_marked: bool) -> Bounds | None:
    """The time of a row in runs of the mark: of those beside it, or of those before and after everything."""
    seconds = _seconds(row)
    if seconds is None:
        return None
    if is_marked:
        return _bounds(row, "marks")
    found = Bounds(seconds, seconds * (1 - _FIGURE), seconds * (1 + _FIGURE))
    if row.get("seconds_low") is not None:
        found = Bounds(seconds, row["seconds_low"], row["seconds_high"])
    mark = facts.get("mark") or 1.0
    return Bounds(*(value / mark for value in found))


def _bounds(row: Facts, name: str) -> Bounds:
    low, high = ("low", "high") if name == "ratio" else (f"{name}_low", f"{name}_high")
    return Bounds(row[name], row[low], row[high])


def _seconds(row: Facts) -> float | None:
    """What a row takes, if that is what it is about; a difference of two times may be below nothing."""
    seconds = row.get("seconds")
    return seconds if isinstance(seconds, float | int) and seconds > 0 else None

"""What tuning has found, for people and for other programs: a table, JSON, a page."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from smelt.cost import Profile
from smelt.search import climb, contender

if TYPE_CHECKING:
    from smelt.tuning.comparing import Whole
    from smelt.tuning.programs import Question
    from smelt.tuning.sites import Found
    from smelt.tuning.watching import Program

STATES: Final = ("timed", "refused", "wrong", "hung", "crashed")  # of contenders, as they are told
_WIDTH = 44  # of a kernel's name


@dataclass(repr=False)
class Row:
    """A kernel: what it took before, and what the search for a better schedule has found."""

    question: Question
    found: climb.Climb
    share: float  # of the time of all kernels
    stored: bool = False

    def __repr__(self) -> str:
        return f"Row({self.question.name!r}, {len(self.found.tried)} tried, {self.gain:.3f} times as fast)"

    @classmethod
    def of(cls, question: Question, found: climb.Climb, total: float) -> Row:
        return cls(question, found, question.seconds / max(total, 1e-12))

    @property
    def gain(self) -> float:
        """How much faster the kernel is with what was found; 1 where nothing was."""
        confirmed = self.found.confirmed
        return 1.0 if self.found.adopted is None or confirmed is None else confirmed.ratio

    @property
    def saved(self) -> float:
        """Seconds that it saves in all the launches that were seen."""
        return self.question.seconds * (1 - 1 / self.gain)

    @property
    def chosen(self) -> contender.Contender:
        """What was found, or the default."""
        adopted = self.found.adopted
        return self.found.default if adopted is None else adopted.contender

    @property
    def bits(self) -> str:
        """Whether results have the same bits as before."""
        adopted = self.found.adopted
        verdict = None if adopted is None else adopted.outcome.verdict
        return "same" if verdict is None else verdict.bits

    def json(self) -> dict[str, Any]:
        """As plain data."""
        each = self.question.seconds / max(1, self.question.launches)
        return {
            "name": self.question.name,
            "launches": self.question.launches,
            "share": self.share,
            "seconds": each / self.gain,
            "before": each,
            "ratio": self.gain,
            "low": self.found.confirmed.low if self.found.confirmed is not None else 1.0,
            "changed": "" if self.found.adopted is None else self.found.adopted.label,
            "bits": self.bits,
            "stored": self.stored,
            "tried": len(self.found.tried),
            "refused": self.found.refused,
        }


@dataclass
class Tuning:
    """What `tune` found. `str()` is a table; `json()` is the same as data, `html()` a page."""

    budget: str
    seed: int
    profile: Profile | None
    programs: list[Program]
    total: float  # seconds of all kernels, in the calls that were seen
    rows: list[Row] = field(default_factory=list)
    cuts: list[Found] = field(default_factory=list)  # other ways to cut programs into kernels that were tried
    whole: Whole | None = None
    seconds: float = 0.0
    omitted: int = 0  # kernels whose runs take too long for the time that there was
    note: str = ""  # why there is not more

    @property
    def stored(self) -> list[Row]:
        """What was kept."""
        return [row for row in self.rows if row.stored]

    @property
    def kept(self) -> int:
        """How many choices were stored."""
        return len(self.stored) + sum(cut.stored for cut in self.cuts)

    @property
    def states(self) -> Counter[str]:
        """What became of all contenders: timed, wrong, hung, crashed, refused."""
        return sum((row.found.states for row in self.rows), Counter[str]())

    def __repr__(self) -> str:
        ratio = 1.0 if self.whole is None or not self.stored else self.whole.ratio
        return f"Tuning({len(self.stored)} of {len(self.rows)} kernels changed, {ratio:.3f} times as fast)"

    def __str__(self) -> str:
        head = f" {'kernel':<{_WIDTH}} {'runs':>6} {'share':>6} {'before':>10} {'after':>10}  {'gain':<13} what changed"
        lines = [_cut_line(cut) for cut in self.cuts if cut.stored]
        lines += [_line(row) for row in self.rows if row.stored]
        lines = [head, *lines] if lines else []
        lines += self.rest()
        if self.whole is not None and self.stored:
            told = f"{self.whole.ratio:.3f} [{self.whole.low:.2f}]"
            times = f"{_time(self.whole.before)} {_time(self.whole.after)}"
            lines.append(
                f" {'all calls':<{_WIDTH}} {'':>6} {'':>6} {times}  {told:<13} {self.whole.pairs} pairs in the program"
            )
        lines += [f" {self.note}"] if self.note else []
        states = self.states
        counts = ", ".join(f"{states[name]} {name}" for name in STATES)
        undo = " (undo: smelt tune forget --last)" if self.kept else ""
        lines.append(f"{counts} in {self.seconds:.1f} s; {self.kept} choices stored{undo}")
        return "\n".join(lines)

    def rest(self) -> list[str]:
        """Why kernels stay as they are."""
        left = [row.found for row in self.rows if not row.stored]
        alone = sum(found.adopted is not None for found in left)
        # Nothing can be said about what nobody has tried, for want of time or as all of it has lost before.
        untried = sum(not found.tried for found in left)
        counts = {
            "nothing was 2 % faster beyond doubt": len(left) - alone - untried,
            "faster alone, but not in the program beyond doubt": alone,
            "nothing new could be tried in this time; a larger budget tries more": untried,
        }
        lines = [f" {_stay(count)}: {why}" for why, count in counts.items() if count]
        if self.omitted:
            lines.append(f" {_stay(self.omitted)}: no time was left to search; a larger budget searches more")
        return lines

    def html(self) -> str:
        """As a page that needs nothing else."""
        from smelt.tuning.page import page

        return page(self)

    def _repr_html_(self) -> str:
        return self.html()

    def json(self) -> dict[str, Any]:
        """As plain data."""
        whole = None if self.whole is None else {**self.whole._asdict(), "ratio": self.whole.ratio}
        return {
            "budget": self.budget,
            "seed": self.seed,
            "seconds": self.seconds,
            "whole": whole,
            "kernels": [row.json() for row in self.rows],
            "fusion": [cut.json() for cut in self.cuts],
            "contenders": dict(self.states),
            "omitted": self.omitted,
            "note": self.note,
        }


def _stay(count: int) -> str:
    return "1 kernel stays as it is" if count == 1 else f"{count} kernels stay as they are"


def _line(row: Row) -> str:
    each = row.question.seconds / max(1, row.question.launches)
    adopted, confirmed = row.found.adopted, row.found.confirmed
    assert adopted is not None and confirmed is not None
    name = row.question.name if len(row.question.name) <= _WIDTH else row.question.name[: _WIDTH - 1] + "…"
    gain = f"{row.gain:.2f} [{confirmed.low:.2f}]"
    bits = "" if row.bits == "same" else f" ({row.bits})"
    head = f" {name:<{_WIDTH}} {row.question.launches:>6} {row.share:>6.1%} {_time(each)} {_time(each / row.gain)}"
    return f"{head}  {gain:<13} {adopted.label}{bits}"


def _cut_line(cut: Found) -> str:
    name, gain = f"fusion: {cut.site}", f"{cut.ratio:.2f} [{cut.low:.2f}]"
    shown = name if len(name) <= _WIDTH else name[: _WIDTH - 1] + "…"
    times = f"{_time(cut.seconds)} {_time(cut.seconds / cut.ratio)}"
    bits = "" if cut.bits == "same" else f" ({cut.bits})"
    return f" {shown:<{_WIDTH}} {cut.program.calls:>6} {'':>6} {times}  {gain:<13} {cut.site}{bits}"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:>7.3g} {unit:<2}"
    return f"{1e9 * seconds:>7.3g} ns"

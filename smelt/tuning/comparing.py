"""What new kernels gain inside their programs: while a program runs, its kernels and the new ones take turns.

A kernel that wins alone may lose in its program, so launches are timed where they are, with the launch that finds the
caches as they left them. Of a kernel's launches every other one is the new version's, and in the next call the others
are. A call of a network with twelve layers so is worth many calls of which each is of one version, slow phases of the
machine meet both alike, and each kernel is judged by itself. Both versions compute the same: the program goes on as if
nothing were being compared.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Self

from smelt import device, runtime
from smelt.compiler import CompiledGraph, Compiler, question_of
from smelt.search import race
from smelt.tuning.watching import TURN, WORD, Overlay, Program, Run, Watched

FEWEST: Final = 5  # pairs, whose least ratio is a lower bound of the median 97 times of 100
_PAIRS: Final = 15  # that kernels are compared by, if there is time
_MOST: Final = 300  # pairs of calls


class Gain(NamedTuple):
    """What the launches of some kernels took before, in all calls, and how many times as fast they are: by the median
    and at least.
    """

    questions: Sequence[str]
    before: float
    ratio: float
    low: float
    pairs: int

    @classmethod
    def of(cls, questions: Sequence[str], before: float, ratios: Sequence[float]) -> Gain:
        """From ratios of single pairs: too few bound nothing."""
        low = race.bounds(ratios)[0] if len(ratios) >= FEWEST else 0.0
        return cls(questions, before, statistics.median(ratios) if ratios else 1.0, low, len(ratios))

    @property
    def least(self) -> float:
        """Seconds that are saved at least."""
        return self.before * (1 - 1 / self.low) if self.low else -math.inf


class Compared(NamedTuple):
    """Seconds of all calls before, and what each new kernel gains of them."""

    seconds: float
    gains: Sequence[Gain]


class Whole(NamedTuple):
    """Programs before and after: seconds of all their calls, how much faster, and how much at least."""

    before: float
    after: float
    low: float
    pairs: int

    @property
    def ratio(self) -> float:
        return self.before / self.after if self.after else 1.0  # there was no time to compare

    @classmethod
    def of(cls, compared: Compared) -> tuple[Self, set[str]]:
        """What programs gain by the kernels that gain something, and which these are."""
        by_question: dict[str, list[Gain]] = {}
        for gain in compared.gains:
            for question in gain.questions:
                by_question.setdefault(question, []).append(gain)
        won = {question for question, gains in by_question.items() if sum(gain.least for gain in gains) > 0}
        used = [gain for gain in compared.gains if won.issuperset(gain.questions)]
        saved = sum(gain.before * (1 - 1 / gain.ratio) for gain in used)
        slowest = compared.seconds - sum(gain.least for gain in used)
        low = compared.seconds / slowest if used else 0.0
        pairs = min((gain.pairs for gain in used), default=0)
        return cls(compared.seconds, compared.seconds - saved, low, pairs), won


@dataclass(eq=False)
class Mixed(Program):
    """A program of which two versions take turns launch by launch. The first call warms up."""

    sites: dict[str, list[int]] = field(default_factory=dict)  # the launches of kernels that differ, by the question
    mixtures: list[device.Program] = field(default_factory=list)
    runs: tuple[list[list[float]], list[list[float]]] = field(default_factory=lambda: ([], []))  # by the mixture
    besides: list[float] = field(default_factory=list)  # seconds of calls in which nothing was launched

    @classmethod
    def of(cls, program: Program, other: CompiledGraph, changed: set[str]) -> Mixed | None:
        """The mixtures of a program and another version, which was compiled to be explained; None if their launches do
        not correspond, or cannot be timed.
        """
        mine, sites = program.compiled, dict[str, list[int]]()
        all_launch = all(isinstance(step, device.Launch) for step in (*mine.launches, *other.launches))
        alike = [(one.slots, one.arena_bytes, one.prepared, len(one.launches)) for one in (mine, other)]
        libraries = program.device.stored([*mine.libraries, *other.libraries])
        if not all_launch or alike[0] != alike[1] or libraries is None:
            return None
        for number, record in enumerate(other.kernels):
            if (question := question_of(record.region)) in changed:
                sites.setdefault(question, []).append(number)
        mixtures = []
        for which in (0, 1):
            steps = list(mine.launches)
            for numbers in sites.values():
                for number in numbers[1 - which :: 2]:
                    step = other.launches[number]
                    assert isinstance(step, device.Launch)
                    steps[number] = replace(step, library=step.library + len(mine.libraries))
            scratch = max(mine.scratch_bytes, other.scratch_bytes)
            listing = device.Listing(steps, mine.slots, scratch, mine.arena_bytes)
            mixtures.append(program.device.load(listing, libraries))
            mixtures[-1].is_timed = True
        return cls(program.key, program.device, mine, other=other, sites=sites, mixtures=mixtures)

    def run(self, bases: bytes, integers: bytes) -> None:
        """Run the mixture whose turn it is."""
        which = TURN[self.calls % len(TURN)]
        mixture = self.mixtures[which]
        if mixture.arena_bytes:
            self.arena = self.arena or self.device.allocate(mixture.arena_bytes)
            bases = self.arena.pointer + bases[WORD:]
        began = time.perf_counter()
        mixture.run(bases, integers)
        self.device.synchronize()
        taken, launches = time.perf_counter() - began, mixture.launch_seconds()
        assert launches is not None
        if self.calls:
            self.runs[which].append(launches)
            self.besides.append(taken - sum(launches))
        self.calls += 1

    def gains(self, calls: int) -> tuple[float, list[Gain]]:
        """Seconds of so many calls before, and what each kernel gains of them."""
        if not all(self.runs):
            return 0.0, []
        found, both = [], [*self.runs[0], *self.runs[1]]
        mine = {number: self.runs[at % 2] for numbers in self.sites.values() for at, number in enumerate(numbers)}
        usual = [statistics.median(run[n] for run in mine.get(n, both)) for n in range(len(both[0]))]
        for question, numbers in self.sites.items():
            before = sum(self._taken(usual, number) for number in numbers)
            found.append(Gain.of([question], calls * before, self.ratios_at(numbers)))
        return calls * (sum(usual) + statistics.median(self.besides)), found

    def ratios_at(self, numbers: Sequence[int]) -> list[float]:
        """How many times as fast the other version of a kernel was: of two launches that are next to each other, both
        versions of both count, so that it does not matter in which call the machine was slow.
        """
        taken, found = self._taken, []
        for first, second in zip(*self.runs, strict=False):
            for at in range(0, len(numbers), 2):
                mine = taken(first, numbers[at]) + sum(taken(second, number) for number in numbers[at + 1 : at + 2])
                other = taken(second, numbers[at]) + sum(taken(first, number) for number in numbers[at + 1 : at + 2])
                found.append(mine / other if other else 1.0)  # without tasks it takes no time
        return found

    def _taken(self, run: Sequence[float], number: int) -> float:
        """What a launch takes, and the one that sees what it has left in the caches."""
        follows = number + 1 < len(run) and all(number + 1 not in numbers for numbers in self.sites.values())
        return run[number] + (run[number + 1] if follows else 0.0)

    def ratios(self) -> list[float]:
        """Of the kernel of which least is known."""
        return self.ratios_at(min(self.sites.values(), key=len, default=[]))


def calls_needed(launches: int) -> int:
    """How many calls it takes at least to compare a kernel that has so many launches in each: one to warm up, and two
    for each pair, or each pair of two launches.
    """
    return 1 + 2 * -(-FEWEST // -(-launches // 2))


def compare(
    programs: Sequence[Program], answers: Mapping[str, str], run: Run, seconds: float, most: float = math.inf
) -> Compared:
    """Programs as they are against programs with these choices, in turn: for so many seconds, or longer if there are
    too few pairs by then, but not longer than `most`.
    """
    compiler = Compiler(Overlay(answers, runtime.current().compiler.choices))
    watched, began = Watched(timed=False), time.monotonic()
    raced: list[tuple[int, set[str], Program]] = []
    last = math.inf
    for program in programs:
        other = compiler.compile(program.key, program.device, explain=True)
        changed = {question for question, _ in set(other.choices) - set(program.compiled.choices)}
        if changed and program.can_run(other):
            whole = Program(program.key, program.device, program.compiled, other=other)
            again = watched.programs[id(program.compiled)] = Mixed.of(program, other, changed) or whole
            raced.append((program.calls, changed, again))

    def enough() -> bool:
        nonlocal last
        pairs, taken = min((len(again.ratios()) for _, _, again in raced), default=_MOST), time.monotonic() - began
        once, last = max(0.0, taken - last), taken
        return pairs >= _MOST or taken + once > most or (pairs >= _PAIRS and taken > seconds)

    run(watched, enough)
    total, gains = 0.0, list[Gain]()
    for calls, changed, again in raced:
        if isinstance(again, Mixed):
            taken, own = again.gains(calls)
        else:
            taken = calls * statistics.median(again.taken[0]) if again.taken[0] else 0.0
            own = [Gain.of(sorted(changed), taken, again.ratios())]
        total, gains = total + taken, gains + own
    return Compared(total, gains)

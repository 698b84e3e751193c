"""`tune`: every kernel of a program that takes part of its time is searched for a faster schedule, and what is found is
kept if the whole program is faster with it.
"""

from __future__ import annotations

import functools
import random
import re
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from smelt import runtime
from smelt.compiler import MEASURED_AS, Choices, Compiler, question_of
from smelt.debug.profiling import kernel_name
from smelt.device import Device
from smelt.errors import ArgumentError
from smelt.kernel import Region, parse_region
from smelt.search import Tuned, climb, contender, race, sized
from smelt.transform.attributes import attributes_of, put_back
from smelt.transform.jit import Jit
from smelt.tuning import sites
from smelt.tuning.keeping import Keeper
from smelt.tuning.outside import Live, Outside, Told, clock
from smelt.tuning.report import Row, Tuning
from smelt.tuning.watching import Program, Watched, watching

LEAST_SHARE: Final = 0.005  # of the time: a kernel below it is not worth a search
LEAST_SECONDS: Final = 0.8  # of a search: with less there is nothing to find
WHOLE: Final = 1.01  # times as fast, beyond noise, a whole program has to be
_SETTLING: Final = 6  # calls after which inputs that stay the same are prepared
_PAIRS: Final = 15  # of calls that whole programs are compared by, at least
_LATE: Final = 3  # times as long as planned it may take to have so many
_CONFIRMING: Final = 0.15  # of the time is for whole programs


@dataclass(frozen=True)
class Budget:
    """How long tuning may take, in all and for one kernel."""

    name: str
    seconds: float
    each: float

    @classmethod
    def of(cls, budget: str | float) -> Budget:
        """From "quick", "max", a number of seconds, or a text like "90s"."""
        if isinstance(budget, str) and budget in BUDGETS:
            return BUDGETS[budget]
        found = re.fullmatch(r"(\d+(?:\.\d+)?)s?", str(budget))
        if not found or not 1 <= float(found[1]) <= 1e6:
            raise ArgumentError(
                f"tune: {budget!r:.40} is no budget", hint='Give "quick", "max", or seconds, as in budget=90.'
            )
        return cls(f"{found[1]} s", float(found[1]), float(found[1]))


BUDGETS: Final = {"quick": Budget("quick", 10.0, 3.0), "max": Budget("max", 600.0, 60.0)}


class Question(NamedTuple):
    """A kernel of the programs: what it does, how often and how long it runs in all."""

    name: str
    text: str
    region: Region
    device: Device
    launches: int
    seconds: float
    sizes: tuple[Mapping[str, int], ...] = ()  # of its dims, as they were seen, the most frequent first

    @property
    def digest(self) -> str:
        """By what choices are asked for."""
        return question_of(self.text)


class Overlay:
    """Choices on top of those that are in use."""

    def __init__(self, answers: Mapping[str, str], below: Choices | None) -> None:
        self.answers, self.below = answers, below

    def ask(self, device: Device, question: str, text: str = "") -> str | None:
        """The schedule for a region."""
        known = self.answers.get(question)
        return known if known is not None or self.below is None else self.below.ask(device, question, text)


Say = Callable[[str], None]
Run = Callable[[Watched, Callable[[], bool]], None]  # runs programs while somebody watches, once or until told to stop


def tune(
    function: Callable[..., Any],
    *args: Any,
    budget: str | float = "quick",
    seed: int = 0,
    only: str = "",
    progress: Say | None = None,
    **kwargs: Any,
) -> Tuning:
    """Find faster schedules for the kernels of a function, called with these arguments, and keep them.

    What is found is stored for this user and machine, and every later compilation uses it. `budget` is "quick" (10
    seconds), "max" (10 minutes), or seconds; `only` is part of the names of kernels that are to be tuned. The result
    prints as a table.

        sm.tune(step, model, x, y)
    """
    if not callable(function):
        raise ArgumentError(f"tune: {function!r:.80} is not a function", hint="Give what computes: lambda: x + 1.")
    jitted = function.keeping() if isinstance(function, Jit) else Jit(function)
    jitted.graph_key(*args, **kwargs)  # says what is wrong with the arguments, before anything runs
    holders = jitted.holders(args, kwargs)
    before = attributes_of(holders)

    def run(watched: Watched, until: Callable[[], bool]) -> None:
        with watching(watched):
            if watched.anew:
                jitted.forget()
            while not until():
                jitted(*args, **kwargs)

    try:
        found = tune_programs(run, Budget.of(budget), seed, only, progress or (lambda _: None), _SETTLING)
    finally:
        put_back(holders, before)
    if found.kept:
        for entries in {id(f): f for f in (function, jitted) if isinstance(f, Jit)}.values():
            entries.forget()
    return found


def tune_programs(
    run: Run,
    budget: Budget,
    seed: int,
    only: str,
    say: Say,
    calls: int = 1,
    measurer: contender.Measurer | None = None,
    outside: Outside | None = None,
) -> Tuning:
    """Tune what `run` runs, when it is told to run it so many times."""
    began, turns, keeper = time.monotonic(), iter(range(calls)), Keeper(seed)
    cuts: list[sites.Found] = []
    watched = Watched()
    run(watched, lambda: next(turns, None) is None)
    programs = list(watched.programs.values())
    if budget.seconds >= sites.LEAST_BUDGET and only in "fusion":
        programs, cuts = sites.recut(programs, run, calls, sites.SHARE * budget.seconds, keeper, say, _use)
    asked = list(questions(programs))
    total = sum(one.seconds for one in asked)
    chosen = [one for one in asked if one.seconds >= LEAST_SHARE * total and only in one.name]
    tuning = Tuning(budget.name, seed, asked[0].device.profile if asked else None, programs, total, cuts=cuts)
    for number, one in enumerate(chosen):
        left = (1 - _CONFIRMING) * budget.seconds - (now() - began)
        if left < LEAST_SECONDS:
            break
        share = one.seconds / sum(other.seconds for other in chosen[number:])
        limits = climb.Limits(min(budget.each, max(LEAST_SECONDS, left * share)))
        say(f"{number + 1} of {len(chosen)}: {one.name}")
        seeds, losers = keeper.seeds(one), keeper.losers(one)
        racer = measurer or sized.racer(one.region, one.device, seed, one.sizes)
        found = climb.climb(one.region, one.device, racer, limits, random.Random(seed), seeds, known=losers)
        row = Row.of(one, found, total)
        tuning.rows.append(row)
        keeper.keep(row)  # whatever happens next
    say("the whole program")
    _settle(tuning, programs, run, budget.seconds * _CONFIRMING, outside)
    for row in tuning.stored:
        row.stored = keeper.is_open
        keeper.keep(row)
    if tuning.stored:
        _use()
    tuning.seconds = now() - began
    return tuning


def _timed(asked: Sequence[Question], outside: Outside) -> list[Question]:
    """Questions with the seconds that they took, those that took longest first."""
    taken = outside.take("kernels", lambda: {one.digest: one.seconds for one in asked})
    found = [one._replace(seconds=taken[one.digest]) for one in asked if one.digest in taken]
    return sorted(found, key=lambda one: (-one.seconds, one.digest))


def _use() -> None:
    """Let this process see what was stored."""
    current = runtime.current()
    if isinstance(current.compiler.choices, Tuned):
        current.compiler.choices.refresh()
    current.clear_caches()


def questions(programs: Iterable[Program]) -> Iterator[Question]:
    """The distinct kernels of programs that have run, those that take longest first."""
    compiler = runtime.current().compiler
    found: dict[str, Question] = {}
    for program in programs:
        records = compiler.compile(program.key, program.device, explain=True).kernels
        # The launches of loops are not timed one by one: the cost model tells them apart.
        taken = program.launches if len(program.launches) == len(records) else [record.seconds for record in records]
        for record, seconds in zip(records, taken, strict=True):
            if record.region != record.ir:  # else it is a routine
                region = parse_region(record.region)
                dims = {v.name for v in region.parameters}
                sizes = tuple({name: one[name] for name in dims & one.keys()} for one in program.sizes() if dims)
                first = Question(kernel_name(record), record.region, region, program.device, 0, 0.0, sizes)
                known = found.get(record.region, first)
                found[record.region] = known._replace(
                    launches=known.launches + program.calls, seconds=known.seconds + program.calls * seconds
                )
    yield from sorted(found.values(), key=lambda one: -one.seconds)


class Whole(NamedTuple):
    """Programs before and after: seconds of all their calls, how much faster, and how much at least."""

    before: float
    after: float
    low: float
    pairs: int

    @property
    def ratio(self) -> float:
        return self.before / self.after


UNCHANGED: Final = Whole(1.0, 1.0, 0.0, 0)


def _settle(tuning: Tuning, programs: Sequence[Program], run: Run, seconds: float, outside: Outside) -> None:
    """Keep what makes whole programs faster: all of it, or the better half, and so on."""
    pending = sorted((row for row in tuning.rows if row.found.adopted is not None), key=lambda row: -row.saved)
    while pending:
        # Only what was measured counts: a schedule of a region that was written anew means something else here.
        answers = {row.question.digest: f"{row.chosen.schedule}{MEASURED_AS}{row.chosen.digest}" for row in pending}
        whole: Sequence[Any] = outside.take("the whole", functools.partial(_raced, programs, answers, run, seconds))
        tuning.whole = Whole(*whole)
        if tuning.whole.low >= WHOLE:
            for row in pending:
                row.stored = True
            return
        pending = pending[: len(pending) // 2]


def _raced(programs: Sequence[Program], answers: Mapping[str, str], run: Run, seconds: float) -> Whole:
    """Programs as they are against programs with these choices, in turn."""
    current = runtime.current().compiler
    compiler = Compiler(Overlay(answers, current.choices))
    watched, until = Watched(timed=False), time.monotonic() + seconds
    changed = []
    for program in programs:
        other = compiler.compile(program.key, program.device)
        if other.choices != program.compiled.choices and program.can_run(other):
            again = Program(program.key, program.device, program.compiled, other=other)
            watched.programs[id(program.compiled)] = again
            changed.append((program.calls, again))

    def enough() -> bool:
        pairs = min((len(again.ratios()) for _, again in changed), default=_PAIRS)
        late = time.monotonic() - until
        return late > _LATE * seconds or (pairs >= _PAIRS and (late > 0 or pairs >= 20 * _PAIRS))

    run(watched, enough)
    before = after = slowest = 0.0
    found = [(calls * statistics.median(again.taken[0]), again.ratios()) for calls, again in changed if again.ratios()]
    for taken, ratios in found:
        before += taken
        after += taken / statistics.median(ratios)
        slowest += taken / race.bounds(ratios)[0]
    return Whole(before, after, before / slowest, min(len(ratios) for _, ratios in found)) if found else UNCHANGED

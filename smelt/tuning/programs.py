"""`tune`: every kernel of a program that takes part of its time is searched for a faster schedule, and what is found is
kept if the whole program is faster with it.
"""

from __future__ import annotations

import functools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from smelt import runtime
from smelt.compiler import MEASURED_AS, question_of
from smelt.cost import rates
from smelt.debug.profiling import kernel_name
from smelt.device import Device
from smelt.errors import ArgumentError
from smelt.kernel import Region, parse_region
from smelt.plan import KernelRecord, watcher
from smelt.search import Tuned, climb, contender, measure, sized
from smelt.search.processes import nursery
from smelt.transform.attributes import attributes_of, put_back
from smelt.transform.jit import Jit
from smelt.tuning import sites
from smelt.tuning.comparing import Compared, Gain, Whole, calls_needed, compare
from smelt.tuning.keeping import Keeper
from smelt.tuning.outside import Live, Outside, Replay, Told, clock
from smelt.tuning.pace import LARGEST, Budget, Pace
from smelt.tuning.progress import Progress, Say
from smelt.tuning.report import Row, Tuning
from smelt.tuning.watching import WHOLE, Program, Run, Watched, watching

LEAST_SHARE: Final = 0.005  # of the time: a kernel below it is not worth a search
_SETTLING: Final = 6  # calls after which inputs that stay the same are prepared
_COMPARING: Final = 0.01  # of the time, for one comparison, and at most so many seconds if calls are short
_COMPARED: Final = 3.0
_LONGER: Final = 300  # runs of a kernel that its search may take longer, if these are long
_NOTHING: Final = "Nothing was computed with smelt: tensors are lazy until values are asked for, or `jit` is called."
_INSIDE: Final = "Not now: a tuning is under way that sees this call, and has a budget of its own."
_INTERRUPTED: Final = "Interrupted: what was found until then is all there is."
_HEADROOM: Final = (0.05, 0.5)  # of a kernel's time that may be saved, whatever the machine is said to do


class Question(NamedTuple):
    """A kernel of the programs: what it does, how often and how long it runs in all."""

    name: str
    text: str
    region: Region
    device: Device
    launches: int
    seconds: float
    headroom: float = 1.0  # the share of its time that may be saved, judging by what the machine can do
    sizes: tuple[Mapping[str, int], ...] = ()  # of its dims, as they were seen, the most frequent first
    calls: int = 1  # that it takes at least to compare it with another version

    @property
    def digest(self) -> str:
        """By what choices are asked for."""
        return question_of(self.text)

    @property
    def run(self) -> float:
        """Seconds of one launch."""
        return self.seconds / max(1, self.launches)

    @property
    def worth(self) -> float:
        """Seconds that may be saved."""
        return self.seconds * self.headroom


def tune(
    function: Callable[..., Any],
    *args: Any,
    budget: str | float = "quick",
    seed: int = 0,
    only: str = "",
    progress: Say | Progress | None = None,
    **kwargs: Any,
) -> Tuning:
    """Find faster schedules for the kernels of a function, called with these arguments, and keep them.

    What is found is stored for this user and machine, and every later compilation uses it. `budget` is "quick" (10
    seconds), "max" (10 minutes), or seconds; `only` is part of the names of kernels that are to be tuned. The result
    prints as a table. In a script that `smelt tune` runs, this only calls the function: the search is that command's.

        sm.tune(step, model, x, y)
    """
    if not callable(function):
        raise ArgumentError(f"tune: {function!r:.80} is not a function", hint="Give what computes: lambda: x + 1.")
    jitted = function.keeping() if isinstance(function, Jit) else Jit(function)
    jitted.graph_key(*args, **kwargs)  # says what is wrong with the arguments, before anything runs
    holders = jitted.holders(args, kwargs)
    before = attributes_of(holders)
    if isinstance(watcher(), Watched):  # by `smelt tune`, of a script that calls this function
        try:
            jitted(*args, **kwargs)
        finally:
            put_back(holders, before)
        return Tuning(Budget.of(budget).name, seed, None, [], 0.0, note=_INSIDE)

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
    say: Say | Progress,
    calls: int = 1,
    measurer: contender.Measurer | None = None,
    outside: Outside | None = None,
) -> Tuning:
    """Tune what `run` runs, when it is told to run it so many times, or less often if that takes long. The time begins
    when all of it has run once. Ctrl-C ends the search: what was found until then is still tried in the whole program.
    """
    outside = outside or Live()
    outside.take(f"{budget.name}, seed {seed}, only {only!r}", lambda: "")
    progress, keeper = say if isinstance(say, Progress) else Progress(say), Keeper(seed, outside)
    # What starts workers makes ready meanwhile.
    held = None if isinstance(outside, Replay) or measurer is not None else nursery()
    watched, pace = Watched(), Pace(budget, calls, clock(outside))
    run(watched, lambda: pace.is_settled(watched))
    progress.begin(time.monotonic() - (pace.now() - pace.began), budget.seconds)
    programs, cuts = pace.latest(watched), list[sites.Found]()
    note = "" if programs else _NOTHING
    # What is cut otherwise is found by races of whole programs, which no recording has.
    if budget.seconds >= sites.LEAST_BUDGET and only in "fusion" and isinstance(outside, Live):
        try:
            given = calls, sites.SHARE * budget.seconds, keeper, progress.say, _use, cuts
            programs = sites.recut(programs, run, *given)
        except KeyboardInterrupt:
            note = _INTERRUPTED
    asked = _timed(list(questions(programs)), outside)
    total = sum(one.seconds for one in asked)
    chosen = [one for one in asked if one.seconds >= LEAST_SHARE * total and only in one.name and not note]
    tuning = Tuning(
        budget.name, seed, asked[0].device.profile if asked else None, programs, total, cuts=cuts, note=note
    )
    comparing = outside.take("a comparison", lambda: [pace.comparing(one.calls, programs) for one in chosen])
    short = [(one, taken) for one, taken in zip(chosen, comparing, strict=True) if taken <= LARGEST * budget.seconds]
    tuning.omitted = len(chosen) - len(short)
    if chosen and not short:
        tuning.note = f"A run takes {pace.once:.2g} s: a budget of {3 * min(comparing):.0f} s could find something."
    elif short:
        pace.whole_seconds = max(taken for _, taken in short)
        try:
            found = sorted((one for one, _ in short), key=lambda one: -one.worth)
            _search(tuning, found, pace, keeper, progress, measurer, outside)
        except KeyboardInterrupt:
            tuning.note = _INTERRUPTED
            progress.say("Ctrl-C: what was found is tried in the whole program. Once more leaves that out.")
        progress.doing("the whole program")
        _settle(tuning, programs, run, pace, outside)
    for row in tuning.stored:
        row.stored = keeper.is_open
        keeper.keep(row)
    if tuning.stored:
        _use()
    del held
    progress.end()
    tuning.seconds = pace.now() - pace.began
    return tuning


def _timed(asked: Sequence[Question], outside: Outside) -> list[Question]:
    """Questions with the seconds that they took and what may be saved, those that took longest first."""
    taken = outside.take("kernels", lambda: {one.digest: (one.seconds, one.headroom) for one in asked})
    found = []
    for one in (one for one in asked if one.digest in taken):
        seconds, headroom = taken[one.digest]
        found.append(one._replace(seconds=seconds, headroom=headroom))
    return sorted(found, key=lambda one: (-one.seconds, one.digest))


def _search(
    tuning: Tuning,
    chosen: Sequence[Question],
    pace: Pace,
    keeper: Keeper,
    progress: Progress,
    measurer: contender.Measurer | None,
    outside: Outside,
) -> None:
    """Search every kernel that there is time for: as long as its share of what may be saved, or until nothing more is
    expected of it, which leaves more for the others.
    """
    racers: dict[object, measure.Racer] = {}
    try:
        for number, one in enumerate(chosen):
            rest = [other for other in chosen[number:] if climb.least_seconds(other.run) <= pace.left]
            if one not in rest:
                tuning.omitted += 1
                continue
            share = one.worth / sum(other.worth for other in rest)
            least = climb.least_seconds(one.run)
            most = pace.budget.each + _LONGER * one.run
            seconds = min(max(least, min(most, pace.left * share)), pace.left)
            progress.doing(f"{number + 1} of {len(chosen)}: {one.name}")
            searched = list[climb.Climb]()  # so far

            def told(found: climb.Climb, searched: list[climb.Climb] = searched) -> None:
                searched[:] = [found]
                progress.found(tuning.states + found.states, found.fastest)

            try:
                limits = climb.Limits(seconds, run=one.run, stale=pace.budget.stale)
                racer = functools.partial(_prepared, racers, one, tuning.seed, limits, progress)
                by, rng = _told_by(outside, measurer, racer), random.Random(tuning.seed)
                seeds, losers = list(keeper.seeds(one)), keeper.losers(one)
                climb.climb(one.region, one.device, by, limits, rng, seeds, pace.now, told, losers)
            finally:  # whatever happens next
                rows = [Row.of(one, found, tuning.total) for found in searched]
                tuning.rows += rows
                for row in rows:
                    keeper.keep(row)
    finally:
        for opened in racers.values():
            opened.close()


def _told_by(
    outside: Outside, measurer: contender.Measurer | None, racer: Callable[[], contender.Measurer]
) -> contender.Measurer:
    """Who races, and whoever plays back what was recorded needs nobody."""
    if isinstance(outside, Replay):
        return Told(outside, racer)
    ready = measurer or racer()
    return Told(outside, lambda: ready)


def _prepared(
    racers: dict[object, measure.Racer], one: Question, seed: int, limits: climb.Limits, progress: Progress
) -> contender.Measurer:
    """Who races contenders for a kernel, and makes ready for it: one for each device, or for each of several sizes."""

    def ready(sizes: Mapping[str, int] | None) -> measure.Racer:
        key = one.device.name, tuple(sizes.items()) if sizes else None
        racer = racers.setdefault(key, measure.Racer(one.device, sizes, seed))
        racer.until, racer.reserved, racer.say = time.monotonic() + limits.seconds, limits.confirming, progress.say
        racer.expect(one.region)
        return racer

    return sized.racer(one.region, ready, one.sizes)


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
        launches = Counter(record.region for record in records) if program.launches else Counter[str]()
        for record, seconds in zip(records, taken, strict=True):
            if record.region != record.ir:  # else it is a routine
                region, headroom = parse_region(record.region), _headroom(record, seconds, program.device)
                dims = {v.name for v in region.parameters}
                sizes = tuple({name: one[name] for name in dims & one.keys()} for one in program.sizes() if dims)
                calls = calls_needed(launches[record.region] or 1)
                first = Question(
                    *(kernel_name(record), record.region, region, program.device, 0, 0.0, headroom, sizes, calls)
                )
                known = found.get(record.region, first)
                found[record.region] = known._replace(
                    launches=known.launches + program.calls, seconds=known.seconds + program.calls * seconds
                )
    yield from sorted(found.values(), key=lambda one: -one.seconds)


def _headroom(record: KernelRecord, seconds: float, device: Device) -> float:
    """The share of a kernel's time that the machine could do without, by its operations and the bytes that it moves."""
    known, cores = rates.known(device.profile), device.profile.cores
    peak, memory = known.multiply_add * cores, max(known.memory, known.memory_all)
    least = 1e-9 * max(record.flops / peak, record.bytes_moved / memory)
    low, high = _HEADROOM
    return max(low, min(high, 1 - least / max(seconds, 1e-9)))


def _settle(tuning: Tuning, programs: Sequence[Program], run: Run, pace: Pace, outside: Outside) -> None:
    """Keep the kernels that are faster in their programs, too, if these are faster as a whole."""
    # Only what was measured counts: a schedule of a region that was written anew means something else here.
    answers = {
        row.question.digest: f"{row.chosen.schedule}{MEASURED_AS}{row.chosen.digest}"
        for row in tuning.rows
        if row.found.adopted is not None
    }
    if not answers:
        return
    seconds = max(min(_COMPARING * pace.budget.seconds, _COMPARED), pace.whole_seconds)
    compared = functools.partial(compare, programs, answers, run, seconds, pace.end - pace.now())
    total, gains = outside.take("the whole", compared)
    tuning.whole, won = Whole.of(Compared(total, [Gain(*gain) for gain in gains]))
    for row in tuning.rows:
        row.stored = tuning.whole.low >= WHOLE and row.question.digest in answers.keys() & won

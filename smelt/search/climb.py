"""The search for one region: from the default uphill, a few contenders at a time.

In every round the neighbours of the best points so far are lowered, which takes milliseconds each, and ranked by a
guess of their speed. The best of them, with a few drawn at random so that the guess stays honest, are built, verified
and raced against the default. What they show corrects the guess. Bounds: lowering and guessing take about 5 ms a point,
building 100 ms a contender and core, so hundreds of points are looked at for each dozen that are raced.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from smelt.cost import known as known_rates
from smelt.device import Device
from smelt.kernel import Illegal, Kernel, Region, print_kernel
from smelt.schedule import Candidate, Choice
from smelt.search.contender import Contender, Measurer, Outcome, Timed, considered
from smelt.search.guess import Estimate, Guess, Known, promising
from smelt.search.race import ADOPTED, LONG, is_adopted
from smelt.search.space import Point, leaps, located, starts, steps

FRONT = 3  # points whose neighbours are looked at
LEAPS = 8  # points two steps away from each of the front
CONFIRMED = 2  # contenders that may be looked at again in the end
FEWEST = 3  # contenders that are worth a race
LEAST_SECONDS = 0.6  # of a search, however short the runs are
BUILD_SECONDS = 0.08  # of one contender, on all cores
RUNS = 22  # of a contender in a round: eight to verify it, two of them on one thread, and its turns
# Runs of both in two processes to confirm one: 15 turns of 4 runs if they are long, else 6. Some turns do not count,
# and buffers are cold.
DECIDING_LONG, DECIDING_SHORT = 180, 270
LOOKING = 0.15  # of the time that is left, for looking at points
STALE = 2  # rounds without a better contender after which nothing more is expected
BETTER = 1.01  # times as fast
HOPELESS = -2.0  # the logarithm of the speed of what was not even timed


@dataclass(frozen=True)
class Limits:
    """What a search for one region may take, and how long one run of its default takes, if that is known."""

    seconds: float
    batch: int = 16  # contenders of a round, at most
    rounds: int = 1000
    run: float = 0.0
    stale: int = STALE

    @property
    def confirming(self) -> float:
        """Seconds at the end."""
        return max(min(1.0, self.seconds / 4), confirming_seconds(self.run))

    def fitting(self, left: float, known: float) -> int:
        """How many contenders can be built, verified and raced in so many seconds, given what one took before."""
        return min(self.batch, int(left / max(known, BUILD_SECONDS + RUNS * self.run)))


def confirming_seconds(run: float) -> float:
    """What it takes to confirm a contender, given the seconds of a run."""
    return (DECIDING_LONG if run >= LONG else DECIDING_SHORT) * run


def least_seconds(run: float) -> float:
    """What the search for one region takes at least, given the seconds of a run."""
    return LEAST_SECONDS + FEWEST * RUNS * run + confirming_seconds(run)


class Tried(NamedTuple):
    """A contender that was raced: how fast it was thought to be, relative to the default, and what became of it."""

    label: str
    contender: Contender
    guessed: float
    outcome: Outcome


@dataclass
class Climb:
    """What a search has found: the contender to adopt, if any, with what confirmed it, and everything it tried."""

    default: Contender
    tried: list[Tried] = field(default_factory=list)
    refused: int = 0  # points that do not fit the region
    best: Tried | None = None
    confirmed: Timed | None = None

    @property
    def states(self) -> Counter[str]:
        """What became of contenders: timed, wrong, hung, crashed, refused."""
        return Counter(one.outcome.state for one in self.tried) + Counter(refused=self.refused)

    @property
    def fastest(self) -> float:
        """What the best of them seemed to gain."""
        return max([1.0, *(one.outcome.timed.ratio for one in self.tried if one.outcome.timed is not None)])

    @property
    def adopted(self) -> Tried | None:
        """The contender that is faster than the default beyond doubt."""
        return self.best if self.confirmed is not None and is_adopted(self.confirmed) else None


class _Seen(NamedTuple):
    point: Point
    modelled: Estimate
    considered: tuple[Choice, Kernel]

    @property
    def known(self) -> Known:
        """What a guess is made from."""
        return self.point.features, self.modelled


class _Search:
    def __init__(self, region: Region, device: Device, rng: random.Random) -> None:
        self.region, self.device, self.rng = region, device, rng
        self.guess = Guess()
        self.default = Contender.default(region, device)
        self.rates = known_rates(device.profile)
        self.scale = Estimate.of(self.default.choice, device.profile, self.rates)
        self.kernels: set[tuple[str, int]] = set()  # that were looked at, with their chunks
        self.is_new(self.default.kernel, self.default.choice.grain)
        self.looked: set[tuple[object, ...]] = set()
        self.refused = 0
        self.waiting: list[_Seen] = []  # points that are worth building, if their turn comes

    def is_new(self, kernel: Kernel, grain: int) -> bool:
        """Whether nobody has had a kernel with these chunks before."""
        own = print_kernel(kernel), grain
        count = len(self.kernels)
        self.kernels.add(own)
        return len(self.kernels) > count

    def look(self, points: Iterable[Point], until: float, clock: Callable[[], float]) -> None:
        """Let points wait for their turn that fit the region and are not the same as others: as many as time allows."""
        profile = self.device.profile
        for point in points:
            if clock() > until:
                return
            candidate, knobs = point.candidate, point.knobs
            # Many knobs change nothing where others have the values that they have.
            said = point.form, candidate.actions, knobs.ahead, knobs.gathered, knobs.transpose, knobs.grain
            if said in self.looked:
                continue
            self.looked.add(said)
            try:
                choice, kernel = considered(candidate, self.region, profile)
            except Illegal:
                self.refused += 1
                continue
            if self.is_new(kernel, choice.grain):
                self.waiting.append(self.seen(point, choice, kernel))

    def seen(self, point: Point, choice: Choice, kernel: Kernel) -> _Seen:
        """A point with what is thought of it."""
        modelled = Estimate.of(choice, self.device.profile, self.rates)
        return _Seen(point, modelled.over(self.scale), (choice, kernel))

    def legal(self, seeds: Iterable[Candidate]) -> list[tuple[_Seen | None, Contender]]:
        """Contenders to begin with: those with knobs are points of the space."""
        found: list[tuple[_Seen | None, Contender]] = []
        for seed in seeds:
            with suppress(Illegal):
                contender = Contender.of(seed, self.region, self.device)
                if self.is_new(contender.kernel, contender.choice.grain):
                    point = located(seed, self.region, self.device.profile)
                    seen = None if point is None else self.seen(point, contender.choice, contender.kernel)
                    found.append((seen, contender))
        return found

    def batch(self, count: int, known: Mapping[str, float]) -> Iterator[tuple[_Seen, Contender]]:
        """The most promising points that wait, and some at random. What is known teaches, and is not tried again."""
        found = False
        while self.waiting and not found:
            chosen = promising(self.guess, [seen.known for seen in self.waiting], count, self.rng)
            taken = [self.waiting[at] for at in chosen]
            for at in sorted(chosen, reverse=True):
                del self.waiting[at]
            found = not taken
            for seen in taken:
                contender = Contender.rendered(*seen.considered, self.device)
                if contender.identity in known:
                    self.guess.learn(*seen.known, known[contender.identity])
                else:
                    found = True
                    yield seen, contender


def climb(
    region: Region,
    device: Device,
    measurer: Measurer,
    limits: Limits,
    rng: random.Random,
    seeds: Iterable[Candidate] = (),
    clock: Callable[[], float] = time.monotonic,
    each: Callable[[Climb], None] = lambda _: None,
    known: Mapping[str, float] | None = None,
) -> Climb:
    """Search for a schedule that is faster than the default's. Those of `seeds`, which were good elsewhere or before,
    take part in the first race. Contenders that are `known` to be no faster, with the logarithms of their speeds, do
    not. `each` is told what was found so far, before and after every round.
    """
    began = clock()
    search, stale, lately = _Search(region, device, rng), 0, 0.0
    found = Climb(search.default)
    each(found)
    speeds: dict[Point, float] = {}  # of those that were timed
    pool = starts(region, device.profile)
    waiting = search.legal(seeds)
    for _ in range(limits.rounds):
        left = limits.seconds - limits.confirming - (clock() - began)
        count = limits.fitting(left, lately)
        if count < min(FEWEST, limits.batch) or stale >= limits.stale:
            break
        front = sorted(speeds, key=lambda point: -speeds[point])[:FRONT] or pool[:1]
        for point in front:
            pool += [*steps(point), *leaps(point, LEAPS, rng)]
        search.look(pool, clock() + LOOKING * left, clock)
        pool, chosen = [], [*waiting, *search.batch(count - len(waiting), known or {})][:count]
        waiting = []
        if not chosen:
            break
        start = clock()
        outcomes = measurer.race(region, [found.default, *(contender for _, contender in chosen)], left / 2)
        lately, best = (clock() - start) / len(chosen), max([1.0, *speeds.values()])
        _learn(found, search, speeds, chosen, outcomes[1:])
        found.refused = search.refused
        each(found)
        stale = 0 if max([1.0, *speeds.values()]) > BETTER * best else stale + 1
    found.refused = search.refused
    _confirm(found, region, measurer, limits, lambda: limits.seconds - (clock() - began))
    return found


def _learn(
    found: Climb,
    search: _Search,
    speeds: dict[Point, float],
    chosen: Sequence[tuple[_Seen | None, Contender]],
    outcomes: Sequence[Outcome],
) -> None:
    """Take what became of contenders into account; those that there was no time for may have another turn."""
    guesses = [0.0 if seen is None else search.guess(*seen.known) for seen, _ in chosen]
    for (seen, contender), guessed, outcome in zip(chosen, guesses, outcomes, strict=True):
        if outcome.state == "late":
            search.waiting += [] if seen is None else [seen]
            continue
        label = contender.label if seen is None else str(seen.point)
        found.tried.append(Tried(label, contender, math.exp(guessed), outcome))
        if seen is not None and outcome.timed is not None:
            speeds[seen.point] = outcome.timed.ratio
        if seen is not None:
            search.guess.learn(*seen.known, HOPELESS if outcome.timed is None else math.log(outcome.timed.ratio))


def _confirm(found: Climb, region: Region, measurer: Measurer, limits: Limits, left: Callable[[], float]) -> None:
    """Have the best contenders race once more, until one holds: what seemed fastest of many was lucky, too."""
    timed = [(one.outcome.timed.ratio, one) for one in found.tried if one.outcome.timed is not None]
    for ratio, one in sorted(timed, key=lambda pair: -pair[0])[:CONFIRMED]:
        seconds = limits.confirming if found.best is None else min(limits.confirming, left())
        if ratio < ADOPTED or found.adopted is not None or seconds < confirming_seconds(limits.run):
            return
        found.best, found.confirmed = one, measurer.confirm(region, one.contender, found.default, seconds)

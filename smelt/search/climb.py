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
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from smelt.cost import known
from smelt.device import Device
from smelt.kernel import Illegal, Kernel, Region, print_kernel
from smelt.schedule import Candidate
from smelt.search.contender import Contender, Measurer, Outcome, Timed, considered
from smelt.search.guess import Estimate, Guess, Known, promising
from smelt.search.race import ADOPTED, is_adopted
from smelt.search.space import Point, leaps, starts, steps

FRONT = 3  # points whose neighbours are looked at
LEAPS = 24  # points two steps away from each of the front
CONFIRMED = 2  # contenders that may be looked at again in the end
STALE = 2  # rounds without a better contender after which there is no other
BETTER = 1.01  # times as fast
HOPELESS = -2.0  # the logarithm of the speed of what was not even timed


@dataclass(frozen=True)
class Limits:
    """What a search for one region may take."""

    seconds: float
    batch: int = 16  # contenders of a round
    rounds: int = 1000
    confirming: float = 1.0  # seconds, at the end


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
    def adopted(self) -> Tried | None:
        """The contender that is faster than the default beyond doubt."""
        return self.best if self.confirmed is not None and is_adopted(self.confirmed) else None


class _Seen(NamedTuple):
    point: Point
    modelled: Estimate

    @property
    def known(self) -> Known:
        """What a guess is made from."""
        return self.point.features, self.modelled


class _Search:
    def __init__(self, region: Region, device: Device, rng: random.Random) -> None:
        self.region, self.device, self.rng = region, device, rng
        self.guess = Guess()
        self.default = Contender.default(region, device)
        self.rates = known(device.profile)
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
                modelled = Estimate.of(choice, profile, self.rates)
                self.waiting.append(_Seen(point, modelled.over(self.scale)))

    def legal(self, seeds: Iterable[Candidate]) -> list[tuple[_Seen | None, Contender]]:
        """Contenders that are no points of the space."""
        found: list[tuple[_Seen | None, Contender]] = []
        for seed in seeds:
            with suppress(Illegal):
                contender = Contender.of(seed, self.region, self.device)
                if self.is_new(contender.kernel, contender.choice.grain):
                    found.append((None, contender))
        return found

    def batch(self, count: int) -> Iterator[tuple[_Seen, Contender]]:
        """The most promising points that wait, and some at random."""
        chosen = promising(self.guess, [seen.known for seen in self.waiting], count, self.rng)
        taken = [self.waiting[at] for at in chosen]
        for at in sorted(chosen, reverse=True):
            del self.waiting[at]
        for seen in taken:
            yield seen, Contender.of(seen.point.candidate, self.region, self.device)


def climb(
    region: Region,
    device: Device,
    measurer: Measurer,
    limits: Limits,
    rng: random.Random,
    seeds: Iterable[Candidate] = (),
    clock: Callable[[], float] = time.monotonic,
) -> Climb:
    """Search for a schedule that is faster than the default's. Those of `seeds`, which were good elsewhere or before,
    take part in the first race.
    """
    began = clock()
    search, stale = _Search(region, device, rng), 0
    found = Climb(search.default)
    speeds: dict[Point, float] = {}  # of those that were timed
    pool = starts(region, device.profile)
    waiting = search.legal(seeds)
    for _ in range(limits.rounds):
        left = limits.seconds - limits.confirming - (clock() - began)
        front = sorted(speeds, key=lambda point: -speeds[point])[:FRONT] or pool[:1]
        for point in front:
            pool += [*steps(point), *leaps(point, LEAPS, rng)]
        search.look(pool, clock() + left / 4, clock)
        pool, chosen = [], [*waiting, *search.batch(limits.batch)]
        waiting = []
        if left <= 0 or stale >= STALE or not chosen:
            break
        racing = [found.default, *(contender for _, contender in chosen)]
        outcomes = measurer.race(region, racing, left / 2)
        best = max([1.0, *speeds.values()])
        guesses = [0.0 if seen is None else search.guess(*seen.known) for seen, _ in chosen]
        for (seen, contender), guessed, outcome in zip(chosen, guesses, outcomes[1:], strict=True):
            label = contender.label if seen is None else str(seen.point)
            found.tried.append(Tried(label, contender, math.exp(guessed), outcome))
            if seen is not None and outcome.timed is not None:
                speeds[seen.point] = outcome.timed.ratio
            if seen is not None:
                search.guess.learn(*seen.known, HOPELESS if outcome.timed is None else math.log(outcome.timed.ratio))
        stale = 0 if max([1.0, *speeds.values()]) > BETTER * best else stale + 1
    found.refused = search.refused
    _confirm(found, region, measurer, limits.confirming)
    return found


def _confirm(found: Climb, region: Region, measurer: Measurer, seconds: float) -> None:
    """Have the best contenders race once more, until one holds: what seemed fastest of many was lucky, too."""
    timed = [(one.outcome.timed.ratio, one) for one in found.tried if one.outcome.timed is not None]
    for ratio, one in sorted(timed, key=lambda pair: -pair[0])[:CONFIRMED]:
        if ratio < ADOPTED or found.adopted is not None:
            return
        found.best, found.confirmed = one, measurer.confirm(region, one.contender, found.default, seconds)

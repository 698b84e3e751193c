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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from smelt.cost.kernel import cost
from smelt.cost.rates import known
from smelt.device import Device
from smelt.kernel import Illegal, Kernel, Region, print_kernel
from smelt.schedule import Candidate, lowered
from smelt.search.contender import Contender, Measurer, Outcome, Timed
from smelt.search.race import ADOPTED, LONG, is_adopted
from smelt.search.space import Point, leaps, starts, steps

FRONT = 3  # points whose neighbours are looked at
DRAWN = 8  # one in so many contenders is drawn at random
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
_RIDGE = 0.5  # how much evidence it takes to believe in an effect
_TRUST = 0.5  # in the cost model, where nothing was measured


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


class Guess:
    """How fast a point may be relative to the default: what the cost model says, corrected by effects of single knobs
    that were seen in this region. All speeds are logarithms.
    """

    def __init__(self) -> None:
        self._seen: list[tuple[frozenset[str], float, float]] = []
        self._found: tuple[float, dict[str, float]] | None = _TRUST, {}

    def learn(self, features: frozenset[str], modelled: float, measured: float) -> None:
        """Take a measurement into account."""
        self._seen.append((features, modelled, measured))
        self._found = None

    def __call__(self, features: Iterable[str], modelled: float) -> float:
        self._found = self._found or self._fitted()
        trust, effects = self._found
        return trust * modelled + sum(effects.get(name, 0.0) for name in sorted(features))

    def _fitted(self) -> tuple[float, dict[str, float]]:
        """How far the model is to be trusted, and what single features do: a ridge regression."""
        names = sorted(frozenset[str]().union(*(seen for seen, _, _ in self._seen)))
        table = np.array([[m, *(name in seen for name in names)] for seen, m, _ in self._seen], np.float64)
        before = np.array([_TRUST, *(0.0 for _ in names)])
        missed = np.array([y for _, _, y in self._seen]) - table @ before
        squares = table.T @ table + _RIDGE * np.eye(len(before))
        found = before + np.linalg.solve(squares, table.T @ missed)
        return float(found[0]), dict(zip(names, map(float, found[1:]), strict=True))


class _Seen(NamedTuple):
    point: Point
    modelled: float  # the logarithm of its speed, by the cost model
    lowered: tuple[Candidate, Kernel]

    @property
    def known(self) -> tuple[frozenset[str], float]:
        """What a guess is made from."""
        return self.point.features, self.modelled


class _Search:
    def __init__(self, region: Region, device: Device, rng: random.Random) -> None:
        self.region, self.device, self.rng = region, device, rng
        self.guess = Guess()
        self.default = Contender.default(region, device)
        self.texts = {print_kernel(self.default.kernel)}  # of kernels that were looked at
        self.scale = self.modelled(self.default.kernel)
        self.looked: set[Point] = set()
        self.refused = 0
        self.waiting: list[_Seen] = []  # points that are worth building, if their turn comes

    def modelled(self, kernel: Kernel) -> float:
        """The logarithm of the speed of a kernel, by the cost model."""
        profile = self.device.profile
        return -math.log(max(cost(self.region, kernel, profile).seconds(profile, known(profile)), 1e-9))

    def look(self, points: Iterable[Point], until: float, clock: Callable[[], float]) -> None:
        """Let points wait for their turn that fit the region and are not the same as others: as many as time allows."""
        for point in points:
            if point in self.looked or clock() > until:
                continue
            self.looked.add(point)
            try:
                taken, kernel = lowered(point.candidate, self.region, self.device.profile)
            except Illegal:
                self.refused += 1
                continue
            text = print_kernel(kernel := replace(kernel, name=self.default.kernel.name))
            if text not in self.texts:
                self.texts.add(text)
                self.waiting.append(_Seen(point, self.modelled(kernel) - self.scale, (taken, kernel)))

    def legal(self, seeds: Iterable[Candidate]) -> list[tuple[_Seen | None, Contender]]:
        """Contenders that are no points of the space."""
        found: list[tuple[_Seen | None, Contender]] = []
        for seed in seeds:
            with suppress(Illegal):
                contender = Contender.of(seed, self.region, self.device)
                if (text := print_kernel(contender.kernel)) not in self.texts:
                    self.texts.add(text)
                    found.append((None, contender))
        return found

    def batch(self, count: int) -> Iterator[tuple[_Seen, Contender]]:
        """The most promising points that wait, and some at random."""
        self.waiting.sort(key=lambda seen: self.guess(*seen.known))
        for k in range(count):
            if not self.waiting:
                return
            drawn = k % DRAWN == DRAWN - 1
            seen = self.waiting.pop(self.rng.randrange(len(self.waiting)) if drawn else -1)
            yield seen, Contender.lowered(*seen.lowered, self.region, self.device)


def climb(
    region: Region,
    device: Device,
    measurer: Measurer,
    limits: Limits,
    rng: random.Random,
    seeds: Iterable[Candidate] = (),
    clock: Callable[[], float] = time.monotonic,
    each: Callable[[Climb], None] = lambda _: None,
) -> Climb:
    """Search for a schedule that is faster than the default's. Those of `seeds`, which were good elsewhere or before,
    take part in the first race. `each` is told what was found so far, before and after every round.
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
        pool, chosen = [], [*waiting, *search.batch(count - len(waiting))][:count]
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

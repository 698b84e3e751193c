"""How good the guesses of a search are: `python -m smelt.search.report FILE...` judges them by lists of measured
schedules (`search.lists`). It times nothing, so it says the same on every machine.

For each list: R² of the cost model alone, R² and rank correlation of the guess for points that it has not seen (a fifth
at a time), and regrets: how much slower the best of so many contenders is than the best of the list, when contenders
are chosen as a search chooses them.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, median, quantiles
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from smelt.cost import Profile, assumed
from smelt.kernel import Illegal, Region, parse_region
from smelt.schedule import Candidate
from smelt.search.contender import considered
from smelt.search.guess import Estimate, Guess, Known, promising
from smelt.search.space import Point, starts

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"

FOLDS: Final = 5
COUNTS: Final = (8, 16, 32)  # of contenders, after which regret is told
BATCH: Final = 16  # contenders of a round
SEEDS: Final = 8
MATTERS: Final = 1.02  # times as fast


@dataclass(frozen=True)
class Measured:
    """A list: what a search knows of points before they are built, and the logarithms of their speeds on all cores."""

    name: str
    points: list[Known]
    speeds: Array


@dataclass(frozen=True)
class Quality:
    """What is told of a list."""

    name: str
    points: int
    model: float  # R² of the cost model
    guess: float  # R² of the guess, out of fold
    rank: float  # correlation of ranks, out of fold
    default: float  # regret of the default
    regrets: dict[int, float]  # by contenders, the mean of several searches


def load(path: Path, every: int = 1, alone: bool = False) -> Measured:
    """A list, or every so manieth of its points, as they were on all cores or on one alone. Those that are no schedules
    today are left out.
    """
    told = json.loads(path.read_text(encoding="utf-8"))
    region = parse_region(told["region"])
    profile = Profile(**(told["profile"] | {"features": frozenset(told["profile"]["features"])}))
    pool = {point.form: point for point in reversed(starts(region, profile))}
    cores = 1 if alone else profile.cores
    base = _estimated(next(iter(reversed(pool.values()))).candidate, region, profile, cores)
    points, speeds = [], []
    for form, knobs, *measured in told["points"][::every]:
        with suppress(Illegal, KeyError, TypeError):
            point = Point(pool[form].template, replace(pool[form].knobs, **knobs))
            points.append((point.features, _estimated(point.candidate, region, profile, cores).over(base)))
            speeds.append(measured[0 if alone else 1])
    return Measured(told["name"], points, np.array(speeds))


def _estimated(candidate: Candidate, region: Region, profile: Profile, cores: int) -> Estimate:
    choice, _ = considered(candidate, region, profile)
    return Estimate.of(choice, profile._replace(cores=cores), assumed(profile))


def out_of_fold(measured: Measured) -> Array:
    """What is guessed of each point by what was measured of those of other folds."""
    count = len(measured.points)
    fold = np.random.default_rng(0).permutation(count) % FOLDS
    guessed = np.zeros(count)
    for number in range(FOLDS):
        guess, unseen = Guess(), np.flatnonzero(fold == number)
        for at in np.flatnonzero(fold != number):
            guess.learn(*measured.points[at], measured.speeds[at])
        guessed[unseen] = guess.speeds([measured.points[at] for at in unseen])
    return guessed


def contenders(measured: Measured, count: int, seed: int) -> list[int]:
    """The points of a list that a search would race, in order."""
    guess, rng, raced = Guess(), random.Random(seed), list[int]()
    waiting = list(range(len(measured.points)))
    rng.shuffle(waiting)
    while len(raced) < count and waiting:
        chosen = promising(guess, [measured.points[at] for at in waiting], BATCH, rng)
        for at in [waiting[one] for one in chosen]:
            guess.learn(*measured.points[at], measured.speeds[at])
            waiting.remove(at)
            raced.append(at)
    return raced[:count]


def quality(measured: Measured, seeds: int = SEEDS) -> Quality:
    """How good guesses are by a list."""
    speeds, guessed = measured.speeds, out_of_fold(measured)
    best = max(float(speeds.max()), 0.0)
    orders = [contenders(measured, max(COUNTS), seed) for seed in range(seeds)]
    regrets = {count: mean(1 - np.exp(speeds[order[:count]].max() - best) for order in orders) for count in COUNTS}
    model = np.array([estimate.speed for _, estimate in measured.points])
    told = (explained(speeds, model), explained(speeds, guessed), ranked(speeds, guessed), 1 - float(np.exp(-best)))
    return Quality(measured.name, len(speeds), *told, {count: float(regret) for count, regret in regrets.items()})


def explained(measured: Array, guessed: Array) -> float:
    """R²: the share of the variance that guesses explain."""
    return 1.0 - float(((measured - guessed) ** 2).sum() / ((measured - measured.mean()) ** 2).sum())


def ranked(measured: Array, guessed: Array) -> float:
    """Spearman's correlation."""
    first, second = (each.argsort().argsort() for each in (measured, guessed))
    return float(np.corrcoef(first, second)[0, 1])


def table(found: Sequence[Quality]) -> Iterable[str]:
    """Lines of text: a row for each list, and one for all."""
    yield f"{'kernel':32} points  model  guess   rank  default  " + "  ".join(f"at {count:2}" for count in COUNTS)
    for one in found:
        regrets = "  ".join(f"{one.regrets[count]:5.1%}" for count in COUNTS)
        figures = f"{one.points:6} {one.model:6.2f} {one.guess:6.2f} {one.rank:6.2f}   {one.default:6.1%}"
        yield f"{one.name:32} {figures}  {regrets}"
    for title, typical in (("median", median), ("90th percentile", lambda some: quantiles(some, n=10)[-1])):
        regrets = "  ".join(f"{typical([one.regrets[count] for one in found]):5.1%}" for count in COUNTS)
        yield f"{title:32} {'':37}  {regrets}"


def worth(path: Path) -> dict[str, float]:
    """By knobs: how much faster the best of a list is than the best of those that leave the knob at its default. What
    counts is the smaller gain of the two on one thread and on all.
    """
    told = json.loads(path.read_text(encoding="utf-8"))["points"]
    points = [(knobs.keys(), min(measured)) for _, knobs, *measured in told]
    best = max(0.0, *(gain for _, gain in points))
    names = sorted(frozenset[str]().union(*(knobs for knobs, _ in points)))
    rest = {name: max([0.0, *(gain for knobs, gain in points if name not in knobs)]) for name in names}
    return {name: float(np.exp(best - rest[name])) for name in names}


def knob_table(paths: Sequence[Path]) -> Iterable[str]:
    """Lines of text: for each knob where it is worth most."""
    found = {path.stem: worth(path) for path in paths}
    names = sorted({name for each in found.values() for name in each})
    most = {name: max((each.get(name, 0.0), kernel) for kernel, each in found.items()) for name in names}
    for name in sorted(names, key=lambda name: -most[name][0]):
        gains = [each[name] for each in found.values() if name in each]
        times = sum(gain >= MATTERS for gain in gains)
        yield f"{name:14} {most[name][0]:6.3f}  {most[name][1]:20} {times:2} of {len(gains)}"


def main(words: Sequence[str] | None = None) -> None:
    """Print the quality of guesses."""
    parser = argparse.ArgumentParser("python -m smelt.search.report", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--alone", action="store_true", help="by the times of one thread")
    parser.add_argument("--knobs", action="store_true", help="print what each knob is worth instead")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    given = parser.parse_args(words)
    if given.knobs:
        print("\n".join(knob_table(given.files)))
        return
    found = [quality(load(path, alone=given.alone)) for path in given.files]
    print(json.dumps([asdict(one) for one in found], indent=2) if given.json else "\n".join(table(found)))


if __name__ == "__main__":
    main()

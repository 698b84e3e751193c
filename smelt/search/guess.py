"""How fast a point may be, before it is built: what the cost model says, corrected by what was measured in this region.

A correction is carried from measured points to those that are like them: that have the same knobs, and whose kernels do
as much of everything. Each likeness is a kernel of a Gaussian process; the figures below say how much each may explain.
They were chosen on lists of measured schedules (`search.report`), and are the same for all regions.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from smelt.cost import Profile, Rates
from smelt.schedule import Choice

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"

DRAWN = 8  # one in so many contenders is drawn at random
TRUST = 0.9  # in the cost model, where nothing was measured
# Variances of logarithms of speeds, by what explains them.
SINGLE = 0.02  # the value of a knob, whatever the others are
TOGETHER = 0.05  # all knobs
COUNTS = 0.1  # what the kernel does
SLOPE = 0.01  # each of its counts, in proportion
SCALE = 0.02  # the cost model's own figure, in proportion
NOISE = 0.01
ALIKE = 3.0  # knobs that differ until points are no longer alike
NEAR = 1.0  # the same for logarithms of counts and of speeds
MOST_TASKS, MOST_CHUNKS = 64, 8  # beyond which more make no difference


class Estimate(NamedTuple):
    """What the cost model says of a point: the logarithm of its speed, and of what its kernel does, both relative to
    the default's.
    """

    speed: float
    counts: tuple[float, ...] = ()

    @classmethod
    def of(cls, choice: Choice, profile: Profile, rates: Rates) -> Estimate:
        """Of what was chosen for a region, relative to nothing yet."""
        work, grain = choice.work, choice.grain
        chunks = -(-max(1, work.tasks) // grain)
        counted = (work.instructions, work.moves, *work.beyond[:2], work.divided + work.functions)
        bounded = (min(work.tasks, MOST_TASKS), min(chunks, MOST_CHUNKS))
        seconds = max(work.seconds(profile, rates, grain), 1e-9)
        return cls(-math.log(seconds), tuple(math.log1p(count) for count in (*counted, *bounded)))

    def over(self, other: Estimate) -> Estimate:
        """Relative to another one."""
        counts = (mine - its for mine, its in zip(self.counts, other.counts, strict=True))
        return Estimate(self.speed - other.speed, tuple(counts))


Known: TypeAlias = tuple[frozenset[str], Estimate]  # what a guess is made from: the knobs of a point, and its estimate


class Guess:
    """How fast points may be relative to the default, by what was learned of others. All speeds are logarithms."""

    def __init__(self) -> None:
        self._seen: list[Known] = []
        self._measured: list[float] = []
        self._solved: Array | None = None

    @property
    def is_informed(self) -> bool:
        """Whether anything was measured."""
        return bool(self._seen)

    def learn(self, features: Iterable[str], estimate: Estimate, measured: float) -> None:
        """Take a measurement into account."""
        self._seen.append((frozenset(features), estimate))
        self._measured.append(measured)
        self._solved = None

    def __call__(self, features: Iterable[str], estimate: Estimate) -> float:
        """The speed of one point."""
        return float(self.speeds([(frozenset(features), estimate)])[0])

    def speeds(self, points: Sequence[Known]) -> Array:
        """The speed of each point."""
        expected = TRUST * np.array([estimate.speed for _, estimate in points])
        if not self._seen:
            return expected
        if self._solved is None:
            missed = np.array(self._measured) - TRUST * np.array([estimate.speed for _, estimate in self._seen])
            noise = NOISE * np.eye(len(missed))
            self._solved = np.asarray(np.linalg.solve(likeness(self._seen, self._seen) + noise, missed))
        return np.asarray(expected + likeness(points, self._seen) @ self._solved)


def promising(guess: Guess, points: Sequence[Known], count: int, rng: random.Random) -> list[int]:
    """The points that are worth a race, by their numbers: those that may be fastest, and some at random, so that
    guesses stay honest. Before anything was measured there are half as many: they make the choice of others better.
    """
    count = count if guess.is_informed else max(1, count // 2)
    ordered = [int(at) for at in np.argsort(guess.speeds(points), kind="stable")]
    chosen = []
    for number in range(min(count, len(points))):
        drawn = number % DRAWN == DRAWN - 1
        chosen.append(ordered.pop(rng.randrange(len(ordered)) if drawn else -1))
    return chosen


def likeness(some: Sequence[Known], others: Sequence[Known]) -> Array:
    """How much of what is seen in one of the others holds for each of some points: a covariance."""
    numbers = {name: at for at, name in enumerate(sorted(frozenset[str]().union(*(names for names, _ in others))))}
    shared = _marked(some, numbers) @ _marked(others, numbers).T
    sizes = [np.array([len(names) for names, _ in points]) for points in (some, others)]
    different = sizes[0][:, None] + sizes[1][None] - 2 * shared
    speeds = [np.array([estimate.speed for _, estimate in points]) for points in (some, others)]
    counts = _counts(some), _counts(others)
    apart = (counts[0] ** 2).sum(1)[:, None] + (counts[1] ** 2).sum(1)[None] - 2 * counts[0] @ counts[1].T
    together = np.exp(-different / ALIKE - (speeds[0][:, None] - speeds[1][None]) ** 2 / (2 * NEAR**2))
    in_proportion = SCALE * np.outer(*speeds) + SLOPE * counts[0] @ counts[1].T
    alike = COUNTS * np.exp(-np.maximum(apart, 0) / (2 * NEAR**2))
    return np.asarray(SINGLE * shared + TOGETHER * together + alike + in_proportion)


def _counts(points: Sequence[Known]) -> Array:
    return np.array([estimate.counts for _, estimate in points]).reshape(len(points), -1)


def _marked(points: Sequence[Known], numbers: dict[str, int]) -> Array:
    """Ones where a point has a feature."""
    table = np.zeros((len(points), len(numbers)))
    for row, (names, _) in zip(table, points, strict=True):
        row[[numbers[name] for name in names if name in numbers]] = 1.0
    return table

"""Which contender is faster: statistics over a clock, which may be a simulation.

In each turn all contenders run one after the other in random order, between two runs of the incumbent and of a mark (a
kernel that is always the same), and then all of it once more backwards: whatever drifts meets everybody alike. A turn
in which the mark is slow fell into a slow phase of the machine and does not count. What is known of a contender is the
ratios of its turns, and their order alone: nothing is assumed about the noise.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence

from smelt.search.contender import Timed

INCUMBENT, MARK = 0, -1
ADOPTED = 1.02  # what the lower bound of a ratio must reach, in each of two processes
# Takes the numbers of contenders in the order in which they run, `INCUMBENT` and `MARK` among them; gives the seconds.
Clock = Callable[[Sequence[int]], Sequence[float]]

MOST_TURNS = 400
LEAST_TURNS = 15  # that count, for a result to be known
SLOW = 1.15  # how much slower than usual the mark may be
REMEMBERED = 20  # marks that say what is usual
LOOK = 3  # turns after which losers leave
LOST = 0.98  # a ratio that is not worth more turns
FAR = 0.85  # as a share of that, what is far from it
KNOWN = 0.01  # how far apart the bounds of a ratio may be


def bounds(ratios: Sequence[float]) -> tuple[float, float]:
    """Bounds of the median: 95 of 100 times it lies between them, whatever the distribution is."""
    ordered, count = sorted(ratios), len(ratios)
    skipped = max(0, int((count - 1.96 * math.sqrt(count)) / 2))
    return ordered[skipped], ordered[-1 - skipped]


def race(clock: Clock, contenders: int, seconds: float, now: Callable[[], float], rng: random.Random) -> list[Timed]:
    """What is found out about each contender, relative to the first, within so many seconds."""
    runs: list[list[float]] = [[] for _ in range(contenders)]
    ratios: list[list[float]] = [[] for _ in range(contenders)]
    alive, marks = list(range(1, contenders)), list[float]()
    start = now()
    for _ in range(MOST_TURNS):
        taken = _turn(clock, alive, rng)
        marks.append(statistics.median(taken[MARK]))
        if marks[-1] <= SLOW * _usual(marks):
            _note(taken, runs, ratios)
            turns = len(ratios[INCUMBENT])
            if turns % LOOK == 0:
                alive = _remaining(alive, ratios)
                if turns >= LEAST_TURNS and all(_is_known(ratios[c]) for c in alive):
                    break
            if not alive:
                break
        if now() - start >= seconds:
            break
    return [_result(some, own) for some, own in zip(ratios, runs, strict=True)]


def is_adopted(confirmed: Timed) -> bool:
    """Whether a contender takes the incumbent's place, given the worse of what two processes found."""
    return confirmed.turns >= LEAST_TURNS and confirmed.low >= ADOPTED


def worse(first: Timed, second: Timed) -> Timed:
    """The one that says less in favour of a contender: too few turns say nothing."""
    return min(first, second, key=lambda one: (one.turns >= LEAST_TURNS, one.low))


def _turn(clock: Clock, alive: Sequence[int], rng: random.Random) -> dict[int, list[float]]:
    order = [INCUMBENT, MARK, *rng.sample(alive, len(alive)), MARK, INCUMBENT]
    order += reversed(order)
    taken: dict[int, list[float]] = {}
    for number, seconds in zip(order, clock(order), strict=True):
        taken.setdefault(number, []).append(seconds)
    return taken


def _usual(marks: Sequence[float]) -> float:
    """The mark's time when the machine is at its best lately: half of it may be slow phases."""
    recent = sorted(marks[-REMEMBERED:])
    return recent[len(recent) // 4]


def _note(taken: dict[int, list[float]], runs: list[list[float]], ratios: list[list[float]]) -> None:
    # A single disturbance counts neither for nor against anybody: of each contender's two runs the better one counts,
    # and of the incumbent's four the better two, which is a little in its favour.
    incumbent = statistics.mean(sorted(taken[INCUMBENT])[:2])
    for number, seconds in taken.items():
        if number != MARK:
            best = incumbent if number == INCUMBENT else min(seconds)
            runs[number].append(best)
            ratios[number].append(incumbent / best)


def _remaining(alive: Sequence[int], ratios: Sequence[Sequence[float]]) -> list[int]:
    """Without those that are certainly slower than the best, or than the incumbent. Few turns say little."""
    best = max((bounds(ratios[c])[0] for c in alive), default=0.0)
    share = 1.0 if len(ratios[INCUMBENT]) > LOOK else FAR
    return [c for c in alive if bounds(ratios[c])[1] >= share * max(best, LOST)]


def _is_known(ratios: Sequence[float]) -> bool:
    low, high = bounds(ratios)
    return high - low <= KNOWN


def _result(ratios: Sequence[float], runs: Sequence[float]) -> Timed:
    if not ratios:
        return Timed(0.0, 0.0, math.inf, math.inf, 0)
    return Timed(statistics.median(ratios), *bounds(ratios), statistics.median(runs), len(ratios))

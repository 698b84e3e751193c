"""Which contender is faster: statistics over a clock, which may be a simulation.

In each turn all contenders run one after the other in random order, between two runs of the incumbent and of a mark (a
kernel that is always the same), and then all of it once more backwards: whatever drifts meets everybody alike. A turn
in which the mark or the incumbent is slow fell into a slow phase of the machine and does not count. What is known of a
contender is the ratios of its turns, and their order alone: nothing is assumed about the noise.
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
SEARCH_TURNS = 21  # of a race that only has to say who is worth another look
SLOW = 1.15  # how much slower than usual the mark may be
REMEMBERED = 20  # marks that say what is usual
LONG = 5e-3  # seconds of a run, from which a turn has half as many runs of the incumbent
LOOK = 3  # turns after which losers leave
MANY = 8  # of which the slower half stays for three turns more
FINALISTS = 3  # that stay when the slower half leaves
LOST = 0.98  # a ratio that is not worth more turns
FAR = 0.85  # as a share of that, what is far from it
KNOWN = 0.01  # how far apart the bounds of a ratio may be


def bounds(ratios: Sequence[float]) -> tuple[float, float]:
    """Bounds of the median: 95 of 100 times it lies between them, whatever the distribution is."""
    ordered, count = sorted(ratios), len(ratios)
    skipped = max(0, int((count - 1.96 * math.sqrt(count)) / 2))
    return ordered[skipped], ordered[-1 - skipped]


def _usual(times: Sequence[float]) -> float:
    """What something takes when the machine is at its best lately: half of it may be slow phases."""
    return sorted(times)[len(times) // 4] if times else math.inf


class Marks:
    """What a mark that is always the same takes lately, and so how the machine does: a turn in which it takes much
    longer does not count. They outlive a race: one that falls into a slow phase as a whole is noticed, too.
    """

    def __init__(self) -> None:
        self._recent: list[float] = []
        self._incumbents: list[float] = []
        self.counted = self.thrown = 0  # turns

    def begin(self) -> None:
        """A race begins, with another incumbent perhaps."""
        self._incumbents, self.counted, self.thrown = [], 0, 0

    @property
    def usual(self) -> float:
        """The mark's time when the machine is at its best lately."""
        return _usual(self._recent)

    def is_quiet(self, taken: Sequence[float], incumbent: Sequence[float]) -> bool:
        """Whether the marks of a turn are as usual, and the incumbent, which may need more of the machine, too."""
        self._recent = [*self._recent[1 - REMEMBERED :], statistics.median(taken)]
        self._incumbents = [*self._incumbents[1 - REMEMBERED :], statistics.mean(incumbent)]
        is_quiet = all(times[-1] <= SLOW * _usual(times) for times in (self._recent, self._incumbents))
        self.counted, self.thrown = self.counted + is_quiet, self.thrown + (not is_quiet)
        return is_quiet


def race(
    clock: Clock,
    contenders: int,
    seconds: float,
    now: Callable[[], float],
    rng: random.Random,
    marks: Marks | None = None,
    most: int = MOST_TURNS,
    worth: float = LOST,
) -> list[Timed]:
    """What is found out about each contender, relative to the first, within so many seconds and turns. A contender that
    cannot be `worth` times as fast any more leaves.
    """
    runs: list[list[float]] = [[] for _ in range(contenders)]
    ratios: list[list[float]] = [[] for _ in range(contenders)]
    alive, marks = list(range(1, contenders)), marks or Marks()
    marks.begin()
    start = began = now()
    for _ in range(most):
        taken = _turn(clock, alive, rng, _is_long(runs))
        if marks.is_quiet(taken[MARK], times := _better_half(taken[INCUMBENT])):
            _note(taken, statistics.mean(times), runs, ratios)
            turns = len(ratios[INCUMBENT])
            if turns % LOOK == 0 or (turns < LOOK and _is_long(runs)):
                alive = _remaining(alive, ratios, worth)
                if turns >= LEAST_TURNS and all(_is_known(ratios[c]) for c in alive):
                    break
            if not alive:
                break
        began, turn = now(), now() - began
        if began + turn - start >= seconds:  # the next one would end too late
            break
    return [_result(some, own) for some, own in zip(ratios, runs, strict=True)]


def is_adopted(confirmed: Timed) -> bool:
    """Whether a contender takes the incumbent's place, given the worse of what two processes found."""
    return confirmed.turns >= LEAST_TURNS and confirmed.low >= ADOPTED


def worse(first: Timed, second: Timed) -> Timed:
    """The one that says less in favour of a contender: too few turns say nothing."""
    return min(first, second, key=lambda one: (one.turns >= LEAST_TURNS, one.low))


def _is_long(runs: Sequence[Sequence[float]]) -> bool:
    """Whether a single disturbance says little about a run."""
    return bool(runs[INCUMBENT]) and runs[INCUMBENT][0] >= LONG


def _turn(clock: Clock, alive: Sequence[int], rng: random.Random, is_long: bool) -> dict[int, list[float]]:
    order = [INCUMBENT, MARK, *rng.sample(alive, len(alive))]
    order += [] if is_long else [MARK, INCUMBENT]
    order += reversed(order)
    taken: dict[int, list[float]] = {}
    for number, seconds in zip(order, clock(order), strict=True):
        taken.setdefault(number, []).append(seconds)
    return taken


def _better_half(times: Sequence[float]) -> list[float]:
    return sorted(times)[: len(times) // 2]


def _note(taken: dict[int, list[float]], incumbent: float, runs: list[list[float]], ratios: list[list[float]]) -> None:
    # A single disturbance counts neither for nor against anybody: of two runs the better one counts, and of the
    # incumbent's four the better two, which is a little in its favour.
    for number, seconds in taken.items():
        if number != MARK:
            best = incumbent if number == INCUMBENT else min(seconds)
            runs[number].append(best)
            ratios[number].append(incumbent / best)


def _remaining(alive: Sequence[int], ratios: Sequence[Sequence[float]], worth: float) -> list[int]:
    """Without those that are certainly slower than the best, or than is worth while, and of many without the slower
    half. Few turns say little.
    """
    best, turns = max((bounds(ratios[c])[0] for c in alive), default=0.0), len(ratios[INCUMBENT])
    is_early = turns <= LOOK
    needed = max(best, worth if turns >= LEAST_TURNS else min(worth, LOST)) * (FAR if is_early else 1.0)
    few = len(alive) if turns < LOOK else max(MANY if is_early else FINALISTS, -(-len(alive) // 2))
    fastest = sorted(alive, key=lambda c: -statistics.median(ratios[c]))[:few]
    return [c for c in alive if c in fastest and bounds(ratios[c])[1] >= needed]


def _is_known(ratios: Sequence[float]) -> bool:
    low, high = bounds(ratios)
    return high - low <= KNOWN


def _result(ratios: Sequence[float], runs: Sequence[float]) -> Timed:
    if not ratios:
        return Timed(0.0, 0.0, math.inf, math.inf, 0)
    return Timed(statistics.median(ratios), *bounds(ratios), statistics.median(runs), len(ratios))

"""Races for regions with symbolic sizes: one kernel serves a whole range, so it has to be good all over it.

Contenders race at a few sizes: an odd one high in the range first, which sees tails and what is worth a task, then the
ends and the geometric middle, and most of all the sizes that a program was seen to use. What loses anywhere is not
adopted, whatever it gains elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from smelt.kernel import Region, extent
from smelt.search.contender import Contender, Measurer, Outcome, Timed
from smelt.search.inputs import length, number
from smelt.search.race import LEAST_TURNS

LOSES: Final = 0.99  # times as fast: what is slower anywhere is not adopted
SURELY: Final = 0.98  # the same for the lower bound
LONGER: Final = 3  # times as many seconds, where there were too few turns
SEEN: Final = 2  # sizes that a program uses most often, which weigh as much as all others
MOST_BYTES: Final = 1 << 26  # of the buffers of a region at the largest of its sizes that is tried
MOST_WORK: Final = 1 << 29  # elements of all its axes together: a race of more would take minutes, and say the same
_SHARES: Final = (0.75, 1.0, 0.5, 0.0)  # of the way from the lowest sizes to the highest, by their logarithms
_STEPS: Final = 16

Sizes = Mapping[str, int]


class Place(NamedTuple):
    """Sizes to race at, and how much what happens there counts."""

    sizes: Sizes
    weight: float


def places(region: Region, seen: Sequence[Sizes] = ()) -> list[Place]:
    """Where contenders for a region race, given the sizes that were seen, the most frequent first."""
    most = next((k / _STEPS for k in range(_STEPS, 0, -1) if _fits(region, _between(region, k / _STEPS))), 0.0)
    own = [_between(region, most * share, is_odd=turn == 0) for turn, share in enumerate(_SHARES)]
    names = {v.name for v in region.parameters}
    used = [{**own[0], **one} for one in seen[:SEEN] if one and one.keys() <= names]
    weights = {tuple(one.items()): 1.0 for one in own}
    weights |= {tuple(one.items()): len(own) / len(used) for one in used}
    return sorted((Place(dict(sizes), weight) for sizes, weight in weights.items()), key=lambda place: -place.weight)


def racer(region: Region, make: Callable[[Sizes | None], Measurer], seen: Sequence[Sizes] = ()) -> Measurer:
    """Who races contenders for a region, made for some sizes: for several where those are symbolic."""
    if not region.parameters:
        return make(None)
    there = places(region, seen)
    return Sized([make(one.sizes) for one in there], [one.weight for one in there])


class Sized:
    """A `Measurer` at several places, each with a measurer of its own. At the first all contenders race, at the others
    those that it is not known of that they lose.
    """

    def __init__(self, measurers: Sequence[Measurer], weights: Sequence[float]) -> None:
        self.measurers, self._weights = measurers, weights

    def race(self, region: Region, contenders: Sequence[Contender], seconds: float) -> list[Outcome]:
        """What became of each contender, of those that race everywhere by what they do everywhere."""
        found: list[list[Outcome]] = [[] for _ in contenders]
        racing = list(range(len(contenders)))
        for turn, one in enumerate(self.measurers):
            share = seconds / 2 / max(1, len(self.measurers) - 1) if turn else seconds / 2
            outcomes = one.race(region, [contenders[at] for at in racing], share)
            for at, outcome in zip(racing, outcomes, strict=True):
                found[at].append(outcome)
            racing = [at for at in racing if at == 0 or _may_win(found[at][-1])]
            if len(racing) == 1:
                break
        return [self._together(outcomes) for outcomes in found]

    def confirm(self, region: Region, best: Contender, default: Contender, seconds: float) -> Timed:
        """Both against each other at every place, for so many seconds at each."""
        found: list[Timed] = []
        for one in self.measurers:
            timed = one.confirm(region, best, default, seconds)
            if timed.turns < LEAST_TURNS and _holds(timed):  # large sizes take longer to be sure of
                timed = one.confirm(region, best, default, LONGER * seconds)
            found.append(timed)
            if not _holds(found[-1]):
                return found[-1]._replace(low=min(found[-1].low, LOSES))
        return together(found, self._weights)

    def _together(self, outcomes: Sequence[Outcome]) -> Outcome:
        """The last outcome, with what all of them say about speed where there is one of each place."""
        last = outcomes[-1]
        timed = [one.timed for one in outcomes if one.timed is not None]
        if len(timed) < len(self.measurers) or last.verdict is None:
            return last
        bits = next((one.verdict.bits for one in outcomes if one.verdict and one.verdict.bits != "same"), "same")
        return last._replace(verdict=last.verdict._replace(bits=bits), timed=together(timed, self._weights))


def together(timed: Sequence[Timed], weights: Sequence[float]) -> Timed:
    """Times at several sizes as one: their weighted means, and no gain where one of them is a loss."""
    total = sum(weights)

    def mean(values: Sequence[float]) -> float:
        logarithms = [weight * math.log(max(value, 1e-9)) for value, weight in zip(values, weights, strict=True)]
        return math.exp(sum(logarithms) / total)

    ratio, low, high = (mean([one[k] for one in timed]) for k in range(3))
    if not all(map(_holds, timed)):
        ratio, low = min(1.0, ratio), min(LOSES, *(one.low for one in timed))
    return Timed(ratio, low, high, mean([one.seconds for one in timed]), min(one.turns for one in timed))


def _may_win(outcome: Outcome) -> bool:
    return outcome.timed is not None and outcome.timed.ratio >= LOSES


def _holds(timed: Timed) -> bool:
    """Whether a contender does not lose at a place."""
    return timed.ratio >= LOSES and timed.low >= SURELY


def _between(region: Region, share: float, is_odd: bool = False) -> dict[str, int]:
    """Sizes that lie so far on the way from the lowest to the highest."""
    sizes: dict[str, int] = {}
    for variable in region.parameters:
        low, high = number(variable.first, sizes), number(variable.last, sizes)
        size = round(max(1, low) ** (1 - share) * max(1, high) ** share)
        sizes[variable.name] = max(low, min(high, size + (is_odd and size % 2 == 0)))
    return sizes


def _fits(region: Region, sizes: Sizes) -> bool:
    held = sum(length(buffer, sizes) * buffer.dtype.itemsize for buffer in region.buffers())
    return held <= MOST_BYTES and math.prod(number(extent(axis), sizes) for axis in region.axes) <= MOST_WORK

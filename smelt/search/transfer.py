"""From shape to shape: what was found for a region says something about those that differ from it in sizes only.

What is carried are the knobs that were changed: all others stay at the default of the new sizes. A number of blocks
that was a share of an axis is tried as it is, and as the same share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import combinations
from typing import Final, NamedTuple

from smelt.cost import Profile
from smelt.device import Device
from smelt.errors import ParseError
from smelt.kernel import Illegal, Region, Split, extent, parse_region
from smelt.schedule import Candidate, named
from smelt.search.contender import Contender
from smelt.search.record import Place, Question, Record, read
from smelt.search.space import Point, located

NEIGHBOURS: Final = 4  # that are looked at
FAR: Final = 8.0  # doublings of sizes, all together, beyond which nothing is carried
GAIN: Final = 1.02  # times as fast, at least, is what is carried
_STATES: Final = ("confirmed", "timed")


class Near(NamedTuple):
    """A region that was tuned: how far away it is, and what was found, the best first."""

    distance: float
    records: list[Record]


def distance(sizes: Sequence[int], others: Sequence[int]) -> float:
    """By how many doublings the sizes of two regions of the same form differ."""
    if len(sizes) != len(others) or min(*sizes, *others, 1) < 1:
        return math.inf
    return sum(abs(math.log2(a / b)) for a, b in zip(sizes, others, strict=True))


def near(question: Question, place: Place, records: Iterable[Record]) -> list[Near]:
    """The neighbours of a region at a place, the nearest first."""
    found: dict[str, Near] = {}
    for record in sorted(records, key=_rank, reverse=True):
        own = (record.question.form, record.place) == (question.form, place) and record.state in _STATES
        if own and record.question.digest != question.digest and record.evidence.ratio >= GAIN:
            new = Near(distance(question.sizes, record.question.sizes), [])
            found.setdefault(record.question.digest, new).records.append(record)
    nearest = sorted((one for one in found.values() if one.distance <= FAR), key=lambda one: one.distance)
    return nearest[:NEIGHBOURS]


def bracketed(question: Question, device: Device, lines: Iterable[bytes]) -> str:
    """The template and knobs that two neighbours have in common, one on each side of a region in every size that
    differs, and not more than a factor of two away; nothing if there are none, or if they mean other sources by now.
    """
    found = [record for record in map(read, lines) if isinstance(record, Record)]
    known = [record for record in found if record.question.form == question.form and record.place == Place.of(device)]
    pairs = [
        (distance(a.question.sizes, b.question.sizes), a, b)
        for a, b in combinations(known, 2)
        if a.answer.knobs == b.answer.knobs and _is_between(question.sizes, a.question.sizes, b.question.sizes)
    ]
    for _, a, b in sorted(pairs, key=lambda pair: pair[0]):
        if _is_as_measured(a, device) and _is_as_measured(b, device):
            return a.answer.knobs
    return ""


def _is_between(sizes: Sequence[int], first: Sequence[int], second: Sequence[int]) -> bool:
    if not len(sizes) == len(first) == len(second):
        return False
    each = [(size, *sorted(others)) for size, *others in zip(sizes, first, second, strict=True)]
    return all(low == size == high or low < size < high <= 2 * size <= 4 * low for size, low, high in each)


def _is_as_measured(record: Record, device: Device) -> bool:
    """Whether knobs still give the source of a record, so that what was measured says something about them."""
    with suppress(ParseError, Illegal):
        region = parse_region(record.question.text)
        candidate = named(region, device.profile, record.answer.knobs)
        if candidate is not None:
            return Contender.of(candidate, region, device).digest == record.answer.source
    return False


def _rank(record: Record) -> tuple[bool, float]:
    return record.state == "confirmed", record.evidence.ratio


def carried(near: Near, region: Region, profile: Profile) -> Iterator[Candidate]:
    """The best for a neighbour of which this region has the template: at the same knobs, and at the same shares of its
    axes.
    """
    for record in near.records:
        same = named(region, profile, record.answer.knobs) if record.answer.knobs else None
        if same is not None:
            yield same
            yield from _of_shares(record, same, region, profile)
            return


def _of_shares(record: Record, same: Candidate, region: Region, profile: Profile) -> Iterator[Candidate]:
    with suppress(ParseError):
        other = parse_region(record.question.text)
        there, here = named(other, profile, record.answer.knobs), located(same, region, profile)
        if there is not None and here is not None:
            shares = dict(_shares(there, here, sizes_of(other), sizes_of(region)))
            if shares:
                yield here.template.at(here.with_knobs(shares))


def sizes_of(region: Region) -> dict[str, int]:
    """The axes of a region whose sizes are known."""
    return {axis.name: size for axis in region.axes if isinstance(size := extent(axis), int)}


def _shares(there: Candidate, here: Point, old: dict[str, int], new: dict[str, int]) -> Iterator[tuple[str, int]]:
    """The knobs that say how many blocks an axis of a neighbour is cut into, or how long those are, with what they are
    where the axis has another size.
    """
    for name, value in here.changes():
        for split in there.actions:
            if isinstance(split, Split) and (value, "loop") in split.parts and isinstance(value, int):
                scaled = max(1, round(value * new.get(split.axis, 1) / old.get(split.axis, 1)))
                if scaled != value:
                    yield name, scaled

"""All self-tests with their bars: what must hold on a machine before anybody believes what a search has found there."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from smelt.device import Device
from smelt.kernel import parse_region
from smelt.search.selftest.database import fuzz, kill, writers
from smelt.search.selftest.mutants import REGIONS, survey
from smelt.search.selftest.races import Adoptions, races

PLANTED: Final = 1.05  # how much faster or slower the clock says that a contender is
SECONDS: Final = 0.2  # of a race
_SHOWN: Final = 5  # failures that are told

Say = Callable[[int], None]


class Counts(NamedTuple):
    """How many of each: races of the default against itself, races of either planted kind, mutants that there must be,
    kills, writers, hostile lines. None of what is 0.
    """

    aa: int = 0
    planted: int = 0
    mutants: int = 0
    kill: int = 0
    writers: int = 0
    fuzz: int = 0


SMALL: Final = Counts(aa=10, planted=5, mutants=15, kill=4, writers=2, fuzz=3000)


class Result(NamedTuple):
    """What a self-test should show, what it has shown, and whether that is enough; details of what is not."""

    test: str
    bar: str
    found: str
    holds: bool
    details: tuple[str, ...]
    seconds: float


class _Findings(NamedTuple):
    found: str
    holds: bool
    details: tuple[str, ...] = ()


Run = Callable[[Say], _Findings]


class Test(NamedTuple):
    """A self-test: its name, its bar, how many steps it takes, and what runs it."""

    name: str
    bar: str
    steps: int
    run: Run


def tests(counts: Counts, device: Device, noise: bool, seed: int = 0) -> Iterator[Test]:
    """The self-tests that are asked for."""
    aa, planted = counts.aa, counts.planted
    if aa:
        name = f"default against itself{', one core busy half of the time' if noise else ''}"
        yield Test(name, f"at most 1 of {aa} adopted", aa, lambda say: _races(device, aa, 1.0, 0, 1, noise, seed, say))
    if planted:
        least = min(planted - 1, math.ceil(0.95 * planted))
        slower: Run = lambda say: _races(device, planted, PLANTED, 0, 0, False, seed, say)  # noqa: E731
        faster: Run = lambda say: _races(device, planted, 1 / PLANTED, least, planted, False, seed, say)  # noqa: E731
        yield Test("5 % slower", f"0 of {planted} adopted", planted, slower)
        yield Test("5 % faster", f"at least {least} of {planted} adopted", planted, faster)
    if counts.mutants:
        bar = f"at least {counts.mutants} made, all found before a time is stored, each with its reason"
        yield Test("mutants", bar, counts.mutants, lambda say: _mutants(device, counts.mutants, say))
    if counts.kill:
        bar = f"readable {counts.kill} of {counts.kill} times, nothing lost, nothing left after 5 s"
        yield Test("kill", bar, counts.kill, lambda say: _attack(kill(counts.kill, seed, say), f"{counts.kill} kills"))
    if counts.writers:
        bar = "all records, no torn line, no two timings at once"
        told = f"{counts.writers} writers, then {counts.writers} tuners"
        yield Test("writers", bar, counts.writers, lambda _: _attack(writers(counts.writers), told))
    if counts.fuzz:
        bar = "no exception, at most 256 MiB read, nothing written elsewhere"
        yield Test("fuzz", bar, counts.fuzz, lambda say: _attack(fuzz(counts.fuzz, seed, say), f"{counts.fuzz} lines"))


def run(test: Test, say: Say) -> Result:
    """What a self-test shows. One that cannot be run has failed."""
    began = time.monotonic()
    try:
        found = test.run(say)
    except Exception as error:  # whatever it is, the next one is run
        found = _Findings(f"{type(error).__name__}: {error}"[:200], False)
    return Result(test.name, test.bar, *found, time.monotonic() - began)


def _races(
    device: Device, count: int, factor: float, least: int, most: int, noise: bool, seed: int, say: Say
) -> _Findings:
    """Races after which at least and at most so many may be adopted."""
    found = races(parse_region(REGIONS[0]), device, count, factor, noise, SECONDS, seed, say)
    return _Findings(_told(found), least <= found.adopted <= most and found.known > 0)


def _told(found: Adoptions) -> str:
    ratios = sorted(found.ratios)
    middle = f"{ratios[0]:.3f} … {ratios[len(ratios) // 2]:.3f} … {ratios[-1]:.3f}" if ratios else "none"
    return f"{found.adopted} of {found.races} adopted; ratios {middle}; {found.races - found.known} not known"


def _mutants(device: Device, least: int, say: Say) -> _Findings:
    found = survey(device, least, say=say)
    survived = [f"{one.mistake}, of region {one.region}: timed" for one in found if one.outcome.timed is not None]
    mute = [f"{one.mistake}, of region {one.region}: no reason" for one in found if not one.outcome.reason]
    told = f"{len(found) - len(survived)} of {len(found)} found"
    return _Findings(told, len(found) >= least and not survived and not mute, (*survived, *mute)[:_SHOWN])


def _attack(failures: list[str], what: str) -> _Findings:
    return _Findings(f"{what}: {len(failures) or 'no'} failures", not failures, tuple(failures[:_SHOWN]))

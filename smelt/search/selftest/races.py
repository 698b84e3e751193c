"""Races whose result is known: the default against itself, and against what the clock says is faster or slower."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from smelt.device import Device
from smelt.kernel import Region
from smelt.search.contender import Contender
from smelt.search.measure import Racer
from smelt.search.race import is_adopted

# Keeps a core busy half of the time, in stretches of a few seconds.
_NEIGHBOR = """
import os, time
parent = os.getppid()
while os.getppid() == parent:
    end = time.monotonic() + 2.0
    while time.monotonic() < end:
        pass
    time.sleep(2.0)
"""


class Adoptions(NamedTuple):
    """How many of so many contenders were adopted, how many could be timed, and the ratios that were found."""

    adopted: int
    races: int
    known: int
    ratios: list[float]


def races(
    region: Region,
    device: Device,
    count: int,
    factor: float = 1.0,
    is_noisy: bool = False,
    seconds: float = 0.5,
    seed: int = 0,
    say: Callable[[int], None] = lambda _: None,
) -> Adoptions:
    """Confirm the default against itself so many times; what the clock says of the second is multiplied by a factor."""
    one, found = Contender.default(region, device), []
    with Racer(device, seed=seed) as racer, _neighbor() if is_noisy else contextlib.nullcontext():
        racer.planted = [1.0, factor]
        for number in range(count):
            found.append(racer.confirm(region, one, one, seconds))
            say(number + 1)
    known = [timed for timed in found if timed.turns]  # those that lose leave early
    return Adoptions(sum(map(is_adopted, found)), count, len(known), [timed.ratio for timed in known])


@contextlib.contextmanager
def _neighbor() -> Iterator[None]:
    """Somebody else on the machine."""
    process = subprocess.Popen([sys.executable, "-c", _NEIGHBOR])
    try:
        yield
    finally:
        process.kill()
        process.wait()

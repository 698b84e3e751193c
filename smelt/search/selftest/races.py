"""Races whose result is known: the default against itself, and against what the clock says is faster or slower."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
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
    """How many of so many contenders were adopted, and the ratios that were found."""

    adopted: int
    races: int
    ratios: list[float]


def races(
    region: Region, device: Device, count: int, factor: float = 1.0, is_noisy: bool = False, seconds: float = 0.5
) -> Adoptions:
    """Confirm the default against itself so many times; what the clock says of the second is multiplied by a factor."""
    racer, one = Racer(device), Contender.default(region, device)
    racer.planted = [1.0, factor]
    found = []
    with _neighbor() if is_noisy else contextlib.nullcontext():
        for _ in range(count):
            found.append(racer.confirm(region, one, one, seconds))
    return Adoptions(sum(map(is_adopted, found)), count, [timed.ratio for timed in found])


@contextlib.contextmanager
def _neighbor() -> Iterator[None]:
    """Somebody else on the machine."""
    process = subprocess.Popen([sys.executable, "-c", _NEIGHBOR])
    try:
        yield
    finally:
        process.kill()
        process.wait()

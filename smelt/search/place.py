"""Where a figure holds: figures of one machine say nothing about another."""

from __future__ import annotations

import functools
import hashlib
from typing import NamedTuple

from smelt.config import settings
from smelt.cost import Profile
from smelt.device.protocol import Device


class Place(NamedTuple):
    """A device, the family of processors that it is of, how much of it there is and is used, and what compiles for
    it. The family and the compiler are digests: what they stand for is long, and nobody else's business.
    """

    device: str
    family: str
    cores: int
    threads: int
    toolchain: str

    @classmethod
    def of(cls, device: Device) -> Place:
        """Where a device is, and how this process uses it."""
        profile = device.profile
        threads = settings().threads or profile.cores
        return cls(device.name, _family(profile), profile.cores, threads, digest(device.identity))


def digest(text: str) -> str:
    """A short name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@functools.cache
def _family(profile: Profile) -> str:
    """All that schedules may depend on, but for the number of cores."""
    facts = profile._replace(cores=0, features=frozenset())
    return digest(repr((tuple(facts), sorted(profile.features))))

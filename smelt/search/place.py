"""Where a figure holds: figures of one machine say nothing about another."""

from __future__ import annotations

import functools
import hashlib
from typing import Any

from smelt.config import settings
from smelt.cost import Profile
from smelt.device import Device


def place_of(device: Device) -> dict[str, Any]:
    """Where a device is, and how this process uses it: the fields of a `Place`.

    The family of processors and the compiler are digests: what they stand for is long, and nobody else's business.
    """
    profile = device.profile
    return {
        "device": device.name,
        "family": _family(profile),
        "cores": profile.cores,
        "threads": settings().threads or profile.cores,
        "toolchain": digest(device.identity),
    }


def digest(text: str) -> str:
    """A short name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@functools.cache
def _family(profile: Profile) -> str:
    """All that schedules may depend on, but for the number of cores."""
    facts = profile._replace(cores=0, features=frozenset())
    return digest(repr((tuple(facts), sorted(profile.features))))

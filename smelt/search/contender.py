"""One way to compute a region, and what is found out about it: the types that a search, its measurements and its
database share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from smelt.cost import Profile
from smelt.cost.kernel import cost
from smelt.device import Device
from smelt.errors import InternalError
from smelt.kernel import Illegal, Kernel, Region, print_schedule
from smelt.schedule import Candidate, Choice, candidates, lowered

DIGEST = 32  # hexadecimal digits


@dataclass(frozen=True)
class Contender:
    """One way to compute a region, ready to build."""

    label: str  # in words: form and knobs
    schedule: str  # its actions as text: what is stored, and what the compiler is answered
    kernel: Kernel
    choice: Choice
    source: str  # of the kernel alone, named "k0", as the device renders it

    @property
    def digest(self) -> str:
        """What timings are bound to: the source that they were found with."""
        return hashlib.sha256(self.source.encode()).hexdigest()[:DIGEST]

    @classmethod
    def of(cls, candidate: Candidate, region: Region, device: Device) -> Contender:
        """The contender that a candidate is for a region; raises `Illegal` if it does not fit."""
        choice, kernel = considered(candidate, region, device.profile)
        return cls(choice.title, print_schedule(choice.actions), kernel, choice, device.render([kernel]))

    @classmethod
    def default(cls, region: Region, device: Device) -> Contender:
        """What is taken without search: the incumbent of every race."""
        for candidate in candidates(region, device.profile):
            with suppress(Illegal):
                return cls.of(candidate, region, device)
        raise InternalError("no actions at all are legal for every region")


def considered(candidate: Candidate, region: Region, profile: Profile) -> tuple[Choice, Kernel]:
    """What a candidate is for a region, before it is rendered; raises `Illegal` if it does not fit."""
    taken, kernel = lowered(candidate, region, profile)
    kernel = replace(kernel, name="k0")
    return Choice.of(taken, cost(region, kernel, profile), profile, ()), kernel


class Verdict(NamedTuple):
    """Whether a contender is right, and what is known of its bits, compared with the default's: "same", "sums" (in
    another order of additions) or "regrouped".
    """

    right: bool
    reason: str
    bits: str


class Timed(NamedTuple):
    """How fast a contender is, relative to the incumbent (above 1: faster), with bounds; and the seconds of a run."""

    ratio: float
    low: float
    high: float
    seconds: float
    turns: int


class Outcome(NamedTuple):
    """What became of a contender: "timed", "wrong", "hung", "crashed" or "refused" (by the C compiler)."""

    digest: str
    state: str
    reason: str
    verdict: Verdict | None
    timed: Timed | None


class Measurer(Protocol):
    """Who races contenders: real ones in a process of their own, or a simulation."""

    def race(self, region: Region, contenders: Sequence[Contender], seconds: float) -> list[Outcome]:
        """What became of each contender. The first is the incumbent, the default."""
        ...

    def confirm(self, region: Region, best: Contender, default: Contender, seconds: float) -> Timed:
        """Both against each other in two fresh processes; the worse of the two results."""
        ...

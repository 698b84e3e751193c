"""What is decided about a region: the candidate that is taken, and why those before it are not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from smelt.cost import Profile
from smelt.cost.kernel import NO_WORK, Work
from smelt.kernel import Action, Keep, Region, print_schedule

Actions = tuple[Action, ...]


class Candidate(NamedTuple):
    """Actions worth trying: what they make of a region is a program of this form.

    The region is the one that is asked about, or another one that computes the same.
    """

    form: str
    region: Region
    actions: Actions
    knobs: str = ""  # the values of a template's knobs, where the form is one


class Refused(NamedTuple):
    """A candidate that would have been better, and what stands against it."""

    form: str
    reason: str


@dataclass(frozen=True)
class Choice:
    """A program's form, its actions, and how many of its tasks make a chunk of work for one thread."""

    form: str
    actions: Actions
    grain: int
    refused: tuple[Refused, ...] = ()
    knobs: str = ""
    work: Work = NO_WORK  # what it does, by the cost model

    @classmethod
    def of(cls, candidate: Candidate, work: Work, profile: Profile, refused: Iterable[Refused]) -> Choice:
        """With chunks that are worth a thread by the cost model."""
        form, _, actions, knobs = candidate
        return cls(form, actions, work.grain(profile), tuple(refused), knobs, work)

    @property
    def title(self) -> str:
        """The form, with its knobs."""
        return f"{self.form} ({self.knobs})" if self.knobs else self.form

    def text(self) -> str:
        """The actions in one line."""
        return print_schedule(self.actions).replace("\n", "; ")

    @property
    def keeps(self) -> bool:
        """Whether values are kept from one phase to the next, perhaps where the result will be."""
        return any(isinstance(action, Keep) for action in self.actions)


def formed(form: str, region: Region, schedules: Iterable[Actions]) -> Iterator[Candidate]:
    """Candidates that are all of one form."""
    return (Candidate(form, region, actions) for actions in schedules)

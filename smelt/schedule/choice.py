"""What is decided about a region: the candidate that is taken, and why those before it are not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, NamedTuple, Protocol, Self, get_type_hints

from smelt.cost import Profile
from smelt.cost.kernel import NO_WORK, Work
from smelt.kernel import Action, Grain, Keep, Region, print_schedule

Actions = tuple[Action, ...]
Domain = tuple[int | str, ...]


class Facts(Protocol):
    """What a template has to know of a region."""

    @property
    def region(self) -> Region: ...


@dataclass(frozen=True, kw_only=True)
class Knobs:
    """A template at some values of its knobs, its fields: each has a domain (what its annotation adds to the type), and
    together they give a schedule.

    Here are those that all templates have, and also what is no template.
    """

    ahead: Annotated[int, 0, 1, 1024, 2048, 4096, 8192] = (
        1  # bytes early to ask for large buffers; 1 as suits the processor
    )
    large: Annotated[int, 1 << 20, 1] = 1 << 20  # bytes from which on a buffer is; smaller ones stay in the caches
    gathered: Annotated[int, 0, 4, 8, 16] = 8  # turns of a loop ahead of which what it gathers is
    transpose: Annotated[int, 0, 1] = 1  # squares with lanes across the rows of memory are transposed in registers
    grain: Annotated[int, 0, 1, 2, 4, 8, 16, 64] = 0  # tasks at a time; 0 for as many as the cost model says

    def actions(self, facts: Any) -> Actions:
        """The schedule of a region of which the template knows these facts, but for hints."""
        raise NotImplementedError

    def domains(self, facts: Any) -> dict[str, Domain]:
        """What each knob may be for a region: what it is now comes first."""
        hints = get_type_hints(type(self), include_extras=True)
        every = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
        return {name: tuple(dict.fromkeys((getattr(self, name), *rest))) for name, rest in every.items()}

    def told(self, text: str) -> Self | None:
        """With values that a text names, as in "height 8, tail mask"; None if it names what is no knob, or no value."""
        changes: dict[str, Any] = {}
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, _, value in (part.partition(" ") for part in text.split(", ") if part):
            if name not in known or isinstance(known[name], int) != value.isdecimal():
                return None
            changes[name] = int(value) if value.isdecimal() else value
        return replace(self, **changes)

    def __str__(self) -> str:
        named = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]
        return ", ".join(f"{name} {value}" for name, value, default in named if value != default)


class Candidate(NamedTuple):
    """Actions worth trying: what they make of a region is a program of this form.

    The region is the one that is asked about, or another one that computes the same. Without knobs the actions say
    all. Where the form is a template, there is what it knows of the region, too.
    """

    form: str
    region: Region
    actions: Actions
    knobs: Knobs | None = None
    facts: Facts | None = None

    @classmethod
    def of(cls, form: str, facts: Facts, knobs: Knobs) -> Candidate:
        """A template at some knobs."""
        return cls(form, facts.region, knobs.actions(facts), knobs, facts)


class Template(NamedTuple):
    """A form that a region may have, the knobs that it has by default, and what each of them may be: a search space."""

    form: str
    facts: Facts
    default: Knobs
    domains: dict[str, Domain]

    def at(self, knobs: Knobs) -> Candidate:
        """The candidate at some knobs, which may be refused when it is lowered."""
        return Candidate.of(self.form, self.facts, knobs)


@dataclass(frozen=True)
class Choice:
    """A program's form, its actions, and how many of its tasks make a chunk of work for one thread."""

    form: str
    actions: Actions
    grain: int
    refused: tuple[str, ...] = ()  # forms that would have been better, and what stands against them
    knobs: str = ""
    work: Work = NO_WORK  # what it does, by the cost model

    @classmethod
    def of(cls, candidate: Candidate, work: Work, profile: Profile, refused: Iterable[str]) -> Choice:
        """With chunks as the actions say, else such that are worth a thread by the cost model."""
        said = next((action.tasks for action in candidate.actions if isinstance(action, Grain)), 0)
        knobs = "" if candidate.knobs is None else str(candidate.knobs)
        return cls(candidate.form, candidate.actions, said or work.grain(profile), tuple(refused), knobs, work)

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

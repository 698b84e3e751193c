"""The space that a search walks: templates at values of their knobs, one or two steps from each other.

Knobs that are numbers have neighbours: the next values of their domain on either side. Knobs that are words go from
any value to any other; so does 0, which stands for "all" or "none".
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

from smelt.cost import Profile
from smelt.kernel import Region
from smelt.schedule import Candidate, Template, templates
from smelt.schedule.choice import Knobs

REACH = 2  # values of a number's domain on either side that are one step away


@dataclass(frozen=True)
class Point:
    """A template at some knobs. Points of one region are the same if their forms and knobs are."""

    template: Template = field(compare=False, repr=False)
    knobs: Knobs
    form: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "form", self.template.form)

    @property
    def candidate(self) -> Candidate:
        """What it makes of its region; it may be refused when it is lowered."""
        return self.template.at(self.knobs)

    @property
    def features(self) -> frozenset[str]:
        """What is different from the template's default, for whoever learns which steps pay."""
        return frozenset([self.form, *(f"{self.form} {name} {value}" for name, value in self.changes())])

    def changes(self) -> Iterator[tuple[str, int | str]]:
        """The knobs that are not at their default, with their values."""
        for name in [knob.name for knob in fields(self.knobs)]:
            value = getattr(self.knobs, name)
            if value != getattr(self.template.default, name):
                yield name, value

    def with_knobs(self, changes: Mapping[str, int | str]) -> Knobs:
        """Its knobs, with other values for some."""
        return replace(self.knobs, **changes)  # type: ignore[arg-type]

    def __str__(self) -> str:
        said = ", ".join(f"{name} {value}" for name, value in self.changes())
        return f"{self.form}: {said}" if said else self.form


def starts(region: Region, profile: Profile) -> list[Point]:
    """Every template of a region at its default knobs; the first is what is taken without a search."""
    idle = set[str]() if profile.group_threads else {"threads"}  # where threads do not come in groups
    if not any(e.op == "load" and e.attribute.picks for e in region.order()):
        idle.add("gathered")
    width = profile.vector_bytes // min(e.dtype.itemsize for e in region.order())
    return [Point(_narrowed(each, idle, width), each.default) for each in templates(region, profile)]


def located(candidate: Candidate, region: Region, profile: Profile) -> Point | None:
    """The point that a candidate is, if it is one."""
    for start in starts(region, profile):
        if candidate.knobs is not None and (start.form, type(start.knobs)) == (candidate.form, type(candidate.knobs)):
            return Point(start.template, candidate.knobs)
    return None


def _narrowed(template: Template, idle: set[str], width: int) -> Template:
    """A template without knobs that change nothing, and without vectors that no register holds: those never win."""
    domains = {name: domain for name, domain in template.domains.items() if name not in idle}
    for name in domains.keys() & {"lanes", "key_lanes"}:
        domains[name] = tuple(each for each in domains[name] if isinstance(each, int) and each <= max(width, 1))
    return template._replace(domains=domains)


def steps(point: Point) -> Iterator[Point]:
    """All points that differ in one knob by one step."""
    for name, domain in point.template.domains.items():
        now = getattr(point.knobs, name)
        for value in _near(now, domain):
            yield Point(point.template, point.with_knobs({name: value}))


def leaps(point: Point, count: int, rng: random.Random) -> Iterator[Point]:
    """Points two steps away, drawn at random: some knobs only pay together, as a wider tile and a smaller depth do."""
    for _ in range(count):
        once = rng.choice(list(steps(point)))
        yield rng.choice(list(steps(once)))


def _near(now: int | str, domain: tuple[int | str, ...]) -> list[int | str]:
    others = [value for value in domain if value != now]
    if isinstance(now, str) or not now:
        return others
    numbers = sorted(value for value in others if isinstance(value, int) and value)
    below, above = [value for value in numbers if value < now], [value for value in numbers if value > now]
    return [*(value for value in others if not value), *below[-REACH:], *above[:REACH]]

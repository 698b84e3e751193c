"""The default schedule: good at once, without search, by the kind of the region and the device profile.

Each kind lists schedules from the best to the plainest; the first that is legal is taken, and no actions at all
always are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from smelt.cost import Profile
from smelt.cost.kernel import cost
from smelt.errors import InternalError
from smelt.graph import upper
from smelt.kernel import Illegal, Kernel, Local, Region, lower, statements
from smelt.schedule.access import reductions
from smelt.schedule.blockwise import Blocks, Scores, blockwise_schedules, further_blocks
from smelt.schedule.choice import Candidate, Choice, Knobs, Template
from smelt.schedule.contraction import contraction_schedules, further_contractions
from smelt.schedule.facts import Contraction, contraction_of
from smelt.schedule.hints import hints
from smelt.schedule.nests import nests
from smelt.schedule.scaled_words import scaled_schedules
from smelt.schedule.word_tiles import word_programs


def choose(region: Region, profile: Profile, first: Iterable[Candidate] = ()) -> tuple[Choice, Kernel]:
    """What is taken for a region without search, and the kernel that it gives. Candidates may come `first`."""
    refused: list[str] = []
    for candidate in chain(first, candidates(region, profile)):
        try:
            taken, kernel = lowered(candidate, region, profile)
        except Illegal as refusal:
            refused.append(f"{candidate.form}: {refusal}")
            continue
        return Choice.of(taken, cost(region, kernel, profile), profile, refused), kernel
    raise InternalError("no actions at all are legal for every region")


def lowered(candidate: Candidate, region: Region, profile: Profile) -> tuple[Candidate, Kernel]:
    """The kernel of a candidate for a region, and the candidate with what its knobs say about that kernel.

    Raises `Illegal` for one that does not fit the region or the device.
    """
    kernel = lower(candidate.region, candidate.actions)
    if candidate.actions and not fits_group(kernel, profile):
        raise Illegal("a group has too little memory")
    # Whoever calls it knows the buffers in the order of the region.
    kernel = replace(kernel, buffers=tuple(region.buffers()))
    told = () if candidate.knobs is None else tuple(hints(candidate.knobs, kernel, profile))
    for action in told:
        kernel = action.on(kernel)
    return candidate._replace(actions=(*candidate.actions, *told)), kernel


def candidates(region: Region, profile: Profile) -> Iterator[Candidate]:
    """What is worth trying, best first."""
    yield from scaled_schedules(region, profile)
    contraction = contraction_of(region, profile.multiplies_by_lane)
    if contraction is not None and len(contraction.summed) == 1:
        yield from word_programs(contraction, profile)
    if dict(region.roles).get("y") is not None and not profile.group_threads:
        yield from blockwise_schedules(region, profile)
        if len(region.outputs) > 1 and len(reductions(region)) > 1:  # joined for those two alone
            yield Candidate("plain", region, (), Knobs())
            return
    if contraction is not None:
        yield from contraction_schedules(contraction, profile)
    yield from nests(region, profile)


def templates(region: Region, profile: Profile) -> list[Template]:
    """The templates that a region may have, each with its default knobs: what a search starts from. The best first."""
    found: dict[tuple[str, object], Template] = {}
    known = list(candidates(region, profile))
    for form, _, _, knobs, facts in chain(known, _further(region, known, profile)):
        if knobs is not None and facts is not None:
            template = Template(form, facts, knobs, knobs.domains(facts))
            found.setdefault((form, type(knobs)), template)
    return list(found.values())


def named(region: Region, profile: Profile, text: str) -> Candidate | None:
    """A template of a region at knobs that a text names, as in "tiled: height 8, unroll 4": others are at their default
    for this region. None where the region has no such template.
    """
    form, _, said = text.partition(": ")
    for template in templates(region, profile):
        knobs = template.default.told(said) if template.form == form else None
        if knobs is not None:
            return template.at(knobs)
    return None


def _further(region: Region, known: Sequence[Candidate], profile: Profile) -> Iterator[Candidate]:
    """What no default takes, but a search may start from, given what defaults are chosen from."""
    # In words there are other tiles: those of instructions.
    plain = [one for one in reversed(known) if one.region is region]
    for facts, knobs in {type(one.facts): (one.facts, one.knobs) for one in plain}.values():
        if isinstance(facts, Contraction):
            yield from further_contractions(facts, profile)
        if isinstance(facts, Scores) and isinstance(knobs, Blocks):
            yield from further_blocks(facts, knobs, profile)


def fits_group(kernel: Kernel, profile: Profile) -> bool:
    """Whether the memory that a group shares holds a kernel's."""
    if not profile.group_threads:
        return True
    local = [s.buffer for s in statements(kernel.body) if isinstance(s, Local)]
    held = sum(math.prod(upper(size) for size in buffer.shape) * buffer.dtype.itemsize for buffer in local)
    folding = 2 * 8 * kernel.threads  # what folds across threads need, of two types
    return held + folding <= profile.group_bytes

"""The default schedule: good at once, without search, by the kind of the region and the device profile.

Each kind lists schedules from the best to the plainest; the first that is legal is taken, and no actions at all
always are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from smelt.cost import Profile
from smelt.cost.kernel import cost
from smelt.cost.limits import KEEP_INSTRUCTIONS
from smelt.graph import Variable, upper
from smelt.kernel import (
    Action,
    Bind,
    Expression,
    Illegal,
    Keep,
    Kernel,
    Online,
    Order,
    Region,
    Split,
    Stream,
    Unroll,
    extent,
    follows,
    lower,
)
from smelt.schedule.access import again_instructions, phases, reductions, walks
from smelt.schedule.blockwise import blockwise_schedules
from smelt.schedule.choice import Candidate, Choice, Refused, formed
from smelt.schedule.contraction import contraction_schedules
from smelt.schedule.facts import contraction_of
from smelt.schedule.scans import scan_schedules, scans
from smelt.schedule.vectors import fitting, split, streams, vector_axis, vector_lanes
from smelt.schedule.word_tiles import word_programs
from smelt.schedule.workgroups import fits_group, group_candidates

MOST_VALUES = 256  # in the body of a loop, over all of its registers and turns: enough to keep a core busy
COLUMN_PAGE = 1024  # columns that one task folds together: a page of each row
COLUMN_ROWS = 8  # rows that are folded at a time
COLUMN_VECTORS = 8  # vectors of neighboring columns that are folded side by side


def choose(region: Region, profile: Profile, first: Iterable[Candidate] = ()) -> tuple[Choice, Kernel]:
    """What is taken for a region without search, and the kernel that it gives. Candidates may come `first`."""
    refused: list[Refused] = []
    for candidate in chain(first, candidates(region, profile)):
        form = candidate.form
        try:
            kernel = lower(candidate.region, candidate.actions)
        except Illegal as refusal:
            refused.append(Refused(form, str(refusal)))
            continue
        if not fits_group(kernel, profile):
            refused.append(Refused(form, "a group has too little memory"))
            continue
        # Whoever calls it knows the buffers in the order of the region.
        kernel = replace(kernel, buffers=tuple(region.buffers()))
        return Choice.of(candidate, cost(region, kernel, profile), profile, refused), kernel
    kernel = lower(region, ())
    return Choice.of(Candidate("plain", region, ()), cost(region, kernel, profile), profile, refused), kernel


def candidates(region: Region, profile: Profile) -> Iterator[Candidate]:
    """What is worth trying, best first."""
    contraction = contraction_of(region)
    if contraction is not None and len(contraction.summed) == 1:
        yield from word_programs(contraction, profile)
    if profile.group_threads:
        yield from formed("group", region, group_candidates(region, profile))
        return
    if dict(region.roles).get("y") is not None:
        yield from blockwise_schedules(region, profile)
        if len(region.outputs) > 1 and len(reductions(region)) > 1:  # joined for those two alone
            yield Candidate("plain", region, ())
            return
        if contraction is not None:
            yield from contraction_schedules(contraction, profile)
    if scans(region):
        yield from formed("scan", region, scan_schedules(region, profile))
    elif reductions(region):
        yield from formed("columns", region, _columns(region, profile))
        yield from formed("rows", region, _rows(region, profile))
    else:
        yield from formed("elementwise", region, _elementwise(region, profile))
    yield from formed("plain", region, _plain(region))


def _elementwise(region: Region, profile: Profile) -> Iterator[tuple[Action, ...]]:
    output = region.outputs[0]
    axes = region.parallel_axes(output)
    accesses = walks(region)
    vector = vector_axis(accesses, axes)
    actions: list[Action] = []
    if vector is not None:
        actions += split(vector, 1, fitting(vector_lanes(region, profile, vector), vector))
        # A transpose reads along another axis than it writes: with that one innermost, lines are used at once.
        crossing = [access for access in accesses if access.along(vector) not in (0, 1)]
        inner = vector_axis(crossing, axes)
        last = [vector] if inner is None else [vector, inner]
        axes = (*(axis for axis in axes if axis not in last), *last)
    loops = tuple(f"{axis.name}.0" for axis in axes)
    if not loops:
        return
    actions.append(Order(loops))
    # Tasks are rows of vectors if there are enough of them, else single vectors.
    rows = 1
    for axis in axes[:-1]:
        rows *= upper(extent(axis))
    bound = loops[:-1] if rows >= 256 else loops
    if streams(region, profile):
        yield (*actions, Bind(bound), Stream())
    yield (*actions, Bind(bound))
    yield tuple(actions)


def _rows(region: Region, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """Reductions, and what is computed from them in the same kernel."""
    folds = reductions(region)
    shared = frozenset.intersection(*[e.axes for e in folds])  # what every reduction varies over: the rows
    axes = region.parallel_axes(region.outputs[0])
    rows = [axis for axis in axes if axis in shared]
    others = [axis for axis in axes if axis not in shared]
    vector = vector_axis(walks(region), region.axes)
    actions: list[Action] = []
    if vector is not None and vector not in axes and upper(extent(vector)) < vector_lanes(region, profile):
        # Short windows: vectors run along the result instead.
        vector = vector_axis(walks(region)[:1], axes) or vector
    if vector is not None:
        lanes = fitting(vector_lanes(region, profile, vector), vector)
        registers = 4 if axes else 8
        while registers > 1 and registers * len(region.order()) > MOST_VALUES:
            registers //= 2
        registers = max(1, min(registers, -(-upper(extent(vector)) // lanes)))
        actions += split(vector, registers, lanes)
        rows.sort(key=lambda axis: axis == vector)
    loops = tuple(f"{axis.name}.0" for axis in (*rows, *others))
    if loops:
        actions.append(Order(loops))
    bind = [Bind(tuple(f"{axis.name}.0" for axis in rows))] if rows else []
    led = [follower.m for e in folds if (follower := follows(e)) is not None]
    # What is itself a reduction is not made twice, for what leads and for what follows it.
    once = dict.fromkeys(lead.attribute.axes[0].name for lead in led if lead.arguments[0].op == "reduce")
    if once:
        yield (*actions, *bind, *map(Online, once))
    for keep in _keeps(region, vector):
        yield (*actions, *bind, keep)
    yield (*actions, *bind)
    yield tuple(actions)


def _columns(region: Region, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """One reduction whose results lie side by side in memory: a page of a row at a time, a few rows at once."""
    axes = region.parallel_axes(region.outputs[0])
    vector = vector_axis(walks(region), region.axes)
    folded = reductions(region)[0].attribute.axes
    if vector not in axes or len(reductions(region)) > 1 or len(folded) > 1:
        return
    lanes = vector_lanes(region, profile)
    width = COLUMN_VECTORS * lanes
    columns, rows = extent(vector), extent(folded[0])
    if not isinstance(columns, int) or not isinstance(rows, int) or columns < 2 * width or rows < 2 * COLUMN_ROWS:
        return
    blocks = min(COLUMN_PAGE // width, -(-columns // width))
    turns = max(1, min(COLUMN_ROWS, MOST_VALUES // (COLUMN_VECTORS * len(region.order()))))
    v, r = vector.name, folded[0].name
    outer = tuple(f"{axis.name}.0" for axis in axes if axis != vector)
    yield (
        Split(v, ((blocks, "loop"), (COLUMN_VECTORS, "reg"), (lanes, "lane"))),
        Split(r, ((COLUMN_ROWS, "loop"),)),
        Order((*outer, f"{v}.0", f"{r}.0", f"{v}.1", f"{r}.1")),
        Bind((*outer, f"{v}.0")),
        *((Unroll(f"{r}.1", turns),) if turns > 1 else ()),
    )


def _keeps(region: Region, vector: Variable | None) -> Iterator[Keep]:
    """Values made in one phase and needed in a later one, that are dearer to make again than to read back."""
    if vector is None:
        return
    uses: dict[Expression, int] = {}
    for phase in phases(region):
        for e in phase:
            uses[e] = uses.get(e, 0) + 1
    names = {e: name for name, e in region.named().items()}
    again = {e: again_instructions(e, vector) for e, n in uses.items() if n > 1 and vector in e.axes and e.arguments}
    best = max(again, key=lambda e: again[e], default=None)
    if best is None or again[best] < KEEP_INSTRUCTIONS:
        return
    yield Keep(names[best], "out")
    yield Keep(names[best], "local")


def _plain(region: Region) -> Iterator[tuple[Action, ...]]:
    """Scalar loops, in parallel if the outermost loop may be."""
    axes = region.parallel_axes(region.outputs[0])
    if axes:
        yield (Bind((f"{axes[0].name}.0",)),)
    yield ()

"""Loop nests at the knobs that they have by default, by the kind of the region and the device profile.

Devices whose threads come in groups have a task for each group. Tiles at an edge are masked there rather than exact, so
that a kernel has one body: compilers of OpenCL take long over barriers on several ways through a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from smelt.cost import Profile
from smelt.cost.operations import KEEP_INSTRUCTIONS, LINE, STREAM_SHARE, instructions
from smelt.graph import Variable, upper
from smelt.kernel import Bind, Region, extent, follows, walk
from smelt.schedule.access import fitting, reductions, shared_values, vector_axis, vector_lanes, walks
from smelt.schedule.choice import Actions, Candidate, Knobs
from smelt.schedule.facts import loops, sizes
from smelt.schedule.nest import Axes, Nest

MOST_VALUES = 256  # in the body of a loop, over all of its registers and turns: enough to keep a core busy
FEW_TASKS, TASKS_OF_CORE = 32, 8  # that are enough to share out, at least
TASK_VECTORS = 64  # of a row that is cut into several tasks
PAGE_VECTORS = 8  # of neighboring columns that are folded side by side
PAGE_ROWS = 8  # rows that are folded at a time
PAGE_COLUMNS = 1024  # rows of a page are far apart enough: one that is looked up is used whole
STRIPS = {8: (PAGE_COLUMNS, 8), 4: (320, 2)}  # columns of a task and rows of a turn, by the rows that are read at once
PAGE_BYTES = 4096  # the same for what is scanned

# On devices whose threads come in groups.
ROW_THREADS = 128  # that fold a row together, at most
ELEMENT_THREADS = 64  # that take neighboring elements
FEWEST = 16  # elements below which an axis is not worth sharing out


def nests(region: Region, profile: Profile) -> Iterator[Candidate]:
    """Loop nests for a region, the best first; at last no actions at all, which always are legal."""
    folds = reductions(region)
    scanned = tuple(dict.fromkeys(axis for e in region.order() if e.op == "scan" for axis in e.attribute.axes))
    free = tuple(axis for axis in region.parallel_axes(region.outputs[0]) if axis not in scanned)
    axes = whole = Axes(region, free, (), next(iter(scanned), None), scanned)
    if folds and not scanned:
        shared = frozenset.intersection(*[e.axes for e in folds])
        rows, others = (tuple(axis for axis in free if (axis in shared) == is_row) for is_row in (True, False))
        axes = Axes(region, rows, others, folds[0].attribute.axes[-1])
    kinds: dict[str, Callable[[Axes, Profile], Iterator[Nest]]] = {"elementwise": _elementwise}
    if scanned or folds:
        kinds = {"scan": _scan} if scanned else {"columns": _columns, "rows": _rows}
    if profile.group_threads:
        yield from (Candidate.of("group", axes, nest) for nest in _group_rows(axes, profile))
        yield from (Candidate.of("group", whole, nest) for nest in _group_columns(whole, profile))
    else:
        yield from (Candidate.of(form, axes, nest) for form, kind in kinds.items() for nest in kind(axes, profile))
    plain: list[Actions] = [(Bind(loops(free[:1])),), ()] if free else [()]
    form = "group" if profile.group_threads else "plain"
    yield from (Candidate(form, region, actions, Knobs()) for actions in plain)


def _elementwise(axes: Axes, profile: Profile) -> Iterator[Nest]:
    if not axes.rows:
        return
    region, accesses = axes.region, walks(axes.region)
    vector = vector_axis(accesses, axes.rows)
    nest, last = Nest(), axes.rows[-1]
    if vector is not None:
        lanes = fitting(vector_lanes(region, profile, vector), vector)
        # A transpose reads along another axis than it writes: with that one innermost, and whole lines of vectors
        # inside it, lines are used at once, of what is read and of what is written.
        inner = vector_axis([access for access in accesses if access.along(vector) not in (0, 1)], axes.rows)
        nest, last = Nest(vector.name, lanes, inner="" if inner is None else inner.name), inner or vector
        blocks = LINE // (lanes * region.outputs[0].buffer.dtype.itemsize)
        if inner is not None and blocks > 1 and sizes([vector]) >= 2 * blocks * lanes:
            nest = replace(nest, blocks=blocks)
    nest = _shared_out(nest, axes, last, profile)
    if _streams(axes, profile):
        yield replace(nest, stream=1)
    yield nest
    yield replace(nest, tasks=0)


def _shared_out(nest: Nest, axes: Axes, last: Variable, profile: Profile) -> Nest:
    """With tasks: as few of the outer loops as are enough for all cores, since every task works out anew where it is.
    Where that takes the innermost loop, too, a task has many vectors of it.
    """
    outer = [axis for axis in axes.rows if axis.name not in (nest.vector, last.name)]
    outer += [axis for axis in axes.rows if axis.name == nest.vector != last.name]
    tasks, count = _enough(outer, profile, nest.vector, nest.lanes * max(1, nest.blocks))
    if not outer or (count < FEW_TASKS and not nest.vector):
        return replace(nest, tasks=len(axes.rows))
    if count < FEW_TASKS and last.name == nest.vector and sizes([last]) >= 2 * TASK_VECTORS * nest.lanes:
        return replace(nest, tasks=len(axes.rows), blocks=TASK_VECTORS)
    return replace(nest, tasks=tasks)


def _enough(outer: Sequence[Variable], profile: Profile, vector: str = "", width: int = 1) -> tuple[int, int]:
    """How many of the outer loops are enough tasks for all cores, and how many tasks these are."""
    tasks, count = 0, 1
    for axis in outer:
        if count >= max(FEW_TASKS, TASKS_OF_CORE * profile.cores):
            break
        tasks, size = tasks + 1, extent(axis)
        if isinstance(size, int):  # else there may be only one
            count *= -(-size // (width if axis.name == vector else 1))
    return tasks, count


def _streams(axes: Axes, profile: Profile) -> bool:
    """Whether the result is so large that storing it past the caches pays."""
    outputs = axes.region.outputs
    elements = sizes(axes.region.parallel_axes(outputs[0]))
    return elements * sum(output.buffer.dtype.itemsize for output in outputs) * STREAM_SHARE >= profile.l3_bytes


def _rows(axes: Axes, profile: Profile) -> Iterator[Nest]:
    """Reductions, and what is computed from them in the same kernel."""
    region, free = axes.region, (*axes.rows, *axes.others)
    vector = vector_axis(walks(region), region.axes)
    if vector is not None and vector not in free and upper(extent(vector)) < vector_lanes(region, profile):
        # Short windows: vectors run along the result instead.
        vector = vector_axis(walks(region)[:1], region.parallel_axes(region.outputs[0])) or vector
    # What inner loops have in common is computed once for a task.
    nest = Nest(tasks=_enough(axes.rows, profile)[0])
    if vector is not None:
        lanes = fitting(vector_lanes(region, profile, vector), vector)
        registers = 4 if free else 8
        while registers > 1 and registers * len(region.order()) > MOST_VALUES:
            registers //= 2
        registers = max(1, min(registers, -(-upper(extent(vector)) // lanes)))
        nest = replace(nest, vector=vector.name, lanes=lanes, registers=registers)
        led = [follower.m for e in reductions(region) if (follower := follows(e)) is not None]
        # What is itself a reduction is not made twice, for what leads and for what follows it.
        once = dict.fromkeys(lead.attribute.axes[0].name for lead in led if lead.arguments[0].op == "reduce")
        if once:
            yield replace(nest, online=" ".join(once))
        kept = _kept(region, vector)
        yield from (replace(nest, keep=f"{kept} {place}") for place in ("out", "local") if kept)
    yield nest
    yield replace(nest, tasks=0)


def _kept(region: Region, vector: Variable) -> str:
    """The value of several phases that is dearest to make again, if that is dearer than to read it back."""
    again: dict[str, int] = {}
    for name, root in shared_values(region).items():
        if vector in root.axes:  # what does not vary along it is at hand
            again[name] = instructions(e.op for e in walk([root]) if e.op != "reduce" and vector in e.axes)
    best = max(again, key=lambda name: again[name], default="")
    return best if again.get(best, 0) >= KEEP_INSTRUCTIONS else ""


def _columns(axes: Axes, profile: Profile) -> Iterator[Nest]:
    """One reduction whose results lie side by side in memory: a page of a row at a time, a few rows at once."""
    region, free = axes.region, (*axes.rows, *axes.others)
    vector = vector_axis(walks(region), region.axes)
    if vector not in free or len(reductions(region)) > 1 or len(reductions(region)[0].attribute.axes) > 1:
        return
    lanes = vector_lanes(region, profile)
    width = PAGE_VECTORS * lanes
    if is_long(vector, 2 * width) and is_long(axes.folded, 2 * PAGE_ROWS):
        vectors, cores = -(-sizes([vector]) // width), profile.cores
        whole = sizes(axis for axis in free if axis != vector) >= cores and sizes([vector]) <= PAGE_COLUMNS
        columns, most = STRIPS[profile.streams]
        strips = 1 if whole else -(-vectors * width // columns)
        strips = -(-strips // cores) * cores if strips > 1 else 1
        blocks = -(-vectors // strips)
        turns = PAGE_ROWS if blocks < profile.streams else profile.streams
        unroll = max(1, min(most, MOST_VALUES // (PAGE_VECTORS * len(region.order()))))
        paged = Nest(vector.name, lanes, registers=PAGE_VECTORS, blocks=blocks, turns=turns, unroll=unroll)
        yield replace(paged, tasks=len(free))


def is_long(axis: Variable | None, least: int) -> bool:
    """Whether an axis is known to have so many elements."""
    size = 0 if axis is None else extent(axis)
    return isinstance(size, int) and size >= least


def _scan(axes: Axes, profile: Profile) -> Iterator[Nest]:
    """Vectors along memory: of the scanned axis itself, or of columns beside each other."""
    region, axis = axes.region, axes.folded
    vector = vector_axis(walks(region), region.parallel_axes(region.outputs[0]))
    nest = Nest(tasks=len(axes.rows), stream=int(_streams(axes, profile)))
    if vector is not None:
        lanes = fitting(vector_lanes(region, profile), vector)
        # Of neighboring vectors that are scanned, all but the last step is done side by side.
        registers = max(1, min(PAGE_VECTORS, -(-upper(extent(vector)) // lanes)))
        nest = replace(nest, vector=vector.name, lanes=lanes, registers=registers)
        if vector != axis:
            page = PAGE_BYTES // profile.vector_bytes
            if is_long(vector, page * lanes) and is_long(axis, 4 * PAGE_ROWS):
                yield replace(nest, blocks=page // PAGE_VECTORS, turns=PAGE_ROWS)
            registers = max(1, min(2 * PAGE_VECTORS, -(-upper(extent(vector)) // lanes)))
            nest = replace(nest, registers=registers)
    yield nest


# --- by the threads of a group


def _threads(axis: Variable, most: int, profile: Profile) -> int:
    """A power of two of threads for an axis: half of them have work at least; 0 if it is too short."""
    return 0 if sizes([axis]) < FEWEST else fitting(min(most, profile.group_threads), axis)


def _group_rows(axes: Axes, profile: Profile) -> Iterator[Nest]:
    """A reduction along memory: a group takes a row, its threads fold every n-th element, then each other's results."""
    vector = vector_axis(walks(axes.region), axes.region.axes)
    if vector is None or axes.scanned or not any(vector in e.attribute.axes for e in reductions(axes.region)):
        return
    threads = _threads(vector, ROW_THREADS, profile)
    if threads:
        yield Nest(vector.name, threads=threads, tasks=len(axes.rows))


def _group_columns(axes: Axes, profile: Profile) -> Iterator[Nest]:
    """Neighboring elements of the result by neighboring threads, or each by a thread of its own."""
    vector = vector_axis(walks(axes.region), axes.rows)
    threads = 0 if vector is None else _threads(vector, ELEMENT_THREADS, profile)
    if vector is not None and threads:
        yield Nest(vector.name, threads=threads, tail="mask", tasks=len(axes.rows))
    if axes.rows:
        yield Nest(tasks=len(axes.rows))

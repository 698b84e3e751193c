"""The default schedule: good at once, without search, by the kind of the region and the device profile.

Each kind lists schedules from the best to the plainest; the first that is legal is taken, and no actions at all
always are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from smelt.cost.profile import Profile
from smelt.graph.index import Variable, upper
from smelt.kernel import Bind, Illegal, Keep, Kernel, Order, Region, Split, Stage, Stream, Unroll, lower
from smelt.kernel.actions import Action, print_schedule
from smelt.kernel.region import Expression, extent
from smelt.schedule.access import cost, depth_cost, phases, reductions, stride, walks
from smelt.schedule.scans import scan_schedules, scans
from smelt.schedule.vectors import fitting, split, streams, vector_axis, vector_lanes

TASK_NANOSECONDS = 20_000.0  # work that is worth handing to another thread
FLOPS_PER_NANOSECOND = 40.0  # of a contraction on one core
BLOCK_K = 1024  # summed elements that a packed block spans
KEEP_COST = 0.4  # nanoseconds per element above which a value is kept from phase to phase
STREAMED_COLUMNS = 1024  # columns of a weight that one task reads together: a page of each row
STREAMED_ROWS = 8  # rows of a weight that are added up at a time


@dataclass(frozen=True)
class Scheduled:
    """A schedule, and how many of its tasks make a chunk of work for one thread."""

    actions: tuple[Action, ...]
    grain: int

    def text(self) -> str:
        return print_schedule(self.actions).replace("\n", "; ")


def choose(region: Region, profile: Profile) -> tuple[Scheduled, Kernel]:
    """The default schedule of a region, and the kernel that it gives."""
    for actions in candidates(region, profile):
        try:
            kernel = lower(region, actions)
        except Illegal:
            continue
        return Scheduled(actions, _grain(region, kernel)), kernel
    return Scheduled((), 1), lower(region, ())


def candidates(region: Region, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """Schedules worth trying, best first."""
    if dict(region.roles).get("y") is not None:
        yield from _contraction(region, profile)
    if scans(region):
        yield from scan_schedules(region, profile)
    elif reductions(region):
        yield from _rows(region, profile)
    else:
        yield from _elementwise(region, profile)
    yield from _plain(region)


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
        inner = vector_axis(crossing, [axis for axis in axes if axis != vector])
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
    if vector is not None:
        lanes = fitting(vector_lanes(region, profile), vector)
        registers = 4 if axes else 8
        registers = max(1, min(registers, -(-upper(extent(vector)) // lanes)))
        actions += split(vector, registers, lanes)
        rows.sort(key=lambda axis: axis == vector)
    loops = tuple(f"{axis.name}.0" for axis in (*rows, *others))
    if loops:
        actions.append(Order(loops))
    bind = [Bind(tuple(f"{axis.name}.0" for axis in rows))] if rows else []
    for keep in _keeps(region, vector):
        yield (*actions, *bind, keep)
    yield (*actions, *bind)
    yield tuple(actions)


def _keeps(region: Region, vector: Variable | None) -> Iterator[Keep]:
    """Values made in one phase and needed in a later one, that are dearer to make again than to read back."""
    if vector is None:
        return
    uses: dict[Expression, int] = {}
    for phase in phases(region):
        for e in phase:
            uses[e] = uses.get(e, 0) + 1
    names = {e: name for name, e in region.named().items()}
    again = [e for e, n in uses.items() if n > 1 and vector in e.axes and e.arguments and depth_cost(e) >= KEEP_COST]
    if not again:
        return
    best = max(again, key=depth_cost)
    yield Keep(names[best], "out")
    yield Keep(names[best], "local")


@dataclass(frozen=True)
class _Roles:
    """The axes of a contraction: rows (of A), columns (of B, next to each other in the result), summed, and shared by
    both.
    """

    a: str
    b: str
    m: Variable | None
    n: Variable
    k: Variable
    batch: tuple[Variable, ...]
    inner_k: tuple[Variable, ...]


def _roles(region: Region) -> _Roles | None:
    roles = dict(region.roles)
    y = roles["y"]
    if y.op != "reduce":
        return None
    summed = y.attribute.axes
    output = region.outputs[0]
    axes = region.parallel_axes(output)
    last = next((axis for axis in axes if stride(output.buffer, output.index, axis) == 1), None)
    if last is None:
        return None
    a, b = ("A", "B") if last in roles["B"].axes else ("B", "A")
    if last in roles[a].axes or last not in roles[b].axes:
        return None
    only_a = [axis for axis in axes if axis in roles[a].axes and axis not in roles[b].axes]
    m = max(only_a, key=lambda axis: upper(extent(axis)), default=None)
    batch = tuple(axis for axis in axes if axis not in (m, last))
    return _Roles(a, b, m, last, summed[-1], batch, tuple(summed[:-1]))


def _contraction(region: Region, profile: Profile) -> Iterator[tuple[Action, ...]]:
    roles = _roles(region)
    if roles is None:
        return
    lanes = fitting(vector_lanes(region, profile), roles.n)
    rows = 0 if roles.m is None else upper(extent(roles.m))
    if roles.m is not None and rows >= 4:
        yield from _tiled(region, roles, lanes, profile)
    yield from _streamed(region, roles, lanes, rows)


def _tiled(region: Region, roles: _Roles, lanes: int, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """A register tile of rows times vectors of columns; B is packed once per column of tiles."""
    assert roles.m is not None
    m, n, k = roles.m.name, roles.n.name, roles.k.name
    height, width = _tile(upper(extent(roles.n)), lanes, profile)
    symbolic = not isinstance(extent(roles.m), int)
    actions: list[Action] = [
        Split(m, ((height, "reg"),), "unit" if symbolic else "balance"),
        *split(roles.n, width, lanes),
    ]
    outer = tuple(f"{axis.name}.0" for axis in roles.batch)
    more = tuple(f"{axis.name}.0" for axis in roles.inner_k)
    size = extent(roles.k)
    b_axes = dict(region.roles)[roles.b].axes
    staged = (*(axis.name for axis in roles.inner_k if axis in b_axes), k, n)
    if isinstance(size, int) and size > BLOCK_K and not more:
        block = -(-size // -(-size // BLOCK_K))
        actions.append(Split(k, ((block, "loop"),)))
        loops = (*outer, f"{n}.0", f"{k}.0", f"{m}.0", f"{k}.1")
        inner, at = f"{k}.1", f"{k}.0"
    else:
        loops = (*outer, f"{n}.0", f"{m}.0", *more, f"{k}.0")
        inner, at = f"{k}.0", f"{n}.0"
    actions.append(Order(loops))
    bind = Bind((*outer, f"{n}.0"))
    stage = Stage(roles.b, at, staged)
    a_value = dict(region.roles)[roles.a]
    if a_value.op not in ("load", "cast"):
        yield (
            *actions,
            bind,
            stage,
            Stage(roles.a, f"{m}.0", (m, *(x.name for x in roles.inner_k), k)),
            Unroll(inner, 4),
        )
    yield (*actions, bind, stage, Unroll(inner, 4))
    yield (*actions, bind, Unroll(inner, 4))
    yield (*actions, bind)


def _tile(columns: int, lanes: int, profile: Profile) -> tuple[int, int]:
    """Rows and vectors of the register tile: as many accumulators as the registers hold, few columns left over."""
    if profile.vector_registers < 32:
        return (6, 2) if columns > lanes else (12, 1)
    if columns <= lanes:
        return 14, 1
    if columns <= 2 * lanes:
        return 12, 2
    rest = columns % (4 * lanes)
    if columns <= 3 * lanes or (0 < rest <= lanes and columns % (3 * lanes) == 0):
        return 8, 3
    return 6, 4


def _streamed(region: Region, roles: _Roles, lanes: int, rows: int) -> Iterator[tuple[Action, ...]]:
    """Few rows: the weight is read once, along its unit stride."""
    b = dict(region.roles)[roles.b]
    outer = tuple(f"{axis.name}.0" for axis in roles.batch)
    m = () if roles.m is None else (f"{roles.m.name}.0",)
    n, k = roles.n.name, roles.k.name
    split_m: list[Action] = []
    if roles.m is not None and isinstance(extent(roles.m), int) and 1 < rows <= 4:
        split_m = [Split(roles.m.name, ((rows, "reg"),))]
    columns, depth = extent(roles.n), extent(roles.k)
    along_k = b.op == "load" and stride(b.attribute.buffer, b.attribute.index, roles.k) == 1
    if along_k and upper(depth) >= 2 * lanes:
        actions = [*split_m, Split(n, ((8, "reg"),)), Split(k, ((lanes, "lane"),))]
    else:
        width = max(1, min(8 // max(1, len(split_m) * rows // 2), -(-upper(columns) // lanes)))
        actions = [*split_m, *split(roles.n, width, lanes)]
        blocks = STREAMED_COLUMNS // (width * lanes)
        static = isinstance(columns, int) and isinstance(depth, int) and not roles.inner_k
        if static and blocks > 1 and upper(columns) >= STREAMED_COLUMNS and upper(depth) >= 4 * STREAMED_ROWS:
            cut = [Split(n, ((blocks, "loop"), (width, "reg"), (lanes, "lane"))), Split(k, ((STREAMED_ROWS, "loop"),))]
            loops = (*outer, *m, f"{n}.0", f"{k}.0", f"{n}.1", f"{k}.1")
            yield (*split_m, *cut, Order(loops), Bind((*outer, *m, f"{n}.0")), Unroll(f"{k}.1", STREAMED_ROWS))
    order = Order((*outer, *m, f"{n}.0"))
    yield (*actions, order, Bind((*outer, *m, f"{n}.0")))
    yield (*actions, order)


def _plain(region: Region) -> Iterator[tuple[Action, ...]]:
    """Scalar loops, in parallel if the outermost loop may be."""
    axes = region.parallel_axes(region.outputs[0])
    if axes:
        yield (Bind((f"{axes[0].name}.0",)),)
    yield ()


def _grain(region: Region, kernel: Kernel) -> int:
    """Tasks per chunk, by the modelled time of one task."""
    tasks = max(1, kernel.tasks.high)
    work = sum(_phase_nanoseconds(region, phase) for phase in phases(region))
    if "y" in dict(region.roles):
        total = 2.0
        for axis in region.axes:
            total *= upper(extent(axis))
        work += total / FLOPS_PER_NANOSECOND
    return max(1, int(TASK_NANOSECONDS * tasks / max(work, 1.0)))


def _phase_nanoseconds(region: Region, phase: list[Expression]) -> float:
    elements = 1.0
    for axis in region.axes:
        if any(axis in e.axes for e in phase):
            elements *= upper(extent(axis))
    contraction = dict(region.roles).get("y")
    if contraction is not None and contraction.arguments and contraction.arguments[0] in phase:
        return 0.0
    return elements * cost(phase)

"""Contractions: a register tile of rows times vectors of columns, fed from packed panels; or, for few rows, the weight
read as it lies.

Bounds: 2 * m * n * k operations, and each operand read from memory once. A task owns columns and packs them, a panel or
a block of panels that fits into the second-level cache; every tile of rows then meets what is packed. Sums longer than
a block wait in local memory between blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from smelt.cost.kernel import rows_in_cache
from smelt.cost.profile import Profile
from smelt.graph.index import Variable, upper
from smelt.kernel import Apart, Bind, Order, Region, Split, Stage, Unroll
from smelt.kernel.actions import Action
from smelt.kernel.region import Expression, extent, walk
from smelt.schedule.access import lies_in_panels, stride
from smelt.schedule.choice import Candidate, formed
from smelt.schedule.vectors import fitting, split, vector_lanes

TILE_ROWS, TILE_VECTORS = 6, 4  # of the register tile, with 32 registers
TILED_ROWS = 4  # rows from which on there are tiles
TURNED_PANELS = 16  # panels of B that a tile of a turned A meets
PACKED_SHARE = 4  # a packed block takes this part of the second-level cache
UNROLLED = 2  # steps of a sum in one turn of its loop: more are no faster, and cost the C compiler time
TASKS_PER_CORE = 2  # so that a core that is held up costs little
BLOCK_ROWS = 24  # rows of A that are worth packing B for once more, for each vector of a panel
BLOCK_PRODUCTS = 1 << 18  # that are worth a task, where columns make too few: about ten microseconds
PACKED_ROWS = 48  # of A that are worth packing what would fit a cache if it lay well
FEW_ROWS = 64  # rows up to which reading B once is what matters
STREAMED_COLUMNS = 1024  # columns of a weight that one task reads together: a page of each row
STREAMED_ROWS = 8  # rows of a weight that are added up at a time
SHORT_COLUMNS = 8  # columns that are not worth a vector if there are others
LONG_COLUMNS = 16  # and how many others
LONG_SUM = 256  # products, beside which storing and loading their sum costs little
ROWS_TO_ONE = 32  # for each row that is computed twice
LONG_FINISH = 8  # operations on each sum that are written once for a row of the tile, not for each of its registers
SHORT_FINISH = 2  # the same for a long sum


@dataclass(frozen=True)
class Roles:
    """The axes of a contraction: rows (of A), columns (of B, next to each other in the result if that has enough of
    them), summed, and all others of the result; among these, `rows` are more rows of A.
    """

    a: str
    b: str
    m: Variable | None
    n: Variable
    k: Variable
    batch: tuple[Variable, ...]
    rows: tuple[Variable, ...]
    inner_k: tuple[Variable, ...]


def find_roles(region: Region) -> Roles | None:
    """The axes of a contraction; None where the region has another form."""
    roles = dict(region.roles)
    y = roles["y"]
    if y.op != "reduce":
        return None
    summed = y.attribute.axes
    output = region.outputs[0]
    axes = region.parallel_axes(output)
    columns = next((axis for axis in axes if stride(output.buffer, output.index, axis) == 1), None)
    if columns is None:
        return None
    if upper(extent(columns)) <= SHORT_COLUMNS:
        columns = _longer(roles["A"], roles["B"], axes, columns)
    a, b = ("A", "B") if columns in roles["B"].axes else ("B", "A")
    if columns in roles[a].axes or columns not in roles[b].axes:
        return None
    only_a = [axis for axis in axes if axis in roles[a].axes and axis not in roles[b].axes]
    m = max(only_a, key=lambda axis: upper(extent(axis)), default=None)
    rows = tuple(axis for axis in only_a if axis != m)
    batch = tuple(axis for axis in axes if axis not in (m, columns))
    return Roles(a, b, m, columns, summed[-1], batch, rows, tuple(summed[:-1]))


def _longer(a: Expression, b: Expression, axes: Sequence[Variable], short: Variable) -> Variable:
    """Columns instead of some that do not fill a vector: the longest axis of one factor alone, if that does."""
    own = [axis for axis in axes if (axis in a.axes) != (axis in b.axes) and isinstance(extent(axis), int)]
    sizes = {axis: upper(extent(axis)) for axis in own}
    best = max(own, key=lambda axis: sizes[axis], default=short)
    return best if sizes.get(best, 0) >= LONG_COLUMNS else short


def contraction_schedules(region: Region, profile: Profile) -> Iterator[Candidate]:
    """A contraction and what is computed from it, the best first."""
    roles = find_roles(region)
    if roles is None:
        return
    lanes = fitting(vector_lanes(region, profile), roles.n)
    rows = 0 if roles.m is None else upper(extent(roles.m))
    if roles.m is not None and rows >= TILED_ROWS:
        for form, kind in (("packed", _packed), ("turned", _turned), ("panels", _panels), ("tiled", _tiled)):
            for actions in kind(region, roles, lanes, profile):
                yield from formed(form, region, _finished(region, roles, lanes, actions))
    yield from formed("streamed", region, _streamed(region, roles, lanes, rows))


def _finished(region: Region, roles: Roles, lanes: int, actions: tuple[Action, ...]) -> Iterator[tuple[Action, ...]]:
    """The schedule with tiles that are finished row by row where this makes the kernel smaller: where much is computed
    from each sum, and where all tiles are alike if the last one overlaps the one before. It costs a store and a load
    for each sum, and some rows are computed twice: both have to be few beside the products.
    """
    assert roles.m is not None
    rows = extent(roles.m)
    inside = {e for reduction in region.order() if reduction.op == "reduce" for e in walk([reduction])}
    after = [e for e in region.order() if roles.m in e.axes and e not in inside]
    accesses = [*region.outputs, *(e.attribute for e in after if e.op == "load")]
    # What does not lie side by side is taken apart into lanes, with an address for each.
    single = sum(stride(access.buffer, access.index, roles.n) not in (0, 1) for access in accesses)
    steps = sum(e.op != "load" for e in after) + 2 * lanes * single
    long = math.prod(upper(extent(axis)) for axis in (*roles.inner_k, roles.k)) >= LONG_SUM
    (cut,) = (action for action in actions if isinstance(action, Split) and action.axis == roles.m.name)
    again = -upper(rows) % cut.parts[-1][0]
    many = steps >= (SHORT_FINISH if long else LONG_FINISH)
    if isinstance(rows, int) and 0 < again <= rows // ROWS_TO_ONE and (long or many):
        whole = replace(cut, tail="overlap")
        yield (*(whole if action is cut else action for action in actions), Apart(roles.m.name))
    if many:
        yield (*actions, Apart(roles.m.name))
    yield actions


def _packed(region: Region, roles: Roles, lanes: int, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """B lies in panels already: each is a task, and every tile of rows meets a block of it."""
    columns, depth = extent(roles.n), extent(roles.k)
    if not isinstance(columns, int) or not isinstance(depth, int) or roles.inner_k:
        return
    height, width = _tile(columns, lanes, profile)
    if not lies_in_panels(dict(region.roles)[roles.b], roles.n, width * lanes):
        return
    assert roles.m is not None
    n, k = roles.n.name, roles.k.name
    rows = _rows(region, roles.m, height, width, _batches(roles) * columns // (width * lanes), 1, profile)
    outer = (*(f"{axis.name}.0" for axis in roles.batch), *rows.outer)
    most = profile.l2_bytes // PACKED_SHARE // (width * lanes * dict(region.roles)[roles.b].dtype.itemsize)
    block = -(-depth // -(-depth // max(8, most)))
    actions: list[Action] = [rows.cut, *split(roles.n, width, lanes)]
    if block < depth:
        actions += [Split(k, ((block, "loop"),)), Order((*outer, f"{n}.0", f"{k}.0", rows.inner, f"{k}.1"))]
    else:
        actions.append(Order((*outer, f"{n}.0", rows.inner, f"{k}.0")))
    actions += [Bind((*outer, f"{n}.0")), Unroll(f"{k}.{int(block < depth)}", UNROLLED)]
    yield tuple(actions)


def _turned(region: Region, roles: Roles, lanes: int, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """A lies with its rows side by side, as in the gradient of a weight. Read as it is, each product would touch a line
    of its own, and where those lie a power of two apart they drive each other out of the caches. So A is packed, too: a
    tile at a time, which then meets a block of B that is many panels wide. Tasks are blocks of rows and of columns.
    """
    sizes = [extent(axis) for axis in (roles.m, roles.n, roles.k) if axis is not None]
    a = dict(region.roles)[roles.a]
    if roles.batch or roles.inner_k or not all(isinstance(size, int) for size in sizes) or a.op != "load":
        return
    rows, columns, depth = map(upper, sizes)
    assert roles.m is not None
    turned = stride(a.attribute.buffer, a.attribute.index, roles.m) == 1 and not a.attribute.mask
    height, width = _tile(columns, lanes, profile)
    panel = width * lanes
    blocks = min(TASKS_PER_CORE * profile.cores, rows // (BLOCK_ROWS * width))
    if not turned or columns < 2 * panel or blocks < 2:
        return
    there, room = -(-columns // panel), profile.l2_bytes // PACKED_SHARE // dict(region.roles)[roles.b].dtype.itemsize
    panels = -(-there // -(-there // TURNED_PANELS))
    most = max(8, room // (panels * panel))
    block = -(-depth // -(-depth // most))
    m, n, k = roles.m.name, roles.n.name, roles.k.name
    tiles = -(-rows // height)
    actions: list[Action] = [
        Split(m, ((-(-tiles // blocks), "loop"), (height, "reg"))),
        Split(n, ((panels, "loop"), (width, "reg"), (lanes, "lane"))),
    ]
    cut = block < depth
    if cut:
        actions += [Split(k, ((block, "loop"),)), Order((f"{m}.0", f"{n}.0", f"{k}.0", f"{m}.1", f"{n}.1", f"{k}.1"))]
    else:
        actions.append(Order((f"{m}.0", f"{n}.0", f"{m}.1", f"{n}.1", f"{k}.0")))
    yield (
        *actions,
        Bind((f"{m}.0", f"{n}.0")),
        Stage(roles.b, f"{k}.0" if cut else f"{n}.0", (f"{n}/{panel}", k, f"{n}%{panel}")),
        Stage(roles.a, f"{m}.1", (k, m)),
        Unroll(f"{k}.{int(cut)}", UNROLLED),
    )


def _panels(region: Region, roles: Roles, lanes: int, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """Few rows: B comes from memory, so it is packed in the order in which it lies, a page of each row at a time."""
    columns, depth = extent(roles.n), extent(roles.k)
    assert roles.m is not None
    if not isinstance(columns, int) or not isinstance(depth, int) or upper(extent(roles.m)) > FEW_ROWS:
        return
    if roles.inner_k or _beside(region, roles, 1) is not None:
        return
    m, n, k = roles.m.name, roles.n.name, roles.k.name
    height, width = _tile(columns, lanes, profile)
    cut = _blocking(columns, depth, width * lanes, region, roles, profile)
    if cut.panels == 1:
        return
    rows = _whole(roles.m, height)
    outer = tuple(f"{axis.name}.0" for axis in roles.batch)
    actions: list[Action] = [rows.cut, Split(n, ((cut.panels, "loop"), (width, "reg"), (lanes, "lane")))]
    if cut.depth < depth:
        actions += [
            Split(k, ((cut.depth, "loop"),)),
            Order((*outer, f"{n}.0", f"{k}.0", rows.inner, f"{n}.1", f"{k}.1")),
        ]
        at, inner = f"{k}.0", f"{k}.1"
    else:
        actions.append(Order((*outer, f"{n}.0", rows.inner, f"{n}.1", f"{k}.0")))
        at, inner = f"{n}.0", f"{k}.0"
    panel = width * lanes
    actions += [
        Bind((*outer, f"{n}.0")),
        Stage(roles.b, at, (f"{n}/{panel}", k, f"{n}%{panel}")),
        Unroll(inner, UNROLLED),
    ]
    if dict(region.roles)[roles.a].op not in ("load", "cast"):
        yield (*actions, Stage(roles.a, rows.inner, (m, k)))
    yield tuple(actions)


@dataclass(frozen=True)
class _Rows:
    """How the rows are cut: into tiles, and where the columns make too few tasks into blocks of tiles."""

    cut: Split
    outer: tuple[str, ...]
    inner: str


def _whole(axis: Variable, height: int) -> _Rows:
    """Tiles that are all of one task."""
    tail = "balance" if isinstance(extent(axis), int) else "unit"
    return _Rows(Split(axis.name, ((height, "reg"),), tail), (), f"{axis.name}.0")


def _rows(region: Region, axis: Variable, height: int, width: int, tasks: int, times: int, profile: Profile) -> _Rows:
    """`tasks` there are without cutting; each row stands for so many `times` rows. A panel has `width` vectors."""
    m, rows = axis.name, extent(axis)
    wanted = TASKS_PER_CORE * profile.cores
    if not isinstance(rows, int):
        return _whole(axis, height)
    products = math.prod(upper(extent(each)) for each in region.axes)
    blocks = min(
        -(-wanted // tasks), rows * times // (BLOCK_ROWS * width), rows, max(products, 1) // (BLOCK_PRODUCTS * tasks)
    )
    if blocks < 2:
        return _whole(axis, height)
    tiles = -(-rows // height)
    return _Rows(Split(m, ((-(-tiles // blocks), "loop"), (height, "reg")), "balance"), (f"{m}.0",), f"{m}.1")


@dataclass(frozen=True)
class _Blocking:
    """How much of B is packed at a time: panels side by side, and summed elements."""

    panels: int
    depth: int


def _batches(roles: Roles) -> int:
    return math.prod(upper(extent(axis)) for axis in roles.batch)


def _blocking(columns: int, depth: int, panel: int, region: Region, roles: Roles, profile: Profile) -> _Blocking:
    room = profile.l2_bytes // PACKED_SHARE // dict(region.roles)[roles.b].dtype.itemsize  # elements of a block
    there = -(-columns // panel)
    share = max(1, there * _batches(roles) // (TASKS_PER_CORE * profile.cores))  # panels of a task
    panels = max(1, min(STREAMED_COLUMNS // panel, share, there))
    most = max(8, room // (panels * panel))
    return _Blocking(panels, -(-depth // -(-depth // most)))


def _tiled(region: Region, roles: Roles, lanes: int, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """A register tile of rows times vectors of columns; B is packed once per column of tiles."""
    assert roles.m is not None
    m, n, k = roles.m.name, roles.n.name, roles.k.name
    height, width = _tile(upper(extent(roles.n)), lanes, profile)
    beside = _beside(region, roles, width) if profile.vector_registers >= 32 else None
    actions: list[Action] = []
    if beside is not None:
        height = TILE_ROWS
        actions.append(Split(beside.name, ((TILE_VECTORS // width, "reg"),), "balance"))
    # B is packed once for all rows, so their other axes are loops inside.
    shared = tuple(axis for axis in roles.batch if axis not in roles.rows)
    more = math.prod(upper(extent(axis)) for axis in roles.rows)
    tasks = math.prod(upper(extent(axis)) for axis in shared) * -(-upper(extent(roles.n)) // (width * lanes))
    rows = _rows(region, roles.m, height, width if beside is None else TILE_VECTORS, tasks, more, profile)
    actions += [rows.cut, *split(roles.n, width, lanes)]
    outer = (*(f"{axis.name}.0" for axis in shared), *rows.outer)
    inside_rows = (*(f"{axis.name}.0" for axis in roles.rows), rows.inner)
    summed = (*roles.inner_k, roles.k)
    b_axes = dict(region.roles)[roles.b].axes
    near = () if beside is None else (beside.name,)
    staged = (*(axis.name for axis in summed if axis in b_axes), *near, n)
    room = profile.l2_bytes // PACKED_SHARE // dict(region.roles)[roles.b].dtype.itemsize
    block = _block(summed, room // (width * lanes))
    if block is not None:
        cut, size = block
        actions.append(Split(cut.name, ((size, "loop"),)))
        inside = tuple(f"{axis.name}.{int(axis == cut)}" for axis in summed)
        loops = (*outer, f"{n}.0", f"{cut.name}.0", *inside_rows, *inside)
        inner, at = inside[-1], f"{cut.name}.0"
    else:
        loops = (*outer, f"{n}.0", *inside_rows, *(f"{axis.name}.0" for axis in summed))
        inner, at = f"{k}.0", f"{n}.0"
    actions.append(Order(loops))
    bind = Bind((*outer, f"{n}.0"))
    stage = Stage(roles.b, at, staged)
    a_value = dict(region.roles)[roles.a]
    if a_value.op not in ("load", "cast") or (a_value.op == "load" and a_value.attribute.mask):
        yield (
            *actions,
            bind,
            stage,
            Stage(roles.a, rows.inner, (m, *(x.name for x in roles.inner_k), k)),
            Unroll(inner, UNROLLED),
        )
    if _is_small(region, roles, width * lanes, profile):
        yield (*actions, bind, Unroll(inner, UNROLLED))
    yield (*actions, bind, stage, Unroll(inner, UNROLLED))
    yield (*actions, bind, Unroll(inner, UNROLLED))
    yield (*actions, bind)


def _is_small(region: Region, roles: Roles, panel: int, profile: Profile) -> bool:
    """Whether a panel of B stays in the first-level cache and can be read as it lies: then packing gains nothing.

    Rows that lie a power of two apart drive each other out; few rows of A do not make up for packing all the same.
    """
    b = dict(region.roles)[roles.b]
    if b.op != "load" or roles.inner_k or stride(b.attribute.buffer, b.attribute.index, roles.n) != 1:
        return False
    rows = math.prod(upper(extent(axis)) for axis in (roles.m, *roles.rows) if axis is not None)
    apart = stride(b.attribute.buffer, b.attribute.index, roles.k) if rows >= PACKED_ROWS else None
    itemsize = b.dtype.itemsize
    return rows_in_cache(upper(extent(roles.k)), panel * itemsize, itemsize * (apart or 1)) <= profile.l1_bytes


def _block(summed: tuple[Variable, ...], longest: int) -> tuple[Variable, int] | None:
    """The axis of a sum that is too long to be packed whole is cut into blocks: which axis, and how long they are."""
    sizes = [extent(axis) for axis in summed]
    if not all(isinstance(size, int) for size in sizes):
        return None
    total = math.prod(upper(size) for size in sizes)
    cut = max(summed, key=lambda axis: upper(extent(axis)))
    size = upper(extent(cut))
    if total <= longest:
        return None
    most = max(1, longest // (total // size))
    block = -(-size // -(-size // most))
    return cut, block


def _beside(region: Region, roles: Roles, width: int) -> Variable | None:
    """An axis whose rows share a register tile where those of `n` alone are short: another axis of B, as the rows of an
    image are.
    """
    operands = dict(region.roles)
    output = region.outputs[0]
    others = [axis for axis in roles.batch if axis in operands[roles.b].axes and axis not in operands[roles.a].axes]
    steps = {axis: stride(output.buffer, output.index, axis) for axis in others}
    near = [axis for axis in others if steps[axis] is not None and isinstance(extent(axis), int)]
    if 2 * width > TILE_VECTORS or not near:
        return None
    best = min(near, key=lambda axis: steps[axis] or 0)
    return best if upper(extent(best)) >= 2 else None


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
    return TILE_ROWS, TILE_VECTORS


def _streamed(region: Region, roles: Roles, lanes: int, rows: int) -> Iterator[tuple[Action, ...]]:
    """Few rows: the weight is read once, along its unit stride."""
    b = dict(region.roles)[roles.b]
    outer = tuple(f"{axis.name}.0" for axis in roles.batch)
    m = () if roles.m is None else (f"{roles.m.name}.0",)
    n, k = roles.n.name, roles.k.name
    split_m: list[Action] = []
    if roles.m is not None and isinstance(extent(roles.m), int) and 1 < rows < TILED_ROWS:
        split_m = [Split(roles.m.name, ((rows, "reg"),))]
    columns, depth = extent(roles.n), extent(roles.k)
    along_k = b.op == "load" and stride(b.attribute.buffer, b.attribute.index, roles.k) == 1
    if along_k and upper(depth) >= 2 * lanes:
        actions = [*split_m, Split(n, ((8, "reg"),)), Split(k, ((lanes, "lane"),))]
    else:
        width = max(1, min(8, -(-upper(columns) // lanes)))
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

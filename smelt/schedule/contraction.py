"""Contractions: a register tile of rows times vectors of columns, fed from packed panels; or, for few rows, the weight
read as it lies.

Bounds: 2 * m * n * k operations, and each operand read from memory once. A task owns columns and packs them, a panel or
a block of panels that fits into the second-level cache; every tile of rows then meets what is packed. Sums longer than
a block wait in local memory between blocks. Each form here picks the knobs of the template (`tiling`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from smelt.cost import Profile
from smelt.cost.kernel import rows_in_cache
from smelt.graph import Variable, upper
from smelt.kernel import Action, Bind, Order, Split, Unroll, extent, walk
from smelt.schedule.access import lies_in_panels, stride
from smelt.schedule.choice import Candidate, formed
from smelt.schedule.facts import Contraction, loops, sizes
from smelt.schedule.tiling import Tiling
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
LONG_SUM = 256  # products, beside which storing and loading their sum costs little
ROWS_TO_ONE = 32  # for each row that is computed twice
LONG_FINISH = 8  # operations on each sum that are written once for a row of the tile, not for each of its registers
SHORT_FINISH = 2  # the same for a long sum


def contraction_schedules(c: Contraction, profile: Profile) -> Iterator[Candidate]:
    """A contraction and what is computed from it, the best first."""
    lanes = fitting(vector_lanes(c.region, profile), c.n)
    if c.height >= TILED_ROWS:
        for form, kind in (("packed", _packed), ("turned", _turned), ("panels", _panels), ("tiled", _tiled)):
            for tiling in kind(c, lanes, profile):
                beside = _beside(c, tiling.width) if tiling.beside else None
                for knobs in _finished(c, tiling):
                    yield Candidate(form, c.region, knobs.actions(c, beside), str(knobs))
    yield from formed("streamed", c.region, _streamed(c, lanes, profile))


def _finished(c: Contraction, tiling: Tiling) -> Iterator[Tiling]:
    """The tiling with tiles that are finished row by row where this makes the kernel smaller: where much is computed
    from each sum, and where all tiles are alike if the last one overlaps the one before. It costs a store and a load
    for each sum, and some rows are computed twice: both have to be few beside the products.
    """
    assert c.m is not None
    rows = extent(c.m)
    inside = {e for reduction in c.region.order() if reduction.op == "reduce" for e in walk([reduction])}
    after = [e for e in c.region.order() if c.m in e.axes and e not in inside]
    accesses = [*c.region.outputs, *(e.attribute for e in after if e.op == "load")]
    # What does not lie side by side is taken apart into lanes, with an address for each.
    single = sum(stride(access.buffer, access.index, c.n) not in (0, 1) for access in accesses)
    steps = sum(e.op != "load" for e in after) + 2 * tiling.lanes * single
    long = sizes(c.summed) >= LONG_SUM
    again = -upper(rows) % tiling.height
    many = steps >= (SHORT_FINISH if long else LONG_FINISH)
    if isinstance(rows, int) and 0 < again <= rows // ROWS_TO_ONE and (long or many):
        yield replace(tiling, tail="overlap", apart=1)
    if many:
        yield replace(tiling, apart=1)
    yield tiling


def _packed(c: Contraction, lanes: int, profile: Profile) -> Iterator[Tiling]:
    """B lies in panels already: each is a task, and every tile of rows meets a block of it."""
    if not c.is_static(c.n, c.k) or len(c.summed) > 1:
        return
    height, width = _lying(c, lanes, profile)
    if width:
        tasks = sizes(c.batch) * -(-sizes([c.n]) // (width * lanes))
        depth = _even_blocks(sizes([c.k]), max(8, _room(c, profile) // (width * lanes)))
        tiling = Tiling(height, width, lanes, depth=depth, unroll=UNROLLED)
        yield _cut_rows(c, tiling, width, tasks, 1, profile)


def _turned(c: Contraction, lanes: int, profile: Profile) -> Iterator[Tiling]:
    """A lies with its rows side by side, as in the gradient of a weight. Read as it is, each product would touch a line
    of its own, and where those lie a power of two apart they drive each other out of the caches. So A is packed, too: a
    tile at a time, which then meets a block of B that is many panels wide. Tasks are blocks of rows and of columns.
    """
    if c.batch or len(c.summed) > 1 or not c.is_static(c.m, c.n, c.k) or c.left.op != "load":
        return
    assert c.m is not None
    access = c.left.attribute
    height, width = register_tile(sizes([c.n]), lanes, profile)
    panel = width * lanes
    blocks = min(TASKS_PER_CORE * profile.cores, c.height // (BLOCK_ROWS * width))
    if stride(access.buffer, access.index, c.m) != 1 or access.mask or sizes([c.n]) < 2 * panel or blocks < 2:
        return
    panels = _even_blocks(-(-sizes([c.n]) // panel), TURNED_PANELS) or -(-sizes([c.n]) // panel)
    depth = _even_blocks(sizes([c.k]), max(8, _room(c, profile) // (panels * panel)))
    tiles = -(-c.height // height)
    yield Tiling(height, width, lanes, "shrink", -(-tiles // blocks), panels, depth, 0, "columns", "panels", UNROLLED)


def _panels(c: Contraction, lanes: int, profile: Profile) -> Iterator[Tiling]:
    """Few rows: B comes from memory, so it is packed in the order in which it lies, a page of each row at a time."""
    if not c.is_static(c.n, c.k) or c.height > FEW_ROWS or len(c.summed) > 1 or _beside(c, 1) is not None:
        return
    height, width = register_tile(sizes([c.n]), lanes, profile)
    panel = width * lanes
    there = -(-sizes([c.n]) // panel)
    share = max(1, there * sizes(c.batch) // (TASKS_PER_CORE * profile.cores))  # panels of a task
    panels = max(1, min(STREAMED_COLUMNS // panel, share, there))
    if panels == 1:
        return
    depth = _even_blocks(sizes([c.k]), max(8, _room(c, profile) // (panels * panel)))
    tiling = Tiling(height, width, lanes, _tail(c), 0, panels, depth, right="panels", unroll=UNROLLED)
    if c.left.op not in ("load", "cast"):
        yield replace(tiling, left="rows")
    yield tiling


def _tiled(c: Contraction, lanes: int, profile: Profile) -> Iterator[Tiling]:
    """A register tile of rows times vectors of columns; B is packed once per column of tiles."""
    height, width = register_tile(sizes([c.n]), lanes, profile)
    beside = profile.vector_registers >= 32 and _beside(c, width) is not None
    wide = TILE_VECTORS if beside else width
    tasks = sizes(axis for axis in c.batch if axis not in c.rows) * -(-sizes([c.n]) // (width * lanes))
    tiling = Tiling(TILE_ROWS if beside else height, width, lanes, unroll=UNROLLED, shared=1)
    tiling = replace(tiling, beside=TILE_VECTORS // width if beside else 0, depth=_depth(c, width * lanes, profile))
    tiling = _cut_rows(c, tiling, wide, tasks, sizes(c.rows), profile)
    if c.left.op not in ("load", "cast") or (c.left.op == "load" and c.left.attribute.mask):
        yield replace(tiling, left="rows", right="rows")
    if _is_small(c, width * lanes, profile):
        yield tiling
    yield replace(tiling, right="rows")
    yield tiling
    yield replace(tiling, unroll=1)


# --- how much at a time


def _tail(c: Contraction) -> str:
    return "balance" if c.is_static(c.m) else "unit"


def _cut_rows(c: Contraction, tiling: Tiling, width: int, tasks: int, times: int, profile: Profile) -> Tiling:
    """The rows in blocks, where the columns make too few `tasks`; each row stands for so many `times` rows, and a tile
    has `width` vectors.
    """
    rows = c.height
    if not c.is_static(c.m):
        return replace(tiling, tail="unit")
    wanted = TASKS_PER_CORE * profile.cores
    products = max(sizes(c.region.axes), 1)
    most = min(rows * times // (BLOCK_ROWS * width), rows, products // (BLOCK_PRODUCTS * tasks))
    blocks, tiles = min(-(-wanted // tasks), most), -(-rows // tiling.height)
    return tiling if blocks < 2 else replace(tiling, row_tiles=-(-tiles // blocks))


def _room(c: Contraction, profile: Profile) -> int:
    """Elements of B that a packed block has."""
    return profile.l2_bytes // PACKED_SHARE // c.right.dtype.itemsize


def _even_blocks(size: int, most: int) -> int:
    """The size of blocks that are all about alike; 0 if one is enough."""
    return 0 if size <= most else -(-size // -(-size // most))


def _depth(c: Contraction, panel: int, profile: Profile) -> int:
    """How long blocks of the longest summed axis are, if the sum is too long to be packed whole; else 0."""
    if not c.is_static(*c.summed):
        return 0
    total, size = sizes(c.summed), max(upper(extent(axis)) for axis in c.summed)
    most = _room(c, profile) // panel
    return 0 if total <= most else -(-size // -(-size // max(1, most // (total // size))))


def _is_small(c: Contraction, panel: int, profile: Profile) -> bool:
    """Whether a panel of B stays in the first-level cache and can be read as it lies: then packing gains nothing.

    Rows that lie a power of two apart drive each other out; few rows of A do not make up for packing all the same.
    """
    b = c.right
    if b.op != "load" or len(c.summed) > 1 or stride(b.attribute.buffer, b.attribute.index, c.n) != 1:
        return False
    rows = c.height * sizes(c.rows)
    apart = stride(b.attribute.buffer, b.attribute.index, c.k) if rows >= PACKED_ROWS else None
    itemsize = b.dtype.itemsize
    return rows_in_cache(sizes([c.k]), panel * itemsize, itemsize * (apart or 1)) <= profile.l1_bytes


def _beside(c: Contraction, width: int) -> Variable | None:
    """An axis whose rows share a register tile where those of `n` alone are short: another axis of B, as the rows of an
    image are.
    """
    output = c.region.outputs[0]
    others = [axis for axis in c.batch if axis in c.right.axes and axis not in c.left.axes]
    steps = {axis: stride(output.buffer, output.index, axis) for axis in others}
    near = [axis for axis in others if steps[axis] is not None and isinstance(extent(axis), int)]
    if 2 * width > TILE_VECTORS or not near:
        return None
    best = min(near, key=lambda axis: steps[axis] or 0)
    return best if upper(extent(best)) >= 2 else None


def register_tile(columns: int, lanes: int, profile: Profile) -> tuple[int, int]:
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


def _lying(c: Contraction, lanes: int, profile: Profile) -> tuple[int, int]:
    """The register tile for a B that lies in panels, of 0 vectors if it does not. Panels are for vectors of what B
    holds: where something wider is computed from it, they have twice as many.
    """
    height, width = register_tile(sizes([c.n]), lanes, profile)
    times = next((k for k in (1, 2) if lies_in_panels(c.right, c.n, k * width * lanes)), 0)
    return height // max(1, times), times * width


def _streamed(c: Contraction, lanes: int, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """Few rows: the weight is read once, along its unit stride, or panel by panel if it lies so."""
    outer = (*loops(c.batch), *(() if c.m is None else loops([c.m])))
    n, k = c.n.name, c.k.name
    split_m: list[Action] = []
    if c.m is not None and c.is_static(c.m) and 1 < c.height < TILED_ROWS:
        split_m = [Split(c.m.name, ((c.height, "reg"),))]
    columns, depth = sizes([c.n]), sizes([c.k])
    along_k = c.right.op == "load" and stride(c.right.attribute.buffer, c.right.attribute.index, c.k) == 1
    if along_k and depth >= 2 * lanes:
        actions = [*split_m, Split(n, ((8, "reg"),)), Split(k, ((lanes, "lane"),))]
    else:
        _, panel = _lying(c, lanes, profile)
        width = panel or max(1, min(8, -(-columns // lanes)))
        actions = [*split_m, *split(c.n, width, lanes)]
        blocks = 1 if panel else STREAMED_COLUMNS // (width * lanes)
        static = c.is_static(c.n, c.k) and len(c.summed) == 1
        if static and blocks > 1 and columns >= STREAMED_COLUMNS and depth >= 4 * STREAMED_ROWS:
            cut = [Split(n, ((blocks, "loop"), (width, "reg"), (lanes, "lane"))), Split(k, ((STREAMED_ROWS, "loop"),))]
            order = Order((*outer, f"{n}.0", f"{k}.0", f"{n}.1", f"{k}.1"))
            yield (*split_m, *cut, order, Bind((*outer, f"{n}.0")), Unroll(f"{k}.1", STREAMED_ROWS))
    order = Order((*outer, f"{n}.0"))
    yield (*actions, order, Bind((*outer, f"{n}.0")))
    yield (*actions, order)

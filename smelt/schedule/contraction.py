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
from smelt.dtypes import float32
from smelt.graph import upper
from smelt.kernel import Expression, extent, walk
from smelt.schedule.access import fitting, lies_along, lies_in_panels, stride, vector_lanes
from smelt.schedule.choice import Candidate
from smelt.schedule.facts import Contraction, sizes
from smelt.schedule.nest import Axes, Nest
from smelt.schedule.tiling import Tiling

TILE_ROWS, TILE_VECTORS = 6, 4  # of the register tile, with 32 registers
TILED_ROWS = 4  # rows from which on there are tiles
BY_LANE_TILE = 8, 2  # the same where rows are the lanes of vectors: more vectors are no faster, and cost gcc time
BY_LANE_LEAST = 1 << 16  # products that are worth packing both operands
NARROW, NARROW_LEAST = 56, 1 << 19  # columns up to which that takes more, and products that are enough then
BY_LANE_PRODUCTS = 1 << 24  # up to which a core has one task: each packs for itself
LEFT_COST, RIGHT_COST = 5, 3  # of packing what a tile meets once more
TURNED_PANELS = 16  # panels of B that a tile of a turned A meets
PACKED_SHARE = 4  # a packed block takes this part of the second-level cache
UNROLLED = 2  # steps of a sum in one turn of its loop: more are no faster, and cost the C compiler time
TASKS_PER_CORE = 2  # so that a core that is held up costs little
BLOCK_ROWS = 24  # rows of A that are worth packing B for once more, for each vector of a panel
BLOCK_PRODUCTS = 1 << 18  # that are worth a task, where columns make too few: about ten microseconds
PACKED_ROWS = 48  # of A that are worth packing what would fit a cache if it lay well
WIDENED_PANELS = 8  # of B that rows meet which are widened for that
WIDENED_TILES = 2  # of rows, beyond which B is widened once for all of them
UNPACKED_ROWS = 16  # that meet columns as they lie
FEW_ROWS = 64  # rows up to which reading B once is what matters
STREAMED_COLUMNS = 1024  # columns of a weight that one task reads together: a page of each row
STREAMED_ROWS = 8  # rows of a weight that are added up at a time
LONG_SUM = 256  # products, beside which storing and loading their sum costs little
ROWS_TO_ONE = 32  # for each row that is computed twice
LONG_FINISH = 8  # operations on each sum that are written once for a row of the tile, not for each of its registers
SHORT_FINISH = 2  # the same for a long sum

# Of groups of threads.
TILE_SIDE = 16  # threads along each side of a tile
TILE_REGISTERS = 4  # rows and columns of a tile that each thread computes
GROUP_DEPTH = 16  # summed elements that are copied at a time


def contraction_schedules(c: Contraction, profile: Profile) -> Iterator[Candidate]:
    """A contraction and what is computed from it, the best first."""
    if profile.group_threads:
        yield from (Candidate.of("group", c, tiling) for tiling in _grouped(c, profile))
        return
    lanes = fitting(vector_lanes(c.region, profile), c.n)
    tail = "balance" if c.is_static(c.m) else "unit"
    tile = Tiling(*register_tile(sizes([c.n]), lanes, profile), lanes, tail, unroll=UNROLLED)
    if c.height >= TILED_ROWS:
        kinds = {"packed": _packed, "by lane": _by_lane, "turned": _turned, "panels": _panels, "tiled": _tiled}
        forms = [(form, kind, c) for form, kind in kinds.items()]
        other = c.exchanged() if _is_narrow(c) and c.m is not None and lies_along(c.left, c.m) else None
        if other is not None and _pays_narrow(c, tile):  # A lies by columns, as panels do
            forms.insert(1, ("exchanged by lane", _by_lane, other))
        for form, kind, facts in forms:
            for tiling in kind(facts, tile, profile):
                yield from (Candidate.of(form, facts, knobs) for knobs in _finished(facts, tiling))
    yield from (Candidate.of("streamed", rows_of_vectors(c), nest) for nest in _streamed(c, tile))


def further_contractions(c: Contraction, profile: Profile) -> Iterator[Candidate]:
    """Where a search starts as well, though no default does: tiles whose operands are both packed, also where sizes and
    types leave in doubt whether that pays, and the same with rows for columns, which pays where one of them is short.
    From other tiles the first is several steps away, each of which loses by itself; no step leads to the second.
    """
    if profile.group_threads:
        return
    yield from _packed_tiles(c, profile)
    other = c.exchanged()
    if other is not None and other.is_static(other.m, other.n):
        for candidate in (*contraction_schedules(other, profile), *_packed_tiles(other, profile)):
            if isinstance(candidate.knobs, Tiling):
                yield candidate._replace(form=f"exchanged {candidate.form}")


def _packed_tiles(c: Contraction, profile: Profile) -> Iterator[Candidate]:
    if c.height < TILED_ROWS or not c.is_static(c.m, c.n, *c.summed):
        return
    lanes = fitting(vector_lanes(c.region, profile), c.n)
    forms = {"turned": register_tile(sizes([c.n]), lanes, profile)}
    forms |= {"by lane": BY_LANE_TILE} if profile.multiplies_by_lane else {}
    for form, (height, width) in forms.items():
        tile = Tiling(height, width, lanes, unroll=UNROLLED)
        yield Candidate.of(form, c, _both_packed(c, tile, profile))


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
    single = sum(stride(access, c.n) not in (0, 1) for access in accesses)
    steps = sum(e.op != "load" for e in after) + 2 * tiling.lanes * single
    long = sizes(c.summed) >= LONG_SUM
    again = -upper(rows) % tiling.height
    many = steps >= (SHORT_FINISH if long else LONG_FINISH)
    if isinstance(rows, int) and 0 < again <= rows // ROWS_TO_ONE and (long or many):
        yield replace(tiling, tail="overlap", apart=1)
    if many:
        yield replace(tiling, apart=1)
    yield tiling


def _packed(c: Contraction, tile: Tiling, profile: Profile) -> Iterator[Tiling]:
    """B lies in panels already: each is a task, and every tile of rows meets a block of it."""
    lying = _lying(c, tile) if c.is_static(c.n, c.k) and len(c.summed) == 1 else None
    if lying is not None:
        tasks = sizes(c.batch) * -(-sizes([c.n]) // lying.panel)
        panels = _panels_of_task(c, lying, profile)
        depth = _depth(c, max(1, panels) * lying.panel, profile)
        lying = replace(lying, depth=depth, panels=panels, left="rows" if _is_widened(c.left) else "")
        if _is_widened(c.right) and c.height > WIDENED_TILES * lying.height:  # widened once for all rows
            lying = replace(lying, right="panels" if panels else "rows")
        yield _cut_rows(c, lying, lying.width, -(-tasks // max(1, panels)), 1, profile)


def _by_lane(c: Contraction, tile: Tiling, profile: Profile) -> Iterator[Tiling]:
    """Where products by a lane of a vector cost no more than others, a tile loads its rows as vectors: A is packed by
    columns, a tile at a time, which then meets a block of B that is many panels wide.
    """
    if c.m is None or not c.is_static(c.m, c.n, *c.summed) or not profile.multiplies_by_lane or _slides(c):
        return
    tile = replace(tile, height=BY_LANE_TILE[0], width=BY_LANE_TILE[1])
    small = c.height <= BY_LANE_TILE[0] or sizes([c.m, c.n, *c.summed]) < BY_LANE_LEAST
    # Either side is packed anew for each of the other's further axes.
    small = small or bool(c.rows and c.height < FEW_ROWS) or (c.beside is not None and sizes([c.n]) < FEW_ROWS)
    small = small or (_is_narrow(c) and not _pays_narrow(c, tile))
    if small or c.left.op != "load" or c.left.attribute.mask or c.right.dtype is not float32:
        return
    yield _both_packed(c, tile, profile)


def _slides(c: Contraction) -> bool:
    """Whether an operand is read through windows, as images are: packed, each of its elements would lie there often."""
    loads = [e for operand in (c.left, c.right) for e in walk([operand]) if e.op == "load"]
    steps = [{axis: stride(e.attribute, axis) for axis in e.axes} for e in loads]
    return any(
        a and b and a < b * upper(extent(other)) and b < a * upper(extent(axis))
        for found in steps
        for axis, a in found.items()
        for other, b in found.items()
        if axis in c.summed and other not in c.summed
    )


def _is_narrow(c: Contraction) -> bool:
    """Whether there are so few columns that packing A does not pay by itself."""
    return sizes([c.n]) <= NARROW


def _pays_narrow(c: Contraction, tile: Tiling) -> bool:
    """Rows of B that end within a vector are dear to read as they are, and so is A if it lies by columns."""
    by_columns = c.m is not None and lies_along(c.left, c.m) and sizes([c.m, c.n, c.k]) >= NARROW_LEAST
    return bool(sizes([c.n]) % tile.lanes) or by_columns


def _both_packed(c: Contraction, tile: Tiling, profile: Profile) -> Tiling:
    """A packed by columns, a tile at a time, and a block of B that is many panels wide."""
    tile = replace(tile, tail="shrink", left="columns", right="panels")
    there, tiles = -(-sizes([c.n]) // tile.panel), -(-c.height // tile.height)
    products = c.height * sizes([c.n, *c.summed])
    # A tile of rows and a panel meet in the first-level cache, all panels in the second. For few rows reading B matters
    # most: blocks are wider and less deep.
    size, share = c.right.dtype.itemsize, 2 if c.height <= FEW_ROWS else 1
    depth = _in_blocks(c, profile.l1_bytes // share // size // (tile.height + tile.panel))
    longest = max(map(upper, map(extent, c.summed)))
    block = sizes(c.summed) // longest * (depth or longest)
    least = -(-there * tile.panel * size * block // profile.l2_bytes)
    each = TASKS_PER_CORE if products > BY_LANE_PRODUCTS else 1
    tasks = max(1, min(-(-each * profile.cores // sizes(c.batch)), products // BLOCK_PRODUCTS))
    most = min(tasks, tiles) if c.right.op in ("load", "cast") else 1  # what is computed is computed once
    wanted = ((blocks, -(-tasks // blocks)) for blocks in range(1, most + 1))
    shares = [(blocks, beside * -(-least // beside)) for blocks, beside in wanted]  # as many for each core
    # Every block of columns packs A once more, every block of rows packs B.
    blocks, beside = min(shares, key=lambda pair: pair[1] * LEFT_COST * tiles + pair[0] * RIGHT_COST * there)
    row_tiles = -(-tiles // blocks) if blocks > 1 else 0
    return replace(tile, row_tiles=row_tiles, panels=-(-there // min(beside, there)), depth=depth)


def _turned(c: Contraction, tile: Tiling, profile: Profile) -> Iterator[Tiling]:
    """A lies with its rows side by side, as in the gradient of a weight. Read as it is, each product would touch a line
    of its own, and where those lie a power of two apart they drive each other out of the caches. So A is packed, too: a
    tile at a time, which then meets a block of B that is many panels wide. Tasks are blocks of rows and of columns.
    """
    if c.m is None or c.batch or len(c.summed) > 1 or not c.is_static(c.m, c.n, c.k):
        return
    there, blocks = -(-sizes([c.n]) // tile.panel), c.height // (BLOCK_ROWS * tile.width)
    if not lies_along(c.left, c.m) or c.left.attribute.mask or sizes([c.n]) < 2 * tile.panel or blocks < 2:
        return
    tiles = -(-c.height // tile.height)
    panels = -(-there // -(-there // TURNED_PANELS))
    tiling = replace(tile, tail="shrink", panels=panels, depth=_depth(c, panels * tile.panel, profile))
    row_tiles = -(-tiles // min(TASKS_PER_CORE * profile.cores, blocks))
    yield replace(tiling, row_tiles=row_tiles, left="columns", right="panels")


def _panels(c: Contraction, tile: Tiling, profile: Profile) -> Iterator[Tiling]:
    """Few rows: B comes from memory, so it is packed in the order in which it lies, a page of each row at a time."""
    if not c.is_static(c.n, c.k) or c.height > FEW_ROWS or len(c.summed) > 1 or c.beside is not None:
        return
    there = -(-sizes([c.n]) // tile.panel)
    share = there * sizes(c.batch) // (TASKS_PER_CORE * profile.cores)  # panels of a task
    panels = min(STREAMED_COLUMNS // tile.panel, share, there)
    if panels > 1:
        tiling = replace(tile, panels=panels, depth=_depth(c, panels * tile.panel, profile), right="panels")
        if _is_made(c.left):
            yield replace(tiling, left="rows")
        yield tiling


def _tiled(c: Contraction, tile: Tiling, profile: Profile) -> Iterator[Tiling]:
    """A register tile of rows times vectors of columns; B is packed once per column of tiles."""
    tiling, wide = replace(tile, shared=1, depth=_depth(c, tile.panel, profile)), tile.width
    if profile.vector_registers >= 32 and c.beside is not None and 2 * wide <= TILE_VECTORS:
        tiling, wide = replace(tiling, height=TILE_ROWS, beside=TILE_VECTORS // wide), TILE_VECTORS
    tasks = sizes(axis for axis in c.batch if axis not in c.rows) * -(-sizes([c.n]) // tile.panel)
    if _is_made(c.left) or (c.left.op == "load" and c.left.attribute.mask):
        panels = _panels_of_task(c, tile, profile)
        if panels:
            made = replace(tiling, panels=panels, depth=_depth(c, panels * tile.panel, profile))
            made = _cut_rows(c, made, wide, -(-tasks // panels), sizes(c.rows), profile)
            yield replace(made, left="rows", right="panels")
        yield replace(_cut_rows(c, tiling, wide, tasks, sizes(c.rows), profile), left="rows", right="rows")
    tiling = _cut_rows(c, tiling, wide, tasks, sizes(c.rows), profile)
    if _is_small(c, tile.panel, profile):
        yield tiling
    yield replace(tiling, right="rows")
    yield tiling
    yield replace(tiling, unroll=1)


# --- how much at a time


def _is_widened(operand: Expression) -> bool:
    """Whether memory holds an operand in fewer bits. A row of a tile widens one number at a time, before it fills a
    vector, in the unit that shuffles: that takes twice as long as the products with it.
    """
    return operand.op == "load" and operand.attribute.buffer.dtype is not operand.dtype


def _is_made(operand: Expression) -> bool:
    """Whether the numbers of an operand are computed from what memory holds: for a row of a tile, at every panel."""
    return operand.op not in ("load", "cast") or _is_widened(operand)


def _panels_of_task(c: Contraction, tile: Tiling, profile: Profile) -> int:
    """Panels that a row of A meets once it is widened, where there are columns for all cores; 0 if that is one."""
    if not _is_widened(c.left) or not c.is_static(c.n) or c.beside is not None:
        return 0
    there = -(-sizes([c.n]) // tile.panel)
    panels = min(WIDENED_PANELS, there * sizes(c.batch) // (TASKS_PER_CORE * profile.cores), there)
    return panels if panels > 1 else 0


def _cut_rows(c: Contraction, tiling: Tiling, width: int, tasks: int, times: int, profile: Profile) -> Tiling:
    """The rows in blocks, where the columns make too few `tasks`; each row stands for so many `times` rows, and a tile
    has `width` vectors.
    """
    if not c.is_static(c.m):
        return tiling
    rows, products = c.height, max(sizes(c.region.axes), 1)
    most = min(rows * times // (BLOCK_ROWS * width), rows, products // (BLOCK_PRODUCTS * tasks))
    blocks, tiles = min(-(-TASKS_PER_CORE * profile.cores // tasks), most), -(-rows // tiling.height)
    return tiling if blocks < 2 else replace(tiling, row_tiles=-(-tiles // blocks))


def _depth(c: Contraction, columns: int, profile: Profile) -> int:
    """How long blocks of the longest summed axis are, if the sum of so many columns is too long to be packed whole."""
    return _in_blocks(c, profile.l2_bytes // PACKED_SHARE // c.right.dtype.itemsize // columns)


def _in_blocks(c: Contraction, most: int) -> int:
    """The length of blocks of the longest summed axis, all about alike, if the sum is longer than this; else 0."""
    if not c.is_static(*c.summed):
        return 0
    total, size, most = sizes(c.summed), max(upper(extent(axis)) for axis in c.summed), max(8, most)
    return 0 if total <= most else -(-size // -(-size // max(1, most // (total // size))))


def _is_small(c: Contraction, panel: int, profile: Profile) -> bool:
    """Whether a panel of B stays in the first-level cache and can be read as it lies: then packing gains nothing.

    Rows that lie a power of two apart drive each other out; few rows of A do not make up for packing all the same.
    """
    b = c.right
    if not lies_along(b, c.n):
        return False
    rows = c.height * sizes(c.rows)
    if len(c.summed) > 1:
        return rows <= UNPACKED_ROWS and not b.attribute.mask
    apart = stride(b.attribute, c.k) if rows >= PACKED_ROWS else None
    itemsize = b.dtype.itemsize
    return rows_in_cache(sizes([c.k]), panel * itemsize, itemsize * (apart or 1)) <= profile.l1_bytes


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


def _lying(c: Contraction, tile: Tiling) -> Tiling | None:
    """The register tile for a B that lies in panels; None if it does not. Panels are for vectors of what B holds: where
    something wider is computed from it, they have twice as many.
    """
    times = next((k for k in (1, 2) if lies_in_panels(c.right, c.n, k * tile.panel)), 0)
    return replace(tile, height=tile.height // times, width=times * tile.width) if times else None


def rows_of_vectors(c: Contraction) -> Axes:
    """The axes of a contraction that is no tile: every product has a place in the loops over the result."""
    return Axes(c.region, (*c.batch, *([] if c.m is None else [c.m]), c.n), (), c.k, first=c.first)


def _streamed(c: Contraction, tile: Tiling) -> Iterator[Nest]:
    """Few rows: the weight is read once, along its unit stride, or panel by panel if it lies so."""
    lanes, columns, depth = tile.lanes, sizes([c.n]), sizes([c.k])
    nest = Nest(c.n.name, lanes, registers=max(1, min(8, -(-columns // lanes))), tasks=len(rows_of_vectors(c).rows))
    if c.m is not None and c.is_static(c.m) and 1 < c.height < TILED_ROWS:
        nest = replace(nest, side=c.m.name, height=c.height)
    if depth >= 2 * lanes and lies_along(c.right, c.k):
        nest = replace(nest, vector=c.k.name, registers=8, across=c.n.name)
    else:
        lying = _lying(c, tile)
        nest = nest if lying is None else replace(nest, registers=lying.width)
        blocks = 1 if lying is not None else STREAMED_COLUMNS // (nest.registers * lanes)
        static = c.is_static(c.n, c.k) and len(c.summed) == 1
        if static and blocks > 1 and columns >= STREAMED_COLUMNS and depth >= 4 * STREAMED_ROWS:
            yield replace(nest, blocks=blocks, turns=STREAMED_ROWS, unroll=STREAMED_ROWS)
    yield nest
    yield replace(nest, tasks=0)


def _grouped(c: Contraction, profile: Profile) -> Iterator[Tiling]:
    """A tile for each group of threads. Sums of a symbolic length are not staged: see `nests`."""
    small = min(c.height, sizes([c.n])) < TILE_SIDE or sizes([c.k]) < 2
    if c.m is None or small or profile.group_threads < TILE_SIDE**2:
        return
    height, width = (min(TILE_REGISTERS, -(-sizes([axis]) // TILE_SIDE)) for axis in (c.m, c.n))
    tiling = Tiling(height, width, 1, "mask", depth=GROUP_DEPTH, threads=TILE_SIDE)
    if c.is_static(c.k):
        yield replace(tiling, left="rows", right="rows")
    yield tiling

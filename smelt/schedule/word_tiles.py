"""Schedules of contractions in words: tiles of matrix instructions, tiles of vectors, or the weight as it lies."""

from __future__ import annotations

from collections.abc import Iterator

from smelt.cost.profile import Profile
from smelt.graph.index import Variable, upper
from smelt.kernel import Bind, Matrix, Order, Region, Split, Stage, Unroll
from smelt.kernel.actions import Action
from smelt.kernel.instructions import rows_of
from smelt.kernel.region import extent
from smelt.schedule.choice import Candidate
from smelt.schedule.vectors import fitting, split
from smelt.schedule.words import Words, in_words

TILE_ROWS = 6
TILE_VECTORS = {32: 4, 16: 2}  # by vector registers: those of the sums, of a row's factor and of the columns'
PANELS = 8  # panels of columns that one task takes
BLOCK_WORDS = 512  # words of a column that are packed at a time
STREAMED_ROWS = 8  # fewer rows than this read the weight as it lies

# Of matrix instructions.
MATRIX_STEPS = 16  # of sums, that a block has; twice as many are one block
MATRIX_TASK_ROWS = 128  # rows that a task has at least: it packs its columns once for all of them
MATRIX_PACKED_BYTES = 1 << 20  # of rows that a task packs at a time, in the second cache
MATRIX_PARTIAL_BYTES = 1 << 20  # of sums that wait for their next block, in the second cache
MATRIX_PANELS = 16  # panels of columns that one task takes
ALIASED_BYTES = 2048  # rows so far apart, or a multiple of it, fall into the same sets of the first cache


def word_programs(
    region: Region,
    a: str,
    b: str,
    m: Variable | None,
    n: Variable,
    batch: tuple[Variable, ...],
    profile: Profile,
) -> Iterator[Candidate]:
    """Regions that compute the same in words, with schedules, the best first; `in_words` says what the names are."""
    for row in rows_of(profile.features, profile.vector_bytes, dict(region.roles)["y"].dtype):
        words = in_words(region, a, b, m, n, batch, row)
        if words is not None:
            form, schedules = ("matrix", matrix_schedules) if row.takes_tiles else ("words", word_schedules)
            for actions in schedules(words, profile):
                yield Candidate(form, words.region, (*actions, Matrix("y", row.name)))


def matrix_schedules(words: Words, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """Tiles of matrix instructions. B is packed in panels of columns; A is read as it lies if that has whole tiles."""
    columns, rows = extent(words.n), 0 if words.m is None else extent(words.m)
    if words.m is None or not isinstance(rows, int) or not isinstance(columns, int):
        return
    row, (lanes,) = words.row, words.row.lanes
    if min(rows, columns) < min(row.rows, lanes):  # less than a tile is not worth its while
        return
    m, n, w = words.m.name, words.n.name, words.w.name
    outer = tuple(f"{axis.name}.0" for axis in words.batch)
    size = upper(extent(words.w))
    block = row.depth * _block_steps(size // row.depth)
    height = row.rows * min(row.tiles, -(-rows // row.rows))
    width = min(row.tiles, -(-columns // lanes))
    panel = lanes * width
    panels = _panels(-(-columns // panel), profile.cores, MATRIX_PANELS)
    tasks = -(-columns // (panel * panels))
    chunks = max(1, min(rows // MATRIX_TASK_ROWS, -(-2 * profile.cores // tasks)))
    whole = rows % row.rows == 0
    packed = not whole or not words.in_place(words.a) or 4 * size % ALIASED_BYTES == 0
    if packed:
        chunks = max(chunks, -(-4 * min(block, size) * rows // MATRIX_PACKED_BYTES))
    if block < size:
        chunks = max(chunks, -(-4 * panel * panels * rows // MATRIX_PARTIAL_BYTES))
    chunk = -(-rows // (chunks * height))
    actions: list[Action] = [
        Split(m, ((chunk, "loop"), (height, "reg")), "shrink" if whole else "mask"),
        Split(n, ((panels, "loop"), (width, "reg"), (lanes, "lane"))),
        Split(w, ((block // row.depth, "loop"), (row.depth, "reg")) if block < size else ((row.depth, "reg"),)),
    ]
    grid = (*outer, f"{n}.0", f"{m}.0")
    if block < size:
        actions.append(Order((*grid, f"{w}.0", f"{m}.1", f"{n}.1", f"{w}.1")))
        at = f"{w}.0"
    else:
        actions.append(Order((*grid, f"{m}.1", f"{n}.1", f"{w}.0")))
        at = f"{m}.0"
    actions.append(Bind(grid))
    if not words.in_panels(words.b, panel):
        actions.append(Stage(words.b, at, (f"{n}/{lanes}", w, f"{n}%{lanes}")))
    if packed:
        actions.append(Stage(words.a, at, (m, w)))
    yield tuple(actions)


def word_schedules(words: Words, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """Tiles of vectors, or for few rows the weight as it lies."""
    lanes = fitting(profile.vector_bytes // 4, words.n)
    rows = 0 if words.m is None else upper(extent(words.m))
    along = [] if words.correction is None else split(words.k, 4, fitting(profile.vector_bytes // 4, words.k))
    outer = tuple(f"{axis.name}.0" for axis in words.batch)
    columns = extent(words.n)
    n, w = words.n.name, words.w.name
    vectors = -(-upper(columns) // lanes)
    if words.m is None or rows < STREAMED_ROWS or not isinstance(columns, int) or not isinstance(extent(words.m), int):
        yield from _streamed(words, along, lanes, profile)
        return
    m = words.m.name
    panel = min(TILE_VECTORS[profile.vector_registers], vectors) * lanes
    panels = _panels(-(-columns // panel), 2 * profile.cores, PANELS)
    blocks = -(-upper(extent(words.w)) // BLOCK_WORDS)
    block = -(-upper(extent(words.w)) // blocks)
    actions: list[Action] = [
        *along,
        Split(m, ((TILE_ROWS, "reg"),), "balance"),
        Split(n, ((panels, "loop"), (panel // lanes, "reg"), (lanes, "lane"))),
    ]
    if blocks > 1:
        actions += [Split(w, ((block, "loop"),)), Order((*outer, f"{n}.0", f"{w}.0", f"{m}.0", f"{n}.1", f"{w}.1"))]
        at, inner = f"{w}.0", f"{w}.1"
    else:
        actions.append(Order((*outer, f"{n}.0", f"{m}.0", f"{n}.1", f"{w}.0")))
        at, inner = f"{n}.0", f"{w}.0"
    actions += [Bind((*outer, f"{n}.0")), Stage(words.b, at, (f"{n}/{panel}", w, f"{n}%{panel}")), Unroll(inner, 8)]
    if words.correction is not None:
        actions.append(Stage(words.correction, f"{n}.0", (m,)))
    if not words.a_along:
        actions.append(Stage(words.a, f"{m}.0", (w, m)))
    yield tuple(actions)


def _streamed(words: Words, along: list[Action], lanes: int, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """Vectors run along the sum where the words of the weight lie so, else along its columns."""
    loops = (
        *(f"{axis.name}.0" for axis in words.batch),
        *([] if words.m is None else [f"{words.m.name}.0"]),
        f"{words.n.name}.0",
    )
    width = fitting(profile.vector_bytes // 4, words.w)
    if words.in_rows(words.b) and words.in_rows(words.a) and width > 1:
        cut = [Split(words.n.name, ((8, "reg"),)), Split(words.w.name, ((width, "lane"),))]
        yield (*along, *cut, Order(loops), Bind(loops))
    elif not words.is_float:  # of bfloat16, widening costs as much as putting words together
        vectors = -(-upper(extent(words.n)) // lanes)
        yield (
            *along,
            *split(words.n, min(8, vectors), lanes),
            *(Order(loops), Bind(loops), Unroll(f"{words.w.name}.0", 2)),
        )


def _block_steps(steps: int) -> int:
    """Steps of a sum that are taken at a time: all blocks alike, if they need not be small for that."""
    if steps <= 2 * MATRIX_STEPS:
        return steps
    even = max(d for d in range(1, MATRIX_STEPS * 3 // 2 + 1) if steps % d == 0)
    return even if even >= MATRIX_STEPS // 2 else -(-steps // -(-steps // MATRIX_STEPS))


def _panels(panels: int, cores: int, most: int) -> int:
    """Panels for one task: as many as are worth packing together, and no fewer tasks than cores."""
    return max(1, min(most, -(-panels // cores)))

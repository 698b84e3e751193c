"""Contractions in words: tiles of matrix instructions, tiles of vectors, or the weight as it lies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from smelt.cost import Profile
from smelt.kernel import Matrix, Region, Split, Stage, rows_of
from smelt.schedule.access import fitting, lies_in_panels
from smelt.schedule.choice import Actions, Candidate
from smelt.schedule.contraction import (
    FEW_ROWS,
    PACKED_SHARE,
    STREAMED_COLUMNS,
    TILE_ROWS,
    TILE_VECTORS,
    rows_of_vectors,
)
from smelt.schedule.facts import Contraction, contraction_of, sizes
from smelt.schedule.nest import Nest
from smelt.schedule.tiling import Tiling
from smelt.schedule.words import Words, held, in_place, in_words

PANELS = 8  # panels of columns that one task takes
BLOCK_WORDS = 512  # words of a column that are packed at a time
STREAMED_ROWS = 8  # fewer rows than this read the weight as it lies

# Of matrix instructions.
MATRIX_STEPS = 16  # of sums, that a block has; twice as many are one block
MATRIX_TASK_ROWS = 128  # rows that a task has at least: it packs its columns once for all of them
MATRIX_PACKED_BYTES = 1 << 20  # of rows that a task packs at a time, in the second cache
MATRIX_PARTIAL_BYTES = 1 << 20  # of sums that wait for their next block, in the second cache
MATRIX_PANELS = 16  # panels of columns that one task takes
EVEN = 1.1  # tasks of more panels may take so much longer, for one core's share being larger
ALIASED_BYTES = 2048  # rows so far apart, or a multiple of it, fall into the same sets of the first cache


def chosen(form: str, region: Region, actions: Actions, profile: Profile) -> Candidate:
    """Actions that somebody has chosen for a region. Those that name an instruction for words which the processor has
    are about the region in words, as they were where they come from.
    """
    named = {action.instruction for action in actions if isinstance(action, Matrix)}
    contraction = contraction_of(region) if named else None
    if contraction is not None:
        for row in rows_of(profile.features, profile.vector_bytes, dict(region.roles)["y"].dtype):
            words = in_words(contraction, row) if row.name in named else None
            if words is not None:
                return Candidate(form, words.contraction.region, actions)
    return Candidate(form, region, actions)


def word_programs(contraction: Contraction, profile: Profile) -> Iterator[Candidate]:
    """Regions that compute the same in words, with schedules, the best first."""
    for row in rows_of(profile.features, profile.vector_bytes, dict(contraction.region.roles)["y"].dtype):
        words = in_words(contraction, row)
        if words is not None and row.takes_tiles:
            yield from matrix_schedules(words, profile)
        elif words is not None:
            yield from word_schedules(words, profile)


def matrix_schedules(words: Words, profile: Profile) -> Iterator[Candidate]:
    """Tiles of matrix instructions. B is packed in panels of columns; A is read as it lies if that has whole tiles."""
    c, row, (lanes,) = words.contraction, words.row, words.row.lanes
    rows, columns, size = c.height, sizes([c.n]), sizes([c.k])
    # Less than a tile is not worth its while.
    if not c.is_static(c.m, c.n) or min(rows, columns) < min(row.rows, lanes):
        return
    block = row.depth * _block_steps(size // row.depth)
    height = row.rows * min(row.tiles, -(-rows // row.rows))
    width = min(row.tiles, -(-columns // lanes))
    panel = lanes * width
    panels = _panels(-(-columns // panel), profile.cores, MATRIX_PANELS)
    tasks = -(-columns // (panel * panels))
    chunks = max(1, min(rows // MATRIX_TASK_ROWS, -(-2 * profile.cores // tasks)))
    whole = rows % row.rows == 0
    lies = columns % panel == 0 and in_place(c.right) and lies_in_panels(c.right, c.n, panel)
    packed = not whole or not in_place(c.left) or 4 * size % ALIASED_BYTES == 0
    if packed:
        chunks = max(chunks, -(-4 * min(block, size) * rows // MATRIX_PACKED_BYTES))
    if block < size:
        chunks = max(chunks, -(-4 * panel * panels * rows // MATRIX_PARTIAL_BYTES))
    tiling = Tiling(
        *(height, width, lanes),
        tail="shrink" if whole else "mask",
        row_tiles=-(-rows // (chunks * height)),
        panels=panels,
        depth=block if block < size else 0,
        step=row.depth,
        left="block" if packed else "",
        right="" if lies else "vectors",
        columns_first=1,
        instruction=row.name,
    )
    yield Candidate.of("matrix", c, tiling)


def vectors_of_words(columns: int, lanes: int, profile: Profile) -> int:
    """Vectors in a row of the register tile."""
    return min(TILE_VECTORS if profile.vector_registers >= 32 else TILE_VECTORS // 2, -(-columns // lanes))


def word_schedules(words: Words, profile: Profile) -> Iterator[Candidate]:
    """Tiles of vectors, or for few rows the weight as it lies."""
    c, most = words.contraction, profile.vector_bytes // 4
    if words.correction is not None:
        c = replace(c, first=(Split(words.k.name, ((4, "reg"), (fitting(most, words.k), "lane"))),))
    lanes, columns, size = fitting(most, c.n), sizes([c.n]), sizes([c.k])
    width = vectors_of_words(columns, lanes, profile)
    packed = _lies_packed(words, width * lanes)
    if c.m is None or c.height < (2 if packed else STREAMED_ROWS) or not c.is_static(c.m, c.n):
        nests = _streamed(words, lanes, most, width if packed else 0)
        yield from (Candidate.of("words", rows_of_vectors(c), nest) for nest in nests)
        return
    # What is packed at a time is met by every tile of rows: it has to stay in the second cache. For few rows reading B
    # is what matters, in the order in which it lies.
    few = c.height <= FEW_ROWS
    there, held = -(-columns // (width * lanes)), profile.l2_bytes // PACKED_SHARE // (4 * width * lanes)
    wide = _panels(there, profile.cores, STREAMED_COLUMNS // (width * lanes), 2) if few else 0
    right = "panels"
    # Moving B by 128 again costs a few tiles less than a copy.
    if packed and (in_place(c.right) or (few and c.right.op == "xor")):
        wide, right = 1, ""
    blocks = -(-size // max(1, held // wide if wide else min(BLOCK_WORDS, held)))
    depth = -(-size // blocks)
    tiling = Tiling(
        *(TILE_ROWS, width, lanes),
        panels=wide or _panels(there, profile.cores, min(PANELS, held // depth), 2),
        depth=depth if blocks > 1 else 0,
        left="" if in_place(c.left) else "rows" if words.a_along else "columns",
        right=right,
        unroll=8,
        instruction=words.row.name,
    )
    if words.correction is not None:
        c = replace(c, last=(Stage(words.correction, f"{c.n.name}.0", (c.m.name,)),))
    yield Candidate.of("words", c, tiling)


def _lies_packed(words: Words, panel: int) -> bool:
    """Whether B was packed in such panels."""
    return lies_in_panels(held(words.contraction.right), words.contraction.n, panel)


def _streamed(words: Words, lanes: int, most: int, panel: int) -> Iterator[Nest]:
    """Vectors run along the sum where the words of the weight lie so, else along its columns, or a panel of them."""
    c, width = words.contraction, fitting(most, words.contraction.k)
    nest = Nest(tasks=len(rows_of_vectors(c).rows), instruction=words.row.name)
    if words.in_rows(c.right) and words.in_rows(c.left) and width > 1:
        yield replace(nest, vector=c.k.name, lanes=width, registers=8, across=c.n.name)
    elif panel or not words.row.is_float:  # of bfloat16, widening costs as much as putting words together
        registers = panel or min(8, -(-sizes([c.n]) // lanes))
        yield replace(nest, vector=c.n.name, lanes=lanes, registers=registers, unroll=2)


def _block_steps(steps: int) -> int:
    """Steps of a sum that are taken at a time: all blocks alike, if they need not be small for that."""
    if steps <= 2 * MATRIX_STEPS:
        return steps
    even = max(d for d in range(1, MATRIX_STEPS * 3 // 2 + 1) if steps % d == 0)
    return even if even >= MATRIX_STEPS // 2 else -(-steps // -(-steps // MATRIX_STEPS))


def _panels(panels: int, cores: int, most: int, tasks: int = 1) -> int:
    """Panels for one task: as many as are worth packing together, but for so many tasks a core, and for what makes one
    core wait for another.
    """
    sizes_of_tasks = range(max(1, min(most, -(-panels // (tasks * cores)))), 0, -1)
    quickest = min(_longest_share(panels, cores, size) for size in sizes_of_tasks)
    return next(size for size in sizes_of_tasks if _longest_share(panels, cores, size) <= EVEN * quickest)


def _longest_share(panels: int, cores: int, size: int) -> int:
    """Panels of the core that has most of them, where tasks have so many each, and the last one the rest."""
    whole, rest = divmod(panels, size)
    return -(-whole // cores) * size + (rest if whole % cores == 0 else 0)

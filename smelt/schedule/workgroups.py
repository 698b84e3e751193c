"""Default schedules for devices whose threads come in groups: a task is a group, its threads share memory.

Tiles at an edge are masked rather than exact, so that a kernel has one body: compilers of OpenCL take long over
barriers on several ways through a kernel. For the same reason, sums of a symbolic length are not staged.

| region | schedule |
|---|---|
| elementwise | neighboring threads take neighboring elements |
| reductions along memory | a group takes a row: threads fold every n-th element, then each other's results |
| reductions across memory, scans | a thread takes a column |
| contraction | a group takes a tile, each thread some rows and columns of it; blocks of both operands are shared |
| anything small or odd | one thread for each element of the result |
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from smelt.cost import Profile
from smelt.graph import Variable, upper
from smelt.kernel import Action, Bind, Kernel, Local, Order, Region, Split, Stage, extent, statements
from smelt.schedule.access import reductions, walks
from smelt.schedule.facts import contraction_of, loops
from smelt.schedule.scans import scans
from smelt.schedule.vectors import vector_axis

ROW_THREADS = 128  # that fold a row together, at most
ELEMENT_THREADS = 64  # that take neighboring elements
FEWEST = 16  # elements below which an axis is not worth sharing out
TILE_SIDE = 16  # threads along each side of a tile
TILE_REGISTERS = 4  # rows and columns of a tile that each thread computes
BLOCK_K = 16  # summed elements that are copied at a time


def group_candidates(region: Region, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """Schedules worth trying, best first."""
    if dict(region.roles).get("y") is not None:
        yield from _tiled(region, profile)
    if reductions(region) and not scans(region):
        yield from _rows(region, profile)
    yield from _columns(region, profile)
    yield from _single(region)


def fits_group(kernel: Kernel, profile: Profile) -> bool:
    """Whether the memory that a group shares holds a kernel's."""
    if not profile.group_threads:
        return True
    local = [s.buffer for s in statements(kernel.body) if isinstance(s, Local)]
    held = sum(math.prod(upper(size) for size in buffer.shape) * buffer.dtype.itemsize for buffer in local)
    folding = 2 * 8 * kernel.threads  # what folds across threads need, of two types
    return held + folding <= profile.group_bytes


def _threads(axis: Variable, most: int) -> int:
    """A power of two of threads for an axis: half of them have work at least; 0 if it is too short."""
    size = upper(extent(axis))
    return 0 if size < FEWEST else min(most, 1 << (size - 1).bit_length())


def _rows(region: Region, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """A reduction along the axis that most memory is walked along, by the threads of a group."""
    folds = reductions(region)
    vector = vector_axis(walks(region), region.axes)
    if vector is None or not any(vector in fold.attribute.axes for fold in folds):
        return
    threads = _threads(vector, min(ROW_THREADS, profile.group_threads))
    if not threads:
        return
    shared = frozenset.intersection(*[fold.axes for fold in folds])
    axes = region.parallel_axes(region.outputs[0])
    rows = [axis for axis in axes if axis in shared]
    others = [axis for axis in axes if axis not in shared]
    order = [Order(loops([*rows, *others]))] if axes else []
    yield (Split(vector.name, ((threads, "thread"),)), *order, *([Bind(loops(rows))] if rows else []))


def _columns(region: Region, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """Neighboring elements of the result by neighboring threads."""
    scanned = {e.attribute.axis for e in scans(region)}
    axes = region.parallel_axes(region.outputs[0])
    free = [axis for axis in axes if axis not in scanned]
    vector = vector_axis(walks(region), free)
    if vector is None:
        return
    threads = _threads(vector, min(ELEMENT_THREADS, profile.group_threads))
    rest = [axis for axis in axes if axis in scanned]
    if threads:
        yield (Split(vector.name, ((threads, "thread"),), "mask"), Order(loops([*free, *rest])), Bind(loops(free)))


def _single(region: Region) -> Iterator[tuple[Action, ...]]:
    """One thread for each element of the result."""
    scanned = {e.attribute.axis for e in scans(region)}
    axes = region.parallel_axes(region.outputs[0])
    free = [axis for axis in axes if axis not in scanned]
    if free:
        rest = [axis for axis in axes if axis in scanned]
        yield (Order(loops([*free, *rest])), Bind(loops(free)))
        yield (Bind(loops(free[:1])),)
    yield ()


def _tiled(region: Region, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """A tile of the result for each group; blocks of both operands in memory that it shares."""
    found = contraction_of(region)
    if found is None or found.m is None or profile.group_threads < TILE_SIDE * TILE_SIDE:
        return
    m, n, k = found.m, found.n, found.k
    if any(upper(extent(axis)) < FEWEST for axis in (m, n)) or upper(extent(k)) < 2:
        return
    cuts: list[Action] = []
    for axis in (m, n):
        registers = min(TILE_REGISTERS, -(-upper(extent(axis)) // TILE_SIDE))
        cuts.append(Split(axis.name, ((registers, "reg"), (TILE_SIDE, "thread")), "mask"))
    cuts.append(Split(k.name, ((BLOCK_K, "loop"),)))
    outer = loops([*found.batch, m, n])
    inside = (*loops(found.summed), f"{k.name}.1")
    stages = (
        Stage(found.a, f"{k.name}.0", (m.name, k.name)),
        Stage(found.b, f"{k.name}.0", (k.name, n.name)),
    )
    if isinstance(extent(k), int):
        yield (*cuts, Order((*outer, *inside)), Bind(outer), *stages)
    yield (*cuts, Order((*outer, *inside)), Bind(outer))

"""Schedules of scans: the scanned axis runs in order; everything else is tasks."""

from __future__ import annotations

from collections.abc import Iterator

from smelt.cost import Profile
from smelt.graph import Variable, upper
from smelt.kernel import Action, Bind, Expression, Order, Region, Split, Stream, extent
from smelt.schedule.access import walks
from smelt.schedule.vectors import fitting, split, streams, vector_axis, vector_lanes

COLUMNS = 8  # vectors of neighboring columns that are carried down together
PAGE = 4096  # bytes of a row that one task walks before it goes on to the next rows
ROWS = 8  # rows that one turn of a block of columns takes


def scans(region: Region) -> list[Expression]:
    return [e for e in region.order() if e.op == "scan"]


def scan_schedules(region: Region, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """Vectors along memory: of the scanned axis itself, or of columns beside each other."""
    output = region.outputs[0]
    axis = scans(region)[0].attribute.axis
    others = [other for other in region.parallel_axes(output) if other != axis]
    vector = vector_axis(walks(region), region.parallel_axes(output))
    others.sort(key=lambda other: other == vector)
    loops = tuple(f"{other.name}.0" for other in others)
    bind = [Bind(loops)] if loops else []
    stream = [Stream()] if streams(region, profile) else []
    if vector is None or vector == axis:
        actions = [] if vector is None else split(vector, 1, fitting(vector_lanes(region, profile), vector))
        yield (*actions, Order((*loops, f"{axis.name}.0")), *bind, *stream)
        return
    lanes = fitting(vector_lanes(region, profile), vector)
    yield from (
        (*actions, *bind, *stream) for actions in _paged(axis, vector, lanes, loops, PAGE // profile.vector_bytes)
    )
    registers = max(1, min(2 * COLUMNS, -(-upper(extent(vector)) // lanes)))
    yield (*split(vector, registers, lanes), Order((*loops, f"{axis.name}.0")), *bind, *stream)


def _paged(
    axis: Variable, vector: Variable, lanes: int, loops: tuple[str, ...], page: int
) -> Iterator[tuple[Action, ...]]:
    """A page of each row at a time: rows are far apart, and a page that is looked up is used whole.

    Block after block of columns takes a few rows, its carry waiting in local memory meanwhile.
    """
    columns, rows = extent(vector), extent(axis)
    if not isinstance(columns, int) or not isinstance(rows, int) or columns < page * lanes or rows < 4 * ROWS:
        return
    cut = ((page // COLUMNS, "loop"), (COLUMNS, "reg"), (lanes, "lane"))
    order = (*loops, f"{axis.name}.0", f"{vector.name}.1", f"{axis.name}.1")
    yield (Split(vector.name, cut), Split(axis.name, ((ROWS, "loop"),)), Order(order))

"""Schedules of scans: the scanned axis runs in order, innermost; everything else is tasks."""

from __future__ import annotations

from collections.abc import Iterator

from smelt.cost.profile import Profile
from smelt.graph.index import upper
from smelt.kernel import Bind, Order, Region, Stream, Unroll
from smelt.kernel.actions import Action
from smelt.kernel.region import Expression, extent
from smelt.schedule.access import walks
from smelt.schedule.vectors import fitting, split, streams, vector_axis, vector_lanes

COLUMNS = 8  # vectors of neighboring columns that one task carries down together


def scans(region: Region) -> list[Expression]:
    return [e for e in region.order() if e.op == "scan"]


def scan_schedules(region: Region, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """Vectors along memory: of the scanned axis itself, or of columns beside each other."""
    (output,) = region.outputs
    axis = scans(region)[0].attribute.axis
    others = [other for other in region.parallel_axes(output) if other != axis]
    vector = vector_axis(walks(region), region.parallel_axes(output))
    actions: list[Action] = []
    if vector is not None:
        width = fitting(vector_lanes(region, profile), vector)
        registers = 1 if vector == axis else max(1, min(COLUMNS, -(-upper(extent(vector)) // width)))
        actions += split(vector, registers, width)
        others.sort(key=lambda other: other == vector)
    loops = tuple(f"{other.name}.0" for other in others)
    actions.append(Order((*loops, f"{axis.name}.0")))
    if vector != axis:
        actions.append(Unroll(f"{axis.name}.0", 2))
    bind = [Bind(loops)] if loops else []
    if streams(region, profile):
        yield (*actions, *bind, Stream())
    yield (*actions, *bind)
    yield tuple(actions)

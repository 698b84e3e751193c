"""How values become vectors: along which axis, how wide, and whether results go past the caches."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.cost import Profile
from smelt.cost.operations import STREAM_SHARE
from smelt.graph import Variable, upper
from smelt.kernel import Region, extent
from smelt.schedule.access import Walk, widest


def vector_lanes(region: Region, profile: Profile, axis: Variable | None = None) -> int:
    """Elements of a full vector, of what varies along an axis if one is given."""
    return max(1, profile.vector_bytes // widest(region, axis))


def fitting(lanes: int, axis: Variable) -> int:
    """Lanes for an axis: no wider than the next power of two."""
    size = upper(extent(axis))
    while lanes > 1 and lanes // 2 >= size:
        lanes //= 2
    return lanes


def vector_axis(accesses: list[Walk], axes: Sequence[Variable]) -> Variable | None:
    """The axis that most memory is walked along."""
    weighed = [(_unit_bytes(accesses, axis), k, axis) for k, axis in enumerate(axes)]
    best = max(weighed, default=None, key=lambda item: item[:2])
    return best[2] if best and best[0] else None


def _unit_bytes(accesses: list[Walk], axis: Variable) -> int:
    return sum(access.nbytes for access in accesses if access.along(axis) == 1)


def streams(region: Region, profile: Profile) -> bool:
    """Whether the result is so large that storing it past the caches pays."""
    nbytes = sum(output.buffer.dtype.itemsize for output in region.outputs)
    for axis in region.parallel_axes(region.outputs[0]):
        nbytes *= upper(extent(axis))
    return nbytes * STREAM_SHARE >= profile.l3_bytes

"""In which layout a contraction reads a weight best, if somebody keeps it so: in the panels that its tiles are fed
from.

Packing a weight in each call takes longer than multiplying it with few rows, the more so if it has to be turned as
well. In panels it is read once, in order, by any number of rows.
"""

from __future__ import annotations

from typing import NamedTuple

from smelt.cost import Profile
from smelt.dtypes import DType, bfloat16, float32, float64, int8, int32, uint8
from smelt.graph import IndexLike
from smelt.kernel import rows_of
from smelt.schedule.contraction import register_tile

LEAST_BYTES = 1 << 20  # of a weight: smaller ones stay in a cache
BY_LANE_ROWS = 256  # that are worth packing a weight in every call, where products by a lane cost no more than others
WORD_ROWS = 4  # that words are worth being packed for: fewer read the weight as it lies

# The type of sums in words, by that of the weight and that of the factors.
_WORDS = {(bfloat16, bfloat16): float32, (int8, int32): int32, (uint8, int32): int32}


class Panels(NamedTuple):
    """Panels of neighboring columns, the last one filled up; in each of them lie all steps of the sum, in a step for
    every column `depth` neighbors along the sum, which make a word.
    """

    columns: int
    depth: int


def panels_of(
    weight: DType, factor: DType, sizes: tuple[IndexLike, IndexLike, IndexLike], profile: Profile
) -> Panels | None:
    """The panels for a weight of this type, which is cast to that of the factors, given the rows that it meets, the
    length of the sums and its columns; None if it is better read as it is.
    """
    rows, summed, columns = sizes
    if not isinstance(summed, int) or not isinstance(columns, int) or profile.group_threads:
        return None
    if summed * columns * weight.itemsize < LEAST_BYTES:
        return None
    if weight is float32 and profile.multiplies_by_lane and isinstance(rows, int) and rows >= BY_LANE_ROWS:
        return None  # so many rows are packed as well, in other tiles
    if weight is factor and weight in (float32, float64):
        lanes = profile.vector_bytes // weight.itemsize
        _, width = register_tile(columns, lanes, profile)
        return Panels(width * lanes, 1)
    known = rows_of(profile.features, profile.vector_bytes, _WORDS.get((weight, factor), weight))
    row = next((row for row in known if row.takes_tiles and row.right is weight), None)
    if row is None or not isinstance(rows, int) or rows < WORD_ROWS:
        return None
    panels = Panels(row.tiles * max(row.lanes), row.numbers)
    whole = columns % panels.columns == 0 and summed % (row.numbers * row.depth) == 0  # tiles have no masks
    return panels if whole else None

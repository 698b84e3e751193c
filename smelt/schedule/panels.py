"""In which layout a contraction reads a weight best, if somebody keeps it so: in the panels that its tiles are fed
from.

Packing a weight in each call takes longer than multiplying it with few rows, the more so if it has to be turned as
well. In panels it is read once, in order, by any number of rows.
"""

from __future__ import annotations

from typing import NamedTuple

from smelt.cost import Profile
from smelt.dtypes import DType, bfloat16, float16, float32, float64, int8, int32, uint8
from smelt.graph import IndexLike
from smelt.kernel import rows_of
from smelt.schedule.contraction import register_tile
from smelt.schedule.word_tiles import vectors_of_words

LEAST_BYTES = 1 << 20  # of a weight: smaller ones stay in a cache
BY_LANE_ROWS = 256  # that are worth packing a weight in every call, where products by a lane cost no more than others
WORD_ROWS = 4  # that are worth packing words which a few rows can read as they lie

# The type of sums in words, by that of the weight and that of the factors.
_WORDS = {(bfloat16, bfloat16): float32, (int8, int32): int32, (uint8, int32): int32}
_HALVES = (bfloat16, float16)


class Panels(NamedTuple):
    """Panels of neighboring columns, the last one filled up; in each of them lie all steps of the sum, in a step for
    every column `depth` neighbors along the sum, which make a word.
    """

    columns: int
    depth: int


def panels_of(
    weight: DType, factor: DType, sizes: tuple[IndexLike, IndexLike, IndexLike], profile: Profile, turned: bool = False
) -> Panels | None:
    """The panels for a weight of this type, which is cast to that of the factors, given the rows that it meets, the
    length of the sums and its columns, and whether these lie side by side in memory or, `turned`, what is summed; None
    if it is better read as it is.
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
    total = _WORDS.get((weight, factor))
    known = rows_of(profile.features, profile.vector_bytes, total) if total is not None else ()
    row = next((row for row in known if row.right is weight or not row.takes_tiles), None)
    if row is None and weight in _HALVES and factor in (weight, float32) and not profile.multiplies_by_lane:
        lanes = profile.vector_bytes // 4  # it is widened as it is read
        return Panels(register_tile(columns, lanes, profile)[1] * lanes, 1)
    if row is None or not isinstance(rows, int) or (rows < WORD_ROWS and (row.takes_tiles or turned)):
        return None
    if not row.takes_tiles:
        lanes = max(lanes for lanes in row.lanes if 4 * lanes <= profile.vector_bytes)
        panels = Panels(vectors_of_words(columns, lanes, profile) * lanes, row.numbers)
        return panels if summed % row.numbers == 0 else None
    panels = Panels(row.tiles * max(row.lanes), row.numbers)
    whole = columns % panels.columns == 0 and summed % (row.numbers * row.depth) == 0  # tiles have no masks
    return panels if whole else None

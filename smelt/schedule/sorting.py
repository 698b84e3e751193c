"""Launches of a sort.

| rows | how |
|---|---|
| short | as many at a time as a vector has lanes, by a sorting network |
| long | radix sort from the last digit; a block of columns at a time where the axis is not the last |
| long, and few | divided into parts by value, which are sorted side by side |
| long, and few elements wanted | candidates that precede the last of the best so far |
"""

from __future__ import annotations

from smelt.cost import Profile
from smelt.cost.kernel import chunk_nanoseconds
from smelt.dtypes import DType, uint32, uint64
from smelt.fuse import Operand
from smelt.graph import IndexLike, Node, as_index, product_of, upper
from smelt.kernel import Routine, Step, Temporary, routine
from smelt.schedule.group_sorting import group_sort_steps

NETWORK_ROWS = 512  # elements of a row beyond which a radix sort does less; so many vectors still fit the nearest cache
PIECE = 1 << 15  # elements that are worth a thread
PARTS = 32  # that a long row is divided into: an odd power of two
TASKS = 8  # for each core at least: cores are not equally fast at all times
SELECTED = 8  # of this many elements at most one is wanted: look for candidates instead of sorting
COLUMNS_BYTES = 1 << 19  # of columns that are sorted together
LONG = 1 << 16  # elements from which on a sort is worth a longer compilation
LARGE = 4096  # elements from which on fewer passes with more buckets pay


class _Sort:
    """The numbers of one sort."""

    def __init__(self, node: Node, source: Operand, profile: Profile) -> None:
        axis, self.descending, self.indices = node.attribute
        shape = node.sources[0].shape
        self.node, self.source, self.profile = node, source.node, profile
        self.dtype: DType = source.node.dtype
        self.n, self.count = shape[axis], node.shape[axis]
        self.outer, self.inner = product_of(shape[:axis]), product_of(shape[axis + 1 :])
        self.rows = as_index(self.outer) * self.inner
        self.most = upper(self.n)
        self.selects = upper(self.count) * SELECTED <= self.most and self.most > NETWORK_ROWS
        self.places = self.indices or self.selects
        wide = self.dtype.bits == 64 or self.most >= 1 << 32
        self.shift = (64 if wide else 32) if self.places else 0  # what keys stand above, for their places
        self.item_bytes = self.shift // 4 or self.dtype.itemsize
        self.compares = 4 <= self.item_bytes <= 8 and profile.vector_bytes == 64
        self.digit = 8 if self.dtype.bits <= 16 or self.most < LARGE else 11
        self.passes = -(-self.dtype.bits // self.digit)

    def words(self, **more: str | int) -> dict[str, str | int]:
        return {
            "item_type": "unsigned __int128" if self.item_bytes == 16 else f"u{8 * self.item_bytes}",
            "shift": self.shift,
            "indices": int(self.indices),
            "out": "i64" if self.indices else f"u{self.dtype.bits}",
            "descending": int(self.descending),
            "zeros_equal": int(self.places),
            "digit": self.digit,
            "passes": self.passes,
            **self._vector_words(),
            **more,
        }

    def _vector_words(self) -> dict[str, str | int]:
        """Vectors of elements, and of items."""
        lanes, item_lanes = (self.profile.vector_bytes // size for size in (self.dtype.itemsize, self.item_bytes))
        item = 8 * self.item_bytes
        return {
            "lanes": lanes,
            "vector": f"u{self.dtype.bits}x{lanes}",
            "mask": f"i{self.dtype.bits}x{lanes}",
            "item_lanes": item_lanes,
            "item_vector": f"u{item}x{item_lanes}",
            "item_signed": f"i{item}x{item_lanes}",
            "lane_bits": f"u{item_lanes}",
            "compare": "q" if item == 64 else "d",
            "store": "di" if item == 64 else "si",
            "instructions": int(self.compares),
            "inlined": int(self.most >= LONG and not self.selects),
        }

    @property
    def counts_bytes(self) -> int:
        return 4 * self.passes << self.digit

    def sizes(self, **more: IndexLike) -> dict[str, IndexLike]:
        return {"n": self.n, "count": self.count, "outer": self.outer, "inner": self.inner, **more}

    def make(
        self,
        template: str,
        words: dict[str, str | int],
        sizes: dict[str, IndexLike],
        tasks: IndexLike,
        *,
        workspace: int = 0,
        nanoseconds: float | None = None,
    ) -> Routine:
        """`nanoseconds` is what a task takes about; it is a chunk by itself unless they are given."""
        grain = 1 if nanoseconds is None else max(1, int(chunk_nanoseconds(self.profile) / max(1.0, nanoseconds)))
        work = upper(self.rows) * self.most
        return routine(template, self.dtype, words, sizes, tasks, workspace=workspace, grain=grain, operations=work)

    def temporary(self, items: IndexLike) -> Temporary:
        # Items that are no element type of their own are one word or two.
        return Temporary(uint64 if self.shift else self.dtype, (items, max(1, self.shift // 32)))


def sort_steps(node: Node, sources: list[Operand], profile: Profile) -> list[Step]:
    """The launches of a SORT node."""
    if profile.group_threads:
        return group_sort_steps(node, sources[0], profile)
    sort = _Sort(node, sources[0], profile)
    if sort.selects:
        return _select(sort)
    # Rows that lie in one piece are sorted one by one in registers, where that can be done.
    if sort.item_bytes <= 8 and sort.most <= NETWORK_ROWS and not (sort.compares and sort.inner == 1):
        return [_network(sort)]
    pieces = _pieces(sort)
    return _divided(sort, pieces) if pieces > 1 else [_whole_rows(sort)]


def _pieces(sort: _Sort) -> int:
    """Into how many pieces a row is cut, so that every core has something to do: a power of two."""
    pieces = 1
    while upper(sort.rows) * pieces < TASKS * sort.profile.cores and sort.most >= 2 * pieces * PIECE:
        pieces *= 2
    return pieces


def _network(sort: _Sort) -> Step:
    lanes = sort.profile.vector_bytes // sort.item_bytes
    tasks = (sort.rows - 1) // lanes + 1
    made = sort.make(
        "sort_network",
        sort.words(),
        sort.sizes(),
        tasks,
        workspace=sort.most * lanes * sort.item_bytes,
        nanoseconds=lanes * sort.most * 3.0,
    )
    return Step(made, (sort.node, sort.source))


def _whole_rows(sort: _Sort) -> Step:
    columns = max(1, min(16, upper(sort.inner), COLUMNS_BYTES // (sort.most * sort.item_bytes)))
    tasks = as_index(sort.outer) * ((as_index(sort.inner) - 1) // columns + 1)
    room = sort.most + (-sort.most) % 8
    workspace = (columns + 1) * room * sort.item_bytes + sort.counts_bytes
    words = sort.words(columns=columns, room=room)
    cost = columns * sort.most * sort.passes * 2.0
    made = sort.make("sort_rows", words, sort.sizes(), tasks, workspace=workspace, nanoseconds=cost)
    return Step(made, (sort.node, sort.source))


def _divided(sort: _Sort, pieces: int) -> list[Step]:
    """Pieces divided into parts by the same limits, then parts put together and sorted."""
    piece = (as_index(sort.n) - 1) // pieces + 1
    sizes = sort.sizes(piece=piece)
    words = sort.words(parts=PARTS, pieces=pieces)
    counts = Temporary(uint32, (sort.rows * (pieces * PARTS),))
    items, parted, spare = (sort.temporary(sort.rows * sort.n) for _ in range(3))
    divide = sort.make("sort_divide", words, sizes, sort.rows * pieces)
    parts = sort.make("sort_parts", words, sizes, sort.rows * PARTS, workspace=sort.counts_bytes)
    return [
        Step(divide, (parted, counts, items, sort.source)),
        Step(parts, (sort.node, items, spare, parted, counts, sort.source)),
    ]


def _select(sort: _Sort) -> list[Step]:
    count = upper(sort.count)
    room = max(4 * count, 1024) + 128
    bits = sort.dtype.bits
    sort.digit = 8 if bits <= 16 or room < LARGE else 11
    sort.passes = -(-bits // sort.digit)
    words = sort.words(room=room)
    workspace = 2 * room * sort.item_bytes + sort.counts_bytes
    cost = sort.most * 0.3
    pieces = 1
    while upper(sort.rows) * pieces < sort.profile.cores and sort.most >= 2 * pieces * max(PIECE, SELECTED * count):
        pieces *= 2
    if pieces == 1:
        made = sort.make("best_rows", words, sort.sizes(), sort.rows, workspace=workspace, nanoseconds=cost)
        return [Step(made, (sort.node, sort.source))]
    piece = (as_index(sort.n) - 1) // pieces + 1
    sizes = sort.sizes(pieces=pieces, piece=piece)
    best = sort.temporary(sort.rows * pieces * sort.count)
    first = sort.make("best_pieces", words, sizes, sort.rows * pieces, workspace=workspace)
    words = {**words, "room": pieces * count}
    workspace = 2 * pieces * count * sort.item_bytes + sort.counts_bytes
    last = sort.make("best_finish", words, sizes, sort.rows, workspace=workspace)
    return [Step(first, (best, sort.source)), Step(last, (sort.node, best, sort.source))]

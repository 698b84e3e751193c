"""Launches of a sort.

| rows | how |
|---|---|
| short | as many at a time as a vector has lanes, by a sorting network |
| long | radix sort from the last digit; a block of columns at a time where the axis is not the last |
| long, and few | divided into parts by value, which are sorted side by side |
| long, and few elements wanted | candidates that precede the last of the best so far |
| any, on a device whose threads come in groups | one by each group |
"""

from __future__ import annotations

from smelt.cost import Profile
from smelt.cost.kernel import chunk_nanoseconds
from smelt.dtypes import DType, int64, uint32, uint64
from smelt.fuse import Operand
from smelt.graph import IndexLike, Node, as_index, product_of, upper
from smelt.kernel import Routine, Step, Temporary

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
        self.candidates = max(4 * upper(self.count), 1024) + 128  # that there is room for where some are selected
        self.places = self.indices or self.selects
        wide = self.dtype.bits == 64 or self.most >= 1 << 32
        self.shift = (64 if wide else 32) if self.places else 0  # what keys stand above, for their places
        self.item_bytes = self.shift // 4 or self.dtype.itemsize
        self.compares = 4 <= self.item_bytes <= 8 and profile.vector_bytes == 64
        together = self.candidates if self.selects else self.most
        self.digit = 8 if self.dtype.bits <= 16 or together < LARGE else 11
        self.passes = -(-self.dtype.bits // self.digit)
        self.counts_bytes = 4 * self.passes << self.digit

    def words(self) -> dict[str, str | int]:
        """What all templates leave open, about elements and the items that stand for them."""
        lanes, item_lanes = (self.profile.vector_bytes // size for size in (self.dtype.itemsize, self.item_bytes))
        item = 8 * self.item_bytes
        return {
            "item_type": "unsigned __int128" if item == 128 else f"u{item}",
            "shift": self.shift,
            "indices": int(self.indices),
            "out": "i64" if self.indices else f"u{self.dtype.bits}",
            "descending": int(self.descending),
            "zeros_equal": int(self.places),
            "digit": self.digit,
            "passes": self.passes,
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

    def step(
        self,
        template: str,
        tasks: IndexLike,
        buffers: tuple[Node | Temporary, ...],
        words: dict[str, str | int],
        sizes: dict[str, IndexLike] | None = None,
        *,
        workspace: int = 0,
        nanoseconds: float | None = None,
        threads: int = 1,
    ) -> Step:
        """`nanoseconds` is what a task takes about; it is a chunk by itself unless they are given."""
        grain = 1 if nanoseconds is None else max(1, int(chunk_nanoseconds(self.profile) / max(1.0, nanoseconds)))
        every = {"n": self.n, "count": self.count, "outer": self.outer, "inner": self.inner, **(sizes or {})}
        work = upper(self.rows) * self.most
        made = Routine(template, self.dtype, words, every, as_index(tasks), workspace, grain, work, threads=threads)
        return Step(made, buffers)

    def temporary(self, items: IndexLike) -> Temporary:
        # Items that are no element type of their own are one word or two.
        return Temporary(uint64 if self.shift else self.dtype, (items, max(1, self.shift // 32)))

    def pieces(self, tasks: int, least: int) -> int:
        """Into how many pieces of so many elements a row is cut, so that there are enough tasks: a power of two."""
        pieces = 1
        while upper(self.rows) * pieces < tasks and self.most >= 2 * pieces * least:
            pieces *= 2
        return pieces


def sort_steps(node: Node, sources: list[Operand], profile: Profile) -> list[Step]:
    """The launches of a SORT node."""
    sort = _Sort(node, sources[0], profile)
    if profile.group_threads:
        return [_by_group(sort)]
    if sort.selects:
        return _select(sort)
    # Rows that lie in one piece are sorted one by one in registers, where that can be done.
    if sort.item_bytes <= 8 and sort.most <= NETWORK_ROWS and not (sort.compares and sort.inner == 1):
        return [_network(sort)]
    pieces = sort.pieces(TASKS * profile.cores, PIECE)
    return _divided(sort, pieces) if pieces > 1 else [_whole_rows(sort)]


def _by_group(sort: _Sort) -> Step:
    """Places are sorted, with the elements as keys: so every sort is stable, and equal elements stay what they are."""
    threads = 1
    while threads < sort.profile.group_threads and 2 * threads <= sort.most:
        threads *= 2
    words = {name: word for name, word in sort.words().items() if name in ("indices", "out", "descending")}
    words |= {"zeros_equal": 1, "threads": threads}
    places = (Temporary(int64, (sort.rows, sort.n)), Temporary(int64, (sort.rows, sort.n)))
    return sort.step("group_sort", sort.rows, (sort.node, sort.source, *places), words, threads=threads)


def _network(sort: _Sort) -> Step:
    lanes = sort.profile.vector_bytes // sort.item_bytes
    tasks = (sort.rows - 1) // lanes + 1
    workspace, cost = sort.most * lanes * sort.item_bytes, lanes * sort.most * 3.0
    buffers = (sort.node, sort.source)
    return sort.step("sort_network", tasks, buffers, sort.words(), workspace=workspace, nanoseconds=cost)


def _whole_rows(sort: _Sort) -> Step:
    columns = max(1, min(16, upper(sort.inner), COLUMNS_BYTES // (sort.most * sort.item_bytes)))
    tasks = as_index(sort.outer) * ((as_index(sort.inner) - 1) // columns + 1)
    room = sort.most + (-sort.most) % 8
    workspace = (columns + 1) * room * sort.item_bytes + sort.counts_bytes
    words = sort.words() | {"columns": columns, "room": room}
    cost = columns * sort.most * sort.passes * 2.0
    return sort.step("sort_rows", tasks, (sort.node, sort.source), words, workspace=workspace, nanoseconds=cost)


def _divided(sort: _Sort, pieces: int) -> list[Step]:
    """Pieces divided into parts by the same limits, then parts put together and sorted."""
    node, source, rows = sort.node, sort.source, sort.rows
    sizes: dict[str, IndexLike] = {"piece": (as_index(sort.n) - 1) // pieces + 1}
    words = sort.words() | {"parts": PARTS, "pieces": pieces}
    counts = Temporary(uint32, (rows * (pieces * PARTS),))
    items, parted, spare = (sort.temporary(rows * sort.n) for _ in range(3))
    buffers = (node, items, spare, parted, counts, source)
    return [
        sort.step("sort_divide", rows * pieces, (parted, counts, items, source), words, sizes),
        sort.step("sort_parts", rows * PARTS, buffers, words, sizes, workspace=sort.counts_bytes),
    ]


def _select(sort: _Sort) -> list[Step]:
    node, source, rows, count, room = sort.node, sort.source, sort.rows, upper(sort.count), sort.candidates
    words, cost = sort.words() | {"room": room}, sort.most * 0.3
    workspace = 2 * room * sort.item_bytes + sort.counts_bytes
    pieces = sort.pieces(sort.profile.cores, max(PIECE, SELECTED * count))
    if pieces == 1:
        return [sort.step("best_rows", rows, (node, source), words, workspace=workspace, nanoseconds=cost)]
    sizes: dict[str, IndexLike] = {"pieces": pieces, "piece": (as_index(sort.n) - 1) // pieces + 1}
    best = sort.temporary(rows * pieces * sort.count)
    first = sort.step("best_pieces", rows * pieces, (best, source), words, sizes, workspace=workspace)
    words, workspace = words | {"room": pieces * count}, 2 * pieces * count * sort.item_bytes + sort.counts_bytes
    return [first, sort.step("best_finish", rows, (node, best, source), words, sizes, workspace=workspace)]

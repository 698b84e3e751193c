"""Weights that are the same in every call are packed once, and the packed copy is kept with them.

Where few rows meet a large matrix, packing it takes longer than multiplying. Tensors never change, so the packed form
of one may be kept for as long as the tensor lives: `Storage.kept`. A function is first compiled for weights as they
are. Once it has been called a few times with the very same ones, it is traced anew, with a packed copy in the place of
each. If new weights keep coming after all, the first form comes back.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from smelt.cost import profile
from smelt.device import HOST, available_bytes
from smelt.dtypes import bfloat16, float32, int8, int32, uint8
from smelt.graph import Node, Op, build, product_of, row_major, topological, with_sources
from smelt.runtime import Placeholder, Storage

CALLS = 3  # with the same weights, before they are packed
CHANGES = 8  # of weights, after which nothing is packed anymore
LEAST_BYTES = 1 << 20  # of a weight
ROWS = range(4, 65)  # that meet it: fewer read it as it lies, and more are worth packing it each time
SHARE = 8  # packed copies may take this part of the free memory


class Packing(NamedTuple):
    """How a matrix is packed: panels of neighboring columns, in each of them all rows; in a row of a panel, for every
    column, `depth` neighbors along the rows, which make a word.
    """

    panel: int
    depth: int
    transposed: bool  # the tensor has the columns first

    def shape(self, rows: int, columns: int) -> tuple[int, int, int, int]:
        return columns // self.panel, rows // self.depth, self.panel, self.depth

    def pack(self, storage: Storage) -> Storage:
        """The packed copy of a matrix, from where it is kept or made now."""
        if storage.kept is None:
            storage.kept = {}
        found = storage.kept.get(self)
        if found is None:
            array = storage.numpy()
            array = array.T if self.transposed else array
            rows, columns = array.shape
            parts = array.reshape(rows // self.depth, self.depth, columns // self.panel, self.panel)
            found = storage.kept[self] = Storage.of(parts.transpose(2, 0, 3, 1), copy=True, place=HOST)
        return found

    def seen(self, packed: Node) -> Node:
        """The matrix that a packed one holds."""
        panels, groups, panel, depth = packed.shape
        matrix = build.reshape(build.permute(packed, (1, 3, 0, 2)), (groups * depth, panels * panel))
        return build.permute(matrix, (1, 0)) if self.transposed else matrix


class Use(NamedTuple):
    """Where a contraction takes a weight from: the source with that number, a leaf that may be swapped or cast."""

    contraction: Node
    side: int
    leaf: Node
    packing: Packing


class Kept(NamedTuple):
    """A leaf, how it is packed, and the leaf that stands for the packed copy."""

    leaf: Node
    packing: Packing
    node: Node


def packable(roots: Sequence[Node], numbers: Mapping[Node, int], leaves: Sequence[Any]) -> list[Use]:
    """The weights among the arguments, which have these numbers."""
    found = [_use(node, numbers) for node in topological(roots) if node.op is Op.CONTRACT]
    everywhere = {leaf.device for leaf in leaves if isinstance(leaf, Storage)}
    return [use for use in found if use is not None] if everywhere == {HOST} else []


def with_packed(roots: Sequence[Node], uses: Sequence[Use]) -> tuple[list[Node], list[Kept]]:
    """The same function of packed weights."""
    by_contraction = {use.contraction: use for use in uses}
    new: dict[Node, Node] = {}
    kept: dict[tuple[Node, Packing], Kept] = {}
    for node in topological(roots):
        sources = [new[source] for source in node.sources]
        use = by_contraction.get(node)
        if use is not None:
            one = kept.get((use.leaf, use.packing)) or _kept(use.leaf, use.packing)
            kept[use.leaf, use.packing] = one
            sources[use.side] = _seen(node.sources[use.side], use.leaf, use.packing.seen(one.node))
        new[node] = with_sources(node, tuple(sources))
    return [new[root] for root in roots], list(kept.values())


def _seen(source: Node, leaf: Node, matrix: Node) -> Node:
    """What a source is, with a matrix in the place of the leaf."""
    if source is leaf:
        return matrix
    inner = _seen(source.sources[0], leaf, matrix)
    return build.cast(inner, source.dtype) if source.op is Op.CAST else build.permute(inner, source.attribute)


def _kept(leaf: Node, packing: Packing) -> Kept:
    rows, columns = reversed(leaf.shape) if packing.transposed else leaf.shape
    assert isinstance(rows, int)
    assert isinstance(columns, int)
    shape = packing.shape(rows, columns)
    return Kept(leaf, packing, Placeholder(leaf.dtype, shape, row_major(shape)).node())


def _use(node: Node, numbers: Mapping[Node, int]) -> Use | None:
    left, right, out = node.attribute
    for side, own, other in ((1, right, left), (0, left, right)):
        if len(own) != 2 or len(set(own) & set(other)) != 1:
            continue
        summed = own[0] if own[0] in other else own[1]
        if summed in out or any(label not in out for label in (*own, *other) if label != summed):
            continue
        rest = node.sources[1 - side]
        rows = product_of(size for label, size in zip(other, rest.shape, strict=True) if label != summed)
        leaf, swapped, bytewise = _leaf(node.sources[side])
        if leaf not in numbers or leaf is None or rows not in ROWS:
            continue
        transposed = (own[1] == summed) != swapped  # the leaf has its columns first
        packing = _packing(leaf, bytewise, transposed)
        if packing is not None:
            return Use(node, side, leaf, packing)
    return None


def _leaf(source: Node) -> tuple[Node | None, bool, bool]:
    """The leaf that a source is, whether it is swapped on the way, and whether it is widened from bytes."""
    swapped = bytewise = False
    while source.leaf is None and source.op in (Op.PERMUTE, Op.CAST) and source.sources[0].rank == 2:
        if source.op is Op.CAST:
            if source.dtype is not int32 or source.sources[0].dtype not in (int8, uint8):
                return None, False, False
            bytewise = True
        elif source.attribute == (1, 0):
            swapped = not swapped
        source = source.sources[0]
    return (source if source.op is Op.LEAF else None), swapped, bytewise


def _packing(leaf: Node, bytewise: bool, transposed: bool) -> Packing | None:
    rows, columns = reversed(leaf.shape) if transposed else leaf.shape
    if not isinstance(rows, int) or not isinstance(columns, int):
        return None
    if rows * columns * leaf.dtype.itemsize < LEAST_BYTES:
        return None
    from smelt.kernel import rows_of  # which loads the compiler: only for a weight that is worth packing

    machine = profile()
    if leaf.dtype is float32 and machine.vector_bytes == 64:
        panel, depth, step = 64, 1, 1
    else:
        kind = bfloat16 if leaf.dtype is bfloat16 else leaf.dtype if bytewise else None
        known = rows_of(machine.features, machine.vector_bytes, float32 if leaf.dtype is bfloat16 else int32)
        row = next((row for row in known if row.takes_tiles and row.right is kind), None)
        if row is None:
            return None
        panel, depth, step = row.tiles * max(row.lanes), row.numbers, row.numbers * row.depth
    packing = Packing(panel, depth, transposed)
    return packing if columns % panel == 0 and rows % step == 0 else None


class Watch:
    """Whether the weights of a function stay the same from call to call."""

    __slots__ = ("_calls", "_changes", "_seen", "leaves")

    def __init__(self, leaves: list[int]) -> None:
        self.leaves = leaves  # their numbers
        self._seen: list[weakref.ref[Storage]] = []
        self._calls = self._changes = 0

    def settled(self, leaves: Sequence[Any]) -> bool | None:
        """True once they have been the same for long enough; None if there is nothing more to wait for."""
        now = [leaves[k] for k in self.leaves]
        if self._seen and all(ref() is storage for ref, storage in zip(self._seen, now, strict=True)):
            self._calls += 1
            return _fit(now) if self._calls == CALLS else self._calls > CALLS
        self._changes += bool(self._seen)
        self._seen, self._calls = [weakref.ref(storage) for storage in now], 1
        return None if self._changes > CHANGES or not all(map(_is_own, now)) else False


def _fit(storages: Sequence[Storage]) -> bool | None:
    nbytes = sum(math.prod(storage.shape) * storage.dtype.itemsize for storage in storages)
    return True if nbytes * SHARE <= available_bytes() else None


def _is_own(storage: Storage) -> bool:
    """Whether nobody else can write to the memory of a tensor, as the owner of a shared array could."""
    return storage.memory.device == HOST and storage.memory.recycled

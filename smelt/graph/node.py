"""The one node type of the graph: immutable and hash-consed, so equality is identity.

`make` is the only way to a node. Two calls with equal arguments give the same object for as long as it lives; the table
that remembers them is weak. Nodes know nothing about users, devices or source lines.
"""

from __future__ import annotations

import contextlib
import math
import struct
import threading
import weakref
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from smelt.config import settings
from smelt.dtypes import DType, Scalar, cast_array, float32, float64
from smelt.graph.index import IndexLike, product_of, upper
from smelt.graph.ops import VIEWS, Op

if TYPE_CHECKING:
    from numpy.typing import NDArray

Shape = tuple[IndexLike, ...]


class Node:
    """One value of a tensor program."""

    __slots__ = ("__weakref__", "attribute", "dtype", "leaf", "op", "shape", "sources")

    op: Op
    dtype: DType
    shape: Shape
    sources: tuple[Node, ...]
    attribute: Any
    leaf: Node | None  # where the value lies, once it has been computed: a LEAF

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def elements(self) -> int:
        """How many elements it has, at the upper bound of its dims."""
        return upper(product_of(self.shape))

    @property
    def nbytes(self) -> int:
        """The memory that these take."""
        return self.elements * self.dtype.itemsize

    def __repr__(self) -> str:
        attribute = "" if self.attribute is None else f" {self.attribute!r}"
        return f"<{self.op.value}{attribute} {self.dtype}{list(self.shape)}>"


class _Reference(weakref.ref[Node]):
    __slots__ = ("key", "table")
    key: tuple[Any, ...]
    table: _Table


_Table = dict[tuple[Any, ...], _Reference]
_nodes: _Table = {}


class _Tables(threading.local):
    """Where this thread finds its nodes: with everybody's, or in a table of its own."""

    current: _Table = _nodes


_tables = _Tables()


class PrivateNodes:
    """The nodes that were made in a `with private_nodes()` block; `outside` are those that everybody shares."""

    def __init__(self, table: _Table) -> None:
        self._table = table

    @property
    def outside(self) -> PrivateNodes:
        return PrivateNodes(_nodes)

    def __contains__(self, node: object) -> bool:
        if not isinstance(node, Node):
            return False
        reference = self._table.get(_key(node.op, node.dtype, node.shape, node.sources, node.attribute))
        return reference is not None and reference() is node


@contextlib.contextmanager
def private_nodes() -> Iterator[PrivateNodes]:
    """Nodes made inside are shared with no node outside, and so can be told from these.

    The compiler works like this: a user's node may have a value already, and one that the compiler happens to make
    equal to it must not.
    """
    before = _tables.current
    _tables.current = {}
    try:
        yield PrivateNodes(_tables.current)
    finally:
        _tables.current = before


# References to nodes that died, still in their tables. Appending is all that happens when a node dies: an exception in
# Python code that runs then (Ctrl-C, say) would be lost.
_dead: deque[_Reference] = deque()
_MOST_DEAD = 1024


def _sweep() -> None:
    """Take the dead out of their tables."""
    while _dead:
        try:
            reference = _dead.popleft()
        except IndexError:  # another thread was faster
            return
        # A new node with the same key may already stand in the place of the dead one.
        if reference.table.get(reference.key) is reference:
            reference.table.pop(reference.key, None)
        del reference  # its key may have been the last to hold the nodes of a body, which die now


def _key(op: Op, dtype: DType, shape: Shape, sources: tuple[Node, ...], attribute: Any) -> tuple[Any, ...]:
    return (op, dtype, shape, attribute, *map(id, sources))


def make(op: Op, dtype: DType, shape: Shape, sources: tuple[Node, ...] = (), attribute: Any = None) -> Node:
    """The node with these fields. The caller has checked that they fit together."""
    # A node keeps its sources alive, so their ids are good for as long as the entry is.
    key = (op, dtype, shape, attribute, *map(id, sources))  # as in `_key`, without a call
    table = _tables.current
    reference = table.get(key)
    if reference is not None:
        known = reference()
        if known is not None:
            return known
    node = Node.__new__(Node)
    node.op, node.dtype, node.shape, node.sources = op, dtype, shape, sources
    node.attribute, node.leaf = attribute, None
    reference = _Reference(node, _dead.append)
    reference.key, reference.table = key, table
    # Another thread may have been faster: all threads must get the same node.
    standing = table.setdefault(key, reference)
    if standing is not reference:
        known = standing()
        if known is not None:
            return known
        table[key] = reference
    if len(_dead) > _MOST_DEAD:
        _sweep()
    return node


def find(op: Op, dtype: DType, shape: Shape, sources: tuple[Node, ...] = (), attribute: Any = None) -> Node | None:
    """The node with these fields, if it is alive."""
    reference = _tables.current.get(_key(op, dtype, shape, sources, attribute))
    return None if reference is None else reference()


def made(op: Op, dtype: DType, shape: Shape, sources: tuple[Node, ...] = (), attribute: Any = None) -> Node:
    """`make`, for builders: a new node is checked where the setting `verify` asks for it."""
    if dtype.is_complex:
        from smelt.graph.pairs import by_parts

        return by_parts(op, shape, sources, attribute)
    if settings().verify and find(op, dtype, shape, sources, attribute) is None:
        from smelt.graph.verify import verify_node  # which calls builders

        node = make(op, dtype, shape, sources, attribute)
        verify_node(node)
        return node
    return make(op, dtype, shape, sources, attribute)


def with_sources(node: Node, sources: tuple[Node, ...]) -> Node:
    """The same operation on other sources of the same shapes and dtypes; the node itself if they are the same."""
    return node if sources == node.sources else make(node.op, node.dtype, node.shape, sources, node.attribute)


def make_leaf(dtype: DType, shape: Shape, storage: Any) -> Node:
    """A LEAF for storage that has none yet. Storage is told apart by identity, so there is no equal node to find."""
    node = Node.__new__(Node)
    node.op, node.dtype, node.shape, node.sources, node.attribute, node.leaf = Op.LEAF, dtype, shape, (), storage, None
    return node


def live_nodes() -> int:
    """How many nodes are alive; tests use it to see that history is released."""
    _sweep()
    return len(_nodes)


_REPEATING: Final = frozenset({Op.EXPAND, Op.RESHAPE})
_FORMS: Final = {float32: struct.Struct("<f"), float64: struct.Struct("<d")}


def constant_bytes(value: Scalar, dtype: DType) -> bytes:
    """The bits of a scalar in a dtype: what tells constants apart (NaN, -0.0, True and 1 all differ)."""
    if dtype.is_integer and not isinstance(value, float):
        return (int(value) & ((1 << dtype.bits) - 1)).to_bytes(dtype.itemsize, "little")
    if dtype.is_bool:
        return b"\1" if value else b"\0"
    try:
        wide = float(value)
    except OverflowError:  # an integer beyond the largest float
        wide = math.inf if value > 0 else -math.inf
    form = _FORMS.get(dtype)
    if form is not None:
        try:
            return form.pack(wide)
        except OverflowError:  # beyond the largest float32: infinite, as in a cast
            pass
    return cast_array(np.asarray(wide), dtype).tobytes()


def constant_value(node: Node) -> Scalar:
    """The Python scalar of a CONST node."""
    return scalar_of(node.attribute, node.dtype)


def scalar_of(bits: bytes, dtype: DType) -> Scalar:
    """The Python scalar that `constant_bytes` gives these bits."""
    form = _FORMS.get(dtype)
    value: Scalar = np.frombuffer(bits, dtype.numpy)[0].item() if form is None else form.unpack(bits)[0]
    return value


def constant_array(node: Node) -> NDArray[Any]:
    """The element of a CONST node as a NumPy array of rank 0."""
    return np.frombuffer(node.attribute, node.dtype.numpy).reshape(())


def topological(
    roots: Iterable[Node],
    through_leaves: bool = False,
    known: Container[Node] = frozenset(),
    reads: Callable[[Node], Sequence[Node]] | None = None,
) -> list[Node]:
    """All nodes below the roots, sources before users. Stops at computed values unless told otherwise.

    Nodes that are `known`, and what is below them, are left out. `reads` says what else than its sources a node reads.
    """
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[Any] = list(roots)[::-1]
    while stack:
        node = stack.pop()
        if node is None:  # all sources of the next one are done
            order.append(stack.pop())
        elif node not in seen and node not in known:
            seen.add(node)
            if reads is not None:
                sources = reads(node)
            else:
                sources = node.sources if through_leaves or node.leaf is None else ()
            if sources:
                stack += (node, None)
                stack += sources[::-1]
            else:
                order.append(node)
    return order


def computed_from(node: Node) -> Sequence[Node]:
    """What the value of a node is computed from: nothing if it has one, and of an alias the first source alone."""
    return () if node.leaf is not None else node.sources[:1] if node.op is Op.ALIAS else node.sources


def shown(node: Node, steps: Set[Op] = VIEWS) -> Node:
    """What views show: the first node that is no such step, or in memory."""
    while node.op in steps and node.leaf is None:
        node = node.sources[0]
    return node


def constant_of(node: Node) -> Node | None:
    """The CONST that a node repeats, if it is nothing but a constant."""
    node = shown(node, _REPEATING)
    return node if node.op is Op.CONST else None


def users(order: Iterable[Node]) -> dict[Node, list[Node]]:
    """For each node in the order, the nodes that read it (once for each time they do)."""
    table: dict[Node, list[Node]] = {}
    for node in order:
        table.setdefault(node, [])
        for source in node.sources:
            table.setdefault(source, []).append(node)
    return table


def label_sizes(contraction: Node) -> dict[int, IndexLike]:
    """How long the axes of a contraction are, by label."""
    (a, b), (left, right, _) = contraction.sources, contraction.attribute
    return dict(zip((*left, *right), (*a.shape, *b.shape), strict=True))

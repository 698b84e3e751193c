"""Rows of bytes and bfloat16 that end within a word are copied once, with zeros behind, before they are multiplied.

Instructions for inner products take words of four bytes or two bfloat16, and matrix instructions sixteen of them. Where
a row has another length, every word of every row lies differently, and a kernel that packs its operands would put them
together number by number, once a task. A copy reads and writes the operand once.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from smelt.cost import Profile
from smelt.dtypes import bfloat16, float32, int8, int32, uint8
from smelt.graph import IndexLike, Node, Op, build, product_of, topological, upper, with_sources
from smelt.kernel import rows_of

ROW_BYTES = 64  # rows become multiples of this: what matrix instructions take at a time
WORD_BYTES = 4
LEAST = 16  # rows and columns that make it worth while


def whole_words(roots: Sequence[Node], pieces: Set[Node], profile: Profile) -> tuple[list[Node], set[Node]]:
    """Lengthen the operands of contractions; the copies are stored, like the `pieces`."""
    new: dict[Node, Node] = {}
    stored: dict[Node, Node] = {}
    for node in topological(roots):
        sources = tuple([new[source] for source in node.sources])
        if node.op is Op.CONTRACT and _is_odd(node, profile):
            sources = tuple([_lengthened(node, side, source, stored) for side, source in enumerate(sources)])
        new[node] = with_sources(node, sources)
    return [new[root] for root in roots], {*(new[piece] for piece in pieces), *stored.values()}


def _is_odd(node: Node, profile: Profile) -> bool:
    """Whether instructions for words can do a contraction, and a row in memory has no whole number of them."""
    narrow = [_narrow(source) for source in node.sources]
    label, size = _summed(node)
    result = float32 if node.dtype.is_float else int32
    if size is None or None in narrow or not any(rows_of(profile.features, profile.vector_bytes, result)):
        return False
    left, right, out = node.attribute
    sizes = dict(zip(left + right, (*node.sources[0].shape, *node.sources[1].shape), strict=True))
    rows = product_of(sizes[k] for k in out if k in left and k not in right)
    columns = product_of(sizes[k] for k in out if k in right and k not in left)
    if min(upper(rows), upper(columns)) < LEAST:
        return False
    odd = [
        x is not None and x.op is Op.LEAF and labels[-1] == label and size * x.dtype.itemsize % WORD_BYTES != 0
        for x, labels in zip(narrow, (left, right), strict=True)
    ]
    return any(odd)


def _narrow(source: Node) -> Node | None:
    """What an operand is before it is widened: bytes in an integer contraction, or bfloat16 as they are."""
    if source.dtype is bfloat16:
        return source
    if source.op is Op.CAST and source.dtype is int32 and source.sources[0].dtype in (int8, uint8):
        return source.sources[0]
    return None


def _summed(node: Node) -> tuple[int, int | None]:
    """The one axis that is summed, and its size if that is known."""
    left, right, out = node.attribute
    summed = [label for label in dict.fromkeys(left + right) if label not in out]
    if len(summed) != 1 or summed[0] not in left or summed[0] not in right:
        return -1, None
    size = node.sources[0].shape[left.index(summed[0])]
    return summed[0], size if isinstance(size, int) and size >= ROW_BYTES else None


def _lengthened(node: Node, side: int, source: Node, stored: dict[Node, Node]) -> Node:
    """An operand with zeros behind; it is stored if its rows are those that lie in memory."""
    label, size = _summed(node)
    assert size is not None
    labels = node.attribute[side]
    x = _narrow(source)
    assert x is not None
    in_row = ROW_BYTES // x.dtype.itemsize
    widths: list[tuple[IndexLike, IndexLike]] = [(0, -size % in_row if k == label else 0) for k in labels]
    longer = build.pad(x, widths, build.const(0, x.dtype))
    if x.op is Op.LEAF and labels[-1] == label:
        stored[longer] = longer
    return longer if x is source else build.cast(longer, int32)

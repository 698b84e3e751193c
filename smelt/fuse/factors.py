"""Operands of contractions that are stored before they are multiplied.

Rows of bytes and bfloat16 that end within a word are copied once, with zeros behind. Instructions for inner products
take words of four bytes or two bfloat16, and matrix instructions sixteen of them. Where a row has another length, every
word of every row lies differently, and a kernel that packs its operands would put them together number by number, once
a task. A copy reads and writes the operand once.

Padded operands are stored where loads cannot leave out single lanes. A kernel could read around the edges itself, and
asks at every load whether it is inside. Where a vector is loaded as a whole or not at all, that takes vectors at the
edges apart, once for every tile that packs them. Storing the padded operand writes and reads it once.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from smelt.cost import Profile
from smelt.dtypes import bfloat16, float32, int8, int32, uint8
from smelt.graph import (
    IndexLike,
    Node,
    Op,
    build,
    label_sizes,
    product_of,
    rewritten,
    shown,
    topological,
    upper,
    with_sources,
)
from smelt.kernel import rows_of

ROW_BYTES = 64  # rows become multiples of this: what matrix instructions take at a time
WORD_BYTES = 4
LEAST = 16  # rows and columns that make it worth while
PRODUCTS = 64  # for each element of a padded operand, beside which storing it costs little
LEAST_PRODUCTS = 1 << 18  # altogether that are worth a kernel more


def whole_words(roots: Sequence[Node], pieces: Set[Node], profile: Profile) -> tuple[list[Node], set[Node]]:
    """Lengthen the operands of contractions; the copies are stored, like the `pieces`."""
    new: dict[Node, Node] = {}
    stored: set[Node] = set()

    def change(node: Node, same: Node) -> Node:
        summed = _odd(node, profile) if node.op is Op.CONTRACT else None
        if summed is None:
            return same
        both = zip(same.sources, node.attribute[:2], strict=True)
        return with_sources(same, tuple([_lengthened(source, labels, summed, stored) for source, labels in both]))

    results = rewritten(roots, change, new)
    return results, stored.union(new[piece] for piece in pieces)


def _odd(node: Node, profile: Profile) -> tuple[int, int] | None:
    """The axis that a contraction sums and its size, if instructions for words can do it, and a row in memory has no
    whole number of them.
    """
    narrow = [_narrow(source) for source in node.sources]
    left, right, out = node.attribute
    sizes = label_sizes(node)
    summed = [label for label in sizes if label not in out]
    result = float32 if node.dtype.is_float else int32
    if len(summed) != 1 or None in narrow or not any(rows_of(profile.features, profile.vector_bytes, result)):
        return None
    (label,) = summed
    size = sizes[label]
    if label not in left or label not in right or not isinstance(size, int) or size < ROW_BYTES:
        return None
    rows = product_of(sizes[k] for k in out if k in left and k not in right)
    columns = product_of(sizes[k] for k in out if k in right and k not in left)
    odd = [
        x is not None and x.op is Op.LEAF and labels[-1] == label and size * x.dtype.itemsize % WORD_BYTES != 0
        for x, labels in zip(narrow, (left, right), strict=True)
    ]
    return (label, size) if any(odd) and min(upper(rows), upper(columns)) >= LEAST else None


def _narrow(source: Node) -> Node | None:
    """What an operand is before it is widened: bytes in an integer contraction, or bfloat16 as they are."""
    if source.dtype is bfloat16:
        return source
    if source.op is Op.CAST and source.dtype is int32 and source.sources[0].dtype in (int8, uint8):
        return source.sources[0]
    return None


def _lengthened(source: Node, labels: Sequence[int], summed: tuple[int, int], stored: set[Node]) -> Node:
    """An operand with zeros behind; it is stored if its rows are those that lie in memory."""
    label, size = summed
    x = _narrow(source)
    assert x is not None
    in_row = ROW_BYTES // x.dtype.itemsize
    widths: list[tuple[IndexLike, IndexLike]] = [(0, -size % in_row if k == label else 0) for k in labels]
    longer = build.pad(x, widths, build.const(0, x.dtype))
    if x.op is Op.LEAF and labels[-1] == label:
        stored.add(longer)
    return longer if x is source else build.cast(longer, int32)


def stored_padding(roots: Sequence[Node], profile: Profile) -> set[Node]:
    """The padded operands that are worth storing."""
    if profile.masks:
        return set()
    contractions = [node for node in topological(roots) if node.op is Op.CONTRACT]
    return {padded for node in contractions for source in node.sources if (padded := _padded(node, source)) is not None}


def _padded(contraction: Node, operand: Node) -> Node | None:
    """The padded node that an operand shows, if there are many products of each of its elements."""
    operand = shown(operand)
    if operand.op is not Op.PAD or operand.leaf is not None:
        return None
    many = upper(product_of(label_sizes(contraction).values())) >= max(LEAST_PRODUCTS, PRODUCTS * operand.elements)
    return operand if many else None

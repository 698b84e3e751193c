"""Products part by part: of what is joined along an axis that the product keeps.

A long factor that was only joined with a short one is not copied then, such as the keys of earlier tokens in attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from smelt.graph import IndexLike, Node, Op, as_index, build, expand
from smelt.rewrite import Contract, Family

family = Family("parts")
_MOST: Final = 4  # parts that a factor is joined of


@family.rule(Op.CONTRACT, over=(Op.CONCAT, None), contract=Contract.REASSOCIATES)
def product_of_rows_joined_left(node: Node, joined: Node, other: Node) -> Node | None:
    """[a; b] c, joined along what is kept → [a c; b c]."""
    return _part_by_part(node, 0)


@family.rule(Op.CONTRACT, over=(None, Op.CONCAT), contract=Contract.REASSOCIATES)
def product_of_rows_joined_right(node: Node, other: Node, joined: Node) -> Node | None:
    """a [b | c], joined along what is kept → [a b | a c]."""
    return _part_by_part(node, 1)


def _part_by_part(node: Node, which: int) -> Node | None:
    left, right, out = node.attribute
    joined, other = node.sources[which], node.sources[1 - which]
    label, theirs = (left, right)[which][joined.attribute], (left, right)[1 - which]
    if label not in out or len(joined.sources) > _MOST:
        return None
    products = []
    start: IndexLike = 0
    for part in joined.sources:
        size = part.shape[joined.attribute]
        beside = _span(other, theirs.index(label), start, size) if label in theirs else other
        sources = (part, beside) if which == 0 else (beside, part)
        products.append(build.contract(*sources, left, right, out, node.dtype))
        start = as_index(start) + size
    return build.concat(products, out.index(label))


def _span(x: Node, axis: int, start: IndexLike, size: IndexLike) -> Node:
    spans: Sequence[tuple[IndexLike, IndexLike, int]] = [
        (start, size, 1) if k == axis else (0, whole, 1) for k, whole in enumerate(x.shape)
    ]
    return build.slice_(x, spans)


@family.rule("attention", over=(None, Op.CONCAT, Op.CONCAT))
def attention_of_joined(node: Node, query: Node, *_: Node) -> Node | None:
    """attention(q, [k; k'], [v; v']) → what it is made of, so that its products are taken apart."""
    return expand(node)

"""What is joined only to be read as one, taken apart: products and reductions of concatenations; and the other way,
joined products.

A long factor that was only joined with a short one is not copied then, such as the keys of earlier tokens in attention.
A large factor that meets several narrow ones is read once if these are joined before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Final

from smelt.graph import IndexLike, Node, Op, as_index, build, expand
from smelt.rewrite import Contract, Family

family = Family("joins")
_REASSOCIATES = Contract.REASSOCIATES
_MOST: Final = 4  # parts that a factor is joined of


@family.rule((Op.CONTRACT, Op.CONCAT, None), (Op.CONTRACT, None, Op.CONCAT), contract=_REASSOCIATES)
def product_of_joined(node: Node, *sources: Node) -> Node | None:
    """[a | b] [c; d] → a c + b d, where either factor is joined along what is summed: each part is multiplied alone."""
    which = 0 if sources[0].op is Op.CONCAT else 1
    left, right, out = node.attribute
    labels = (left, right)
    joined, other = sources[which], sources[1 - which]
    label = labels[which][joined.attribute]
    if label in out or label not in labels[1 - which] or joined.dtype is not node.dtype or len(joined.sources) > _MOST:
        return None
    parts = [
        (part, _part_of(other, labels[1 - which].index(label), start, part.shape[joined.attribute]))
        for part, start in _parts_of(joined)
    ]
    products = [build.contract(*((a, b) if which == 0 else (b, a)), left, right, out, node.dtype) for a, b in parts]
    return reduce(build.add, products)


def _parts_of(joined: Node) -> Iterator[tuple[Node, IndexLike]]:
    """The parts of a concatenation, and where each begins."""
    start: IndexLike = 0
    for part in joined.sources:
        yield part, start
        start = as_index(start) + part.shape[joined.attribute]


def _part_of(x: Node, axis: int, start: IndexLike, size: IndexLike) -> Node:
    """A tensor from `start` on along an axis, so many elements of it."""
    spans: Sequence[tuple[IndexLike, IndexLike, int]] = [
        (start, size, 1) if k == axis else (0, whole, 1) for k, whole in enumerate(x.shape)
    ]
    return build.slice_(x, spans)


@family.rule((Op.REDUCE, Op.CONCAT), contract=_REASSOCIATES)
def reduction_of_joined(node: Node, joined: Node) -> Node | None:
    """sum([a | b]) → sum(a) + sum(b), and so for other reductions: each part of a concatenation is reduced alone."""
    op, axes = node.attribute
    if joined.attribute not in axes or len(joined.sources) > _MOST:
        return None
    return reduce(lambda a, b: build.binary(op, a, b), (build.reduce(op, part, axes) for part in joined.sources))


# --- parts that are kept


@family.rule((Op.CONTRACT, Op.CONCAT, None), (Op.CONTRACT, None, Op.CONCAT), contract=_REASSOCIATES)
def product_of_rows_joined(node: Node, *_: Node) -> Node | None:
    """[a; b] c → [a c; b c], and so on the other side: what is joined along an axis that is kept stays in parts."""
    sides = [side for side in (0, 1) if node.sources[side].op is Op.CONCAT]
    return next((found for side in sides if (found := _part_by_part(node, side)) is not None), None)


def _part_by_part(node: Node, which: int) -> Node | None:
    left, right, out = node.attribute
    joined, other = node.sources[which], node.sources[1 - which]
    label, theirs = (left, right)[which][joined.attribute], (left, right)[1 - which]
    if label not in out or len(joined.sources) > _MOST:
        return None
    if all(part.shape[joined.attribute] == 1 for part in joined.sources):
        return None  # vectors that became the columns of a matrix
    products = []
    for part, start in _parts_of(joined):
        size = part.shape[joined.attribute]
        beside = _part_of(other, theirs.index(label), start, size) if label in theirs else other
        sources = (part, beside) if which == 0 else (beside, part)
        products.append(build.contract(*sources, left, right, out, node.dtype))
    return build.concat(products, out.index(label))


# Of more parts rules would be shown all of their forms, each with each.
@family.rule((Op.CONCAT, *[Op.CONTRACT] * 4), contract=_REASSOCIATES)
def joined_products(node: Node, *products: Node) -> Node | None:
    """[a b | a c], of up to four parts → a [b | c]."""
    if len(products) > _MOST:
        return None  # patterns say nothing of the others
    return _joined(node, products, [product.attribute.out[node.attribute] for product in products])


@family.rule((Op.CONCAT, *[(Op.RESHAPE, Op.CONTRACT)] * 4), contract=_REASSOCIATES)
def joined_columns(node: Node, *columns: Node) -> Node | None:
    """[a u | a v], of up to four vectors that are columns then → a [u | v]."""
    if len(columns) > _MOST:
        return None
    axis = node.attribute
    products = [column.sources[0] for column in columns]
    shape = tuple(size for k, size in enumerate(node.shape) if k != axis)
    if any(
        column.shape[axis] != 1 or product.shape != shape for column, product in zip(columns, products, strict=True)
    ):
        return None
    return _joined(node, products, [])


def _joined(node: Node, products: Sequence[Node], ends: Sequence[int]) -> Node | None:
    """Products of one factor by several as one product, joined along labels that only these have, or a new one."""
    first, axis = products[0], node.attribute
    if len(products) < 2:
        return None
    alike = {(product.attribute, product.sources[0].dtype) for product in products}
    for which in (0, 1):
        common, own = first.sources[which], [product.sources[1 - which] for product in products]
        if len(alike) > 1 or any(product.sources[which] is not common for product in products):
            continue
        shared, labels, out = first.attribute[which], first.attribute[1 - which], first.attribute.out
        if ends and ends[0] in shared:
            continue
        if ends:
            at = labels.index(ends[0])
        else:  # a new label, in the place of the columns
            at, label = len(labels), 1 + max((*shared, *labels))
            labels, out = (*labels, label), (*out[:axis], label, *out[axis:])
            own = [build.reshape(x, (*x.shape, 1)) for x in own]
        factors = (common, build.concat(own, at))
        left, right = (shared, labels) if which == 0 else (labels, shared)
        return build.contract(*(factors if which == 0 else factors[::-1]), left, right, out, node.dtype)
    return None


@family.rule(("attention", None, Op.CONCAT, Op.CONCAT))
def attention_of_joined(node: Node, query: Node, *_: Node) -> Node | None:
    """attention(q, [k; k'], [v; v']) → what it is made of, so that its products are taken apart."""
    return expand(node)

"""What is joined only to be read as one: products and reductions of concatenations, taken apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from smelt.graph import IndexLike, Node, Op, as_index, build
from smelt.rewrite import Contract, Family

family = Family("joins")


@family.rule((Op.CONTRACT, Op.CONCAT, None), (Op.CONTRACT, None, Op.CONCAT), contract=Contract.REASSOCIATES)
def product_of_joined(node: Node, *sources: Node) -> Node | None:
    """[a | b] [c; d] → a c + b d, where either factor is joined along what is summed: each part is multiplied alone."""
    which = 0 if sources[0].op is Op.CONCAT else 1
    left, right, out = node.attribute
    labels = (left, right)
    joined, other = sources[which], sources[1 - which]
    label = labels[which][joined.attribute]
    if label in out or label not in labels[1 - which] or joined.dtype is not node.dtype or len(joined.sources) > 4:
        return None
    parts = [
        (part, part_of(other, labels[1 - which].index(label), start, part.shape[joined.attribute]))
        for part, start in parts_of(joined)
    ]
    products = [build.contract(*((a, b) if which == 0 else (b, a)), left, right, out, node.dtype) for a, b in parts]
    return reduce(build.add, products)


def parts_of(joined: Node) -> Iterator[tuple[Node, IndexLike]]:
    """The parts of a concatenation, and where each begins."""
    start: IndexLike = 0
    for part in joined.sources:
        yield part, start
        start = as_index(start) + part.shape[joined.attribute]


def part_of(x: Node, axis: int, start: IndexLike, size: IndexLike) -> Node:
    """A tensor from `start` on along an axis, so many elements of it."""
    spans: Sequence[tuple[IndexLike, IndexLike, int]] = [
        (start, size, 1) if k == axis else (0, whole, 1) for k, whole in enumerate(x.shape)
    ]
    return build.slice_(x, spans)


@family.rule((Op.REDUCE, Op.CONCAT), contract=Contract.REASSOCIATES)
def reduction_of_joined(node: Node, joined: Node) -> Node | None:
    """sum([a | b]) → sum(a) + sum(b), and so for other reductions: each part of a concatenation is reduced alone."""
    op, axes = node.attribute
    if joined.attribute not in axes or len(joined.sources) > 4:
        return None
    return reduce(lambda a, b: build.binary(op, a, b), (build.reduce(op, part, axes) for part in joined.sources))

"""Sums over the iterations of a loop, made after it of what all iterations have, stacked.

The gradient by the matrix of a recurrent network is a sum of products, one for each step. Added up step by step, the
whole matrix is read and written each time, and rounded in its own type.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from smelt.derive.moves import total, wide
from smelt.graph import Node, Op, build, with_sources


def factors(term: Node) -> list[Node]:
    """What has to be stacked for the sum of a term over all iterations: the factors of its products, or the summand."""
    if term.op is Op.CONTRACT:
        return list(term.sources)
    if _is_done_to_sums(term):
        return [factor for source in term.sources for factor in factors(source)]
    if term.op is Op.REDUCE and term.attribute.op == "add":
        return [_unrounded(term.sources[0])]
    return [term]


def summed(term: Node, stacked: Mapping[Node, Node]) -> Node:
    """The sum of a term over all iterations, from its factors stacked along a new first axis."""
    if term.op is Op.CONTRACT:
        (a, b), (left, right, out) = term.sources, term.attribute
        step = len(left) + len(right)  # a label that none of them has
        return build.contract(stacked[a], stacked[b], (step, *left), (step, *right), out, term.dtype)
    if _is_done_to_sums(term):
        return with_sources(term, tuple([summed(source, stacked) for source in term.sources]))
    if term.op is Op.REDUCE and term.attribute.op == "add":
        axes = (0, *(axis + 1 for axis in term.attribute.axes))
        return build.reduce("add", build.cast(stacked[_unrounded(term.sources[0])], term.dtype), axes)
    return total(stacked[term], (0,))


def _is_done_to_sums(term: Node) -> bool:
    """Whether a term adds or moves others, or is another one in a narrower type: that is better done to the sum."""
    if term.op is Op.CAST:
        return wide(term) is not term and wide(term).dtype is term.sources[0].dtype
    return term.op in (Op.PERMUTE, Op.RESHAPE) or (term.op is Op.BINARY and term.attribute == "add")


def _unrounded(x: Node) -> Node:
    """What was widened to be summed up: it is stored as it was."""
    return x.sources[0] if x.op is Op.CAST and x.sources[0].dtype.is_float else x


def _pays(factor: Node, constant: Node) -> bool:
    """Whether writing a factor at each iteration is less work than changing a sum of the size of a constant."""
    sizes = [[size for size in node.shape if isinstance(size, int)] for node in (factor, constant)]
    if len(sizes[0]) < factor.rank or len(sizes[1]) < constant.rank:
        return False
    return math.prod(sizes[0]) <= math.prod(sizes[1])


def afterwards(
    terms: Sequence[Node], there: Sequence[Node], unchanging: Sequence[Node], constants: Sequence[Node]
) -> tuple[list[int], list[Node]]:
    """Which terms of constants are summed up after the loop, and which of their factors it has to give out for that."""
    later, more = list[int](), list[Node]()
    needed = [list(dict.fromkeys(factors(term))) for term in terms]
    for k in sorted(range(len(terms)), key=lambda k: -len(needed[k])):  # sums may use what products have stacked
        if any(factor in unchanging for factor in needed[k]):
            continue
        new = [factor for factor in needed[k] if factor not in there and factor not in more]
        small = _elements([*more, *new]) <= _MOST_TIMES * _elements(there)
        if small and len(new) < len(needed[k]) and all(_pays(factor, constants[k]) for factor in new):
            later.append(k)
            more += new
    return later, more


_MOST_TIMES = 8  # as much memory as what is stacked anyway: a long loop must not need that of all its steps


def _elements(nodes: Sequence[Node]) -> int:
    return sum(math.prod(size for size in node.shape if isinstance(size, int)) for node in nodes)

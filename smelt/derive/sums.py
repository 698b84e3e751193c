"""Sums over the iterations of a loop that are one product of what all iterations have, stacked.

The gradient by the matrix of a recurrent network is a sum of products, one for each step. Added up step by step, the
whole matrix is read and written each time, and rounded in its own type.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from smelt.graph import build
from smelt.graph.node import Node
from smelt.graph.ops import Op


def factors(term: Node) -> list[Node] | None:
    """The factors of the products that a term of an iteration is a sum of; None if it is something else."""
    if term.op is Op.CONTRACT:
        return list(term.sources)
    if term.op is Op.PERMUTE or (term.op is Op.CAST and term.sources[0].dtype.is_float):
        return factors(term.sources[0])
    if term.op is Op.BINARY and term.attribute == "add":
        left, right = (factors(source) for source in term.sources)
        return None if left is None or right is None else left + right
    return None


def summed(term: Node, stacked: Mapping[Node, Node]) -> Node:
    """The sum of a term over all iterations, from its factors stacked along a new first axis."""
    if term.op is Op.CONTRACT:
        (a, b), (left, right, out) = term.sources, term.attribute
        step = len(left) + len(right)  # a label that none of them has
        return build.contract(stacked[a], stacked[b], (step, *left), (step, *right), out, term.dtype)
    if term.op is Op.PERMUTE:
        return build.permute(summed(term.sources[0], stacked), term.attribute)
    if term.op is Op.CAST:
        return build.cast(summed(term.sources[0], stacked), term.dtype)
    return build.add(*(summed(source, stacked) for source in term.sources))


def pays(factor: Node, constant: Node) -> bool:
    """Whether writing a factor at each iteration is less work than changing a sum of the size of a constant."""
    sizes = [size for node in (factor, constant) for size in node.shape]
    if not all(isinstance(size, int) for size in sizes):
        return False
    return count(factor) <= count(constant)


def count(node: Node) -> int:
    """How many elements a node of constant sizes has; none if they are not known."""
    return math.prod(size for size in node.shape if isinstance(size, int))

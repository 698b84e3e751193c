"""What rules ask about nodes: is this op to be looked through, is it a constant, which axes are repeated."""

from __future__ import annotations

from collections.abc import Container, Iterable
from functools import lru_cache
from math import copysign

from smelt.dtypes import DType, Scalar
from smelt.graph import Node, Op, Shape, build, constant_bytes, constant_of


def is_op(node: Node, op: Op) -> bool:
    """True if the node has this op and may be looked through: a computed value is read, not taken apart."""
    return node.op is op and node.leaf is None


def is_function(node: Node, op: Op, name: str) -> bool:
    """True for an UNARY or BINARY node with this function that may be looked through."""
    return node.op is op and node.attribute == name and node.leaf is None


@lru_cache(maxsize=1024)
def _bits(value: Scalar, sign: float, dtype: DType) -> bytes:
    return constant_bytes(value, dtype)


def has_value(node: Node, value: Scalar) -> bool:
    """True if every element is this constant: compared by bits, so that 0.0 and -0.0 differ."""
    constant = constant_of(node)
    # To the cache -0.0 is 0.0, but for its sign.
    return constant is not None and bool(constant.attribute == _bits(value, copysign(1.0, value), constant.dtype))


def expanded_axes(node: Node) -> tuple[int, ...]:
    """The axes along which an EXPAND repeats its source; none for other nodes."""
    if node.op is not Op.EXPAND or node.leaf is not None:
        return ()
    sizes = node.sources[0].shape
    return tuple(axis for axis, size in enumerate(node.shape) if size != sizes[axis])


def commonly_expanded(nodes: Iterable[Node]) -> set[int]:
    """The axes along which each of some EXPANDs, of which there is one at least, repeats its source."""
    return set.intersection(*[set(expanded_axes(node)) for node in nodes])


def narrowed(node: Node, axes: Container[int]) -> Node:
    """An EXPAND that no longer repeats along these axes."""
    return build.expand(node.sources[0], tuple(1 if axis in axes else size for axis, size in enumerate(node.shape)))


def proper_axes(shape: Shape) -> tuple[int, ...]:
    """The axes whose size is not 1."""
    return tuple(axis for axis, size in enumerate(shape) if size != 1)


def only_ones_differ(a: Shape, b: Shape) -> bool:
    """True if the shapes are equal but for axes of size 1."""
    return [size for size in a if size != 1] == [size for size in b if size != 1]

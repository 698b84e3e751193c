"""Complex tensors: what trees, derivatives and powers have to know of them.

A complex tensor is a pair of float tensors (`graph/pairs.py`), which lie in memory one after the other. In trees it is
an inner node with these as children: `jit`, loops, derivatives and optimizers work on them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from smelt import tree
from smelt.graph import Node, build, pairs
from smelt.tensor.handle import register_complex, wrap


class Parts(NamedTuple):
    """What stands for a complex tensor in trees of anything but tensors."""

    real: Any
    imag: Any


def whole_power(base: Node, exponent: int) -> Node:
    """A number to a whole power by multiplying, which is exact where logarithms are not."""
    result: Node | None = None
    square, rest = base, abs(exponent)
    while rest:
        if rest & 1:
            result = square if result is None else build.mul(result, square)
        rest >>= 1
        square = build.mul(square, square) if rest else square
    result = build.const(1, base.dtype, base.shape) if result is None else result
    return build.reciprocal(result) if exponent < 0 else result


@functools.lru_cache(maxsize=1024)
def imaginary(structure: tree.Structure) -> tuple[bool, ...]:
    """For each leaf of a tree, whether it is an imaginary part."""
    if structure.kind is None:
        return (False,)
    if structure.kind is _kind:
        return (False, True)
    return tuple(flag for child in structure.children for flag in imaginary(child))


def conjugated(structure: tree.Structure, leaves: Sequence[Node]) -> list[Node]:
    """The leaves of a tree with the other sign for imaginary parts: between the slopes of pairs of floats and what
    derivatives of complex numbers are (those of JAX): the gradient of a real function is df/dx - i df/dy.
    """
    flags = imaginary(structure)
    return [build.neg(x) if is_part else x for x, is_part in zip(leaves, flags, strict=True)]


_kind: type[Any] | None = None


def prepare(tensor: type[Any]) -> type[Any]:
    """Make the class of complex tensors, below that of all tensors, and say what trees see of one."""

    class ComplexTensor(tensor):  # type: ignore[misc]
        """A tensor of complex numbers."""

        __slots__ = ()
        __qualname__ = "ComplexTensor"

    def flatten(x: Any) -> tuple[tuple[Any, Any], None]:
        first, second = pairs.parts(x._node)
        return (wrap(first), wrap(second)), None

    def unflatten(_: Any, children: list[Any]) -> Any:
        first, second = children
        if all(isinstance(child, tensor) and child.dtype.is_float for child in children):
            return wrap(pairs.paired(first._node, second._node))
        return Parts(first, second)

    names: Callable[[Any], list[str]] = lambda _: [".real", ".imag"]  # noqa: E731
    tree.register(ComplexTensor, flatten, unflatten, names=names)
    register_complex(ComplexTensor)
    global _kind
    _kind = ComplexTensor
    return ComplexTensor

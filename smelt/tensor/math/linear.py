"""Products of vectors, matrices and batches of matrices. 16-bit floats are summed in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from smelt.errors import ArgumentError
from smelt.graph import Node, build, normalized_axes, pairs
from smelt.tensor.arguments import integer, one_axis
from smelt.tensor.handle import common, node_of, wrap
from smelt.tensor.types import DT, K, M, N, Operand, R

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "dot",
    "matmul",
    "outer",
    "tensordot",
    "vecdot",
]


def _pair(x: Any, y: Any, name: str) -> tuple[Node, Node]:
    return common(node_of(x, name), node_of(y, name), name)


@overload
def matmul(x: Tensor[DT, *R, M, K], y: Tensor[DT, K, N]) -> Tensor[DT, *R, M, N]: ...
@overload
def matmul(x: Tensor[DT, *R, M, K], y: Tensor[DT, *R, K, N]) -> Tensor[DT, *R, M, N]: ...
@overload
def matmul(x: Tensor[DT, *R, M, K], y: Tensor[DT, K]) -> Tensor[DT, *R, M]: ...
@overload
def matmul(x: Tensor[DT, K], y: Tensor[DT, *R, K, N]) -> Tensor[DT, *R, N]: ...
@overload
def matmul(x: Tensor[DT, K], y: Tensor[DT, K]) -> Tensor[DT]: ...
def matmul(x: Any, y: Any) -> Any:
    """The matrix product by NumPy's rules: one axis is a vector, axes before the last two are a batch and broadcast."""
    a, b = _pair(x, y, "matmul")
    return wrap(build.matmul(a, b))


def vecdot(x: Tensor, y: Operand, axis: int = -1, *, dim: int | None = None) -> Tensor:
    """The sum of the products along an axis (the last one, unless given) of both; the other axes broadcast. Of complex
    numbers, x is conjugated.
    """
    a, b = _pair(x, y, "vecdot")
    a = pairs.conj(a)
    a, b = [_last(node, one_axis(axis, dim, node.rank, "vecdot", default=-1)) for node in (a, b)]
    product = build.matmul(
        build.reshape(a, (*a.shape[:-1], 1, a.shape[-1])), build.reshape(b, (*b.shape, 1)), name="vecdot"
    )
    return wrap(build.reshape(product, product.shape[:-2]))


def dot(x: Operand, y: Operand) -> Tensor:
    """NumPy's dot: the sum of products over the last axis of x and the last but one of y, or the last of a vector.

    Of vectors and matrices it is `matmul`, and with a number multiplication.

    >>> sm.dot(sm.asarray([1.0, 2.0]), sm.asarray([3.0, 4.0])).item()
    11.0
    """
    a, b = _pair(x, y, "dot")
    if not a.rank or not b.rank:
        return wrap(build.binary("mul", a, b, name="dot"))
    folded = a.rank + max(b.rank - 2, 0)  # the label of the axis of b that meets the last one of a
    labels = [a.rank - 1 if label == folded else label for label in range(a.rank, a.rank + b.rank)]
    out = [label for label in (*range(a.rank - 1), *labels) if label != a.rank - 1]
    return wrap(build.contract(a, b, tuple(range(a.rank)), tuple(labels), tuple(out), name="dot"))


def _last(node: Node, axis: int) -> Node:
    return build.permute(node, [a for a in range(node.rank) if a != axis] + [axis])


def outer(x: Tensor, y: Operand) -> Tensor:
    """Every element of a vector times every element of another."""
    a, b = _pair(x, y, "outer")
    if a.rank != 1 or b.rank != 1:
        raise ArgumentError(f"outer: ranks {a.rank} and {b.rank}", rule="both must be vectors.")
    return wrap(build.contract(a, b, (0,), (1,), (0, 1), name="outer"))


def tensordot(x: Tensor, y: Operand, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Products summed over the last `axes` axes of x and the first of y, or over a list of axes for each."""
    a, b = _pair(x, y, "tensordot")
    if isinstance(axes, Sequence):
        listed = all(isinstance(one, Sequence) for one in axes)
        if len(axes) != 2 or not listed or len(axes[0]) != len(axes[1]):
            raise ArgumentError(f"tensordot: axes must be a number or two lists of the same length, got {axes!r}")
        left, right = axes
    else:
        count = integer(axes, "tensordot", "axes")
        if not 0 <= count <= min(a.rank, b.rank):
            raise ArgumentError(f"tensordot: {count} axes for tensors of rank {a.rank} and {b.rank}")
        left, right = range(a.rank - count, a.rank), range(count)
    folded = normalized_axes(left, a.rank, "tensordot")
    matched = normalized_axes(right, b.rank, "tensordot")
    labels = list(range(a.rank, a.rank + b.rank))
    for mine, theirs in zip(folded, matched, strict=True):
        labels[theirs] = mine
    out = [axis for axis in range(a.rank) if axis not in folded] + [label for label in labels if label >= a.rank]
    return wrap(build.contract(a, b, tuple(range(a.rank)), tuple(labels), tuple(out), name="tensordot"))

"""Functions that combine each element with those before it along an axis, and differences, which undo sums.

Without an axis the tensor is flattened first, as NumPy does. Sums and products of integers narrower than 64 bits give
int64 or uint64; 16-bit floats are carried in float32 and rounded once. NaN stays from where it first appears.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smelt.dtypes import as_dtype
from smelt.errors import ArgumentError, AxisError, ShapeError
from smelt.graph import Index, Node, as_index, build, normalized_axis, product_of, shape_text, size_of
from smelt.tensor.arguments import axis_or_dim, flag, integer, one_axis
from smelt.tensor.handle import all_common, computed, floating, node_of, wrap
from smelt.tensor.math.reductions import sum_dtype
from smelt.tensor.types import DTypeLike, Size, TensorLike

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "logcumsumexp",
]


def cumsum(x: Tensor, axis: int | None = None, *, dtype: DTypeLike | None = None, dim: int | None = None) -> Tensor:
    """The sum of each element and all before it along the axis.

    >>> sm.cumsum(sm.asarray([1, 2, 3, 4])).tolist()
    [1, 3, 6, 10]
    """
    return _running("cumsum", "add", _counted(x, dtype, "cumsum"), axis, dim)


def cumprod(x: Tensor, axis: int | None = None, *, dtype: DTypeLike | None = None, dim: int | None = None) -> Tensor:
    """The product of each element and all before it along the axis.

    >>> sm.cumprod(sm.asarray([1, 2, 3, 4])).tolist()
    [1, 2, 6, 24]
    """
    return _running("cumprod", "mul", _counted(x, dtype, "cumprod"), axis, dim)


def cumulative_sum(
    x: Tensor, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Tensor:
    """`cumsum` as in the array API: with `include_initial` a zero comes first, and the axis is one longer.

    The axis may be left out for a tensor of rank 1 only.

    >>> sm.cumulative_sum(sm.asarray([1, 2, 3]), include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _cumulative("cumulative_sum", "add", _counted(x, dtype, "cumulative_sum"), axis, include_initial)


def cumulative_prod(
    x: Tensor, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Tensor:
    """`cumprod` as in the array API: with `include_initial` a one comes first, and the axis is one longer.

    The axis may be left out for a tensor of rank 1 only.

    >>> sm.cumulative_prod(sm.asarray([2, 3, 4]), include_initial=True).tolist()
    [1, 2, 6, 24]
    """
    return _cumulative("cumulative_prod", "mul", _counted(x, dtype, "cumulative_prod"), axis, include_initial)


def cummax(x: Tensor, axis: int | None = None, *, dim: int | None = None) -> Tensor:
    """The largest element so far along the axis.

    >>> sm.cummax(sm.asarray([2, 1, 5, 3])).tolist()
    [2, 2, 5, 5]
    """
    return _running("cummax", "max", node_of(x, "cummax"), axis, dim)


def cummin(x: Tensor, axis: int | None = None, *, dim: int | None = None) -> Tensor:
    """The smallest element so far along the axis.

    >>> sm.cummin(sm.asarray([2, 3, 1, 4])).tolist()
    [2, 2, 1, 1]
    """
    return _running("cummin", "min", node_of(x, "cummin"), axis, dim)


def logcumsumexp(x: Tensor, axis: int | None = None, *, dim: int | None = None) -> Tensor:
    """log(cumsum(exp(x))) along the axis, without overflow.

    >>> sm.logcumsumexp(sm.asarray([1000.0, -sm.inf])).tolist()
    [1000.0, 1000.0]
    """
    return _running("logcumsumexp", "logaddexp", floating(x, "logcumsumexp"), axis, dim)


def _counted(x: Any, dtype: DTypeLike | None, name: str) -> Node:
    node = node_of(x, name)
    return build.cast(node, sum_dtype(node.dtype) if dtype is None else as_dtype(dtype, name))


def _running(name: str, op: str, node: Node, axis: int | None, dim: int | None) -> Tensor:
    axis = axis_or_dim(axis, dim, name)
    if axis is None:
        node, axis = build.reshape(node, (product_of(node.shape),)), 0
    return wrap(build.scan(op, node, axis, name=name))


def _cumulative(name: str, op: str, node: Node, axis: int | None, include_initial: bool) -> Tensor:
    if axis is None and node.rank != 1:
        raise AxisError(
            f"{name}: shape {shape_text(node.shape)} needs an axis",
            rule="the axis may be left out for a tensor of rank 1 only.",
            hint=f"Give one, for example {name}(x, axis=-1).",
        )
    along = normalized_axis(0 if axis is None else axis, node.rank, name)
    result = build.scan(op, node, along, name=name)
    if flag(include_initial, name, "include_initial"):
        shape = (*node.shape[:along], 1, *node.shape[along + 1 :])
        result = build.concat([build.const(0 if op == "add" else 1, node.dtype, shape), result], along)
    return wrap(result)


def diff(
    x: Tensor,
    n: int = 1,
    axis: int = -1,
    *,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
    dim: int | None = None,
) -> Tensor:
    """Each element less the one before it along the axis (the last one, if not given), `n` times over.

    `prepend` and `append` are put before and after x first; a scalar stands for one element. Of bools, where they
    change.

    >>> sm.diff(sm.asarray([1, 4, 9, 16])).tolist()
    [3, 5, 7]
    """
    times = integer(n, "diff", "n")
    if times < 0:
        raise ArgumentError(f"diff: n must not be negative, got {times}")
    before = () if prepend is None else (prepend,)
    after = () if append is None else (append,)
    nodes = all_common([*before, x, *after], "diff")
    node = computed(nodes[len(before)], "diff")
    along = one_axis(axis, dim, node.rank, "diff", default=-1)
    if len(nodes) > 1:
        one = (*node.shape[:along], 1, *node.shape[along + 1 :])
        whole = [build.broadcast_to(part, one, name="diff") if part.rank == 0 else part for part in nodes]
        node = build.concat(whole, along, name="diff")
    for _ in range(times):
        if node.shape[along] == 0:  # and stays so
            break
        node = _difference(node, along)
    return wrap(node)


def _difference(node: Node, axis: int) -> Node:
    size = node.shape[axis]
    if isinstance(size, Index) and size.low < 1:
        raise ShapeError(
            f"diff: the size {size} of axis {axis} may be 0", rule="a symbolic axis must have at least one element."
        )
    less = size_of(as_index(size) - 1) if isinstance(size, Index) or size > 0 else 0
    spans: list[tuple[Size, Size, int]] = [(0, other, 1) for other in node.shape]
    spans[axis] = (0, less, 1)
    before = build.slice_(node, spans)
    spans[axis] = (1 if less != 0 else 0, less, 1)
    after = build.slice_(node, spans)
    return build.binary("xor", after, before) if node.dtype.is_bool else build.sub(after, before)

"""Norms of vectors: the elements along some axes taken together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from smelt import dtypes
from smelt.errors import ArgumentError
from smelt.graph import Node, build
from smelt.tensor.arguments import axis_or_dim, keep_axes, many_axes, real_number
from smelt.tensor.handle import floating, widened, wrap
from smelt.tensor.math.reductions import away_from_zero, refuse_empty
from smelt.tensor.types import Axes

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "norm",
    "vector_norm",
]


def vector_norm(
    x: Tensor,
    *,
    axis: Axes = None,
    keepdims: bool = False,
    ord: float = 2,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """(sum |x|**ord)**(1/ord) along the axes given, or of everything.

    ord: inf and -inf give the largest and the smallest |x|, 0 the number of elements other than 0.

    >>> sm.vector_norm(sm.asarray([3.0, 4.0])).item()
    5.0
    """
    return _norm("vector_norm", x, ord, axis, keep_axes(keepdims, keepdim, "vector_norm"), dim)


def norm(
    x: Tensor,
    ord: float = 2,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """`vector_norm` with arguments in the order of NumPy's and PyTorch's `norm`; a matrix counts as one long vector.

    >>> sm.norm(sm.asarray([[3.0, -4.0], [0.0, 1.0]]), sm.inf, axis=1).tolist()
    [4.0, 1.0]
    """
    return _norm("norm", x, ord, axis, keep_axes(keepdims, keepdim, "norm"), dim)


def _norm(name: str, x: Any, ord: Any, axis: Axes, keep: bool, dim: Axes) -> Tensor:
    if isinstance(ord, bool) or not isinstance(ord, int | float):
        raise ArgumentError(f"{name}: ord must be a number, got {ord!r}", hint="Use math.inf for the largest element.")
    if math.isnan(real_number(ord, name, "ord")):
        raise ArgumentError(f"{name}: ord must not be NaN")
    original = floating(x, name)
    if original.dtype.is_complex:
        original = build.unary("abs", original)
    axes = many_axes(axis_or_dim(axis, dim, name), original.rank, name)
    if math.isinf(ord):
        refuse_empty(original, axes, name)
    return wrap(build.cast(_folded(widened(original), float(ord), axes, keep), original.dtype))


def _folded(node: Node, p: float, axes: tuple[int, ...], keep: bool) -> Node:
    if p == 2:
        return away_from_zero(build.sqrt, build.reduce("add", build.mul(node, node), axes, keep_axes=keep))
    if p == 0:
        nonzero = build.cast(build.cast(node, dtypes.bool_), node.dtype)
        return build.reduce("add", nonzero, axes, keep_axes=keep)
    size = build.unary("abs", node)
    if math.isinf(p):
        return build.reduce("max" if p > 0 else "min", size, axes, keep_axes=keep)
    if p == 1:
        return build.reduce("add", size, axes, keep_axes=keep)
    if p < 0:
        return _power(build.reduce("add", _power(size, p), axes, keep_axes=keep), 1 / p)
    powers = away_from_zero(lambda x: _power(x, p), size) if p < 1 else _power(size, p)
    return away_from_zero(lambda x: _power(x, 1 / p), build.reduce("add", powers, axes, keep_axes=keep))


def _power(node: Node, exponent: float) -> Node:
    return build.binary("pow", node, build.const(exponent, node.dtype, node.shape))

"""Reductions that leave NaN out, as if those elements were not there. Where nothing is left, they give what their
relatives give for no elements at all; `nanmax` and `nanmin`, and means, give NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smelt.dtypes import DType, bool_, int64
from smelt.graph import Node, build
from smelt.tensor.arguments import keep_axes, real_number
from smelt.tensor.handle import computed, node_of, widened, wrap
from smelt.tensor.math.reductions import accumulated, corrected, fold_axes, folded, real, refuse_empty
from smelt.tensor.types import Axes, DTypeLike

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
]


def is_there(node: Node) -> Node:
    """True where there is a number."""
    if not node.dtype.is_float:
        return build.const(True, bool_, node.shape)
    return build.logical_not(build.unary("isnan", node))


def _or(node: Node, value: float) -> Node:
    """A value in the places of NaN."""
    if not node.dtype.is_float:
        return node
    return build.where(is_there(node), node, build.const(value, node.dtype))


def nansum(
    x: Tensor,
    axis: Axes = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """The sum of what is not NaN along the axes given, or of everything.

    >>> sm.nansum(sm.asarray([1.0, sm.nan, 3.0])).item()
    4.0
    """
    node = accumulated(_or(node_of(x, "nansum"), 0), dtype, "nansum")
    return folded("nansum", "add", node, axis, keep_axes(keepdims, keepdim, "nansum"), dim)


def nanprod(
    x: Tensor,
    axis: Axes = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """The product of what is not NaN along the axes given, or of everything.

    >>> sm.nanprod(sm.asarray([2.0, sm.nan, 3.0])).item()
    6.0
    """
    node = accumulated(_or(node_of(x, "nanprod"), 1), dtype, "nanprod")
    return folded("nanprod", "mul", node, axis, keep_axes(keepdims, keepdim, "nanprod"), dim)


def nanmax(x: Tensor, axis: Axes = None, *, keepdims: bool = False, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """The largest value that is not NaN along the axes given, or of everything.

    >>> sm.nanmax(sm.asarray([1.0, sm.nan, 3.0])).item()
    3.0
    """
    return _extreme("nanmax", "max", x, axis, keep_axes(keepdims, keepdim, "nanmax"), dim)


def nanmin(x: Tensor, axis: Axes = None, *, keepdims: bool = False, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """The smallest value that is not NaN along the axes given, or of everything.

    >>> sm.nanmin(sm.asarray([1.0, sm.nan, 3.0])).item()
    1.0
    """
    return _extreme("nanmin", "min", x, axis, keep_axes(keepdims, keepdim, "nanmin"), dim)


def _extreme(name: str, op: str, x: Any, axis: Any, keep: bool, dim: Any) -> Tensor:
    node = computed(node_of(x, name), name)
    axes = fold_axes(node, axis, dim, name)
    refuse_empty(node, axes, name)
    found = build.reduce(op, _or(node, float("-inf" if op == "max" else "inf")), axes, keep_axes=keep, name=name)
    if not node.dtype.is_float:
        return wrap(found)
    some = build.reduce("max", is_there(node), axes, keep_axes=keep)
    return wrap(build.where(some, found, build.const(float("nan"), node.dtype)))


def nanmean(
    x: Tensor,
    axis: Axes = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """The mean of what is not NaN along the axes given, or of everything.

    >>> sm.nanmean(sm.asarray([1.0, sm.nan, 3.0])).item()
    2.0
    """
    node = real(x, dtype, "nanmean")
    axes = fold_axes(node, axis, dim, "nanmean")
    keep = keep_axes(keepdims, keepdim, "nanmean")
    return wrap(build.cast(_mean(widened(node), axes, keep), node.dtype))


def nanvar(
    x: Tensor,
    axis: Axes = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """The variance of what is not NaN: see `var`.

    >>> sm.nanvar(sm.asarray([1.0, sm.nan, 3.0])).item()
    1.0
    """
    dtype, variance = _variance("nanvar", x, axis, correction, keep_axes(keepdims, keepdim, "nanvar"), dim)
    return wrap(build.cast(variance, dtype))


def nanstd(
    x: Tensor,
    axis: Axes = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """The standard deviation of what is not NaN: the square root of `nanvar`.

    >>> sm.nanstd(sm.asarray([1.0, sm.nan, 5.0])).item()
    2.0
    """
    dtype, variance = _variance("nanstd", x, axis, correction, keep_axes(keepdims, keepdim, "nanstd"), dim)
    return wrap(build.cast(build.sqrt(variance), dtype))


def _count(node: Node, axes: tuple[int, ...], keep: bool) -> Node:
    return build.cast(build.reduce("add", build.cast(is_there(node), int64), axes, keep_axes=keep), node.dtype)


def _mean(node: Node, axes: tuple[int, ...], keep: bool) -> Node:
    return build.div(build.reduce("add", _or(node, 0), axes, keep_axes=keep), _count(node, axes, keep))


def _variance(name: str, x: Any, axis: Any, correction: Any, keep: bool, dim: Any) -> tuple[DType, Node]:
    """The dtype of the result, and the variance in the type that formulas are computed in."""
    given = real(x, None, name)
    axes = fold_axes(given, axis, dim, name)
    less = real_number(correction, name, "correction")
    node = widened(given)
    distance = build.sub(_or(node, 0), _mean(node, axes, keep=True))
    squares = build.where(is_there(node), build.mul(distance, distance), build.const(0, node.dtype))
    total = build.reduce("add", squares, axes, keep_axes=keep)
    return given.dtype, build.div(total, corrected(_count(node, axes, keep), less))

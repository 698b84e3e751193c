"""Values at given ranks: medians and quantiles, which sort along the axes that they fold.

Between two elements the value is taken on the line through them, as NumPy does by default. NaN anywhere gives NaN, but
for the functions that leave it out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from smelt.dtypes import float64, int64
from smelt.errors import ArgumentError, ShapeError
from smelt.graph import Index, Node, build, product_of
from smelt.tensor.arguments import axis_or_dim, keep_axes, many_axes
from smelt.tensor.handle import floating, widened, wrap
from smelt.tensor.math.nans import is_there
from smelt.tensor.math.reductions import refuse_empty
from smelt.tensor.types import Axes, Size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.tensor.tensor import Tensor

__all__ = [
    "median",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
    "percentile",
    "quantile",
]

Shares = Union[float, Sequence[float], "NDArray[Any]"]
Between = Callable[[Node, Node, Node], Node]  # of two neighbors and the share of the way


def median(x: Tensor, axis: Axes = None, *, keepdims: bool = False, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """The middle value along the axes given, or of everything; of an even number, the mean of the middle two.

    >>> sm.median(sm.asarray([7.0, 1.0, 3.0, 2.0])).item()
    2.5
    """
    at, keep = partial(_at, between=_mean), keep_axes(keepdims, keepdim, "median")
    return _quantiles("median", x, 0.5, 1, axis, dim, keep, at)


def quantile(
    x: Tensor,
    q: Shares,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """The value below which a share q of the elements lies, along the axes given, or of everything.

    Several shares give a first axis of as many.

    >>> sm.quantile(sm.asarray([1.0, 2.0, 3.0, 4.0, 5.0]), [0.0, 0.25, 0.9]).tolist()
    [1.0, 2.0, 4.599999904632568]
    """
    return _quantiles("quantile", x, q, 1, axis, dim, keep_axes(keepdims, keepdim, "quantile"), _at)


def percentile(
    x: Tensor,
    q: Shares,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """`quantile` of shares from 0 to 100.

    >>> sm.percentile(sm.asarray([1.0, 2.0, 3.0, 4.0, 5.0]), 25).item()
    2.0
    """
    return _quantiles("percentile", x, q, 100, axis, dim, keep_axes(keepdims, keepdim, "percentile"), _at)


def nanmedian(
    x: Tensor, axis: Axes = None, *, keepdims: bool = False, dim: Axes = None, keepdim: bool = False
) -> Tensor:
    """The `median` of what is not NaN.

    >>> sm.nanmedian(sm.asarray([7.0, sm.nan, 3.0, 2.0])).item()
    3.0
    """
    at, keep = partial(_at_present, between=_mean), keep_axes(keepdims, keepdim, "nanmedian")
    return _quantiles("nanmedian", x, 0.5, 1, axis, dim, keep, at)


def nanquantile(
    x: Tensor,
    q: Shares,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """The `quantile` of what is not NaN.

    >>> sm.nanquantile(sm.asarray([1.0, sm.nan, 3.0]), 0.5).item()
    2.0
    """
    return _quantiles("nanquantile", x, q, 1, axis, dim, keep_axes(keepdims, keepdim, "nanquantile"), _at_present)


def nanpercentile(
    x: Tensor,
    q: Shares,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """The `percentile` of what is not NaN.

    >>> sm.nanpercentile(sm.asarray([1.0, sm.nan, 3.0]), 50).item()
    2.0
    """
    keep = keep_axes(keepdims, keepdim, "nanpercentile")
    return _quantiles("nanpercentile", x, q, 100, axis, dim, keep, _at_present)


def _quantiles(
    name: str, x: Any, q: Any, whole: int, axis: Axes, dim: Axes, keep: bool, at: Callable[[Node, float], Node]
) -> Tensor:
    """The values at shares, of which `whole` is all; `at` gives those of sorted rows."""
    if isinstance(q, np.ndarray):
        q = q.tolist()
    several = isinstance(q, list | tuple)
    shares = [_share(share, whole, name) for share in (q if several else [q])]
    original, axes, rows = _sorted(name, x, axis, dim)
    found = [_shaped(original, at(rows, share), axes, keep) for share in shares]
    if not several:
        return wrap(found[0])
    if not found:
        raise ArgumentError(f"{name}: there are no shares to find", hint="Give a number or a list of numbers.")
    return wrap(build.concat([build.reshape(node, (1, *node.shape)) for node in found], 0))


def _share(value: Any, whole: int, name: str) -> float:
    if isinstance(value, np.number):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArgumentError(f"{name}: a share must be a number, got {value!r:.80}", hint="Give Python numbers.")
    if not 0 <= value <= whole:
        raise ArgumentError(f"{name}: a share must lie between 0 and {whole}, got {value}")
    return value / whole


def _sorted(name: str, x: Any, axis: Axes, dim: Axes) -> tuple[Node, tuple[int, ...], Node]:
    """The argument, the axes to fold, and rows of their elements in order, along the last axis."""
    original = floating(x, name)
    axes = many_axes(axis_or_dim(axis, dim, name), original.rank, name)
    refuse_empty(original, axes, name)
    size = product_of(original.shape[axis] for axis in axes)
    if isinstance(size, Index):
        raise ShapeError(f"{name}: {size} elements, a symbolic size", rule="the size must be known beforehand.")
    kept = [axis for axis in range(original.rank) if axis not in axes]
    together = build.permute(original, (*kept, *sorted(axes)))
    rows = build.reshape(together, (*(original.shape[axis] for axis in kept), size))
    return original, axes, build.sort(rows, -1, name=name)


def _between(a: Node, b: Node, share: Node) -> Node:
    """The value at a share of the way from a to b."""
    distance = build.sub(b, a)
    rest = build.sub(build.const(1, a.dtype), share)
    # From the nearer one, as NumPy does it: an infinite neighbor then stays infinite.
    near = build.lt(share, build.const(0.5, a.dtype))
    value = build.where(near, build.add(a, build.mul(distance, share)), build.sub(b, build.mul(distance, rest)))
    return build.where(build.eq(a, b), a, value)  # equal infinities have no difference


def _mean(a: Node, b: Node, share: Node) -> Node:
    """The value in the middle: infinite where one of them is, and never beyond them."""
    half = build.const(0.5, a.dtype)
    return build.add(build.mul(a, half), build.mul(b, half))


def _at(rows: Node, share: float, between: Between = _between) -> Node:
    """The value at a share of each row, in the type that formulas are computed in."""
    size = rows.shape[-1]
    assert isinstance(size, int)
    place = share * (size - 1)
    low = min(math.floor(place), size - 1)
    a, b = _element(rows, low), _element(rows, min(low + 1, size - 1))
    value = between(a, b, build.const(place - low, a.dtype)) if place > low else a
    last = _element(rows, size - 1)  # NaN is sorted behind everything else
    return build.where(build.unary("isnan", last), last, value)


def _at_present(rows: Node, share: float, between: Between = _between) -> Node:
    """The value at a share of what is not NaN in each row: of all of it, if it is all there; NaN where nothing is."""
    count = build.reduce("add", build.cast(is_there(rows), int64), (rows.rank - 1,))
    one, none = build.const(1, int64, count.shape), build.const(0, int64, count.shape)
    last = build.maximum(build.sub(count, one), none)
    place = build.mul(build.cast(last, float64), build.const(share, float64, count.shape))
    low = build.cast(build.unary("floor", place), int64)
    a, b = _chosen(rows, low), _chosen(rows, build.minimum(build.add(low, one), last))
    share_of_b = build.cast(build.sub(place, build.cast(low, float64)), a.dtype)
    return build.where(build.eq(share_of_b, build.const(0, a.dtype)), a, between(a, b, share_of_b))


def _chosen(rows: Node, place: Node) -> Node:
    """One element of each row."""
    axes = (*range(rows.rank - 1), -1)
    return widened(build.gather(rows, [place], axes, place.shape))


def _element(rows: Node, place: int) -> Node:
    spans: list[tuple[Size, Size, int]] = [(0, size, 1) for size in rows.shape[:-1]]
    return widened(build.reshape(build.slice_(rows, [*spans, (place, 1, 1)]), rows.shape[:-1]))


def _shaped(original: Node, value: Node, axes: tuple[int, ...], keep: bool) -> Node:
    if keep:
        value = build.reshape(value, tuple(1 if a in axes else size for a, size in enumerate(original.shape)))
    return build.cast(value, original.dtype)

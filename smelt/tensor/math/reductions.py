"""Functions that fold axes away. `dim` and `keepdim` are PyTorch's words for `axis` and `keepdims`.

Sums and products of integers narrower than 64 bits give int64 or uint64; means and variances of integers give
float32. 16-bit floats are summed in float32. What a fold over no elements gives: 0 for sum, 1 for prod, False for
any, True for all, NaN for mean; max, min, argmax and argmin refuse.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload
from typing import Literal as L

from smelt import dtypes
from smelt.dtypes import DType, as_dtype
from smelt.errors import DTypeError, ShapeError
from smelt.graph import Index, Node, build, normalized_axis, pairs, product_of, shape_text
from smelt.tensor.arguments import axis_or_dim, keep_axes, many_axes, real_number
from smelt.tensor.handle import computed, floating, node_of, widened, wrap
from smelt.tensor.types import DT, A, Axes, B, DTypeLike, R, S

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "logsumexp",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]


def fold_axes(node: Node, axis: Any, dim: Any, name: str) -> tuple[int, ...]:
    """The axes that a function folds."""
    return many_axes(axis_or_dim(axis, dim, name), len(node.shape), name)


def folded(name: str, op: str, node: Node, axis: Any, keep: bool, dim: Any) -> Tensor:
    """The axes given folded by an op."""
    return wrap(build.reduce(op, node, fold_axes(node, axis, dim, name), keep_axes=keep, name=name))


@overload
def sum(x: Tensor[DT, *S]) -> Tensor[DT]: ...
@overload
def sum(x: Tensor[DT, A, *R], axis: L[0]) -> Tensor[DT, *R]: ...
@overload
def sum(x: Tensor[DT, *R, A], axis: L[-1]) -> Tensor[DT, *R]: ...
@overload
def sum(x: Tensor[DT, A, B, *R], axis: L[1]) -> Tensor[DT, A, *R]: ...
@overload
def sum(
    x: Tensor[DT, *S],
    axis: Axes = ...,
    *,
    dtype: DTypeLike | None = ...,
    keepdims: bool = ...,
    dim: Axes = ...,
    keepdim: bool = ...,
) -> Tensor: ...
def sum(
    x: Any,
    axis: Axes = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool = False,
) -> Any:
    """The sum along the axes given, or of everything.

    >>> sm.sum(sm.asarray([[1, 2], [3, 4]]), axis=0).tolist()
    [4, 6]
    """
    node = accumulated(node_of(x, "sum"), dtype, "sum")
    return folded("sum", "add", node, axis, keep_axes(keepdims, keepdim, "sum"), dim)


def prod(
    x: Tensor,
    axis: Axes = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """The product along the axes given, or of everything.

    >>> sm.prod(sm.asarray([2.0, 3.0, 4.0])).item()
    24.0
    """
    node = accumulated(node_of(x, "prod"), dtype, "prod")
    return folded("prod", "mul", node, axis, keep_axes(keepdims, keepdim, "prod"), dim)


def accumulated(node: Node, dtype: DTypeLike | None, name: str) -> Node:
    """A node in the dtype in which its sums and products are taken."""
    if dtype is not None:
        return build.cast(node, as_dtype(dtype, name))
    return build.cast(node, sum_dtype(node.dtype))


def sum_dtype(dtype: DType) -> DType:
    """In which dtype sums and products are taken, if none is asked for."""
    if dtype.is_inexact or dtype in dtypes.STORAGE:
        return dtype
    return dtypes.uint64 if dtype.is_integer and not dtype.is_signed else dtypes.int64


def max(x: Tensor, axis: Axes = None, *, keepdims: bool = False, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """The largest value along the axes given, or of everything; NaN if there is one.

    >>> sm.max(sm.asarray([[1, 5], [7, 2]]), axis=1).tolist()
    [5, 7]
    """
    return _extreme("max", x, axis, keep_axes(keepdims, keepdim, "max"), dim)


def min(x: Tensor, axis: Axes = None, *, keepdims: bool = False, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """The smallest value along the axes given, or of everything; NaN if there is one.

    >>> sm.min(sm.asarray([[1, 5], [7, 2]]), axis=1).tolist()
    [1, 2]
    """
    return _extreme("min", x, axis, keep_axes(keepdims, keepdim, "min"), dim)


def _extreme(name: str, x: Any, axis: Axes, keep: bool, dim: Axes) -> Tensor:
    node = node_of(x, name)
    axes = fold_axes(node, axis, dim, name)
    refuse_empty(node, axes, name)
    return wrap(build.reduce(name, node, axes, keep_axes=keep, name=name))


def refuse_empty(node: Node, axes: tuple[int, ...], name: str) -> None:
    """Axes without elements have no largest or smallest one."""
    if 0 in [node.shape[axis] for axis in axes]:
        raise ShapeError(
            f"{name}: there are no elements along the axes to fold, in shape {shape_text(node.shape)}",
            rule=f"the {name} of nothing is not defined.",
        )
    for size in [node.shape[axis] for axis in axes]:
        if isinstance(size, Index) and size.low == 0:
            raise ShapeError(
                f"{name}: there may be no elements along the axes to fold, in shape {shape_text(node.shape)}",
                rule=f"{size} may be 0, and the {name} of nothing is not defined.",
                hint="Let the dim begin with 1.",
            )


def any(x: Tensor, axis: Axes = None, *, keepdims: bool = False, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """True where at least one element along the axes is nonzero."""
    return _verdict("any", "max", x, axis, keep_axes(keepdims, keepdim, "any"), dim)


def all(x: Tensor, axis: Axes = None, *, keepdims: bool = False, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """True where every element along the axes is nonzero."""
    return _verdict("all", "min", x, axis, keep_axes(keepdims, keepdim, "all"), dim)


def _verdict(name: str, op: str, x: Any, axis: Axes, keep: bool, dim: Axes) -> Tensor:
    node = build.cast(node_of(x, name), dtypes.bool_)
    return folded(name, op, node, axis, keep, dim)


def count_nonzero(
    x: Tensor, axis: Axes = None, *, keepdims: bool = False, dim: Axes = None, keepdim: bool = False
) -> Tensor:
    """How many elements along the axes are nonzero, as int64.

    >>> sm.count_nonzero(sm.asarray([0, 3, 0, 4])).item()
    2
    """
    node = build.cast(build.cast(node_of(x, "count_nonzero"), dtypes.bool_), dtypes.int64)
    return folded("count_nonzero", "add", node, axis, keep_axes(keepdims, keepdim, "count_nonzero"), dim)


def mean(
    x: Tensor,
    axis: Axes = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """The arithmetic mean along the axes given, or of everything.

    >>> sm.mean(sm.asarray([1.0, 2.0, 6.0])).item()
    3.0
    """
    node = real(x, dtype, "mean")
    axes = fold_axes(node, axis, dim, "mean")
    return wrap(build.cast(_mean(_wide(x, node), axes, keep_axes(keepdims, keepdim, "mean")), node.dtype))


def var(
    x: Tensor,
    axis: Axes = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """The variance: the sum of squared distances from the mean, divided by the number of elements less `correction`.

    It is NaN where that divisor is not positive.

    >>> float(sm.var(sm.asarray([1.0, 2.0, 3.0]), correction=1))
    1.0
    """
    node, variance = _variance("var", x, axis, correction, keep_axes(keepdims, keepdim, "var"), dim)
    return wrap(build.cast(variance, node.dtype.part))


def std(
    x: Tensor,
    axis: Axes = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """The standard deviation: the square root of `var`.

    >>> sm.std(sm.asarray([1.0, 3.0])).item()
    1.0
    """
    node, variance = _variance("std", x, axis, correction, keep_axes(keepdims, keepdim, "std"), dim)
    return wrap(build.cast(away_from_zero(build.sqrt, variance), node.dtype.part))


def away_from_zero(function: Callable[[Node], Node], node: Node) -> Node:
    """A root, whose slope at 0 is infinite: it gives 0 there and counts as flat, so that norms and deviations of
    nothing have gradients of zeros.
    """
    zero = build.eq(node, build.const(0, node.dtype))
    inner = function(build.where(zero, build.const(1, node.dtype), node))
    return build.where(zero, build.const(0, node.dtype), inner)


def real(x: Any, dtype: DTypeLike | None, name: str) -> Node:
    """The argument of a mean: in the dtype asked for, which must be a float, or complex."""
    if dtype is None:
        return floating(x, name)
    wanted = as_dtype(dtype, name)
    if not wanted.is_inexact:
        raise DTypeError(f"{name}: the dtype must be a float, got {wanted}")
    return build.cast(node_of(x, name), wanted)


def _wide(x: Any, node: Node) -> Node:
    """The argument of a mean in the type that formulas are computed in: float64 for integers that float32 cannot hold,
    whose distances may be small all the same.
    """
    given = node_of(x, "mean")
    is_large = given.dtype.is_integer and given.dtype.itemsize > 2 and node.dtype is dtypes.float32
    return build.cast(given, dtypes.float64) if is_large else widened(node)


def _count(node: Node, axes: tuple[int, ...]) -> Node:
    return build.size_node(product_of(node.shape[axis] for axis in axes), node.dtype)


def _mean(node: Node, axes: tuple[int, ...], keep: bool) -> Node:
    return build.div(build.reduce("add", node, axes, keep_axes=keep), _count(node, axes))


def _variance(name: str, x: Any, axis: Any, correction: Any, keep: bool, dim: Any) -> tuple[Node, Node]:
    """The argument, and its variance in the type that formulas are computed in."""
    given = real(x, None, name)
    axes = fold_axes(given, axis, dim, name)
    less = real_number(correction, name, "correction")
    node = _wide(x, given)
    centered = build.sub(node, _mean(node, axes, keep=True))
    squares = [build.mul(part, part) for part in (pairs.parts(centered) if node.dtype.is_complex else (centered,))]
    total = build.reduce("add", functools.reduce(build.add, squares), axes, keep_axes=keep)
    return given, build.div(total, corrected(_count(squares[0], axes), less))


def corrected(count: Node, less: float) -> Node:
    """What the squares of a variance are divided by: NaN where that is not positive."""
    if not less:
        return count
    count = build.shift(count, -less)
    enough = build.lt(build.const(0, count.dtype), count)
    return build.where(enough, count, build.const(float("nan"), count.dtype))


def logsumexp(
    x: Tensor, axis: Axes = None, *, keepdims: bool = False, dim: Axes = None, keepdim: bool = False
) -> Tensor:
    """log(sum(exp(x))) along the axes given, or of everything, without overflow.

    >>> sm.logsumexp(sm.asarray([1000.0, 1000.0])).item()
    1000.6931762695312
    """
    original = floating(x, "logsumexp")
    axes = fold_axes(original, axis, dim, "logsumexp")
    node = widened(original)
    largest = build.reduce("max", node, axes, keep_axes=True, name="logsumexp")
    # An infinite largest value must not be subtracted from itself.
    finite = build.lt(build.unary("abs", largest), build.const(float("inf"), node.dtype))
    offset = build.where(finite, largest, build.const(0, node.dtype))
    total = build.reduce("add", build.exp(build.sub(node, offset)), axes, keep_axes=True)
    result = build.add(build.log(total), offset)
    if not keep_axes(keepdims, keepdim, "logsumexp"):
        result = build.reshape(result, tuple(s for a, s in enumerate(result.shape) if a not in axes))
    return wrap(build.cast(result, original.dtype))


def argmax(
    x: Tensor,
    axis: int | None = None,
    *,
    keepdims: bool = False,
    dim: int | None = None,
    keepdim: bool = False,
) -> Tensor:
    """Where the largest value is (the first of them; the first NaN, if there is one), as int64.

    >>> sm.argmax(sm.asarray([3, 9, 9, 1])).item()
    1
    """
    return _position("argmax", "max", x, axis, keep_axes(keepdims, keepdim, "argmax"), dim)


def argmin(
    x: Tensor,
    axis: int | None = None,
    *,
    keepdims: bool = False,
    dim: int | None = None,
    keepdim: bool = False,
) -> Tensor:
    """Where the smallest value is (the first of them; the first NaN, if there is one), as int64.

    >>> sm.argmin(sm.asarray([3, 9, 9, 1])).item()
    3
    """
    return _position("argmin", "min", x, axis, keep_axes(keepdims, keepdim, "argmin"), dim)


def _position(name: str, op: str, x: Any, axis: int | None, keep: bool, dim: int | None) -> Tensor:
    node = computed(node_of(x, name), name)
    axis = axis_or_dim(axis, dim, name)
    rank = len(node.shape)
    if axis is None:
        node = build.reshape(node, (product_of(node.shape),))
    along = 0 if axis is None else normalized_axis(axis, rank, name)
    refuse_empty(node, (along,), name)
    extreme = build.reduce(op, node, (along,), keep_axes=True, name=name)
    result = build.cast(_first_equal(node, extreme, along), dtypes.int64)
    if not keep:
        return wrap(result)
    shape = (*node.shape[:along], 1, *node.shape[along + 1 :])
    return wrap(build.reshape(result, (1,) * rank if axis is None else shape))


def _first_equal(node: Node, extreme: Node, along: int) -> Node:
    """Where along an axis the first element is that equals the extreme value, or is NaN."""
    size = node.shape[along]
    found = build.eq(node, extreme)
    if node.dtype.is_float:
        found = build.binary("or", found, build.unary("isnan", node))
    # Narrow positions make for more of them in a vector.
    dtype = dtypes.int32 if isinstance(size, int) and size <= dtypes.int32.maximum else dtypes.int64
    places = build.reshape(build.iota(size, dtype), (size,) + (1,) * (node.rank - along - 1))
    nowhere = build.const(dtype.maximum, dtype)
    return build.reduce("min", build.where(found, places, nowhere), (along,))

"""Pooling: one operator, `pool`, and the names under which its cases are known.

Windows are a view of the padded input, so a pooling is one reduction kernel that reads the input in place. The last
axes are pooled; all before them are a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from smelt import dtypes
from smelt.errors import ArgumentError, ShapeError
from smelt.graph import Node, as_index, build, identity, shape_text, size_of
from smelt.tensor.arguments import flag, real_number
from smelt.tensor.handle import floating, node_of, widened, wrap
from smelt.tensor.types import Size
from smelt.tensor.windows.places import Widths, fitted, for_each, known_size, paddings, windowed

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "pool",
]

Numbers = int | Sequence[int]
Padding = int | Sequence[int] | Sequence[tuple[int, int]]
Fold = Callable[[Any, tuple[int, ...]], Any]

FOLDS = {"max": "max", "min": "min", "sum": "add", "prod": "mul"}


def pool(
    x: Tensor,
    function: str | Fold,
    window: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """A function of the windows along the last axes of x: "max", "min", "sum", "prod", "mean", or one of your own.

    There are as many axes as numbers in `window`. Windows begin `stride` apart (their own size, unless given). Padding
    is what the function ignores: -inf for "max", 0 for "sum". "mean" divides by the size of the window. A function of
    your own gets the windows and the axes to fold, and sees zeros. With `ceil_mode`, a last window may reach over the
    end if it begins inside.

    >>> import smelt as sm
    >>> sm.pool(sm.arange(6), "max", 2).tolist()
    [1, 3, 5]
    >>> sm.pool(sm.arange(4.0), lambda x, axes: x.std(axes), 2, stride=1).tolist()
    [0.5, 0.5, 0.5]
    """
    count = len(window) if isinstance(window, Sequence) else 1
    return wrap(pooled(node_of(x, "pool"), function, window, stride, padding, dilation, ceil_mode, count, "pool"))


def pooled(
    node: Node,
    function: str | Fold,
    window: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    count: int,
    name: str,
) -> Node:
    """`pool` of a node over its last `count` axes."""
    known = (*FOLDS, "mean")
    if function not in known if isinstance(function, str) else not callable(function):
        raise ArgumentError(
            f"{name}: there is no pooling called {function!r}", hint=f"Use one of: {', '.join(known)}; or a function."
        )
    sizes, steps, gaps, widths = _arguments(node, window, stride, padding, dilation, count, name)
    first = node.rank - count
    if function == "mean":
        node = widened(floating(wrap(node), name))
    op = FOLDS.get(function, "add") if isinstance(function, str) else "add"
    fill = build.const(ignored(op, node), node.dtype)
    more = _overhang(node, sizes, steps, gaps, widths) if flag(ceil_mode, name, "ceil_mode") else [0] * count
    grown = [(low, high + extra) for (low, high), extra in zip(widths, more, strict=True)]
    windows = windowed(fitted(node, first, grown, fill), first, sizes, steps, gaps, name)
    axes = tuple(range(node.rank, node.rank + count))
    if not isinstance(function, str):
        return node_of(function(wrap(windows), axes), name)
    result = build.reduce(op, windows, axes, name=name)
    return build.div(result, build.const(math.prod(sizes), result.dtype)) if function == "mean" else result


def ignored(op: str, node: Node) -> Any:
    """What a fold of elements of a node does not notice."""
    if node.dtype.is_bool:
        return op == "min"
    return identity(op, node.dtype)


def _arguments(
    node: Node, window: Any, stride: Any, padding: Any, dilation: Any, count: int, name: str
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[Widths, ...]]:
    """Window, stride, dilation and padding of each axis."""
    if node.rank < count:
        raise ShapeError(f"{name}: shape {shape_text(node.shape)} has fewer axes than the {count} of the window")
    sizes = for_each(window, count, name, "the window")
    steps = sizes if stride is None else for_each(stride, count, name, "stride")
    gaps, widths = for_each(dilation, count, name, "dilation"), paddings(padding, count, name)
    for size, gap, pair in zip(sizes, gaps, widths, strict=True):
        if max(pair) > (size - 1) * gap:
            raise ArgumentError(
                f"{name}: padding {max(pair)} is wider than a window of {size}",
                rule="a window must reach into the input.",
            )
    return sizes, steps, gaps, widths


def _overhang(
    node: Node, sizes: Sequence[int], steps: Sequence[int], gaps: Sequence[int], widths: Sequence[Widths]
) -> list[int]:
    """How far the last windows reach over the padded end if the number of windows is rounded up."""
    found = []
    first = node.rank - len(sizes)
    for axis, (size, step, gap, (low, high)) in enumerate(zip(sizes, steps, gaps, widths, strict=True), first):
        extent = known_size(node, axis, "pool with ceil_mode")
        reach = (size - 1) * gap + 1
        number = -(-(extent + low + high - reach) // step) + 1
        if (number - 1) * step >= extent + low:  # it would begin in the padding
            number -= 1
        found.append(max(0, (number - 1) * step + reach - extent - low - high))
    return found


# --- maximum


def max_pool1d(
    x: Tensor,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest value of each window along the last axis.

    >>> import smelt as sm
    >>> sm.max_pool1d(sm.asarray([[3.0, 1.0, 4.0, 1.0, 5.0]]), 2).tolist()
    [[3.0, 4.0]]
    """
    return _named_pool("max_pool1d", 1, "max", x, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    x: Tensor,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest value of each window along the last two axes.

    >>> import smelt as sm
    >>> sm.max_pool2d(sm.arange(16).reshape(1, 4, 4), 2).tolist()
    [[[5, 7], [13, 15]]]
    """
    return _named_pool("max_pool2d", 2, "max", x, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    x: Tensor,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest value of each window along the last three axes.

    >>> import smelt as sm
    >>> sm.max_pool3d(sm.arange(8).reshape(1, 2, 2, 2), 2).tolist()
    [[[[7]]]]
    """
    return _named_pool("max_pool3d", 3, "max", x, kernel_size, stride, padding, dilation, ceil_mode)


def _named_pool(
    name: str,
    count: int,
    function: str,
    x: Any,
    window: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> Tensor:
    node = node_of(x, name)
    check_space(node, count, name)
    return wrap(pooled(node, function, window, stride, padding, dilation, ceil_mode, count, name))


def check_space(node: Node, count: int, name: str) -> None:
    """There must be channels before the axes to pool."""
    if node.rank < count + 1:
        raise ShapeError(
            f"{name}: shape {shape_text(node.shape)} has rank {node.rank}",
            rule=f"there must be channels and {count} axes to pool.",
        )


# --- average


def avg_pool1d(
    x: Tensor,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window along the last axis; padding counts as zeros, or not at all.

    >>> import smelt as sm
    >>> sm.avg_pool1d(sm.asarray([[2.0, 4.0, 6.0]]), 2, stride=1, padding=1).tolist()
    [[1.0, 3.0, 5.0, 3.0]]
    """
    return _average("avg_pool1d", 1, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool2d(
    x: Tensor,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window along the last two axes; padding counts as zeros, or not at all.

    >>> import smelt as sm
    >>> sm.avg_pool2d(sm.arange(16.0).reshape(1, 4, 4), 2).tolist()
    [[[2.5, 4.5], [10.5, 12.5]]]
    """
    return _average("avg_pool2d", 2, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    x: Tensor,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window along the last three axes; padding counts as zeros, or not at all.

    >>> import smelt as sm
    >>> sm.avg_pool3d(sm.arange(8.0).reshape(1, 2, 2, 2), 2).tolist()
    [[[[3.5]]]]
    """
    return _average("avg_pool3d", 3, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _average(
    name: str,
    count: int,
    x: Any,
    window: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    include: bool,
    divisor: int | None,
) -> Tensor:
    node = floating(x, name)
    include = flag(include, name, "count_include_pad")
    check_space(node, count, name)
    sizes, steps, _, widths = _arguments(node, window, stride, padding, 1, count, name)
    total = pooled(widened(node), "sum", sizes, steps, widths, 1, ceil_mode, count, name)
    if divisor is not None:
        if not real_number(divisor, name, "divisor_override"):
            raise ArgumentError(f"{name}: divisor_override must not be 0")
        by: Node = build.const(divisor, total.dtype)
    elif (any(max(pair) > 0 for pair in widths) and not include) or ceil_mode:
        by = _window_counts(node, total, sizes, steps, widths, include)
    else:
        by = build.const(math.prod(sizes), total.dtype)
    return wrap(build.cast(build.div(total, by), node.dtype))


def _window_counts(
    node: Node, total: Node, sizes: Sequence[int], steps: Sequence[int], widths: Sequence[Widths], include: bool
) -> Node:
    """How many elements each window averages: those of the input, or of the padded input."""
    counts = build.const(1, dtypes.int64)
    first = node.rank - len(sizes)
    for axis, (size, step, (low, high)) in enumerate(zip(sizes, steps, widths, strict=True), first):
        begin = build.sub(
            build.mul(places(total.shape[axis]), build.const(step, dtypes.int64)), build.const(low, dtypes.int64)
        )
        end = build.add(begin, build.const(size, dtypes.int64))
        limit = as_index(node.shape[axis]) + (high if include else 0)
        end = build.minimum(end, build.size_node(size_of(limit), dtypes.int64))
        begin = begin if include else build.maximum(begin, build.const(0, dtypes.int64))
        length = build.sub(end, begin)
        counts = build.mul(counts, build.reshape(length, (total.shape[axis], *(1,) * (node.rank - 1 - axis))))
    return build.cast(counts, total.dtype)


def places(count: Size) -> Node:
    """0, 1, 2, … as int64."""
    return build.iota(count, dtypes.int64)


# --- norms


def lp_pool1d(
    x: Tensor, norm_type: float, kernel_size: Numbers, stride: Numbers | None = None, ceil_mode: bool = False
) -> Tensor:
    """The norm of each window along the last axis: the sum of |x| ** norm_type, to the power of 1 / norm_type.

    >>> import smelt as sm
    >>> sm.lp_pool1d(sm.asarray([[3.0, 4.0, 5.0, 12.0]]), 2, 2).tolist()
    [[5.0, 13.0]]
    """
    return _lp("lp_pool1d", 1, x, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    x: Tensor, norm_type: float, kernel_size: Numbers, stride: Numbers | None = None, ceil_mode: bool = False
) -> Tensor:
    """The norm of each window along the last two axes.

    >>> import smelt as sm
    >>> sm.lp_pool2d(sm.ones(1, 2, 2), 1, 2).tolist()
    [[[4.0]]]
    """
    return _lp("lp_pool2d", 2, x, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    x: Tensor, norm_type: float, kernel_size: Numbers, stride: Numbers | None = None, ceil_mode: bool = False
) -> Tensor:
    """The norm of each window along the last three axes.

    >>> import smelt as sm
    >>> sm.lp_pool3d(sm.ones(1, 2, 2, 2), 1, 2).tolist()
    [[[[8.0]]]]
    """
    return _lp("lp_pool3d", 3, x, norm_type, kernel_size, stride, ceil_mode)


def _lp(name: str, count: int, x: Any, norm_type: Any, window: Any, stride: Any, ceil_mode: bool) -> Tensor:
    node = floating(x, name)
    check_space(node, count, name)
    if isinstance(norm_type, bool) or not real_number(norm_type, name, "norm_type") > 0:
        raise ArgumentError(f"{name}: norm_type must be a positive number, got {norm_type!r}")
    size = build.unary("abs", widened(node))
    if norm_type == math.inf:
        result = pooled(size, "max", window, stride, 0, 1, ceil_mode, count, name)
        return wrap(build.cast(result, node.dtype))
    power = build.mul(size, size) if norm_type == 2 else _power(size, float(norm_type))
    total = pooled(power, "sum", window, stride, 0, 1, ceil_mode, count, name)
    root = build.sqrt(total) if norm_type == 2 else _power(total, 1 / norm_type)
    return wrap(build.cast(root, node.dtype))


def _power(node: Node, exponent: float) -> Node:
    return node if exponent == 1 else build.binary("pow", node, build.const(exponent, node.dtype))

"""Pooling whose windows differ from place to place: adaptive (as many windows as are asked for) and fractional.

Each element is compared with the bounds of each window, one axis at a time, inside the reduction: nothing is stored
in between, and infinities and NaNs outside a window do not reach it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smelt import dtypes
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import Node, build, shape_text
from smelt.tensor import random
from smelt.tensor.handle import computed, floating, node_of, widened, wrap
from smelt.tensor.types import Operand
from smelt.tensor.windows.places import for_each, known_size
from smelt.tensor.windows.pooling import Numbers, check_space, ignored, places, pooled

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "fractional_max_pool2d",
]


def adaptive_avg_pool1d(x: Tensor, output_size: Numbers) -> Tensor:
    """The means of `output_size` windows that cover the last axis evenly.

    >>> import smelt as sm
    >>> sm.adaptive_avg_pool1d(sm.arange(5.0).reshape(1, 5), 2).tolist()
    [[1.0, 3.0]]
    """
    return _adaptive("adaptive_avg_pool1d", 1, "mean", x, output_size)


def adaptive_avg_pool2d(x: Tensor, output_size: Numbers | Sequence[int | None]) -> Tensor:
    """The means of `output_size` windows that cover the last two axes evenly; None keeps the size of an axis.

    >>> import smelt as sm
    >>> sm.adaptive_avg_pool2d(sm.arange(16.0).reshape(1, 4, 4), 1).tolist()
    [[[7.5]]]
    """
    return _adaptive("adaptive_avg_pool2d", 2, "mean", x, output_size)


def adaptive_avg_pool3d(x: Tensor, output_size: Numbers | Sequence[int | None]) -> Tensor:
    """The means of `output_size` windows that cover the last three axes evenly; None keeps the size of an axis.

    >>> import smelt as sm
    >>> sm.adaptive_avg_pool3d(sm.arange(8.0).reshape(1, 2, 2, 2), 1).tolist()
    [[[[3.5]]]]
    """
    return _adaptive("adaptive_avg_pool3d", 3, "mean", x, output_size)


def adaptive_max_pool1d(x: Tensor, output_size: Numbers) -> Tensor:
    """The largest values of `output_size` windows that cover the last axis evenly.

    >>> import smelt as sm
    >>> sm.adaptive_max_pool1d(sm.arange(5.0).reshape(1, 5), 2).tolist()
    [[2.0, 4.0]]
    """
    return _adaptive("adaptive_max_pool1d", 1, "max", x, output_size)


def adaptive_max_pool2d(x: Tensor, output_size: Numbers | Sequence[int | None]) -> Tensor:
    """The largest values of `output_size` windows that cover the last two axes evenly; None keeps an axis' size.

    >>> import smelt as sm
    >>> sm.adaptive_max_pool2d(sm.arange(16).reshape(1, 4, 4), (1, 2)).tolist()
    [[[13, 15]]]
    """
    return _adaptive("adaptive_max_pool2d", 2, "max", x, output_size)


def adaptive_max_pool3d(x: Tensor, output_size: Numbers | Sequence[int | None]) -> Tensor:
    """The largest values of `output_size` windows that cover the last three axes evenly; None keeps an axis' size.

    >>> import smelt as sm
    >>> sm.adaptive_max_pool3d(sm.arange(8).reshape(1, 2, 2, 2), 1).tolist()
    [[[[7]]]]
    """
    return _adaptive("adaptive_max_pool3d", 3, "max", x, output_size)


def _adaptive(name: str, count: int, function: str, x: Any, output_size: Any) -> Tensor:
    given = computed(node_of(x, name), name)
    check_space(given, count, name)
    return wrap(adaptive(given, function, output_size, count, name))


def adaptive(given: Node, function: str, output_size: Any, count: int, name: str) -> Node:
    """Adaptive pooling of the last `count` axes by "mean" or "max"."""
    node = widened(floating(wrap(given), name)) if function == "mean" else given
    first = node.rank - count
    extents = [known_size(node, axis, name) for axis in range(first, node.rank)]
    wanted = tuple(output_size) if isinstance(output_size, Sequence) else (output_size,) * count
    if len(wanted) == count:
        wanted = tuple(extent if size is None else size for size, extent in zip(wanted, extents, strict=True))
    sizes = for_each(wanted, count, name, "output_size")
    if min(extents) < 1:
        raise ShapeError(f"{name}: there is nothing to pool in shape {shape_text(node.shape)}")
    if all(extent % size == 0 for extent, size in zip(extents, sizes, strict=True)):
        window = tuple(extent // size for extent, size in zip(extents, sizes, strict=True))
        node = pooled(node, function, window, None, 0, 1, False, count, name)
    else:
        for axis, (size, extent) in enumerate(zip(sizes, extents, strict=True), first):
            node = _evenly(node, axis, size, extent, function)
    dtype = dtypes.float32 if function == "mean" and not given.dtype.is_float else given.dtype
    return build.cast(node, dtype)


def _evenly(node: Node, axis: int, size: int, extent: int, function: str) -> Node:
    """Window i covers the elements from floor(i * extent / size) to ceil((i + 1) * extent / size)."""
    place, number = places(size), dtypes.int64
    begin = build.binary("floordiv", build.mul(place, build.const(extent, number)), build.const(size, number))
    past = build.add(place, build.const(1, number))
    end = build.binary(
        "floordiv",
        build.add(build.mul(past, build.const(extent, number)), build.const(size - 1, number)),
        build.const(size, number),
    )
    result = _between(node, axis, begin, end, "add" if function == "mean" else "max")
    if function == "max":
        return result
    length = build.cast(build.sub(end, begin), node.dtype)
    return build.div(result, build.reshape(length, (size, *(1,) * (node.rank - 1 - axis))))


def _between(node: Node, axis: int, begin: Node, end: Node, op: str) -> Node:
    """For each window, the elements along an axis from `begin` to before `end`, folded.

    The bounds have the windows as their last axis; axes before that are the first axes of the node.
    """
    windows, extent = begin.shape[-1], node.shape[axis]
    lead = begin.shape[:-1]
    rest = node.rank - 1 - axis
    shape = (*node.shape[:axis], windows, extent, *node.shape[axis + 1 :])
    aligned = (*lead, *(1,) * (axis - len(lead)), windows, 1, *(1,) * rest)
    position = build.reshape(places(extent), (extent, *(1,) * rest))
    low, high = build.reshape(begin, aligned), build.reshape(end, aligned)
    inside = build.bitwise_and(build.le(low, position), build.lt(position, high))
    spread = build.reshape(node, (*node.shape[:axis], 1, extent, *node.shape[axis + 1 :]))
    kept = build.where(
        build.broadcast_to(inside, shape), build.expand(spread, shape), build.const(ignored(op, node), node.dtype)
    )
    return build.reduce(op, kept, (axis + 1,))


def fractional_max_pool2d(
    x: Tensor,
    kernel_size: Numbers,
    output_size: Numbers | None = None,
    output_ratio: float | Sequence[float] | None = None,
    *,
    random_samples: Operand | None = None,
    key: Tensor | None = None,
) -> Tensor:
    """The largest value of windows at pseudo-random places along the last two axes of (batch, channels, height, width).

    The windows are as evenly spaced as whole numbers allow, shifted by a random sample in [0, 1) for each channel and
    axis: `random_samples` of shape (batch, channels, 2), or drawn (from `key`, if given).

    >>> import smelt as sm
    >>> x = sm.arange(25).reshape(1, 1, 5, 5)
    >>> sm.fractional_max_pool2d(x, 2, output_size=2, random_samples=sm.zeros(1, 1, 2)).tolist()
    [[[[6, 9], [21, 24]]]]
    """
    name = "fractional_max_pool2d"
    node = node_of(x, name)
    if node.rank != 4:
        raise ShapeError(f"{name}: shape {shape_text(node.shape)} has rank {node.rank}", rule="it must be 4.")
    window = for_each(kernel_size, 2, name, "the window")
    extents = [known_size(node, axis, name) for axis in (2, 3)]
    sizes = _fractional_sizes(extents, output_size, output_ratio, name)
    for size, length, extent in zip(sizes, window, extents, strict=True):
        if size + length - 1 > extent:
            raise ShapeError(
                f"{name}: {size} windows of {length} do not fit in {extent} elements",
                rule="output_size + kernel_size - 1 must not be more than the size of the input.",
            )
    shape = (node.shape[0], node.shape[1], 2)
    drawn = random.uniform(shape, key=key) if random_samples is None else random_samples
    samples = node_of(drawn, name)
    if samples.shape != shape or not samples.dtype.is_float:
        kind = f"{samples.dtype} of shape {shape_text(samples.shape)}"
        error = ShapeError if samples.shape != shape else DTypeError
        raise error(f"{name}: random_samples is {kind}", rule=f"it must be floats of shape {shape_text(shape)}.")
    for at, (size, length, extent) in enumerate(zip(sizes, window, extents, strict=True)):
        sample = build.slice_(samples, [(0, shape[0], 1), (0, shape[1], 1), (at, 1, 1)])
        begin = _spaced(build.cast(sample, dtypes.float64), size, extent - length)
        node = _between(node, 2 + at, begin, build.add(begin, build.const(length, dtypes.int64)), "max")
    return wrap(node)


def _fractional_sizes(extents: list[int], size: Any, ratio: Any, name: str) -> tuple[int, ...]:
    if (size is None) == (ratio is None):
        raise ArgumentError(f"{name}: give either output_size or output_ratio")
    if size is not None:
        return for_each(size, 2, name, "output_size")
    ratios = tuple(ratio) if isinstance(ratio, Sequence) else (ratio, ratio)
    if len(ratios) != 2 or not all(isinstance(r, float) and 0 < r < 1 for r in ratios):
        raise ArgumentError(f"{name}: output_ratio {ratio!r}", rule="it must be one or two numbers between 0 and 1.")
    return tuple(max(1, int(extent * r)) for extent, r in zip(extents, ratios, strict=True))


def _spaced(sample: Node, size: int, room: int) -> Node:
    """Where `size` windows begin, the last one at `room`: (batch, channels, size)."""
    shape = (*sample.shape[:2], size)
    if size == 1:
        return build.broadcast_to(build.const(room, dtypes.int64), shape)
    place = build.cast(places(size), dtypes.float64)
    step = build.const(room / (size - 1), dtypes.float64)
    shift = build.cast(build.mul(sample, step), dtypes.int64)
    begin = build.sub(build.cast(build.mul(build.add(place, sample), step), dtypes.int64), shift)
    last = build.eq(places(size), build.const(size - 1, dtypes.int64))
    return build.where(last, build.const(room, dtypes.int64), begin)

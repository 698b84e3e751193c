"""Builders of movement nodes. A call that would change nothing gives its source back."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from smelt.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from smelt.graph.index import IndexLike, as_index, least, nonnegative, size_of
from smelt.graph.node import Node, Shape, made
from smelt.graph.ops import Op, Span, Window
from smelt.graph.shapes import (
    as_size,
    checked_shape,
    element_count,
    marked,
    normalized_axes,
    normalized_axis,
    shape_text,
)


def reshape(x: Node, shape: Iterable[Any], *, name: str = "reshape") -> Node:
    """The same elements in another shape. Sizes must be given: see `infer_reshape` for -1."""
    target = shape if type(shape) is tuple else tuple(shape)
    if target == x.shape:
        return x
    target = checked_shape(target, name)
    if element_count(target) != element_count(x.shape):
        raise ShapeError(
            f"{name}: the number of elements changes\n" + marked((x.shape, ()), " to ", (target, ())),
            rule=f"{element_count(x.shape)} elements cannot be {element_count(target)}.",
        )
    return made(Op.RESHAPE, x.dtype, target, (x,))


def permute(x: Node, axes: Iterable[Any], *, name: str = "permute") -> Node:
    """Axes in another order: axis i of the result is axis axes[i] of x."""
    order = normalized_axes(axes, x.rank, name)
    if len(order) != x.rank:
        raise ArgumentError(
            f"{name}: {len(order)} axes given for a tensor of rank {x.rank}", rule="name every axis once."
        )
    if order == tuple(range(x.rank)):
        return x
    return made(Op.PERMUTE, x.dtype, tuple(x.shape[axis] for axis in order), (x,), order)


def expand(x: Node, shape: Iterable[Any], *, name: str = "expand") -> Node:
    """Axes of size 1 repeated; the rank stays."""
    target = shape if type(shape) is tuple else tuple(shape)
    if target == x.shape:
        return x
    target = checked_shape(target, name)
    wrong = [axis for axis, (old, new) in enumerate(zip(x.shape, target, strict=False)) if old not in (new, 1)]
    if wrong or len(target) != x.rank:
        raise ShapeError(
            f"{name}: cannot expand\n" + marked((x.shape, wrong), " to ", (target, wrong)),
            rule="the rank must stay the same." if len(target) != x.rank else "only axes of size 1 can grow.",
        )
    return made(Op.EXPAND, x.dtype, target, (x,))


def broadcast_to(x: Node, shape: Iterable[Any], *, name: str = "broadcast_to") -> Node:
    """Any shape that NumPy's rules allow: new axes in front, axes of size 1 repeated."""
    target = shape if type(shape) is tuple else tuple(shape)
    if x.shape == target:
        return x
    missing = len(target) - x.rank
    if missing < 0:
        raise ShapeError(
            f"{name}: cannot broadcast {shape_text(x.shape)} to {shape_text(target)}", rule="the rank cannot shrink."
        )
    return expand(with_rank(x, len(target)), target, name=name)


def with_rank(x: Node, rank: int) -> Node:
    """x with axes of size 1 in front, up to a rank."""
    missing = rank - len(x.shape)
    return made(Op.RESHAPE, x.dtype, (1,) * missing + x.shape, (x,)) if missing else x


def spread(x: Node, shape: Shape) -> Node:
    """`broadcast_to` for a shape that `broadcast_shapes` gave, so that there is nothing to check."""
    if x.shape == shape:
        return x
    x = with_rank(x, len(shape))
    return x if x.shape == shape else made(Op.EXPAND, x.dtype, shape, (x,))


def pad(x: Node, widths: Iterable[tuple[IndexLike, IndexLike]], fill: Node, *, name: str = "pad") -> Node:
    """(before, after) elements of the scalar `fill` added to each axis."""
    amounts = tuple((as_size(before, name), as_size(after, name)) for before, after in widths)
    if len(amounts) != x.rank:
        raise ArgumentError(
            f"{name}: {len(amounts)} pairs of widths for a tensor of rank {x.rank}",
            rule="give (before, after) for each axis.",
        )
    if fill.shape != () or fill.dtype is not x.dtype:
        raise DTypeError(
            f"{name}: the fill is {fill.dtype}{shape_text(fill.shape)}", rule=f"it must be a {x.dtype} scalar."
        )
    if any(least(width) < 0 for pair in amounts for width in pair):
        raise ArgumentError(f"{name}: a width is negative: {amounts}", hint="Use a slice to cut elements off.")
    if all(width == 0 for pair in amounts for width in pair):
        return x
    sizes = tuple(size_of(size + before + after) for size, (before, after) in zip(x.shape, amounts, strict=True))
    return made(Op.PAD, x.dtype, sizes, (x, fill), amounts)


def slice_(x: Node, spans: Iterable[tuple[IndexLike, IndexLike, int]], *, name: str = "slice") -> Node:
    """Element i of each axis becomes element start + step*i of x, for i below size."""
    cuts = tuple(Span(as_size(start, name), as_size(size, name), operator.index(step)) for start, size, step in spans)
    if len(cuts) != x.rank:
        raise ArgumentError(f"{name}: {len(cuts)} spans for a tensor of rank {x.rank}", rule="give one for each axis.")
    cuts = tuple(_checked_span(span, x, axis, name) for axis, span in enumerate(cuts))
    if all(span == (0, size, 1) for span, size in zip(cuts, x.shape, strict=True)):
        return x
    return made(Op.SLICE, x.dtype, tuple(span.size for span in cuts), (x,), cuts)


def _checked_span(span: Span, x: Node, axis: int, name: str) -> Span:
    """The span in its simplest form, after a check that it stays inside the axis."""
    if span.step == 0:
        raise ArgumentError(f"{name}: the step of axis {axis} is 0", rule="steps must not be zero.")
    if least(span.size) < 0:
        raise ArgumentError(f"{name}: the size of axis {axis} may be negative: {span.size}")
    if span.size == 0:
        return Span(0, 0, 1)
    if span.size == 1:
        span = Span(span.start, 1, 1)
    size = x.shape[axis]
    last = span.start + (span.size - 1) * span.step
    low, high = (span.start, last) if span.step > 0 else (last, span.start)
    if not (_certain(low) and _certain(size - high - 1)):
        symbolic = not all(isinstance(value, int) for value in (low, high, size))
        raise IndexRangeError(
            f"{name}: elements {low} to {high} do not all lie in axis {axis}\n" + marked((x.shape, {axis})),
            rule=f"the axis has elements 0 to {size - 1}.",
            hint="This must hold for every size: give the Dim bounds that say so." if symbolic else "",
        )
    return span


def _certain(amount: IndexLike) -> bool:
    return amount >= 0 if isinstance(amount, int) else nonnegative(amount)


def window(x: Node, axis: Any, size: int, step: int = 1, dilation: int = 1, *, name: str = "window") -> Node:
    """All windows of `size` elements, `dilation` apart, that begin `step` apart along an axis.

    The axis counts the windows; the elements of each lie along a new last axis.
    """
    number = normalized_axis(axis, x.rank, name)
    if min(size, step, dilation) < 1:
        raise ArgumentError(
            f"{name}: size {size}, step {step}, dilation {dilation}", rule="all of them must be positive."
        )
    room = x.shape[number] - (size - 1) * dilation
    if not _certain(room - 1):
        raise ShapeError(
            f"{name}: a window reaches over {(size - 1) * dilation + 1} elements, more than axis {number} has\n"
            + marked((x.shape, {number}))
        )
    count = size_of((as_index(room) - 1) // step + 1)
    shape = (*x.shape[:number], count, *x.shape[number + 1 :], size)
    return made(Op.WINDOW, x.dtype, shape, (x,), Window(number, size, step, dilation))


def concat(xs: Sequence[Node], axis: Any, *, name: str = "concat") -> Node:
    """Tensors one after the other along an axis; all other sizes must agree."""
    if not xs:
        raise ArgumentError(f"{name}: there is nothing to join", rule="give at least one tensor.")
    first = xs[0]
    number = normalized_axis(axis, first.rank, name)
    for at, x in enumerate(xs):
        if x.dtype is not first.dtype:
            raise DTypeError(
                f"{name}: dtypes differ: tensor 0 is {first.dtype} and tensor {at} is {x.dtype}",
                hint="Cast them to one dtype.",
            )
        wrong = [k for k, (a, b) in enumerate(zip(first.shape, x.shape, strict=False)) if a != b and k != number]
        if x.rank != first.rank or wrong:
            raise ShapeError(
                f"{name}: tensors 0 and {at} do not fit together\n"
                + marked((first.shape, wrong), " and ", (x.shape, wrong)),
                rule=f"all sizes except that of axis {number} must be the same.",
            )
    if len(xs) == 1:
        return first
    total: IndexLike = 0
    for x in xs:
        total = x.shape[number] + total
    shape: Shape = (*first.shape[:number], size_of(total), *first.shape[number + 1 :])
    return made(Op.CONCAT, first.dtype, shape, tuple(xs), number)

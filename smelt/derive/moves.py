"""Movements that derivatives need, made of plain nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set

from smelt.dtypes import Scalar, compute_dtype
from smelt.graph import IndexLike, Node, Op, Shape, Span, as_index, build, constant_value, product_of, size_of, upper

Parts = Iterable[tuple[Node, Node]]  # nodes, and what each of their cotangents gets
Rule = Callable[[Node, Node, Set[Node]], Parts]  # of a node, its cotangent, and the nodes whose cotangents are wanted


def zeros(shape: Shape, like: Node) -> Node:
    return build.const(0, like.dtype, shape)


def filled(found: Sequence[Node | None], like: Sequence[Node]) -> list[Node]:
    """Zeros where there is no dependence."""
    return [zeros(x.shape, x) if node is None else node for node, x in zip(found, like, strict=True)]


def wide(x: Node) -> Node:
    """x in the type in which formulas of several steps are computed."""
    return build.cast(x, compute_dtype(x.dtype))


def total(x: Node, axes: Sequence[int], *, keep_axes: bool = False) -> Node:
    """The sum over axes, rounded once."""
    if not axes:
        return x
    return build.cast(build.reduce("add", wide(x), axes, keep_axes=keep_axes), x.dtype)


def added(a: Node, b: Node) -> Node:
    """The sum of two cotangents; those of neighboring slices are laid side by side, as nothing but zeros meets them."""
    for first, second in ((a, b), (b, a)):
        axis = _axis_between(first, second)
        if axis is not None:
            widths = list(first.attribute)
            widths[axis] = (first.attribute[axis][0], second.attribute[axis][1])
            return build.pad(build.concat([first.sources[0], second.sources[0]], axis), widths, first.sources[1])
    return build.add(a, b)


def _axis_between(a: Node, b: Node) -> int | None:
    """The axis along which what one node pads with zeros ends where what the other one pads begins."""
    if a.op is not Op.PAD or b.op is not Op.PAD or not (_is_zero(a.sources[1]) and _is_zero(b.sources[1])):
        return None
    apart = [axis for axis, (one, other) in enumerate(zip(a.attribute, b.attribute, strict=True)) if one != other]
    if len(apart) != 1:
        return None
    [axis] = apart
    end = as_index(a.attribute[axis][0]) + a.sources[0].shape[axis]
    return axis if end == as_index(b.attribute[axis][0]) else None


def _is_zero(x: Node) -> bool:
    return x.op is Op.CONST and constant_value(x) == 0


def _sliced(x: Node, axis: int, span: Span) -> Node:
    return build.slice_(x, [span if k == axis else Span(0, size, 1) for k, size in enumerate(x.shape)])


def flip(x: Node, axis: int) -> Node:
    size = x.shape[axis]
    return x if size in (0, 1) else _sliced(x, axis, Span(size_of(as_index(size) - 1), size, -1))


def widen(x: Node, axis: int, before: IndexLike, after: IndexLike, fill: Scalar = 0) -> Node:
    """x with more elements along one axis."""
    widths: list[tuple[IndexLike, IndexLike]] = [(0, 0)] * x.rank
    widths[axis] = (before, after)
    return build.pad(x, widths, build.const(fill, x.dtype))


def cut(x: Node, axis: int, start: IndexLike, size: IndexLike) -> Node:
    """Neighboring elements along one axis."""
    return _sliced(x, axis, Span(start, size, 1))


def shift(x: Node, axis: int, by: int, fill: Scalar) -> Node:
    """Elements moved towards the end of an axis; what comes in at its front is `fill`."""
    return cut(widen(x, axis, by, 0, fill), axis, 0, x.shape[axis])


def spread(x: Node, axis: int, step: int) -> Node:
    """Elements `step` apart along an axis, with zeros between them."""
    size = x.shape[axis]
    if step == 1 or size in (0, 1):
        return x
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    apart = widen(build.reshape(x, (*before, size, 1, *after)), axis + 1, 0, step - 1)
    joined = build.reshape(apart, (*before, size_of(as_index(size) * step), *after))
    return cut(joined, axis, 0, size_of((as_index(size) - 1) * step + 1))


def broadcast_back(x: Node, axes: Sequence[int], shape: Shape) -> Node:
    """A reduced value repeated along the axes that were folded."""
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return build.expand(build.reshape(x, kept), shape)


def narrowed(x: Node, shape: Shape) -> Node:
    """The sum over the axes along which a value of this shape was repeated to become as large as x."""
    lead = x.rank - len(shape)
    repeated = [axis for axis in range(x.rank) if axis < lead or (shape[axis - lead] == 1 != x.shape[axis])]
    return build.reshape(total(x, repeated, keep_axes=True), shape)


def flat_last(x: Node, axes: Sequence[int]) -> tuple[Node, tuple[int, ...]]:
    """The axes merged into one that comes last, and the order in which axes were brought there."""
    order = (*(axis for axis in range(x.rank) if axis not in axes), *axes)
    count = x.rank - len(axes)
    moved = build.permute(x, order)
    return build.reshape(moved, (*moved.shape[:count], product_of(moved.shape[count:]))), order


def unflatten_last(x: Node, order: tuple[int, ...], shape: Shape) -> Node:
    """The way back from `flat_last`."""
    return build.permute(build.reshape(x, tuple(shape[axis] for axis in order)), inverse(order))


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(order.index(axis) for axis in range(len(order)))


def exclusive_products(x: Node) -> Node:
    """Along the last axis, for each element the product of all others; exact where elements are zero."""
    last = x.rank - 1

    def before(values: Node) -> Node:
        return shift(build.scan("mul", values, last), last, 1, 1)

    return build.mul(before(x), flip(before(flip(x, last)), last))


def recurrence(factors: Node, values: Node, axis: int) -> Node:
    """y[i] = factors[i] * y[i - 1] + values[i] along an axis, in as many steps as the length has binary digits."""
    by = 1
    while by < upper(values.shape[axis]):
        values = build.add(values, build.mul(factors, shift(values, axis, by, 0)))
        factors = build.mul(factors, shift(factors, axis, by, 1))
        by *= 2
    return values

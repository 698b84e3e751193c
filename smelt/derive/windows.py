"""The ways back from slices and windows: where elements came from, zeros elsewhere, overlaps added up."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.derive.moves import cut, flip, spread, widen, zeros
from smelt.graph import IndexLike, Node, Op, Shape, Span, Window, as_index, build, size_of, upper


def unsliced(ct: Node, spans: Sequence[Span], shape: Shape) -> Node:
    """Elements of a slice at the places where they came from."""
    widths: list[tuple[IndexLike, IndexLike]] = []
    for axis, (span, size) in enumerate(zip(spans, shape, strict=True)):
        if span.size == 0:
            return zeros(shape, ct)
        start = as_index(span.start)
        reach = (as_index(span.size) - 1) * abs(span.step)
        if span.step < 0:
            ct, start = flip(ct, axis), start - reach
        ct = spread(ct, axis, abs(span.step))
        widths.append((size_of(start), size_of(as_index(size) - start - reach - 1)))
    return build.pad(ct, widths, build.const(0, ct.dtype))


def unpadded(ct: Node, widths: Sequence[tuple[IndexLike, IndexLike]]) -> Node:
    """What was there before a padding. Where a product was computed, the rest of it is not: after a convolution's way
    back, that would be a larger image of which a part is copied.
    """
    for axis, (before, after) in enumerate(widths):
        left = size_of(as_index(ct.shape[axis]) - before - after)
        static = isinstance(before, int) and isinstance(after, int)
        if static and left != 0 and _product_below(ct, axis)[0] is not None:  # of nothing there are no windows
            ct = _trimmed(ct, axis, upper(before), upper(after))
        else:
            ct = cut(ct, axis, before, left)
    return ct


def _trimmed(x: Node, axis: int, before: int, after: int) -> Node:
    """x without its ends along an axis, cut off as near to what it is made of as possible."""
    if before == after == 0:
        return x
    op = x.op if x.leaf is None else Op.LEAF  # what has a value is not taken apart
    if op is Op.RESHAPE and _product_below(x, axis)[0] is not None:
        source = x.sources[0]
        inner = _trimmed(source, source.rank - (x.rank - axis), before, after)
        return build.reshape(inner, (*x.shape[:axis], inner.shape[inner.rank - (x.rank - axis)], *x.shape[axis + 1 :]))
    if op is Op.CONTRACT:
        left, right, out = x.attribute
        a, b = (
            _trimmed(source, labels.index(out[axis]), before, after) if out[axis] in labels else source
            for source, labels in zip(x.sources, (left, right), strict=True)
        )
        return build.contract(a, b, left, right, out, x.dtype)
    if op is Op.WINDOW and axis < x.rank - 1 and (axis != x.attribute.axis or x.attribute.step == 1):
        return build.window(_trimmed(x.sources[0], axis, before, after), *x.attribute)
    if op is Op.PAD:
        widths = list(x.attribute)
        source, (first, last) = x.sources[0], widths[axis]
        if first == last == 0:
            return build.pad(_trimmed(source, axis, before, after), widths, x.sources[1])
        if isinstance(first, int) and isinstance(last, int) and before <= first and after <= last:
            widths[axis] = (first - before, last - after)
            return build.pad(source, widths, x.sources[1])
    return cut(x, axis, before, size_of(as_index(x.shape[axis]) - before - after))


def unwindowed(ct: Node, window: Window, length: IndexLike) -> Node:
    """Elements of windows added up at the places where they came from; the last axis is gone."""
    contracted = _contracted(ct, window, length)
    if contracted is not None:
        return contracted
    if window.step >= window.size and window.dilation == 1:
        return _side_by_side(ct, window, length)
    last = ct.rank - 1
    result: Node | None = None
    for k in range(window.size):
        part = spread(build.reshape(cut(ct, last, k, 1), ct.shape[:last]), window.axis, window.step)
        before = k * window.dilation
        after = size_of(as_index(length) - part.shape[window.axis] - before)
        placed = widen(part, window.axis, before, after)
        result = placed if result is None else build.add(result, placed)
    assert result is not None
    return result


def _side_by_side(ct: Node, window: Window, length: IndexLike) -> Node:
    """Windows that do not overlap: each grows to the step, and they are put one after the other."""
    axis, last = window.axis, ct.rank - 1
    count = ct.shape[axis]
    order = [k for k in range(last)]
    order.insert(axis + 1, last)
    apart = widen(build.permute(ct, order), axis + 1, 0, window.step - window.size)
    joined = size_of(as_index(count) * window.step)
    flat = build.reshape(apart, (*ct.shape[:axis], joined, *ct.shape[axis + 1 : last]))
    used = size_of((as_index(count) - 1) * window.step + window.size)
    return widen(cut(flat, axis, 0, used), axis, 0, size_of(as_index(length) - used))


def _contracted(ct: Node, window: Window, length: IndexLike) -> Node | None:
    """Of a product whose windows come from one factor and their elements from the other, as in a convolution: the
    product of windows of the first with the other one backwards. Nothing as large as all windows is made.
    """
    product, axis = _product_below(ct, window.axis)
    if product is None:
        return None
    left, right, out = product.attribute
    place, element = out[axis], out[-1]
    a, b = product.sources
    if place not in left:
        a, b, left, right = b, a, right, left
    if place in right or element in left or element not in right:
        return None
    along = left.index(place)
    reach = (window.size - 1) * window.dilation
    a = spread(a, along, window.step)
    a = _widened(a, along, reach, size_of(as_index(length) - a.shape[along]))
    a = build.window(a, along, window.size, 1, window.dilation)
    b = flip(b, right.index(element))
    result = build.contract(a, b, (*left, element), right, out[:-1], product.dtype)
    return build.reshape(result, (*ct.shape[: window.axis], length, *ct.shape[window.axis + 1 : -1]))


def _widened(x: Node, axis: int, before: IndexLike, after: IndexLike) -> Node:
    """x with zeros around it along an axis, put there before windows of other axes are made: one padding of what is
    stored, not one of all windows.
    """
    if x.leaf is None and x.op is Op.WINDOW and axis not in (x.attribute.axis, x.rank - 1):
        return build.window(_widened(x.sources[0], axis, before, after), *x.attribute)
    return widen(x, axis, before, after)


def _product_below(ct: Node, axis: int) -> tuple[Node | None, int]:
    """The contraction that a cotangent is, perhaps with axes before the given one in another shape; and that axis."""
    product = ct
    while product.op is Op.RESHAPE:
        product = product.sources[0]
    behind = ct.rank - axis
    if product.op is not Op.CONTRACT or product.rank < behind or product.leaf is not None:
        return None, 0
    if product.shape[product.rank - behind :] != ct.shape[axis:]:
        return None, 0
    return product, product.rank - behind

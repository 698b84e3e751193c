"""Movement: merged, cut down, and brought into one order: slices lowest, then reshapes, permutes, and expands on top.

Expanding last means that work is done before it is repeated. Reshapes that only add or remove axes of size 1 sink below
permutes and expands, where they meet other reshapes; slices sink below all of these, where they meet other slices.
Slices of pads and concatenations leave out what is cut off, and some windows are plainer movement.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from typing import Final

from smelt.errors import IndexRangeError
from smelt.graph import ELEMENTWISE, IndexLike, Node, Op, Shape, Span, build, least, make
from smelt.rewrite.rule import Family
from smelt.rewrite.rules.pattern import (
    commonly_expanded,
    expanded_axes,
    is_op,
    narrowed,
    only_ones_differ,
    proper_axes,
)

family = Family("movement")


# --- two of a kind


@family.rule(Op.RESHAPE, Op.PERMUTE, Op.EXPAND)
def merge_movements(node: Node) -> Node | None:
    """Two reshapes, permutes or expands → one."""
    inner = node.sources[0]
    if not is_op(inner, node.op):
        return None
    (x,) = inner.sources
    if node.op is Op.PERMUTE:
        return build.permute(x, tuple(inner.attribute[axis] for axis in node.attribute))
    return (build.reshape if node.op is Op.RESHAPE else build.expand)(x, node.shape)


@family.rule(Op.SLICE, of=Op.SLICE)
def merge_slices(node: Node, inner: Node, x: Node) -> Node | None:
    """slice(slice(x)) → slice(x)."""
    spans = [
        (below.start + below.step * above.start, above.size, below.step * above.step)
        for above, below in zip(node.attribute, inner.attribute, strict=True)
    ]
    try:
        return build.slice_(x, spans)
    except IndexRangeError:  # with symbolic starts, the composition may be harder to prove than its parts
        return None


# --- permutes and reshapes


@family.rule(Op.PERMUTE)
def permute_is_reshape(node: Node) -> Node | None:
    """A permute that only moves axes of size 1 → reshape."""
    (x,) = node.sources
    order = [axis for axis in node.attribute if x.shape[axis] != 1]
    return build.reshape(x, node.shape) if order == sorted(order) else None


@family.rule(Op.RESHAPE, of=Op.PERMUTE)
def reshape_below_permute(node: Node, inner: Node, x: Node) -> Node | None:
    """A reshape of a permute that only adds or removes axes of size 1 → permute of the reshape."""
    if not only_ones_differ(inner.shape, node.shape):
        return None
    kept = proper_axes(x.shape)  # these come first in the reshaped source, then the ones
    order = iter([kept.index(axis) for axis in inner.attribute if x.shape[axis] != 1])
    ones = iter(range(len(kept), node.rank))
    axes = tuple(next(ones) if size == 1 else next(order) for size in node.shape)
    shape = tuple(x.shape[axis] for axis in kept) + (1,) * (node.rank - len(kept))
    return build.permute(build.reshape(x, shape), axes)


# --- expands rise


@family.rule(Op.PERMUTE, of=Op.EXPAND)
def permute_below_expand(node: Node, inner: Node, x: Node) -> Node | None:
    """permute(expand(x)) → expand(permute(x))."""
    return build.expand(build.permute(x, node.attribute), node.shape)


@family.rule(Op.RESHAPE, of=Op.EXPAND)
def reshape_below_expand(node: Node, inner: Node, x: Node) -> Node | None:
    """A reshape of an expand that does not mix repeated axes with others → expand of the reshape."""
    repeated = expanded_axes(inner)
    if not repeated or 0 in node.shape:
        return None
    shape: list[IndexLike] = [1] * node.rank
    for old, new in _groups(inner.shape, node.shape):
        mixed = [axis in repeated for axis in old]
        if any(mixed):
            if not all(mixed):
                return None
            continue
        for axis in new:
            shape[axis] = node.shape[axis]
    return build.expand(build.reshape(x, shape), node.shape)


def _groups(source: Shape, target: Shape) -> list[tuple[list[int], list[int]]]:
    """The smallest runs of axes that a reshape turns into each other, without axes of size 1."""
    sides = [(proper_axes(shape), shape) for shape in (source, target)]
    totals = [list(accumulate((shape[axis] for axis in axes), mul)) for axes, shape in sides]
    ends = set(totals[0]).intersection(totals[1])  # where as many elements have gone by on both sides
    groups: list[tuple[list[int], list[int]]] = [([], []) for _ in range(len(ends) + 1)]
    for side, (axes, _) in enumerate(sides):
        at = 0
        for axis, total in zip(axes, totals[side], strict=True):
            groups[at][side].append(axis)
            at += total in ends
    return groups


@family.rule(*ELEMENTWISE, Op.PAD, Op.CONCAT)
def below_expand(node: Node) -> Node | None:
    """f(expand(x), expand(y)) → expand(f(x, y)), also of pads and concatenations, along other axes than theirs."""
    tensors = node.sources[:1] if node.op is Op.PAD else node.sources
    common = commonly_expanded(tensors)
    if node.op is Op.PAD:
        common = {axis for axis in common if node.attribute[axis] == (0, 0)}
    elif node.op is Op.CONCAT:
        common.discard(node.attribute)
    if not common:
        return None
    sources = (*[narrowed(x, common) for x in tensors], *node.sources[len(tensors) :])
    small = tuple([1 if axis in common else size for axis, size in enumerate(node.shape)])
    return build.expand(make(node.op, node.dtype, small, sources, node.attribute), node.shape)


# --- slices sink


@family.rule(Op.SLICE, of=Op.PERMUTE)
def slice_below_permute(node: Node, inner: Node, x: Node) -> Node | None:
    """slice(permute(x)) → permute(slice(x))."""
    spans = [node.attribute[inner.attribute.index(axis)] for axis in range(node.rank)]
    return build.permute(build.slice_(x, spans), inner.attribute)


@family.rule(Op.SLICE, of=Op.EXPAND)
def slice_below_expand(node: Node, inner: Node, x: Node) -> Node | None:
    """slice(expand(x)) → expand(slice(x))."""
    repeated = expanded_axes(inner)
    if not repeated or 0 in node.shape:
        return None
    spans = [Span(0, 1, 1) if axis in repeated else span for axis, span in enumerate(node.attribute)]
    return build.expand(build.slice_(x, spans), node.shape)


@family.rule(Op.SLICE, of=Op.RESHAPE)
def slice_below_reshape(node: Node, inner: Node, x: Node) -> Node | None:
    """A slice of a reshape that only adds or removes axes of size 1 → reshape of the slice."""
    if 0 in node.shape or not only_ones_differ(x.shape, inner.shape):
        return None
    cuts = iter([node.attribute[axis] for axis in proper_axes(inner.shape)])
    spans = [Span(0, 1, 1) if size == 1 else next(cuts) for size in x.shape]
    return build.reshape(build.slice_(x, spans), node.shape)


# --- casts between two movements


@family.rule(Op.PERMUTE, Op.RESHAPE, Op.SLICE, of=Op.CAST, sole=True)
def movement_below_cast(node: Node, cast: Node, x: Node) -> Node | None:
    """Two movements of one kind with a cast between them → the cast of the merged movement."""
    if not is_op(x, node.op):
        return None
    return build.cast(make(node.op, x.dtype, node.shape, (x,), node.attribute), node.dtype)


# --- pads


@family.rule(Op.PAD, of=Op.PAD)
def merge_pads(node: Node, inner: Node, x: Node, fill: Node) -> Node | None:
    """pad(pad(x, fill), fill) → pad(x, fill)."""
    if node.sources[1] is not fill:
        return None
    widths = [
        (outside[0] + inside[0], inside[1] + outside[1])
        for outside, inside in zip(node.attribute, inner.attribute, strict=True)
    ]
    return build.pad(x, widths, fill)


# --- slices of pads and concatenations


@family.rule(Op.SLICE, of=Op.PAD)
def slice_below_pad(node: Node, inner: Node, x: Node, fill: Node) -> Node | None:
    """slice(pad(x)) → pad(slice(x)), without the padding that is cut off; or the fill, if nothing else is left."""
    if 0 in node.shape:
        return None
    spans: list[Span] = []
    widths: list[tuple[IndexLike, IndexLike]] = []
    for span, size, (before, after) in zip(node.attribute, x.shape, inner.attribute, strict=True):
        # All of the slice lies in what there is at least.
        parts = [_NOTHING, span, _NOTHING] if before == after == 0 else _parts(span, (before, size, least(after)))
        if parts is None:
            return None
        if parts[1].size == 0:
            return build.broadcast_to(fill, node.shape)
        spans.append(parts[1])
        widths.append((parts[0].size, parts[2].size))
    return build.pad(build.slice_(x, spans), widths, fill)


@family.rule(Op.SLICE, of=Op.CONCAT)
def slice_below_concat(node: Node, inner: Node, *xs: Node) -> Node | None:
    """slice(concat(x, y, …)) → the slice of only the tensors that it touches."""
    axis: int = inner.attribute
    parts = None if 0 in node.shape else _parts(node.attribute[axis], [x.shape[axis] for x in xs])
    touched = [(x, part) for x, part in zip(xs, parts or (), strict=False) if part.size]
    if not touched or len(touched) == len(xs):
        return None
    before, after = node.attribute[:axis], node.attribute[axis + 1 :]
    return build.concat([build.slice_(x, (*before, part, *after)) for x, part in touched], axis)


_NOTHING: Final = Span(0, 0, 1)


def _parts(span: Span, sizes: Sequence[IndexLike]) -> list[Span] | None:
    """What a slice takes of each piece that an axis is joined of; None if that is not known, or not a slice."""
    start, count, step = span
    if not isinstance(start, int) or not isinstance(count, int):
        return None
    low, high = sorted((start, start + step * (count - 1)))
    parts: list[Span] = []
    for size in sizes:
        if not isinstance(size, int):
            return None
        whole = low >= 0 and high < size
        first, last = max(low, 0), min(high, size - 1)
        parts.append(Span(start, count, step) if whole else Span(first, max(last - first + 1, 0), 1))
        start, low, high = start - size, low - size, high - size
    return parts if step == 1 or sum(part.size > 0 for part in parts) == 1 else None


# --- concatenation

# Flattening copies a list of tensors; a bound on its length keeps long chains of concatenations linear.
MAXIMUM_PIECES = 64


@family.rule(Op.CONCAT)
def flatten_concat(node: Node) -> Node | None:
    """concat(concat(x, y), z) → concat(x, y, z)."""
    nested = [is_op(source, Op.CONCAT) and source.attribute == node.attribute for source in node.sources]
    if not any(nested):
        return None
    flat: list[Node] = []
    for source, opened in zip(node.sources, nested, strict=True):
        flat += source.sources if opened else (source,)
    return build.concat(flat, node.attribute) if len(flat) <= MAXIMUM_PIECES else None


@family.rule(Op.CONCAT)
def drop_empty_pieces(node: Node) -> Node | None:
    """concat(x, nothing) → x."""
    kept = [source for source in node.sources if source.shape[node.attribute] != 0]
    return build.concat(kept, node.attribute) if kept and len(kept) < len(node.sources) else None


@family.rule(Op.CONCAT)
def join_adjacent_slices(node: Node) -> Node | None:
    """concat of adjacent slices of one tensor → one slice, or the tensor itself."""
    axis: int = node.attribute
    pieces: list[Node] = []
    for source in node.sources:
        joined = _joined(pieces[-1], source, axis) if pieces else None
        if joined is None:
            pieces.append(source)
        else:
            pieces[-1] = joined
    return build.concat(pieces, axis) if len(pieces) < len(node.sources) else None


def _joined(a: Node, b: Node, axis: int) -> Node | None:
    """The one slice that two adjacent slices make."""
    if not is_op(a, Op.SLICE) or not is_op(b, Op.SLICE) or a.sources[0] is not b.sources[0]:
        return None
    if any(p != q for i, (p, q) in enumerate(zip(a.attribute, b.attribute, strict=True)) if i != axis):
        return None
    first, second = a.attribute[axis], b.attribute[axis]
    # A slice of one element has no step of its own.
    steps = [span.step for span in (first, second) if span.size != 1]
    step = steps[0] if steps else 1
    if any(other != step for other in steps) or second.start != first.start + step * first.size:
        return None
    spans = list(a.attribute)
    spans[axis] = Span(first.start, first.size + second.size, step)
    return build.slice_(a.sources[0], spans)


# --- windows of one element, and those that lie side by side


@family.rule(Op.WINDOW)
def window_is_slice(node: Node) -> Node | None:
    """Windows of one element → every step-th element, with a new axis."""
    (x,) = node.sources
    axis, size, step, _ = node.attribute
    if size != 1:
        return None
    spans = [Span(0, node.shape[k], step) if k == axis else Span(0, extent, 1) for k, extent in enumerate(x.shape)]
    return build.reshape(build.slice_(x, spans), node.shape)


@family.rule(Op.WINDOW)
def window_is_reshape(node: Node) -> Node | None:
    """Windows one after the other that cover the axis → the axis cut in two."""
    (x,) = node.sources
    axis, size, step, dilation = node.attribute
    extent, count = x.shape[axis], node.shape[axis]
    if size == 1 or dilation != 1 or not isinstance(extent, int) or extent != count * size:
        return None
    if step != size and count != 1:
        return None
    cut = build.reshape(x, (*x.shape[:axis], count, size, *x.shape[axis + 1 :]))
    order = [k for k in range(cut.rank) if k != axis + 1]
    return build.permute(cut, (*order, axis + 1))

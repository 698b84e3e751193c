"""Movement, continued: pads and concatenations, slices of them, and windows that are plainer movement."""

from __future__ import annotations

from smelt.graph import IndexLike, Node, Op, Span, build
from smelt.rewrite.rule import Family
from smelt.rewrite.rules.pattern import commonly_expanded, expanded_axes, is_op, narrowed

family = Family("movement")


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


@family.rule(Op.PAD)
def pad_below_expand(node: Node) -> Node | None:
    """pad(expand(x)) → expand(pad(x)), along the axes that are not padded."""
    inner, fill = node.sources
    free = {axis for axis in expanded_axes(inner) if node.attribute[axis] == (0, 0)}
    return build.expand(build.pad(narrowed(inner, free), node.attribute, fill), node.shape) if free else None


@family.rule(Op.CONCAT)
def concat_below_expand(node: Node) -> Node | None:
    """concat(expand(x), expand(y)) → expand(concat(x, y)), along the other axes that all of them repeat."""
    common = commonly_expanded(node.sources) - {node.attribute}
    if not common:
        return None
    return build.expand(build.concat([narrowed(source, common) for source in node.sources], node.attribute), node.shape)


# --- slices of pads and concatenations


@family.rule(Op.SLICE, of=Op.PAD)
def slice_below_pad(node: Node, inner: Node, x: Node, fill: Node) -> Node | None:
    """slice(pad(x)) → pad(slice(x)), without the padding that is cut off; or the fill, if nothing else is left."""
    if 0 in node.shape:
        return None
    spans: list[Span] = []
    widths: list[tuple[IndexLike, IndexLike]] = []
    for span, size, (before, after) in zip(node.attribute, x.shape, inner.attribute, strict=True):
        if before == 0 and after == 0:
            spans.append(span)
            widths.append((0, 0))
            continue
        if not all(isinstance(value, int) for value in (*span, size, before)):
            return None
        low, high = sorted((span.start - before, span.start - before + span.step * (span.size - 1)))
        if high < 0 or low >= size:
            return build.broadcast_to(fill, node.shape)
        if low >= 0 and high < size:
            spans.append(Span(span.start - before, span.size, span.step))
            widths.append((0, 0))
            continue
        if span.step != 1:
            return None
        first, last = max(low, 0), min(high, size - 1)
        spans.append(Span(first, last - first + 1, 1))
        widths.append((first - low, high - last))
    return build.pad(build.slice_(x, spans), widths, fill)


@family.rule(Op.SLICE, of=Op.CONCAT)
def slice_below_concat(node: Node, inner: Node, *xs: Node) -> Node | None:
    """slice(concat(x, y, …)) → the slice of only the tensors that it touches."""
    if 0 in node.shape:
        return None
    axis: int = inner.attribute
    span: Span = node.attribute[axis]
    if not isinstance(span.start, int) or not isinstance(span.size, int):
        return None
    low, high = sorted((span.start, span.start + span.step * (span.size - 1)))
    offset = 0
    pieces: list[tuple[Node, int, int]] = []  # the tensors that are touched, where they begin, and their sizes
    for source in xs:
        size = source.shape[axis]
        if not isinstance(size, int):
            return None
        if low < offset + size and high >= offset and size:
            pieces.append((source, offset, size))
        offset += size
    if len(pieces) == len(xs) or (len(pieces) > 1 and span.step != 1):
        return None
    cut: list[Node] = []
    for source, start, size in pieces:
        spans = list(node.attribute)
        if len(pieces) == 1:
            spans[axis] = Span(span.start - start, span.size, span.step)
        else:
            first, last = max(low - start, 0), min(high - start, size - 1)
            spans[axis] = Span(first, last - first + 1, 1)
        cut.append(build.slice_(source, spans))
    return build.concat(cut, axis)


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

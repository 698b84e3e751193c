"""Movement, continued: pads and concatenations, slices of them, and windows that are plainer movement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from smelt import dtypes
from smelt.graph import IndexLike, Node, Op, Span, build
from smelt.rewrite.rule import Family
from smelt.rewrite.rules.pattern import commonly_expanded, expanded_axes, is_empty, is_op, leaf, narrowed

family = Family("movement")
_f32 = dtypes.float32


# --- pads


def _pad_examples() -> Sequence[Node]:
    fill = leaf(_f32)
    return [build.pad(build.pad(leaf(_f32, 2, 3), ((1, 0), (0, 2)), fill), ((0, 3), (1, 1)), fill)]


@family.rule(Op.PAD, of=Op.PAD, examples=_pad_examples)
def merge_pads(node: Node, inner: Node, x: Node, fill: Node) -> Node | None:
    """pad(pad(x, fill), fill) → pad(x, fill)."""
    if node.sources[1] is not fill:
        return None
    widths = [
        (outside[0] + inside[0], inside[1] + outside[1])
        for outside, inside in zip(node.attribute, inner.attribute, strict=True)
    ]
    return build.pad(x, widths, fill)


def _pad_expand_examples() -> Iterator[Node]:
    fill = build.const(1.0, _f32)
    yield build.pad(build.expand(leaf(_f32, 2, 1, 3), (2, 5, 3)), ((1, 0), (0, 0), (0, 2)), fill)
    yield build.pad(build.expand(leaf(_f32, 1, 1, 3), (2, 5, 3)), ((1, 0), (0, 0), (0, 2)), fill)


@family.rule(Op.PAD, examples=_pad_expand_examples)
def pad_below_expand(node: Node) -> Node | None:
    """pad(expand(x)) → expand(pad(x)), along the axes that are not padded."""
    inner, fill = node.sources
    free = {axis for axis in expanded_axes(inner) if node.attribute[axis] == (0, 0)}
    return build.expand(build.pad(narrowed(inner, free), node.attribute, fill), node.shape) if free else None


def _concat_expand_examples() -> Sequence[Node]:
    a, b = (build.expand(leaf(_f32, n, 1, 1), (n, 4, 5)) for n in (2, 3))
    c = build.expand(leaf(_f32, 1, 1, 5), (3, 4, 5))
    return [build.concat([a, b], 0), build.concat([a, c], 0)]


@family.rule(Op.CONCAT, examples=_concat_expand_examples)
def concat_below_expand(node: Node) -> Node | None:
    """concat(expand(x), expand(y)) → expand(concat(x, y)), along the other axes that all of them repeat."""
    common = commonly_expanded(node.sources) - {node.attribute}
    if not common:
        return None
    return build.expand(build.concat([narrowed(source, common) for source in node.sources], node.attribute), node.shape)


# --- slices of pads and concatenations


def _slice_pad_examples() -> Iterator[Node]:
    fill = leaf(_f32)
    padded = build.pad(leaf(_f32, 5, 7), ((2, 1), (0, 3)), fill)
    yield build.slice_(padded, (Span(2, 5, 1), Span(0, 7, 1)))
    yield build.slice_(padded, (Span(1, 3, 1), Span(0, 8, 1)))
    yield build.slice_(padded, (Span(6, 2, -3), Span(2, 3, 1)))
    yield build.slice_(padded, (Span(0, 2, 1), Span(2, 3, 1)))
    yield build.slice_(padded, (Span(0, 8, 1), Span(9, 2, -1)))


@family.rule(Op.SLICE, of=Op.PAD, examples=_slice_pad_examples)
def slice_below_pad(node: Node, inner: Node, x: Node, fill: Node) -> Node | None:
    """slice(pad(x)) → pad(slice(x)), without the padding that is cut off; or the fill, if nothing else is left."""
    if is_empty(node.shape):
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


def _slice_concat_examples() -> Iterator[Node]:
    x = build.concat([leaf(_f32, n, 4) for n in (2, 3, 5)], 0)
    whole = Span(0, 4, 1)
    yield build.slice_(x, (Span(2, 3, 1), whole))
    yield build.slice_(x, (Span(9, 3, -2), Span(3, 2, -1)))
    yield build.slice_(x, (Span(1, 4, 1), whole))
    yield build.slice_(x, (Span(3, 5, 1), Span(1, 2, 1)))


@family.rule(Op.SLICE, of=Op.CONCAT, examples=_slice_concat_examples)
def slice_below_concat(node: Node, inner: Node, *xs: Node) -> Node | None:
    """slice(concat(x, y, …)) → the slice of only the tensors that it touches."""
    if is_empty(node.shape):
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


def _nested_concat_examples() -> Sequence[Node]:
    a, b, c = (leaf(_f32, 2, n) for n in (1, 2, 3))
    return [build.concat([build.concat([a, b], 1), c], 1), build.concat([c, build.concat([a, b], 1), a], 1)]


@family.rule(Op.CONCAT, examples=_nested_concat_examples)
def flatten_concat(node: Node) -> Node | None:
    """concat(concat(x, y), z) → concat(x, y, z)."""
    nested = [is_op(source, Op.CONCAT) and source.attribute == node.attribute for source in node.sources]
    if not any(nested):
        return None
    flat: list[Node] = []
    for source, opened in zip(node.sources, nested, strict=True):
        flat += source.sources if opened else (source,)
    return build.concat(flat, node.attribute) if len(flat) <= MAXIMUM_PIECES else None


def _empty_piece_examples() -> Sequence[Node]:
    a, b = leaf(_f32, 2, 3), leaf(_f32, 0, 3)
    return [build.concat([a, b], 0), build.concat([b, a, a], 0)]


@family.rule(Op.CONCAT, examples=_empty_piece_examples)
def drop_empty_pieces(node: Node) -> Node | None:
    """concat(x, nothing) → x."""
    kept = [source for source in node.sources if source.shape[node.attribute] != 0]
    return build.concat(kept, node.attribute) if kept and len(kept) < len(node.sources) else None


def _adjacent_examples() -> Iterator[Node]:
    x, y = leaf(_f32, 7, 5), leaf(_f32, 3, 5)

    def rows(start: int, size: int, step: int = 1) -> Node:
        return build.slice_(x, (Span(start, size, step), Span(0, 5, 1)))

    yield build.concat([rows(0, 3), rows(3, 4)], 0)
    yield build.concat([y, rows(1, 2), rows(3, 1), rows(4, 2), y], 0)
    yield build.concat([rows(6, 2, -2), rows(2, 2, -2)], 0)


@family.rule(Op.CONCAT, examples=_adjacent_examples)
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


def _one_element_examples() -> Sequence[Node]:
    x = leaf(_f32, 5, 7)
    return [build.window(x, 0, 1), build.window(x, 1, 1, 3, 2)]


@family.rule(Op.WINDOW, examples=_one_element_examples)
def window_is_slice(node: Node) -> Node | None:
    """Windows of one element → every step-th element, with a new axis."""
    (x,) = node.sources
    axis, size, step, _ = node.attribute
    if size != 1:
        return None
    spans = [Span(0, node.shape[k], step) if k == axis else Span(0, extent, 1) for k, extent in enumerate(x.shape)]
    return build.reshape(build.slice_(x, spans), node.shape)


def _side_by_side_examples() -> Sequence[Node]:
    x = leaf(_f32, 6, 4, 5)
    return [build.window(x, 0, 3, 3), build.window(x, 1, 4), build.window(x, 2, 5, 9)]


@family.rule(Op.WINDOW, examples=_side_by_side_examples)
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

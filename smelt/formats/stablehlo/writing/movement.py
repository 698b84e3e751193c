"""Movement: what is another shape, order or part of a tensor."""

from __future__ import annotations

from smelt.formats.stablehlo.writing.body import Body, Value, integers, reaches_end, refuse
from smelt.graph import Node, Span, as_index, certain, size_of


def reshape(body: Body, node: Node, x: Value) -> Value:
    return body.reshape(x, node.shape)


def permute(body: Body, node: Node, x: Value) -> Value:
    return body.transpose(x, node.attribute)


def expand(body: Body, node: Node, x: Value) -> Value:
    return body.spread(x, node.shape, range(x.rank))


def iota(body: Body, node: Node) -> Value:
    return body.iota(node.dtype, node.shape, 0)


def pad(body: Body, node: Node, x: Value, fill: Value) -> Value:
    low, high = zip(*node.attribute, strict=True)
    if not all(isinstance(n, int) for n in (*low, *high)):
        parts = [body.extents(sizes) for sizes in (low, high, [0] * x.rank)]
        return body.op("dynamic_pad", [x, fill, *parts], node.dtype, node.shape)
    return body.op(
        "pad",
        [x, fill],
        node.dtype,
        node.shape,
        edge_padding_low=integers(low),
        edge_padding_high=integers(high),
        interior_padding=integers([0] * x.rank),
    )


def slice_(body: Body, node: Node, x: Value) -> Value:
    """Steps are positive there: what goes backwards is turned around first."""
    x = body.reverse(x, [k for k, span in enumerate(node.attribute) if span.step < 0])
    spans = []
    for span, whole in zip(node.attribute, x.shape, strict=True):
        if span.size == 0:
            spans.append(Span(0, 0, 1))
            continue
        span = span if span.step > 0 else Span(size_of(as_index(whole) - 1 - span.start), span.size, -span.step)
        if span.step > 1 and not certain(span.size - 1) and not reaches_end(span, whole):
            raise refuse(node, "every other element of a part that may be empty, of an axis whose size is not known")
        spans.append(span)
    if spans == [Span(0, size, 1) for size in x.shape]:
        return x
    return body.slice(x, spans)


def concat(body: Body, node: Node, *xs: Value) -> Value:
    return body.concatenate(xs, node.attribute)


def window(body: Body, node: Node, x: Value) -> Value:
    """One slice for each place in the windows, side by side along a last axis."""
    axis, size, step, dilation = node.attribute
    count = node.shape[axis]
    whole = [Span(0, n, 1) for n in x.shape]
    parts = []
    for k in range(size):
        part = body.slice(x, [*whole[:axis], Span(k * dilation, count, step), *whole[axis + 1 :]])
        parts.append(body.reshape(part, (*part.shape, 1)))
    return body.concatenate(parts, x.rank)

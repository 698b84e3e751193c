"""Movement: what is another shape, order or part of a tensor."""

from __future__ import annotations

from smelt.formats.stablehlo.writing.body import Body, Value, integers, refuse
from smelt.graph import Node, upper


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
        raise refuse(node, "padding of a size that is not known")
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
    spans: list[tuple[int, int, int]] = []
    for (start, size, step), whole in zip(node.attribute, x.shape, strict=True):
        if not isinstance(start, int) or not isinstance(size, int) or not isinstance(whole, int):
            if (start, size, step) != (0, whole, 1):
                raise refuse(node, "a part of an axis whose size is not known")
            raise refuse(node, "an axis whose size is not known")
        first, stride = (start, step) if step > 0 else (whole - 1 - start, -step)
        spans.append((first, first + (size - 1) * stride + 1, stride) if size else (0, 0, 1))
    if all(span == (0, size, 1) for span, size in zip(spans, x.shape, strict=True)):
        return x
    return body.slice(x, spans)


def concat(body: Body, node: Node, *xs: Value) -> Value:
    return body.concatenate(xs, node.attribute)


def window(body: Body, node: Node, x: Value) -> Value:
    """One slice for each place in the windows, side by side along a last axis."""
    axis, size, step, dilation = node.attribute
    count = upper(node.shape[axis])
    if not all(isinstance(n, int) for n in node.shape):
        raise refuse(node, "windows along an axis whose size is not known")
    parts = []
    for k in range(size):
        start = k * dilation
        spans = [
            (start, start + (count - 1) * step + 1 if count else start, step) if at == axis else (0, upper(n), 1)
            for at, n in enumerate(x.shape)
        ]
        part = body.slice(x, spans)
        parts.append(body.reshape(part, (*part.shape, 1)))
    return body.concatenate(parts, x.rank)

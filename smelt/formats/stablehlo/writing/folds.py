"""Reductions, running reductions, and products of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from smelt.dtypes import DType, compute_dtype, int64
from smelt.formats.mlir import Attribute, Coded
from smelt.formats.stablehlo.writing.body import Body, Value, integers, pairs_of
from smelt.graph import Node, Shape, Window, identity, label_sizes

_COMBINED: Final = {"add": "add", "mul": "multiply", "max": "maximum", "min": "minimum"}
_BOOLS: Final = {"max": "or", "min": "and"}


def combining(op: str, dtype: DType) -> Callable[[Body, Value, Value], Value]:
    """A reduction of the graph as a function of two scalars."""
    if op == "logaddexp":
        return _logaddexp
    name = _BOOLS[op] if dtype.is_bool else _COMBINED[op]
    return lambda body, a, b: body.binary(name, a, b)


def _logaddexp(body: Body, a: Value, b: Value) -> Value:
    """Twice the same infinity is that infinity."""
    large = body.binary("maximum", a, b)
    apart = body.binary("subtract", a, b)
    small = body.unary("exponential", body.unary("negate", body.unary("abs", apart)))
    found = body.binary("add", large, body.unary("log_plus_one", small))
    return body.select(body.compare("EQ", a, b), body.binary("add", a, body.like(_LOG_2, a)), found)


_LOG_2: Final = 0.6931471805599453


def reduce(body: Body, node: Node, x: Value) -> Value:
    """Sums and products of 16-bit floats are of wider ones, and rounded once."""
    op, axes = node.attribute
    wide = compute_dtype(x.dtype) if op in ("add", "mul") and x.dtype.is_float else x.dtype
    x = body.convert(x, wide)
    found = body.reduce(x, body.constant(identity(op, wide), wide), axes, combining(op, wide))
    return body.convert(found, node.dtype)


def scan(body: Body, node: Node, x: Value) -> Value:
    """Windows that reach back to the first element. Their sizes are numbers, so where that of the axis is not known,
    the whole axis is folded for each element, without what comes behind it.
    """
    op, axis = node.attribute
    size = x.shape[axis]
    if 0 in x.shape:
        return x
    if not isinstance(size, int):
        pairs = (*x.shape[: axis + 1], *x.shape[axis:])
        before = body.compare("GE", body.iota(int64, pairs, axis), body.iota(int64, pairs, axis + 1))
        spread = body.spread(x, pairs, [k + (k >= axis) for k in range(x.rank)])
        start = body.constant(identity(op, x.dtype), x.dtype)
        known = body.select(before, spread, body.spread(start, pairs, []))
        return body.reduce(known, start, [axis + 1], combining(op, x.dtype))
    windows = [Window(k, size if k == axis else 1, 1, 1) for k in range(x.rank)]
    pads = [(size - 1 if k == axis else 0, 0) for k in range(x.rank)]
    return fold_windows(body, op, x, windows, pads, x.shape)


def fold_windows(
    body: Body, op: str, x: Value, windows: Sequence[Window], pads: Sequence[tuple[int, int]], shape: Shape
) -> Value:
    """Windows along each axis, of a tensor that is padded with what changes nothing, each folded to one element."""
    attributes: dict[str, Attribute] = {
        "window_dimensions": integers([window.size for window in windows]),
        "window_strides": integers([window.step for window in windows]),
        "base_dilations": integers([1] * x.rank),
        "window_dilations": integers([window.dilation for window in windows]),
        "padding": pairs_of(pads),
    }
    function = combining(op, x.dtype)
    region = body.region([(x.dtype, ())] * 2, lambda inner, a, b: [function(inner, a, b)])
    start = body.constant(identity(op, x.dtype), x.dtype)
    [found] = body.ops("reduce_window", [x, start], [(x.dtype, shape)], attributes, [region])
    return found


def contract(body: Body, node: Node, a: Value, b: Value) -> Value:
    """A product summed over labels: those of one operand alone first, then a dot_general, then the order of axes."""
    left, right, out = (list(labels) for labels in node.attribute)
    sizes = label_sizes(node)
    narrow = a.dtype.kind is node.dtype.kind and a.dtype.bits <= node.dtype.bits
    a, b = (x if narrow else body.convert(x, node.dtype) for x in (a, b))
    a, left = _summed(body, node, a, left, right)
    b, right = _summed(body, node, b, right, left)
    batch = [label for label in left if label in right and label in out]
    inner = [label for label in left if label in right and label not in out]
    free = [label for label in (*left, *right) if (label in left) != (label in right)]
    numbers = (
        ("lhs_batching_dimensions", tuple(left.index(label) for label in batch)),
        ("rhs_batching_dimensions", tuple(right.index(label) for label in batch)),
        ("lhs_contracting_dimensions", tuple(left.index(label) for label in inner)),
        ("rhs_contracting_dimensions", tuple(right.index(label) for label in inner)),
    )
    given = [*batch, *free]
    product = body.op(
        "dot_general",
        [a, b],
        node.dtype,
        tuple(sizes[label] for label in given),
        dot_dimension_numbers=Coded("#stablehlo.dot", numbers),
    )
    return body.transpose(product, [given.index(label) for label in out])


def _summed(body: Body, node: Node, x: Value, own: list[int], other: list[int]) -> tuple[Value, list[int]]:
    """An operand summed over the labels that nobody else has."""
    kept = node.attribute.out
    alone = [k for k, label in enumerate(own) if label not in other and label not in kept]
    if not alone:
        return x, own
    x = body.convert(x, node.dtype)
    zero = body.constant(0, x.dtype)
    found = body.reduce(x, zero, alone, combining("add", x.dtype))
    return found, [label for k, label in enumerate(own) if k not in alone]

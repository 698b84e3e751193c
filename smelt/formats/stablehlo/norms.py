"""Batch norms, and functions over many tensors by a body."""

from __future__ import annotations

from typing import Final

from smelt.formats.mlir import Typed
from smelt.formats.stablehlo import regions
from smelt.formats.stablehlo.movement import along
from smelt.formats.stablehlo.rows import Call, Row, Value, rows
from smelt.graph import Node, build, product_of, upper


def _settings(call: Call) -> tuple[float, int]:
    """Epsilon, and the axis of the features."""
    epsilon, axis = call.attribute("epsilon"), call.integer("feature_index")
    epsilon = epsilon.value if isinstance(epsilon, Typed) else epsilon
    x: Node = call.operands[0]
    if not isinstance(epsilon, int | float) or not 0 <= axis < x.rank:
        call.wrong("it has an epsilon and an axis of features")
    if any(vector.shape != (x.shape[axis],) for vector in call.operands[1:5] if vector.rank != x.rank):
        call.wrong("scale, offset, mean and variance have an element for each feature")
    return float(epsilon), axis


def _normalized(x: Node, mean: Node, variance: Node, axis: int, epsilon: float) -> Node:
    centered = build.sub(x, along(mean, x.shape, axis))
    deviation = build.sqrt(build.shift(variance, epsilon))
    return build.div(centered, along(deviation, x.shape, axis))


def _scaled(x: Node, scale: Node, offset: Node, axis: int) -> Node:
    return build.add(build.mul(x, along(scale, x.shape, axis)), along(offset, x.shape, axis))


def _mean(x: Node, axis: int) -> Node:
    """The mean over all axes but that of the features."""
    axes = [k for k in range(x.rank) if k != axis]
    count = upper(product_of(x.shape[k] for k in axes))
    total = build.reduce("add", x, axes)
    return build.div(total, build.const(float(count), x.dtype, total.shape))


def _moments(x: Node, axis: int) -> tuple[Node, Node]:
    mean = _mean(x, axis)
    centered = build.sub(x, along(mean, x.shape, axis))
    return mean, _mean(build.mul(centered, centered), axis)


def _inference(call: Call) -> Node:
    epsilon, axis = _settings(call)
    x, scale, offset, mean, variance = call.operands
    return _scaled(_normalized(x, mean, variance, axis, epsilon), scale, offset, axis)


def _training(call: Call) -> list[Value]:
    epsilon, axis = _settings(call)
    x, scale, offset = call.operands
    mean, variance = _moments(x, axis)
    return [_scaled(_normalized(x, mean, variance, axis, epsilon), scale, offset, axis), mean, variance]


def _gradient(call: Call) -> list[Value]:
    """Of operand, scale and offset."""
    epsilon, axis = _settings(call)
    x, scale, mean, variance, given = call.operands
    normal = _normalized(x, mean, variance, axis, epsilon)
    axes = [k for k in range(x.rank) if k != axis]
    by_scale = build.reduce("add", build.mul(given, normal), axes)
    by_offset = build.reduce("add", given, axes)
    count = float(upper(product_of(x.shape[k] for k in axes)))
    rest = build.sub(build.scale(given, count), along(by_offset, x.shape, axis))
    rest = build.sub(rest, build.mul(normal, along(by_scale, x.shape, axis)))
    factor = build.div(scale, build.scale(build.sqrt(build.shift(variance, epsilon)), count))
    return [build.mul(rest, along(factor, x.shape, axis)), by_scale, by_offset]


def _map(call: Call) -> Node:
    """A body of scalars, applied to all elements."""
    xs = call.operands
    if not xs or any(x.shape != xs[0].shape for x in xs):
        call.wrong("all operands have one shape")
    body = regions.read_body(call, [x.dtype for x in xs], [call.dtype])
    return regions.lifted(body, xs)[0]


_NORM: Final = ("epsilon", "feature_index")

ROWS: Final = rows(
    {
        "batch_norm_inference": Row(_inference, _NORM, 5),
        "batch_norm_training": Row(_training, _NORM, 3),
        "batch_norm_grad": Row(_gradient, _NORM, 5),
        "map": Row(_map, (), None, "any body"),
    }
)

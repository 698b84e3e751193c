"""Constants, and operations that only move elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from smelt.dtypes import DType
from smelt.formats.mlir import Dense, Ranked, Resource
from smelt.formats.stablehlo import types
from smelt.formats.stablehlo.rows import Call, Row, rows
from smelt.graph import IndexLike, Node, Shape, build, index, size_of
from smelt.tensor import interop


def constant_node(array: Any, dtype: Any, shape: Any) -> Node:
    """An array as a node: a scalar is a number in the graph, anything larger a tensor beside it."""
    if array.size == 1:
        return build.const(array.reshape(())[()].item(), dtype, shape)
    return interop.to_node(array, "constant", dtype)


def read_constant(call: Call) -> Node:
    """The elements of the attribute `value`."""
    dtype, shape = call.type()
    value = call.attribute("value")
    key = id(value), dtype, shape
    node = call.reading.constants.get(key)
    if node is None:
        node = call.reading.constants[key] = constant(call, value, dtype, shape)
    return node


def constant(call: Call, value: Any, dtype: DType, shape: Shape) -> Node:
    """The elements of an attribute."""
    if isinstance(value, Resource):
        data = call.reading.module.resources.get(value.key)
        if data is None or not isinstance(value.type, Ranked):
            call.wrong(f"there is no resource {value.key}")
        value = Dense(value.type, False, data)
    if not isinstance(value, Dense) or (not value.data and 0 not in shape):
        call.refuse("a constant of another kind than dense<…>")
    if 0 in shape:
        return build.const(0, dtype, shape)
    return constant_node(types.array(value), dtype, shape)


def _iota(call: Call) -> Node:
    dtype, shape = call.type()
    axis = call.integer("iota_dimension")
    if not 0 <= axis < len(shape):
        call.wrong(f"there is no axis {axis}")
    return iota(dtype, shape, axis)


def iota(dtype: Any, shape: Sequence[IndexLike], axis: int) -> Node:
    """The position along an axis, everywhere."""
    row = build.cast(build.iota(shape[axis], dtype.part), dtype)
    return along(row, tuple(shape), axis)


def along(row: Node, shape: tuple[IndexLike, ...], axis: int) -> Node:
    """A vector laid along one axis of a shape."""
    placed = build.reshape(row, tuple(size if k == axis else 1 for k, size in enumerate(shape)))
    return build.expand(placed, shape)


def placed(x: Node, shape: tuple[IndexLike, ...], axes: Sequence[int]) -> Node:
    """x with its axes at the places of these axes of a shape, and repeated along all others."""
    if list(axes) != sorted(axes):
        order = sorted(range(len(axes)), key=lambda k: axes[k])
        x, axes = build.permute(x, order), [axes[k] for k in order]
    if not axes:
        return build.spread(x, shape)
    sizes: list[IndexLike] = [1] * len(shape)
    for size, axis in zip(x.shape, axes, strict=True):
        sizes[axis] = size
    return build.expand(build.reshape(x, tuple(sizes)), shape)


def _broadcast_in_dim(call: Call) -> Node:
    (x,), shape = call.operands, call.shape
    return placed(x, shape, call.axes("broadcast_dimensions", len(shape), x.rank))


def _broadcast(call: Call) -> Node:
    return build.broadcast_to(call.operands[0], call.shape)


def reverse(x: Node, axes: Sequence[int]) -> Node:
    """The elements along some axes from the last to the first."""
    if not axes or 0 in x.shape:
        return x
    return build.slice_(x, [(size - 1, size, -1) if k in axes else (0, size, 1) for k, size in enumerate(x.shape)])


def _reverse(call: Call) -> Node:
    (x,) = call.operands
    return reverse(x, call.axes("dimensions", x.rank))


def cut(x: Node, spans: Sequence[tuple[int, int]]) -> Node:
    """Elements from a start up to a limit, on each axis."""
    return build.slice_(x, [(start, limit - start, 1) for start, limit in spans])


def _slice(call: Call) -> Node:
    (x,) = call.operands
    starts, limits = call.integers("start_indices"), call.integers("limit_indices")
    steps = call.integers("strides", [1] * x.rank)
    if len(starts) != x.rank or len(limits) != x.rank:
        call.wrong(f"its spans do not fit {x.rank} axes")
    for start, limit, step, size in zip(starts, limits, steps, x.shape, strict=True):
        if not 0 <= start <= limit or step < 1 or (isinstance(size, int) and limit > size):
            call.misfit(f"{start}:{limit}:{step} is no part of an axis of {size}")
    return build.slice_(x, [(a, -(-(b - a) // s), s) for a, b, s in zip(starts, limits, steps, strict=True)])


def spread_out(x: Node, gaps: Sequence[IndexLike], fill: Node) -> Node:
    """So many elements `fill` between each two elements of an axis."""
    for axis, gap in enumerate(gaps):
        size = x.shape[axis]
        if gap == 0 or size in (0, 1):
            continue
        wide = build.reshape(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
        wide = build.pad(wide, [(0, gap if k == axis + 1 else 0) for k in range(wide.rank)], fill)
        joined = build.reshape(wide, (*x.shape[:axis], size * (gap + 1), *x.shape[axis + 1 :]))
        length = size * (gap + 1) - gap
        x = build.slice_(joined, [(0, length if k == axis else n, 1) for k, n in enumerate(joined.shape)])
    return x


def _not_negative(amount: IndexLike) -> IndexLike:
    return max(amount, 0) if isinstance(amount, int) else size_of(index.maximum(amount, 0))


def padded(x: Node, pairs: Sequence[tuple[IndexLike, IndexLike]], fill: Node) -> Node:
    """Elements added at both ends of each axis, or cut off where a number is negative."""
    x = build.pad(x, [(_not_negative(low), _not_negative(high)) for low, high in pairs], fill)
    spans: list[tuple[IndexLike, IndexLike, int]] = []
    for (low, high), size in zip(pairs, x.shape, strict=True):
        start, end = _not_negative(-low), _not_negative(-high)
        spans.append((start, _not_negative(size - start - end), 1))
    return build.slice_(x, [(0 if size == 0 else start, size, step) for start, size, step in spans])


def _pad(call: Call) -> Node:
    x, fill = call.operands
    zeros = [0] * x.rank
    low, high = call.integers("edge_padding_low", zeros), call.integers("edge_padding_high", zeros)
    gaps = call.integers("interior_padding", zeros)
    if min(gaps, default=0) < 0:
        call.wrong("interior padding is negative")
    return padded(spread_out(x, gaps, fill), list(zip(low, high, strict=True)), fill)


def _concatenate(call: Call) -> Node:
    return build.concat(call.operands, call.integer("dimension"))


def _dimension_size(call: Call) -> Node:
    axis = call.integer("dimension")
    if not 0 <= axis < call.operands[0].rank:
        call.wrong(f"there is no axis {axis}")
    return build.size_node(call.operands[0].shape[axis], call.dtype)


ROWS: Final = rows(
    {
        "constant": Row(read_constant, ("value",), 0),
        "iota": Row(_iota, ("iota_dimension",), 0),
        "reshape": Row(lambda call: build.reshape(call.operands[0], call.shape), (), 1),
        "transpose": Row(
            lambda call: build.permute(call.operands[0], call.integers("permutation")), ("permutation",), 1
        ),
        "broadcast_in_dim": Row(_broadcast_in_dim, ("broadcast_dimensions",), 1),
        "broadcast": Row(_broadcast, ("broadcast_sizes",), 1),
        "reverse": Row(_reverse, ("dimensions",), 1),
        "slice": Row(_slice, ("start_indices", "limit_indices", "strides"), 1),
        "pad": Row(_pad, ("edge_padding_low", "edge_padding_high", "interior_padding"), 2),
        "concatenate": Row(_concatenate, ("dimension",)),
        "get_dimension_size": Row(_dimension_size, ("dimension",), 1),
    }
)

"""Elements found by value, and put in order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from smelt.dtypes import int64, uint64
from smelt.formats.mlir import Coded
from smelt.formats.stablehlo.writing.body import Body, Value, integers, number, refuse
from smelt.formats.stablehlo.writing.folds import combining
from smelt.graph import Node, Shape, Span


def _vectors(body: Body, indices: Sequence[Value], shape: Shape) -> Value:
    """Index tensors side by side along a last axis, as int64: bounds in a narrow type would wrap."""
    parts = []
    for index in indices:
        if index.dtype is uint64:
            index = body.binary("minimum", index, body.like(int64.maximum, index))
        parts.append(body.reshape(body.convert(index, int64), (*shape, 1)))
    return body.concatenate(parts, len(shape))


def gather(body: Body, node: Node, x: Value, *indices: Value) -> Value:
    """Windows of one element: axes that go along with one of the result are batches."""
    axes = node.attribute.axes
    indexed = sorted((k for k in range(x.rank) if axes[k] < 0), key=lambda k: -axes[k])
    along = [k for k in range(x.rank) if axes[k] >= 0]
    if 0 in node.shape:
        return body.constant(0, node.dtype, node.shape)
    numbers = (
        ("offset_dims", ()),
        ("collapsed_slice_dims", tuple(sorted(indexed))),
        ("operand_batching_dims", tuple(along)),
        ("start_indices_batching_dims", tuple(axes[k] for k in along)),
        ("start_index_map", tuple(indexed)),
        ("index_vector_dim", node.rank),
    )
    return body.op(
        "gather",
        [x, _vectors(body, indices, node.shape)],
        node.dtype,
        node.shape,
        dimension_numbers=Coded("#stablehlo.gather", numbers),
        slice_sizes=integers([1] * x.rank),
        indices_are_sorted=False,
    )


def scatter(body: Body, node: Node, target: Value, updates: Value, *indices: Value) -> Value:
    """Updates of one element: those outside of the target are dropped."""
    op, axes, _ = node.attribute
    indexed = sorted((k for k in range(target.rank) if axes[k] < 0), key=lambda k: -axes[k])
    along = [k for k in range(target.rank) if axes[k] >= 0]
    if not indices:
        raise refuse(node, "updates without an index")
    if 0 in updates.shape or 0 in target.shape:
        return target
    numbers = (
        ("update_window_dims", ()),
        ("inserted_window_dims", tuple(sorted(indexed))),
        ("input_batching_dims", tuple(along)),
        ("scatter_indices_batching_dims", tuple(axes[k] for k in along)),
        ("scatter_dims_to_operand_dims", tuple(indexed)),
        ("index_vector_dim", updates.rank),
    )
    types = [(target.dtype, ())] * 2
    if op == "set":
        region = body.region(types, lambda inner, old, new: [new])
    else:
        function = combining(op, target.dtype)
        region = body.region(types, lambda inner, old, new: [function(inner, old, new)])
    attributes = {
        "scatter_dimension_numbers": Coded("#stablehlo.scatter", numbers),
        "indices_are_sorted": False,
        "unique_indices": False,
    }
    operands = [target, _vectors(body, indices, updates.shape), updates]
    [found] = body.ops("scatter", operands, [(target.dtype, target.shape)], attributes, [region])
    return found


def _canonical(body: Body, x: Value) -> Value:
    """One zero and one NaN, which is the greatest in the total order."""
    zero = body.like(0.0, x)
    plain = body.select(body.compare("EQ", x, zero), zero, x)
    return body.select(body.compare("NE", x, x), body.like(math.nan, x), plain)


def sort(body: Body, node: Node, x: Value) -> Value:
    """The elements, or where they stood; equals keep their order, and NaN counts as the greatest."""
    axis, descending, indices = node.attribute
    size, count = x.shape[axis], node.shape[axis]
    xs = [x, body.iota(int64, x.shape, axis)] if indices else [x]

    def before(inner: Body, a: Value, b: Value, *_: Value) -> list[Value]:
        direction = "GT" if descending else "LT"
        if not x.dtype.is_float:
            return [inner.compare(direction, a, b)]
        return [inner.compare(direction, _canonical(inner, a), _canonical(inner, b), "TOTALORDER")]

    region = body.region([(v.dtype, ()) for v in xs for _ in range(2)], before)
    types = [(v.dtype, v.shape) for v in xs]
    found = body.ops("sort", xs, types, {"dimension": number(axis), "is_stable": True}, [region])[-1]
    if count == size:
        return found
    return body.slice(found, [Span(0, n, 1) for n in node.shape])


def nonzero(body: Body, node: Node, x: Value) -> Value:
    """Positions of what is not true become the size, and go to the end."""
    size = x.shape[0]
    if not isinstance(size, int):
        raise refuse(node, "a vector whose size is not known")
    places = body.iota(int64, x.shape, 0)
    places = body.select(x, places, body.like(size, places))
    region = body.region([(int64, ())] * 2, lambda inner, a, b: [inner.compare("LT", a, b)])
    attributes = {"dimension": number(0), "is_stable": True}
    [found] = body.ops("sort", [places], [(int64, x.shape)], attributes, [region])
    wanted = node.shape[0]
    if not isinstance(wanted, int):
        raise refuse(node, "so many positions as are not known")
    if wanted <= size:
        return found if wanted == size else body.slice(found, [Span(0, wanted, 1)])
    return body.concatenate([found, body.constant(size, int64, (wanted - size,))], 0)

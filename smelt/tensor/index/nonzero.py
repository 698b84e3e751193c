"""Functions whose results have as many elements as the values say: positions of what is not zero, and bin counts.

They compute at the call, since the size of the result depends on it. Inside `jit`, where sizes must be known
beforehand, `size` (or `length`) says how large the result is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from smelt import runtime
from smelt.dtypes import bool_, float64, int64
from smelt.errors import ArgumentError, DTypeError, ShapeError, TraceError
from smelt.graph import Index, IndexLike, Node, build, product_of, row_major, shape_text, variable
from smelt.tensor.arguments import integer
from smelt.tensor.handle import computed, node_of, wrap

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "argwhere",
    "bincount",
    "flatnonzero",
    "nonzero",
]

_FOUND = "found"  # the dim whose value is counted


def nonzero(x: Tensor, *, size: int | None = None, fill_value: int | Sequence[int] | None = None) -> tuple[Tensor, ...]:
    """Where x is not zero: one int64 tensor for each axis, in row-major order.

    With `size` the result has that many elements, whatever is found: later ones are left out, missing ones are
    `fill_value` (0).

    >>> [axis.tolist() for axis in sm.nonzero(sm.asarray([[0, 5], [7, 0]]))]
    [[0, 1], [1, 0]]
    """
    node = _axes_wanted(x, "nonzero")
    fills = _fills(fill_value, node.rank, "nonzero")
    return tuple(wrap(axis) for axis in _coordinates(node, size, fills, "nonzero"))


def argwhere(x: Tensor, *, size: int | None = None, fill_value: int | Sequence[int] | None = None) -> Tensor:
    """Where x is not zero: one row of coordinates for each element. `size` and `fill_value` are those of `nonzero`.

    >>> sm.argwhere(sm.asarray([[0, 5], [7, 0]])).tolist()
    [[0, 1], [1, 0]]
    """
    node = _axes_wanted(x, "argwhere")
    fills = _fills(fill_value, node.rank, "argwhere")

    def rows(axes: list[Node]) -> list[Node]:
        columns = [build.reshape(axis, (axis.shape[0], 1)) for axis in axes]
        return [build.concat(columns, 1) if len(columns) > 1 else columns[0]]

    mask = _mask(node)
    if size is not None:
        return wrap(rows(_placed(mask, node.shape, _wanted(size, "argwhere"), fills))[0])
    count = _count(mask, "argwhere")
    if count == 0:
        return wrap(build.const(0, int64, (0, node.rank)))
    found = variable(_FOUND, 1, mask.shape[0])
    [result] = runtime.realize_sized(rows(_placed(mask, node.shape, found, ())), {_FOUND: count})
    return wrap(result)


def flatnonzero(x: Tensor, *, size: int | None = None, fill_value: int | None = None) -> Tensor:
    """Where the flattened x is not zero, as int64. `size` and `fill_value` are those of `nonzero`.

    >>> sm.flatnonzero(sm.asarray([0, 5, 7])).tolist()
    [1, 2]
    """
    node = node_of(x, "flatnonzero")
    flat = build.reshape(node, (product_of(node.shape),))
    fills = _fills(fill_value, 1, "flatnonzero")
    return wrap(_coordinates(flat, size, fills, "flatnonzero")[0])


def _axes_wanted(x: Tensor, name: str) -> Node:
    node = node_of(x, name)
    if node.rank == 0:
        raise ShapeError(
            f"{name}: a tensor of rank 0 has no axes to give coordinates for", hint="Reshape it to (1,) first."
        )
    return node


def _fills(value: int | Sequence[int] | None, rank: int, name: str) -> tuple[int, ...]:
    values = list(value) if isinstance(value, tuple | list) else [0 if value is None else value] * rank
    if len(values) != rank:
        raise ArgumentError(f"{name}: {len(values)} fill values for {rank} axes", rule="one for each axis, or one.")
    return tuple(_fill(integer(v, name, "a fill value"), name) for v in values)


def _fill(value: int, name: str) -> int:
    if not int64.minimum <= value <= int64.maximum:
        raise ArgumentError(f"{name}: the fill value {value} is not int64", rule="positions are int64.")
    return value


def _wanted(size: int, name: str) -> int:
    number = integer(size, name, "size")
    if number < 0:
        raise ArgumentError(f"{name}: size must not be negative, got {number}")
    return number


def _mask(node: Node) -> Node:
    return build.cast(build.reshape(node, (product_of(node.shape),)), bool_)


def _coordinates(node: Node, size: int | None, fills: tuple[int, ...], name: str) -> list[Node]:
    mask = _mask(node)
    if size is not None:
        return _placed(mask, node.shape, _wanted(size, name), fills)
    count = _count(mask, name)
    if count == 0:
        return [build.const(0, int64, (0,)) for _ in node.shape]
    found = variable(_FOUND, 1, mask.shape[0])
    return runtime.realize_sized(_placed(mask, node.shape, found, ()), {_FOUND: count})


def _placed(mask: Node, shape: tuple[IndexLike, ...], size: IndexLike, fills: tuple[int, ...]) -> list[Node]:
    """The coordinates in a shape of the true elements of its flattened mask; `fills` where there are too few."""
    flat = build.nonzero(mask, size)
    there = build.lt(flat, build.size_node(mask.shape[0], int64)) if fills else None
    axes: list[Node] = []
    for k, stride in enumerate(row_major(shape)):
        axis = flat
        if stride != 1:
            axis = build.binary("floordiv", axis, build.size_node(stride, int64))
        if k > 0:
            axis = build.binary("mod", axis, build.size_node(shape[k], int64))
        axes.append(axis if there is None else build.where(there, axis, build.const(fills[k], int64)))
    return axes


def _count(mask: Node, name: str) -> int:
    """How many elements of a mask are true; the mask is computed with it."""
    total = build.reduce("add", build.cast(mask, int64), (0,))
    return counted([mask, total], name, "size")


def counted(nodes: Sequence[Node], name: str, argument: str) -> int:
    """Compute nodes; the value of the last one."""
    symbolic = any(isinstance(size, Index) for node in nodes for size in node.shape)
    try:
        if not symbolic:
            return int(runtime.realize(nodes)[-1].attribute.numpy())
    except TraceError:
        pass
    raise TraceError(
        f"{name}: the size of the result depends on values, which are not known while a function is traced",
        hint=f"Give {argument}=, a size that is large enough." if argument else "Call it outside of jit and vmap.",
    )


def bincount(x: Tensor, weights: Tensor | None = None, *, minlength: int = 0, length: int | None = None) -> Tensor:
    """How often each of the numbers 0, 1, 2, … occurs, up to the largest one; or the sums of their weights.

    The result has at least `minlength` elements. With `length` it has exactly that many, and other numbers do not
    count.

    >>> sm.bincount(sm.asarray([1, 3, 1])).tolist()
    [0, 2, 0, 1]
    """
    node = computed(node_of(x, "bincount"), "bincount")
    if node.rank != 1:
        raise ShapeError(f"bincount: x must be a vector, not of shape {shape_text(node.shape)}")
    if not node.dtype.is_integer:
        raise DTypeError(f"bincount: x must be integers, not {node.dtype}", hint="Cast it to int64 first.")
    updates = _weights(node, weights)
    if length is not None:
        return wrap(_bins(node, updates, _wanted(length, "bincount")))
    least = integer(minlength, "bincount", "minlength")
    if least < 0:
        raise ArgumentError(f"bincount: minlength must not be negative, got {least}")
    count = max(least, _largest(node) + 1)
    if count == 0:
        return wrap(build.const(0, updates.dtype, (0,)))
    if count > 2**62:
        raise ShapeError(f"bincount: there would be {count} elements", rule="no memory holds as many.")
    if runtime.is_traced(updates):
        return wrap(_bins(node, updates, count))
    # One compiled graph serves all lengths up to the next power of two.
    bins = variable("bins", 1, 1 << (count - 1).bit_length())
    [result] = runtime.realize_sized([_bins(node, updates, bins)], {"bins": count})
    return wrap(result)


def _weights(node: Node, weights: Tensor | None) -> Node:
    if weights is None:
        return build.const(1, int64, node.shape)
    given = node_of(weights, "bincount")
    if given.shape != node.shape:
        shapes = f"{shape_text(node.shape)} and {shape_text(given.shape)}"
        raise ShapeError(f"bincount: x and weights have shapes {shapes}", rule="each element has a weight.")
    return given if given.dtype.is_float else build.cast(given, float64)


def _largest(node: Node) -> int:
    """The largest number, -1 if there is none."""
    if node.shape[0] == 0:
        return -1
    ends = [build.cast(build.reduce(op, node, (0,)), int64) for op in ("min", "max")]
    largest = counted(ends, "bincount", "length")
    smallest = int(runtime.realize(ends)[0].attribute.numpy())
    if smallest < 0:
        raise ArgumentError(f"bincount: x has the negative element {smallest}", rule="numbers are counted from 0 on.")
    return largest


def _bins(node: Node, updates: Node, length: IndexLike) -> Node:
    zeros = build.const(0, updates.dtype, (length,))
    return build.scatter("add", zeros, updates, [node], (-1,), name="bincount")

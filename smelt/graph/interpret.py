"""The reference: what every graph computes, with NumPy, one precision wider than the program asks for.

Values between nodes have the node's own dtype, so that a chain rounds where a program that stores them would round.
Inside a node floats are computed in float64 (float64 itself is summed in extended precision), integers wrap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from smelt.dtypes import DType, cast_array, float64
from smelt.errors import ArgumentError, InternalError
from smelt.graph import composites
from smelt.graph.index import Index, IndexLike
from smelt.graph.node import Node, constant_array, topological
from smelt.graph.ops import BINARY, CONTROL, FOLDS, UNARY, Loop, Op, identity

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"
Leaves = Mapping[Node, Array] | Callable[[Node], Array]
Observer = Callable[[Node, Any, tuple[Node, ...], bool], None]


def interpret(
    roots: Iterable[Node], leaves: Leaves, dims: Mapping[str, int] | None = None, observer: Observer | None = None
) -> list[Array]:
    """The values of the roots. `leaves` gives the array of each LEAF, `dims` the value of each symbolic size by name.

    Results may share memory with each other and with the leaves. An observer is shown each node with its value (a list
    of them for a loop or branch), what it reads, and whether it lies in a body.
    """
    wanted = list(roots)
    program = _Program(leaves, dims or {}, observer)
    with np.errstate(all="ignore"):
        return _run(wanted, program)


class _Program(NamedTuple):
    """What is the same for all graphs of a program."""

    leaves: Leaves
    dims: Mapping[str, int]
    observer: Observer | None


def _run(roots: Sequence[Node], program: _Program, arguments: Sequence[Array] | None = None) -> list[Array]:
    """The values of the roots; `arguments` are those of the parameters, in a closed graph."""
    plan = _plan(roots)
    remaining = Counter([*roots, *(source for read in plan.values() for source in read)])
    values: dict[Node, Any] = {}  # an array; a list of arrays for a loop or branch
    for node, read in plan.items():
        inputs = [values[source] for source in read]
        if node.op in CONTROL and node.leaf is None:
            values[node] = _CONTROL[node.op](node, inputs, program)
        else:
            values[node] = _value(node, inputs, program, arguments or ())
        if program.observer is not None:
            program.observer(node, values[node], read, arguments is not None)
        del inputs  # or what is not read any more would live until the next node
        for source in read:
            remaining[source] -= 1
            if remaining[source] == 0:
                del values[source]
    return [values[root] for root in roots]


def _value(node: Node, inputs: list[Any], program: _Program, arguments: Sequence[Array]) -> Array:
    shape = _shape(node.shape, program.dims)
    if node.op is Op.LEAF or node.leaf is not None:
        value = _leaf(node, program.leaves, shape)
    elif node.op is Op.PARAMETER:
        value = arguments[node.attribute]
    elif node.op is Op.ITEM:
        value = inputs[0][node.attribute]
    else:
        value = np.asarray(_RULES[node.op](node, inputs, shape, program.dims))
    if value.shape != shape or value.dtype != node.dtype.numpy:
        raise InternalError(f"{node!r} gave {value.dtype}{list(value.shape)} where {list(shape)} was expected")
    return value


def _loop(node: Node, inputs: list[Array], program: _Program) -> list[Array]:
    """The last states and the stacked ys, iteration by iteration."""
    loop: Loop = node.attribute
    dims = program.dims
    first = loop.states + loop.constants
    states, constants, xs = inputs[: loop.states], inputs[loop.states : first], inputs[first:]
    length = None if loop.length is None else _size(loop.length, dims)
    slices: list[list[Array]] = [[] for _ in loop.body[loop.states :]]
    done = 0
    while done != length:
        if loop.test is not None and not _run(loop.test, program, [*states, *constants])[0]:
            break
        at = length - 1 - done if loop.reverse and length is not None else done
        slice_ = [np.asarray(x[at]) for x in xs]
        made = _run(loop.body, program, [*states, *constants, *slice_, np.asarray(done, np.int64)])
        states = made[: loop.states]
        for row, value in zip(slices, made[loop.states :], strict=True):
            row.append(value)
        done += 1
    return [*states, *(_stacked(y, row, loop, dims) for y, row in zip(loop.body[loop.states :], slices, strict=True))]


def _stacked(y: Node, row: list[Array], loop: Loop, dims: Mapping[str, int]) -> Array:
    return np.stack(row[::-1] if loop.reverse else row) if row else np.empty((0, *_shape(y.shape, dims)), y.dtype.numpy)


def _shape(sizes: Sequence[IndexLike], dims: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(_size(size, dims) for size in sizes)


def _branch(node: Node, inputs: list[Array], program: _Program) -> list[Array]:
    predicate, *operands = inputs
    return _run(node.attribute.true if predicate else node.attribute.false, program, operands)


def _host(node: Node, inputs: list[Array], program: _Program) -> list[Array]:
    shapes = [_shape(shape, program.dims) for _, shape in node.attribute.types]
    return list(node.attribute.function(inputs, shapes))


_CONTROL: Final = {Op.LOOP: _loop, Op.BRANCH: _branch, Op.HOST: _host}


def _plan(roots: Sequence[Node]) -> dict[Node, tuple[Node, ...]]:
    """What each node reads, in the order of evaluation; a composite reads the root of its expansion."""
    plan: dict[Node, tuple[Node, ...]] = {}

    def reads(node: Node) -> tuple[Node, ...]:
        composite = node.op is Op.COMPOSITE and node.leaf is None
        plan[node] = (composites.expand(node),) if composite else node.sources if node.leaf is None else ()
        return plan[node]

    return {node: plan[node] for node in topological(roots, reads=reads)}


def _size(size: IndexLike, dims: Mapping[str, int]) -> int:
    if not isinstance(size, Index):
        return size
    for variable in size.variables():
        value = dims.get(variable.name)
        if value is None:
            raise ArgumentError(f"interpret: no value was given for the dim {variable.name!r}")
        if not variable.low <= value <= variable.high:
            raise ArgumentError(f"interpret: {variable.name} = {value} is outside {variable.low}..{variable.high}")
    return int(size.evaluate(dims))


def _leaf(node: Node, leaves: Leaves, shape: tuple[int, ...]) -> Array:
    leaf = node if node.leaf is None else node.leaf
    if callable(leaves):
        value = np.asarray(leaves(leaf))
    elif leaf in leaves:
        value = np.asarray(leaves[leaf])
    else:
        raise ArgumentError(f"interpret: no value was given for {leaf!r}")
    if value.shape != shape or value.dtype != node.dtype.numpy:
        raise ArgumentError(f"interpret: the value of {leaf!r} is {value.dtype}{list(value.shape)}")
    return value


def _widened(x: Array) -> Array:
    """Floats of any kind, which are all but bools and integers, in float64."""
    return x if x.dtype.kind in "biu" else x.astype(np.float64, copy=False)


def _pad(node: Node, inputs: list[Array], shape: tuple[int, ...], dims: Mapping[str, int]) -> Array:
    x, fill = inputs
    result = np.full(shape, fill, x.dtype)
    starts = [_size(before, dims) for before, _ in node.attribute]
    result[tuple(slice(start, start + size) for start, size in zip(starts, x.shape, strict=True))] = x
    return result


def _slice(node: Node, inputs: list[Array], shape: tuple[int, ...], dims: Mapping[str, int]) -> Array:
    result = inputs[0]
    for axis, span in enumerate(node.attribute):
        positions = _size(span.start, dims) + span.step * np.arange(shape[axis])
        if positions.size and not (positions.min() >= 0 and positions.max() < result.shape[axis]):
            raise InternalError(f"{node!r} reads outside axis {axis} of {list(result.shape)}")
        result = result.take(positions, axis)
    return result


def _window(node: Node, inputs: list[Array], shape: tuple[int, ...], dims: Mapping[str, int]) -> Array:
    axis, size, step, dilation = node.attribute
    positions = step * np.arange(shape[axis])[:, None] + dilation * np.arange(size)
    return np.moveaxis(inputs[0].take(positions, axis), axis + 1, -1)


def function_array(name: str, dtype: DType, inputs: Sequence[Array]) -> Array:
    """An elementwise function of one or two arrays, floats computed in float64 and rounded once."""
    function = (UNARY if len(inputs) == 1 else BINARY)[name]
    return cast_array(np.asarray(function.rule(*map(_widened, inputs))), dtype)


def fold_array(x: Array, dtype: DType, op: str, axes: tuple[int, ...]) -> Array:
    """A reduction, in a wider type where there is one."""
    wide = _wide(dtype)
    start = np.asarray(identity(op, dtype)).astype(wide)[()]
    return _narrowed(np.asarray(FOLDS[op].reduce(x.astype(wide), axis=axes, initial=start)), dtype)


def _wide(dtype: DType) -> np.dtype[Any]:
    """The type in which sums are made."""
    return np.dtype(np.longdouble) if dtype is float64 else np.dtype(np.float64) if dtype.is_float else dtype.numpy


def _narrowed(x: Array, dtype: DType) -> Array:
    """From the type in which sums were made to the node's own."""
    return cast_array(x.astype(np.float64), dtype) if dtype.is_float else x.astype(dtype.numpy)


def _contract(node: Node, inputs: list[Array], shape: tuple[int, ...], dims: Mapping[str, int]) -> Array:
    left, right, out = node.attribute
    a, b = (cast_array(x, node.dtype).astype(_wide(node.dtype)) for x in inputs)
    # Products by BLAS, which knows neither extended precision nor integers.
    fast = node.dtype.is_float and node.dtype is not float64
    return _narrowed(np.asarray(np.einsum(a, left, b, right, out, optimize=fast)), node.dtype)


def scan_array(x: Array, dtype: DType, op: str, axis: int) -> Array:
    """A scan along an axis, in a wider type where there is one."""
    return _narrowed(FOLDS[op].accumulate(x.astype(_wide(dtype)), axis), dtype)


def _coordinates(axes: tuple[int, ...], indices: list[Array], shape: tuple[int, ...]) -> list[Array]:
    """For each axis that a gather or scatter names: the coordinate of every element of a shape."""
    grid = np.indices(shape, sparse=True)
    return [np.broadcast_to(grid[k], shape) if k >= 0 else _signed(indices[-1 - k]) for k in axes]


def _signed(index: Array) -> Array:
    """Indices as int64; those beyond it, which lie outside any axis, as the greatest."""
    return (np.minimum(index, np.uint64(2**63 - 1)) if index.dtype == np.uint64 else index).astype(np.int64)


def _gather(node: Node, inputs: list[Array], shape: tuple[int, ...], dims: Mapping[str, int]) -> Array:
    x, *indices = inputs
    at = _coordinates(node.attribute.axes, indices, shape)
    inside = tuple(np.clip(i, 0, max(size - 1, 0)) for i, size in zip(at, x.shape, strict=True))
    return np.asarray(x[inside])


def _scatter(node: Node, inputs: list[Array], shape: tuple[int, ...], dims: Mapping[str, int]) -> Array:
    target, updates, *indices = inputs
    op, axes, _ = node.attribute
    at = _coordinates(axes, indices, updates.shape)
    inside = np.ones(updates.shape, bool)
    for i, size in zip(at, shape, strict=True):
        inside &= (i >= 0) & (i < size)
    places = tuple(i[inside] for i in at)
    if op == "set":
        result = target.copy()
        # Assignment by index arrays does not say which of several values for one place stays: the last has to.
        flat = np.ravel_multi_index(places, shape)
        _, last = np.unique(flat[::-1], return_index=True)
        keep = flat.size - 1 - last
        result.reshape(-1)[flat[keep]] = updates[inside][keep]
        return result
    wide = target.astype(_wide(node.dtype))
    FOLDS[op].at(wide, places, updates[inside].astype(wide.dtype))
    return _narrowed(wide, node.dtype)


def _sort(node: Node, inputs: list[Array], shape: tuple[int, ...], dims: Mapping[str, int]) -> Array:
    axis, descending, indices = node.attribute
    x = np.moveaxis(_widened(inputs[0]), axis, -1)
    # Stable in both directions: a descending order is an ascending one of what is left of the last element.
    order = np.argsort(x[..., ::-1], -1, kind="stable")[..., ::-1] if descending else np.argsort(x, -1, kind="stable")
    if descending:
        order = x.shape[-1] - 1 - order
    order = np.moveaxis(order[..., : shape[axis]], -1, axis)
    return order.astype(np.int64) if indices else np.take_along_axis(inputs[0], order, axis)


def _nonzero(node: Node, inputs: list[Array], shape: tuple[int, ...], dims: Mapping[str, int]) -> Array:
    found = np.flatnonzero(inputs[0])[: shape[0]]
    return np.concatenate([found, np.full(shape[0] - found.size, inputs[0].size)]).astype(np.int64)


_RULES: Final[dict[Op, Callable[[Node, list[Array], tuple[int, ...], Mapping[str, int]], Array]]] = {
    Op.CONST: lambda node, inputs, shape, dims: constant_array(node),
    Op.IOTA: lambda node, inputs, shape, dims: cast_array(np.arange(shape[0]), node.dtype),
    Op.RESHAPE: lambda node, inputs, shape, dims: inputs[0].reshape(shape),
    Op.PERMUTE: lambda node, inputs, shape, dims: inputs[0].transpose(node.attribute),
    Op.EXPAND: lambda node, inputs, shape, dims: np.broadcast_to(inputs[0], shape),
    Op.PAD: _pad,
    Op.SLICE: _slice,
    Op.CONCAT: lambda node, inputs, shape, dims: np.concatenate(inputs, node.attribute),
    Op.WINDOW: _window,
    Op.UNARY: lambda node, inputs, shape, dims: function_array(node.attribute, node.dtype, inputs),
    Op.BINARY: lambda node, inputs, shape, dims: function_array(node.attribute, node.dtype, inputs),
    Op.WHERE: lambda node, inputs, shape, dims: np.where(*inputs),
    Op.CAST: lambda node, inputs, shape, dims: cast_array(inputs[0], node.dtype),
    Op.BITCAST: lambda node, inputs, shape, dims: inputs[0].copy().view(node.dtype.numpy),
    Op.REDUCE: lambda node, inputs, shape, dims: fold_array(inputs[0], node.dtype, *node.attribute),
    Op.SCAN: lambda node, inputs, shape, dims: scan_array(inputs[0], node.dtype, *node.attribute),
    Op.CONTRACT: _contract,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.SORT: _sort,
    Op.NONZERO: _nonzero,
    Op.COMPOSITE: lambda node, inputs, shape, dims: inputs[0],
    Op.ALIAS: lambda node, inputs, shape, dims: inputs[0],
}

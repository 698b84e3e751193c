"""Node-level functions: how the frontend, the composites and every rewrite rule make nodes.

They check their arguments and raise typed errors about the user's call; `name=` is what the message calls it. Shapes
are tuples of `int | Index`; two sizes are equal when they are structurally equal. A call that changes nothing gives
its source back.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType, Scalar, bool_, int64
from smelt.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from smelt.graph import ops
from smelt.graph.index import Index, IndexLike, as_index, product_of, size_of
from smelt.graph.mistakes import check_fold, dtypes_differ, no_order, not_taken, only_stored
from smelt.graph.node import Node, Shape, constant_bytes, made
from smelt.graph.ops import Op, Span
from smelt.graph.shapes import (
    as_size,
    broadcast_shapes,
    certain,
    checked_shape,
    checked_span,
    described,
    marked,
    normalized_axes,
    normalized_axis,
    shape_text,
)

# --- movement


def reshape(x: Node, shape: Iterable[Any], *, name: str = "reshape") -> Node:
    """The same elements in another shape. Sizes must be given: see `infer_reshape` for -1."""
    target = shape if type(shape) is tuple else tuple(shape)
    if target == x.shape:
        return x
    target = checked_shape(target, name)
    if product_of(target) != product_of(x.shape):
        raise ShapeError(
            f"{name}: the number of elements changes\n" + marked((x.shape, ()), " to ", (target, ())),
            rule=f"{product_of(x.shape)} elements cannot be {product_of(target)}.",
        )
    return made(Op.RESHAPE, x.dtype, target, (x,))


def permute(x: Node, axes: Iterable[Any], *, name: str = "permute") -> Node:
    """Axes in another order: axis i of the result is axis axes[i] of x."""
    order = normalized_axes(axes, x.rank, name)
    if len(order) != x.rank:
        raise ArgumentError(
            f"{name}: {len(order)} axes given for a tensor of rank {x.rank}", rule="name every axis once."
        )
    if order == tuple(range(x.rank)):
        return x
    return made(Op.PERMUTE, x.dtype, tuple(x.shape[axis] for axis in order), (x,), order)


def expand(x: Node, shape: Iterable[Any], *, name: str = "expand") -> Node:
    """Axes of size 1 repeated; the rank stays."""
    target = shape if type(shape) is tuple else tuple(shape)
    if target == x.shape:
        return x
    target = checked_shape(target, name)
    wrong = [axis for axis, (old, new) in enumerate(zip(x.shape, target, strict=False)) if old not in (new, 1)]
    if wrong or len(target) != x.rank:
        raise ShapeError(
            f"{name}: cannot expand\n" + marked((x.shape, wrong), " to ", (target, wrong)),
            rule="the rank must stay the same." if len(target) != x.rank else "only axes of size 1 can grow.",
        )
    return made(Op.EXPAND, x.dtype, target, (x,))


def broadcast_to(x: Node, shape: Iterable[Any], *, name: str = "broadcast_to") -> Node:
    """Any shape that NumPy's rules allow: new axes in front, axes of size 1 repeated."""
    target = shape if type(shape) is tuple else tuple(shape)
    if len(target) < x.rank:
        raise ShapeError(
            f"{name}: cannot broadcast {shape_text(x.shape)} to {shape_text(target)}", rule="the rank cannot shrink."
        )
    return expand(with_rank(x, len(target)), target, name=name)


def with_rank(x: Node, rank: int) -> Node:
    """x with axes of size 1 in front, up to a rank."""
    missing = rank - len(x.shape)
    return made(Op.RESHAPE, x.dtype, (1,) * missing + x.shape, (x,)) if missing else x


def spread(x: Node, shape: Shape) -> Node:
    """`broadcast_to` for a shape that `broadcast_shapes` gave, so that there is nothing to check."""
    if x.shape == shape:
        return x
    x = with_rank(x, len(shape))
    return x if x.shape == shape else made(Op.EXPAND, x.dtype, shape, (x,))


def pad(x: Node, widths: Iterable[tuple[IndexLike, IndexLike]], fill: Node, *, name: str = "pad") -> Node:
    """(before, after) elements of the scalar `fill` added to each axis."""
    amounts = tuple((as_size(before, name), as_size(after, name)) for before, after in widths)
    if len(amounts) != x.rank:
        raise ArgumentError(
            f"{name}: {len(amounts)} pairs of widths for a tensor of rank {x.rank}",
            rule="give (before, after) for each axis.",
        )
    if fill.shape != () or fill.dtype is not x.dtype:
        raise DTypeError(
            f"{name}: the fill is {fill.dtype}{shape_text(fill.shape)}", rule=f"it must be a {x.dtype} scalar."
        )
    if not all(certain(width) for pair in amounts for width in pair):
        raise ArgumentError(f"{name}: a width is negative: {amounts}", hint="Use a slice to cut elements off.")
    if all(width == 0 for pair in amounts for width in pair):
        return x
    sizes = tuple(size_of(size + before + after) for size, (before, after) in zip(x.shape, amounts, strict=True))
    return made(Op.PAD, x.dtype, sizes, (x, fill), amounts)


def slice_(x: Node, spans: Iterable[tuple[IndexLike, IndexLike, int]], *, name: str = "slice") -> Node:
    """Element i of each axis becomes element start + step*i of x, for i below size."""
    cuts = tuple(Span(as_size(start, name), as_size(size, name), operator.index(step)) for start, size, step in spans)
    if len(cuts) != x.rank:
        raise ArgumentError(f"{name}: {len(cuts)} spans for a tensor of rank {x.rank}", rule="give one for each axis.")
    cuts = tuple(checked_span(span, x.shape, axis, name) for axis, span in enumerate(cuts))
    if all(span == (0, size, 1) for span, size in zip(cuts, x.shape, strict=True)):
        return x
    return made(Op.SLICE, x.dtype, tuple(span.size for span in cuts), (x,), cuts)


def window(x: Node, axis: Any, size: int, step: int = 1, dilation: int = 1, *, name: str = "window") -> Node:
    """All windows of `size` elements, `dilation` apart, that begin `step` apart along an axis.

    The axis counts the windows; the elements of each lie along a new last axis.
    """
    number = normalized_axis(axis, x.rank, name)
    if min(size, step, dilation) < 1:
        raise ArgumentError(
            f"{name}: size {size}, step {step}, dilation {dilation}", rule="all of them must be positive."
        )
    room = x.shape[number] - (size - 1) * dilation
    if not certain(room - 1):
        raise ShapeError(
            f"{name}: a window reaches over {(size - 1) * dilation + 1} elements, more than axis {number} has\n"
            + marked((x.shape, {number}))
        )
    count = size_of((as_index(room) - 1) // step + 1)
    shape = (*x.shape[:number], count, *x.shape[number + 1 :], size)
    return made(Op.WINDOW, x.dtype, shape, (x,), ops.Window(number, size, step, dilation))


def concat(xs: Sequence[Node], axis: Any, *, name: str = "concat") -> Node:
    """Tensors one after the other along an axis; all other sizes must agree."""
    if not xs:
        raise ArgumentError(f"{name}: there is nothing to join", rule="give at least one tensor.")
    first = xs[0]
    number = normalized_axis(axis, first.rank, name)
    for at, x in enumerate(xs):
        if x.dtype is not first.dtype:
            raise DTypeError(
                f"{name}: dtypes differ: tensor 0 is {first.dtype} and tensor {at} is {x.dtype}",
                hint="Cast them to one dtype.",
            )
        wrong = [k for k, (a, b) in enumerate(zip(first.shape, x.shape, strict=False)) if a != b and k != number]
        if x.rank != first.rank or wrong:
            raise ShapeError(
                f"{name}: tensors 0 and {at} do not fit together\n"
                + marked((first.shape, wrong), " and ", (x.shape, wrong)),
                rule=f"all sizes except that of axis {number} must be the same.",
            )
    if len(xs) == 1:
        return first
    total: IndexLike = 0
    for x in xs:
        total = x.shape[number] + total
    shape: Shape = (*first.shape[:number], size_of(total), *first.shape[number + 1 :])
    return made(Op.CONCAT, first.dtype, shape, tuple(xs), number)


# --- constants and elementwise functions

_SCALARS: Final = frozenset({bool, int, float})


def _results(functions: dict[str, ops.Function]) -> dict[tuple[str, DType], DType]:
    return {
        (name, dtype): bool_ if function.boolean else dtype
        for name, function in functions.items()
        for dtype in dtypes.ALL
        if function.takes(dtype)
    }


# What a function gives for a dtype; what is missing here is not allowed.
UNARY_RESULTS: Final = _results(ops.UNARY)
BINARY_RESULTS: Final = _results(ops.BINARY)


def _pairs() -> Any:
    """What complex nodes are made by."""
    from smelt.graph import pairs  # which are made by builders

    return pairs


def const(value: Scalar | complex, dtype: DType, shape: Shape = ()) -> Node:
    """A scalar, converted as a cast would, and expanded to `shape`."""
    if dtype.is_complex:
        return _pairs().constant(value, dtype, shape)  # type: ignore[no-any-return]
    if type(value) not in _SCALARS:  # asked first: most are
        value = value.item() if isinstance(value, np.generic) else value
        if not isinstance(value, bool | int | float):
            raise ArgumentError(f"const: {value!r} is not a bool, an integer or a float")
    node = made(Op.CONST, dtype, (), (), constant_bytes(value, dtype))  # type: ignore[arg-type]
    return node if shape == () else spread(node, checked_shape(shape, "const"))


def iota(n: IndexLike, dtype: DType, *, name: str = "iota") -> Node:
    """0, 1, 2, … of shape (n,)."""
    if dtype.is_bool or dtype.is_complex or dtype in dtypes.STORAGE:
        raise DTypeError(f"{name}: {dtype} cannot count", hint="Use an integer or a float dtype.")
    return made(Op.IOTA, dtype, checked_shape((n,), name))


def unary(function: str, x: Node, *, name: str = "") -> Node:
    """An elementwise function of one tensor, named as in `ops.UNARY`."""
    dtype = UNARY_RESULTS.get((function, x.dtype))
    if dtype is None:
        if x.dtype.is_complex and function in _pairs().UNARY:
            return _pairs().UNARY[function](x)  # type: ignore[no-any-return]
        raise not_taken(ops.UNARY, function, x.dtype, name)
    return made(Op.UNARY, dtype, x.shape, (x,), function)


def binary(function: str, a: Node, b: Node, *, name: str = "") -> Node:
    """An elementwise function of two tensors of one dtype, named as in `ops.BINARY`; shapes broadcast."""
    if a.dtype is not b.dtype:
        raise dtypes_differ(name or function, a, b)
    dtype = BINARY_RESULTS.get((function, a.dtype))
    if dtype is None and (not a.dtype.is_complex or function not in _pairs().BINARY):
        raise not_taken(ops.BINARY, function, a.dtype, name)
    if a.shape != b.shape:
        shape = broadcast_shapes(a.shape, b.shape, name or function)
        a, b = spread(a, shape), spread(b, shape)
    if dtype is None:
        return _pairs().BINARY[function](a, b)  # type: ignore[no-any-return]
    return made(Op.BINARY, dtype, a.shape, (a, b), function)


def where(condition: Node, a: Node, b: Node, *, name: str = "where") -> Node:
    """`a` where the condition holds, `b` elsewhere; shapes broadcast."""
    if not condition.dtype.is_bool:
        raise DTypeError(
            f"{name}: the condition is {condition.dtype}",
            rule="it must be bool.",
            hint="Compare it first, as in x != 0.",
        )
    if a.dtype is not b.dtype:
        raise dtypes_differ(name, a, b)
    if not (a.shape == b.shape == condition.shape):
        shape = broadcast_shapes(condition.shape, broadcast_shapes(a.shape, b.shape, name), name)
        condition, a, b = spread(condition, shape), spread(a, shape), spread(b, shape)
    return made(Op.WHERE, a.dtype, a.shape, (condition, a, b))


def cast(x: Node, dtype: DType) -> Node:
    """The values in another dtype: floats saturate to integers and NaN becomes 0, integers wrap."""
    if x.dtype is dtype:
        return x
    if x.dtype.is_complex or dtype.is_complex:
        return _pairs().cast(x, dtype)  # type: ignore[no-any-return]
    return made(Op.CAST, dtype, x.shape, (x,))


def bitcast(x: Node, dtype: DType, *, name: str = "bitcast") -> Node:
    """The bits as another dtype of the same width."""
    if x.dtype is dtype:
        return x
    if x.dtype.bits != dtype.bits:
        raise DTypeError(
            f"{name}: {x.dtype} has {x.dtype.bits} bits and {dtype} has {dtype.bits}",
            rule="the widths must be the same.",
        )
    if not {x.dtype, dtype} <= set(dtypes.ALL):
        raise DTypeError(f"{name}: {x.dtype} and {dtype} are not both computed with", hint="Cast instead.")
    if dtype.is_bool:
        raise DTypeError(f"{name}: not every byte is a bool", hint="Compare with 0 instead.")
    return made(Op.BITCAST, dtype, x.shape, (x,))


# --- functions by name

neg: Final = partial(unary, "neg")
exp: Final = partial(unary, "exp")
log: Final = partial(unary, "log")
sqrt: Final = partial(unary, "sqrt")
rsqrt: Final = partial(unary, "rsqrt")
reciprocal: Final = partial(unary, "reciprocal")
tanh: Final = partial(unary, "tanh")
erf: Final = partial(unary, "erf")
logical_not: Final = partial(unary, "not")
add: Final = partial(binary, "add")
sub: Final = partial(binary, "sub")
mul: Final = partial(binary, "mul")
div: Final = partial(binary, "div")
maximum: Final = partial(binary, "max")
minimum: Final = partial(binary, "min")
bitwise_and: Final = partial(binary, "and")
eq: Final = partial(binary, "eq")
ne: Final = partial(binary, "ne")
lt: Final = partial(binary, "lt")
le: Final = partial(binary, "le")


def scale(x: Node, value: Scalar) -> Node:
    """x times a number."""
    return binary("mul", x, const(value, x.dtype, x.shape))


def shift(x: Node, value: Scalar) -> Node:
    """x plus a number."""
    return binary("add", x, const(value, x.dtype, x.shape))


# --- reductions and contractions


def reduce(op: str, x: Node, axes: Iterable[Any], *, keep_axes: bool = False, name: str = "") -> Node:
    """The axes folded by add, mul, max or min: gone, or kept with size 1. Without axes x itself comes back."""
    check_fold(op, ops.REDUCTIONS, "reduction", x.dtype, name or op)
    gone = tuple(sorted(normalized_axes(axes, x.rank, name or op)))
    if not gone:
        return x
    if x.dtype.is_complex and op == "mul":
        return _pairs().product(x, gone, keep_axes)  # type: ignore[no-any-return]
    shape = tuple(size for axis, size in enumerate(x.shape) if axis not in gone)
    result = made(Op.REDUCE, x.dtype, shape, (x,), ops.Reduction(op, gone))
    if not keep_axes:
        return result
    return reshape(result, tuple(1 if axis in gone else size for axis, size in enumerate(x.shape)))


def contract(
    a: Node,
    b: Node,
    left: Sequence[int],
    right: Sequence[int],
    out: Sequence[int],
    dtype: DType | None = None,
    *,
    name: str = "contract",
) -> Node:
    """The product of a and b, one label per axis as in einsum, summed over the labels that `out` does not keep.

    The factors are converted to `dtype` (theirs, if not given) before they are multiplied.
    """
    if a.dtype is not b.dtype:
        raise DTypeError(f"{name}: dtypes differ: {a.dtype} and {b.dtype}", hint="Cast one of them first.")
    dtype = dtype or dtypes.sum_dtype(a.dtype)
    if dtype in dtypes.STORAGE:
        raise DTypeError(f"{name}: nothing is summed as {dtype}", hint="Cast the result instead.")
    if a.dtype.is_bool or dtype.is_bool:
        raise DTypeError(f"{name}: bool is not supported", hint="Cast to an integer or a float first.")
    if a.dtype.kind > dtype.kind and a.dtype.is_inexact:
        raise DTypeError(f"{name}: {a.dtype} cannot be summed as {dtype}", hint="Cast the operands first.")
    if len(left) != a.rank or len(right) != b.rank:
        raise ArgumentError(
            f"{name}: {len(left)} and {len(right)} labels for ranks {a.rank} and {b.rank}",
            rule="each axis needs a label.",
        )
    for labels in (left, right, out):
        if len(set(labels)) != len(labels):
            raise ArgumentError(f"{name}: a label appears twice in {tuple(labels)}", hint="Take the diagonal first.")
    sizes: dict[int, IndexLike] = dict(zip(left, a.shape, strict=True))
    for axis, (label, size) in enumerate(zip(right, b.shape, strict=True)):
        if sizes.setdefault(label, size) != size:
            raise _sizes_differ(a, b, left.index(label), axis, name)
    missing = [label for label in out if label not in sizes]
    if missing:
        raise ArgumentError(f"{name}: label {missing[0]} of the result belongs to no operand")
    # Equal contractions are equal nodes whatever their labels were called.
    number = {label: at for at, label in enumerate(sizes)}
    attribute = ops.Contraction(*(tuple(number[label] for label in labels) for labels in (left, right, out)))
    if dtype.is_complex:
        return _pairs().contract(a, b, dtype, attribute, name)  # type: ignore[no-any-return]
    return made(Op.CONTRACT, dtype, tuple(sizes[label] for label in out), (a, b), attribute)


def _sizes_differ(a: Node, b: Node, i: int, j: int, name: str, join: str = " with ", hint: str = "") -> ShapeError:
    m, n = a.shape[i], b.shape[j]
    return ShapeError(
        f"{name}: inner sizes differ\n" + marked((a.shape, {i}), join, (b.shape, {j})),
        rule=f"axis {i} of the left operand ({described(m, n)}) must equal axis {j} of the right one "
        f"({described(n, m)}).",
        hint=hint,
    )


def matmul(a: Node, b: Node, dtype: DType | None = None, *, rows: bool = False, name: str = "matmul") -> Node:
    """The matrix product by NumPy's rules: one axis is a vector, axes before the last two are a batch and broadcast.

    With `rows`, every row of `a` meets every row of `b`, not every column: a @ b.mT.
    """
    if a.rank == 0 or b.rank == 0:
        raise ShapeError(
            f"{name}: an operand is a scalar\n" + marked((a.shape, ()), " @ ", (b.shape, ())),
            rule="both operands need at least one axis.",
            hint="Use * to multiply by a scalar.",
        )
    inner = b.rank - 1 if rows else max(b.rank - 2, 0)
    if a.shape[-1] != b.shape[inner]:
        hint = "Did you skip a layer, or should one operand be transposed?"
        raise _sizes_differ(a, b, a.rank - 1, inner, name, " @ ", hint)
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2], name)
    rank = len(batch)
    m, k, n = rank, rank + 1, rank + 2
    a, left = _batched(a, batch)
    b, right = _batched(b, batch)
    own = (m,) if a.rank > len(left) + 1 else ()
    other = (n,) if b.rank > len(right) + 1 else ()
    right += (*other, k) if rows else (k, *other)
    return contract(a, b, (*left, *own, k), right, (*range(rank), *own, *other), dtype, name=name)


inner_products: Final = partial(matmul, rows=True)


def _batched(x: Node, batch: Shape) -> tuple[Node, tuple[int, ...]]:
    """An operand without the batch axes along which it is repeated, and the labels of those that are left."""
    core = x.shape[-2:]
    sizes = x.shape[:-2]
    offset = len(batch) - len(sizes)
    labels = tuple(offset + axis for axis, size in enumerate(sizes) if size == batch[offset + axis])
    return reshape(x, (*(batch[label] for label in labels), *core)), labels


def size_node(size: IndexLike, dtype: DType) -> Node:
    """A size as a scalar: a constant, or for a symbolic size a count that is made when it is known."""
    if not isinstance(size, Index):
        return const(size, dtype)
    if size.low < 0:  # an expression that may be negative counts from its smallest value
        return cast(add(size_node(size - size.low, int64), const(size.low, int64)), dtype)
    return cast(reduce("add", const(1, int64, (size,)), (0,)), dtype)


# --- elements that are found by value or put in order


def gather(
    x: Node,
    indices: Sequence[Node],
    axes: Sequence[int],
    shape: Shape | None = None,
    *,
    checked: bool = False,
    name: str = "gather",
) -> Node:
    """Elements of x found by index tensors, which all have the shape of the result.

    `axes` has an entry for each axis of x: k >= 0 is axis k of the result, -1 - k is index tensor k. Indices count from
    the front; those outside read the nearest element, which `checked` reports.
    """
    shape = indices[0].shape if shape is None else shape
    _check_indices(indices, shape, name)
    for axis, size in zip(axes, x.shape, strict=True):
        if axis < 0 and as_index(size).low == 0 and 0 not in shape and size not in shape:
            raise IndexRangeError(
                f"{name}: there is nothing to read: an indexed axis has size {size}",
                hint="" if size == 0 else "Declare the dim with a lower bound of at least 1.",
            )
    return made(Op.GATHER, x.dtype, shape, (x, *indices), ops.Gathering(tuple(axes), checked))


def scatter(
    op: str,
    target: Node,
    updates: Node,
    indices: Sequence[Node],
    axes: Sequence[int],
    *,
    checked: bool = False,
    name: str = "scatter",
) -> Node:
    """The target with updates combined into the elements that index tensors name; see `Scattering` for `axes`."""
    if target.dtype is not updates.dtype:
        raise DTypeError(f"{name}: the target is {target.dtype}, the updates are {updates.dtype}")
    check_fold(op, ops.SCATTERS, "update", target.dtype, name)
    _check_indices(indices, updates.shape, name)
    if target.dtype.is_complex and op == "mul":
        raise DTypeError(f"{name}: complex numbers are not supported", hint="Read, multiply, and set what comes out.")
    attribute = ops.Scattering(op, tuple(axes), checked)
    return made(Op.SCATTER, target.dtype, target.shape, (target, updates, *indices), attribute)


def _check_indices(indices: Sequence[Node], shape: Shape, name: str) -> None:
    for index in indices:
        if not index.dtype.is_integer:
            raise DTypeError(f"{name}: indices must be integers, not {index.dtype}", hint="Cast them to int64.")
        if index.shape != shape:
            raise ShapeError(f"{name}: index tensors of shapes {index.shape} and {shape}")


def in_range(index: Node, size: IndexLike) -> Node:
    """Where int64 indices lie inside an axis."""
    return bitwise_and(le(const(0, int64), index), lt(index, size_node(size, int64)))


def nonzero(x: Node, size: IndexLike) -> Node:
    """The positions of the true elements of a vector, in order; after the last one, the vector's size."""
    return made(Op.NONZERO, int64, (size,), (cast(x, bool_),))


def scan(op: str, x: Node, axis: int, *, name: str = "") -> Node:
    """Element i along the axis becomes the elements up to and with i, combined."""
    check_fold(op, ops.SCANS, "scan", x.dtype, name or op)
    axis = normalized_axis(axis, x.rank, name or op)
    if op == "logaddexp" and not x.dtype.is_float:
        raise DTypeError(f"{name or op}: {x.dtype} is not supported", hint="Cast to a float first.")
    if x.dtype.is_complex and op == "mul":
        return _pairs().running_product(x, axis)  # type: ignore[no-any-return]
    return x if x.shape[axis] == 1 else made(Op.SCAN, x.dtype, x.shape, (x,), ops.Scanning(op, axis))


def sort(
    x: Node,
    axis: int,
    *,
    descending: bool = False,
    indices: bool = False,
    count: IndexLike | None = None,
    name: str = "sort",
) -> Node:
    """The elements along an axis in order, or (`indices`) where they stood; with `count` only the first ones."""
    axis = normalized_axis(axis, x.rank, name)
    if x.dtype in dtypes.STORAGE:
        raise only_stored(x.dtype, name)
    if x.dtype.is_complex:
        raise no_order(name)
    size = x.shape[axis]
    count = size if count is None else count
    if isinstance(size, int) and not 0 <= count <= size:
        raise ArgumentError(f"{name}: {count} elements are wanted of an axis of {size}")
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return made(Op.SORT, int64 if indices else x.dtype, shape, (x,), ops.Sorting(axis, descending, indices))


# --- composites


def composite(name: str, *sources: Node, **parameters: Any) -> Node:
    """The node of a composite; parameters that are not given take their defaults."""
    from smelt.graph.composites import inferred  # which are written with these functions

    dtype, shape, kept = inferred(name, sources, parameters)
    return made(Op.COMPOSITE, dtype, shape, sources, ops.Composition(name, tuple(sorted(kept.items()))))

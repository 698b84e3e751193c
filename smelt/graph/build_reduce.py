"""Builders of reductions and contractions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from smelt import dtypes
from smelt.dtypes import DType
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph.build_elementwise import add, cast, check_fold, const
from smelt.graph.build_movement import reshape
from smelt.graph.index import Index, IndexLike
from smelt.graph.node import Node, Shape, made
from smelt.graph.ops import REDUCTIONS, Contraction, Op, Reduction
from smelt.graph.shapes import broadcast_shapes, described, marked, normalized_axes


def reduce(op: str, x: Node, axes: Iterable[Any], *, keep_axes: bool = False, name: str = "") -> Node:
    """The axes folded by add, mul, max or min: gone, or kept with size 1. Without axes x itself comes back."""
    if op not in REDUCTIONS:
        raise ArgumentError(
            f"reduce: there is no reduction called {op!r}", hint=f"Use one of: {', '.join(REDUCTIONS)}."
        )
    check_fold(op, x.dtype, name or op)
    gone = tuple(sorted(normalized_axes(axes, x.rank, name or op)))
    if not gone:
        return x
    shape = tuple(size for axis, size in enumerate(x.shape) if axis not in gone)
    result = made(Op.REDUCE, x.dtype, shape, (x,), Reduction(op, gone))
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
    if a.dtype.is_float and not dtype.is_float:
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
    attribute = Contraction(*(tuple(number[label] for label in labels) for labels in (left, right, out)))
    return made(Op.CONTRACT, dtype, tuple(sizes[label] for label in out), (a, b), attribute)


def _sizes_differ(a: Node, b: Node, i: int, j: int, name: str, join: str = " with ", hint: str = "") -> ShapeError:
    m, n = a.shape[i], b.shape[j]
    return ShapeError(
        f"{name}: inner sizes differ\n" + marked((a.shape, {i}), join, (b.shape, {j})),
        rule=f"axis {i} of the left operand ({described(m, n)}) must equal axis {j} of the right one "
        f"({described(n, m)}).",
        hint=hint,
    )


def matmul(a: Node, b: Node, dtype: DType | None = None, *, name: str = "matmul") -> Node:
    """The matrix product by NumPy's rules: one axis is a vector, axes before the last two are a batch and broadcast."""
    if a.rank == 0 or b.rank == 0:
        raise ShapeError(
            f"{name}: an operand is a scalar\n" + marked((a.shape, ()), " @ ", (b.shape, ())),
            rule="both operands need at least one axis.",
            hint="Use * to multiply by a scalar.",
        )
    inner = max(b.rank - 2, 0)
    if a.shape[-1] != b.shape[inner]:
        hint = "Did you skip a layer, or should one operand be transposed?"
        raise _sizes_differ(a, b, a.rank - 1, inner, name, " @ ", hint)
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2], name)
    rank = len(batch)
    m, k, n = rank, rank + 1, rank + 2
    a, left = _batched(a, batch)
    b, right = _batched(b, batch)
    rows = (m,) if a.rank > len(left) + 1 else ()
    columns = (n,) if b.rank > len(right) + 1 else ()
    return contract(a, b, (*left, *rows, k), (*right, k, *columns), (*range(rank), *rows, *columns), dtype, name=name)


def inner_products(a: Node, b: Node, dtype: DType | None = None, *, name: str = "inner_products") -> Node:
    """a @ b.mT: every row of one matrix with every row of the other; axes before the last two broadcast."""
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2], name)
    rank = len(batch)
    m, n, k = rank, rank + 1, rank + 2
    a, left = _batched(a, batch)
    b, right = _batched(b, batch)
    return contract(a, b, (*left, m, k), (*right, n, k), (*range(rank), m, n), dtype, name=name)


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
        return cast(add(size_node(size - size.low, dtypes.int64), const(size.low, dtypes.int64)), dtype)
    return cast(reduce("add", const(1, dtypes.int64, (size,)), (0,)), dtype)

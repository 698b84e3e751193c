"""Reductions: merged, and freed from axes and movements that they do not need.

Max, min and integer sums do not depend on the order of their operands; float sums and products do, so rules that may
change the order exist twice, once as `exact` and once as `reassociates`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from smelt import dtypes
from smelt.graph import Dim, Node, Op, build, constant_value
from smelt.rewrite.rule import Contract, Family, Matcher
from smelt.rewrite.rules.pattern import expanded_axes, leaf, narrowed, only_ones_differ, positive, proper_axes

family = Family("reduction")
_f32, _i32 = dtypes.float32, dtypes.int32


def _any_order(node: Node) -> bool:
    """True if the operands of this REDUCE may come in any order without changing a bit."""
    return node.attribute.op in ("max", "min") or not node.dtype.is_float


def _twins(
    examples: Callable[[str, dtypes.DType], Sequence[Node]], of: Op | None = None, sole: bool = False
) -> Callable[[Matcher], Matcher]:
    """Enter a rule that may change the order of operands: once for reductions that do not mind, once for the others."""

    def exact_examples() -> Sequence[Node]:
        return [*examples("max", _f32), *examples("add", _i32), *examples("mul", dtypes.uint8)]

    def rough_examples() -> Sequence[Node]:
        return [*examples("add", _f32), *examples("mul", _f32)]

    def enter(function: Matcher) -> Matcher:
        def exactly(node: Node, *below: Node) -> Node | None:
            return function(node, *below) if _any_order(node) else None

        def roughly(node: Node, *below: Node) -> Node | None:
            return None if _any_order(node) else function(node, *below)

        summary = str(function.__doc__).rstrip(".")
        exactly.__name__, exactly.__doc__ = function.__name__, summary
        roughly.__name__, roughly.__doc__ = f"{function.__name__}_float", f"{summary}: float sums and products"
        family.rule(Op.REDUCE, of=of, examples=exact_examples, sole=sole)(exactly)
        family.rule(Op.REDUCE, of=of, examples=rough_examples, contract=Contract.REASSOCIATES, sole=sole)(roughly)
        return function

    return enter


# --- merging


def _merge_examples(op: str, dtype: dtypes.DType) -> Sequence[Node]:
    x = leaf(dtype, 3, 4, 5, 2)
    return [build.reduce(op, build.reduce(op, x, (1,)), (0, 2)), build.reduce(op, build.reduce(op, x, (0, 3)), (0,))]


@_twins(_merge_examples, of=Op.REDUCE, sole=True)
def merge_reductions(node: Node, inner: Node, x: Node) -> Node | None:
    """A reduction of the same reduction → one over all axes."""
    op, axes = inner.attribute
    left = [axis for axis in range(x.rank) if axis not in axes]
    return (
        build.reduce(op, x, (*axes, *(left[axis] for axis in node.attribute.axes))) if op == node.attribute.op else None
    )


def _permute_examples(op: str, dtype: dtypes.DType) -> Sequence[Node]:
    x = build.permute(leaf(dtype, 2, 3, 4), (2, 0, 1))
    return [build.reduce(op, x, axes) for axes in ((0,), (1,), (0, 2), (0, 1, 2))]


@_twins(_permute_examples, of=Op.PERMUTE)
def reduce_below_permute(node: Node, inner: Node, x: Node) -> Node | None:
    """reduce(permute(x)) → permute(reduce(x))."""
    order = inner.attribute
    gone = [order[axis] for axis in node.attribute.axes]
    kept = [axis for position, axis in enumerate(order) if position not in node.attribute.axes]
    ranks = {axis: rank for rank, axis in enumerate(sorted(kept))}
    return build.permute(build.reduce(node.attribute.op, x, gone), tuple(ranks[axis] for axis in kept))


# --- axes of size 1


def _unit_examples(op: str, dtype: dtypes.DType) -> Sequence[Node]:
    x = leaf(dtype, 3, 1, 5, 1)
    return [build.reduce(op, x, (1,)), build.reduce(op, x, (0, 1)), build.reduce(op, x, (1, 3))]


# 0.0 + -0.0 is 0.0: a float sum of one element may lose the sign of a zero.
@_twins(_unit_examples)
def drop_unit_axes(node: Node) -> Node | None:
    """A reduction over axes of size 1 → without them."""
    (x,) = node.sources
    axes = [axis for axis in node.attribute.axes if x.shape[axis] != 1]
    if len(axes) == len(node.attribute.axes):
        return None
    return build.reshape(build.reduce(node.attribute.op, x, axes), node.shape)


def _reshape_examples() -> Iterator[Node]:
    x = leaf(_f32, 3, 1, 5)
    yield build.reduce("add", build.reshape(x, (3, 5, 1)), (1,))
    yield build.reduce("max", build.reshape(x, (1, 3, 5)), (1, 2))
    yield build.reduce("add", build.reduce("add", leaf(_i32, 3, 4), (1,), keep_axes=True), (0,))


@family.rule(Op.REDUCE, of=Op.RESHAPE, examples=_reshape_examples)
def reduce_below_reshape(node: Node, inner: Node, x: Node) -> Node | None:
    """A reduction of a reshape that only adds or removes axes of size 1 → reshape of the reduction."""
    axes = node.attribute.axes
    if not only_ones_differ(x.shape, inner.shape) or any(inner.shape[axis] == 1 for axis in axes):
        return None
    places = dict(zip(proper_axes(inner.shape), proper_axes(x.shape), strict=True))
    return build.reshape(build.reduce(node.attribute.op, x, [places[axis] for axis in axes]), node.shape)


# --- repeated axes


def _extremum_examples() -> Iterator[Node]:
    n = Dim("n", 1, 9)
    x = build.expand(leaf(_f32, 3, 1, 5), (3, 4, 5))
    yield build.reduce("max", x, (1,))
    yield build.reduce("min", x, (0, 1))
    yield build.reduce("max", build.expand(leaf(_i32, 1, 3), (n, 3)), (0,))


@family.rule(Op.REDUCE, of=Op.EXPAND, examples=_extremum_examples)
def extremum_of_repeated(node: Node, inner: Node, x: Node) -> Node | None:
    """max or min over a repeated axis → without the repetition."""
    op, folded = node.attribute
    if op not in ("max", "min"):
        return None
    axes = [axis for axis in expanded_axes(inner) if axis in folded and positive(inner.shape[axis])]
    return build.reduce(op, narrowed(inner, axes), folded) if axes else None


def _multiply(node: Node, inner: Node) -> Node | None:
    """A sum over repeated axes as a product with their count, if the dtype holds the count."""
    op, folded = node.attribute
    sizes = {axis: size for axis in expanded_axes(inner) if axis in folded and type(size := inner.shape[axis]) is int}
    axes = [axis for axis, size in sizes.items() if size > 0]
    if op != "add" or not axes:
        return None
    count = math.prod(sizes[axis] for axis in axes)
    factor = build.const(count, node.dtype)
    if node.dtype.is_float and constant_value(factor) != count:
        return None
    total = build.reduce("add", narrowed(inner, axes), folded)
    return build.binary("mul", total, build.broadcast_to(factor, total.shape))


def _sum_examples(dtype: dtypes.DType) -> Sequence[Node]:
    x = build.expand(leaf(dtype, 3, 1, 5, 1), (3, 4, 5, 7))
    return [build.reduce("add", x, (1,)), build.reduce("add", x, (0, 1, 3)), build.reduce("add", x, (3,))]


def _integer_sum_examples() -> Sequence[Node]:
    constant = build.reduce("add", build.const(9, dtypes.uint8, (31, 2)), (0,))
    return [*_sum_examples(_i32), *_sum_examples(dtypes.int8), constant]


@family.rule(Op.REDUCE, of=Op.EXPAND, examples=_integer_sum_examples)
def sum_of_repeated(node: Node, inner: Node, x: Node) -> Node | None:
    """An integer sum over a repeated axis → multiply by its size."""
    return None if node.dtype.is_float else _multiply(node, inner)


def _float_sum_examples() -> Sequence[Node]:
    return [*_sum_examples(_f32), *_sum_examples(dtypes.bfloat16)]


@family.rule(Op.REDUCE, of=Op.EXPAND, contract=Contract.REASSOCIATES, examples=_float_sum_examples)
def sum_of_repeated_float(node: Node, inner: Node, x: Node) -> Node | None:
    """A float sum over a repeated axis → multiply by its size."""
    return _multiply(node, inner) if node.dtype.is_float else None

"""Movement: merged, cut down, and brought into one order: slices lowest, then reshapes, permutes, and expands on top.

Expanding last means that work is done before it is repeated. Reshapes that only add or remove axes of size 1 sink below
permutes and expands, where they meet other reshapes; slices sink below all of these, where they meet other slices.
"""

from __future__ import annotations

from itertools import accumulate
from operator import mul

from smelt.errors import IndexRangeError
from smelt.graph import IndexLike, Node, Op, Shape, Span, build, make
from smelt.rewrite.rule import Family
from smelt.rewrite.rules.pattern import (
    commonly_expanded,
    expanded_axes,
    is_op,
    narrowed,
    only_ones_differ,
    proper_axes,
)

family = Family("movement")


# --- two of a kind


@family.rule(Op.RESHAPE, of=Op.RESHAPE)
def merge_reshapes(node: Node, inner: Node, x: Node) -> Node | None:
    """reshape(reshape(x)) → reshape(x)."""
    return build.reshape(x, node.shape)


@family.rule(Op.PERMUTE, of=Op.PERMUTE)
def merge_permutes(node: Node, inner: Node, x: Node) -> Node | None:
    """permute(permute(x)) → permute(x)."""
    return build.permute(x, tuple(inner.attribute[axis] for axis in node.attribute))


@family.rule(Op.EXPAND, of=Op.EXPAND)
def merge_expands(node: Node, inner: Node, x: Node) -> Node | None:
    """expand(expand(x)) → expand(x)."""
    return build.expand(x, node.shape)


@family.rule(Op.SLICE, of=Op.SLICE)
def merge_slices(node: Node, inner: Node, x: Node) -> Node | None:
    """slice(slice(x)) → slice(x)."""
    spans = [
        (below.start + below.step * above.start, above.size, below.step * above.step)
        for above, below in zip(node.attribute, inner.attribute, strict=True)
    ]
    try:
        return build.slice_(x, spans)
    except IndexRangeError:  # with symbolic starts, the composition may be harder to prove than its parts
        return None


# --- permutes and reshapes


@family.rule(
    Op.PERMUTE,
)
def permute_is_reshape(node: Node) -> Node | None:
    """A permute that only moves axes of size 1 → reshape."""
    (x,) = node.sources
    order = [axis for axis in node.attribute if x.shape[axis] != 1]
    return build.reshape(x, node.shape) if order == sorted(order) else None


@family.rule(Op.RESHAPE, of=Op.PERMUTE)
def reshape_below_permute(node: Node, inner: Node, x: Node) -> Node | None:
    """A reshape of a permute that only adds or removes axes of size 1 → permute of the reshape."""
    if not only_ones_differ(inner.shape, node.shape):
        return None
    kept = proper_axes(x.shape)  # these come first in the reshaped source, then the ones
    order = iter([kept.index(axis) for axis in inner.attribute if x.shape[axis] != 1])
    ones = iter(range(len(kept), node.rank))
    axes = tuple(next(ones) if size == 1 else next(order) for size in node.shape)
    shape = tuple(x.shape[axis] for axis in kept) + (1,) * (node.rank - len(kept))
    return build.permute(build.reshape(x, shape), axes)


# --- expands rise


@family.rule(Op.PERMUTE, of=Op.EXPAND)
def permute_below_expand(node: Node, inner: Node, x: Node) -> Node | None:
    """permute(expand(x)) → expand(permute(x))."""
    return build.expand(build.permute(x, node.attribute), node.shape)


@family.rule(Op.RESHAPE, of=Op.EXPAND)
def reshape_below_expand(node: Node, inner: Node, x: Node) -> Node | None:
    """A reshape of an expand that does not mix repeated axes with others → expand of the reshape."""
    repeated = expanded_axes(inner)
    if not repeated or 0 in node.shape:
        return None
    shape: list[IndexLike] = [1] * node.rank
    for old, new in _groups(inner.shape, node.shape):
        mixed = [axis in repeated for axis in old]
        if any(mixed):
            if not all(mixed):
                return None
            continue
        for axis in new:
            shape[axis] = node.shape[axis]
    return build.expand(build.reshape(x, shape), node.shape)


def _groups(source: Shape, target: Shape) -> list[tuple[list[int], list[int]]]:
    """The smallest runs of axes that a reshape turns into each other, without axes of size 1."""
    sides = [(proper_axes(shape), shape) for shape in (source, target)]
    totals = [list(accumulate((shape[axis] for axis in axes), mul)) for axes, shape in sides]
    ends = set(totals[0]).intersection(totals[1])  # where as many elements have gone by on both sides
    groups: list[tuple[list[int], list[int]]] = [([], []) for _ in range(len(ends) + 1)]
    for side, (axes, _) in enumerate(sides):
        at = 0
        for axis, total in zip(axes, totals[side], strict=True):
            groups[at][side].append(axis)
            at += total in ends
    return groups


@family.rule(Op.UNARY, Op.BINARY, Op.WHERE, Op.CAST, Op.BITCAST)
def elementwise_below_expand(node: Node) -> Node | None:
    """f(expand(x), expand(y)) → expand(f(x, y)), along the axes that all operands repeat."""
    common = commonly_expanded(node.sources)
    if not common:
        return None
    sources = tuple([narrowed(source, common) for source in node.sources])
    return build.expand(make(node.op, node.dtype, sources[0].shape, sources, node.attribute), node.shape)


# --- slices sink


@family.rule(
    Op.SLICE,
    of=Op.PERMUTE,
)
def slice_below_permute(node: Node, inner: Node, x: Node) -> Node | None:
    """slice(permute(x)) → permute(slice(x))."""
    spans = [node.attribute[inner.attribute.index(axis)] for axis in range(node.rank)]
    return build.permute(build.slice_(x, spans), inner.attribute)


@family.rule(Op.SLICE, of=Op.EXPAND)
def slice_below_expand(node: Node, inner: Node, x: Node) -> Node | None:
    """slice(expand(x)) → expand(slice(x))."""
    repeated = expanded_axes(inner)
    if not repeated or 0 in node.shape:
        return None
    spans = [Span(0, 1, 1) if axis in repeated else span for axis, span in enumerate(node.attribute)]
    return build.expand(build.slice_(x, spans), node.shape)


@family.rule(Op.SLICE, of=Op.RESHAPE)
def slice_below_reshape(node: Node, inner: Node, x: Node) -> Node | None:
    """A slice of a reshape that only adds or removes axes of size 1 → reshape of the slice."""
    if 0 in node.shape or not only_ones_differ(x.shape, inner.shape):
        return None
    cuts = iter([node.attribute[axis] for axis in proper_axes(inner.shape)])
    spans = [Span(0, 1, 1) if size == 1 else next(cuts) for size in x.shape]
    return build.reshape(build.slice_(x, spans), node.shape)


# --- casts between two movements


@family.rule(Op.PERMUTE, Op.RESHAPE, Op.SLICE, of=Op.CAST, sole=True)
def movement_below_cast(node: Node, cast: Node, x: Node) -> Node | None:
    """Two movements of one kind with a cast between them → the cast of the merged movement."""
    if not is_op(x, node.op):
        return None
    return build.cast(make(node.op, x.dtype, node.shape, (x,), node.attribute), node.dtype)

"""Movement: merged, cut down, and brought into one order: slices lowest, then reshapes, permutes, and expands on top.

Expanding last means that work is done before it is repeated. Reshapes that only add or remove axes of size 1 sink below
permutes and expands, where they meet other reshapes; slices sink below all of these, where they meet other slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from smelt import dtypes
from smelt.errors import IndexRangeError
from smelt.graph import Dim, IndexLike, Node, Op, Shape, Span, build, make
from smelt.rewrite.rule import Family
from smelt.rewrite.rules.pattern import (
    commonly_expanded,
    expanded_axes,
    is_empty,
    is_op,
    leaf,
    narrowed,
    only_ones_differ,
    proper_axes,
)

family = Family("movement")
_f32 = dtypes.float32


# --- two of a kind


def _reshape_examples() -> Iterator[Node]:
    n = Dim("n", 1, 9)
    symbolic = build.reshape(leaf(_f32, n, 6), (n * 6,))
    yield build.reshape(build.reshape(leaf(_f32, 6, 5), (2, 15)), (3, 10))
    yield build.reshape(build.reshape(leaf(_f32, 7), (1, 7)), (7,))
    yield build.reshape(symbolic, (n, 2, 3))


@family.rule(Op.RESHAPE, of=Op.RESHAPE, examples=_reshape_examples)
def merge_reshapes(node: Node, inner: Node, x: Node) -> Node | None:
    """reshape(reshape(x)) → reshape(x)."""
    return build.reshape(x, node.shape)


def _permute_examples() -> Iterator[Node]:
    x = leaf(_f32, 2, 3, 5)
    yield build.permute(build.permute(x, (2, 0, 1)), (2, 0, 1))
    yield build.permute(build.permute(x, (1, 2, 0)), (2, 0, 1))


@family.rule(Op.PERMUTE, of=Op.PERMUTE, examples=_permute_examples)
def merge_permutes(node: Node, inner: Node, x: Node) -> Node | None:
    """permute(permute(x)) → permute(x)."""
    return build.permute(x, tuple(inner.attribute[axis] for axis in node.attribute))


@family.rule(
    Op.EXPAND, of=Op.EXPAND, examples=lambda: [build.expand(build.expand(leaf(_f32, 1, 3, 1), (2, 3, 1)), (2, 3, 4))]
)
def merge_expands(node: Node, inner: Node, x: Node) -> Node | None:
    """expand(expand(x)) → expand(x)."""
    return build.expand(x, node.shape)


def _slice_examples() -> Iterator[Node]:
    x = leaf(_f32, 11, 7)
    once = build.slice_(x, (Span(1, 5, 2), Span(6, 7, -1)))
    yield build.slice_(once, (Span(4, 3, -2), Span(1, 4, 1)))
    yield build.slice_(build.slice_(x, (Span(0, 11, 1), Span(6, 7, -1))), (Span(0, 11, 1), Span(6, 7, -1)))


@family.rule(Op.SLICE, of=Op.SLICE, examples=_slice_examples)
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
    examples=lambda: [build.permute(leaf(_f32, 3, 1, 5, 1), (1, 0, 3, 2)), build.permute(leaf(_f32, 1, 4), (1, 0))],
)
def permute_is_reshape(node: Node) -> Node | None:
    """A permute that only moves axes of size 1 → reshape."""
    (x,) = node.sources
    order = [axis for axis in node.attribute if x.shape[axis] != 1]
    return build.reshape(x, node.shape) if order == sorted(order) else None


def _reshape_permute_examples() -> Sequence[Node]:
    x = build.permute(leaf(_f32, 2, 3, 1, 5), (3, 0, 2, 1))
    return [build.reshape(x, shape) for shape in ((5, 2, 3), (1, 5, 2, 1, 1, 3), (5, 1, 2, 3))]


@family.rule(Op.RESHAPE, of=Op.PERMUTE, examples=_reshape_permute_examples)
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


def _permute_expand_examples() -> Sequence[Node]:
    return [build.permute(build.expand(leaf(_f32, 2, 1, 5), (2, 3, 5)), (2, 1, 0))]


@family.rule(Op.PERMUTE, of=Op.EXPAND, examples=_permute_expand_examples)
def permute_below_expand(node: Node, inner: Node, x: Node) -> Node | None:
    """permute(expand(x)) → expand(permute(x))."""
    return build.expand(build.permute(x, node.attribute), node.shape)


def _reshape_expand_examples() -> Iterator[Node]:
    n = Dim("n", 1, 9)
    x = build.expand(leaf(_f32, 2, 1, 5, 1), (2, 3, 5, 7))
    yield build.reshape(x, (2, 1, 3, 5, 7))
    yield build.reshape(build.expand(leaf(_f32, 4, 6, 1, 1), (4, 6, 3, 5)), (2, 12, 15))
    yield build.reshape(build.expand(leaf(_f32, n, 1), (n, 6)), (n, 1, 2, 3))


@family.rule(Op.RESHAPE, of=Op.EXPAND, examples=_reshape_expand_examples)
def reshape_below_expand(node: Node, inner: Node, x: Node) -> Node | None:
    """A reshape of an expand that does not mix repeated axes with others → expand of the reshape."""
    repeated = expanded_axes(inner)
    if not repeated or is_empty(node.shape):
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
    old, new = list(proper_axes(source)), list(proper_axes(target))
    groups: list[tuple[list[int], list[int]]] = []
    while old and new:
        a, b = [old.pop(0)], [new.pop(0)]
        have, want = source[a[0]], target[b[0]]
        while have != want:
            if not (isinstance(have, int) and isinstance(want, int)) or not (old if have < want else new):
                a, b, old, new = a + old, b + new, [], []
                break
            if have < want:
                a.append(old.pop(0))
                have = have * source[a[-1]]
            else:
                b.append(new.pop(0))
                want = want * target[b[-1]]
        groups.append((a, b))
    if old or new:  # only with symbolic sizes, whose products can be 1 in part
        groups.append((old, new))
    return groups


def _elementwise_examples() -> Iterator[Node]:
    n = Dim("n", 1, 9)
    row, column = build.expand(leaf(_f32, 1, 5), (4, 5)), build.expand(leaf(_f32, 1, 1), (4, 5))
    yield build.unary("exp", row)
    yield build.cast(column, dtypes.float64)
    yield build.binary("add", row, column)
    yield build.binary("mul", row, build.const(1.0, _f32, (4, 5)))
    yield build.where(build.expand(leaf(dtypes.bool_, 1, 5), (4, 5)), row, column)
    yield build.unary("neg", build.expand(leaf(_f32, 3, 1), (3, n)))
    yield build.bitcast(row, dtypes.int32)


@family.rule(Op.UNARY, Op.BINARY, Op.WHERE, Op.CAST, Op.BITCAST, examples=_elementwise_examples)
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
    examples=lambda: [build.slice_(build.permute(leaf(_f32, 5, 7), (1, 0)), (Span(6, 3, -2), Span(1, 2, 1)))],
)
def slice_below_permute(node: Node, inner: Node, x: Node) -> Node | None:
    """slice(permute(x)) → permute(slice(x))."""
    spans = [node.attribute[inner.attribute.index(axis)] for axis in range(node.rank)]
    return build.permute(build.slice_(x, spans), inner.attribute)


def _slice_expand_examples() -> Sequence[Node]:
    x = build.expand(leaf(_f32, 1, 7), (5, 7))
    return [build.slice_(x, (Span(1, 3, 1), Span(6, 3, -2))), build.slice_(x, (Span(2, 1, 1), Span(0, 7, 1)))]


@family.rule(Op.SLICE, of=Op.EXPAND, examples=_slice_expand_examples)
def slice_below_expand(node: Node, inner: Node, x: Node) -> Node | None:
    """slice(expand(x)) → expand(slice(x))."""
    repeated = expanded_axes(inner)
    if not repeated or is_empty(node.shape):
        return None
    spans = [Span(0, 1, 1) if axis in repeated else span for axis, span in enumerate(node.attribute)]
    return build.expand(build.slice_(x, spans), node.shape)


def _slice_reshape_examples() -> Iterator[Node]:
    once = build.reshape(build.slice_(leaf(_f32, 5, 7), (Span(2, 1, 1), Span(0, 7, 1))), (7,))
    wide = build.reshape(leaf(_f32, 5, 1, 7), (1, 5, 7, 1))
    yield build.slice_(once, (Span(3, 2, 1),))
    yield build.slice_(wide, (Span(0, 1, 1), Span(4, 2, -3), Span(1, 6, 1), Span(0, 1, 1)))


@family.rule(Op.SLICE, of=Op.RESHAPE, examples=_slice_reshape_examples)
def slice_below_reshape(node: Node, inner: Node, x: Node) -> Node | None:
    """A slice of a reshape that only adds or removes axes of size 1 → reshape of the slice."""
    if is_empty(node.shape) or not only_ones_differ(x.shape, inner.shape):
        return None
    cuts = iter([node.attribute[axis] for axis in proper_axes(inner.shape)])
    spans = [Span(0, 1, 1) if size == 1 else next(cuts) for size in x.shape]
    return build.reshape(build.slice_(x, spans), node.shape)


# --- casts between two movements


def _cast_examples() -> Iterator[Node]:
    half = dtypes.float16
    yield build.permute(build.cast(build.permute(leaf(half, 2, 3, 4), (2, 0, 1)), _f32), (0, 2, 1))
    yield build.reshape(build.cast(build.reshape(leaf(half, 6, 5), (30,)), _f32), (5, 6))
    yield build.slice_(build.cast(build.slice_(leaf(half, 9), (Span(1, 7, 1),)), _f32), (Span(6, 3, -2),))


@family.rule(Op.PERMUTE, Op.RESHAPE, Op.SLICE, of=Op.CAST, examples=_cast_examples, sole=True)
def movement_below_cast(node: Node, cast: Node, x: Node) -> Node | None:
    """Two movements of one kind with a cast between them → the cast of the merged movement."""
    if not is_op(x, node.op):
        return None
    return build.cast(make(node.op, x.dtype, node.shape, (x,), node.attribute), node.dtype)

"""Movement as index arithmetic: where a movement node's element comes from in its source."""

from __future__ import annotations

import functools
from typing import Final, NamedTuple

from smelt.graph import ZERO, Index, IndexLike, Node, Op, as_index, less, maximum, product_of, row_major
from smelt.kernel import Less, Mask

RENAMING: Final = frozenset({Op.RESHAPE, Op.PERMUTE})
REPEATING: Final = RENAMING | {Op.EXPAND}


class Place(NamedTuple):
    """One element of a node: its index, and the condition under which that index is valid."""

    indices: tuple[Index, ...]
    mask: Mask = ()


def source_place(node: Node, place: Place) -> Place:
    """The element of the source of a one-source movement node (reshape, permute, expand, slice, pad) for an element
    of the node.
    """
    index, mask = place.indices, place.mask
    source = node.sources[0]
    match node.op:
        case Op.RESHAPE:
            return Place(reshape_index(node.shape, source.shape, index), mask)
        case Op.PERMUTE:
            moved: list[Index] = [ZERO] * len(index)
            for k, axis in enumerate(node.attribute):
                moved[axis] = index[k]
            return Place(tuple(moved), mask)
        case Op.EXPAND:
            return Place(tuple(ZERO if size == 1 else i for i, size in zip(index, source.shape, strict=True)), mask)
        case Op.SLICE:
            spans = zip(index, node.attribute, strict=True)
            return Place(tuple(i * span.step + span.start for i, span in spans), mask)
        case Op.WINDOW:
            axis, _, step, dilation = node.attribute
            moved = list(index[:-1])
            moved[axis] = index[axis] * step + index[-1] * dilation
            return Place(tuple(moved), mask)
        case _:
            moved = [i - before for i, (before, _) in zip(index, node.attribute, strict=True)]
            return Place(tuple(moved), mask + pad_mask(node, tuple(moved)))


def pad_mask(node: Node, inner: tuple[Index, ...]) -> Mask:
    """The condition under which an element of a padded tensor comes from the source, given its index there."""
    conditions: list[Less] = []
    for i, size in zip(inner, node.sources[0].shape, strict=True):
        conditions += within(i, 0, size)
    return tuple(conditions)


def within(i: Index, low: IndexLike, high: IndexLike) -> list[Less]:
    """The conditions for low <= i < high that are not already certain."""
    needed = [Less(as_index(low) - 1, i), Less(i, as_index(high))]
    return [condition for condition in needed if not less(condition.a, condition.b)]


@functools.lru_cache(maxsize=1 << 14)  # layers that are alike ask the same
def reshape_index(
    shape: tuple[IndexLike, ...], source: tuple[IndexLike, ...], index: tuple[Index, ...]
) -> tuple[Index, ...]:
    """Index into the source of a reshape. Only the smallest groups of axes with equal products are flattened and cut
    again.
    """
    out: list[Index] = []
    ends = [product_of(source[:k]) for k in range(len(source) + 1)]
    first = start = 0
    for end in range(len(shape) + 1):
        total = product_of(shape[:end])
        if total in ends[start:]:
            cut = ends.index(total, start)
            out += _cut(_flatten(index[first:end], shape[first:end]), source[start:cut])
            first, start = end, cut
    # What is left are axes of size 1, or there are no elements.
    return (*out, *(ZERO for _ in source[start:]))


def _flatten(index: tuple[Index, ...], shape: tuple[IndexLike, ...]) -> Index:
    total = ZERO
    for i, stride in zip(index, row_major(shape), strict=True):
        total = total + i * stride
    return total


def _cut(flat: Index, shape: tuple[IndexLike, ...]) -> list[Index]:
    out: list[Index] = []
    rest = flat
    for k in range(len(shape) - 1, -1, -1):
        size = shape[k]
        if size in (0, 1):
            out.append(ZERO)
        elif all(other == 1 for other in shape[:k]):
            out.append(rest)
            out += [ZERO] * k
            break
        else:
            # Of an empty axis no element is ever asked for.
            divisor = size if as_index(size).low > 0 else maximum(size, 1)
            out.append(rest % divisor)
            rest = rest // divisor
    return out[::-1]

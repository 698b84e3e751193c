"""Windows from which one element is chosen: select_and_scatter."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, NamedTuple

from smelt.derive import vjp
from smelt.dtypes import bool_, int32, int64
from smelt.formats.stablehlo import elementwise, folds, movement, regions
from smelt.formats.stablehlo.rows import Call, Row, rows, stand_in
from smelt.graph import Node, build, identity


class _Windows(NamedTuple):
    """Which windows of a tensor are looked at."""

    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    pads: list[tuple[int, int]]

    def rows(self, x: Node, fill: Node) -> Node:
        """Each window as a row behind the axes that count windows."""
        padded = movement.padded(x, self.pads, fill)
        wide = folds.windows(padded, self.sizes, self.steps, [1] * x.rank)
        return build.reshape(wide, (*wide.shape[: x.rank], prod(self.sizes)))


def _select_and_scatter(call: Call) -> Node:
    """In every window the first element that the selection prefers gets the window's source."""
    x, source, init = call.operands
    ones = [1] * x.rank
    sizes, steps = call.integers("window_dimensions", ones), call.integers("window_strides", ones)
    which = _Windows(sizes, steps, call.pairs("padding", x.rank))
    target = build.broadcast_to(init, x.shape)
    if 0 in source.shape:
        return target
    chosen = _chosen(call, x, which)
    scatter = regions.read_body(call, [x.dtype, x.dtype], [x.dtype], 1)
    op = regions.known(scatter)
    if op is None:
        call.refuse("a scatter with another body than add, mul, max or min")
    if op == "add" and x.dtype.is_float and _overlapping(which) <= _MOST_SUMMED:
        added = _given_back(x, source, chosen, which)
        return added if folds.is_identity(init, op) else build.add(target, added)
    nowhere = build.const(x.elements, int64)
    places = which.rows(build.reshape(build.iota(x.elements, int64), x.shape), nowhere)
    place = build.reduce("min", build.where(chosen, places, build.broadcast_to(nowhere, places.shape)), [x.rank])
    flat, total = build.reshape(target, (x.elements,)), (source.elements,)
    updated = build.scatter(op, flat, build.reshape(source, total), [build.reshape(place, total)], [-1])
    return build.reshape(updated, x.shape)


_MOST_SUMMED: Final = 64  # windows that one element may lie in, where they are added up without a scatter


def _overlapping(which: _Windows) -> int:
    """How many sums it takes to add up windows: none for those that lie side by side."""
    return prod(size for size, step in zip(which.sizes, which.steps, strict=True) if step < size)


def _given_back(x: Node, source: Node, chosen: Node, which: _Windows) -> Node:
    """What a maximum over windows gives back: each source at its chosen element. As the way back through the windows
    it is computed where it is read, as gradients of smelt's own pooling are.
    """
    spread = build.broadcast_to(build.reshape(source, (*source.shape, 1)), chosen.shape)
    given = build.where(chosen, spread, build.const(0, x.dtype, chosen.shape))
    own = stand_in(x.dtype, x.shape)
    [found] = vjp.pull_back([which.rows(own, build.const(0, x.dtype))], [given], [own])
    assert found is not None
    return found


def _chosen(call: Call, x: Node, which: _Windows) -> Node:
    """Where the chosen element of each window stands in its row: nowhere, if the window is nothing but padding."""
    selection = regions.read_body(call, [x.dtype, x.dtype], [bool_])
    a, b = selection.parameters
    fill = build.const(0, x.dtype)
    for direction, op in (("GE", "max"), ("LE", "min"), ("GT", "max"), ("LT", "min")):
        if selection.roots[0] is elementwise.compare(direction, a, b):
            fill = build.const(identity(op, x.dtype), x.dtype)
    values = which.rows(x, fill)
    length = values.shape[-1]
    numbers = build.broadcast_to(build.iota(length, int32), values.shape)
    nowhere = build.const(-1, int32, values.shape)
    padded = any(pair != (0, 0) for pair in which.pads)
    inside = which.rows(build.const(True, bool_, x.shape), build.const(False, bool_))
    places = build.where(inside, numbers, nowhere) if padded else numbers

    def better(left: Sequence[Node], right: Sequence[Node]) -> list[Node]:
        """The left one if the selection says so, or if the right one is padding."""
        [keeps] = regions.lifted(selection, [left[0], right[0]])
        if padded:
            zero = build.const(0, int32, left[1].shape)
            keeps = build.binary("or", build.lt(right[1], zero), build.bitwise_and(keeps, build.le(zero, left[1])))
        return [build.where(keeps, p, q) for p, q in zip(left, right, strict=True)]

    place = folds.fold([values, places], values.rank - 1, better)[1]
    return build.eq(numbers, build.broadcast_to(build.reshape(place, (*place.shape, 1)), values.shape))


ROWS: Final = rows(
    {
        "select_and_scatter": Row(
            _select_and_scatter, ("window_dimensions", "window_strides", "padding"), 3, "any selection"
        )
    }
)

"""Windows from which one element is chosen: select_and_scatter."""

from __future__ import annotations

from typing import Final

from smelt.dtypes import bool_, int64
from smelt.formats.stablehlo import elementwise, folds, movement, regions
from smelt.formats.stablehlo.rows import Call, Row, rows
from smelt.graph import Node, build, identity, upper


def _select_and_scatter(call: Call) -> Node:
    """In every window the first element that the selection prefers gets the window's source."""
    x, source, init = call.operands
    ones = [1] * x.rank
    sizes, steps = call.integers("window_dimensions", ones), call.integers("window_strides", ones)
    pads = call.pairs("padding", x.rank)
    target = build.broadcast_to(init, x.shape)
    if 0 in source.shape:
        return target
    places = _chosen(call, x, sizes, steps, pads)
    scatter = regions.read_body(call, [x.dtype, x.dtype], [x.dtype], 1)
    op = regions.known(scatter)
    if op is None:
        call.refuse("a scatter with another body than add, mul, max or min")
    flat = build.reshape(target, (x.elements,))
    total = (source.elements,)
    updated = build.scatter(op, flat, build.reshape(source, total), [build.reshape(places, total)], [-1])
    return build.reshape(updated, x.shape)


def _chosen(call: Call, x: Node, sizes: tuple[int, ...], steps: tuple[int, ...], pads: list[tuple[int, int]]) -> Node:
    """The number of the chosen element of each window, counted through x; beyond its end if the window has none."""
    ones = [1] * x.rank
    nowhere = build.const(x.elements, int64)
    place = build.reshape(build.iota(x.elements, int64), x.shape)
    selection = regions.read_body(call, [x.dtype, x.dtype], [bool_])
    a, b = selection.parameters
    fill = build.const(0, x.dtype)
    for direction, op in (("GE", "max"), ("LE", "min"), ("GT", "max"), ("LT", "min")):
        if selection.roots[0] is elementwise.compare(direction, a, b):
            fill = build.const(identity(op, x.dtype), x.dtype)
    axes = list(range(x.rank, 2 * x.rank))
    values = _rows(folds.windows(movement.padded(x, pads, fill), sizes, steps, ones), axes)
    places = _rows(folds.windows(movement.padded(place, pads, nowhere), sizes, steps, ones), axes)

    def better(left: list[Node], right: list[Node]) -> list[Node]:
        """The left one if the selection says so, or if the right one is padding."""
        [keeps] = regions.lifted(selection, [left[0], right[0]])
        end = build.broadcast_to(nowhere, left[1].shape)
        inside, other = build.lt(left[1], end), build.lt(right[1], end)
        keeps = build.where(other, build.bitwise_and(keeps, inside), build.const(True, keeps.dtype, keeps.shape))
        return [build.where(keeps, p, q) for p, q in zip(left, right, strict=True)]

    return folds.fold([values, places], values.rank - 1, lambda left, right: better(list(left), list(right)))[1]


def _rows(x: Node, axes: list[int]) -> Node:
    """The last axes as one."""
    total = 1
    for axis in axes:
        total *= upper(x.shape[axis])
    return build.reshape(x, (*x.shape[: axes[0]], total))


ROWS: Final = rows(
    {
        "select_and_scatter": Row(
            _select_and_scatter, ("window_dimensions", "window_strides", "padding"), 3, "any selection"
        )
    }
)

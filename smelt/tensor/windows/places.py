"""What convolution, pooling and unfolding share: arguments for each spatial axis, padding, and windows as a view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smelt.errors import ArgumentError, ShapeError
from smelt.graph import Index, Node, build, marked, shape_text, size_of
from smelt.tensor.arguments import integer
from smelt.tensor.types import Size

Widths = tuple[int, int]


def for_each(value: Any, count: int, name: str, what: str, least: int = 1) -> tuple[int, ...]:
    """One integer for all of `count` axes, or a sequence of one for each."""
    if type(value) is int and value >= least:  # asked first: most are
        return (value,) * count
    given = tuple(value) if isinstance(value, Sequence) else (value,) * count
    if len(given) == 1:
        given *= count
    if len(given) != count:
        raise ArgumentError(
            f"{name}: {what} has {len(given)} numbers for {count} axes", rule="give one number, or one for each axis."
        )
    numbers = tuple(integer(number, name, what) for number in given)
    if min(numbers, default=least) < least:
        raise ArgumentError(f"{name}: {what} {value!r} is too small", rule=f"it must be at least {least}.")
    return numbers


def paddings(value: Any, count: int, name: str) -> tuple[Widths, ...]:
    """(before, after) for each axis, from one width, one for each axis, or pairs."""
    given = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,) * count
    if len(given) == 1:
        given *= count
    if len(given) != count:
        raise ArgumentError(
            f"{name}: padding {value!r} is not for {count} axes",
            rule="give one width, one for each axis, or a pair (before, after) for each.",
        )
    pairs = [tuple(width) if isinstance(width, tuple | list) else (width,) for width in given]
    if any(len(pair) not in (1, 2) for pair in pairs):
        raise ArgumentError(f"{name}: padding {value!r} is not made of pairs (before, after)")
    widths = [(integer(pair[0], name, "padding"), integer(pair[-1], name, "padding")) for pair in pairs]
    if any(width < 0 for pair in widths for width in pair):
        raise ArgumentError(f"{name}: padding {value!r} is negative", rule="it must be at least 0.")
    return tuple(widths)


def spatial(node: Node, count: int, name: str, channels: bool = True) -> tuple[Node, bool]:
    """A batch of images with `count` spatial axes, and whether the batch axis is new."""
    full = count + (2 if channels else 1)
    if node.rank == full:
        return node, False
    if node.rank == full - 1:
        return build.reshape(node, (1, *node.shape)), True
    axes = " and ".join(["a batch", *(["channels"] if channels else []), f"{count} spatial axes"])
    raise ShapeError(
        f"{name}: the input of shape {shape_text(node.shape)} has rank {node.rank}",
        rule=f"it must have {axes}; the batch may be missing.",
    )


def fitted(node: Node, first: int, widths: Sequence[tuple[Size, Size]], fill: Node | None = None) -> Node:
    """The axes from `first` on grown by (before, after); negative widths cut elements off."""
    cuts: list[tuple[Size, Size, int]] = [(0, size, 1) for size in node.shape]
    for axis, (low, high) in enumerate(widths, first):
        front, back = _cut_off(low), _cut_off(high)
        cuts[axis] = (front, size_of(node.shape[axis] - front - back), 1)
    node = build.slice_(node, cuts)
    grown: list[tuple[Size, Size]] = [(0, 0)] * node.rank
    grown[first : first + len(widths)] = [(_grown(low), _grown(high)) for low, high in widths]
    return build.pad(node, grown, build.const(0, node.dtype) if fill is None else fill)


def _cut_off(width: Size) -> Size:
    return max(0, -width) if isinstance(width, int) else 0


def _grown(width: Size) -> Size:
    return max(0, width) if isinstance(width, int) else width


def windowed(
    node: Node, first: int, sizes: Sequence[int], steps: Sequence[int], dilations: Sequence[int], name: str
) -> Node:
    """Windows along the axes from `first` on: these count the windows, new last axes run inside each."""
    for axis, (size, dilation) in enumerate(zip(sizes, dilations, strict=True), first):
        reach = (size - 1) * dilation + 1
        extent = node.shape[axis]
        if (extent if isinstance(extent, int) else extent.low) < reach:
            raise ShapeError(
                f"{name}: a window reaches over {reach} elements, more than axis {axis} has with its padding\n"
                + marked((node.shape, {axis}))
            )
    for axis, (size, step, dilation) in enumerate(zip(sizes, steps, dilations, strict=True), first):
        node = build.window(node, axis, size, step, dilation, name=name)
    return node


def known_size(node: Node, axis: int, name: str) -> int:
    """The size of an axis that must be known beforehand."""
    size = node.shape[axis]
    if isinstance(size, Index):
        raise ShapeError(f"{name}: axis {axis} has the symbolic size {size}", rule="it must be known beforehand.")
    return size

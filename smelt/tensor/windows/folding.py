"""Windows as a tensor of their own, and back: `unfold` and `fold`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smelt.errors import ArgumentError, ShapeError
from smelt.graph import Node, build, normalized_axis, product_of, shape_text, size_of
from smelt.tensor.arguments import integer
from smelt.tensor.handle import node_of, wrap
from smelt.tensor.types import Size
from smelt.tensor.windows.places import fitted, for_each, paddings, spatial, windowed

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "fold",
    "unfold",
]

Numbers = int | Sequence[int]


def unfold(
    x: Tensor,
    axis: Numbers,
    size: int | None = None,
    step: int = 1,
    *,
    dilation: Numbers = 1,
    padding: Numbers = 0,
    stride: Numbers = 1,
) -> Tensor:
    """`unfold(x, axis, size, step)`: all windows of `size` elements along an axis, `step` apart, along a new last axis.

    `unfold(x, window, dilation=, padding=, stride=)`, without a size: the windows of images (batch, channels, space...)
    as columns (batch, channels * elements of a window, number of windows), as a matrix product would read them.

    >>> import smelt as sm
    >>> sm.unfold(sm.arange(5), 0, 3, 2).tolist()
    [[0, 1, 2], [2, 3, 4]]
    >>> sm.unfold(sm.arange(6).reshape(1, 1, 2, 3), (2, 2)).tolist()
    [[[0, 1], [1, 2], [3, 4], [4, 5]]]
    """
    node = node_of(x, "unfold")
    if size is None:
        return _columns(node, axis, dilation, padding, stride)
    if (dilation, padding, stride) != (1, 0, 1):
        raise ArgumentError("unfold: dilation, padding and stride go with a window, without a size", hint="Use step.")
    at = normalized_axis(axis, node.rank, "unfold")
    length, apart = integer(size, "unfold", "the size"), integer(step, "unfold", "the step")
    if length < 1 or apart < 1:
        raise ArgumentError(f"unfold: size {length} and step {apart}", rule="both must be at least 1.")
    return wrap(windowed(node, at, (length,), (apart,), (1,), "unfold"))


def _columns(node: Node, window: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    count = len(window) if isinstance(window, Sequence) else node.rank - 2
    if count < 1:
        raise ShapeError(f"unfold: shape {shape_text(node.shape)} has no spatial axes")
    node, added = spatial(node, count, "unfold")
    sizes = for_each(window, count, "unfold", "the window")
    steps = for_each(stride, count, "unfold", "stride")
    gaps = for_each(dilation, count, "unfold", "dilation")
    node = fitted(node, 2, paddings(padding, count, "unfold"))
    node = windowed(node, 2, sizes, steps, gaps, "unfold")
    inside = tuple(range(2 + count, 2 + 2 * count))
    moved = build.permute(node, (0, 1, *inside, *range(2, 2 + count)))
    columns = (size_of(product_of((node.shape[1], *sizes))), size_of(product_of(node.shape[2 : 2 + count])))
    return wrap(build.reshape(moved, columns if added else (node.shape[0], *columns)))


def fold(
    x: Tensor,
    output_size: Sequence[int],
    kernel_size: Numbers,
    dilation: Numbers = 1,
    padding: Numbers = 0,
    stride: Numbers = 1,
) -> Tensor:
    """Columns of windows added up to images, each element at its place: the transpose of `unfold`.

    x is (batch, channels * elements of a window, number of windows).

    >>> import smelt as sm
    >>> sm.fold(sm.ones(1, 4, 4), (3, 3), 2).tolist()
    [[[[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]]]
    """
    node = node_of(x, "fold")
    if not isinstance(output_size, Sequence) or not output_size:
        raise ArgumentError(f"fold: output_size must be a list of sizes, got {output_size!r}")
    count = len(output_size)
    node, added = spatial(node, 1, "fold")
    sizes = for_each(output_size, count, "fold", "output_size")
    window = for_each(kernel_size, count, "fold", "the window")
    gaps, steps = for_each(dilation, count, "fold", "dilation"), for_each(stride, count, "fold", "stride")
    cuts = for_each(padding, count, "fold", "padding", 0)
    # A step over all of an image leaves one window, however long it is.
    steps = tuple(min(step, size + 2 * cut) for step, size, cut in zip(steps, sizes, cuts, strict=True))
    numbers = [
        (size + 2 * cut - (length - 1) * gap - 1) // step + 1
        for size, cut, length, gap, step in zip(sizes, cuts, window, gaps, steps, strict=True)
    ]
    elements, columns = product_of(window), product_of(numbers) if min(numbers) > 0 else 0
    rows = node.shape[1]
    if not isinstance(rows, int) or rows % elements or node.shape[2] != columns:
        raise ShapeError(
            f"fold: {shape_text(node.shape[1:])} is not what windows {window} of images {sizes} give",
            rule=f"there must be a multiple of {elements} rows, and {columns} columns.",
        )
    node = build.reshape(node, (node.shape[0], rows // elements, *window, *numbers))
    for axis in range(count):
        # With each round one axis of windows goes and one of places is done, so the next ones stand where these stood.
        node = _folded(node, 2, 2 + count, sizes[axis], steps[axis], gaps[axis], cuts[axis])
    return wrap(build.reshape(node, node.shape[1:]) if added else node)


def _folded(node: Node, inside: int, places: int, size: int, step: int, gap: int, cut: int) -> Node:
    """One axis of windows added up: element k of window i goes to i * step + k * gap - cut.

    Positions with one remainder by the step get whole elements of the windows, moved; so for each remainder these are
    added, and the results lie interleaved.
    """
    count: Size = -(-size // step)
    length = node.shape[inside]
    assert isinstance(length, int)
    phases = []
    for remainder in range(step):
        total: Node | None = None
        for k in range(length):
            if (remainder + cut - k * gap) % step:
                continue
            start = (remainder + cut - k * gap) // step
            spans: list[tuple[Size, Size, int]] = [(0, extent, 1) for extent in node.shape]
            spans[inside] = (k, 1, 1)
            one = build.slice_(node, spans)
            one = build.reshape(one, (*one.shape[:inside], *one.shape[inside + 1 :]))
            moved = fitted(one, places - 1, [(-start, count + start - node.shape[places])])
            total = moved if total is None else build.add(total, moved)
        if total is None:
            shape = (*node.shape[:inside], *node.shape[inside + 1 : places], count, *node.shape[places + 1 :])
            total = build.broadcast_to(build.const(0, node.dtype), shape)
        phases.append(total)
    at = places - 1
    shape = phases[0].shape
    pieces = [build.reshape(phase, (*shape[: at + 1], 1, *shape[at + 1 :])) for phase in phases]
    joined = build.reshape(build.concat(pieces, at + 1), (*shape[:at], size_of(count * step), *shape[at + 1 :]))
    return build.slice_(joined, [(0, size if axis == at else extent, 1) for axis, extent in enumerate(joined.shape)])

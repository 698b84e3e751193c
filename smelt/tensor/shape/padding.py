"""`pad`: constants, or the tensor's own elements, around a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smelt.errors import ArgumentError, ShapeError
from smelt.graph import Index, Node, build, shape_text
from smelt.tensor.arguments import integer
from smelt.tensor.handle import fitted, is_weak, node_of, scalar_node, wrap
from smelt.tensor.types import Size

if TYPE_CHECKING:
    from smelt.dtypes import Scalar
    from smelt.tensor.tensor import Tensor

__all__ = [
    "pad",
]

# What PyTorch and NumPy call the same thing.
MODES = {
    "constant": "constant",
    "reflect": "reflect",
    "symmetric": "symmetric",
    "edge": "edge",
    "replicate": "edge",
    "wrap": "wrap",
    "circular": "wrap",
}


def pad(x: Tensor, widths: Any, mode: str = "constant", *, value: Scalar | Tensor = 0) -> Tensor:
    """Elements added around x. Widths: one for all sides, (before, after) for all axes, or such a pair for each axis.

    Modes: "constant" (`value`), "edge" or "replicate" (the last element again), "reflect" (backwards, without the last
    element), "symmetric" (backwards, with it), "wrap" or "circular" (from the other end).

    >>> import smelt as sm
    >>> sm.pad(sm.asarray([1, 2, 3]), (1, 2)).tolist()
    [0, 1, 2, 3, 0, 0]
    >>> sm.pad(sm.asarray([1, 2, 3]), 2, "reflect").tolist()
    [3, 2, 1, 2, 3, 2, 1]
    """
    node = node_of(x, "pad")
    if mode not in tuple(MODES):
        raise ArgumentError(f"pad: there is no mode {mode!r}", hint=f"Use one of: {', '.join(MODES)}.")
    pairs = _pairs(widths, node.rank)
    if MODES[mode] == "constant":
        if is_weak(value):
            fill = scalar_node(value, node.dtype, "pad")  # type: ignore[arg-type]
        else:
            fill = fitted(node_of(value, "pad"), node.dtype, "pad")
        return wrap(build.pad(node, pairs, fill))
    for axis, (before, after) in enumerate(pairs):
        node = extended(node, axis, _known(before), _known(after), MODES[mode])
    return wrap(node)


def _pairs(widths: Any, rank: int) -> list[tuple[Size, Size]]:
    if not isinstance(widths, tuple | list):
        return [(_width(widths), _width(widths))] * rank
    if len(widths) == 2 and not any(isinstance(width, tuple | list) for width in widths):
        return [(_width(widths[0]), _width(widths[1]))] * rank
    pairs = [tuple(width) if isinstance(width, tuple | list) else (width, width) for width in widths]
    if len(pairs) == 1:
        pairs *= rank
    if len(pairs) != rank or any(len(pair) != 2 for pair in pairs):
        raise ArgumentError(
            f"pad: widths {widths} do not fit rank {rank}", rule="give a pair (before, after) for each axis."
        )
    return [(_width(before), _width(after)) for before, after in pairs]


def _width(value: Any) -> Size:
    return value if isinstance(value, Index) else integer(value, "pad", "a width")


def _known(width: Size) -> int:
    if isinstance(width, Index):
        raise ArgumentError(f"pad: the width {width} is symbolic", rule="only the mode 'constant' takes such widths.")
    if width < 0:
        raise ArgumentError(f"pad: a width is negative: {width}", hint="Use a slice to cut elements off.")
    return width


def extended(node: Node, axis: int, before: int, after: int, mode: str) -> Node:
    """One axis continued on both sides by its own elements."""
    if not before and not after:
        return node
    size = node.shape[axis]
    if isinstance(size, Index):
        raise ShapeError(f"pad: axis {axis} has the symbolic size {size}", rule=f"{mode!r} needs a known size.")
    if size == 0:
        raise ShapeError(
            f"pad: axis {axis} of shape {shape_text(node.shape)} is empty", rule="there is nothing to repeat."
        )
    if mode == "edge" or (mode == "reflect" and size == 1):
        front, back = _part(node, axis, 0, 1), _part(node, axis, size - 1, 1)
        return _joined([_repeated(front, axis, before), node, _repeated(back, axis, after)], axis)
    # Going outwards, whole chunks alternate between two forms; the outermost may be a part of one.
    length = size - 1 if mode == "reflect" else size
    backwards = node if mode == "wrap" else _reversed(node, axis)
    left = [_part(chunk, axis, 0, length) for chunk in (backwards, node)]
    right = [_part(chunk, axis, size - length, length) for chunk in (backwards, node)]
    pieces = [node]
    for k in range(-(-before // length)):
        width = min(length, before - k * length)
        pieces.insert(0, _part(left[k % 2], axis, length - width, width))
    for k in range(-(-after // length)):
        pieces.append(_part(right[k % 2], axis, 0, min(length, after - k * length)))
    return _joined(pieces, axis)


def _part(node: Node, axis: int, start: int, size: int) -> Node:
    return build.slice_(node, [(start, size, 1) if a == axis else (0, n, 1) for a, n in enumerate(node.shape)])


def _reversed(node: Node, axis: int) -> Node:
    return build.slice_(node, [(n - 1, n, -1) if a == axis else (0, n, 1) for a, n in enumerate(node.shape)])


def _repeated(node: Node, axis: int, count: int) -> Node:
    return build.expand(node, tuple(count if a == axis else n for a, n in enumerate(node.shape)))


def _joined(pieces: list[Node], axis: int) -> Node:
    return build.concat([piece for piece in pieces if piece.shape[axis] != 0], axis)

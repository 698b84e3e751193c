"""Windows that are plainer movement: those of one element, and those that lie side by side."""

from __future__ import annotations

from collections.abc import Sequence

from smelt import dtypes
from smelt.graph import build
from smelt.graph.node import Node
from smelt.graph.ops import Op, Span
from smelt.rewrite.rule import Family
from smelt.rewrite.rules.pattern import leaf

family = Family("movement")
_f32 = dtypes.float32


def _single_examples() -> Sequence[Node]:
    x = leaf(_f32, 5, 7)
    return [build.window(x, 0, 1), build.window(x, 1, 1, 3, 2)]


@family.rule(Op.WINDOW, examples=_single_examples)
def window_is_slice(node: Node) -> Node | None:
    """Windows of one element → every step-th element, with a new axis."""
    (x,) = node.sources
    axis, size, step, _ = node.attribute
    if size != 1:
        return None
    spans = [Span(0, node.shape[k], step) if k == axis else Span(0, extent, 1) for k, extent in enumerate(x.shape)]
    return build.reshape(build.slice_(x, spans), node.shape)


def _adjacent_examples() -> Sequence[Node]:
    x = leaf(_f32, 6, 4, 5)
    return [build.window(x, 0, 3, 3), build.window(x, 1, 4), build.window(x, 2, 5, 9)]


@family.rule(Op.WINDOW, examples=_adjacent_examples)
def window_is_reshape(node: Node) -> Node | None:
    """Windows one after the other that cover the axis → the axis cut in two."""
    (x,) = node.sources
    axis, size, step, dilation = node.attribute
    extent, count = x.shape[axis], node.shape[axis]
    if size == 1 or dilation != 1 or not isinstance(extent, int) or extent != count * size:
        return None
    if step != size and count != 1:
        return None
    cut = build.reshape(x, (*x.shape[:axis], count, size, *x.shape[axis + 1 :]))
    order = [k for k in range(cut.rank) if k != axis + 1]
    return build.permute(cut, (*order, axis + 1))

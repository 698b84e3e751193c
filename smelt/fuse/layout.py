"""How values lie in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from smelt.graph import IndexLike, Node, row_major


class Layout(NamedTuple):
    """How a value lies in memory: sizes and strides, counted in elements."""

    shape: tuple[IndexLike, ...]
    strides: tuple[IndexLike, ...]


def contiguous(node: Node) -> Layout:
    """The layout of everything that smelt itself stores."""
    return Layout(node.shape, row_major(node.shape))


LayoutOf = Callable[[Node], Layout]


def is_contiguous(node: Node, layout: LayoutOf) -> bool:
    """Whether a value lies in row-major order."""
    expected = zip(node.shape, layout(node).strides, row_major(node.shape), strict=True)
    return 0 in node.shape or all(size == 1 or stride == wanted for size, stride, wanted in expected)

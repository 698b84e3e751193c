"""Python numbers passed to a jitted function: traced, and still weakly typed."""

from __future__ import annotations

from smelt.dtypes import float32
from smelt.graph import Node, build
from smelt.runtime import is_weak


def default_weak(node: Node) -> Node:
    """A result that depends on Python numbers alone, in the default dtype of its kind."""
    return build.cast(node, float32) if node.dtype.is_float and is_weak(node) else node

"""Loops that count: `while i < n` with `i += 1` as a loop of known length that reads and writes slices."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.graph import Node


def counted(
    states: Sequence[Node], stand_ins: Sequence[Node], asked: Node, following: Sequence[Node]
) -> list[Node] | None:
    """The values of a loop, if it counts."""
    return None

"""Traces that differ in sizes only: after a few of them a note says how one can serve all."""

from __future__ import annotations

import warnings
from typing import Any, Final

from smelt.errors import TraceWarning
from smelt.graph.shapes import shape_text
from smelt.runtime.storage import Signature

_ENOUGH: Final = 5


class Repeats:
    """Counts the traces of one function."""

    def __init__(self) -> None:
        self.seen: dict[
            Any, dict[tuple[Any, ...], None]
        ] = {}  # marks of tensors and numbers, by what they have in common

    def add(self, name: str, key: tuple[Any, tuple[Any, ...]]) -> None:
        """Note a trace under its key; warn once, when there have been enough that differ in sizes only."""
        structure, marks = key
        seen = self.seen.setdefault((structure, tuple([_without_sizes(mark) for mark in marks])), {})
        if marks in seen:  # by another thread
            return
        before = next(reversed(seen), marks)
        seen[marks] = None
        if len(seen) != _ENOUGH:
            return
        pairs = [(a.shape, b.shape) for a, b in zip(before, marks, strict=True) if isinstance(b, Signature)]
        last, now = next((pair for pair in pairs if pair[0] != pair[1]), ((), ()))
        sizes = ["n" if a != b else str(b) for a, b in zip(last, now, strict=True)]
        warnings.warn(
            f"jit: {name} was traced {_ENOUGH} times for inputs that differ in their sizes only, such as "
            f"{shape_text(last)} and {shape_text(now)}. One compilation can serve all of them: jit(f, dynamic=True) "
            f'finds the sizes that change; n = sm.Dim("n", 1, 4096) and jit(f, shapes=[({", ".join(sizes)},)]) declare '
            "them.",
            TraceWarning,
            stacklevel=4,
        )


def _without_sizes(mark: Any) -> Any:
    in_order = isinstance(mark, Signature) and mark.packed_bytes >= 0
    return (mark.dtype, len(mark.shape), mark.device) if in_order else mark

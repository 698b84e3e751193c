"""Many traces of one function: after a few that differ in sizes only a note says how one can serve all, and after many
that something differs from call to call.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable
from typing import Any, Final

from smelt.errors import TraceWarning
from smelt.graph import shape_text
from smelt.runtime import Signature

_FEW: Final = 3  # traces that differ in values only may be compiled for their numbers
_ENOUGH: Final = 5
_MANY: Final = 64


def changes_values(known: Iterable[Any], key: Any) -> bool:
    """Whether a few of the keys before this one have tensors like its own, and so other numbers or objects."""
    own = _tensors(key)
    earlier = itertools.takewhile(lambda other: other != key, list(known))
    alike = (other for other in earlier if _tensors(other) == own)
    return len(list(itertools.islice(alike, _FEW))) == _FEW


def _tensors(key: Any) -> list[Signature]:
    return [mark for mark in key[1] if isinstance(mark, Signature)]


class Repeats:
    """Counts the traces of one function."""

    def __init__(self) -> None:
        # Marks of tensors and numbers, by what they have in common.
        self.seen: dict[Any, dict[tuple[Any, ...], None]] = {}
        self.count = 0

    def add(self, name: str, key: tuple[Any, tuple[Any, ...]]) -> None:
        """Note a trace under its key; warn once, when there have been enough that differ in sizes only."""
        structure, marks = key
        self.count += 1
        if self.count == _MANY:
            warnings.warn(
                f"jit: {name} was traced {_MANY} times, and all of these programs are kept. Something that counts as "
                "part of the program differs from call to call: a number or an object that the function reads from "
                "outside, or another object as an argument. Pass numbers and tensors as arguments, which may change.",
                TraceWarning,
                stacklevel=4,
            )
        seen = self.seen.setdefault((structure, tuple([_without_sizes(mark) for mark in marks])), {})
        if marks in seen:  # by another thread
            return
        *_, before = marks, *seen  # at once: another thread may note something meanwhile
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

"""What stands for a static value in the key of a structure: values that may lead to different traces have different
marks.
"""

from __future__ import annotations

from typing import Any

from smelt.errors import ArgumentError


class Identity:
    """An object that counts by identity. It is kept alive, so that its identity stays its own."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def value_mark(value: Any) -> Any:
    """A value by its type and content: 1, 1.0 and True differ, and so do 0.0 and -0.0, also inside tuples."""
    kind = type(value)
    if kind is float:
        return (kind, value.hex())
    if isinstance(value, tuple):
        return (kind, tuple([value_mark(item) for item in value]))
    if kind is frozenset:
        return (kind, frozenset([value_mark(item) for item in value]))
    try:
        hash(value)
    except TypeError:
        raise ArgumentError(
            f"jit: an argument of type {kind.__name__} is neither a tensor nor hashable",
            hint="Pass arrays as tensors (sm.asarray), and other data as tuples, strings or numbers.",
        ) from None
    return (kind, value)

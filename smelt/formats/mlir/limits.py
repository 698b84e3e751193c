"""How much a text may ask for. Reading ends with an error beyond, never with a machine that is out of memory."""

from __future__ import annotations

from typing import Final, NamedTuple


class Limits(NamedTuple):
    """Bounds on the text itself, and on what it describes."""

    characters: int = 1 << 30
    operations: int = 2_000_000
    depth: int = 64  # of regions in each other, and of attributes in each other
    axes: int = 64
    elements: int = 1 << 40  # of one type
    aliased: int = 1 << 22  # tokens that aliases stand for, all uses together
    calls: int = 100_000  # functions that are written out where they are called
    seconds: float = 600.0


LIMITS: Final = Limits()

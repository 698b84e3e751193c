"""What the machine does at most: operations per second, and bytes per second from each level of memory, as measured by
`rates` in a process that may use so many cores. A kernel's share of it is the least time that its operations and its
bytes need, over what it took.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

from smelt.bench.timing import run_json

_NARROW = "bfloat16"


class Roof(NamedTuple):
    """Per second, for a number of threads. `levels` are bytes that fit and bytes per second, the nearest first."""

    threads: int
    flops: float
    words: float  # operations of bfloat16, where instructions for words are faster; else 0
    copy: float  # bytes read and written, from memory to memory
    levels: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, threads: int, figures: dict[str, float]) -> Roof:
        """From `cost.Rates` and the sizes of the caches."""
        memory = max(figures["memory_all"], figures["copy_all"])
        third = max(memory, threads * figures["third"])
        second = max(third, threads * figures["second"])
        caches = ((threads * figures["l2"], 1e9 * second), (figures["l3"], 1e9 * third))
        levels = (*caches, (math.inf, 1e9 * memory))
        of_core = 1e9 * threads
        return cls(
            *(threads, of_core * figures["multiply_add"], of_core * figures["words"], 1e9 * figures["copy_all"]), levels
        )

    def bandwidth(self, nbytes: float) -> float:
        """Of the nearest memory that so many bytes fit into."""
        return next(rate for size, rate in self.levels if nbytes <= size)

    def share(self, seconds: float, flops: float, nbytes: float, dtype: str = "float32") -> float | None:
        """How much of it was reached; nothing where no roof for such numbers was measured."""
        if not seconds or not (flops or nbytes) or dtype not in ("float32", _NARROW):
            return None
        peak = max(self.flops, self.words) if dtype == _NARROW else self.flops
        return max(flops / peak, nbytes / self.bandwidth(nbytes)) / seconds

    def json(self) -> dict[str, Any]:
        """As plain data; memory is as large as it is."""
        return self._asdict() | {"levels": [[None if math.isinf(size) else size, rate] for size, rate in self.levels]}


@functools.cache
def measured_roof(threads: int) -> Roof:
    """In a process of its own, which takes about two seconds."""
    return Roof.of(threads, run_json(["-m", "smelt.bench.rates", str(threads)]))

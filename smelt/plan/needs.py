"""What one call of a compiled graph takes from memory: known before anything runs."""

from __future__ import annotations

from typing import NamedTuple


class MemoryPlan(NamedTuple):
    """Bytes that one call needs, by purpose. `str()` is a sentence."""

    inputs: int  # what it reads: arguments, weights and captured tensors, each block of memory once
    results: int  # fresh memory for what it returns
    intermediates: int  # the arena: values alive at the same time lie side by side, others share their place
    workspaces: int  # scratch for all threads together
    blocks: int  # what the allocator takes for all but the inputs, sizes rounded up to those of its blocks

    @property
    def peak(self) -> int:
        """The most bytes in use at any moment of the call, inputs included."""
        return self.inputs + self.results + self.intermediates + self.workspaces

    def __str__(self) -> str:
        parts = (
            f"inputs {self.inputs}, results {self.results}, intermediates {self.intermediates}",
            f"workspaces {self.workspaces}: a peak of {self.peak} bytes",
        )
        return ", ".join(parts)

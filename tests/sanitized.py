"""Runs tests in this process with kernels that check every access: `python -m tests.sanitized tests/test_op_table.py`.

The process needs the sanitizers' libraries from the start; `tests/test_sanitizers.py` gives it what it needs.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import pytest

from smelt.device import memory

_UNCACHED = 4096  # NumPy keeps smaller arrays for itself, with whatever was forbidden about them


def forbid(address: int, nbytes: int) -> None:
    """Report every access to these bytes."""
    process: Any = ctypes.CDLL(None)
    process.__asan_poison_memory_region(ctypes.c_void_p(address), ctypes.c_size_t(nbytes))


class _ExactBlock(memory.Block):
    """A block after whose last byte nothing may be touched."""

    def reserve(self, nbytes: int) -> int:
        address = super().reserve(max(nbytes, _UNCACHED))
        end = self.storage.__array_interface__["data"][0] + self.storage.nbytes
        forbid(address + nbytes, end - address - nbytes)
        return address


def exact_blocks() -> None:
    """From now on, memory ends where what was asked for ends."""
    memory.pool()._block = _ExactBlock
    memory.size_class = lambda nbytes: nbytes  # type: ignore[assignment]


def main(arguments: list[str]) -> int:
    exact_blocks()
    return int(pytest.main(["-q", "-x", "-s", "-p", "no:cacheprovider", *arguments]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Kernels run by themselves, over memory of their own."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smelt.config import configure
from smelt.device import Launch, Listing
from smelt.device.cpu import CPU, Program
from smelt.graph import upper
from smelt.kernel import Buffer, Kernel

_ALIGNMENT = 4096


class Runner:
    """A kernel ready to run on so many threads. A call runs it once and gives the seconds that the launch took; on one
    thread without the time that the processor spent on others.
    """

    def __init__(self, kernel: Kernel, library: Any, grain: int, threads: int, memory: Sequence[NDArray[np.uint8]]):
        device = CPU()
        tasks = kernel.tasks.value
        assert tasks is not None and not kernel.parameters
        slots = [(1 + k, 0) for k in range(len(kernel.buffers))]
        launch = Launch(0, kernel.name, "", tasks, grain, 1, tuple(range(len(slots))), ())
        with configure(threads=threads):
            self._program = Program(Listing([launch], slots, device.workspace_bytes(kernel)), [library])
        self._program.is_timed = True
        self._arena = memory_of(max(1, self._program.arena_bytes))
        self._memory = memory
        self._bases = struct.pack(f"{1 + len(memory)}q", *(x.ctypes.data for x in (self._arena, *memory)))

    def __call__(self) -> float:
        start = time.thread_time()
        self._program.run(self._bases, b"")
        own = time.thread_time() - start
        taken = self._program.launch_seconds()
        assert taken is not None
        return min(own, taken[0]) if self._program.threads == 1 else taken[0]

    def best(self, seconds: float, least: int = 3) -> float:
        """The shortest of as many runs as fit into a time, after one that warms up."""
        once = self()
        return min(self() for _ in range(max(least, min(1000, int(seconds / max(once, 1e-6))))))


def memory_of(nbytes: int) -> NDArray[np.uint8]:
    """Zeros that begin with a page, all of which are there."""
    block = np.full(nbytes + _ALIGNMENT, 0, np.uint8)
    offset = -block.ctypes.data % _ALIGNMENT
    return block[offset : offset + nbytes]


def buffer_bytes(buffer: Buffer) -> int:
    """The memory that an argument takes."""
    ends = zip(buffer.shape, buffer.strides, strict=True)
    last = upper(buffer.offset) + sum((upper(size) - 1) * upper(stride) for size, stride in ends)
    return (last + 1) * buffer.dtype.itemsize


def filled(buffer: Buffer) -> NDArray[np.uint8]:
    """Memory for an argument: numbers between 0 and 1, or zeros where they may be indices."""
    made = memory_of(buffer_bytes(buffer))
    if buffer.dtype.is_float:
        view = made.view(buffer.dtype.numpy)
        view[:] = np.random.default_rng(0).random(view.shape, np.float32).astype(view.dtype)
    return made

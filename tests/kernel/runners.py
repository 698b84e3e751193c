"""Ways to run kernels, the interpreter and compiled C with many kernels in one translation unit, and what to expect."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from smelt.device.memory import NOWHERE
from smelt.dtypes import cast_array
from smelt.graph.index import as_index
from smelt.kernel import Kernel, Region, interpret
from smelt.search.reference import reference

Arrays = dict[str, "np.ndarray[Any, Any]"]
Job = tuple[Kernel, Arrays, dict[str, int]]
Runner = Callable[[Sequence[Job]], None]

_SIGNATURE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_long, ctypes.c_long)


def evaluate_region(region: Region, arrays: Arrays, integers: Mapping[str, int]) -> None:
    """Compute a region's outputs, with no schedule at all, into the storage of each buffer, one-dimensional."""
    for output in region.outputs:  # one after the other: they may be read by those behind them
        found = reference(replace(region, outputs=(output,)), arrays, integers)[output.buffer.name]
        written = np.flatnonzero(found.written)
        arrays[output.buffer.name][written] = cast_array(found.value[written], output.buffer.dtype)


def run_interpreted(jobs: Sequence[Job]) -> None:
    for kernel, arrays, integers in jobs:
        interpret(kernel, arrays, integers)


def run_compiled(jobs: Sequence[Job]) -> None:
    """All kernels in one library; each is run in ranges of tasks, last range first, with a poisoned workspace."""
    from smelt.device.toolchain import build
    from smelt.render import render, workspace_bytes

    kernels = [replace(kernel, name=f"k{at}") for at, (kernel, _, _) in enumerate(jobs)]
    (library,) = build([render(kernels)])
    for kernel, (_, arrays, integers) in zip(kernels, jobs, strict=True):
        numbers = [integers[v.name] for v in kernel.parameters]
        tasks = int(as_index(kernel.tasks).evaluate(integers))
        cut = tasks // 3
        stretches = [(cut, tasks), (0, cut)] if cut else [(0, tasks)]
        own = [arrays[buffer.name] for buffer in kernel.buffers]
        call(library.address(kernel.name), own, numbers, workspace_bytes(kernel), stretches)


def call(
    address: int,
    arrays: Sequence[np.ndarray[Any, Any]],
    numbers: Sequence[int],
    nbytes: int,
    stretches: Sequence[tuple[int, int]],
) -> None:
    """Run stretches of the tasks of a compiled kernel, with so many bytes of poisoned workspace."""
    packed = (ctypes.c_long * max(1, len(numbers)))(*numbers)
    pointers = (ctypes.c_void_p * len(arrays))(*[array.ctypes.data for array in arrays])
    room = np.full(nbytes + 64, 0xFF, np.uint8)
    start = room.ctypes.data + -room.ctypes.data % 64
    run = _SIGNATURE(address)
    for begin, end in stretches:
        run(ctypes.addressof(pointers), ctypes.addressof(packed), start, begin, end)


def is_simulated() -> bool:
    """Whether the OpenCL device is the simulator, which takes kernels as they are written."""
    from smelt.device.opencl import open_context

    return "Oclgrind" in open_context().identity


def run_opencl(jobs: Sequence[Job]) -> None:
    """All kernels in one program, each launched by itself."""
    from smelt.device.opencl import OpenCL
    from smelt.device.protocol import Launch, Listing

    device = OpenCL()
    kernels = [replace(kernel, name=f"k{at}") for at, (kernel, _, _) in enumerate(jobs)]
    if not kernels:
        return
    libraries = device.build([device.render(kernels)])
    for kernel, (_, arrays, integers) in zip(kernels, jobs, strict=True):
        count, slots = len(kernel.buffers), tuple(range(len(kernel.buffers)))
        numbers = [integers[v.name] for v in kernel.parameters]
        tasks = int(as_index(kernel.tasks).evaluate(integers))
        launch = Launch(0, kernel.name, "", tasks, 1, kernel.threads, slots, tuple(range(len(numbers))))
        program = device.load(Listing([launch], [(1 + k, 0) for k in range(count)]), libraries)
        memories = [device.upload(arrays[buffer.name]) for buffer in kernel.buffers]
        program.run(NOWHERE + b"".join(m.pointer for m in memories), struct.pack(f"{len(numbers)}q", *numbers))
        for buffer, memory in zip(kernel.buffers, memories, strict=True):
            array = arrays[buffer.name]
            array[...] = memory.view(array.dtype, array.shape)


RUNNERS: dict[str, Runner] = {"interpreted": run_interpreted, "compiled": run_compiled}

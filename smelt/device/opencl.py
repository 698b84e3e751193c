"""OpenCL as a device: buffers, programs built from source, and launch lists replayed through a command queue.

`pyopencl` is imported when the device is first used. `SMELT_OPENCL` chooses among several devices: a text that the name
of the platform or of the device contains.

The queue runs in order, so that memory may be given back and taken again while kernels that use it still wait there.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from smelt.cost import Profile
from smelt.device.memory import Block, Pool, Usage, pointer
from smelt.device.opencl_build import Library, build, stored
from smelt.device.opencl_program import PLACE_BITS, Program
from smelt.device.protocol import Step
from smelt.device.registry import only_first
from smelt.errors import DeviceError, InternalError
from smelt.graph import Variable, of
from smelt.locks import new_lock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.kernel import Kernel, Routine

_KEPT_FRACTION: Final = 8  # an eighth of the device's memory may lie in the pool
_EXTRA: Final = "pip install 'smelt[opencl]'"


class Context:
    """The one OpenCL device of this process, its queue and its free memory."""

    def __init__(self, cl: Any, device: Any) -> None:
        self.cl, self.device = cl, device
        self.handle = cl.Context([device])
        self.queue = cl.CommandQueue(self.handle, properties=cl.command_queue_properties.PROFILING_ENABLE)
        self.lock = new_lock()  # arguments of a kernel are set one by one
        self.process = os.getpid()
        self.blocks: dict[int, Any] = {}  # buffers by number; 0 stands for memory that is never touched
        self.blocks[0] = self._buffer(64)
        self._numbers = itertools.count(1)
        self.pool = Pool(device.global_mem_size // _KEPT_FRACTION, functools.partial(DeviceBlock, self))

    @property
    def identity(self) -> str:
        device = self.device
        return "\n".join([device.platform.name, device.platform.version, device.name, device.driver_version])

    def _buffer(self, nbytes: int) -> Any:
        return self.cl.Buffer(self.handle, self.cl.mem_flags.READ_WRITE, nbytes)

    def reserve(self, nbytes: int) -> int:
        """The number of a new buffer. MemoryError if there is no room for it."""
        number = next(self._numbers)
        try:
            self.blocks[number] = self._buffer(nbytes)
        except self.cl.Error as error:
            raise MemoryError(f"{nbytes} bytes on {self.device.name}") from error
        return number

    def release(self, number: int) -> None:
        """Give a buffer back to the driver; a forked child leaves that to its parent."""
        if self.process == os.getpid():
            del self.blocks[number]

    def write(self, address: int, data: Any) -> None:
        self.cl.enqueue_copy(self.queue, self.blocks[address >> PLACE_BITS], data, is_blocking=True)

    def read(self, address: int, into: NDArray[np.uint8]) -> None:
        self.cl.enqueue_copy(self.queue, into, self.blocks[address >> PLACE_BITS], is_blocking=True)


class DeviceBlock(Block):
    """A buffer of the device, for the pool: its address is its number and a place, which only programs can read."""

    __slots__ = ("_context",)

    def __init__(self, context: Context, nbytes: int, usage: Usage) -> None:
        self.nbytes, self.usage, self._context = 0, usage, context
        self.address = context.reserve(nbytes) << PLACE_BITS
        self.pointer = pointer(self.address)
        self.since = 0
        self.nbytes = nbytes
        usage.add(nbytes)

    def __del__(self) -> None:
        if self.nbytes:
            self._context.release(self.address >> PLACE_BITS)
        super().__del__()


@functools.cache
def _open() -> Context:
    try:
        import pyopencl as cl  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise DeviceError(
            "the device opencl needs pyopencl, which is not installed", hint=f"Install it: {_EXTRA}"
        ) from None
    try:
        found = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    except cl.Error:
        found = []
    wanted = os.environ.get("SMELT_OPENCL", "").lower()
    # A simulator is for looking for mistakes: it is never chosen unless it is named.
    named = [d for d in found if wanted in f"{d.platform.name} {d.name}".lower() and ("oclgrind" in wanted) >= _slow(d)]
    if not named:
        rule = f"There are: {', '.join(d.name for d in found)}." if found else "There is no OpenCL device."
        raise DeviceError("no OpenCL device was found", rule=rule, hint=f"{_EXTRA} brings one for the processor.")
    if not named[0].double_fp_config:
        raise DeviceError(f"the OpenCL device {named[0].name} has no float64", hint="SMELT_OPENCL names another one.")
    return Context(cl, named[0])


def _slow(device: Any) -> bool:
    return "oclgrind" in device.platform.name.lower()


_opening = new_lock()


def open_context() -> Context:
    """The context, opened at the first call."""
    with _opening:
        context = _open()
    if context.process != os.getpid():
        raise DeviceError(
            "OpenCL was used before this process was forked, and cannot be used in it",
            hint='Start processes with multiprocessing.get_context("spawn").',
        )
    return context


class BufferMemory:
    """`nbytes` bytes of device memory; recycled when nobody refers to them anymore."""

    __slots__ = ("address", "nbytes", "pointer", "_context", "_lent")
    device: Final = "opencl"
    recycled: Final = True

    def __init__(self, context: Context, nbytes: int) -> None:
        self._context, self.nbytes = context, nbytes
        self._lent = context.pool.take(nbytes)
        self.address, self.pointer = self._lent.address, self._lent.pointer

    def __repr__(self) -> str:
        return f"BufferMemory({self.nbytes} bytes)"

    def view(
        self,
        dtype: np.dtype[Any],
        shape: Sequence[int],
        strides_bytes: Sequence[int] | None = None,
        offset_bytes: int = 0,
        writeable: bool = False,
    ) -> NDArray[Any]:
        """A copy in main memory of what the block holds, seen as an array."""
        if writeable:
            raise InternalError("device memory cannot be written through a view")
        data = np.empty(self.nbytes, np.uint8)
        if self.nbytes:
            self._context.read(self.address, data)
        data.flags.writeable = False
        return np.ndarray(shape, dtype, data, offset_bytes, strides_bytes)

    def write(self, data: Any) -> None:
        self._context.write(self.address, data)


class OpenCL:
    """The OpenCL device of this process."""

    name: Final = "opencl"

    @functools.cached_property
    def profile(self) -> Profile:
        device = open_context().device
        return Profile(
            name=device.name,
            machine="opencl",
            vector_bytes=1,  # work-items are scalar
            vector_registers=32,
            cores=device.max_compute_units,
            l1_bytes=device.local_mem_size,
            l2_bytes=device.global_mem_cache_size or 1 << 20,
            l3_bytes=device.global_mem_cache_size or 1 << 20,
            features=frozenset(device.extensions.split()),
            group_threads=min(256, device.max_work_group_size),
            group_bytes=device.local_mem_size,
        )

    @property
    def identity(self) -> str:
        return open_context().identity

    def allocate(self, nbytes: int) -> BufferMemory:
        return BufferMemory(open_context(), nbytes)

    def upload(self, data: bytes | NDArray[Any]) -> BufferMemory:
        """New memory that holds these bytes, or those of a contiguous array."""
        flat = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data.reshape(-1).view(np.uint8)
        memory = self.allocate(max(1, flat.nbytes))
        if flat.nbytes:
            memory.write(flat)
        return memory

    def synchronize(self) -> None:
        open_context().queue.finish()

    def available_bytes(self) -> int:
        size: int = open_context().device.global_mem_size
        return size

    def render(self, kernels: Sequence[Kernel | Routine]) -> str:
        from smelt.render import render_opencl

        return render_opencl(kernels)

    def workspace_bytes(self, kernel: Kernel | Routine) -> int:
        return 0  # local memory is declared where it is used

    def count(self, kernel: Kernel | Routine) -> str:
        """The number of tasks as an expression over d0, d1, …, the kernel's integers."""
        own = {v: of(Variable(f"d{k}", v.first, v.last)) for k, v in enumerate(kernel.parameters)}
        return str(kernel.tasks.substitute(own))

    def build(self, sources: Sequence[str]) -> list[Library]:
        context = open_context()
        return [build(context, source) for source in sources]

    @contextmanager
    def building(self) -> Iterator[Builder]:
        yield Builder(open_context())

    def stored(self, keys: Sequence[str]) -> list[Library] | None:
        context = open_context()
        found = [stored(context, key) for key in keys]
        return None if None in found else [library for library in found if library is not None]

    def load(
        self,
        steps: Sequence[Step],
        libraries: Sequence[Any],
        slots: Sequence[tuple[int, int]],
        scratch_bytes: int,
        arena_bytes: int,
    ) -> Program:
        return Program(open_context(), steps, libraries, slots, arena_bytes)


class Builder:
    """Builds one source after the other: drivers compile in this process."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._libraries: list[Library] = []

    def add(self, source: str) -> None:
        """Build a source."""
        self._libraries.append(build(self._context, source))

    def advance(self) -> None:
        """Nothing waits."""

    def waiting(self) -> int:
        return 0

    def finish(self, each: Callable[[], None]) -> list[Library]:
        """The libraries of all sources."""
        return self._libraries


def open_device(number: int) -> OpenCL:
    """The device, if there is one."""
    only_first(OpenCL.name, number)
    open_context()
    return OpenCL()


def describe() -> list[dict[str, Any]]:
    """The facts about this device that `smelt devices` shows; none if there is no such device."""
    try:
        device = open_context().device
    except DeviceError:
        return []
    return [
        {
            "device": OpenCL.name,
            "name": device.name.strip(),
            "platform": f"{device.platform.name} {device.platform.version}".strip(),
            "driver": device.driver_version,
            "cores": device.max_compute_units,
            "largest_group": device.max_work_group_size,
            "local_memory_bytes": device.local_mem_size,
            "memory_bytes": device.global_mem_size,
        }
    ]

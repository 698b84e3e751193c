"""OpenCL as a device: buffers, programs built from source, and launch lists replayed through a command queue.

`pyopencl` is imported when the device is first used. `SMELT_OPENCL` chooses among several devices: a text that the name
of the platform or of the device contains.

The queue runs in order, so that memory may be given back and taken again while kernels that use it still wait there.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from smelt.cost import Profile
from smelt.device.memory import Block, Memory, Pool
from smelt.device.opencl_build import Library, build, stored
from smelt.device.protocol import Builder, Device, Listing
from smelt.device.queue import Program
from smelt.device.registry import only_first
from smelt.errors import DeviceError, InternalError
from smelt.locks import new_lock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.kernel import Kernel, Routine, Series

PLACE_BITS: Final = 40  # of a pointer; the bits above are the number of the block
_PLACE: Final = (1 << PLACE_BITS) - 1
_KEPT_FRACTION: Final = 8  # an eighth of the device's memory may lie in the pool
_DRIVER: Final = "pip install 'pyopencl[pocl]' brings one for processors, Debian's pocl-opencl-icd another."


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
        self.pool = Pool(device.global_mem_size // _KEPT_FRACTION, functools.partial(DeviceBlock, self), BufferMemory)

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

    def place(self, address: int) -> tuple[Any, int]:
        """A buffer and a place in it."""
        block = self.blocks.get(address >> PLACE_BITS)
        # What has no elements may lie anywhere: nothing is read there.
        return (self.blocks[0], 0) if block is None else (block, address & _PLACE)

    def read(self, address: int, into: NDArray[Any]) -> None:
        """Wait for what lies at an address."""
        block, place = self.place(address)
        if into.nbytes:
            self.cl.enqueue_copy(self.queue, into, block, src_offset=place, is_blocking=True)

    def write(self, address: int, data: NDArray[Any]) -> None:
        block, place = self.place(address)
        if data.nbytes:
            self.cl.enqueue_copy(self.queue, block, data, dst_offset=place, is_blocking=True)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        """From one address to another, when its turn comes."""
        if to != source and nbytes:
            (target, there), (origin, here) = self.place(to), self.place(source)
            sizes = {"byte_count": nbytes, "src_offset": here, "dst_offset": there}
            self.cl.enqueue_copy(self.queue, target, origin, **sizes)

    def launch(self, kernel: Any, tasks: int, threads: int, addresses: Iterable[int], integers: Sequence[int]) -> Any:
        """Enqueue a kernel; the event of its end."""
        arguments = [part for address in addresses for part in self.place(address)]
        return kernel(self.queue, (tasks * threads,), (threads,) if threads > 1 else None, *arguments, *integers)

    def flush(self) -> None:
        self.queue.flush()

    def seconds(self, launched: Any) -> float:
        """By the device's clock."""
        launched.wait()
        nanoseconds: int = launched.profile.end - launched.profile.start
        return 1e-9 * nanoseconds


class DeviceBlock(Block):
    """A buffer of the device, for the pool: its address is its number and a place, which only programs can read."""

    __slots__ = ("context",)

    def __init__(self, context: Context, nbytes: int, pool: Pool) -> None:
        self.context = context
        super().__init__(nbytes, pool)

    def __del__(self) -> None:
        if self.nbytes:
            self.context.release(self.address >> PLACE_BITS)
        super().__del__()

    def reserve(self, nbytes: int) -> int:
        return self.context.reserve(nbytes) << PLACE_BITS


class BufferMemory(Memory):
    """Memory of the device."""

    __slots__ = ()

    def view(
        self,
        dtype: np.dtype[Any],
        shape: Sequence[int],
        strides_bytes: Sequence[int] | None = None,
        offset_bytes: int = 0,
        writeable: bool = False,
    ) -> NDArray[Any]:
        """A copy in main memory of the part of the block that an array with these strides spans, seen as that array."""
        if writeable:
            raise InternalError("device memory cannot be written through a view")
        steps = [] if strides_bytes is None else [s * (n - 1) for n, s in zip(shape, strides_bytes, strict=True)]
        nbytes = math.prod(shape) * dtype.itemsize
        if steps and nbytes:
            nbytes = dtype.itemsize + sum(map(abs, steps))
        before = -sum(step for step in steps if step < 0) if nbytes else 0
        data = np.empty(nbytes, np.uint8)
        self.owner.block.context.read(self.address + offset_bytes - before, data)
        data.flags.writeable = False
        return np.ndarray(shape, dtype, data, before, strides_bytes)

    def write(self, data: bytes | NDArray[Any]) -> None:
        flat = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data.reshape(-1).view(np.uint8)
        self.owner.block.context.write(self.address, flat)


@functools.cache
def _open() -> Context:
    try:
        import pyopencl as cl  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise DeviceError(
            "the device opencl needs pyopencl, which is not installed", hint="Install it: pip install pyopencl"
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
        raise DeviceError("no OpenCL device was found", rule=rule, hint=_DRIVER)
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


class OpenCL(Device):
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

    def allocate(self, nbytes: int) -> Memory:
        return open_context().pool.take(nbytes)

    def synchronize(self) -> None:
        open_context().queue.finish()

    def available_bytes(self) -> int:
        size: int = open_context().device.global_mem_size
        return size

    def render(self, kernels: Sequence[Kernel | Routine | Series]) -> str:
        from smelt.render import OPENCL, render

        return render(kernels, OPENCL)

    def building(self) -> AbstractContextManager[Builder]:
        return nullcontext(Builder(functools.partial(build, open_context())))

    def stored(self, keys: Sequence[str]) -> list[Library] | None:
        context = open_context()
        found = [library for key in keys if (library := stored(context, key))]
        return found if len(found) == len(keys) else None

    def load(self, listing: Listing, libraries: Sequence[Any]) -> Program:
        return Program(open_context(), listing, libraries)


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

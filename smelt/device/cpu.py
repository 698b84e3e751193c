"""The processor as a device: memory, building kernels, and running lists of them by one native call."""

from __future__ import annotations

import ctypes
import functools
import math
import os
from array import array
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from smelt.config import settings
from smelt.cost import Profile, profile
from smelt.device import memory
from smelt.device.protocol import CONTROLS, REGISTER, Control, Device, HostStep, Launch, Listing, Step, check_listing
from smelt.device.registry import only_first
from smelt.errors import InternalError, MemoryLimitError
from smelt.locks import new_lock

# Compilers are looked for when something is built, so `import smelt` need not wait for what that takes.
if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.device.toolchain import Builder, Library
    from smelt.kernel import Kernel, Routine, Series

MOST_THREADS: Final = 256  # as in runtime.c
_MOST_TASKS: Final = 2**63 - 1
_MOST_ARGUMENTS: Final = 4096  # of one kernel: they lie on the stack

_KINDS: Final = {kind: number for number, kind in enumerate(CONTROLS, 1)}  # 0 is a launch
_HOST: Final = 1 + len(_KINDS)


class Program:
    """Steps, ready to run. Base 0 must point to `arena_bytes` bytes: intermediates, then scratch per thread.

    The libraries that addresses point into stay loaded as long as the program lives.
    """

    def __init__(self, listing: Listing, libraries: Sequence[Library]) -> None:
        check_listing(listing)
        steps, slots, scratch_bytes, arena_bytes = listing
        launches = [step for step in steps if isinstance(step, Launch)]
        most = max((len(given) for launch in launches for given in (launch.buffers, launch.integers)), default=1)
        if most > _MOST_ARGUMENTS:
            raise InternalError(f"a kernel with {most} arguments")
        self._hosts = {at: step for at, step in enumerate(steps) if isinstance(step, HostStep)}
        self._slots = list(slots) if self._hosts else []
        scratch_offset = _aligned(arena_bytes)
        scratch_bytes = _aligned(scratch_bytes)
        self.threads, self._libraries = threads(), libraries
        self.workspace_bytes = self.threads * scratch_bytes
        self.arena_bytes = scratch_offset + self.workspace_bytes
        self._bases_bytes = 8 * (1 + max((base for base, _ in slots), default=0))
        self._integers_bytes = 8 * (1 + max((i for launch in launches for i in launch.integers), default=-1))
        # As runtime.c reads them: words of 64 bits. What the packed program points to has to live as long as it does.
        self._parts = [
            array("q", _packed_steps(steps, libraries)),
            array("q", [number for slot in slots for number in slot]),
            array("q", [slot for step in steps for slot in step.buffers]),
            array("q", [place for launch in launches for place in launch.integers]),
        ]
        step_list, *lists = [part.buffer_info()[0] for part in self._parts]
        sizes = (scratch_offset, scratch_bytes, max(1, most), self.threads)
        self._packed = array("q", [step_list, len(steps), *lists, *sizes]).tobytes()
        self._run, self._run_timed, _ = _runtime()
        # The launches of a loop may be any number: they are not timed one by one.
        self._taken = (ctypes.c_long * len(steps))() if len(launches) == len(steps) else None
        self.is_timed = False

    def run(self, bases: bytes, integers: bytes) -> None:
        """Run every step. `bases` and `integers` are packed 8-byte values; base 0 is the arena.

        The arena belongs to this call alone until it returns. Other Python threads go on meanwhile. Ctrl-C is seen
        between launches when they take long: at the latest about half a second and one kernel later.
        """
        if len(bases) < self._bases_bytes or len(integers) < self._integers_bytes:
            raise InternalError("a program was run with too few pointers or integers")
        if self.is_timed and self._taken is not None:
            self._run_timed(self._packed, bases, integers, self._taken)
            return
        following = self._run(self._packed, bases, integers, 0)
        while following:
            if following < 0:
                at = -1 - following
                self._do(at, bases, integers)
                following = at + 1
            following = self._run(self._packed, bases, integers, following)

    def _do(self, at: int, bases: bytes, integers: bytes) -> None:
        """A step of Python's."""
        addresses = memoryview(bases).cast("q")

        def view(slot: int, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
            base, offset = self._slots[slot]
            address = addresses[max(base, 0)] + offset
            if base == REGISTER:
                address = ctypes.c_int64.from_address(address).value
            return _array_at(address, dtype, shape)

        def write(slot: int, array: NDArray[Any]) -> None:
            view(slot, array.dtype, array.shape)[...] = array

        self._hosts[at].run(memoryview(integers).cast("q"), view, write)

    def launch_seconds(self) -> list[float] | None:
        """How long each launch of the latest timed run took; None where there was none, or if there are loops."""
        return [1e-9 * nanoseconds for nanoseconds in self._taken] if self.is_timed and self._taken else None


class CPU(Device):
    """The processor that this process runs on."""

    name: Final = "cpu"

    @property
    def profile(self) -> Profile:
        return profile()

    @property
    def identity(self) -> str:
        """The compiler, its flags, and the processor that it compiles for."""
        from smelt.device import toolchain

        return toolchain.compiler().identity

    allocate = staticmethod(memory.allocate)

    def available_bytes(self) -> int:
        return memory.available_bytes()

    def render(self, kernels: Sequence[Kernel | Routine | Series]) -> str:
        from smelt.render import render

        return render(kernels, features=self.profile.features)

    def workspace_bytes(self, kernel: Kernel | Routine | Series) -> int:
        from smelt.render import workspace_bytes

        return workspace_bytes(kernel)

    def count(self, kernel: Kernel | Routine | Series) -> str:
        """The function beside a kernel that tells the number of its tasks."""
        return f"{kernel.name}_tasks"

    def building(self) -> AbstractContextManager[Builder]:
        # The first kernels of a process compile beside the runtime that will run them.
        from smelt.device import toolchain

        return toolchain.building(beside=[_runtime_source()])

    def stored(self, keys: Sequence[str]) -> list[Library] | None:
        from smelt.device import toolchain

        return toolchain.stored(keys)

    load = staticmethod(Program)


def open_device(number: int) -> CPU:
    """The processor."""
    only_first(CPU.name, number)
    return CPU()


def describe() -> list[dict[str, Any]]:
    """The facts about this device that `smelt devices` shows."""
    known = profile()
    shown = ("name", "machine", "cores", "vector_bytes", "vector_registers", "l1_bytes", "l2_bytes", "l3_bytes")
    facts = {"device": CPU.name} | {name: getattr(known, name) for name in shown} | {"threads": threads()}
    return [facts | {"memory_bytes": memory.machine_bytes(), "free_bytes": memory.available_bytes()}]


def threads() -> int:
    """As many as the settings say, else one for each core."""
    return max(1, min(settings().threads or profile().cores, MOST_THREADS))


_runtime_lock = new_lock()


# What runs a program, at one go or timing its launches; and the library that holds both, and the code of the threads.
_Runtime = tuple[Callable[[bytes, bytes, bytes, int], int], Callable[[bytes, bytes, bytes, Any], None], "Library"]


def _runtime() -> _Runtime:
    with _runtime_lock:
        return _load_runtime()


@functools.cache
def _runtime_source() -> str:
    with open(os.path.join(os.path.dirname(__file__), "runtime.c"), encoding="utf-8") as file:
        return file.read()


@functools.cache
def _load_runtime() -> _Runtime:
    from smelt.device import toolchain

    [library] = toolchain.build([_runtime_source()])
    after_fork = ctypes.CFUNCTYPE(None)(library.address("smelt_after_fork"))
    os.register_at_fork(after_in_child=after_fork)
    # Bytes, arrays and small numbers become what C takes without their types being declared, and much faster.
    run = ctypes.CFUNCTYPE(ctypes.c_long)(library.address("smelt_run"))
    run_timed = ctypes.CFUNCTYPE(None)(library.address("smelt_run_timed"))
    return run, run_timed, library


def _array_at(address: int, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Memory as an array, which does not own it."""
    import numpy as np

    nbytes = np.dtype(dtype).itemsize * math.prod(shape)
    return np.ndarray(shape, dtype, (ctypes.c_char * nbytes).from_address(address))


def _packed_steps(steps: Sequence[Step], libraries: Sequence[Library]) -> list[int]:
    packed: list[int] = []
    first_buffer = first_integer = 0
    for step in steps:
        kernel = count = integers = kind = amount = other = 0
        if isinstance(step, HostStep):
            kind = _HOST
        elif isinstance(step, Control):
            kind, amount, other = _KINDS[step.kind], step.amount, step.target
        else:
            address = libraries[step.library].address
            kernel, count = address(step.kernel), address(step.count) if step.count else 0
            integers, amount, other = len(step.integers), step.tasks, step.grain
        if max(amount, other) > _MOST_TASKS:
            raise MemoryLimitError("a tensor has more elements than 64 bits can count", hint="Use smaller shapes.")
        packed += (kernel, count, amount, other, first_buffer, len(step.buffers), first_integer, integers, kind)
        first_buffer += len(step.buffers)
        first_integer += integers
    return packed


def _aligned(nbytes: int) -> int:
    return -(-nbytes // memory.ALIGNMENT) * memory.ALIGNMENT

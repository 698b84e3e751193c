"""What a device must offer: the one small protocol between the compiler and whatever runs kernels.

A device renders and builds source in its own language, keeps memory, and turns launch lists into programs. Nothing
above it knows its name: what it can do stands in its profile.

Pointers are eight bytes that only their device can read. On the processor they are addresses; elsewhere they may stand
for an object and a place in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.cost.profile import Profile
    from smelt.kernel.ir import Kernel
    from smelt.kernel.routine import Routine


@dataclass(frozen=True)
class Launch:
    """One kernel of a program: the library that holds it, its names there, and what it is given."""

    library: int
    kernel: str
    count: str  # what tells the number of tasks, as the device's `count` named it; empty: `tasks` holds
    tasks: int
    grain: int  # tasks that are worth handing to a thread at a time
    threads: int  # that run one task together
    buffers: tuple[int, ...]  # slots
    integers: tuple[int, ...]  # of the call


class Library(Protocol):
    """Loaded code, under the key by which it is found again."""

    @property
    def key(self) -> str: ...


class DeviceMemory(Protocol):
    """A block of a device's memory: `pointer` is what its programs take, `view` what NumPy sees."""

    address: int
    pointer: bytes
    nbytes: int

    @property
    def device(self) -> str: ...

    @property
    def recycled(self) -> bool: ...

    def view(
        self,
        dtype: Any,
        shape: Sequence[int],
        strides_bytes: Sequence[int] | None = None,
        offset_bytes: int = 0,
        writeable: bool = False,
    ) -> NDArray[Any]: ...


class Program(Protocol):
    """A launch list, ready to run. Base 0 must point to `arena_bytes` bytes."""

    @property
    def arena_bytes(self) -> int: ...

    @property
    def workspace_bytes(self) -> int:
        """How much of the arena is memory of single threads."""
        ...

    def run(self, bases: bytes, integers: bytes) -> None: ...

    def launch_seconds(self) -> list[float] | None:
        """How long each launch of the latest run took, by the device's own clock; None if it has none."""
        ...


class Device(Protocol):
    """Where graphs run."""

    @property
    def name(self) -> str: ...

    @property
    def profile(self) -> Profile: ...

    @property
    def identity(self) -> str:
        """Everything that compiled code depends on: part of the key under which it is kept."""
        ...

    def allocate(self, nbytes: int) -> DeviceMemory: ...

    def upload(self, data: bytes | NDArray[Any]) -> DeviceMemory:
        """New memory that holds these bytes."""
        ...

    def synchronize(self) -> None:
        """Wait for everything that programs have been asked to do."""
        ...

    def available_bytes(self) -> int:
        """What may still be allocated."""
        ...

    def render(self, kernels: Sequence[Kernel | Routine]) -> str: ...

    def workspace_bytes(self, kernel: Kernel | Routine) -> int:
        """Memory that each thread needs besides the kernel's arguments."""
        ...

    def count(self, kernel: Kernel | Routine) -> str:
        """What tells the number of tasks of a kernel for which it is not fixed."""
        ...

    def build(self, sources: Sequence[str]) -> Sequence[Library]: ...

    def stored(self, keys: Sequence[str]) -> Sequence[Library] | None:
        """The libraries that were built under these keys, by this process or an earlier one; None if one is missing."""
        ...

    def load(
        self,
        launches: Sequence[Launch],
        libraries: Sequence[Any],
        slots: Sequence[tuple[int, int]],
        scratch_bytes: int,
        arena_bytes: int,
    ) -> Program:
        """A launch list over `slots`, each a base (0: the arena) and an offset in bytes."""
        ...

"""What a device must offer: the one small protocol between the compiler and whatever runs kernels.

A device renders and builds source in its own language, keeps memory, and turns launch lists into programs. Nothing
above it knows its name: what it can do stands in its profile.

Pointers are eight bytes that only their device can read. On the processor they are addresses; elsewhere they may stand
for an object and a place in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from smelt.device.memory import Memory
from smelt.errors import InternalError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.cost import Profile
    from smelt.kernel import Kernel, Routine, Series


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


class Operands(NamedTuple):
    """What a kind of control step is given."""

    slots: int  # how many it names
    registers: int = 0  # the first of these are registers
    measured: bool = False  # one more slot may hold its amount


# What a control step does. A register is a pointer that the arena holds, a counter an int64 there.
CONTROLS: Final[dict[str, Operands]] = {
    "point": Operands(2, 1),  # a register, a place: the register points to the place
    "advance": Operands(1, 1, measured=True),  # a register: it moves on by the amount, in bytes
    "rotate": Operands(4, 2),  # registers `now` and `next`, two places: now becomes next, and next the other place
    "set": Operands(1),  # a counter: it becomes the amount
    "again": Operands(1),  # a counter: it goes up by one, and the target is the next step
    "until": Operands(1, measured=True),  # a counter: once it has reached the amount, the target is the next step
    "unless": Operands(1),  # a bool: if it is false, the target is the next step
    "jump": Operands(0),  # the target is the next step
    "copy": Operands(2, measured=True),  # two places: the amount, in bytes, from the second to the first
}
REGISTER: Final = -1  # as the base of a slot: where the pointer that lies at the slot's offset in the arena points to
_POINTER_BYTES: Final = 8
_COUNTERS: Final = ("set", "again", "until")
_MOST: Final = 1 << 62  # bytes, or iterations


@dataclass(frozen=True)
class Control:
    """A step of a program that launches nothing: it moves pointers, counts, or says which step is next."""

    kind: str
    buffers: tuple[int, ...]  # slots, as CONTROLS says; where there is one more, it holds the amount, an int64
    amount: int = 0
    target: int = 0  # the number of a step, or of the end


@dataclass(frozen=True, eq=False)
class HostStep:
    """A step that Python does: `function(arrays, shapes)` of what the first `read` slots hold, to the others."""

    buffers: tuple[int, ...]  # slots
    arrays: tuple[tuple[Any, tuple[Any, ...]], ...]  # the NumPy dtype and shape behind each
    read: int
    names: dict[str, int]  # of the dims in shapes, among the integers of the call
    function: Callable[[Sequence[Any], Sequence[tuple[int, ...]]], list[Any]]

    def run(
        self,
        integers: Sequence[int],
        read: Callable[[int, Any, tuple[int, ...]], NDArray[Any]],
        write: Callable[[int, NDArray[Any]], None],
    ) -> None:
        """Do the step, given the integers of the call, and what gives and takes the array of a slot.

        An array that is read may lie in the program's own memory. A function that `keeps_nothing` of what it is given
        sees it there; others get a copy, which they may keep.
        """
        shapes = [shape for _, shape in self.arrays]
        if self.names:
            values = {name: integers[k] for name, k in self.names.items()}
            shapes = [
                tuple(size if isinstance(size, int) else size.evaluate(values) for size in shape) for shape in shapes
            ]
        places = list(zip(self.buffers, (dtype for dtype, _ in self.arrays), shapes, strict=True))
        given = [read(*place) for place in places[: self.read]]
        if not getattr(self.function, "keeps_nothing", False):
            given = [array if array.flags.owndata else array.copy() for array in given]
        found = self.function(given, shapes[self.read :])
        for (slot, dtype, shape), array in zip(places[self.read :], found, strict=True):
            write(slot, array.astype(dtype, copy=False).reshape(shape))


Step = Launch | Control | HostStep


class RefusedCodeError(InternalError):
    """Source that a compiler refuses, and what that says: a bug, where smelt has written it."""

    def __init__(self, message: str, said: str) -> None:
        super().__init__(message)
        self.said = said


class Listing(NamedTuple):
    """A program as plain data: steps over slots, each a base (0: the arena, REGISTER: a pointer there) and an offset in
    bytes.
    """

    steps: Sequence[Step]
    slots: Sequence[tuple[int, int]]
    scratch_bytes: int = 0  # for each thread
    arena_bytes: int = 0


def check_listing(listing: Listing) -> None:
    """Raise InternalError unless steps fit the slots, and these the arena: a wrong number here would be a wild pointer
    there.
    """
    steps, slots, scratch_bytes, arena_bytes = listing
    if scratch_bytes < 0 or arena_bytes < 0:
        raise InternalError("a program with a negative size")
    for base, offset in slots:
        room = {0: arena_bytes, REGISTER: arena_bytes - _POINTER_BYTES}.get(base, offset)
        if base < REGISTER or not 0 <= offset <= room:
            raise InternalError(f"a slot at base {base}, offset {offset}, with an arena of {arena_bytes} bytes")
    pointed = {step.buffers[0] for step in steps if isinstance(step, Control) and step.kind == "point" and step.buffers}
    if any(base == REGISTER and slot not in pointed for slot, (base, _) in enumerate(slots)):
        raise InternalError("a register that points nowhere")
    for step in steps:
        if any(not 0 <= slot < len(slots) for slot in step.buffers):
            raise InternalError("a step names a slot that does not exist")
        if isinstance(step, Control):
            _check_control(step, [slots[slot][0] for slot in step.buffers], len(steps))
        elif isinstance(step, Launch) and any(place < 0 for place in step.integers):
            raise InternalError("a launch names an integer that does not exist")


def _check_control(step: Control, bases: Sequence[int], steps: int) -> None:
    known = CONTROLS.get(step.kind)
    if known is None or not known.slots <= len(bases) <= known.slots + known.measured:
        raise InternalError(f"a control step {step.kind!r:.20} with {len(bases)} slots")
    if type(step.target) is not int or type(step.amount) is not int or abs(step.amount) >= _MOST:
        raise InternalError(f"a control step {step.kind} with numbers of the wrong kind")
    if not 0 <= step.target <= steps:
        raise InternalError(f"a control step {step.kind} that goes on at a step that does not exist")
    if any(base != REGISTER for base in bases[: known.registers]) or (step.kind in _COUNTERS and bases[0] != 0):
        raise InternalError(f"a control step {step.kind} on places of the wrong kind")


class Library(Protocol):
    """Loaded code, under the key by which it is found again."""

    @property
    def key(self) -> str: ...


class Builder:
    """Sources on their way to loaded code: one after the other, where compilers work in this process."""

    def __init__(self, build: Callable[[str], Library]) -> None:
        self._build, self._libraries = build, list[Library]()

    def add(self, source: str) -> None:
        """Begin to build a source."""
        self._libraries.append(self._build(source))

    def advance(self) -> None:
        """Let sources that wait take their turn; this waits for nothing."""

    def waiting(self) -> int:
        """How many sources are not built yet."""
        return 0

    def finish(self, each: Callable[[], None] = lambda: None) -> Sequence[Library]:
        """The libraries of all sources, in their order, when they are there; `each` is called whenever one is."""
        return self._libraries

    def all(self, sources: Sequence[str]) -> Sequence[Any]:
        """The libraries of sources that are all known."""
        for source in sources:
            self.add(source)
        return self.finish()


class Program(Protocol):
    """A list of steps, ready to run. Base 0 must point to `arena_bytes` bytes."""

    is_timed: bool  # whether runs find out what each launch takes, which may cost a little

    @property
    def arena_bytes(self) -> int: ...

    @property
    def workspace_bytes(self) -> int:
        """How much of the arena is memory of single threads."""
        ...

    def run(self, bases: bytes, integers: bytes) -> None: ...

    def launch_seconds(self) -> list[float] | None:
        """How long each launch of the latest run took, if `is_timed`; None where that is not known."""
        ...


class Device(Protocol):
    """Where graphs run. What has a body here serves any device that inherits it."""

    @property
    def name(self) -> str: ...

    @property
    def profile(self) -> Profile: ...

    @property
    def identity(self) -> str:
        """Everything that compiled code depends on: part of the key under which it is kept."""
        ...

    def allocate(self, nbytes: int) -> Memory: ...

    def upload(self, data: bytes | NDArray[Any]) -> Memory:
        """New memory that holds these bytes, or those of a contiguous array."""
        nbytes = len(data) if isinstance(data, bytes) else data.nbytes
        held = self.allocate(max(1, nbytes))
        if nbytes:
            held.write(data)
        return held

    def synchronize(self) -> None:
        """Wait for everything that programs have been asked to do: nothing, where they are done when they return."""
        return

    def available_bytes(self) -> int:
        """What may still be allocated."""
        ...

    def render(self, kernels: Sequence[Kernel | Routine | Series]) -> str: ...

    def workspace_bytes(self, kernel: Kernel | Routine | Series) -> int:
        """Memory that each thread needs besides the kernel's arguments."""
        return 0

    def count(self, kernel: Kernel | Routine | Series) -> str:
        """What tells the number of tasks of a kernel for which it is not fixed: an expression over d0, d1, …, the
        kernel's integers.
        """
        from smelt.graph import Variable, of

        own = {v: of(Variable(f"d{k}", v.first, v.last)) for k, v in enumerate(kernel.parameters)}
        return str(kernel.tasks.substitute(own))

    def build(self, sources: Sequence[str]) -> Sequence[Any]:
        """The libraries of these sources."""
        with self.building() as builder:
            return builder.all(sources)

    def building(self) -> AbstractContextManager[Builder]:
        """Build sources that become known one by one; what is not finished at the end of the block is given up."""
        ...

    def stored(self, keys: Sequence[str]) -> Sequence[Library] | None:
        """The libraries that were built under these keys, by this process or an earlier one; None if one is missing."""
        ...

    def load(self, listing: Listing, libraries: Sequence[Any]) -> Program:
        """A program, ready to run."""
        ...

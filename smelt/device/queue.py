"""Steps over a queue: launches are enqueued, and the host takes the steps between them. Any device with a `Queue` may
run its programs so.

A loop with a test waits for the test's value at every iteration. What a body reads as the number of its iteration is
written from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

import numpy as np

from smelt.device.protocol import CONTROLS, REGISTER, Control, HostStep, Launch, Listing, check_listing
from smelt.graph import Index, Variable, of
from smelt.graph.index_text import parse_index

_WIDE: Final = 1 << 62


class Queue(Protocol):
    """What a device does in order. Addresses are the numbers that its pointers hold."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held by the one thread that fills the queue."""
        ...

    def launch(self, kernel: Any, tasks: int, threads: int, addresses: Iterable[int], integers: Sequence[int]) -> Any:
        """Enqueue a kernel of a library; what `seconds` takes."""
        ...

    def copy(self, to: int, source: int, nbytes: int) -> None:
        """Enqueue a copy."""
        ...

    def read(self, address: int, into: Any) -> None:
        """Wait for what lies at an address, and copy it into an array."""
        ...

    def write(self, address: int, data: Any) -> None:
        """Copy an array to an address, behind everything that was enqueued."""
        ...

    def flush(self) -> None:
        """Begin with what was enqueued."""
        ...

    def seconds(self, launched: Any) -> float:
        """How long a launch took; this waits for its end."""
        ...


class Program:
    """Steps over a queue. It returns when everything is enqueued; whoever reads a result waits for it."""

    def __init__(self, queue: Queue, listing: Listing, libraries: Sequence[Any]) -> None:
        """Each of the libraries gives the `kernel` of a launch."""
        check_listing(listing)
        self._queue, self.slots, self.steps = queue, list(listing.slots), list(listing.steps)
        # What threads have of their own is private memory.
        self.arena_bytes, self.workspace_bytes = listing.arena_bytes, 0
        launches = {k: step for k, step in enumerate(self.steps) if isinstance(step, Launch)}
        self.kernels = {k: libraries[step.library].kernel(step) for k, step in launches.items()}
        self.counts = {k: _count(step) for k, step in launches.items()}
        self._events: list[Any] | None = []
        self.is_timed = True  # the queue knows it anyway

    def run(self, bases: bytes, integers: bytes) -> None:
        """Enqueue every launch in order. `bases` and `integers` are packed 8-byte values; base 0 is the arena."""
        run = _Run(self, self._queue, memoryview(bases).cast("q"), memoryview(integers).cast("q"))
        with self._queue.lock:
            at = 0
            while at < len(self.steps):
                at = run.step(at)
            self._queue.flush()
        # The launches of a loop may be any number.
        self._events = run.events if len(self.kernels) == len(self.steps) else None

    def launch_seconds(self) -> list[float] | None:
        """How long each launch of the latest run took, by the device's clock: nothing, if there were no tasks."""
        if self._events is None:
            return None
        return [0.0 if event is None else self._queue.seconds(event) for event in self._events]


class _Run:
    """One run of a program: where its registers point, and how far its counters are."""

    def __init__(self, program: Program, queue: Queue, bases: Sequence[int], numbers: Sequence[int]) -> None:
        self.program, self.queue, self.bases, self.numbers = program, queue, bases, numbers
        self.registers: dict[int, int] = {}  # addresses, by the slot of the register
        self.counters: dict[int, int] = {}
        self.amounts: dict[int, int] = {}  # read from memory, by slot
        self.events: list[Any] = []

    def step(self, at: int) -> int:
        """Do a step; the number of the next."""
        step = self.program.steps[at]
        if isinstance(step, Control):
            following = self.control(step)
            return at + 1 if following is None else following
        if isinstance(step, HostStep):
            step.run(self.numbers, self.array, self.write)
            return at + 1
        given = [self.numbers[k] for k in step.integers]
        count = self.program.counts[at]
        tasks = step.tasks if count is None else count.evaluate({f"d{k}": n for k, n in enumerate(given)})
        event = None
        if tasks > 0:
            addresses = map(self.address, step.buffers)
            event = self.queue.launch(self.program.kernels[at], tasks, step.threads, addresses, given)
        if len(self.events) < len(self.program.steps):
            self.events.append(event)
        return at + 1

    def control(self, step: Control) -> int | None:
        """Do a control step; the number of the next, unless it is the one behind."""
        slots = step.buffers
        match step.kind:
            case "point":
                self.registers[slots[0]] = self.address(slots[1])
            case "advance":
                self.registers[slots[0]] += self.amount(step)
            case "rotate":
                now, following, *places = slots
                a, b = map(self.address, places)
                self.registers[now] = self.registers[following]
                self.registers[following] = b if self.registers[now] == a else a
            case "set":
                self.count(slots[0], step.amount)
            case "again":
                self.count(slots[0], self.counters[slots[0]] + 1)
                return step.target
            case "until":
                return step.target if self.counters[slots[0]] >= self.amount(step) else None
            case "unless":
                return None if self.array(slots[0], np.bool_, ()) else step.target
            case "jump":
                return step.target
            case "copy":
                self.queue.copy(self.address(slots[0]), self.address(slots[1]), self.amount(step))
        return None

    def address(self, slot: int) -> int:
        base, offset = self.program.slots[slot]
        return self.registers[slot] if base == REGISTER else self.bases[base] + offset

    def array(self, slot: int, dtype: Any, shape: tuple[int, ...]) -> Any:
        """What lies in the device's memory, as soon as it is there."""
        array = np.empty(shape, dtype)
        self.queue.read(self.address(slot), array)
        return array

    def write(self, slot: int, array: Any) -> None:
        self.queue.write(self.address(slot), np.ascontiguousarray(array))

    def amount(self, step: Control) -> int:
        """The amount of a step; one that lies in memory depends on nothing but the sizes of the call."""
        extra = step.buffers[CONTROLS[step.kind].slots :]
        if not extra:
            return step.amount
        if extra[0] not in self.amounts:
            self.amounts[extra[0]] = int(self.array(extra[0], np.int64, ()))
        return self.amounts[extra[0]]

    def count(self, slot: int, value: int) -> None:
        """Set a counter, here and where kernels read it."""
        self.counters[slot] = value
        self.queue.write(self.address(slot), np.array([value], np.int64))


def _count(launch: Launch) -> Index | None:
    """The number of tasks as an expression over the launch's integers."""
    if not launch.count:
        return None
    names = {f"d{k}": of(Variable(f"d{k}", -_WIDE, _WIDE)) for k in range(len(launch.integers))}
    return parse_index(launch.count, names)

"""Steps over an OpenCL queue: launches are enqueued, and the host takes the steps between them.

A loop with a test waits for the test's value at every iteration. What a body reads as the number of its iteration is
written from here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from smelt.device.opencl_build import Library
from smelt.device.protocol import CONTROLS, REGISTER, Control, HostStep, Launch, Step, check_controls
from smelt.graph import Index, Variable, of
from smelt.graph.index_text import parse_index

if TYPE_CHECKING:
    from smelt.device.opencl import Context

PLACE_BITS: Final = 40  # of a pointer; the bits above are the number of the block
_PLACE: Final = (1 << PLACE_BITS) - 1
_WIDE: Final = 1 << 62


class Program:
    """Steps over a queue. It returns when everything is enqueued; whoever reads a result waits for it."""

    def __init__(
        self,
        context: Context,
        steps: Sequence[Step],
        libraries: Sequence[Library],
        slots: Sequence[tuple[int, int]],
        arena_bytes: int,
    ) -> None:
        check_controls(steps, slots)
        self._context, self.slots, self.steps = context, list(slots), list(steps)
        self.arena_bytes, self.workspace_bytes = arena_bytes, 0  # what threads have of their own is private memory
        launches = {k: step for k, step in enumerate(steps) if isinstance(step, Launch)}
        self.kernels = {k: libraries[step.library].kernel(step) for k, step in launches.items()}
        self.counts = {k: _count(step) for k, step in launches.items()}
        self._events: list[Any] | None = []
        self.is_timed = True  # the queue knows it anyway

    def run(self, bases: bytes, integers: bytes) -> None:
        """Enqueue every launch in order. `bases` and `integers` are packed 8-byte values; base 0 is the arena."""
        addresses = struct.unpack(f"{len(bases) // 8}q", bases)
        numbers = struct.unpack(f"{len(integers) // 8}q", integers)
        run = _Run(self, self._context, addresses, numbers)
        with self._context.lock:
            at = 0
            while at < len(self.steps):
                at = run.step(at)
            self._context.queue.flush()
        # The launches of a loop may be any number.
        self._events = run.events if len(self.kernels) == len(self.steps) else None

    def launch_seconds(self) -> list[float] | None:
        """How long each launch of the latest run took, by the device's clock; those without tasks are left out."""
        events = self._events
        for event in events or ():
            event.wait()
        return None if events is None else [1e-9 * (event.profile.end - event.profile.start) for event in events]


class _Run:
    """One run of a program: where its registers point, and how far its counters are."""

    def __init__(self, program: Program, context: Context, bases: Sequence[int], numbers: Sequence[int]) -> None:
        self.program, self.context, self.bases, self.numbers = program, context, bases, numbers
        self.registers: dict[int, int] = {}  # addresses, by the slot of the register
        self.counters: dict[int, int] = {}
        self.amounts: dict[int, int] = {}  # read from memory, by slot
        self.events: list[Any] = []

    def step(self, at: int) -> int:
        """Do a step; the number of the next."""
        step = self.program.steps[at]
        if isinstance(step, Control):
            return _RULES[step.kind](self, step) or at + 1
        if isinstance(step, HostStep):
            step.run(self.numbers, self.load, self.store)
            return at + 1
        given = [self.numbers[k] for k in step.integers]
        count = self.program.counts[at]
        tasks = step.tasks if count is None else count.evaluate({f"d{k}": n for k, n in enumerate(given)})
        if tasks > 0:
            arguments = [part for slot in step.buffers for part in self.place(self.address(slot))]
            together = (step.threads,) if step.threads > 1 else None
            kernel = self.program.kernels[at]
            event = kernel(self.context.queue, (tasks * step.threads,), together, *arguments, *given)
            if len(self.events) < len(self.program.steps):
                self.events.append(event)
        return at + 1

    def address(self, slot: int) -> int:
        base, offset = self.program.slots[slot]
        return self.registers[slot] if base == REGISTER else self.bases[base] + offset

    def place(self, address: int) -> tuple[Any, int]:
        """A buffer and a place in it."""
        block = self.context.blocks.get(address >> PLACE_BITS)
        # What has no elements may lie anywhere: nothing is read there.
        return (self.context.blocks[0], 0) if block is None else (block, address & _PLACE)

    def load(self, slot: int, dtype: Any, shape: tuple[int, ...]) -> Any:
        """An array of the device's memory, as soon as it is there."""
        array = np.empty(shape, dtype)
        block, place = self.place(self.address(slot))
        if array.nbytes:
            self.context.cl.enqueue_copy(self.context.queue, array, block, src_offset=place, is_blocking=True)
        return array

    def store(self, slot: int, array: Any) -> None:
        block, place = self.place(self.address(slot))
        if array.nbytes:
            self.context.cl.enqueue_copy(self.context.queue, block, array, dst_offset=place, is_blocking=True)

    def read(self, slot: int, dtype: Any) -> Any:
        """One element of the device's memory, as soon as it is there."""
        return self.load(slot, dtype, (1,))[0].item()

    def amount(self, step: Control) -> int:
        """The amount of a step; one that lies in memory depends on nothing but the sizes of the call."""
        extra = step.buffers[CONTROLS[step.kind].slots :]
        if not extra:
            return step.amount
        if extra[0] not in self.amounts:
            self.amounts[extra[0]] = self.read(extra[0], np.int64)
        return self.amounts[extra[0]]

    def count(self, slot: int, value: int) -> None:
        """Set a counter, here and where kernels read it."""
        self.counters[slot] = value
        block, place = self.place(self.address(slot))
        number = np.array([value], np.int64)
        self.context.cl.enqueue_copy(self.context.queue, block, number, dst_offset=place, is_blocking=True)


def _point(run: _Run, step: Control) -> int | None:
    run.registers[step.buffers[0]] = run.address(step.buffers[1])
    return None


def _advance(run: _Run, step: Control) -> int | None:
    run.registers[step.buffers[0]] += run.amount(step)
    return None


def _rotate(run: _Run, step: Control) -> int | None:
    now, following, *places = step.buffers
    a, b = map(run.address, places)
    run.registers[now] = run.registers[following]
    run.registers[following] = b if run.registers[now] == a else a
    return None


def _set(run: _Run, step: Control) -> int | None:
    run.count(step.buffers[0], step.amount)
    return None


def _again(run: _Run, step: Control) -> int | None:
    run.count(step.buffers[0], run.counters[step.buffers[0]] + 1)
    return step.target


def _until(run: _Run, step: Control) -> int | None:
    return step.target if run.counters[step.buffers[0]] >= run.amount(step) else None


def _unless(run: _Run, step: Control) -> int | None:
    return None if run.read(step.buffers[0], np.bool_) else step.target


def _copy(run: _Run, step: Control) -> int | None:
    to, source = (run.address(slot) for slot in step.buffers[:2])
    nbytes = run.amount(step)
    if to != source and nbytes:
        (target, there), (origin, here) = run.place(to), run.place(source)
        sizes = {"byte_count": nbytes, "src_offset": here, "dst_offset": there}
        run.context.cl.enqueue_copy(run.context.queue, target, origin, **sizes)
    return None


_RULES: Final[dict[str, Callable[[_Run, Control], int | None]]] = {
    "point": _point,
    "advance": _advance,
    "rotate": _rotate,
    "set": _set,
    "again": _again,
    "until": _until,
    "unless": _unless,
    "jump": lambda run, step: step.target,
    "copy": _copy,
}


def _count(launch: Launch) -> Index | None:
    """The number of tasks as an expression over the launch's integers."""
    if not launch.count:
        return None
    names = {f"d{k}": of(Variable(f"d{k}", -_WIDE, _WIDE)) for k in range(len(launch.integers))}
    return parse_index(launch.count, names)

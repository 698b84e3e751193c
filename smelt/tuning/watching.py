"""Which programs run, how long their launches take, and how fast each is with other choices: seen while they run.

Every compiled graph that runs inside a block is noted. A graph for which another version is known runs in turn with it:
both do the same, so the calls of a script or of a function are a race between them, with its own inputs and caches.
"""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from smelt import runtime
from smelt.compiler import Choices, CompiledGraph, GraphKey
from smelt.device import Device, Memory
from smelt.locks import new_lock
from smelt.plan import watch

WORD = 8  # bytes of a pointer
MOST_SIZES = 256  # that are told apart
WHOLE = 1.01  # times as fast, beyond noise, a whole program has to be
TURN = (0, 1, 1, 0)  # which version runs: both come first and last equally often


@dataclass(eq=False)
class Program:
    """A compiled graph that ran: how often, and for how long in all; the best time of each launch, if that is known."""

    key: GraphKey
    device: Device
    compiled: CompiledGraph
    calls: int = 0
    seconds: float = 0.0
    launches: list[float] = field(default_factory=list)
    integers: Counter[bytes] = field(default_factory=Counter)  # what it was called with, and how often
    other: CompiledGraph | None = None
    taken: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))  # by this version, and the other
    arena: Memory | None = None  # of the other

    def run(self, bases: bytes, integers: bytes) -> None:
        """Run the version whose turn it is."""
        which = 0 if self.other is None else TURN[self.calls % len(TURN)]
        compiled = self.compiled if which == 0 or self.other is None else self.other
        program = compiled.program
        assert program is not None
        if which and program.arena_bytes:
            self.arena = self.arena or self.device.allocate(program.arena_bytes)
            bases = self.arena.pointer + bases[WORD:]
        self.calls += 1
        if integers in self.integers or len(self.integers) < MOST_SIZES:
            self.integers[integers] += 1
        began = time.perf_counter()
        program.run(bases, integers)
        self.device.synchronize()
        taken = time.perf_counter() - began
        self.seconds += taken
        self.taken[which].append(taken)
        found = program.launch_seconds() if self.other is None else None
        if found:
            self.launches = [min(pair) for pair in zip(self.launches or found, found, strict=True)]

    def sizes(self) -> list[dict[str, int]]:
        """The sizes of dims in its calls, the most frequent first."""
        names = [f"d{k}" for k in range(len(self.key.bounds))]
        counts = [integers for integers, _ in self.integers.most_common()]
        found = [struct.unpack_from(f"{len(names)}q", each) for each in counts] if names else []
        return [dict(zip(names, sizes, strict=True)) for sizes in found]

    def ratios(self) -> list[float]:
        """How much faster the other version was, for each pair of calls; the first of each warmed up."""
        return [a / b for a, b in zip(*self.taken, strict=False)][1:]

    def can_run(self, other: CompiledGraph) -> bool:
        """Whether another version can take this one's place in the middle of a call: the memory that it is given for
        results and for values whose places depend on dims has to do for both.
        """
        same = other.homes == self.compiled.homes and set(self.compiled.in_place) <= set(other.in_place)
        return other.program is not None and same


class Watched:
    """The programs that have run, by the compiled graph."""

    def __init__(self, timed: bool = True, anew: bool = False) -> None:
        self.programs: dict[int, Program] = {}
        self.anew = anew  # whether functions have to be compiled once more first: something is known that was not
        self._timed, self._lock = timed, new_lock()

    def run(self, compiled: CompiledGraph, bases: bytes, integers: bytes) -> None:
        """Run a program, and note it."""
        program = compiled.program
        assert program is not None
        with self._lock:  # one program at a time: they share the processor
            seen = self.programs.get(id(compiled)) or self._noted(compiled)
            if seen is None:
                program.run(bases, integers)
                return
            was, program.is_timed = program.is_timed, self._timed and seen.other is None
            try:
                seen.run(bases, integers)
            finally:
                program.is_timed = was

    def _noted(self, compiled: CompiledGraph) -> Program | None:
        """A program that is seen for the first time; None if the runtime has forgotten it meanwhile."""
        known = runtime.current().graphs.key_of(compiled)
        if known is None:
            return None
        seen = self.programs[id(compiled)] = Program(known[1], compiled.device, compiled)
        return seen

    def compiled(self, compiled: CompiledGraph, began: float) -> None:
        """Compiling takes no part in it."""


@contextmanager
def watching(watched: Watched) -> Iterator[Watched]:
    """Have a watcher see all programs that run inside the block."""
    before = watch(watched)
    try:
        yield watched
    finally:
        watch(before)


Run = Callable[[Watched, Callable[[], bool]], None]  # runs programs while somebody watches, once or until told to stop


class Overlay:
    """Choices on top of those that are in use."""

    def __init__(self, answers: Mapping[str, str], below: Choices | None) -> None:
        self.answers, self.below = answers, below

    def ask(self, device: Device, question: str, text: str = "") -> str | None:
        """The answer to a question."""
        return self.answers.get(question) or (None if self.below is None else self.below.ask(device, question, text))

"""A compiled graph: what replays a key with new arguments, by one native call."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from smelt.device.memory import NOWHERE, size_class
from smelt.device.protocol import Device, DeviceMemory, Program
from smelt.dtypes import DType
from smelt.errors import MemoryLimitError
from smelt.graph.index import Index, IndexLike, Variable
from smelt.graph.node import Shape
from smelt.plan.needs import MemoryPlan

ARENA, SCALARS, INPUTS = 0, 1, 2  # bases of a program: the arena, the scalars, the inputs, then the outputs
pointer_of = attrgetter("pointer")  # faster than a comprehension, where every call pays
CHECKED_BYTES = 1 << 26  # plans below this are not compared with what the machine has


class Stored(NamedTuple):
    """A result that the graph computes into fresh memory, contiguously."""

    dtype: DType
    shape: Shape
    nbytes: int  # at the upper bound of its dims


class Alias(NamedTuple):
    """A result that is an input seen through strides: no memory, no kernel."""

    input: int
    shape: Shape
    strides: tuple[IndexLike, ...]
    offset: int


class Placed(NamedTuple):
    """An intermediate in the arena: where it lies, and from which launch to which it lives."""

    nbytes: int
    offset: int
    first: int
    last: int
    text: str


class KernelRecord(NamedTuple):
    """What is remembered of each launch, for people to look at."""

    name: str
    region: str
    form: str  # of program that the schedule makes
    schedule: str
    refused: tuple[str, ...]  # forms that come before it, with what stood against them
    ir: str
    sink: str
    nodes: tuple[str, ...]
    tasks: str
    bytes_moved: int
    flops: int
    seconds: float  # that it takes by the cost model; 0 where nobody asked, or for a routine
    depth: int = 0  # how many loops and branches it lies in


class Watcher(Protocol):
    """Whoever wants to know what runs. It is the one that runs programs then."""

    def run(self, compiled: CompiledGraph, bases: bytes, integers: bytes) -> None: ...
    def compiled(self, compiled: CompiledGraph, began: float) -> None: ...


_watcher: Watcher | None = None


def watch(watcher: Watcher | None) -> Watcher | None:
    """Have runs and compilations go to a watcher, or to nobody; the one before."""
    global _watcher
    before, _watcher = _watcher, watcher
    return before


def watcher() -> Watcher | None:
    """Who watches now."""
    return _watcher


@dataclass(eq=False)
class CompiledGraph:
    """Replays one graph. Thread-safe: every call has its own arena."""

    device: Device
    program: Program | None  # None: nothing to launch
    outputs: tuple[Stored | Alias, ...]  # distinct results
    results: tuple[int, ...]  # for each root, which output
    n_inputs: int
    dims: tuple[Variable, ...]
    intermediate_bytes: int
    kernels: tuple[KernelRecord, ...] = ()
    source: str = ""
    stages: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    layout: tuple[Placed, ...] = ()
    largest: tuple[tuple[int, str], ...] = ()
    in_place: tuple[tuple[int, int], ...] = ()  # stored outputs that may be written over inputs
    plain: list[Any] | None = None  # the runtime's notes on outputs, if each root is one of its own, and of one shape
    _stored: tuple[int, ...] = ()
    _arena_bytes: int = 0
    _large: bool = False

    def __post_init__(self) -> None:
        sizes = [output.nbytes for output in self.outputs if isinstance(output, Stored)]
        self._stored = tuple(sizes)
        self._arena_bytes = self.program.arena_bytes if self.program is not None else 0
        self._large = self.peak_bytes() > CHECKED_BYTES

    def peak_bytes(self) -> int:
        """Memory that one call needs besides its inputs."""
        return self._arena_bytes + sum(self._stored)

    def memory(self, inputs: int = 0, sizes: Sequence[int] | None = None) -> MemoryPlan:
        """What one call takes, given the bytes that it reads; `sizes` are those of `run`."""
        stored = self._stored if sizes is None else tuple(sizes)
        workspaces = self.program.workspace_bytes if self.program is not None else 0
        asked = (*stored, self._arena_bytes) if self._arena_bytes else stored
        blocks = sum(map(size_class, asked))
        return MemoryPlan(inputs, sum(stored), self._arena_bytes - workspaces, workspaces, blocks)

    def run(
        self,
        inputs: Iterable[bytes],
        scalars: bytes,
        integers: bytes,
        sizes: Sequence[int] | None = None,
        into: Mapping[int, DeviceMemory] | None = None,
    ) -> list[DeviceMemory]:
        """Compute the stored outputs.

        `inputs` are pointers, `scalars` is the one to the scalars, `integers` holds dims, then slice starts. `sizes`
        are the bytes of the outputs where dims make them smaller than planned. `into` is the memory of outputs that are
        written over inputs.
        """
        allocate = self.device.allocate
        if self._large:
            self._check_memory()
        if into:
            given = into.get
            memories = [given(k) or allocate(nbytes) for k, nbytes in enumerate(sizes or self._stored)]
        else:
            memories = list(map(allocate, sizes or self._stored))
        program = self.program
        if program is None:  # there may still be results, without elements
            return memories
        arena = allocate(self._arena_bytes) if self._arena_bytes else None
        first = NOWHERE if arena is None else arena.pointer
        bases = b"".join([first, scalars, *inputs, *map(pointer_of, memories)])
        if _watcher is None:
            program.run(bases, integers)
        else:
            _watcher.run(self, bases, integers)
        return memories

    def sizes(self, dims: dict[str, int]) -> list[int]:
        """The bytes of the stored outputs for given dims."""
        stored = [output for output in self.outputs if isinstance(output, Stored)]
        return [math.prod(concrete(output.shape, dims)) * output.dtype.itemsize for output in stored]

    def _check_memory(self) -> None:
        needed, there = self.peak_bytes(), self.device.available_bytes()
        if needed <= there:
            return
        names = "\n".join(f"  {nbytes / 2**20:10.1f} MiB  {text}" for nbytes, text in self.largest[:5])
        raise MemoryLimitError(
            f"this graph needs {needed / 2**20:.0f} MiB, and {there / 2**20:.0f} MiB are free",
            rule=f"The largest tensors:\n{names}",
            hint="Realize intermediate results earlier, use smaller batches, or a smaller dtype.",
        )


def concrete(shape: Shape, values: dict[str, int]) -> tuple[int, ...]:
    """A shape with its dims replaced by numbers."""
    return tuple(size.evaluate(values) if isinstance(size, Index) else size for size in shape)

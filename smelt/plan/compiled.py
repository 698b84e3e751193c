"""A compiled graph: what replays a key with new arguments, by one native call."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from smelt.device import NOWHERE, Device, Memory, Program, Step, size_class
from smelt.dtypes import DType
from smelt.errors import MemoryLimitError
from smelt.graph import Index, IndexLike, Shape, Variable, product_of, upper
from smelt.plan.memory import ALIGNMENT, Home, assign_sized

if TYPE_CHECKING:
    from smelt.egraph import Weighed  # whose rules are only loaded to compile

# Bases of a program: the arena, the scalars, the inputs, prepared ones, the outputs, then homes that depend on dims.
ARENA, SCALARS, INPUTS = 0, 1, 2
pointer_of = attrgetter("pointer")  # faster than a comprehension, where every call pays
CHECKED_BYTES = 1 << 26  # plans below this are not compared with what the machine has


class Stored(NamedTuple):
    """A result that the graph computes into fresh memory, contiguously."""

    dtype: DType
    shape: Shape

    @property
    def nbytes(self) -> int:
        """At the upper bound of its dims."""
        return upper(product_of(self.shape)) * self.dtype.itemsize


class Alias(NamedTuple):
    """A result that is an input seen through strides: no memory, no kernel."""

    input: int
    shape: Shape
    strides: tuple[IndexLike, ...]
    offset: int


class Made(NamedTuple):
    """What a prepared argument is made of: an input or a scalar of the graph, by its number."""

    kind: str
    number: int
    dtype: DType


class Prepared(NamedTuple):
    """An argument that is made of others, once for as long as these stay the same, by the text of a graph of them."""

    leaves: tuple[Made, ...]
    graph: str
    nbytes: int

    @property
    def inputs(self) -> list[int]:
        """The numbers of inputs that it is made of."""
        return [one.number for one in self.leaves if one.kind == "input"]


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
    form: str  # of program that the schedule makes, with its knobs
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


class MemoryPlan(NamedTuple):
    """Bytes that one call needs, by purpose. `str()` is a sentence."""

    inputs: int  # what it reads: arguments, weights and captured tensors, each block of memory once
    results: int  # fresh memory for what it returns
    intermediates: int  # the arena: values alive at the same time lie side by side, others share their place
    workspaces: int  # scratch for all threads together
    blocks: int  # what the allocator takes for all but the inputs, sizes rounded up to those of its blocks

    @property
    def peak(self) -> int:
        """The most bytes in use at any moment of the call, inputs included."""
        return self.inputs + self.results + self.intermediates + self.workspaces

    def __str__(self) -> str:
        parts = (
            f"inputs {self.inputs}, results {self.results}, intermediates {self.intermediates}",
            f"workspaces {self.workspaces}: a peak of {self.peak} bytes",
        )
        return ", ".join(parts)


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
class GraphRecord:
    """A compiled graph as plain data: everything that it needs besides loaded code."""

    libraries: tuple[str, ...]  # the keys of those that hold its kernels
    launches: tuple[Step, ...]
    slots: tuple[tuple[int, int], ...]  # bases and offsets
    scratch_bytes: int
    arena_bytes: int
    outputs: tuple[Stored | Alias, ...]  # distinct results
    results: tuple[int, ...]  # for each root, which output
    bounds: tuple[tuple[int, int], ...]  # of its dims
    kernels: tuple[KernelRecord, ...]  # one for each launch
    layout: tuple[Placed, ...]
    in_place: tuple[tuple[int, int], ...]  # stored outputs that may be written over inputs
    choices: tuple[tuple[str, str | None], ...]  # what was asked about its kernels, with the answers; None: the default
    homes: tuple[Home, ...]  # places in the arena that depend on dims
    prepared: tuple[Prepared, ...]  # inputs behind the others, which are made of these
    asks: tuple[Prepared, ...]  # what it would like to have so, if these inputs were steady


@dataclass(eq=False, kw_only=True)
class CompiledGraph(GraphRecord):
    """Replays one graph. Thread-safe: every call has its own arena."""

    device: Device
    program: Program | None  # None: nothing to launch
    source: str = ""
    stages: dict[str, str] = field(default_factory=dict)
    weighed: list[Weighed] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    plain: list[Any] | None = None  # the runtime's notes on outputs, if each root is one of its own, and of one shape

    def __post_init__(self) -> None:
        self.dims = tuple(Variable(f"d{k}", low, high) for k, (low, high) in enumerate(self.bounds))
        self._stored = tuple([output.nbytes for output in self.outputs if isinstance(output, Stored)])
        self._arena_bytes = self.program.arena_bytes if self.program is not None else 0
        self._arranged: dict[tuple[int, ...], tuple[list[int], int]] = {}
        # At the upper bound of the dims.
        self.intermediate_bytes = self.arena_bytes + self._arranged_for(None)[1] - self._arena_bytes
        self._large = self.memory().peak > CHECKED_BYTES

    def memory(self, inputs: int = 0, dims: dict[str, int] | None = None) -> MemoryPlan:
        """What one call takes, given the bytes that it reads and the values of its dims."""
        stored = self._stored if dims is None else self.sizes(dims)
        workspaces = self.program.workspace_bytes if self.program is not None else 0
        _, arena = self._arranged_for(None if dims is None else tuple(dims.values()))
        asked = (*stored, arena) if arena else stored
        blocks = sum(map(size_class, asked))
        return MemoryPlan(inputs, sum(stored), arena - workspaces, workspaces, blocks)

    def _arranged_for(self, dims: Sequence[int] | None) -> tuple[list[int], int]:
        """Where homes lie in the arena for these dims (None: for the largest), and how many bytes that takes.

        Dims are rounded up as blocks of memory are, so that a size that grows step by step is arranged a few times.
        """
        if not self.homes:
            return [], self._arena_bytes
        given = [v.high for v in self.dims] if dims is None else dims
        limits = tuple([min(v.high, size_class(size)) for v, size in zip(self.dims, given, strict=True)])
        found = self._arranged.get(limits)
        if found is None:
            names = {v.name: limit for v, limit in zip(self.dims, limits, strict=True)}
            start = -(-self._arena_bytes // ALIGNMENT) * ALIGNMENT
            offsets, nbytes = assign_sized(self.homes, names)
            found = self._arranged[limits] = [start + offset for offset in offsets], start + nbytes
        return found

    def run(
        self,
        inputs: Iterable[bytes],
        scalars: bytes,
        integers: bytes,
        dims: dict[str, int],
        into: Mapping[int, Memory] | None = None,
    ) -> list[Memory]:
        """Compute the stored outputs.

        `inputs` are pointers, prepared ones last, `scalars` is the one to the scalars, `integers` holds the starts of
        slices. `into` is the memory of outputs that are written over inputs.
        """
        allocate, sizes, arena_bytes = self.device.allocate, self._stored, self._arena_bytes
        if dims:
            sizes, integers = self.sizes(dims), struct.pack(f"{len(dims)}q", *dims.values()) + integers
        if self.homes:
            offsets, arena_bytes = self._arranged_for(tuple(dims.values()))
        if self._large:
            self._check_memory(arena_bytes + sum(sizes))
        if into:
            given = into.get
            memories = [given(k) or allocate(nbytes) for k, nbytes in enumerate(sizes)]
        else:
            memories = list(map(allocate, sizes))
        program = self.program
        if program is None:  # there may still be results, without elements
            return memories
        arena = allocate(arena_bytes) if arena_bytes else None
        first = NOWHERE if arena is None else arena.pointer
        bases = b"".join([first, scalars, *inputs, *map(pointer_of, memories)])
        if self.homes:
            bases += _shifted(first, offsets)
        if _watcher is None:
            program.run(bases, integers)
        else:
            _watcher.run(self, bases, integers)
        return memories

    def caller(self, scalars: bytes, integers: bytes) -> Callable[[Iterable[bytes]], list[Memory]]:
        """`run` for calls in which only the inputs change: the shortest way through."""
        if self.program is None or self.homes or self._large:
            return lambda inputs: self.run(inputs, scalars, integers, {})
        allocate, start, sizes, arena_bytes = self.device.allocate, self.program.run, self._stored, self._arena_bytes
        nowhere = NOWHERE + scalars

        def call(inputs: Iterable[bytes]) -> list[Memory]:
            memories = [allocate(nbytes) for nbytes in sizes]
            arena = allocate(arena_bytes) if arena_bytes else None
            first = nowhere if arena is None else arena.pointer + scalars
            bases = b"".join([first, *inputs, *map(pointer_of, memories)])
            if _watcher is None:
                start(bases, integers)
            else:
                _watcher.run(self, bases, integers)
            return memories

        return call

    def sizes(self, dims: dict[str, int]) -> tuple[int, ...]:
        """The bytes of the stored outputs for given dims."""
        stored = [output for output in self.outputs if isinstance(output, Stored)]
        return tuple([math.prod(concrete(output.shape, dims)) * output.dtype.itemsize for output in stored])

    def _check_memory(self, needed: int) -> None:
        if needed <= CHECKED_BYTES or needed <= (there := self.device.available_bytes()):
            return
        parts = [(value.nbytes, value.text) for value in self.layout]
        parts += [(o.nbytes, f"result {o.dtype}{list(o.shape)}") for o in self.outputs if isinstance(o, Stored)]
        largest = sorted(parts, reverse=True)[:5]
        names = "\n".join(f"  {nbytes / 2**20:10.1f} MiB  {text}" for nbytes, text in largest)
        raise MemoryLimitError(
            f"this graph needs {needed / 2**20:.0f} MiB, and {there / 2**20:.0f} MiB are free",
            rule=f"The largest tensors:\n{names}",
            hint="Realize intermediate results earlier, use smaller batches, or a smaller dtype.",
        )


def _shifted(pointer: bytes, offsets: Sequence[int]) -> bytes:
    (address,) = struct.unpack("q", pointer)
    return struct.pack(f"{len(offsets)}q", *[address + offset for offset in offsets])


def concrete(shape: Shape, values: dict[str, int]) -> tuple[int, ...]:
    """A shape with its dims replaced by numbers."""
    return tuple(size.evaluate(values) if isinstance(size, Index) else size for size in shape)

"""A compiled graph for a key: read back from disk, or compiled. The stages themselves are only loaded when they are
needed.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from smelt.compiler.record import graph_digest, load_graph
from smelt.compiler.trace import GraphKey
from smelt.config import settings
from smelt.device import Device
from smelt.locks import Remembered
from smelt.plan import CompiledGraph

if TYPE_CHECKING:
    from smelt.compiler.work import Built
    from smelt.kernel import Kernel

KERNEL_LIMIT: Final = 4096  # kernels kept in memory
MEASURED_AS: Final = "\nmeasured as "
_RESULTS: Final = 3  # of a graph, that its name tells
NEIGHBOUR: Final = "as for a neighbour, "  # what begins so names a template and its knobs
KernelKey = tuple[str, str, str | None]  # the device, the text of the region or routine, and the schedule asked for


class Stages:
    """Where compiling spends its time: seconds by the name of the stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


class Choices(Protocol):
    """What is known to be better than the default, from a search say: the compiler's only view of tuning."""

    def ask(self, device: Device, question: str, text: str = "") -> str | None:
        """The schedule for the region with this `question_of` its text, as text; None: the default's.

        Of a graph (`graph_text`) it is the `fuse.Choices`. Behind `MEASURED_AS` may stand the `measured_as` of the
        kernel, or what all kernels were: should that be another by now, it is not taken. Behind `NEIGHBOUR` stands a
        template with its knobs. The text of the region is there when it is compiled.
        """
        ...


def question_of(region: str) -> str:
    """What a region is called when choices are asked for: short enough to be kept with every graph."""
    return hashlib.sha256(region.encode()).hexdigest()[:32]


def graph_text(key: GraphKey) -> str:
    """What a graph is called when it is asked how to cut it into kernels: short, but no other graph has this name."""
    results = [f"{entry[1]} {list(entry[2])}" for entry in (key.entries[root] for root in key.roots)]
    shown = ", ".join(results[:_RESULTS]) + (f" and {len(results) - _RESULTS} more" if len(results) > _RESULTS else "")
    # Who holds an input decides only about steady ones: others are cut alike, and keep the names that they had.
    told = repr(key).replace("steady=False, held=True", "steady=False").replace(", held=False", "")
    whole = hashlib.sha256(told.encode()).hexdigest()
    return f"graph {whole}\n{len(key.entries)} nodes, {key.inputs} inputs\nresults {shown}"


def kernels_of(texts: Iterable[str]) -> str:
    """What timings of a whole graph are bound to: a digest of the regions and routines of all its launches."""
    return question_of("\n".join(sorted(texts)))


def measured_as(device: Device, kernel: Kernel) -> str:
    """What timings of a kernel are bound to: a digest of its source when it is alone."""
    return question_of(device.render([replace(kernel, name="k0")]))


class Compiler:
    """Compiles graphs. It remembers kernels from graph to graph, and asks `choices` how to schedule them."""

    def __init__(self, choices: Choices | None = None) -> None:
        self.choices = choices
        self.kernels: Remembered[KernelKey, Built] = Remembered(KERNEL_LIMIT)

    def ask(self, device: Device, question: str, text: str = "") -> str | None:
        """What `choices` say; without any, nothing is known to be better than the default."""
        return None if self.choices is None else self.choices.ask(device, question, text)

    def compile(self, key: GraphKey, device: Device, explain: bool = False) -> CompiledGraph:
        """Compile the graph of a key, or load it where an earlier process did.

        With `explain`, or where the texts of kernels are asked for, every stage is run and its text is kept.
        """
        stages = Stages()
        compiled, digest = None, ""
        explain = explain or settings().debug >= 3
        if settings().disk_cache and not explain and not key.calls_python:
            with stages.stage("load"):
                digest = graph_digest(key, device)
                compiled = load_graph(key, digest, device, functools.partial(self.ask, device))
        if compiled is None:
            with stages.stage("import"):
                from smelt.compiler import driver
            compiled = driver.compile_key(key, device, self, stages, digest, explain)
        compiled.seconds = stages.seconds
        if settings().debug:
            print(*_report(compiled, settings().debug), sep="\n", file=sys.stderr)
        return compiled


def _report(compiled: CompiledGraph, level: int) -> Iterator[str]:
    """What `SMELT_DEBUG` asks for."""
    total = sum(compiled.seconds.values())
    spent = ", ".join(f"{name} {1e3 * s:.1f}" for name, s in compiled.seconds.items())
    yield f"smelt: {len(compiled.kernels)} kernels in {1e3 * total:.1f} ms ({spent})"
    for record in compiled.kernels if level >= 2 else ():
        yield f"  {record.name} {record.sink} <- {' '.join(record.nodes)}\n    {record.schedule}"
    if level >= 3:
        yield from dict.fromkeys(record.ir for record in compiled.kernels)
    if level >= 4:
        yield compiled.source

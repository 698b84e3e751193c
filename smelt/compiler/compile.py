"""A compiled graph for a key: read back from disk, or compiled. The stages themselves are only loaded when they are
needed.
"""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING, Final, Protocol

from smelt.compiler.record import graph_digest, load_graph
from smelt.compiler.stages import Stages
from smelt.compiler.trace import GraphKey
from smelt.config import settings
from smelt.device.protocol import Device
from smelt.locks import Remembered
from smelt.plan import CompiledGraph

if TYPE_CHECKING:
    from smelt.compiler.work import Built

KERNEL_LIMIT: Final = 4096  # kernels kept in memory
KernelKey = tuple[str, str, str | None]  # the device, the text of the region or routine, and the schedule asked for


class Choices(Protocol):
    """What is known to be better than the default, from a search say: the compiler's only view of tuning."""

    def ask(self, device: Device, question: str) -> str | None:
        """The schedule for the region with this `question_of` its text, as text; None: the default's."""
        ...


class Defaults:
    """Nothing is known to be better."""

    def ask(self, device: Device, question: str) -> str | None:
        return None


def question_of(region: str) -> str:
    """What a region is called when choices are asked for: short enough to be kept with every graph."""
    return hashlib.sha256(region.encode()).hexdigest()[:32]


class Compiler:
    """Compiles graphs. It remembers kernels from graph to graph, and asks `choices` how to schedule them."""

    def __init__(self, choices: Choices | None = None) -> None:
        self.choices: Choices = Defaults() if choices is None else choices
        self.kernels: Remembered[KernelKey, Built] = Remembered(KERNEL_LIMIT)

    def compile(self, key: GraphKey, device: Device, explain: bool = False) -> CompiledGraph:
        """Compile the graph of a key, or load it where an earlier process did.

        With `explain`, every stage is run and its text is kept.
        """
        stages = Stages()
        compiled, digest = None, ""
        if settings().disk_cache and not explain and not key.calls_python:
            with stages.stage("load"):
                digest = graph_digest(key, device)
                compiled = load_graph(key, digest, device, lambda question: self.choices.ask(device, question))
        if compiled is None:
            with stages.stage("import"):
                from smelt.compiler import driver
            compiled = driver.compile_key(key, device, self, stages, digest, explain)
        compiled.seconds = stages.seconds
        if settings().debug:
            self._report(compiled)
        return compiled

    def _report(self, compiled: CompiledGraph) -> None:
        """What `SMELT_DEBUG` asked for, on stderr."""
        level = settings().debug
        total = sum(compiled.seconds.values())
        spent = ", ".join(f"{name} {1e3 * s:.1f}" for name, s in compiled.seconds.items())
        print(f"smelt: {len(compiled.kernels)} kernels in {1e3 * total:.1f} ms ({spent})", file=sys.stderr)
        if level >= 2:
            for record in compiled.kernels:
                print(f"  {record.name} {record.sink} <- {' '.join(record.nodes)}", file=sys.stderr)
                print(f"    {record.schedule}", file=sys.stderr)
        if level >= 3:
            print(*dict.fromkeys(built.ir() for built in self.kernels.values()), sep="\n", file=sys.stderr)
        if level >= 4:
            print(compiled.source, file=sys.stderr)

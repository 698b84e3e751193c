"""`explain`: a function at every stage, from its graph to the source that runs, with memory and time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smelt import runtime
from smelt.compiler import CompiledGraph
from smelt.device import Device
from smelt.errors import ArgumentError
from smelt.plan import KernelRecord, MemoryPlan, Placed
from smelt.transform.jit import Jit

if TYPE_CHECKING:
    from smelt.egraph import Weighed

_RUNS = 5


@dataclass(frozen=True, repr=False)
class Explanation:
    """What `explain` found. `str()` is the whole text; the parts can be read one by one."""

    compiled: CompiledGraph
    needs: MemoryPlan  # what one call takes from memory, by purpose
    milliseconds: float  # best of a few calls, dispatch included
    launch_seconds: list[float] | None = None  # of each launch, best of a few calls; unknown where there are loops

    @property
    def kernels(self) -> tuple[KernelRecord, ...]:
        """One record per launch, in order."""
        return self.compiled.kernels

    @property
    def memory(self) -> tuple[Placed, ...]:
        """Where each intermediate lies in the arena, and when."""
        return self.compiled.layout

    @property
    def peak_bytes(self) -> int:
        """Memory that one call needs besides its inputs."""
        return self.compiled.memory().peak

    @property
    def seconds(self) -> dict[str, float]:
        """Where compiling spent its time, by stage."""
        return self.compiled.seconds

    @property
    def source(self) -> str:
        """The generated source."""
        return self.compiled.source

    @property
    def plans(self) -> list[Weighed]:
        """Where equal programs were weighed against each other, and where another contract would have gained."""
        return self.compiled.weighed

    def __repr__(self) -> str:
        return f"Explanation({len(self.kernels)} kernels, {self.peak_bytes} bytes, {self.milliseconds:.3f} ms)"

    def __str__(self) -> str:
        stages = self.compiled.stages
        parts = [
            _titled("graph, as traced", stages.get("graph", "")),
            *(_titled("equal programs", str(one)) for one in self.plans if one.accepted),
            _titled("graph, rewritten, composites written out", stages.get("rewritten", "")),
            *(_titled(name, text) for name, text in stages.items() if name not in ("graph", "rewritten")),
            _titled("kernels", "\n".join(_kernel_line(k, record) for k, record in enumerate(self.kernels))),
        ]
        for record in dict((record.region, record) for record in self.kernels).values():
            if record.region == record.ir:
                parts.append(_titled(f"routine of {record.name}", record.region))
                continue
            parts.append(_titled(f"region of {record.name}", record.region))
            parts.append(_titled(f"schedule of {record.name}: {record.form}", _schedule_text(record)))
            parts.append(_titled(f"kernel IR of {record.name}", record.ir))
        prepared = {"inputs that are prepared": self.compiled.prepared}
        prepared["inputs that are prepared once they stay the same"] = self.compiled.asks
        for title, inputs in prepared.items():
            texts = [f"of input {', '.join(map(str, one.inputs))}: {one.graph}" for one in inputs]
            parts += [_titled(title, "".join(texts).rstrip())] if texts else []
        parts.append(_titled("source", self.source))
        parts.append(_titled("memory", self._memory_text()))
        parts.append(_titled("time", self._time_text()))
        parts += [_titled("a hint", str(one)) for one in self.plans if not one.accepted]  # last, where people look
        return "\n\n".join(parts)

    def _memory_text(self) -> str:
        lines = [
            f"{p.nbytes:>12} bytes at {p.offset:>10}, launches {p.first} to {p.last}:  {p.text}" for p in self.memory
        ]
        total = sum(p.nbytes for p in self.memory)
        summary = f"intermediates {total} bytes in an arena of {self.compiled.intermediate_bytes}"
        lines += [f"{summary}; peak with results and scratch {self.peak_bytes}", f"one call: {self.needs}"]
        return "\n".join(lines)

    def _time_text(self) -> str:
        compiling = ", ".join(f"{name} {1e3 * s:.2f}" for name, s in self.seconds.items())
        lines = [f"one call: {self.milliseconds:.4f} ms (best of {_RUNS})"]
        if self.launch_seconds is not None:  # the text is long, and this is where people look
            pairs = list(zip(self.launch_seconds, self.kernels, strict=True))
            lines += [
                f"{1e3 * s:>10.4f} ms  {one.name}: {one.sink}  ({one.form.partition(' (')[0]})" for s, one in pairs
            ]
        return "\n".join([*lines, f"compiling, in ms: {compiling}"])


def _schedule_text(record: KernelRecord) -> str:
    refused = "".join(f"\nrefused: {each}" for each in dict.fromkeys(record.refused))
    return (record.schedule.replace("; ", "\n") or "(none)") + refused


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Print what becomes of a function for these arguments, stage by stage; the result holds the same as data.

    sm.explain(lambda x: x.softmax(-1), x)
    """
    explanation = examine(function, *args, **kwargs)
    print(explanation)
    return explanation


def examine(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Like `explain`, without printing."""
    if not callable(function):
        raise ArgumentError(f"explain: {function!r:.80} is not a function", hint="Give what computes: lambda: x + 1.")
    jitted = function.keeping() if isinstance(function, Jit) else Jit(function)
    device = jitted.graph_key(*args, **kwargs)[1]
    best = min(_timed(jitted, args, kwargs, device) for _ in range(_RUNS))
    # What runs by now: inputs that stay the same are prepared after some calls.
    compiled = runtime.current().compiler.compile(*jitted.graph_key(*args, **kwargs), explain=True)
    return Explanation(compiled, jitted.memory(*args, **kwargs), 1e3 * best, _launch_seconds(jitted, args, kwargs))


def _launch_seconds(function: Jit[Any, Any], args: Any, kwargs: Any) -> list[float] | None:
    """What each launch takes, in the best of a few calls."""
    program = function.program(*args, **kwargs)
    if program is None:
        return None
    was, program.is_timed = program.is_timed, True
    try:
        runs: list[list[float]] = []
        for _ in range(_RUNS):
            function(*args, **kwargs)
            runs.append(program.launch_seconds() or [])
    finally:
        program.is_timed = was
    return [min(times) for times in zip(*runs, strict=True)] or None


def _timed(function: Callable[..., Any], args: Any, kwargs: Any, device: Device) -> float:
    device.synchronize()
    start = time.perf_counter()
    function(*args, **kwargs)
    device.synchronize()
    return time.perf_counter() - start


def _titled(title: str, text: str) -> str:
    return f"=== {title}\n{text}"


def _kernel_line(number: int, record: KernelRecord) -> str:
    name = "  " * record.depth + record.name  # bodies of loops and branches are indented
    guessed = f", {1e6 * record.seconds:.1f} µs by the model" if record.seconds else ""
    work = f"{record.tasks} tasks, {record.flops} operations, {record.bytes_moved} bytes{guessed}"
    return f"{number:>3} {name}: {record.sink} <- {' '.join(record.nodes)}  ({work})"

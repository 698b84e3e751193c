"""`profile`: what each kernel takes in a block, as a table, and when it ran, as a trace for a browser."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from smelt.errors import Location, user_location
from smelt.locks import new_lock
from smelt.plan import CompiledGraph, KernelRecord, watch

_MOVEMENT = frozenset({"reshape", "expand", "permute", "slice", "cast"})  # costs nothing of its own in a kernel
_NAMES = {"reduce.add": "sum", "reduce.mul": "prod", "reduce.max": "max", "reduce.min": "min"}
_TYPE = re.compile(r"(\w+\[[^\]]*\])>$")
_SHOWN = 20  # rows of the table


class Kernel(NamedTuple):
    """All calls of one kernel."""

    name: str  # the operations that it holds, and what it writes
    calls: int
    seconds: float
    bytes_moved: int  # by all calls, as planned
    flops: int


class _Event(NamedTuple):
    """Something that took time: `track` is where a trace shows it."""

    track: str
    name: str
    began: float
    seconds: float
    details: dict[str, str | int]


class Profile:
    """What a block has run: `print(profile)` shows a table, `profile.save(path)` writes a trace for chrome://tracing or
    ui.perfetto.dev.
    """

    def __init__(self) -> None:
        self.seconds = self.compiling = 0.0  # of the whole block, and of what it compiled
        self._began = time.perf_counter()
        self._events: list[_Event] = []
        self._lock = new_lock()

    @property
    def kernels(self) -> list[Kernel]:
        """What each kernel took, the longest first. A loop or branch is one entry with all it runs."""
        rows: dict[str, Kernel] = {}
        for event in self._events:
            if event.track == "kernels":
                old = rows.get(event.name, Kernel(event.name, 0, 0.0, 0, 0))
                moved, flops = int(event.details["bytes"]), int(event.details["flops"])
                rows[event.name] = Kernel(
                    event.name, old.calls + 1, old.seconds + event.seconds, old.bytes_moved + moved, old.flops + flops
                )
        return sorted(rows.values(), key=lambda row: -row.seconds)

    # --- what runs tells it

    def run(self, compiled: CompiledGraph, bases: bytes, integers: bytes) -> None:
        """Run a program, and note what each of its launches takes."""
        program = compiled.program
        assert program is not None
        with self._lock:  # one program at a time: they share the processor, and the place where times are kept
            was, program.is_timed = program.is_timed, True
            began = time.perf_counter()
            try:
                program.run(bases, integers)
                compiled.device.synchronize()
                seconds = time.perf_counter() - began
                launches = program.launch_seconds()
            finally:
                program.is_timed = was
            details: dict[str, str | int] = {"kernels": len(compiled.kernels), "asked for at": _place(user_location())}
            self._events.append(_Event("graphs", f"graph of {len(compiled.kernels)} kernels", began, seconds, details))
            if launches is None or len(launches) != len(compiled.kernels):
                self._note(_looped(compiled.kernels), began, seconds, compiled.kernels)
                return
            for record, taken in zip(compiled.kernels, launches, strict=True):
                self._note(kernel_name(record), began, taken, [record])
                began += taken

    def _note(self, name: str, began: float, seconds: float, records: Sequence[KernelRecord]) -> None:
        details: dict[str, str | int] = {
            "bytes": sum(record.bytes_moved for record in records),
            "flops": sum(record.flops for record in records),
            "operations": " ".join(operation for record in records for operation in record.nodes),
        }
        self._events.append(_Event("kernels", name, began, seconds, details))

    def compiled(self, compiled: CompiledGraph, began: float) -> None:
        """Note a compilation that ends now."""
        seconds = time.perf_counter() - began
        details: dict[str, str | int] = {name: f"{1e3 * taken:.1f} ms" for name, taken in compiled.seconds.items()}
        details["asked for at"] = _place(user_location())
        with self._lock:
            self.compiling += seconds
            name = f"compile {len(compiled.kernels)} kernels"
            self._events.append(_Event("compiler", name, began, seconds, details))

    def finish(self) -> None:
        """The block ends."""
        self.seconds = time.perf_counter() - self._began

    # --- what it says

    def __str__(self) -> str:
        rows = self.kernels
        running = sum(row.seconds for row in rows)
        rest = max(0.0, self.seconds - running - self.compiling)
        lines = [
            f"{1e3 * self.seconds:.1f} ms: {1e3 * running:.1f} in kernels, {1e3 * self.compiling:.1f} compiling, "
            f"{1e3 * rest:.1f} in Python and elsewhere",
            f"{'ms':>9} {'share':>6} {'calls':>6} {'us/call':>9} {'GB/s':>7} {'GFLOP/s':>8}  kernel",
        ]
        for row in rows[:_SHOWN]:
            each = max(row.seconds, 1e-9)
            lines.append(
                f"{1e3 * row.seconds:>9.3f} {row.seconds / max(running, 1e-9):>6.1%} {row.calls:>6} "
                f"{1e6 * row.seconds / row.calls:>9.1f} {1e-9 * row.bytes_moved / each:>7.1f} "
                f"{1e-9 * row.flops / each:>8.1f}  {row.name}"
            )
        if len(rows) > _SHOWN:
            left = sum(row.seconds for row in rows[_SHOWN:])
            lines.append(f"{1e3 * left:>9.3f} {left / max(running, 1e-9):>6.1%}  in {len(rows) - _SHOWN} more kernels")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Profile({1e3 * self.seconds:.1f} ms, {len(self.kernels)} kernels)"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace in Chrome's format, which chrome://tracing and ui.perfetto.dev open."""
        tracks = {name: number for number, name in enumerate(("graphs", "kernels", "compiler"))}
        events: list[dict[str, object]] = [
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": number, "args": {"name": name}}
            for name, number in tracks.items()
        ]
        for event in self._events:
            times = {"ts": 1e6 * (event.began - self._began), "dur": 1e6 * event.seconds}
            place = {"ph": "X", "pid": 0, "tid": tracks[event.track], "name": event.name, "args": event.details}
            events.append({**place, **times})
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, file)


@contextlib.contextmanager
def profile(trace: str | os.PathLike[str] | None = None) -> Iterator[Profile]:
    """Note what every kernel takes inside the block; with `trace`, write a trace for chrome://tracing at its end.

    Programs run launch by launch, which costs a little more than without.

        with sm.profile("trace.json") as p:
            step(model, state, x, y)
        print(p)
    """
    found = Profile()
    before = watch(found)
    try:
        yield found
    finally:
        watch(before)
        found.finish()
        if trace is not None:
            found.save(trace)


def kernel_name(record: KernelRecord) -> str:
    operations = [_NAMES.get(node, node) for node in record.nodes if node not in _MOVEMENT] or list(record.nodes)
    written = _TYPE.search(record.sink)
    shown = " ".join(operations) if len(operations) <= 6 else " ".join([*operations[:3], "…", *operations[-2:]])
    return f"{shown} -> {written[1]}" if written else shown


def _looped(records: tuple[KernelRecord, ...]) -> str:
    inside = sum(record.depth > 0 for record in records)
    return f"graph with loops: {len(records)} kernels, {inside} of them inside"


def _place(location: Location | None) -> str:
    return "" if location is None else str(location)

"""One contender of the cpu suite: `python -m smelt.bench.cpu.contender LIBRARY THREADS FOLDER [quick]`.

It takes one case after another: `case NAME` prepares one, compares its result and answers with the seconds of a call,
or with an error; a number then runs it as often. `copy` and `peak` are libraries too, see `machine`. Reference results
are kept in the folder, so that they are computed once for all.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from smelt.bench.contest import come_to_rest

_LEAD_IN = 0.03  # seconds, unmeasured: caches and clocks settle
_SCREEN = 0.05


def pin(threads: int) -> None:
    """Keep the process on so many of its cores: every library then sees no more of them."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


class Server:
    """The cases of one library, one at a time."""

    def __init__(self, library: str, threads: int, folder: str, quick: bool) -> None:
        from smelt.bench.cpu.library import load

        self._threads, self._folder, self._quick = threads, Path(folder), quick
        self._library = None if library in {"copy", "peak"} else load(library, threads)
        self._name = library
        self._seconds: Callable[[int], float] | None = None

    def prepare(self, name: str) -> dict[str, Any]:
        """Make the case ready; gives the seconds of a call in the best of a few rounds."""
        self._seconds = None
        facts = self._machine(name) if self._library is None else self._case(name)
        assert self._seconds is not None
        once = self._seconds(1)
        calls = max(1, min(1000, round(_SCREEN / max(once, 1e-9))))
        facts["seconds"] = min(once, *(self._seconds(calls) for _ in range(3)))
        come_to_rest()
        return facts

    def seconds(self, calls: int) -> float:
        assert self._seconds is not None
        until = time.perf_counter() + _LEAD_IN
        self._seconds(1)
        while time.perf_counter() < until:
            self._seconds(1)
        seconds = self._seconds(calls)
        come_to_rest()
        return seconds

    def _machine(self, name: str) -> dict[str, Any]:
        from smelt.bench.cpu import machine

        if self._name == "peak":
            self._seconds, flops = machine.multiply_adds(self._threads)
            return {"flops": flops}
        self._seconds = machine.Copier(float(name), self._threads)
        return {}

    def _case(self, name: str) -> dict[str, Any]:
        from smelt.bench.contest import seconds_per_call
        from smelt.bench.cpu.cases import CASES
        from smelt.bench.models import check_close

        assert self._library is not None
        case, library = CASES[name], self._library
        operation = case.quick if self._quick and case.quick else case.operation
        inputs = case.inputs(self._quick)
        expected = self._reference(name, operation, inputs)
        held = [_held(library.hold, value) for value in _popped(inputs)]
        function = library.compiled(library.operations[operation])
        began = time.perf_counter()
        results = function(*held)
        first = time.perf_counter() - began
        for found, wanted in zip(_parts(results), expected, strict=True):
            check_close(library.give(found).astype(wanted.dtype), wanted, case.tolerance)
        function(*held)
        self._seconds = lambda calls: seconds_per_call(lambda: function(*held), calls)
        return {"first": first}  # with what is compiled, and searched for by those that do

    def _reference(self, name: str, operation: str, inputs: list[Any]) -> Any:
        import numpy as np

        from smelt.bench.cpu.in_numpy import OPERATIONS

        file = self._folder / f"{name}.npz"
        if not file.exists():
            # Networks are too large to be held twice; float32 is enough for what is asked of them.
            network = isinstance(inputs[0], dict)
            wide = [_widened(value, np.float32 if network else np.float64) for value in inputs]
            part = self._folder / f"{name}.part.npz"
            np.savez(part, *_parts(OPERATIONS[operation](*wide)))
            part.rename(file)
        with np.load(file) as found:
            return [found[f"arr_{k}"] for k in range(len(found.files))]


def _parts(found: Any) -> list[Any]:
    """The results of an operation: one, or several in a tuple."""
    return list(found) if isinstance(found, tuple) else [found]


def _popped(values: list[Any]) -> Any:
    while values:
        yield values.pop(0)


def _held(hold: Callable[[Any], Any], value: Any) -> Any:
    """Arrays go as they are taken over, so that large ones are never there twice."""
    if isinstance(value, dict):
        return {name: hold(value.pop(name)) for name in list(value)}
    return hold(value)


def _widened(value: Any, dtype: Any) -> Any:
    if isinstance(value, dict):
        return {name: _widened(part, dtype) for name, part in value.items()}
    return value if value.dtype.kind == "i" and value.dtype.itemsize == 8 else value.astype(dtype, copy=False)


def main(words: list[str]) -> None:
    library, threads, folder, *options = words
    answers = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no answer
    pin(int(threads))
    server = Server(library, int(threads), folder, "quick" in options)
    print(json.dumps({}), file=answers, flush=True)
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        try:
            answer = server.prepare(rest) if word == "case" else {"seconds": server.seconds(int(word))}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}".partition("\n")[0]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""One contender of the cpu suite: `python -m smelt.bench.cpu.contender LIBRARY THREADS FOLDER [quick]`.

It takes one case after another: `case NAME` prepares one, compares its result and answers with the seconds of a call
and what the first one took, or with an error; a number then runs it as often. smelt's also answers `schedule`, and
`tune BUDGET`. `copy` is a library too, see `machine`. Reference results are kept in the folder, so that they are
computed once for all.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from smelt.bench.contest import come_to_rest, pin

_LEAD_IN = 0.03  # seconds, unmeasured: caches and clocks settle
_SCREEN = 0.05


class Server:
    """The cases of one library, one at a time."""

    def __init__(self, library: str, threads: int, folder: str, quick: bool) -> None:
        from smelt.bench.cpu.library import load

        self._threads, self._folder, self._quick = threads, Path(folder), quick
        self._library = None if library == "copy" else load(library, threads)
        self._seconds: Callable[[int], float] | None = None
        self._mark: Callable[[], float] | None = None
        self._errors: Callable[[], dict[str, float]] = dict
        self._running: tuple[Any, list[Any]] | None = None  # a function and its arguments
        if library == "smelt":
            from smelt.bench.peak import marked

            self._mark = marked(threads)

    def answer(self, line: str) -> dict[str, Any]:
        """To one line of the parent's."""
        word, _, rest = line.strip().partition(" ")
        match word:
            case "case":
                return self.prepare(rest)
            case "schedule":
                return {"text": self._schedule()}
            case "tune":
                return self._tuned(rest)
        return self.timed(int(word))

    def prepare(self, name: str) -> dict[str, Any]:
        """Make the case ready; gives the seconds of a call in the best of a few rounds."""
        self._seconds = self._running = None
        facts = self._copy(name) if self._library is None else self._case(name)
        return facts | self._screened()

    def _screened(self) -> dict[str, Any]:
        assert self._seconds is not None
        once = self._seconds(1)
        calls = max(1, min(1000, round(_SCREEN / max(once, 1e-9))))
        seconds = min(once, *(self._seconds(calls) for _ in range(3)))
        come_to_rest()
        return {"seconds": seconds}

    def timed(self, calls: int) -> dict[str, float]:
        """Seconds per call, and those of the mark beside it."""
        assert self._seconds is not None
        until = time.perf_counter() + _LEAD_IN
        self._seconds(1)
        while time.perf_counter() < until:
            self._seconds(1)
        seconds = self._seconds(calls)
        beside = {} if self._mark is None else {"mark": self._mark()}
        come_to_rest()
        return {"seconds": seconds} | beside

    def _copy(self, nbytes: str) -> dict[str, Any]:
        from smelt.bench.cpu.machine import Copier

        self._seconds = Copier(float(nbytes), self._threads)
        return {}

    def _case(self, name: str) -> dict[str, Any]:
        from smelt.bench.contest import seconds_per_call
        from smelt.bench.cpu.cases import case_named
        from smelt.bench.cpu.memory import Resident
        from smelt.bench.models import check_close, error_norms

        assert self._library is not None
        case, library = case_named(name), self._library
        operation = case.quick if self._quick and case.quick else case.operation
        inputs = case.inputs(self._quick)
        expected, nbytes = self._reference(name, operation, inputs), _nbytes(inputs)
        held = [_held(library.hold, value) for value in _popped(inputs)]
        gc.collect()
        resident, began = Resident(), time.perf_counter()
        function = library.compiled(library.operations[operation])
        found = _parts(function(*held))
        first, most = time.perf_counter() - began, resident.most()

        def errors(found: list[Any]) -> dict[str, float]:
            """The worst of all results; a wrong one is refused."""
            norms: list[dict[str, float]] = []
            for got, wanted in zip(found, expected, strict=True):
                given = library.give(got).astype(wanted.dtype)
                check_close(given, wanted, case.tolerance)
                norms.append(error_norms(given, wanted))
            return {name: max(norm[name] for norm in norms) for name in norms[0]}

        self._running = function, held
        self._errors = lambda: errors(_parts(function(*held)))
        self._seconds = lambda calls: seconds_per_call(lambda: function(*held), calls)
        return {"first": first, "memory": None if most is None else most + nbytes, "errors": errors(found)}

    def _schedule(self) -> str:
        """What smelt runs: form, knobs and schedule of each kernel."""
        from smelt.transform import examine

        assert self._running is not None
        function, held = self._running
        records = {record.region: record for record in examine(function, *held).kernels}
        return "\n\n".join(
            f"{record.name}: {record.form}\n{record.schedule.replace('; ', chr(10))}" for record in records.values()
        )

    def _tuned(self, budget: str) -> dict[str, Any]:
        """Search for a faster schedule, and use it from now on."""
        import smelt as sm

        assert self._running is not None
        function, held = self._running
        found = sm.tune(function, *held, budget=budget)
        told = {"tuning": found.seconds, "stored": len(found.stored), "errors": self._errors()}
        return told | self._screened()

    def _reference(self, name: str, operation: str, inputs: list[Any]) -> Any:
        """What NumPy finds in float64."""
        import numpy as np

        from smelt.bench.cpu.in_numpy import OPERATIONS

        file = self._folder / f"{name}.npz"
        if not file.exists():
            part = self._folder / f"{name}.part.npz"
            np.savez(part, *_parts(OPERATIONS[operation](*map(_widened, inputs))))
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


class _Wide(Mapping[str, Any]):
    """Weights in float64, each only while it is used: networks are too large to be held twice."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self._arrays = arrays

    def __getitem__(self, name: str) -> Any:
        return _widened(self._arrays[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def _widened(value: Any) -> Any:
    if isinstance(value, dict):
        return _Wide(value)
    return value if value.dtype.kind == "i" and value.dtype.itemsize == 8 else value.astype("float64", copy=False)


def _nbytes(inputs: Any) -> int:
    values = inputs.values() if isinstance(inputs, dict) else inputs
    return sum(_nbytes(value) if isinstance(value, dict) else value.nbytes for value in values)


def main(words: list[str], made: type[Server] = Server) -> None:
    """Serve, with the cases of a suite that has its own kind of server."""
    library, threads, folder, *options = words
    answers = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no answer
    pin(int(threads))
    server = made(library, int(threads), folder, "quick" in options)
    print(json.dumps({}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            answer = server.answer(line)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}".partition("\n")[0]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Tuning as part of benchmarks: in processes of their own, with a database of their own, so that what the user has
tuned is neither used nor changed.

The other functions are tasks of child processes (see `child`).
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import smelt as sm
from smelt.bench.drawn import OPERATIONS, Drawn
from smelt.bench.timing import run_json
from smelt.compiler import Compiler
from smelt.config import configure
from smelt.search import Tuned, race
from smelt.tuning import Budget, Tuning, Watched, tune_programs, watching

MOST_ROWS = 4096  # where their number is symbolic
_SETTLING = 6  # calls after which inputs that stay the same are prepared
_LEAST_PAIRS, _MOST_PAIRS = 15, 400  # of calls
_LATE = 8  # times as long as planned it may take to have enough of them


def task(name: str, options: Mapping[str, Any], variables: Mapping[str, str]) -> Any:
    """What a task gives, in a process of its own."""
    return run_json(["-m", "smelt.bench.child", name, json.dumps(options)], variables)


# --- in child processes


def tune_training(case: str, budget: str, threads: int) -> dict[str, Any]:
    """Tune a step of the train suite."""
    from smelt.bench.contest import pin
    from smelt.bench.train.in_smelt import training

    pin(threads)
    return _told(tune_calls(training("smelt", case, threads), budget))


def tune_calls(call: Callable[[], object], budget: str) -> Tuning:
    """Tune whatever a function without arguments runs."""

    def run(watched: Watched, until: Callable[[], bool]) -> None:
        with watching(watched):
            while not until():
                call()

    return tune_programs(run, Budget.of(budget), 0, "", lambda _: None, _SETTLING)


def tune_drawn(kernel: Sequence[Any], budget: str, rows: Sequence[int] = ()) -> dict[str, Any]:
    """Tune a kernel that was drawn, as a user does; with a symbolic first size, at each of these if there are any."""
    one = Drawn(kernel[0], tuple(kernel[1]), kernel[2])
    function = _compiled(one, bool(rows))
    told = [_told(sm.tune(function, *each.inputs(), budget=budget)) for each in _at(one, rows)]
    return {
        "seconds": sum(one["seconds"] for one in told),
        "changed": list(dict.fromkeys(change for one in told for change in one["changed"])),
        "contenders": told[-1]["contenders"],
    }


def _compiled(one: Drawn, is_sized: bool) -> Callable[..., Any]:
    """A kernel as a function: for its own sizes, or for any number of rows."""
    shapes = OPERATIONS[one.operation].shapes(sm.Dim("rows", 1, MOST_ROWS), *one.sizes[1:]) if is_sized else None
    return sm.jit(one.compute, shapes=shapes)


def _at(one: Drawn, rows: Sequence[int]) -> list[Drawn]:
    return [one._replace(sizes=(count, *one.sizes[1:])) for count in rows] or [one]


def _told(found: Tuning) -> dict[str, Any]:
    changed = [str(cut.site) for cut in found.cuts if cut.stored]
    changed += [row.found.adopted.label for row in found.stored if row.found.adopted is not None]
    return {"seconds": found.seconds, "changed": changed, "contenders": dict(found.states)}


def compare_drawn(kernel: Sequence[Any], seconds: float) -> dict[str, Any]:
    """The default and the tuned version of a kernel that was drawn, in the order A B B A: seconds of both, how many
    times as fast the tuned one is with bounds, and how far results are from right ones, as shares of what is allowed.
    """
    return compare_sized(kernel, seconds, ())[0]


def compare_sized(kernel: Sequence[Any], seconds: float, rows: Sequence[int]) -> list[dict[str, Any]]:
    """The same of one kernel for any number of rows, at each of these."""
    one = Drawn(kernel[0], tuple(kernel[1]), kernel[2])
    function = _compiled(one, bool(rows))
    return [_compared(function, each, seconds) for each in _at(one, rows)]


def _compared(function: Callable[..., Any], one: Drawn, seconds: float) -> dict[str, Any]:
    inputs = one.inputs()
    with configure(tuned="off"):
        for _ in range(_SETTLING):  # large inputs that stay the same are prepared, which makes another program
            function(*inputs)
        with watching(Watched(timed=False)) as watched:
            function(*inputs)
    [default] = watched.programs.values()
    tuned = Compiler(Tuned()).compile(default.key, default.device)
    same = tuned.choices == default.compiled.choices
    if not default.can_run(tuned):
        raise sm.errors.InternalError(f"{one.name}: the tuned version cannot take the place of the default")
    both = replace(default, other=tuned, calls=0, taken=([], []))
    watched.programs[id(default.compiled)] = both
    with watching(watched):
        results = [function(*inputs) for _ in range(2)]
    errors = [one.error(inputs, result) for result in results]
    began, pairs = time.monotonic(), 0
    with watching(watched):
        while pairs < _MOST_PAIRS and (taken := time.monotonic() - began) < _LATE * seconds:
            if pairs >= _LEAST_PAIRS and taken > seconds:
                break
            function(*inputs)
            pairs = len(both.ratios())
    medians = [statistics.median(taken[1:]) for taken in both.taken]
    found = {"default": medians[0], "tuned": medians[1], "errors": errors, "same": same, "pairs": pairs}
    low, high = race.bounds(both.ratios())
    return found | {"ratio": statistics.median(both.ratios()), "low": low, "high": high}

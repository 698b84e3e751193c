"""Tuning as part of benchmarks: in processes of their own, with a database of their own, so that what the user has
tuned is neither used nor changed.

The other functions are tasks of child processes (see `child`).
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import smelt as sm
from smelt.bench.drawn import Drawn
from smelt.bench.timing import run_json
from smelt.compiler import Compiler
from smelt.config import configure
from smelt.search import Tuned, race
from smelt.tuning import Budget, Tuning, Watched, tune_programs, watching

_SETTLING = 6  # calls after which inputs that stay the same are prepared
_LEAST_PAIRS, _MOST_PAIRS = 15, 400  # of calls
_LATE = 8  # times as long as planned it may take to have enough of them


class Environment(NamedTuple):
    """What a process has to be started with to use the choices that were found, and how long finding them took."""

    variables: dict[str, str]
    seconds: dict[str, float]  # by the case


def tuned_environment(
    suite: str, cases: Sequence[str], budget: str, folder: str, threads: int, variables: Mapping[str, str]
) -> Environment:
    """Tune smelt's contender for each of these cases of the cpu, grad or train suite. `folder` is where choices are
    kept; `variables` are those that contenders are started with.
    """
    own = {**variables, "SMELT_DATA_DIR": os.path.join(folder, "tuned"), "SMELT_TUNED": "on"}
    seconds = {}
    for case in cases:
        options = {"suite": suite, "case": case, "budget": budget, "threads": threads}
        seconds[case] = float(task("tune_case", options, own)["seconds"])
    return Environment(own, seconds)


def task(name: str, options: Mapping[str, Any], variables: Mapping[str, str]) -> Any:
    """What a task gives, in a process of its own."""
    return run_json(["-m", "smelt.bench.child", name, json.dumps(options)], variables)


# --- in child processes


def tune_case(suite: str, case: str, budget: str, threads: int) -> dict[str, Any]:
    """Tune what smelt's contender runs for a case of a suite."""
    from smelt.bench.cpu.contender import pin

    pin(threads)
    return _told(tune_calls(_training(case, threads) if suite == "train" else _operation(case), budget))


def _training(case: str, threads: int) -> Callable[[], object]:
    from smelt.bench.train.in_smelt import training

    return training("smelt", case, threads)


def _operation(name: str) -> Callable[[], object]:
    from smelt.bench.cpu.cases import CASES
    from smelt.bench.cpu.in_smelt import OPERATIONS

    case = CASES[name]
    function = sm.jit(OPERATIONS[case.operation])
    inputs = sm.tree.map(lambda array: sm.asarray(array, copy=True), case.inputs(False))
    return lambda: function(*inputs)


def tune_calls(call: Callable[[], object], budget: str) -> Tuning:
    """Tune whatever a function without arguments runs."""

    def run(watched: Watched, until: Callable[[], bool]) -> None:
        with watching(watched):
            while not until():
                call()

    return tune_programs(run, Budget.of(budget), 0, "", lambda _: None, _SETTLING)


def tune_drawn(kernel: Sequence[Any], budget: str) -> dict[str, Any]:
    """Tune a kernel that was drawn, as a user does."""
    one = Drawn(kernel[0], tuple(kernel[1]), kernel[2])
    return _told(sm.tune(one.compute, *one.inputs(), budget=budget))


def _told(found: Tuning) -> dict[str, Any]:
    changed = [row.found.adopted.label for row in found.stored if row.found.adopted is not None]
    return {"seconds": found.seconds, "changed": changed, "contenders": dict(found.states)}


def compare_drawn(kernel: Sequence[Any], seconds: float) -> dict[str, Any]:
    """The default and the tuned version of a kernel that was drawn, in the order A B B A: seconds of both, how many
    times as fast the tuned one is with bounds, and how far results are from right ones, as shares of what is allowed.
    """
    one = Drawn(kernel[0], tuple(kernel[1]), kernel[2])
    inputs, function = one.inputs(), sm.jit(one.compute)
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

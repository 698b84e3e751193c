"""One contender of the ops suite: `python -m smelt.bench.op_contender smelt|numpy CASE [quick]` (see `contest`)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import smelt as sm
from smelt.bench.models import check_close
from smelt.bench.op_cases import CASES, Case


def prepare_smelt(case: Case, quick: bool) -> tuple[Callable[[], object], dict[str, Any]]:
    """The call, after a comparison with NumPy's result."""
    arrays = case.inputs(quick)
    tensors = [sm.from_numpy(array) for array in arrays]
    function = sm.jit(case.smelt) if case.jit else case.smelt

    def call() -> Any:
        result = function(*tensors)
        return sm.realize(*result) if isinstance(result, tuple) else sm.realize(result)

    got = function(*tensors)
    expected = next(iter(case.ways.values()))(*arrays)
    pairs = zip(got, expected, strict=True) if isinstance(got, tuple) else [(got, expected)]
    for ours, theirs in pairs:
        check_close(ours.numpy(), theirs)
    return call, {"way": "smelt"}


def prepare_numpy(case: Case, quick: bool) -> tuple[Callable[[], object], dict[str, Any]]:
    """The best of NumPy's ways."""
    arrays = case.inputs(quick)
    taken: dict[str, float] = {}
    for name, way in case.ways.items():
        way(*arrays)
        taken[name] = min(_seconds(lambda way=way: way(*arrays), 1) for _ in range(3))  # type: ignore[misc]
    best = min(taken, key=lambda name: taken[name])
    return lambda: case.ways[best](*arrays), {"way": best}


def _seconds(call: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def main(words: list[str]) -> None:
    """Prepare, then answer each number on stdin with the seconds per call of so many calls."""
    library, name, *options = words
    prepare = {"smelt": prepare_smelt, "numpy": prepare_numpy}[library]
    call, facts = prepare(CASES[name], "quick" in options)
    print(json.dumps(facts), flush=True)
    for line in sys.stdin:
        print(json.dumps({"seconds": _seconds(call, int(line))}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

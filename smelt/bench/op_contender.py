"""One contender of the ops and linalg suites: `python -m smelt.bench.op_contender smelt|numpy CASE [quick]`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import smelt as sm
from smelt.bench import linalg
from smelt.bench.contest import seconds_per_call, serve
from smelt.bench.models import check_close
from smelt.bench.op_cases import CASES, Case
from smelt.bench.peak import marked


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
        taken[name] = min(seconds_per_call(lambda way=way: way(*arrays), 1) for _ in range(3))  # type: ignore[misc]
    best = min(taken, key=lambda name: taken[name])
    return lambda: case.ways[best](*arrays), {"way": best}


def main(words: list[str]) -> None:
    library, name, *options = words
    prepare = {"smelt": prepare_smelt, "numpy": prepare_numpy}[library]
    mark = marked() if library == "smelt" else None
    serve(*prepare({**CASES, **linalg.CASES, **linalg.FFT_CASES}[name], "quick" in options), mark)


if __name__ == "__main__":
    main(sys.argv[1:])

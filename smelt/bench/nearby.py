"""What tuning some sizes does for others: sizes between those that were tuned, and symbolic ones.

`sizes`: products are tuned at the corners of a cube of sizes, and others are drawn inside. Each runs as what is known
of its neighbours says, without being tuned; then it is tuned with few seconds and its neighbours at hand, and with many
and without them. `rows`: kernels with a symbolic number of rows are tuned at two numbers, and run with drawn ones.
"""

from __future__ import annotations

import itertools
import math
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from smelt import runtime
from smelt.bench.drawn import Drawn, drawn
from smelt.bench.report import Report, Row
from smelt.bench.timing import ChildError
from smelt.bench.tuned import LEAST, PROCESSES, Result, geomean, result_of
from smelt.bench.tuning import MOST_ROWS, task

CORNERS = (192, 384)  # of a product's sizes: with these far apart, what both have in common is used between them
SHARE = 0.9  # of the gain of a long search, that a short one reaches with neighbours
GEOMEAN = 1.05  # times as fast, of symbolic kernels at all numbers of rows
TUNED_AT = (37, 512)  # rows
FAMILIES = ("matmul", "rows", "reduce")  # of kernels with a number of rows
_SECONDS = 0.5  # of each comparison
CASES = ("sizes", "rows")
LISTED = """\
sizes  products between sizes that were tuned: never below 0.98 untuned, and 0.9 of the gain with few seconds
rows   kernels with a symbolic number of rows, at numbers that are drawn: none below 0.98, 1.05 in all"""

Say = Callable[[str], None]


def measure_nearby(only: Iterable[str], count: int, seed: int, budget: str, progress: Say) -> Report:
    """So many sizes, and so many kernels with symbolic ones. Ctrl-C ends it early."""
    rows: list[Row] = []
    text = ""
    try:
        for case in only:
            rows += {"sizes": _sizes, "rows": _rows}[case](
                count, random.Random(f"{seed} {case}"), seed, budget, progress
            )
    except KeyboardInterrupt:
        text = "interrupted"
    return Report(rows, extra={"seed": seed, "budget": budget}, text=text, failed=bool(text))


def _variables(data: str | Path, cache: str) -> dict[str, str]:
    return {"SMELT_DATA_DIR": str(data), "SMELT_CACHE_DIR": cache, "SMELT_DISK_CACHE": "1", "SMELT_TUNED": "on"}


def _compared(kernel: Drawn, variables: dict[str, str], found: dict[str, Any]) -> Result:
    """A kernel by default, and as a database says."""
    options = {"kernel": kernel, "seconds": _SECONDS}
    return result_of(kernel.name, found, [task("compare_drawn", options, variables) for _ in range(PROCESSES)])


_NOTHING: dict[str, Any] = {"seconds": 0.0, "changed": [], "contenders": {}}


def _sizes(count: int, rng: random.Random, seed: int, budget: str, progress: Say) -> Iterator[Row]:
    used: list[Result] = []
    short: list[Result] = []
    long: list[Result] = []
    inside = [Drawn("a @ b", tuple(rng.randrange(*CORNERS) for _ in range(3)), "float32") for _ in range(count)]
    with tempfile.TemporaryDirectory(prefix="smelt-bench-") as folder:
        known, cache = Path(folder, "known"), str(Path(folder, "cache"))
        for number, sizes in enumerate(itertools.product(CORNERS, repeat=3), 1):
            progress(f"tuning corner {number} of 8: {'×'.join(map(str, sizes))}")
            options = {"kernel": Drawn("a @ b", sizes, "float32"), "budget": budget}
            task("tune_drawn", options, _variables(known, cache))
        for number, kernel in enumerate(inside, 1):
            progress(f"[{number}/{count}] {kernel.name}")
            used.append(_compared(kernel, _variables(known, cache), _NOTHING))
            yield replace(used[-1].row(), name=f"{kernel.name}, untuned")
            for results, start, given in ((short, known, "quick"), (long, None, budget)):
                own = Path(folder, f"{given}-{number}-{start is None}")
                if start is not None:
                    shutil.copytree(start, own)
                variables = _variables(own, cache)
                found = task("tune_drawn", {"kernel": kernel, "budget": given}, variables)
                results.append(_compared(kernel, variables, found))
                yield replace(results[-1].row(), name=f"{kernel.name}, {'quick, neighbours' if start else 'alone'}")
    share = math.log(geomean(short)) / math.log(geomean(long)) if geomean(long) > 1 else 1.0
    yield Row("sizes: untuned, geometric mean", geomean(used), "×", LEAST, True, detail=_worst(used))
    yield Row("sizes: alone, geometric mean", geomean(long), "×")
    yield Row("sizes: share of that gain with neighbours", share, "", SHARE, True, detail="of the logarithm")


def _rows(count: int, rng: random.Random, seed: int, budget: str, progress: Say) -> Iterator[Row]:
    everything = drawn(20 * count, seed, runtime.default_device().profile)
    kernels = [one for one in everything if one.name.partition(":")[0] in FAMILIES][:count]
    numbers = sorted(round(math.exp(rng.uniform(0, math.log(MOST_ROWS)))) for _ in range(10))
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="smelt-bench-") as folder:
        for number, kernel in enumerate(kernels, 1):
            progress(f"[{number}/{count}] {kernel.name}, for any number of rows")
            variables = _variables(Path(folder, str(number)), str(Path(folder, "cache")))
            try:
                found = task("tune_drawn", {"kernel": kernel, "budget": budget, "rows": TUNED_AT}, variables)
                options = {"kernel": kernel, "seconds": _SECONDS, "rows": numbers}
                compared = [task("compare_sized", options, variables) for _ in range(PROCESSES)]
            except ChildError as error:
                yield Row(kernel.name, None, "×", detail=str(error).partition("\n")[0])
                continue
            for at, *each in zip(numbers, *compared, strict=True):
                results.append(result_of(f"{kernel.name} at {at}", found, each))
                yield results[-1].row()
    yield Row("rows: geometric mean", geomean(results), "×", GEOMEAN, True, detail=_worst(results))


def _worst(results: Sequence[Result]) -> str:
    slower = [result.name for result in results if result.is_slower]
    worst = min(results, key=lambda result: result.ratio, default=None)
    said = "" if worst is None else f"lowest {worst.ratio:.3f} ({worst.name})"
    return f"{said}; {len(slower)} of {len(results)} below {LEAST} beyond noise"

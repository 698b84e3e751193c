"""The tuned suite: kernels that are drawn from a seed are tuned, each in a process and a database of its own, and then
run by default and tuned, in turn, in fresh processes.

Results are written as they come, beside the JSON file, and taken from there by whoever runs the same again.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import smelt
from smelt import runtime
from smelt.bench.drawn import Drawn, drawn
from smelt.bench.report import Bounds, Measured, Report, Row
from smelt.bench.timing import ChildError
from smelt.bench.tuning import task
from smelt.cost import Profile

LEAST = 0.98  # of the default's speed, beyond noise
GEOMEANS = {"quick": 1.05, "max": 1.10}  # times as fast, by the budget
PROCESSES = 2
_SECONDS = 0.5  # of each comparison
LISTED = """\
Names may be parts of kernels' names: matmul, softmax, float16. With --strict exits with 1 when the geometric mean is
below 1.10 (quick: 1.05), a kernel is slower than 0.98 beyond noise, or a result is wrong. Results are added to a file
beside that of --json (.jsonl) as they come: run the same again to go on."""


class Result(NamedTuple):
    """What became of a kernel. `ratio` says how many times as fast it is tuned; it lies between `low` and `high`."""

    name: str
    seconds: float  # tuned
    default: float
    ratio: float
    low: float
    high: float
    changed: list[str]
    tuning: float  # seconds
    wrong: int  # results that are further from float64 than they may be
    contenders: dict[str, int]
    failed: str = ""

    @property
    def is_slower(self) -> bool:
        """Beyond noise."""
        return self.high < LEAST

    def row(self) -> Row:
        """For tables."""
        if self.failed:
            return Row(self.name, None, "×", detail=self.failed)
        said = "; ".join(self.changed) or "nothing changed"
        detail = (
            f"{_time(self.default)} → {_time(self.seconds)}, low {self.low:.3f}, tuned in {self.tuning:.1f} s: {said}"
        )
        detail += f"; {self.wrong} WRONG" if self.wrong else ""
        figure, bar = None if self.wrong else self.ratio, LEAST if self.is_slower else None
        calls = Bounds(self.seconds, self.seconds, self.seconds)
        bounds = Bounds(self.ratio, self.low, self.high)
        measured = Measured(seconds=calls, spread=0.0, ratio=bounds, against="the default")
        return Row(self.name, figure, "×", bar, at_least=True, detail=detail, measured=measured)


def measure_drawn(
    count: int, seed: int, only: Iterable[str], budget: str, kept: Path | None, progress: Callable[[str], None]
) -> Report:
    """Tune so many kernels, or those of them whose names contain one of these texts. Ctrl-C ends it early."""
    found: list[Result] = []
    text = ""
    try:
        kernels = chosen(count, seed, only, runtime.default_device().profile)
        for result in measure_tuned(kernels, budget, kept, progress):
            found.append(result)
    except KeyboardInterrupt:
        text = "interrupted"
    extra = {
        "seed": seed,
        "budget": budget,
        "geomean": geomean(found),
        "slower": [result.name for result in found if result.is_slower],
        "wrong": sum(result.wrong for result in found),
        "results": [result._asdict() for result in found],
    }
    failed = bool(text) or any(result.failed or result.wrong for result in found)
    return Report(rows(found, budget), extra=extra, text=text, failed=failed)


def measure_tuned(
    kernels: Sequence[Drawn], budget: str, kept: Path | None, progress: Callable[[str], None]
) -> Iterator[Result]:
    """What becomes of each kernel, as soon as it is known."""
    known = {} if kept is None else dict(_kept(kept, budget))
    with tempfile.TemporaryDirectory(prefix="smelt-bench-") as folder:
        for number, kernel in enumerate(kernels, 1):
            progress(f"[{number}/{len(kernels)}] {kernel.name}")
            result = known.get(kernel.name)
            if result is None:
                result = _measured(kernel, budget, folder)
                if kept is not None and not result.failed:
                    with kept.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({"budget": budget, **result._asdict()}, ensure_ascii=False) + "\n")
            yield result


def chosen(count: int, seed: int, only: Iterable[str], profile: Profile) -> list[Drawn]:
    """The kernels that are drawn, or those of them whose names contain one of these texts."""
    texts = list(only)
    return [one for one in drawn(count, seed, profile) if not texts or any(text in one.name for text in texts)]


def geomean(results: Iterable[Result]) -> float:
    """How many times as fast tuned kernels are."""
    ratios = [result.ratio for result in results if not result.failed]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 1.0


def rows(results: Sequence[Result], budget: str) -> list[Row]:
    """A row for each kernel, and how much faster they are by family and in all."""
    found = [result.row() for result in results]
    families: dict[str, list[Result]] = {}
    for result in results:
        families.setdefault(result.name.partition(":")[0], []).append(result)
    for family, own in families.items():
        better = sum(bool(result.changed) for result in own)
        found.append(Row(f"{family}: geometric mean", geomean(own), "×", detail=f"{better} of {len(own)} changed"))
    bar = GEOMEANS.get(budget)
    return [*found, Row("geometric mean", geomean(results), "×", bar, True, detail=f"{len(results)} kernels")]


def _measured(kernel: Drawn, budget: str, folder: str) -> Result:
    with tempfile.TemporaryDirectory(prefix="smelt-bench-") as data:
        variables = {"SMELT_DATA_DIR": data, "SMELT_CACHE_DIR": folder, "SMELT_DISK_CACHE": "1", "SMELT_TUNED": "on"}
        try:
            found = task("tune_drawn", {"kernel": kernel, "budget": budget}, variables)
            options = {"kernel": kernel, "seconds": _SECONDS}
            compared = [task("compare_drawn", options, variables) for _ in range(PROCESSES)]
        except ChildError as error:
            return Result(kernel.name, 0.0, 0.0, 1.0, 1.0, 1.0, [], 0.0, 0, {}, str(error).partition("\n")[0])
    return result_of(kernel.name, found, compared)


def result_of(name: str, found: Mapping[str, Any], compared: Sequence[Mapping[str, Any]]) -> Result:
    """From what tuning found, and what processes measured that compared."""
    keys, root = ("default", "tuned", "ratio"), 1 / len(compared)
    mean = {key: math.prod(one[key] for one in compared) ** root for key in keys}
    low, high = min(one["low"] for one in compared), max(one["high"] for one in compared)
    if all(one["same"] for one in compared):  # two runs of the same program differ by noise alone
        mean, low, high = mean | {"tuned": mean["default"], "ratio": 1.0}, 1.0, 1.0
    wrong = sum(error > 1 for one in compared for error in one["errors"])
    figures = (mean["tuned"], mean["default"], mean["ratio"], low, high)
    return Result(name, *figures, list(found["changed"]), float(found["seconds"]), wrong, dict(found["contenders"]))


def _kept(path: Path, budget: str) -> Iterator[tuple[str, Result]]:
    """What an earlier run has found, if no file of smelt's has changed since."""
    package = Path(smelt.__file__).parent
    if not path.exists() or max(file.stat().st_mtime for file in package.rglob("*.py")) > path.stat().st_mtime:
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            found = json.loads(line)
            if found.pop("budget") == budget:
                yield found["name"], Result(**found)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # the last line of a run that was killed


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} µs"

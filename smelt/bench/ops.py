"""The ops suite: indexing, order, scans, convolution and pooling against the best that NumPy can do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from smelt.bench.contest import Contender, Contest, contest
from smelt.bench.op_cases import CASES
from smelt.bench.report import Row, time_text

LEAST_RATIO = 1.0
GEOMEAN = 3.0
PEAK_SHARE = 0.5


def measure_ops(names: Iterable[str], quick: bool, progress: Callable[[str], None]) -> list[Row]:
    """A row for each case, one for the share of the peak where that is asked for, and the geometric mean."""
    rows: list[Row] = []
    ratios: list[float] = []
    for name in names:
        progress(f"{name}: {CASES[name].summary}")
        found, way = contest_of(name, quick)
        ratio = found.ratio.median
        ratios.append(ratio)
        measured = found.measured(against="numpy", flops=0.0 if quick else CASES[name].flops)
        detail = f"against {time_text(found.second.median)} ({way}); {CASES[name].summary}"
        bar = None if quick else LEAST_RATIO
        rows.append(Row(name, ratio, "×", bar, at_least=True, detail=detail, measured=measured))
        if CASES[name].flops and not quick:
            rows.append(_peak_row(name))
    geomean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    bar = GEOMEAN if len(ratios) == len(CASES) and not quick else None
    return [*rows, Row("geometric mean", geomean, "×", bar, at_least=True)]


def contest_of(name: str, quick: bool) -> tuple[Contest, str]:
    """Smelt against NumPy in a case of this suite or of the one of linear algebra, and NumPy's way."""
    options = ["quick"] if quick else []
    module = "smelt.bench.op_contender"
    with (
        Contender([module, "smelt", name, *options]) as ours,
        Contender([module, "numpy", name, *options]) as theirs,
    ):
        return contest(ours, theirs, most=5 if quick else 25), str(theirs.facts["way"])


def _peak_row(name: str) -> Row:
    with Contender(["smelt.bench.op_contender", "smelt", name]) as ours, Contender(["smelt.bench.peak"]) as peak:
        found = contest(ours, peak)
    flops = float(peak.facts["flops"])
    share = CASES[name].flops / flops * found.ratio.median
    detail = (
        f"{1e-9 * CASES[name].flops / found.first.median:.0f} of {1e-9 * flops / found.second.median:.0f} GFLOP/s, "
        f"measured in alternation; ±{100 * found.error:.0f} % after {len(found.times)} rounds"
    )
    return Row(f"{name}: share of the measured peak", share, "×", PEAK_SHARE, at_least=True, detail=detail)

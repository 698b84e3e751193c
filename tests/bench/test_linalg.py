"""The linalg suite on small inputs: contenders answer, results are compared, and the rows say what was measured."""

from __future__ import annotations

import pytest

from smelt.bench.linalg import CASES, FFT_CASES, LEAST_RATIO, measure_linalg
from smelt.bench.report import Verdict


@pytest.mark.by_turns(3)
def test_rows_without_bars_for_a_quick_look() -> None:
    progress: list[str] = []
    *rows, mean = measure_linalg(["solve-16", "rfft-64"], True, progress.append)
    assert [row.name for row in rows] == ["solve-16", "rfft-64"] and mean.name == "geometric mean"
    assert {row.verdict for row in (*rows, mean)} == {Verdict.NONE}
    assert progress == [f"solve-16: {CASES['solve-16'].summary}", f"rfft-64: {FFT_CASES['rfft-64'].summary}"]


def test_every_function_has_small_and_large_matrices() -> None:
    assert len(CASES) == 28 and LEAST_RATIO == 0.95

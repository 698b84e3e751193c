"""The ops suite on small inputs: contenders answer, results are compared, and the rows say what was measured."""

from __future__ import annotations

import pytest

from smelt.bench.contest import Contender, contest
from smelt.bench.op_cases import CASES
from smelt.bench.ops import measure_ops
from smelt.bench.report import Verdict
from smelt.bench.timing import ChildError


def test_contenders_answer_in_turn() -> None:
    words = ["smelt.bench.op_contender", "numpy", "cumsum rows", "quick"]
    with Contender(words) as first, Contender(words) as second:
        found = contest(first, second, window=0.001, most=5)
    assert len(found.times) == 5
    assert found.ratio.low > 0
    assert first.facts["way"].startswith("np.cumsum")


def test_a_contender_that_fails_is_an_error() -> None:
    with pytest.raises(ChildError, match="status 1"), Contender(["smelt.bench.op_contender", "numpy", "none"]):
        pass


def test_rows_without_bars_for_a_quick_look() -> None:
    progress: list[str] = []
    *rows, mean = measure_ops(["max-pool"], True, progress.append)
    assert [row.name for row in rows] == ["max-pool"]
    assert mean.name == "geometric mean"
    assert {row.verdict for row in (*rows, mean)} == {Verdict.NONE}
    assert progress == [f"max-pool: {CASES['max-pool'].summary}"]


def test_the_peak_is_a_contender() -> None:
    with Contender(["smelt.bench.peak"]) as peak:
        assert peak.facts["flops"] / peak.seconds(1) > 1e8

"""The quantized suite: what a process of it says, and the rows that are made of that."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from smelt.bench import quantized
from smelt.bench.report import Verdict


def test_a_process_measures_one_row_and_many() -> None:
    with patch.object(quantized, "_LEAST_BYTES", 1 << 16), patch.object(quantized, "_CACHES", 0):
        one, many = quantized._found("Q4_0", 0.001)
    assert (one["rows"], many["rows"]) == quantized.ROWS
    assert many["operations"] == 64 * one["operations"]
    assert 0 < one["error"] < 0.02
    assert one["bits"] == pytest.approx(4.5)


def test_rows_have_a_bar_by_the_bandwidth_of_the_same_run() -> None:
    found = {
        "rows": 1,
        "seconds": 0.01,
        "nbytes": 95e6,
        "bits": 4.5,
        "operations": 3e8,
        "error": 5e-3,
        "bandwidth": 1e10,
    }
    with patch.object(quantized, "run_json", return_value=[found, found | {"rows": 64}]):
        rows = quantized.measure_quantized(["Q4_0"], [1, 2], False, lambda text: None)
        quick = quantized.measure_quantized(["Q4_0"], [1], True, lambda text: None)
    assert [row.name for row in rows[:2]] == ["Q4_0, 1 row, 1 thread", "Q4_0, 64 rows, 1 thread"]
    assert [row.verdict for row in rows[:2]] == [Verdict.PASS, Verdict.NONE]
    assert rows[0].columns["of read"] == "95%"
    assert {row.verdict for row in quick} == {Verdict.NONE}

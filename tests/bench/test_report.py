"""Rows, tables and JSON."""

from __future__ import annotations

import json

import pytest

from smelt.bench.report import Row, Verdict, machine, machine_text, table, to_json

ROWS = [
    Row("call", 12.5e-6, "µs", 15e-6, detail="1 kernel"),
    Row("matmul", 0.93, "×", 0.95, at_least=True),
    Row("forward", 0.2468, "ms"),
    Row("start", None, "s", 0.6, detail="CompilerError, see stderr"),
]


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (Row("x", 1.0, "s", 1.0), Verdict.PASS),
        (Row("x", 1.001, "s", 1.0), Verdict.MISS),
        (Row("x", 1.001, "×", 1.0, at_least=True), Verdict.PASS),
        (Row("x", 0.999, "×", 1.0, at_least=True), Verdict.MISS),
        (Row("x", float("nan"), "s", 1.0), Verdict.MISS),
        (Row("x", 1.0, "s"), Verdict.NONE),
        (Row("x", None, "s", 1.0), Verdict.FAILED),
    ],
)
def test_a_figure_is_held_against_its_bar(row: Row, verdict: Verdict) -> None:
    assert row.verdict is verdict


def test_the_table_prints_each_figure_in_its_unit() -> None:
    assert table(ROWS).splitlines() == [
        "name       figure        bar          detail",
        "-" * 63,
        "call      12.5 µs  ≤ 15.0 µs  pass    1 kernel",
        "matmul    0.930 ×  ≥ 0.950 ×  miss",
        "forward  246.8 ms             -",
        "start              ≤ 0.600 s  failed  CompilerError, see stderr",
    ]


def test_json_keeps_seconds_and_names_the_machine() -> None:
    found = json.loads(to_json("core", ROWS, machine()))
    assert [result["figure"] for result in found["results"]] == [12.5e-6, 0.93, 0.2468, None]
    assert [result["unit"] for result in found["results"]] == ["seconds", "ratio", "seconds", "seconds"]
    assert [result["bar_is"] for result in found["results"]] == ["ceiling", "floor", None, "ceiling"]
    assert [result["verdict"] for result in found["results"]] == ["pass", "miss", None, "failed"]
    assert found["machine"]["cores"] >= 1


def test_a_busy_machine_is_named_as_such() -> None:
    facts = {**machine(), "cores": 4}
    assert "busy" in machine_text({**facts, "load": 2.5})
    assert "busy" not in machine_text({**facts, "load": 0.3})
    assert "busy" not in machine_text({**facts, "load": None})

"""The suite of sizes near tuned ones: what it asks of its tasks, and what it says of their answers."""

from __future__ import annotations

from typing import Any

import pytest

import smelt as sm
from smelt.bench import nearby
from smelt.bench.drawn import OPERATIONS, Drawn
from smelt.bench.report import Verdict
from smelt.bench.tuning import compare_sized


def compared(ratio: float) -> dict[str, Any]:
    low, high = ratio - 0.01, ratio + 0.01
    return {"default": 1e-3, "tuned": 1e-3 / ratio, "ratio": ratio, "low": low, "high": high, "errors": [0.1]} | {
        "same": ratio == 1
    }


@pytest.mark.parametrize("ratio, verdict", [(1.1, Verdict.PASS), (0.9, Verdict.MISS)])
def test_sizes_in_between_run_untuned_first(monkeypatch: pytest.MonkeyPatch, ratio: float, verdict: Verdict) -> None:
    asked: list[tuple[str, Any]] = []

    def task(name: str, options: dict[str, Any], variables: dict[str, str]) -> Any:
        asked.append((name, options["kernel"].sizes))
        return compared(ratio) if name == "compare_drawn" else {"seconds": 1.0, "changed": [], "contenders": {}}

    monkeypatch.setattr(nearby, "task", task)
    monkeypatch.setattr(nearby.shutil, "copytree", lambda *_: None)
    found = nearby.measure_nearby(["sizes"], 2, 7, "1", lambda _: None)
    assert [name for name, _ in asked[:9]] == ["tune_drawn"] * 8 + ["compare_drawn"]
    assert all(192 <= size < 384 for _, sizes in asked[8:] for size in sizes)
    summary = {row.name: row for row in found.rows}
    assert summary["sizes: untuned, geometric mean"].verdict is verdict


def test_kernels_for_any_number_of_rows_run_at_numbers_that_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def task(name: str, options: dict[str, Any], variables: dict[str, str]) -> Any:
        assert all(1 <= count <= nearby.MOST_ROWS for count in options["rows"])
        found = [compared(1.2) for _ in options["rows"]]
        return found if name == "compare_sized" else {"seconds": 1.0, "changed": ["tile"], "contenders": {}}

    monkeypatch.setattr(nearby, "task", task)
    found = nearby.measure_nearby(["rows"], 2, 7, "quick", lambda _: None)
    assert len(found.rows) == 2 * 10 + 1
    assert found.rows[-1].verdict is Verdict.PASS


def test_one_compilation_is_compared_at_several_numbers_of_rows() -> None:
    found = compare_sized(["softmax", [64, 48], "float32"], 0.01, [3, 17])
    assert len(found) == 2 and all(one["errors"][0] <= 1 and one["same"] for one in found)


@pytest.mark.parametrize("name", [name for name, one in OPERATIONS.items() if one.family in nearby.FAMILIES])
def test_every_kernel_of_its_families_takes_any_number_of_rows(name: str) -> None:
    operation = OPERATIONS[name]
    sizes = tuple(min(low + 6, high) for low, high in operation.bounds)
    rows = sm.Dim("rows", 1, 64)
    function = sm.jit(Drawn(name, sizes, "").compute, shapes=operation.shapes(rows, *sizes[1:]))
    for count in (1, 5):
        one = Drawn(name, (count, *sizes[1:]), operation.dtypes[0])
        inputs = one.inputs()
        assert one.error(inputs, function(*inputs)) <= 1

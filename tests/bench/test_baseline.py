"""Reports against earlier ones, with rows that are made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from smelt.bench.baseline import Baseline, Differences
from smelt.errors import ArgumentError

FACTS: dict[str, Any] = {
    **{"processor": "a", "family": "f", "cores": 2, "vector_bytes": 16, "numpy": "2.0", "quick": False, "mark": 1e-3},
    "peers": {"torch": "2.13"},
}


def row(
    name: str = "a row", marks: float = 1.0, ratio: float = 2.0, noise: float = 0.02, **more: Any
) -> dict[str, Any]:
    """A row that takes so many marks of a millisecond, in so many times less time than PyTorch."""
    found: dict[str, Any] = {"name": name, "seconds": 1e-3 * marks, "verdict": None, "against": "torch"}
    for key, value in (("marks", marks), ("seconds", 1e-3 * marks)):
        found |= {key: value, f"{key}_low": value * (1 - noise), f"{key}_high": value * (1 + noise)}
    return found | {"ratio": ratio, "low": ratio * (1 - noise), "high": ratio * (1 + noise)} | more


def compared(old: list[dict[str, Any]], new: list[dict[str, Any]], **facts: Any) -> Differences:
    baseline = Baseline("old.json", "cpu", FACTS, {one["name"]: one for one in old})
    return baseline.differences(FACTS | facts, new)


def verdict(old: dict[str, Any], new: dict[str, Any], **facts: Any) -> str:
    found = compared([old], [new], **facts)
    [change] = found.changes
    assert found.is_worse == (change.verdict in ("slower", "failed"))
    return change.verdict


def test_a_row_is_slower_beyond_noise_and_a_tenth() -> None:
    assert verdict(row(), row()) == "same"
    assert verdict(row(), row(marks=1.3, ratio=1.5)) == "slower"
    assert verdict(row(), row(marks=0.7, ratio=2.9)) == "faster"
    assert verdict(row(), row(marks=1.08, ratio=1.85)) == "same"  # beyond noise, but not by a tenth
    assert verdict(row(noise=0.2), row(marks=1.3, ratio=1.5, noise=0.2)) == "same"  # the bounds overlap


def test_a_machine_in_a_slow_phase_is_no_regression() -> None:
    slow = row(marks=1.0) | {"seconds": 2e-3, "seconds_low": 1.9e-3, "seconds_high": 2.1e-3}
    assert verdict(row(), slow) == "same"  # the mark took twice as long, too
    assert verdict(row(), row(marks=1.5)) == "same"  # and so did the peer


def test_ratios_count_only_against_the_same_version_of_the_same_peer() -> None:
    assert verdict(row(), row(marks=1.5), peers={"torch": "3.0"}) == "slower"
    assert verdict(row(), row(marks=1.5, against="jax")) == "slower"
    assert verdict(row(low=None), row(marks=1.5, low=None)) == "slower"


def test_figures_without_rounds_are_given_more_room() -> None:
    def figure(seconds: float) -> dict[str, Any]:
        return {"name": "a row", "seconds": seconds, "verdict": None}

    assert verdict(figure(1.0), figure(1.3)) == "same"
    assert verdict(figure(1.0), figure(1.5)) == "slower"
    assert verdict(figure(1.0), figure(1.5), mark=1.5e-3) == "same"


def test_rows_come_and_go_and_fail() -> None:
    old, new = [row("stays"), row("goes"), row("fails")], [row("stays"), row("comes"), row("fails", verdict="failed")]
    found = compared(old, new)
    assert {change.name: change.verdict for change in found.changes} == {
        "stays": "same",
        "goes": "gone",
        "fails": "failed",
        "comes": "new",
    }
    assert found.is_worse
    assert "slower beyond noise: fails" in found.text()


def test_nothing_in_common_is_no_success() -> None:
    found = compared([row("a")], [row("b")])
    assert found.is_worse
    assert "no row in both" in found.text()


def test_other_versions_are_named() -> None:
    assert compared([row()], [row()], numpy="2.1", peers={"torch": "3.0"}).notes == [
        "numpy: 2.0 before, 2.1 now",
        "torch: 2.13 before, 3.0 now",
    ]


@pytest.mark.parametrize("changed", [{"cores": 8}, {"family": "g"}, {"quick": True}])
def test_figures_of_another_machine_are_refused(changed: dict[str, Any]) -> None:
    baseline = Baseline("old.json", "cpu", FACTS, {})
    baseline.check("cpu", FACTS)
    with pytest.raises(ArgumentError, match="--anyway"):
        baseline.check("cpu", FACTS | changed)
    with pytest.raises(ArgumentError, match="it has cpu"):
        baseline.check("grad", FACTS)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"suite": 1, "machine": {}, "results": [3]}', "[" * 100_000])
def test_a_file_that_is_no_report_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(text, encoding="utf-8")
    with pytest.raises(ArgumentError, match="is no report"):
        Baseline.read(tmp_path / "old.json")
    with pytest.raises(ArgumentError, match="is no report"):
        Baseline.read(tmp_path / "none.json")


@pytest.mark.parametrize("damage", [{"marks": "many"}, {"marks_low": None}, {"seconds_low": {}, "marks": None}])
def test_a_damaged_row_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="is damaged"):
        compared([row() | damage], [row()])


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = {"suite": "cpu", "machine": FACTS, "results": [row()]}
    (tmp_path / "old.json").write_text(json.dumps(written), encoding="utf-8")
    read = Baseline.read(tmp_path / "old.json")
    read.check("cpu", FACTS)
    assert [change.verdict for change in read.differences(FACTS, [row()]).changes] == ["same"]

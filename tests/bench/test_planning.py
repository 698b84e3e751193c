"""The planning suite: graphs to plan, and rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from smelt.bench import command, planning
from smelt.bench.planning import MEASURES, plan_training, planned, random_graph
from smelt.bench.report import Row, Verdict
from smelt.graph import private_nodes, topological, verify_graph
from smelt.graph.text import print_graph


def test_random_graphs_have_about_so_many_nodes() -> None:
    with private_nodes():
        roots = random_graph(300)
        verify_graph(roots)
        assert 270 < len(topological(roots)) < 400
        assert print_graph(random_graph(300)) == print_graph(roots)
        assert print_graph(random_graph(300, seed=1)) != print_graph(roots)


def test_a_graph_is_planned_twice() -> None:
    with private_nodes():
        found = planned(random_graph(30), "exact")
    assert found["nodes"] > 30
    assert found["first"] > 0
    assert found["again"] > 0


def test_a_training_step_has_about_so_many_nodes() -> None:
    found = plan_training(1000, "exact")
    assert found["layers"] >= 2
    assert 700 < found["written"] < 1300


def rows_of(monkeypatch: pytest.MonkeyPatch, name: str, nodes: int, quick: bool, slope: float = 0.0) -> list[Row]:
    def fresh(task: str, options: Mapping[str, Any]) -> dict[str, Any]:
        count = int(options["nodes"])
        known = {"layers": 3, "written": count, "islands": 4, "changed": 1}
        return known | {"nodes": count, "first": 1e-4 * count * (1 + slope * count), "again": 1e-5 * count}

    def child(task: str, options: dict[str, Any], environment: dict[str, str]) -> dict[str, Any]:
        return {"first": {"off": 2.0, "exact": 2.125, "fast": 2.5}[environment["SMELT_CONTRACTS"]]}

    monkeypatch.setattr(planning, "_fresh", fresh)
    monkeypatch.setattr(planning, "child_task", child)
    return MEASURES[name].run(nodes, quick)


def test_a_training_step_is_held_against_its_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(monkeypatch, "training", 5000, quick=False)
    assert [row.name.rpartition(": ")[2] for row in rows] == ["first", "remembered"] * 2
    assert [row.bar for row in rows] == [0.5, 0.15] * 2
    assert "4 different islands, 1 of them changed" in rows[0].detail
    assert {row.verdict for row in rows_of(monkeypatch, "training", 9000, quick=False)} == {Verdict.NONE}


@pytest.mark.parametrize(("slope", "verdict"), [(0.0, Verdict.PASS), (1e-3, Verdict.MISS)])
def test_random_graphs_are_held_against_a_line(slope: float, verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    *rows, growth = rows_of(monkeypatch, "random", 5000, quick=False, slope=slope)
    assert [row.name.split()[3] for row in rows] == ["6250", "12500", "25000", "50000"]
    assert growth.verdict is verdict


def test_first_calls_are_shown_beside_those_without(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(monkeypatch, "first-call", 5000, quick=False)
    assert [row.figure for row in rows] == [2.0, 2.125, 2.5]
    assert "+0.12 s" in rows[1].detail


@pytest.mark.parametrize("name", MEASURES)
def test_a_quick_look_has_no_bars(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {row.bar for row in rows_of(monkeypatch, name, 5000, quick=True)} == {None}


def test_a_measure_runs_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows_of(monkeypatch, "random", 5000, quick=True)  # which puts others in the place of processes
    assert command.main(["planning", "--only", "training", "--nodes", "700"]) == 0
    assert "training step of 700 nodes, fast: remembered" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--nodes", "0"], ["--only", "none"]])
def test_unknown_words_are_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        command.main(["planning", *words])
    assert stop.value.code == 2
    assert capsys.readouterr().out == ""

"""`smelt bench` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from smelt.bench import command, suites
from smelt.bench.core import MEASURES, Measure
from smelt.bench.report import Row
from smelt.errors import CompilerError


def fake(monkeypatch: pytest.MonkeyPatch, *rows: Row, problem: Exception | None = None) -> None:
    def run(quick: bool) -> list[Row]:
        if problem is not None:
            raise problem
        return list(rows)

    monkeypatch.setitem(MEASURES, "node", Measure("a fake", run))


def test_one_measure_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["core", "--quick", "--only", "node", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["suite"] == "core"
    assert [result["name"] for result in found["results"]] == ["node: same shape", "node: broadcasting"]
    assert all(result["figure"] > 0 for result in found["results"])


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("name", ["dispatch", "replay"])
def test_measures_of_calls_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["core", "--quick", "--only", name]) == 0
    captured = capsys.readouterr()
    assert f"{name}: " in captured.out
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("name", ["op", "draw", "layer"])
def test_measures_outside_of_jit_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["feel", "--quick", "--only", name]) == 0
    captured = capsys.readouterr()
    assert f"{name}: " in captured.out
    assert "Traceback" not in captured.err


@pytest.mark.slow
def test_starts_of_programs_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["feel", "--quick", "--only", "start"]) == 0
    assert "start: mlp, warm" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["import", "start", "gpt2", "matmul"])
def test_measures_in_fresh_processes_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["core", "--quick", "--only", name]) == 0
    assert f"{name}" in capsys.readouterr().out


@pytest.mark.slow
def test_compiling_gradients_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["grad", "--quick", "--only", "compile", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    names = [result["name"] for result in found["results"]]
    assert [name.rpartition(": ")[2] for name in names[:2]] == ["first call, cold cache", "first call, warm cache"]
    assert names[-1].startswith("planning of ")
    assert all(result["bar"] is None for result in found["results"])  # those are set for large models


@pytest.mark.parametrize("words", [["--only", "compile"], ["--only", "compile", "--strict"]])
def test_compiling_alone_contends_with_nobody(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suites, "measure_compile", lambda quick: [Row("a first call", 0.5, "s", 0.6)])
    assert command.main(["grad", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "a first call" in lines[-1]
    assert "pass" in lines[-1]
    assert not any("machine: " in line for line in lines)


@pytest.mark.slow
def test_the_cold_path_is_shown_by_stage(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["coldpath", "--quick", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    stages = {row["name"]: row["seconds"] for row in found["results"]}
    assert {"trace", "rewrite", "fuse", "render", "compile"} <= set(stages)
    assert stages.pop("total") == pytest.approx(sum(stages.values()))
    assert found["kernels"] >= found["distinct_kernels"] > 0


@pytest.mark.parametrize(("words", "status"), [([], 0), (["--strict"], 1)])
def test_a_missed_bar_fails_only_when_asked(
    words: list[str], status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(monkeypatch, Row("slow thing", 2.0, "s", 1.0))
    assert command.main(["core", "--only", "node", *words]) == status
    assert "miss" in capsys.readouterr().out


def test_a_measure_that_does_not_run_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fake(monkeypatch, problem=ValueError("no such luck"))
    assert command.main(["core", "--only", "node"]) == 1
    captured = capsys.readouterr()
    assert "failed" in captured.out
    assert "no such luck" in captured.err


def test_a_compiler_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(size: str) -> None:
        raise CompilerError("no compiler")

    monkeypatch.setattr(suites, "measure_coldpath", fail)
    assert command.main(["coldpath"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "no compiler" in captured.err


def test_json_in_a_file_leaves_the_table_on_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(monkeypatch, Row("thing", 1.0, "s", 2.0))
    assert command.main(["core", "--only", "node", "--json", str(tmp_path / "report.json")]) == 0
    assert "pass" in capsys.readouterr().out
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["results"][0]["verdict"] == "pass"


@pytest.mark.parametrize("words", [[], ["corn"], ["core", "--only", "nodes"]])
def test_unknown_words_are_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        command.main(words)
    assert stop.value.code == 2
    assert capsys.readouterr().out == ""


def test_help_lists_the_measures_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        command.main(["core", "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert all(name in text for name in MEASURES)
    assert "examples:" in text

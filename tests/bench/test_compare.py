"""`compare`: an old tree against this one. The old one is a copy of this, with other answers of its contenders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from smelt.bench import command, compare
from smelt.bench.compare import Compared
from smelt.errors import ArgumentError

ANSWER = '{"seconds": seconds} | beside'
QUICK = ["--only", "max-pool", "--quick", "--json", "-"]


def old_tree(folder: Path, answer: str) -> Path:
    here = Path(__file__).parents[2] / "smelt"
    shutil.copytree(here, folder / "smelt", ignore=shutil.ignore_patterns("__pycache__"))
    contest = folder / "smelt" / "bench" / "contest.py"
    text = contest.read_text(encoding="utf-8")
    assert ANSWER in text
    contest.write_text(text.replace(ANSWER, answer), encoding="utf-8")
    return folder


@pytest.mark.by_turns(3)
@pytest.mark.parametrize(
    ("answer", "slower"), [('{"seconds": seconds * 9} | beside', 0), ('{"seconds": seconds / 9}', 1)]
)
def test_a_row_is_a_ratio_of_speeds(
    answer: str, slower: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = command.main(["compare", str(old_tree(tmp_path, answer)), *QUICK])
    found = json.loads(capsys.readouterr().out)
    [row] = found["results"]
    assert (row["ratio"] < 1) == row["slower"] == slower
    assert found["slower"] == (["ops: max-pool"] if slower else [])
    assert found["geometric_mean"] == pytest.approx(row["ratio"])
    assert row["rounds"] == 5
    assert status == slower


def test_a_case_that_the_old_tree_cannot_run_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["compare", str(old_tree(tmp_path, "unknown")), *QUICK[:-2]]) == 0
    said = capsys.readouterr().out
    assert "the old tree: a contender ended with status 1" in said
    assert "nothing was compared" in said


@pytest.mark.slow
def test_rows_of_commands_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["compare", str(old_tree(tmp_path, ANSWER)), "--only", "node", "--quick"])
    said = capsys.readouterr().out
    assert "core: node: broadcasting" in said
    assert "geometric mean" in said


def test_a_folder_without_smelt_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ArgumentError, match="not a checkout of smelt"):
        compare.checked_tree("old", tmp_path, tmp_path)
    assert command.main(["compare", str(tmp_path), *QUICK]) == 1
    assert "git worktree" in capsys.readouterr().err


@pytest.mark.parametrize(("ratio", "noise", "slower"), [(0.94, 0.0, True), (0.94, 0.02, False), (0.96, 0.0, False)])
def test_noise_is_given_room(ratio: float, noise: float, slower: bool) -> None:
    compared = Compared("a row", ratio, noise, 1.0, 1.0, 5)
    assert compared.slower == slower
    assert (compared.row().verdict.value == "miss") == slower


def test_a_row_is_slower_only_if_new_processes_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([Compared("a", 0.5, 0.0, 1.0, 2.0, 5), Compared("a", 0.99, 0.0, 1.0, 1.0, 5)])
    monkeypatch.setattr(compare, "_measured", lambda *_: [next(found)])
    said: list[str] = []
    [row] = compare.compare(old_tree(tmp_path, ANSWER), compare.cases(["max-pool"], [1], True), True, said.append)
    assert row.ratio == 0.99
    assert said[-1].endswith("seems slower: once more")


def test_more_of_a_floor_and_less_of_seconds_is_faster() -> None:
    pairs = [(1.0, 2.0)] * 5
    assert compare._from_figures("share", pairs, is_floor=True).ratio == 2.0
    assert compare._from_figures("seconds", pairs, is_floor=False).ratio == 0.5
    assert compare._from_figures("seconds", [(-1.0, 2.0)] * 5, is_floor=False).problem


def test_names_are_of_suites_groups_and_cases() -> None:
    every = compare.cases([], [1, 2], False)
    suites = ["core", "ops", "cpu", "grad", "train"]
    assert {case.name.partition(":")[0] for case in every} == set(suites)
    assert len(every) == sum(len(compare.cases([suite], [1, 2], False)) for suite in suites)
    assert [case.name for case in compare.cases(["f32-128"], [1, 2], False)] == [
        "cpu: f32-128, 1 thread",
        "cpu: f32-128, 2 threads",
    ]

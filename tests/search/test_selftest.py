"""`smelt tune selftest` as a user types it: what holds, what fails, and what cannot be run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from smelt import cli
from smelt.device.cpu import CPU
from smelt.search.selftest import suite
from smelt.search.selftest.children import timings
from smelt.search.selftest.races import Adoptions


def told(words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = cli.main(["tune", "selftest", *words.split()])
    return status, capsys.readouterr().out


def test_a_test_that_holds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    status, said = told(f"--fuzz 40 --seed 2 --json {file}", capsys)
    assert status == 0 and "40 lines: no failures" in said and "holds" in said
    [found] = json.loads(file.read_text("utf-8"))["tests"]
    assert found["holds"] and found["test"] == "fuzz" and found["seconds"] > 0


def test_a_test_that_fails_or_cannot_be_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "fuzz", lambda *_: ["line 3: KeyError"])
    monkeypatch.setattr(suite, "writers", lambda *_: 1 / 0)
    status, said = told("--fuzz 40 --writers 2", capsys)
    assert status == 1 and said.count("FAILS") == 2
    assert "fuzz: line 3: KeyError" in said and "ZeroDivisionError" in said
    status, said = told("--fuzz 40 --json -", capsys)
    assert status == 1 and json.loads(said)["tests"][0]["details"] == ["line 3: KeyError"]


def test_bars_of_races(monkeypatch: pytest.MonkeyPatch) -> None:
    def verdicts(adopted: int, known: int = 100) -> list[bool]:
        monkeypatch.setattr(suite, "races", lambda *_: Adoptions(adopted, 100, known, [1.0]))
        counts = suite.Counts(aa=100, planted=100)
        return [suite.run(test, lambda _: None).holds for test in suite.tests(counts, CPU(), noise=True)]

    assert verdicts(0) == [True, True, False]
    assert verdicts(1) == [True, False, False]
    assert verdicts(2) == [False, False, False]
    assert verdicts(94) == [False, False, False]
    assert verdicts(95) == [False, False, True]
    assert verdicts(0, known=0) == [False, False, False]  # where nothing could be timed, nothing is known


def test_stamps_of_timings_are_read() -> None:
    assert list(timings(b"1 0.5 1.5 2.0 2.25\n2\n3 4.0 5.0\n")) == [(0.5, 1.5), (2.0, 2.25), (4.0, 5.0)]


def test_counts_are_counts(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["tune", "selftest", "--kill", "-3"])
    assert stop.value.code == 2 and "invalid" in capsys.readouterr().err

"""The commands as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from smelt import cli
from smelt.cli import doctor
from smelt.errors import CompilerError


def test_help_loads_no_command() -> None:
    code = "import sys, smelt.cli; smelt.cli._parser().format_help(); sys.exit('smelt.compiler' in sys.modules)"
    assert subprocess.run([sys.executable, "-W", "error", "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("words", [[], ["smelter"], ["doctor", "--yaml"]])
def test_unknown_words_are_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    assert stop.value.code == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("problem", "status"), [(CompilerError("no compiler"), 1), (KeyboardInterrupt(), 130)])
def test_a_failing_command_has_an_exit_status(
    problem: BaseException, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> int:
        raise problem

    monkeypatch.setattr(doctor, "main", fail)
    assert cli.main(["doctor"]) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("no compiler" in captured.err) == (status == 1)


def test_doctor_reports_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["compiler"]["found"] is True
    assert found["processor"]["cores"] >= 1
    assert found["processor"]["vector_bytes"] in {16, 32, 64}
    assert found["versions"]["numpy"]


def test_doctor_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor"]) == 0
    titles = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert titles == ["versions", "system", "compiler", "processor", "cache"]


def test_doctor_fails_without_a_compiler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from smelt.device import toolchain

    def missing() -> None:
        raise CompilerError("no C compiler", hint="install one")

    monkeypatch.setattr(toolchain, "compiler", missing)
    assert cli.main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["compiler"] == {"found": False, "problem": "no C compiler install one"}


def test_the_size_of_a_folder_counts_files_and_not_what_links_point_to(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "entry").write_bytes(b"x" * 1009)
    target = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    target.write_bytes(b"x" * 100_003)
    (tmp_path / "link").symlink_to(target)
    assert 1009 <= doctor._size(tmp_path) < 100_003
    assert doctor._size(tmp_path / "missing") == 0

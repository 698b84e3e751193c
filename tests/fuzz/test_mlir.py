"""Bad files and what is said about them, and some of the damaged texts that `python -m tests.fuzz.mlir` tries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import mlir

BAD = sorted((Path(__file__).parent / "bad").glob("*.mlir"))


def test_there_are_enough() -> None:
    assert len(BAD) >= 60


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_what_is_said_about_bad_files(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    outcome = mlir.tried(text, seconds=60)
    assert f"// {outcome.why.splitlines()[0]}" == text.splitlines()[0]
    assert outcome.kind == "refused"


def test_damaged_texts_are_read_or_refused() -> None:
    outcomes = mlir.some(0, 200, seconds=60)
    assert [outcome for outcome in outcomes if outcome.is_wrong] == []
    assert {outcome.kind for outcome in outcomes} == {"read", "refused"}


def test_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.mlir", "--n", "3", "--seconds", "60"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and '"seconds"' in done.stdout

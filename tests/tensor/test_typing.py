"""A type checker follows shapes and dtypes through a program, and finds what does not fit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("typed_program.py")


@pytest.mark.slow
def test_mypy_finds_the_marked_mistakes_and_no_others(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    output, _, _ = api.run(["--strict", f"--cache-dir={tmp_path}", "--follow-imports=silent", str(PROGRAM)])
    found = {int(line) for line in re.findall(r"typed_program\.py:(\d+): error", output)}
    lines = PROGRAM.read_text(encoding="utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# E")}
    assert found == marked, output

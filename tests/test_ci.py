"""What continuous integration runs: parts, their times in a table, and an end that says whether one failed."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

SCRIPT = ROOT / ".ci" / "run"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="only in a checkout")


def run(folder: Path, make: str, text: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the script, or a text instead, with something else in the place of make."""
    (folder / ".ci").mkdir()
    script, tool = folder / ".ci" / "run", folder / "make"
    script.write_text(text or SCRIPT.read_text())
    tool.write_text(f'#!/bin/sh\necho "made $* $SMELT_TEST_SHARD $SMELT_TEST_TURN"\n{make}\n')
    tool.chmod(0o755)
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "SMELT_TEST_SHARD": ""} | variables
    return subprocess.run(["bash", str(script)], capture_output=True, text=True, env=environment, check=False)


def test_parts_run_and_their_times_are_shown(tmp_path: Path) -> None:
    done = run(tmp_path, "", SMELT_TEST_TURN="7")
    assert done.returncode == 0, done.stderr
    assert "made test  7" in done.stdout
    shards = re.findall(r"made test-all (\d+)/16 7", done.stdout)
    assert [int(shard) for shard in shards] == [*range(8, 17), *range(1, 8)]
    table = done.stdout.partition("=== where the time went\n")[2].splitlines()
    assert all(" 0:0" in line for line in table)
    assert table[0].split() == ["sampled", "tests", "0:00", "passed"]
    assert table[-1].startswith("total")


def test_a_part_that_fails_fails_the_run_after_the_others(tmp_path: Path) -> None:
    done = run(tmp_path, '[ "$1" != test-peers ]')
    assert done.returncode == 1
    assert "made test-all" in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines() if line.endswith("FAILED")] == ["peers"]


def test_a_slow_machine_takes_one_shard_of_everything(tmp_path: Path) -> None:
    done = run(tmp_path, "", SCRIPT.read_text().replace("more_until=$((36 * 60))", "more_until=-1"))
    assert done.returncode == 0
    assert done.stdout.count("made test-all") == 1


def test_nothing_is_started_when_it_is_too_late(tmp_path: Path) -> None:
    done = run(tmp_path, "", SCRIPT.read_text().replace("last_start=$((70 * 60))", "last_start=-1"))
    assert done.returncode == 0
    assert "made test" not in done.stdout
    assert "too late" in done.stdout

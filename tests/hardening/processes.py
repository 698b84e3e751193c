"""Programs that tests run in processes of their own, with a cache and settings of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TIME_LIMIT = 300.0  # seconds: what is not done by then hangs
# Programs complain about nothing, but that their graphs differ in sizes only.
_WARNINGS = ("-W", "error", "-W", "ignore::DeprecationWarning", "-W", "ignore:10 programs were compiled")

# Graphs that differ in what is compiled, with a check of their result that needs no smelt.
GRAPHS = """
import numpy as np
import smelt as sm

def graph(k):
    \"\"\"The k-th graph: its shape makes it a graph of its own.\"\"\"
    n = 7 + k
    x = sm.from_numpy(np.arange(5 * n, dtype=np.float32).reshape(5, n) / n)
    return ((x * 2 + k).sum(axis=0) - x.max(axis=0)).numpy()

def expected(k):
    n = 7 + k
    x = np.arange(5 * n, dtype=np.float32).reshape(5, n) / n
    return (x * 2 + k).sum(axis=0) - x.max(axis=0)

def is_right(k):
    return np.allclose(graph(k), expected(k), rtol=1e-5, atol=1e-5)
"""


def each_slow(*values: object) -> list[Any]:
    """Parameters of a test that are for the full run."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def run(
    code: str, cache: Path | None, *arguments: object, remove: tuple[str, ...] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    """What a program said and how it ended; `remove` are variables of the environment that it must not have."""
    environment = {name: value for name, value in os.environ.items() if name not in remove}
    if cache is not None:
        environment["SMELT_CACHE_DIR"] = str(cache)
    return subprocess.run(
        [sys.executable, *_WARNINGS, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": str(ROOT), "SMELT_VERIFY": "0"} | variables,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        check=False,
    )


def says(code: str, cache: Path | None, *arguments: object, remove: tuple[str, ...] = (), **variables: str) -> str:
    """The output of a program that ends well and complains about nothing."""
    answer = run(code, cache, *arguments, remove=remove, **variables)
    assert (answer.returncode, answer.stderr) == (0, ""), answer
    return answer.stdout.strip()


def says_without_room(code: str, cache: Path | None, *arguments: object, **variables: Any) -> str:
    """The output of a program that ends well, and says in one line that what it compiles cannot be kept."""
    answer = run(code, cache, *arguments, **variables)
    assert answer.returncode == 0, answer
    [line] = answer.stderr.splitlines()
    assert line.startswith(f"smelt: what is compiled cannot be kept in {cache or ''}"), answer
    return answer.stdout.strip()


def files(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if not path.is_dir()]


def damaged(cache: Path) -> list[Path]:
    """Files in a cache that are not whole entries of their names."""
    from smelt.diskcache import DiskCache

    readable = DiskCache(cache)

    def is_whole(path: Path) -> bool:
        return path.suffix == "" and readable.load_bytes(path.parent.name, path.name) is not None

    return [path for path in files(cache) if not is_whole(path)]

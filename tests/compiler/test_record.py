"""Compiled graphs on disk: found again by later processes, and dropped whenever something is wrong with them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.compiler import driver, trace
from smelt.compiler.record import graph_digest
from smelt.config import configure
from smelt.device.cpu import CPU
from smelt.device.toolchain import compile_count
from smelt.diskcache import disk_cache
from tests.turns import TEST_ALL

pytestmark = pytest.mark.filterwarnings("ignore:smelt. .* could not be trusted")

x = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    with configure(cache_dir=tmp_path / "cache", disk_cache=True):
        yield tmp_path / "cache"


def compute() -> Any:
    """A result through the whole pipeline, with nothing remembered in memory."""
    runtime.current().clear_caches()
    return (sm.asarray(x) * 1.5 + sm.asarray(x).sum(-1, keepdims=True)).numpy()


EXPECTED = x * 1.5 + x.sum(-1, keepdims=True)


def entries(cache: Path) -> list[Path]:
    return sorted((cache / "graphs").iterdir())


def test_a_second_compilation_is_read_back(cache: Path) -> None:
    np.testing.assert_array_equal(compute(), EXPECTED)
    [entry] = entries(cache)
    before = compile_count()
    np.testing.assert_array_equal(compute(), EXPECTED)
    assert compile_count() == before
    assert entries(cache) == [entry]


@pytest.mark.parametrize("damage", [b"", b"{}", b"\0" * 100, b"null", b'{"launches": 3}'])
def test_damaged_entries_are_made_again(cache: Path, damage: bytes) -> None:
    compute()
    [entry] = entries(cache)
    entry.chmod(0o600)
    entry.write_bytes(damage)
    np.testing.assert_array_equal(compute(), EXPECTED)


@pytest.mark.parametrize("keep", [1, 50, -1, -40])
def test_truncated_entries_are_made_again(cache: Path, keep: int) -> None:
    compute()
    for entry in [*entries(cache), *(p for p in cache.rglob("*") if p.is_file())]:
        # A new file: what this process has loaded stays as it was.
        short = entry.with_suffix(".short")
        short.write_bytes(entry.read_bytes()[:keep])
        short.chmod(entry.stat().st_mode)
        short.replace(entry)
    np.testing.assert_array_equal(compute(), EXPECTED)


@pytest.mark.parametrize(
    "change",
    [
        {"slots": [[0, 1 << 40]]},
        {"slots": [[-1, 0], [1, 0], [2, 0]]},
        {"libraries": ["../../etc/passwd"]},
        {"libraries": ["0" * 64]},
        {"outputs": [["float99", [3, 4]]]},
        {"outputs": [["float32", ["__import__('os')"]]]},
        {"outputs": [["float32", ["d0"]]]},
        {"arena_bytes": -5},
        {"arena_bytes": True},
        {"outputs": [["float32", [3, 5]]]},
        {"outputs": [["float64", [3, 4]]]},
        {"outputs": [["float32", [3, 4.0]]]},
        {"outputs": [["float32", [3, 4], 48]]},
        {"outputs": [[7, [3, 4], [4, 1], 0]]},
        {"outputs": [{"dtype": "float32", "size": [3, 4]}]},
        {"outputs": {"float32": 1}},
        {"results": "abc", "launches": []},
        {"unknown": None},
        {"bounds": [[1, 2]]},
        {"in_place": [[-1, 0]]},
        {"in_place": [[0, 99]]},
        {"in_place": [[5, 0]]},
        {"in_place": [[0, [0]]]},
        {"choices": [["question"]]},
        {"choices": [["question", "split i0 (2 reg)"]]},
        {"choices": None},
        {"kernels": [[1, 2, 3]]},
        {"launches": [{"buffers": [], "arrays": [], "read": 0, "names": {}, "function": "print"}]},
        {"launches": [3]},
        {"homes": [[[], 0, 0]], "slots": [[9, 0]]},
        {"asks": [[7, "graph"]]},
        {"asks": [[0, 5]]},
        {"prepared": [[0, "graph"]]},
    ],
)
def test_records_that_do_not_make_sense_are_dropped(cache: Path, change: dict[str, Any]) -> None:
    """Even one with a right checksum: nothing in a record is trusted."""
    compute()
    node = (sm.asarray(x) * 1.5 + sm.asarray(x).sum(-1, keepdims=True))._node
    digest = graph_digest(trace([node]).key, CPU())
    store = disk_cache()
    assert store is not None
    data = store.load_bytes("graphs", digest)
    assert data is not None
    store.store_bytes("graphs", digest, json.dumps({**json.loads(data), **change}).encode())
    np.testing.assert_array_equal(compute(), EXPECTED)
    assert store.load_bytes("graphs", digest) == data  # made anew


def looping() -> Any:
    """A loop with a branch in it, slices on both sides, and a number in the body."""
    runtime.current().clear_caches()
    total, parts = sm.scan(
        lambda c, v: (sm.cond(v[0] > 4, lambda c: c + v, lambda c: c * 0.25, c), c * v), sm.zeros((4,)), sm.asarray(x)
    )
    return np.concatenate([total.numpy()[None], parts.numpy()])


def looped() -> Any:
    state, parts = np.zeros(4, np.float32), []
    for row in x:
        parts.append(state * row)
        state = state + row if row[0] > 4 else state * np.float32(0.25)
    return np.stack([state, *parts])


def test_loops_are_read_back(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.testing.assert_array_equal(looping(), looped())
    monkeypatch.setattr(driver, "compile_key", None)  # nothing is compiled any more
    np.testing.assert_array_equal(looping(), looped())


@pytest.mark.parametrize(
    "change",
    [
        {"buffers": [1 << 20]},
        {"buffers": []},
        {"kind": "explode"},
        {"kind": 3},
        {"target": 1 << 20},
        {"target": -1},
        {"amount": "1"},
        {"amount": None},
        {"amount": -(1 << 70)},
        {"target": 1.5},
    ],
    ids=repr,
)
def test_loops_that_do_not_make_sense_are_dropped(cache: Path, change: dict[str, Any]) -> None:
    looping()
    [entry] = entries(cache)
    store = disk_cache()
    assert store is not None
    data = json.loads(store.load_bytes("graphs", entry.name) or b"")
    controls = [k for k, step in enumerate(data["launches"]) if "kind" in step]
    for k in (controls[0], controls[len(controls) // 2], controls[-1]):
        steps = [{**step, **change} if k == at else step for at, step in enumerate(data["launches"])]
        store.store_bytes("graphs", entry.name, json.dumps({**data, "launches": steps}).encode())
        np.testing.assert_array_equal(looping(), looped())


def test_without_a_disk_cache(tmp_path: Path) -> None:
    with configure(cache_dir=tmp_path / "none", disk_cache=False):
        np.testing.assert_array_equal(compute(), EXPECTED)
    assert not (tmp_path / "none").exists()


PROGRAM = """
import numpy as np, smelt as sm
x = sm.asarray(np.arange(4000, dtype=np.float32).reshape(40, 100))
w = sm.asarray(np.ones((100, 7), np.float32))
y = ((x @ w).relu() + 0.5).softmax(-1).numpy()
assert np.allclose(y, 1 / 7), y
print("right")
"""


def test_many_processes_on_one_cache(tmp_path: Path) -> None:
    environment = {
        "SMELT_CACHE_DIR": str(tmp_path / "cache"),
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": ":".join(sys.path),
    }
    children = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(8 if TEST_ALL else 3)
    ]
    for child in children:
        out, err = child.communicate(timeout=300)
        assert (out, err, child.returncode) == (b"right\n", b"", 0)

"""Compiled code that nobody needs any more goes, and a process that is full of it says so."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import smelt as sm
from smelt import runtime
from smelt.config import configure
from smelt.device import toolchain
from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="maps are counted as Linux shows them")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path) -> Iterator[Path]:
    with configure(cache_dir=tmp_path / "cache"):
        yield tmp_path / "cache"


def loaded(cache: Path) -> int:
    """How many libraries of a cache are mapped into this process."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return len({line.split(maxsplit=5)[5] for line in maps if str(cache / "library") in line})


def test_libraries_of_functions_that_are_gone_are_unloaded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime.current().compiler.kernels, "limit", 4)
    monkeypatch.setattr(runtime.current().graphs, "limit", 4)
    kept = sm.jit(lambda x: x * 3 - 7)
    x = sm.arange(5, dtype=sm.float32)
    assert kept(x).tolist() == [-7.0, -4.0, -1.0, 2.0, 5.0]
    for size in range(2, 22):
        assert sm.jit(lambda x: (x + 0.5).sum())(sm.ones(size)).item() == 1.5 * size
    gc.collect()
    sm.jit(lambda x: x - 1)(x).tolist()  # whoever loads next makes room
    assert loaded(cache) < 15
    assert kept(x).tolist() == [-7.0, -4.0, -1.0, 2.0, 5.0]


def test_what_somebody_holds_stays_and_what_was_unloaded_comes_back(cache: Path) -> None:
    sources = [f"int answer(void) {{ return {number}; }} /* unloaded */" for number in range(8)]
    libraries = toolchain.build(sources)
    before, runs = loaded(cache), toolchain.compile_count()
    assert before >= 8
    held, address = libraries[0], libraries[0].address("answer")
    del libraries
    toolchain.build(["int other; /* unloaded */"])
    assert loaded(cache) <= before - 7 + 1
    assert held.address("answer") == address
    again = toolchain.build(sources)
    assert again[0] is held
    assert toolchain.compile_count() == runs + 1
    assert toolchain.stored([library.key for library in again]) == again


def test_graphs_from_disk_share_their_libraries(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = toolchain.build([f"int shared_{number}; /* from disk */" for number in range(2)])
    keys = [library.key for library in libraries]
    monkeypatch.setattr(toolchain, "_libraries", {})  # what a new process knows
    first = toolchain.stored(keys)
    assert first is not None
    assert toolchain.stored(keys) == first
    assert first[0] is not libraries[0]


CROWDED = """
import ctypes, gc, mmap
import smelt as sm
from smelt.errors import MemoryLimitError

x = sm.arange(3, dtype=sm.float32)
functions = [lambda x: x + 1, lambda x: x * x - 2, lambda x: x.cos()]
print(sm.jit(functions[0])(x).tolist())

system = ctypes.CDLL(None)
system.mmap.restype = ctypes.c_void_p
system.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
system.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
system.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
# Python itself needs room as well: small blocks that are free again, in memory that it does not give back.
room = [bytearray(400) for _ in range(20_000)][::1000]
page, limit = mmap.PAGESIZE, int(open("/proc/sys/vm/max_map_count").read())
place = system.mmap(None, 2 * limit * page, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1, 0)
number = 0
while system.mprotect(place + 2 * number * page, page, 1) == 0:  # each page that may be read is one more map
    number += 1

try:
    print(sm.jit(functions[1])(x).tolist())
except MemoryLimitError as error:
    print(error)
print(sm.jit(functions[0])(x).tolist())
system.munmap(place, 2 * limit * page)
print(sm.jit(functions[1])(x).tolist())
"""


def test_a_process_without_room_for_more_code_says_so(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "crowded.py").write_text(CROWDED)
    environment = os.environ | {"SMELT_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    child = subprocess.run(
        [sys.executable, tmp_path / "crowded.py"], env=environment, capture_output=True, text=True, check=True
    )
    first, message, *rest = child.stdout.splitlines()
    assert first == "[1.0, 2.0, 3.0]"
    assert message == "the process has no room for more compiled code"
    assert "print(sm.jit(functions[1])(x).tolist())" in rest[0]
    assert "vm.max_map_count" in rest[1]
    assert rest[-2:] == ["[1.0, 2.0, 3.0]", "[-2.0, -1.0, 2.0]"]
    assert child.stderr == ""

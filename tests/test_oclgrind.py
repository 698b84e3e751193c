"""The kernels of every public function in Oclgrind, a simulator that sees races and accesses outside of buffers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Two threads of a group read what the other one stores, without waiting.
RACE = """
import numpy as np
from smelt import runtime
from smelt.device.memory import NOWHERE
from smelt.device.protocol import Launch, Listing
source = '''
__kernel __attribute__((reqd_work_group_size(2, 1, 1))) void race(__global char *m0, long f0) {
  __local int shared[2];
  __global int *to = (__global int *)(m0 + f0);
  shared[get_local_id(0)] = get_local_id(0);
  to[get_local_id(0)] = shared[1 - get_local_id(0)];
}'''
device = runtime.device("opencl")
memory = device.upload(np.zeros(2, np.int32))
program = device.load(Listing([Launch(0, "race", "", 1, 1, 2, (0,), ())], [(1, 0)]), device.build([source]))
program.run(NOWHERE + memory.pointer, b"")
print(memory.view(np.dtype(np.int32), (2,)))
"""


def simulated(log: Path, everything: str, *arguments: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run Python with the simulator as the OpenCL device; what it says about the kernels comes second."""
    environment = os.environ | {
        "SMELT_OPENCL": "oclgrind",
        "SMELT_DISK_CACHE": "0",
        "SMELT_TEST_OPENCL": "1",
        "SMELT_TEST_ALL": everything,
        "OCLGRIND_DATA_RACES": "1",
        "OCLGRIND_LOG": str(log),
        "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable",  # it does not know every instruction that optimizing makes
        "PYTHONPATH": str(ROOT),
    }
    environment.pop("SMELT_TEST_SHARD", None)  # it is this test that belongs to a shard
    command = [sys.executable, *arguments]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return run, log.read_text() if log.exists() else ""


@pytest.mark.slow
@pytest.mark.opencl
def test_the_simulator_sees_a_race(tmp_path: Path) -> None:
    run, said = simulated(tmp_path / "log", "0", "-c", RACE)
    assert run.returncode == 0, run.stderr
    assert "data race" in said


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize(
    ("tests", "chosen", "everything"),
    [
        ("tests/test_op_table.py", "compiled_and and opencl", "0"),
        ("tests/kernel/test_random_schedules.py", "threads and opencl", "1"),
        ("tests/property", "opencl", "0"),
    ],
)
def test_no_kernel_races_or_leaves_its_buffers(tmp_path: Path, tests: str, chosen: str, everything: str) -> None:
    run, said = simulated(
        tmp_path / "log", everything, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", tests, "-k", chosen
    )
    assert run.returncode == 0, (run.stdout + run.stderr)[-6000:]
    assert said == ""

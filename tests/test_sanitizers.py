"""The kernels of every public function under the address and undefined-behavior sanitizers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from smelt.device.toolchain import compiler

ROOT = Path(__file__).resolve().parent.parent

# Reads one element past its input.
OVERRUN = """
import numpy as np, pytest
from smelt.device.memory import allocate
from smelt.device.toolchain import build
def test_overrun():
    source = "void k(void *const *b) { float *x = b[0], *y = b[1]; for (long i = 0; i <= 12; i++) y[i % 12] = x[i]; }"
    import ctypes
    [library] = build([source])
    x, y = allocate(48), allocate(48)
    ctypes.CFUNCTYPE(None, ctypes.c_char_p)(library.address("k"))(x.pointer + y.pointer)
"""


def sanitized(*arguments: str, module: str = "tests.sanitized") -> subprocess.CompletedProcess[str]:
    """Run tests, or another module, in a process with the sanitizers."""
    command = compiler().command[0]
    libraries = []
    for name in ("libasan.so", "libubsan.so"):
        found = subprocess.run([command, f"-print-file-name={name}"], capture_output=True, text=True, check=False)
        libraries.append(found.stdout.strip())
    if not all(os.path.isabs(library) for library in libraries):
        pytest.skip("this compiler comes without sanitizers")
    environment = os.environ | {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "SMELT_SANITIZE": "1",
        "SMELT_TEST_ALL": "0",
    }
    command_line = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command_line, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_sanitizers_see_one_element_too_many(tmp_path: Path) -> None:
    test = tmp_path / "test_overrun.py"
    test.write_text(OVERRUN)
    result = sanitized(str(test), "--rootdir", str(tmp_path), "-c", os.devnull)
    assert result.returncode != 0
    assert "AddressSanitizer: use-after-poison" in result.stderr, result.stdout + result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "tests",
    [
        ("tests/test_op_table.py", "-k", "compiled_and"),
        ("tests/transform/test_control.py",),
        ("tests/linalg/test_small.py",),
    ],
    ids=lambda x: x[0],
)
def test_no_kernel_touches_what_is_not_its_own(tests: tuple[str, ...]) -> None:
    result = sanitized(*tests)
    assert result.returncode == 0, (result.stdout + result.stderr)[-6000:]


@pytest.mark.slow
def test_damaged_models_touch_nothing_that_is_not_their_own() -> None:
    """Some seconds of what `tests/llm/fuzzed.py` does for as long as it is told."""
    result = sanitized("20", module="tests.llm.fuzzed")
    assert result.returncode == 0, (result.stdout + result.stderr)[-6000:]

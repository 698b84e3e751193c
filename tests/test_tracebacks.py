"""What Python prints about errors that nobody catches."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import smelt as sm

def layer(x):
    return x @ sm.ones((3, 4))

@sm.jit
def step(x):
    return layer(x)

step(sm.ones((2, 2)))
"""


def _printed(program: str, folder: Path, **environment: str) -> str:
    file = folder / "program.py"
    file.write_text(program, encoding="utf-8")
    found = subprocess.run(
        [sys.executable, str(file)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.getcwd(), **environment},
    )
    assert found.returncode == 1
    return found.stderr


def test_a_traceback_has_the_lines_of_the_user_alone(tmp_path: Path) -> None:
    text = _printed(PROGRAM, tmp_path)
    lines = [line for line in text.splitlines() if line.lstrip().startswith("File ")]
    assert len(lines) == 3 and all("program.py" in line for line in lines)
    assert "ShapeError: matmul: inner sizes differ" in text and "SMELT_TRACEBACK=full" in text


def test_methods_that_python_writes_for_classes_of_smelt_are_not_the_users(tmp_path: Path) -> None:
    text = _printed("from smelt import llm\nllm.Sampling(temperature=-1)\n", tmp_path)
    assert "at program.py:2:  llm.Sampling(temperature=-1)" in text and "<string>" not in text


def test_all_frames_are_shown_if_asked_for(tmp_path: Path) -> None:
    text = _printed(PROGRAM, tmp_path, SMELT_TRACEBACK="full")
    assert os.path.join("smelt", "transform", "jit.py") in text


def test_errors_of_the_users_own_are_shortened_as_well(tmp_path: Path) -> None:
    text = _printed("import smelt as sm\nsm.grad(lambda x: x * (1 / 0))(sm.ones(()))\n", tmp_path)
    assert "ZeroDivisionError" in text and "gradients.py" not in text


def test_what_goes_wrong_inside_smelt_is_shown_in_full(tmp_path: Path) -> None:
    program = "import smelt as sm\nfrom smelt.graph import index\nindex.as_index(1) // index.variable('z', 0, 3)\n"
    text = _printed(program, tmp_path)
    assert "InternalError" in text and os.path.join("graph", "index.py") in text


def test_a_property_that_is_called_is_told_about(tmp_path: Path) -> None:
    """`x.size(0)` is PyTorch's; Python alone says that a number cannot be called."""
    program = "import smelt as sm\ndef rows(x):\n    return sm.zeros(\n        (x + 1).size(\n            0), 3)\n"
    for run in ("rows(sm.ones((2, 3)))", "sm.jit(rows)(sm.ones((2, 3)))"):
        text = _printed(f"{program}{run}\n", tmp_path)
        assert "TypeError: 'int' object is not callable" in text and "write x.shape[0]" in text
    assert "leave the parentheses out" in _printed("import smelt as sm\nsm.ones((2, 3)).T()\n", tmp_path)
    assert "shape" not in _printed("import smelt as sm\nsize = 3\nsize(0)\n", tmp_path)

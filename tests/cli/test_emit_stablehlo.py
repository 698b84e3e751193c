"""`smelt emit-stablehlo`: what it prints is read again, and computes the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import smelt as sm
from smelt.cli import main


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "net.py"
    path.write_text("import smelt as sm\nw = sm.ones((3, 2))\ndef f(x):\n    return (x @ w).softmax(-1)\n")
    return f"{path}:f"


def test_text_on_stdout(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit-stablehlo", script, "--shapes", "f32[4,3]", "--weights", "inline"]) == 0
    program = sm.stablehlo.load(capsys.readouterr().out)
    assert str(program.signature) == "(arg0: float32[4, 3]) -> (float32[4, 2])"
    np.testing.assert_allclose(program(sm.ones((4, 3))).numpy(), 0.5)


def test_weights_are_arguments(script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "f.mlir"
    assert main(["emit-stablehlo", script, "--shapes", "f32[4,3]", "-o", str(target), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "function": "f",
        "arguments": ["arg0: float32[4, 3]", "arg1: float32[3, 2]"],
        "results": ["float32[4, 2]"],
    }
    program = sm.stablehlo.load(target.read_text())
    np.testing.assert_allclose(program(sm.ones((4, 3)), sm.ones((3, 2))).numpy(), 0.5)


def test_open_sizes(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit-stablehlo", script, "--shapes", "f32[n<=8,3]", "--weights", "inline"]) == 0
    text = capsys.readouterr().out
    assert "tensor<?x3xf32>" in text and "n is at most 8" in text
    assert sm.stablehlo.load(text)(sm.ones((5, 3))).shape == (5, 2)


def test_words_that_are_wrong(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit-stablehlo", script, "--shapes", "f32[4"]) == 1
    assert "expected ','" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["emit-stablehlo", script, "--weights", "inlined"])
    assert "did you mean inline?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["emit-stablehlo", script, "--portable"])
    assert "say where, with -o FILE" in capsys.readouterr().err

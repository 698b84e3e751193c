"""`smelt emit-mlir` and `smelt emit-source`: a function at each of its levels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import smelt as sm
from smelt.cli import main
from smelt.formats import mlir
from smelt.graph.text import parse_graph
from smelt.kernel import parse_region


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "net.py"
    path.write_text("import smelt as sm\nw = sm.ones((3, 2))\ndef f(x):\n    return (x @ w).softmax(-1)\n")
    return f"{path}:f"


def emitted(capsys: pytest.CaptureFixture[str], command: str, *words: str) -> str:
    assert main([command, *words, "--shapes", "f32[4,3]"]) == 0
    return capsys.readouterr().out


def test_graph(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    [root] = parse_graph(emitted(capsys, "emit-mlir", script, "--level", "graph"))
    assert root.shape == (4, 2)


def test_kernels_say_what_python_is_called_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.py"
    path.write_text(
        "import smelt as sm, numpy as np\n"
        "def f(x):\n    return sm.linalg.cholesky(x) * 2\n"
        "def g(x):\n    return sm.fori_loop(0, 3, lambda i, s: sm.callback(np.sin, s, s), x)\n"
        "def h(x):\n    return x\n"
    )

    def written(name: str) -> str:
        assert main(["emit-mlir", f"{path}:{name}", "--shapes", "f32[4,4]", "--level", "kernel"]) == 0
        return capsys.readouterr().out

    call = "call {} by Python\nargument b0 float32 (4, 4)\noutput b1 float32 (4, 4)\n"
    assert written("f").startswith(call.format("linalg.cholesky") + "\nregion\n")
    assert call.format("sin") in written("g")
    assert written("h") == "nothing runs: results are arguments\n"


def test_composites_are_the_default(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = emitted(capsys, "emit-mlir", script)
    assert '"stablehlo.composite"' in text
    assert text == emitted(capsys, "emit-stablehlo", script)


def test_stablehlo_has_no_composite(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = emitted(capsys, "emit-mlir", script, "--level", "stablehlo", "--weights", "inline")
    assert "composite" not in text
    np.testing.assert_allclose(sm.stablehlo.load(text)(sm.ones((4, 3))).numpy(), 0.5)


def test_linalg(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = emitted(capsys, "emit-mlir", script, "--level", "linalg")
    assert "linalg.matmul" in text
    assert len(mlir.parse(text).functions["main"].arguments) == 2
    text = emitted(capsys, "emit-mlir", script, "--level", "linalg", "--weights", "inline")
    assert len(mlir.parse(text).functions["main"].arguments) == 1


def test_kernels(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    product, _, softmax, _ = emitted(capsys, "emit-mlir", script, "--level", "kernel").split("\n\n")
    assert "mul" in {e.op for e in parse_region(product).order()}
    assert "exp" in {e.op for e in parse_region(softmax).order()}


def test_source(script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = emitted(capsys, "emit-source", script)
    assert "void k0(" in text and "void k1(" in text
    target = tmp_path / "f.c"
    facts = json.loads(emitted(capsys, "emit-source", script, "--json", "-o", str(target)))
    assert [kernel["name"] for kernel in facts["kernels"]] == ["k0", "k1"]
    assert facts["function"] == "f" and "text" not in facts
    assert target.read_text() == text


def test_json(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(emitted(capsys, "emit-mlir", script, "--level", "linalg", "--json"))
    assert facts["level"] == "linalg" and "linalg.generic" in facts["text"]


def test_words_that_are_wrong(script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["emit-mlir", script, "--level", "linalgs"])
    assert "did you mean linalg?" in capsys.readouterr().err
    path = tmp_path / "sorting.py"
    path.write_text("def f(x):\n    return x.sort(-1)\n")
    assert main(["emit-mlir", f"{path}:f", "--shapes", "f32[4]", "--level", "linalg"]) == 1
    assert "linalg: sort cannot be written" in capsys.readouterr().err
    path.write_text("import smelt as sm\ndef f(a, b):\n    return sm.linalg.solve(a, b)\n")
    assert main(["emit-mlir", f"{path}:f", "--shapes", "f32[3,3], f32[3]", "--level", "linalg"]) == 1
    said = capsys.readouterr().err
    assert "linalg.solve cannot be written" in said and "computed by Python" in said and "--level kernel" in said
    assert main(["emit-mlir", script, "--shapes", "f32[n,3]", "--level", "linalg"]) == 1
    assert "the size n cannot be written" in capsys.readouterr().err
    assert main(["emit-source", script, "--shapes", "f32[4,3]", "--device", "gpu"]) == 1
    assert "gpu" in capsys.readouterr().err

"""`smelt check` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from smelt import cli
from smelt.cli.check import Finding, shown

TEXTS = sorted((Path(__file__).parent.parent / "formats" / "texts").glob("*.mlir"))
GOOD = """func.func @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = stablehlo.add %x, %x : tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "program.mlir"
    path.write_text(GOOD, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", [path for path in TEXTS if path.stem != "linalg"], ids=lambda path: path.stem)
def test_what_fits_is_told(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(path)]) == 0
    assert capsys.readouterr().out.startswith(f"{path}: (")


def test_sizes_may_be_given_and_may_be_open(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(file), "--shapes", "f32[7,3]"]) == 0
    assert cli.main(["check", str(file), "--shapes", "f32[n,3]"]) == 0
    assert cli.main(["check", str(file), "--shapes", "f32[n,4]"]) == 1
    assert "has shape (n, 4)" in capsys.readouterr().err
    assert cli.main(["check", str(file), "--shapes", "f16[7,3]"]) == 1
    assert "x: float32[?, 3] is given as float16" in capsys.readouterr().err
    assert cli.main(["check", str(file)]) == 1
    told = capsys.readouterr().err
    assert "the sizes of x: float32[?, 3] are not known" in told
    assert 'Give all shapes, as in --shapes "f32[b,3]".' in told


def test_what_is_given_is_told_with_its_names(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(file), "--shapes", "f32[b<=8,3]"]) == 0
    assert capsys.readouterr().out == f"{file}: (x: float32[b, 3]) -> (float32[b, 3])\n"


def test_wrong_shapes_are_told_as_such(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(file), "--shapes", "f32[4,5"]) == 1
    assert capsys.readouterr().err == """smelt: --shapes "f32[4,5": expected ',', found the end\n"""


def test_places_have_a_caret(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(GOOD.replace("?", "2").replace("return %0 : tensor<2", "return %0 : tensor<4"), encoding="utf-8")
    assert cli.main(["check", str(file)]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0] == f"{file}:3:3: ShapeError: func.return: operand 0 has shape (2, 3)"
    assert told[-2:] == ["    return %0 : tensor<4x3xf32>", "    ^"]


WRONG = """func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.add %x, %y : tensor<2x3xf32>
  %1 = stablehlo.tanh %0 : tensor<2x3xf32>
  %2 = stablehlo.reshape %1 : (tensor<2x3xf32>) -> tensor<5xf32>
  %3 = func.call @f(%1) : (tensor<2x3xf32>) -> tensor<2x2xf32>
  %4 = func.call @f(%x) : (tensor<2x3xf32>) -> tensor<2x2xf32>
  %5 = stablehlo.nothing %3 : tensor<?x2xf32>
  %6 = stablehlo.add %5, %5 : tensor<?x2xf32>
  %7 = stablehlo.add %2, %9 : tensor<5xf32>
  return %4 : tensor<2x2xf32>
}
func.func private @f(%x: tensor<2x3xf32>) -> tensor<2x2xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce"(%x, %c) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %x : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}
"""


def test_all_mistakes_are_told_and_none_that_follows_from_another(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(WRONG, encoding="utf-8")
    assert cli.main(["check", str(file), "--json"]) == 1
    wrong = json.loads(capsys.readouterr().out)["wrong"]
    assert [(one["line"], one["kind"]) for one in wrong] == [
        *((2, "ShapeError"), (4, "ShapeError"), (7, "UnsupportedOp"), (9, "ParseError")),
        *((12, "ShapeError"), (16, "ShapeError")),
    ]
    assert cli.main(["check", str(file)]) == 1
    assert capsys.readouterr().err.count("^\n") == 6


def test_a_wrong_declaration_is_told_once_where_it_stands(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("""func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.tanh %x : tensor<2xi32>
  %1 = stablehlo.add %0, %x : tensor<2xf32>
  %2 = call @f(%0) : (tensor<2xf32>) -> tensor<2xf32>
  %3 = stablehlo.add %1, %x : tensor<3xf32>
  %4 = stablehlo.negate %0 : tensor<?xi32>
  return %0 : tensor<2xf32>
}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.tanh %x : tensor<2xi32>
  return %0 : tensor<2xf32>
}
""")
    assert cli.main(["check", str(file), "--json"]) == 1
    assert [one["line"] for one in json.loads(capsys.readouterr().out)["wrong"]] == [2, 5, 10]


def test_there_is_an_end_to_mistakes(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = "".join(f"  %{k} = stablehlo.reshape %x : (tensor<2xf32>) -> tensor<{k + 3}xf32>\n" for k in range(80))
    file.write_text(f"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{\n{lines}  return %x : tensor<2xf32>\n}}")
    assert cli.main(["check", str(file), "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["wrong"]) == 50


def test_bytecode_is_no_text(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(b"ML\xefR\x0dStableHLO_v1.0.0\x00")
    assert cli.main(["check", str(file)]) == 1
    assert "bytecode" in capsys.readouterr().err


def test_a_syntax_error(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(GOOD.replace(" : tensor<?x3xf32>\n  return", "\n  return"), encoding="utf-8")
    assert cli.main(["check", str(file)]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told == [
        f"{file}:3:3: ParseError: ':' and a type is expected here, not return",
        "    return %0 : tensor<?x3xf32>",
        "    ^",
    ]


def test_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = file.with_name("other.mlir")
    other.write_text("func.func @main( {", encoding="utf-8")
    assert cli.main(["check", str(other), str(file), "--shapes", "f32[2,3]", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    [wrong] = found["wrong"]
    assert (wrong["line"], wrong["kind"]) == (1, "ParseError")
    assert list(found["programs"]) == [str(file)]


def test_json_has_rules_and_hints(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("""func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.tannh %x : tensor<2x3xf32>
  %1 = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<5xf32>
  return %0 : tensor<2x3xf32>
}
""")
    assert cli.main(["check", str(file), "--json"]) == 1
    wrong = json.loads(capsys.readouterr().out)["wrong"]
    assert wrong[0]["hint"] == "Did you mean stablehlo.tanh?"
    assert wrong[1]["rule"] and wrong[1]["message"].endswith(f"\n  {wrong[1]['rule']}")


def test_long_lines_and_tabs_are_cut() -> None:
    told = shown(Finding("f", "ParseError", "no", 1, 501), "a" * 500 + "b" * 500).splitlines()
    assert len(told[1]) < 200 and told[1][told[2].index("^")] == "b"
    assert shown(Finding("f", "ParseError", "no", 1, 2), "\tx").endswith("\n  \tx\n  \t^")
    assert shown(Finding("f", "ParseError", "no", 9, 1), "x") == "f:9:1: ParseError: no"


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(tmp_path / "none.mlir")]) == 1
    assert "none.mlir" in capsys.readouterr().err

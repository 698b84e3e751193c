"""Texts that are wrong: errors with line and column, in bounded time, and nothing else."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.errors import ParseError
from smelt.formats import mlir
from smelt.formats.mlir import LIMITS, lex
from tests.fuzz.damage import mutated

TEXTS = sorted((Path(__file__).parent.parent / "texts").glob("*.mlir"))


def refusal(text: str, limits: mlir.Limits = LIMITS) -> str:
    with pytest.raises(ParseError) as error:
        mlir.parse(text, limits)
    return str(error.value).splitlines()[0]


def _nested(mark: str, three: str) -> str:
    """Aliases that stand for three of the one before, 3^k in all."""
    lines = (f"{mark}a{k} = {three.format(f'{mark}a{k - 1}')}\n" for k in range(1, 40))
    return f"{mark}a0 = i32\n{''.join(lines)}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func.func @main(", "line 1, column 17: a type is expected here, not the end of the text"),
        ("module {\n  42\n}", "line 2, column 3: an operation is expected here, not 42"),
        ("func.func @f() { return }\nfunc.func @f() { return }", "line 2, column 1: there are two functions called f"),
        (
            "func.func @f() {\n %0 = stablehlo.add %x %y\n}",
            "line 2, column 24: ':' and a type is expected here, not %y",
        ),
        ("func.func @f(%x: tensor<>) { return }", "line 1, column 18: tensor<> is no type of a tensor"),
        ("func.func @f(%x: tensor<2xf32) { return }", "line 1, column 18: the brackets of a type do not fit together"),
        ('func.func @f() { %0 = "a', "line 1, column 23: a string in quotes is expected"),
        ("#a = dense<[1, 2]> : tensor<3xi32>", "line 1, column 12: a constant has 2 elements, and its type"),
        ("#a = dense<[1, 2> : tensor<2xi32>", "line 1, column 12: the brackets of a constant do not fit together"),
        ('#a = dense<"0xAB"> : tensor<2xf32>', "line 1, column 12: a constant has 1 bytes"),
        ("#a = dense<[[1, 2], [3], [4, 5, 6]]> : tensor<3x2xi32>", "the lists of a constant are not nested"),
        ("#a = dense<[1, 2, 3, 4]> : tensor<2x2xi32>", "the lists of a constant are not nested as its type"),
        ("#a = dense<[[1], [2]]> : tensor<2xi32>", "the lists of a constant are not nested as its type"),
        ("#a = dense<0x7FC000010000> : tensor<f32>", "0x7FC000010000 is not the bits of a f32"),
        (f"#a = dense<0x{'F' * 300}> : tensor<4xf8E4M3FN>", "is not the bits of a f8E4M3FN"),
        ("#a = 0x7FC000010000 : f32", "0x7FC000010000 is not the bits of a f32"),
        ("#a = dense<[nan, inf]> : tensor<2xf32>", "a number is expected in a constant, not nan"),
        ('#a = dense<"0x00 00 00 00"> : tensor<f32>', "the bytes of a constant have spaces between them"),
        ("#a = dense<300> : tensor<i8>", "line 1, column 12: a number does not fit in 8 bits"),
        ("#a = dense<1.5> : tensor<?xf32>", "line 1, column 19: tensor<?xf32> is not the type of a constant"),
        ("#a = array<i64: x>", "line 1, column 17: an array has numbers only"),
        ("%0 = stablehlo.slice %x [0:2:] : tensor<f32>", "line 1, column 30: a whole number is expected here, not ]"),
        ("%0:2 = stablehlo.add %x, %x : (tensor<f32>, tensor<f32>) -> tensor<f32>", "has 1 results, and 2 names"),
        ("\x00", "line 1, column 1: an operation is expected here"),
        ("%99999999999999999999:3", "'=' is expected here"),
        (f"{', '.join(f'%{k}:2000000' for k in range(15))} = stablehlo.add", "%1 cannot be 2000000 values"),
        ("%0:999999999999 = stablehlo.add", "%0 cannot be 999999999999 values"),
        ("%0 = arith.cmpf lt, %x, %y : f32", "line 1, column 17: arith.cmpf has no predicate lt"),
        ("%0 = arith.constant @f", "line 1, column 21: this is no constant"),
        ("%0 = arith.extf %x : f16 f32", "line 1, column 26: 'to' is expected here, not f32"),
        ("%0 = tensor.extract %x[%i] : f32", "line 1, column 30: f32 is no tensor"),
        ("%0 = linalg.fill ins(%c : f32)", "'outs' is expected here, not the end of the text"),
        ("#a = affine_map", "'<' is expected here, not the end of the text"),
    ],
)
def test_wrong_texts(text: str, message: str) -> None:
    assert message in refusal(text)


@pytest.mark.parametrize(
    ("text", "limits", "message"),
    [
        ("#a = " + "[" * 200, LIMITS, "this is nested too deeply"),
        ("module " + "{" * 200, LIMITS, "an operation is expected"),
        ("#a = " + "{a = " * 100, LIMITS, "this is nested too deeply"),
        ("!a = " + "tuple<" * 100, LIMITS, "this is nested too deeply"),
        ("!a = " + "(" * 100, LIMITS, "this is nested too deeply"),
        ("!a = tensor<99999999999x99999999999xf32>", LIMITS, "is too large"),
        ("!a = tensor<" + "1x" * 65 + "f32>", LIMITS, "is too large"),
        ("#a = " + "9" * 5000, LIMITS, "a number has too many digits"),
        ("func.func @f() { return return }", LIMITS._replace(operations=1), "there are too many operations"),
        (_nested("!", "tuple<{0}, {0}, {0}>"), LIMITS, "line 14, column 14: aliases stand for too much"),
        (_nested("#", "[{0}, {0}, {0}]"), LIMITS, "aliases stand for too much"),
        ("module {}", LIMITS._replace(characters=5), "the text has 9 characters"),
    ],
)
def test_limits(text: str, limits: mlir.Limits, message: str) -> None:
    assert message in refusal(text, limits)


@pytest.mark.parametrize(
    "text",
    [
        " " * 300_000,
        "// " * 100_000,
        "/" * 300_000,
        "tensor<" * 50_000,
        "tensor<" + "<a>" * 100_000,
        '"' + '\\"' * 150_000,
        '@"\\"' * 75_000,
        "%" * 300_000,
        "-" * 300_000,
        "1" * 300_000,
        "\n" * 300_000 + "x",
        "a" * 300_000,
        "#" * 300_000,
    ],
    ids=lambda text: repr(text[:6]),
)
def test_lexing_takes_time_in_proportion_to_the_text(text: str) -> None:
    start = time.process_time()
    lex.tokens(text)
    assert time.process_time() - start < 5.0  # a quadratic way would take minutes


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_damaged_texts_are_read_or_refused(path: Path) -> None:
    whole, source = path.read_text(encoding="utf-8"), random.Random(path.stem)
    for _ in range(60):
        text = mutated(whole, source)
        try:
            mlir.write(mlir.parse(text))
        except ParseError as error:
            assert "line " in str(error)


@given(
    st.text(alphabet='<>()[]{}%@#!"=:,x0-ab \n', max_size=60)
    | st.binary(max_size=40).map(lambda b: b.decode("latin-1"))
)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        mlir.parse(text)
    except ParseError as error:
        assert "line " in str(error)

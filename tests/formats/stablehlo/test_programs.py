"""Programs as JAX prints them, against NumPy: no JAX is needed to read them."""

from __future__ import annotations

import contextlib
import gc
import random
from pathlib import Path

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, DTypeError, ParseError, ShapeError, SmeltError, UnsupportedOp
from tests.fuzz.damage import meant

TEXTS = Path(__file__).parent.parent / "texts"
X = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)


def program(name: str) -> sm.stablehlo.Imported:
    return sm.stablehlo.load((TEXTS / f"{name}.mlir").read_text(encoding="utf-8"))


def close(found: sm.Tensor, wanted: object) -> None:
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_reductions() -> None:
    best, total, sums, values, places = program("reductions")(X)
    close(best, X.argmax(1))
    close(total, X.sum())
    close(sums, X.cumsum(0))
    close(places, np.argsort(-X, 1, kind="stable")[:, :2])
    close(values, np.sort(X, 1)[:, :-3:-1])
    assert best.dtype == sm.int32


def test_a_scan() -> None:
    last, ys = program("scan")(X)
    carries = np.cumsum(np.concatenate([X[:1], X]), 0)
    close(last, carries[-1])
    close(ys, carries[:-1] * X)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_branch(sign: int) -> None:
    x = abs(X) * np.float32(sign)
    close(program("cond")(x), np.sin(x) if sign > 0 else np.cos(x))


@pytest.mark.parametrize("first", [-3.0, 0.0, 1.0, 2.0, 9.0])
def test_one_of_several_branches(first: float) -> None:
    x = X.copy()
    x[0, 0] = first
    close(program("switch")(x), [np.sin, np.cos, np.tan][int(np.clip(first, 0, 2))](x))


def test_a_convolution() -> None:
    x, w = (
        np.random.default_rng(k).normal(size=s).astype(np.float32) for k, s in ((1, (1, 3, 8, 8)), (2, (4, 3, 3, 3)))
    )
    close(program("convolution")(x, w), sm.conv2d(sm.asarray(x), sm.asarray(w), padding=1).numpy())


def test_random_numbers_are_those_of_jax() -> None:
    close(program("random_normal")(np.array([0, 42], np.uint32)), [-0.02830462, 0.46713185, 0.29570296])


def test_it_is_a_function_like_any_other() -> None:
    f = program("scan")
    x = sm.asarray(X)
    close(sm.jit(lambda x: f(x)[0])(x), X[0] + X.sum(0))
    close(sm.vmap(lambda x: f(x)[0])(sm.stack([x, x])), np.stack([X[0] + X.sum(0)] * 2))
    gradient = sm.grad(lambda x: program("cond")(x).sum())(sm.asarray(abs(X)))
    close(gradient, np.cos(abs(X)))


def test_it_says_what_it_takes_and_gives() -> None:
    assert str(program("generic").signature) == "(x: float32[2, 3], start: float32[]) -> (float32[2], bool[2, 3])"


def test_what_it_is_given_has_to_fit() -> None:
    f = program("cond")
    with pytest.raises(ArgumentError, match="2 arguments are given"):
        f(X, X)
    with pytest.raises(
        ArgumentError, match=r"main: x given by name[\s\S]*by place[\s\S]*They are: arg0: float32\[4, 5\]\."
    ):
        f(x=X)
    with pytest.raises(ArgumentError, match="arg0 is float64"):
        f(X.astype(np.float64))
    with pytest.raises(ShapeError, match=r"main: %arg0 has shape .*3, 5"):
        f(X[:3])


# --- what is wrong is said before anything runs


def main(body: str, types: str = "tensor<2x3xf32>", gives: str = "tensor<2x3xf32>") -> sm.stablehlo.Imported:
    return sm.stablehlo.load(f"func.func @main(%x: {types}) -> {gives} {{\n{body}\n}}")


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        (
            "%0 = stablehlo.add %x, %y : tensor<2x3xf32>",
            ParseError,
            "line 2, column 6: stablehlo.add: there is no value %y",
        ),
        (
            "%0 = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<2x2xf32>",
            ShapeError,
            "line 2, column 6: stablehlo.resh",
        ),
        (
            "%0 = stablehlo.sine %x : (tensor<2x3xf32>) -> tensor<3x2xf32>",
            ShapeError,
            "line 2, column 6: stablehlo.sine",
        ),
        ("%0 = stablehlo.and %x, %x : tensor<2x3xf32>", DTypeError, "line 2, column 6: stablehlo.and: and: float32"),
        ("%0 = stablehlo.sine %x : (tensor<2x3xf32>) -> tensor<2x3xf64>", DTypeError, "stablehlo.sine is float32"),
        ("%0 = stablehlo.unheard_of %x : tensor<2x3xf32>", UnsupportedOp, "line 2, column 6: stablehlo.unheard_of"),
        ("%0 = stablehlo.convert %x : (tensor<2x3xf32>) -> tensor<2x3xf8E3M4>", UnsupportedOp, "element type f8E3M4"),
        (
            "%0 = stablehlo.slice %x [0:3, 0:3] : (tensor<2x3xf32>) -> tensor<3x3xf32>",
            ShapeError,
            "0:3:1 is no part of an",
        ),
        (
            "%0 = stablehlo.transpose %x, dims = [0, 0] : (tensor<2x3xf32>) -> tensor<2x2xf32>",
            Exception,
            "line 2, column 6",
        ),
        ("%0 = call @f(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>", ParseError, "no function called 'f' with a body"),
        ("%0 = call @main(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>", ParseError, "calls of 'main' do not end"),
        (
            "%0 = stablehlo.broadcast_in_dim %x, dims = [0, 5] : (tensor<2x3xf32>) -> tensor<2x3xf32>",
            ParseError,
            "broadcast_dimensions [0, 5] are not 2 different ones of 2 axes",
        ),
        (
            "%0 = stablehlo.broadcast_in_dim %x, dims = [1, 1] : (tensor<2x3xf32>) -> tensor<2x3xf32>",
            ParseError,
            "broadcast_dimensions [1, 1] are not 2 different",
        ),
        (
            "%0 = stablehlo.reverse %x, dims = [0, 5] : tensor<2x3xf32>",
            ParseError,
            "dimensions [0, 5] are not different",
        ),
        (
            "%0 = stablehlo.reverse %x, dims = [1, 1] : tensor<2x3xf32>",
            ParseError,
            "dimensions [1, 1] are not different",
        ),
    ],
)
def test_mistakes_have_places(line: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as error:
        main(f"{line}\nreturn %0 : tensor<2x3xf32>").check()
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("line", "place", "hint"),
    [
        ("%0 = stablehlo.tann %x : tensor<2x3xf32>", 6, "Did you mean stablehlo.tan?"),
        ("%0 = stablehlo.dot_generall %x, %x, contracting_dims = [1] x [1] : tensor<f32>", 6, "stablehlo.dot_general?"),
        ("%0 = stablehlo.constantt dense<1.0> : tensor<f32>", 6, "Did you mean stablehlo.constant?"),
        ("%0 = stablehlo.sliice %x [0:1] : tensor<f32>", 6, "Did you mean stablehlo.slice?"),
        ("%0 = stablehl.slice %x [0:1] : tensor<f32>", 6, "Did you mean stablehlo.slice?"),
        ("%0 = cal @f(%x) : () -> tensor<f32>", 6, "Did you mean call?"),
        ("%0 = tosa.matmul %x x %x : tensor<f32>", 6, "smelt reads the dialects chlo, func, sdy, stablehlo."),
        ("scf.for %i = %x to %x step %x {\n}", 1, "smelt reads the dialects"),
        ("cf.cond_br %x, ^a, ^b", 1, "smelt reads the dialects"),
        ("%0 = mhlo.slice %x : tensor<f32>", 6, "smelt reads the dialects"),
    ],
)
def test_operations_that_nobody_knows_are_told_as_such_whatever_their_syntax(line: str, place: int, hint: str) -> None:
    with pytest.raises(UnsupportedOp) as error:
        main(f"{line}\nreturn %x : tensor<2x3xf32>").check()
    told, more = str(error.value.told).splitlines()
    name = error.value.name
    assert name in line and told == f"line 2, column {place}: {name}: smelt does not know this operation"
    assert hint in more and (error.value.line, error.value.column) == (2, place)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func.func @main(%x: tensor<f32>) {\n %0 = stablehlo.tanh %x", "not the end of the text"),
        ("func.func @main(%x: tensor<f32>) {\n %0 = stablehlo.tan", "not the end of the text"),
        ("HloModule f, g=true", "an operation is expected here, not ,"),
        ("func.func @f() {\n foo.bar\n}\nfunc.func main", "line 4, column 11"),
    ],
)
def test_other_syntax_errors_are_told_as_such(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        sm.stablehlo.load(text)


def test_unsupported_operations_have_names_and_places() -> None:
    with pytest.raises(UnsupportedOp) as error:
        main("%0 = stablehlo.unheard_of %x : tensor<2x3xf32>\nreturn %0 : tensor<2x3xf32>").check()
    assert (error.value.name, error.value.line, error.value.column) == ("stablehlo.unheard_of", 2, 6)


def test_check_computes_nothing() -> None:
    [result] = main("%0 = stablehlo.sine %x : tensor<2x3xf32>\nreturn %0 : tensor<2x3xf32>").check()
    assert result.shape == (2, 3)


@pytest.mark.parametrize("path", sorted(TEXTS.glob("*.mlir")), ids=lambda path: path.stem)
def test_whatever_a_text_says_it_is_read_or_refused(path: Path) -> None:
    whole, source = path.read_text(encoding="utf-8"), random.Random(path.stem)
    for _ in range(40):
        with contextlib.suppress(SmeltError):
            sm.stablehlo.load(meant(whole, source)).check()


def test_a_program_with_constants_is_compiled_after_it_was_computed() -> None:
    program = sm.stablehlo.load(
        """func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
          %0 = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
          %1 = stablehlo.sine %0 : tensor<3xf32>
          %2 = stablehlo.add %x, %1 : tensor<3xf32>
          return %1, %2 : tensor<3xf32>, tensor<3xf32>
        }"""
    )
    x = sm.ones(3)
    before = [part.tolist() for part in program(x)]
    assert [part.tolist() for part in sm.jit(program)(x)] == before
    assert [part.tolist() for part in sm.jit(lambda x: program(x * 1))(x)] == before


def test_a_large_constant_is_read_in_pieces() -> None:
    values = np.arange(300_001, dtype=np.float32)  # more digits than are taken at once
    kind = f"tensor<{values.size}xf32>"
    text = f'func.func @main() -> {kind} {{ %0 = stablehlo.constant dense<"0x{values.tobytes().hex()}"> : {kind}\n'
    found = sm.stablehlo.load(text + f"return %0 : {kind} }}")()
    np.testing.assert_array_equal(found.numpy(), values)
    with pytest.raises(ParseError, match=r"line 1, column \d+"):
        sm.stablehlo.load(text.replace('"> :', "> :") + f"return %0 : {kind} }}")


@pytest.mark.parametrize(
    ("given", "message"),
    [((b"ML", {}), "of type bytes"), ((Path("a.mlir"), {}), "is a path"), (("", {"rules": "xla"}), "are no rules")],
)
def test_what_is_no_text_or_no_rules_is_told(given: tuple[object, dict[str, object]], message: str) -> None:
    text, options = given
    with pytest.raises(ArgumentError, match=message):
        sm.stablehlo.load(text, **options)  # type: ignore[arg-type]


def test_calls_of_a_program_look_at_nothing_but_arguments() -> None:
    read = program("reductions")
    quick, within = sm.jit(read), sm.jit(lambda x: read(x)[0])
    for x in (X, X + 1):
        assert all(bool((a == b).all()) for a, b in zip(quick(x), read(x), strict=True))
        assert bool((within(x) == read(x)[0]).all())
    assert not quick._plan.roots


_IN_TWO_BODIES = """func.func @main(%x: tensor<3xf32>) -> tensor<f32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %z) across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
   reducer(%a: tensor<f32>, %b: tensor<f32>) {
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }
  %2 = stablehlo.reduce(%x init: %0) across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
   reducer(%a: tensor<f32>, %b: tensor<f32>) {
    %1 = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }
  return %2 : tensor<f32>
}"""


def test_the_names_of_a_body_end_with_it() -> None:
    assert sm.stablehlo.load(_IN_TWO_BODIES).mistakes() == []
    outside = sm.stablehlo.load(_IN_TWO_BODIES.replace("return %2", "return %1"))
    with pytest.raises(ParseError, match=r"line 13, .*there is no value %1 here"):
        outside.check()
    assert len(outside.mistakes()) == 1
    twice = sm.stablehlo.load(_IN_TWO_BODIES.replace("%1", "%0"))
    assert [str(error).split(":")[0] for error in twice.mistakes()] == ["line 10, column 10"]


def test_reading_leaves_the_search_for_garbage_as_it_was() -> None:
    for switch in (gc.disable, gc.enable):
        switch()
        wanted = gc.isenabled()
        sm.stablehlo.load(_IN_TWO_BODIES).check()
        with pytest.raises(ParseError):
            sm.stablehlo.load("func.func @main(")
        assert gc.isenabled() is wanted


SLICE = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %r = "stablehlo.slice"(%x) {{start_indices = {start}, limit_indices = array<i64: 4>, strides = array<i64: 1>}}
    : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}}
"""


@pytest.mark.parametrize("start", ["array<i64: 0.5>", "array<i64: 1e999>", "dense<0.5> : tensor<1xf32>"])
def test_places_are_integers(start: str) -> None:
    with pytest.raises(ParseError, match="no row of integers"):
        sm.stablehlo.load(SLICE.format(start=start)).check()

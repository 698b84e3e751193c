"""What is exported: read again it is the same program, and without smelt's own composites it computes the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, DTypeError, TraceError
from tests.formats.stablehlo.exported import SPECS, Call, calls, results, whole
from tests.formats.stablehlo.whole_programs import COMPLEX, EXAMPLES, GPT, SYMBOLIC, TOKENS, tensors
from tests.ops.spec import OpSpec
from tests.turns import one_in


def exports(spec: OpSpec) -> Iterator[tuple[Call, list[Any], str]]:
    """The text of each call whose sizes do not depend on values."""
    for call in one_in(3, list(calls(spec, spec.dtypes[0]))):
        given = [sm.from_numpy(x) for x in call.arrays]
        try:
            yield call, given, sm.stablehlo.export(call.function, *given)
        except (TraceError, DTypeError):  # types that are none of smelt's
            continue


@pytest.mark.by_turns(4)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_round_trip(spec: OpSpec) -> None:
    for _, given, text in exports(spec):
        assert sm.stablehlo.export(sm.stablehlo.load(text), *given) == text


def plainly(text: str) -> sm.stablehlo.Imported:
    """The program as any other reader sees it, who knows none of smelt's composites."""
    return sm.stablehlo.load(text.replace('name = "smelt.', 'name = "other.'))


def close(found: Any, wanted: Any) -> None:
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        narrow = b.dtype.itemsize == 2 and b.dtype.kind not in "iu"
        a, b = (x.astype(np.float64) if x.dtype.kind not in "iubc" else x for x in (a, b))
        np.testing.assert_allclose(a, b, **({"rtol": 4e-3, "atol": 4e-3} if narrow else {"rtol": 4e-6, "atol": 2e-6}))


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("name", EXAMPLES)
def test_round_trip_of_programs(name: str) -> None:
    function, args = EXAMPLES[name]
    given = tensors(EXAMPLES[name])
    text = sm.stablehlo.export(function, *args, weights="inline")
    program = sm.stablehlo.load(text)
    assert sm.stablehlo.export(program, *given) == text
    assert sm.stablehlo.export(function, *args, weights="inline") == text
    close(results(plainly(text)(*given)), results(function(*args)))


@pytest.mark.parametrize("name", SYMBOLIC)
def test_round_trip_of_open_sizes(name: str) -> None:
    function, shapes, args = SYMBOLIC[name]
    text = sm.stablehlo.export(function, *args, shapes=shapes, weights="inline")
    program = sm.stablehlo.load(text)
    assert "?" in text
    assert sm.stablehlo.export(program, *args, shapes=shapes) == text
    close(results(program(*args)), results(function(*args)))


MAYBE = sm.Dim("n", 0, 64)
EMPTY: dict[str, Callable[[Any], Any]] = {
    "scan": lambda x: sm.scan(lambda c, row: (c + row, c * row), sm.ones(4), x),
    "from the end": lambda x: sm.scan(lambda c, row: (c + row, c * row), sm.ones(4), x, reverse=True),
    "gradient": sm.grad(lambda x: sm.scan(lambda c, row: (c * row + 1, c.sum()), sm.ones(4), x)[0].sum()),
    "taken": lambda x: sm.take(x, sm.asarray([1, 0, 3]), axis=1),
    "largest": lambda x: sm.topk(x, 2),
    "places": lambda x: sm.argsort(x, axis=0),
    "running sums": lambda x: (sm.cumulative_sum(x, axis=0), sm.cumulative_prod(x.T + 1, axis=1)),
    "running gradient": sm.grad(lambda x: (sm.cumulative_sum(x, axis=0) ** 2).sum()),
    "every other": lambda x: x[::2],
    "every third from the end": lambda x: x[::-3],
}


@pytest.mark.parametrize("name", EMPTY)
def test_sizes_that_may_be_zero(name: str) -> None:
    function = EMPTY[name]
    text = sm.stablehlo.export(function, sm.ones((3, 4)), shapes=[(MAYBE, 4)])
    program = sm.stablehlo.load(text)
    compiled = sm.jit(program, shapes=[(MAYBE, 4)])
    assert sm.stablehlo.export(program, sm.ones((3, 4)), shapes=[(MAYBE, 4)]) == text
    for count in (0, 1, 2, 5):
        x = sm.asarray(np.random.default_rng(count).normal(size=(count, 4)).astype(np.float32))
        wanted = results(function(x))
        close(results(program(x)), wanted)
        close(results(compiled(x)), wanted)
        close(results(plainly(text)(x)), wanted)
        close(results(sm.jit(plainly(text), shapes=[(MAYBE, 4)])(x)), wanted)


def test_sizes_that_do_not_fit() -> None:
    n = sm.Dim("n", 2, 4)
    text = sm.stablehlo.export(lambda x, y: x + y, sm.ones(3), sm.ones(3), shapes=[(n,), (n,)])
    program = sm.stablehlo.load(text)
    for sizes, message in (((1, 1), "n is at least 2, and it is 1"), ((5, 5), "n is at most 4, and it is 5")):
        with pytest.raises(sm.errors.ShapeError, match=message):
            program(*map(sm.ones, sizes))
    with pytest.raises(sm.errors.ShapeError, match="axis 0 of an argument is n, and it is 2"):
        program(sm.ones(3), sm.ones(2))


def test_round_trip_of_weights() -> None:
    """Weights are arguments behind those that are given: one for several that are the same tensor."""
    text = sm.stablehlo.export(GPT, TOKENS)
    weights = sorted(set(re.findall(r"(%arg[0-9]+): [^ ]+ {smelt.hidden = ([0-9]+)}", text)), key=lambda x: int(x[1]))
    assert [name for name, _ in weights] == [f"%arg{k + 1}" for k in range(len(weights))]
    assert len(weights) == len({id(x._node) for x in sm.tree.flatten(GPT)[0]})


def test_a_file_cannot_lie_about_a_composite() -> None:
    """What says that it is smelt's softmax and is another function is that other function."""
    text = sm.stablehlo.export(lambda x: sm.softmax(x, -1), sm.ones((2, 3)))
    wrong = text.replace("stablehlo.multiply", "stablehlo.add")
    assert wrong != text
    assert "smelt.softmax" not in sm.stablehlo.export(sm.stablehlo.load(wrong), sm.ones((2, 3)))
    np.testing.assert_allclose(sm.stablehlo.load(text)(sm.ones((2, 3))).numpy(), 1 / 3, rtol=1e-6)
    np.testing.assert_allclose(sm.stablehlo.load(wrong)(sm.ones((2, 3))).numpy(), 4 / 3, rtol=1e-6)


@pytest.mark.parametrize(
    "change",
    [("axis = 1 : i64", "axis = 7 : i64"), ("axis = 1 : i64", "axes = 1 : i64"), ('"smelt.softmax"', '"smelt.x"')],
)
def test_composites_with_wrong_attributes(change: tuple[str, str]) -> None:
    text = sm.stablehlo.export(lambda x: sm.softmax(x, -1), sm.ones((2, 3)))
    found = sm.stablehlo.load(text.replace(*change))(sm.ones((2, 3)))
    np.testing.assert_allclose(found.numpy(), 1 / 3, rtol=1e-6)


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_arguments_and_results(name: str) -> None:
    """They are complex in the text, and read back as such."""
    function, args = COMPLEX[name]
    text = sm.stablehlo.export(function, *args)
    program = sm.stablehlo.load(text)
    assert [argument.dtype for argument in program.signature.arguments] == [x.dtype for x in args]
    assert sm.stablehlo.export(program, *args) == text
    close(whole(program(*args)), whole(function(*args)))


def test_complex_tensors_that_a_function_reaches_are_in_parts() -> None:
    w = sm.asarray(np.array([1 + 1j, 2], np.complex64))
    text = sm.stablehlo.export(lambda z: z * w, w)
    assert re.findall(r"%arg\d+: tensor<2x([^ ]+)>", text.splitlines()[1]) == ["complex<f32>", "f32", "f32"]
    assert "stablehlo.complex" in text and "constant dense<[1.0" in sm.stablehlo.export(
        lambda z: z * w, w, weights="inline"
    )


def test_random_numbers_take_their_key() -> None:
    text = sm.stablehlo.export(lambda: sm.random.normal((3,)))
    assert "%arg0: tensor<3xui32> {smelt.random}" in text
    key = sm.asarray([1, 2, 3], dtype=sm.uint32)
    program = sm.stablehlo.load(text)
    assert sm.stablehlo.export(program, key) == text
    assert (program(key).numpy() != program(key + 1).numpy()).all()


MATRIX = np.random.default_rng(0).normal(size=(2, 20, 20)).astype(np.float32)
MATRIX = MATRIX @ MATRIX.transpose(0, 2, 1) + 20 * np.eye(20, dtype=np.float32)
ROUTINES: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(sm.linalg, name) for name in ("cholesky", "inv", "det", "slogdet", "eigh", "eigvalsh", "pinv")},
    **{name: getattr(sm.linalg, name) for name in ("svd", "svdvals", "qr")},
    "complete": lambda x: sm.linalg.qr(x[:, :, :7], mode="complete"),
    "solve": lambda x: sm.linalg.solve(x, x[..., :3]),
    "solve_triangular": lambda x: sm.linalg.solve_triangular(x, x[..., :3], upper=True),
    "gradient": sm.grad(lambda x: abs(sm.linalg.det(x)).sum()),
}


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("name", ROUTINES)
def test_linear_algebra_is_found_again_by_its_name(name: str, dtype: str) -> None:
    function, x = ROUTINES[name], sm.asarray(MATRIX.astype(dtype))
    text = sm.stablehlo.export(function, x)
    assert re.search(r'custom_call @"?smelt\.linalg\.', text)
    program = sm.stablehlo.load(text)
    assert sm.stablehlo.export(program, x) == text
    found, wanted = program(x), function(x)
    pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
    for a, b in pairs:
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_routines_of_lapack_that_were_read_are_written_again() -> None:
    text = """func.func @main(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
      %0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%x) {mhlo.backend_config = {uplo = 76 : ui8}}
        : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<i32>)
      return %0#0 : tensor<3x3xf32> }"""
    x, program = sm.eye(3) * 4, sm.stablehlo.load(text)
    written = sm.stablehlo.export(program, x)
    assert "@smelt.lapack.potrf" in written
    again = sm.stablehlo.load(written)
    assert sm.stablehlo.export(again, x) == written
    np.testing.assert_array_equal(again(x).numpy(), program(x).numpy())


def test_calls_of_python_have_a_name() -> None:
    text = sm.stablehlo.export(lambda x: sm.callback(np.cbrt, x, x), sm.eye(3))
    assert "stablehlo.custom_call @smelt.cbrt" in text
    with pytest.raises(sm.errors.UnsupportedOp, match="cbrt is a function of Python's, which is not") as caught:
        sm.stablehlo.load(text)(sm.eye(3))
    assert "call the function between the two" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("linalg.cholesky", "linalg.choleski", "function of Python's"),
        ("linalg.cholesky", "lapack.nothing", "function of Python's"),
        ("linalg.cholesky", "linalg.solve", "does not take these operands"),
        ("linalg.cholesky(%arg0)", "linalg.cholesky(%arg0, %arg0)", "does not take these operands"),
        ("-> tensor<20x20xf32>\n", "-> tensor<20x21xf32>\n", "has shape"),
        (" : (tensor", ' {smelt.options = {a = "b"}} : (tensor', "options are integers"),
    ],
)
def test_texts_that_are_wrong_about_linear_algebra(old: str, new: str, message: str) -> None:
    text = sm.stablehlo.export(sm.linalg.cholesky, sm.eye(20))
    assert old in text
    with pytest.raises(sm.errors.SmeltError, match=message):
        sm.stablehlo.load(text.replace(old, new)).check()


def test_arguments_that_are_too_few() -> None:
    program = sm.stablehlo.load(sm.stablehlo.export(lambda x, y: x + y, sm.ones(2), sm.ones(2)))
    with pytest.raises(ArgumentError, match="takes 2"):
        sm.stablehlo.export(program, sm.ones(2))


def test_words_that_are_wrong() -> None:
    with pytest.raises(ArgumentError, match="weights='inlined'"):
        sm.stablehlo.export(lambda x: x, sm.ones(2), weights="inlined")


@pytest.mark.by_turns(16)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_decompositions(spec: OpSpec) -> None:
    for call, given, text in exports(spec):
        if "smelt." in text:
            close(results(plainly(text)(*given)), results(call.function(*given)))


def test_constants_without_elements_keep_their_types() -> None:
    empty = [sm.asarray(np.zeros(shape, dtype)) for dtype in ("float32", "int32") for shape in ((0, 3), (3, 0), (0,))]
    text = sm.stablehlo.export(lambda x: (*empty, x), sm.ones(2), weights="inline")
    found = sm.stablehlo.load(text)(sm.ones(2))
    assert [(x.shape, x.dtype) for x in found[:-1]] == [(x.shape, x.dtype) for x in empty]
    again = sm.stablehlo.export(sm.stablehlo.load(text), sm.ones(2))
    found = sm.stablehlo.load(again)(sm.ones(2))
    assert [(x.shape, x.dtype) for x in found[:-1]] == [(x.shape, x.dtype) for x in empty]


def test_what_is_no_function_or_gives_no_tensors() -> None:
    with pytest.raises(ArgumentError, match="export: 3 is not a function"):
        sm.stablehlo.export(3, sm.zeros(2))  # type: ignore[call-overload]
    for other, kind in (("s", "str"), (2.5, "float")):
        with pytest.raises(ArgumentError, match=f"export: the function gives a {kind}"):
            sm.stablehlo.export(lambda x, other=other: (x, other), sm.zeros(2))

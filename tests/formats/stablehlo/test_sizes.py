"""Programs that compute their sizes: with sizes that are known, and with dims, compiled once for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, ShapeError, UnsupportedOp
from smelt.formats.stablehlo.sizes import Condition
from smelt.graph import Index
from tests.interpreted import interpreted

N = sm.Dim("n", 1, 4096)


def main(body: str, arguments: str = "%x: tensor<?x3xf32>", gives: str = "tensor<?xf32>") -> sm.stablehlo.Imported:
    return sm.stablehlo.load(f"func.func @main({arguments}) -> {gives} {{\n{body}\n}}")


def rows(count: int) -> np.ndarray:
    return np.arange(3.0 * count, dtype=np.float32).reshape(count, 3)


SIZE = "%n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>\n"
TWO = "%two = stablehlo.constant dense<2> : tensor<i32>\n"
ONE = "%one = stablehlo.constant dense<1> : tensor<1xi32>\n%three = stablehlo.constant dense<3> : tensor<1xi32>\n"
VECTOR = "%v = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n"
FLAT = (
    "%three = stablehlo.constant dense<3> : tensor<i32>\n%m = stablehlo.multiply %n, %three : tensor<i32>\n"
    "%s = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>\n"
    "%y = stablehlo.dynamic_reshape %x, %s : (tensor<?x3xf32>, tensor<1xi32>) -> tensor<?xf32>\n"
    "return %y : tensor<?xf32>"
)
IOTA = "%y = stablehlo.dynamic_iota %v, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>\nreturn %y : tensor<?xi32>"
WIDE = (
    "%s = stablehlo.concatenate %one, %v, %three, dim = 0 : "
    "(tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<3xi32>\n"
    "%y = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1, 2] : "
    "(tensor<?x3xf32>, tensor<3xi32>) -> tensor<1x?x3xf32>\nreturn %y : tensor<1x?x3xf32>"
)
PAD = (
    "%z = stablehlo.constant dense<0.0> : tensor<f32>\n%none = stablehlo.constant dense<0> : tensor<2xi32>\n"
    "%nothing = stablehlo.constant dense<0> : tensor<1xi32>\n"
    "%high = stablehlo.concatenate %v, %nothing, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n"
    "%low = stablehlo.constant dense<[-1, 1]> : tensor<2xi32>\n"
    "%y = stablehlo.dynamic_pad %x, %z, %low, %high, %none : "
    "(tensor<?x3xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>\n"
    "return %y : tensor<?x?xf32>"
)
HALF = (
    "%h = stablehlo.divide %n, %two : tensor<i32>\n%hv = stablehlo.reshape %h : (tensor<i32>) -> tensor<1xi32>\n"
    "%start = stablehlo.constant dense<0> : tensor<2xi32>\n%step = stablehlo.constant dense<1> : tensor<2xi32>\n"
    "%limit = stablehlo.concatenate %hv, %three, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n"
    "%y = stablehlo.real_dynamic_slice %x, %start, %limit, %step : "
    "(tensor<?x3xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x3xf32>\nreturn %y : tensor<?x3xf32>"
)
# A slice from a row that is a value, whose size is known for all that.
FROM = (
    "%f = stablehlo.slice %x [0:1, 0:1] : (tensor<?x3xf32>) -> tensor<1x1xf32>\n"
    "%k = stablehlo.convert %f : (tensor<1x1xf32>) -> tensor<1x1xi32>\n"
    "%kv = stablehlo.reshape %k : (tensor<1x1xi32>) -> tensor<1xi32>\n"
    "%zero = stablehlo.constant dense<0> : tensor<1xi32>\n%step = stablehlo.constant dense<1> : tensor<2xi32>\n"
    "%start = stablehlo.concatenate %kv, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n"
    "%size = stablehlo.constant dense<[1, 3]> : tensor<2xi32>\n"
    "%limit = stablehlo.add %start, %size : tensor<2xi32>\n"
    "%y = stablehlo.real_dynamic_slice %x, %start, %limit, %step : "
    "(tensor<?x3xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x3xf32>\nreturn %y : tensor<?x3xf32>"
)
LAST = (
    "%c = stablehlo.constant dense<1> : tensor<i32>\n%k = stablehlo.subtract %n, %c : tensor<i32>\n"
    "%i = stablehlo.reshape %k : (tensor<i32>) -> tensor<1x1xi32>\n"
    "%sizes = stablehlo.constant dense<[1, 3]> : tensor<2xi32>\n"
    '%y = "stablehlo.dynamic_gather"(%x, %i, %sizes) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], '
    "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}> : "
    "(tensor<?x3xf32>, tensor<1x1xi32>, tensor<2xi32>) -> tensor<1x?xf32>\nreturn %y : tensor<1x?xf32>"
)
PROGRAMS: dict[str, tuple[str, str, Any]] = {
    "reshape": (SIZE + FLAT, "tensor<?xf32>", lambda x: x.reshape(-1)),
    "iota": (SIZE + VECTOR + IOTA, "tensor<?xi32>", lambda x: np.arange(len(x), dtype=np.int32)),
    "broadcast": (SIZE + VECTOR + ONE + WIDE, "tensor<1x?x3xf32>", lambda x: x[None]),
    "pad": (SIZE + VECTOR + PAD, "tensor<?x?xf32>", lambda x: np.pad(x, ((0, len(x)), (1, 0)))[1:]),
    "slice": (SIZE + TWO + ONE + HALF, "tensor<?x3xf32>", lambda x: x[: len(x) // 2]),
    "slice from a value": (FROM, "tensor<?x3xf32>", lambda x: x[:1]),
    "gather": (SIZE + LAST, "tensor<1x?xf32>", lambda x: x[-1:]),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("count", [1, 2, 7])
def test_sizes_that_are_known(name: str, count: int) -> None:
    body, gives, expected = PROGRAMS[name]
    [found] = interpreted(main(body, gives=gives)(rows(count)))
    np.testing.assert_array_equal(found, expected(rows(count)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_compilation_for_all_sizes(name: str) -> None:
    body, gives, expected = PROGRAMS[name]
    program = main(body, gives=gives)
    function = sm.jit(program, shapes=[(N, 3)])
    for count in (1, 2, 7):
        np.testing.assert_array_equal(function(sm.asarray(rows(count))).numpy(), expected(rows(count)))
    assert len(program._graphs) == 1


def test_check_takes_dims() -> None:
    [found] = main(SIZE + FLAT).check((N, 3))
    assert found.shape == (3 * N,)


# --- sizes that are arguments

REPEATED = (
    "%s = stablehlo.reshape %k : (tensor<i64>) -> tensor<1xi64>\n"
    "%y = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [] : (tensor<f32>, tensor<1xi64>) -> tensor<?xf32>\n"
    "return %y : tensor<?xf32>"
)


def test_an_argument_that_is_a_size() -> None:
    program = main(REPEATED, "%k: tensor<i64>, %x: tensor<f32>")
    for count in (3, 0, 5):
        assert program(np.int64(count), np.float32(2.0)).tolist() == [2.0] * count
    assert program(4, 1.0).shape == (4,)
    assert program.check(4, ())[0].shape == (4,)
    assert program.check(N, ())[0].shape == (N,)
    with pytest.raises(UnsupportedOp, match=r"line 3, column 6: .* a size depends on values of argument 0"):
        program.check((), ())


def test_an_argument_that_is_a_shape() -> None:
    body = (
        "%y = stablehlo.dynamic_reshape %x, %s : (tensor<6xf32>, tensor<2xi32>) -> tensor<?x?xf32>\n"
        "return %y : tensor<?x?xf32>"
    )
    program = main(body, "%x: tensor<6xf32>, %s: tensor<2xi32>", "tensor<?x?xf32>")
    x = np.arange(6, dtype=np.float32)
    for shape in ((2, 3), (6, 1)):
        assert program(x, np.array(shape, np.int32)).shape == shape
    with pytest.raises(ShapeError, match=r"line 2, column 6: .*the number of elements changes"):
        program(x, np.array([2, 2], np.int32))
    with pytest.raises(ShapeError, match="a size is negative"):
        program(x, np.array([-2, -3], np.int32))


def test_sizes_under_a_trace_have_to_be_known() -> None:
    program = main(REPEATED, "%k: tensor<i64>, %x: tensor<f32>")
    with pytest.raises(UnsupportedOp, match="depends on values of argument 0"):
        sm.jit(program)(sm.asarray(3), sm.asarray(1.0, dtype=sm.float32))


# --- assertions


def asserting(direction: str, least: int) -> sm.stablehlo.Imported:
    return main(
        f"{SIZE}%c = stablehlo.constant dense<{least}> : tensor<i32>\n"
        f"%t = stablehlo.compare {direction}, %n, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "stablehlo.custom_call @shape_assertion(%t, %n, %c) "
        '{error_message = "{0} rows, not {1}", has_side_effect = true} : (tensor<i1>, tensor<i32>, tensor<i32>) -> ()\n'
        "return %x : tensor<?x3xf32>",
        gives="tensor<?x3xf32>",
    )


@pytest.mark.parametrize(
    ("direction", "number", "good", "bad"),
    [("GE", 2, [2, 3], [1]), ("LT", 3, [1, 2], [3, 9]), ("EQ", 2, [2], [1, 3]), ("NE", 2, [1, 3], [2])],
)
def test_what_sizes_have_to_be(direction: str, number: int, good: list[int], bad: list[int]) -> None:
    program = asserting(direction, number)
    traced = sm.jit(program, shapes=[(N, 3)])
    traced(sm.asarray(rows(good[0])))
    for count in good:
        np.testing.assert_array_equal(program(rows(count)).numpy(), rows(count))
        np.testing.assert_array_equal(traced(sm.asarray(rows(count))).numpy(), rows(count))
    for count in bad:
        for function in (program, traced):
            with pytest.raises(ShapeError, match=f"line 5, column 1: {count} rows, not {number}"):
                function(sm.asarray(rows(count)))


def test_what_is_proved_is_not_looked_at_again() -> None:
    program = asserting("GE", 1)
    program.check((N, 3))
    assert [graph.assertions for graph in program._graphs.values()] == [[]]
    with pytest.raises(ShapeError, match="n rows, not 5000"):
        asserting("GE", 5000).check((N, 3))


# --- rules


@pytest.mark.parametrize("count", range(1, 9))
def test_conditions(count: int) -> None:
    n: Index = N
    for relation, amount, wanted in (
        (">=", n - 4, count >= 4),
        (">=", n - 1, True),
        ("==", n % 2, count % 2 == 0),
        ("!=", -(n % 3), count % 3 != 0),
        (">=", n % 2 - 1, count % 2 == 1),
    ):
        condition = Condition.of(relation, amount)
        assert condition.holds({"n": count}) == wanted
        assert condition.negated().holds({"n": count}) != wanted


@pytest.mark.parametrize("divisor", [2, 3, -2, 0])
@pytest.mark.parametrize("number", [-7, -2, 0, 5])
def test_numbers_are_divided_as_the_specification_says(number: int, divisor: int) -> None:
    program = main(
        "%q = stablehlo.divide %a, %b : tensor<i32>\n%r = stablehlo.remainder %a, %b : tensor<i32>\n"
        "%hundred = stablehlo.constant dense<100> : tensor<i32>\n"
        "%s = stablehlo.add %q, %hundred : tensor<i32>\n%t = stablehlo.add %r, %hundred : tensor<i32>\n"
        "%sv = stablehlo.reshape %s : (tensor<i32>) -> tensor<1xi32>\n"
        "%tv = stablehlo.reshape %t : (tensor<i32>) -> tensor<1xi32>\n"
        "%u = stablehlo.concatenate %sv, %tv, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n"
        "%y = stablehlo.dynamic_broadcast_in_dim %x, %u, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x?xf32>\n"
        "return %y : tensor<?x?xf32>",
        "%a: tensor<i32>, %b: tensor<i32>, %x: tensor<f32>",
        "tensor<?x?xf32>",
    )
    [found] = program.check(number, divisor, ())
    quotient = int(number / divisor) if divisor else -1
    assert found.shape == (100 + quotient, 100 + (number - quotient * divisor if divisor else number))


def test_shapes_are_as_many_as_arguments() -> None:
    with pytest.raises(ArgumentError, match="1 shapes are given"):
        main(REPEATED, "%k: tensor<i64>, %x: tensor<f32>").check(3)


def test_bounds_of_open_sizes() -> None:
    kind = "tensor<?x3xf32, #stablehlo.bounds<4, ?>>"
    program = main(f"%y = stablehlo.add %x, %x : {kind}\nreturn %y : {kind}", f"%x: {kind}", kind)
    [found] = program.check()
    assert [str(size) for size in found.shape] == ["x_0", "3"]
    assert program(rows(4)).shape == (4, 3)
    with pytest.raises(ShapeError, match="axis 0 has at most 4 elements"):
        program(rows(5))
    with pytest.raises(ShapeError, match="axis 0 has at most 4 elements"):
        program.check((N, 3))

"""Operations between devices of which there is one, those that broadcast, and products by other names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ParseError, UnsupportedOp

RNG = np.random.default_rng(0)


def draw(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def program(signature: str, line: str, gives: str) -> sm.stablehlo.Imported:
    return sm.stablehlo.load(f"func.func @main({signature}) -> {gives} {{\n%0 = {line}\nreturn %0 : {gives}\n}}")


X = draw(3)
T = "tensor<3xf32>"
SUM = """({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %s = stablehlo.add %a, %b : tensor<f32>
  stablehlo.return %s : tensor<f32> })"""
ONE, FAR = "dense<0> : tensor<1x1xi64>", "dense<[[0, 1]]> : tensor<1x2xi64>"
TOGETHER = {
    "all_reduce": f'"stablehlo.all_reduce"(%x) <{{replica_groups = GROUPS}}> {SUM} : ({T}) -> {T}',
    "all_gather": f'"stablehlo.all_gather"(%x) <{{all_gather_dim = 0 : i64, replica_groups = GROUPS}}> : ({T}) -> {T}',
    "all_to_all": f""""stablehlo.all_to_all"(%x) <{{split_dimension = 0 : i64, concat_dimension = 0 : i64,
      split_count = 1 : i64, replica_groups = GROUPS}}> : ({T}) -> {T}""",
    "reduce_scatter": f""""stablehlo.reduce_scatter"(%x) <{{scatter_dimension = 0 : i64, replica_groups = GROUPS}}>
      {SUM} : ({T}) -> {T}""",
    "collective_broadcast": f'"stablehlo.collective_broadcast"(%x) <{{replica_groups = GROUPS}}> : ({T}) -> {T}',
}


@pytest.mark.parametrize("name", TOGETHER)
def test_one_device_has_everything_already(name: str) -> None:
    found = program(f"%x: {T}", TOGETHER[name].replace("GROUPS", ONE), T)(X)
    assert found.tolist() == X.tolist()
    with pytest.raises(UnsupportedOp, match=f"line 2, column .*{name}: replica_groups has device 1"):
        program(f"%x: {T}", TOGETHER[name].replace("GROUPS", FAR), T).check()


@pytest.mark.parametrize(
    ("pairs", "sent"), [("dense<0> : tensor<1x2xi64>", True), ("dense<> : tensor<0x2xi64>", False)]
)
def test_what_nobody_sends_is_zeros(pairs: str, sent: bool) -> None:
    line = f'"stablehlo.collective_permute"(%x) <{{source_target_pairs = {pairs}}}> : ({T}) -> {T}'
    assert program(f"%x: {T}", line, T)(X).tolist() == (X.tolist() if sent else [0.0] * 3)


@pytest.mark.parametrize(
    ("operation", "a", "b", "wanted"),
    [
        ("broadcast_add", (3,), (2, 3), np.add),
        ("broadcast_subtract", (2, 1), (2, 3), np.subtract),
        ("broadcast_divide", (), (2, 3), np.divide),
        ("broadcast_power", (4, 1, 3), (2, 1), lambda a, b: abs(a) ** b),
        ("broadcast_maximum", (2, 3), (2, 3), np.maximum),
        ("broadcast_complex", (2, 1), (3,), lambda a, b: a + 1j * b),
    ],
)
def test_broadcasting(operation: str, a: tuple[int, ...], b: tuple[int, ...], wanted: Any) -> None:
    x, y = draw(*a), draw(*b)
    x = abs(x) if "power" in operation else x
    shape = np.broadcast_shapes(a, b)
    kinds = ["tensor<" + "x".join(map(str, (*s, "f32"))) + ">" for s in (a, b, shape)]
    gives = kinds[2].replace("f32", "complex<f32>") if "complex" in operation else kinds[2]
    line = f"chlo.{operation} %a, %b : ({kinds[0]}, {kinds[1]}) -> {gives}"
    found = program(f"%a: {kinds[0]}, %b: {kinds[1]}", line, gives)(x, y)
    np.testing.assert_allclose(found.numpy(), wanted(x, y), rtol=1e-5)


def test_broadcasting_along_named_axes() -> None:
    x, y = draw(2, 3), draw(2)
    kinds = "tensor<2x3xf32>", "tensor<2xf32>"
    line = f"""chlo.broadcast_multiply %a, %b {{broadcast_dimensions = array<i64: 0>}} :
      ({kinds[0]}, {kinds[1]}) -> {kinds[0]}"""
    signature = f"%a: {kinds[0]}, %b: {kinds[1]}"
    np.testing.assert_allclose(program(signature, line, kinds[0])(x, y).numpy(), x * y[:, None], rtol=1e-6)
    with pytest.raises(ParseError, match=r"broadcast_dimensions \[2\] are not"):
        program(signature, line.replace("i64: 0", "i64: 2"), kinds[0]).check()


def test_comparisons_and_choices_broadcast() -> None:
    x, y = draw(2, 3), draw(3)
    kinds = "tensor<2x3xf32>", "tensor<3xf32>"
    line = f"""chlo.broadcast_compare %a, %b {{comparison_direction = #chlo<comparison_direction LT>}} :
      ({kinds[0]}, {kinds[1]}) -> tensor<2x3xi1>"""
    assert program(f"%a: {kinds[0]}, %b: {kinds[1]}", line, "tensor<2x3xi1>")(x, y).tolist() == (x < y).tolist()
    line = f"chlo.broadcast_select %p, %a, %b : (tensor<i1>, {kinds[0]}, {kinds[1]}) -> {kinds[0]}"
    f = program(f"%p: tensor<i1>, %a: {kinds[0]}, %b: {kinds[1]}", line, kinds[0])
    assert f(np.bool_(False), x, y).tolist() == [y.tolist()] * 2


def test_constants() -> None:
    assert program("", "chlo.constant dense<[1.0, 2.5]> : tensor<2xf32>", "tensor<2xf32>")().tolist() == [1.0, 2.5]
    line = f'"chlo.constant_like"(%x) <{{value = 3.5 : f32}}> : ({T}) -> {T}'
    assert program(f"%x: {T}", line, T)(X).tolist() == [3.5] * 3


@pytest.mark.parametrize(
    ("equation", "a", "b"),
    [
        ("ij,jk->ik", (2, 3), (3, 4)),
        ("bij,bj->bi", (2, 3, 4), (2, 4)),
        ("ij,kl->lj", (2, 3), (4, 5)),
        ("i,->i", (3,), ()),
    ],
)
def test_equations(equation: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = draw(*a), draw(*b)
    wanted = np.einsum(equation, x, y)
    kinds = ["tensor<" + "x".join(map(str, (*s, "f32"))) + ">" for s in (a, b, wanted.shape)]
    line = f'stablehlo.einsum %a, %b, config = "{equation}" : ({kinds[0]}, {kinds[1]}) -> {kinds[2]}'
    found = program(f"%a: {kinds[0]}, %b: {kinds[1]}", line, kinds[2])(x, y)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_equations_of_one_operand() -> None:
    x = draw(2, 3)
    line = '"stablehlo.unary_einsum"(%x) <{einsum_config = "ij->j"}> : (tensor<2x3xf32>) -> tensor<3xf32>'
    np.testing.assert_allclose(program("%x: tensor<2x3xf32>", line, T)(x).numpy(), x.sum(0), rtol=1e-5)
    with pytest.raises(UnsupportedOp, match="the equation 'ii->i'"):
        program("%x: tensor<2x3xf32>", line.replace("ij->j", "ii->i"), T).check()


def ragged(a: str, b: str, gives: str, *, inner: tuple[int, int], axis: int, groups: str = "") -> sm.stablehlo.Imported:
    numbers = f"""#chlo.ragged_dot<lhs_contracting_dimensions = [{inner[0]}],
      rhs_contracting_dimensions = [{inner[1]}], lhs_ragged_dimensions = [{axis}]{groups}>"""
    line = f"""\"chlo.ragged_dot"(%a, %b, %s) <{{ragged_dot_dimension_numbers = {numbers}}}> :
      ({a}, {b}, tensor<3xi32>) -> {gives}"""
    return program(f"%a: {a}, %b: {b}, %s: tensor<3xi32>", line, gives)


@pytest.mark.parametrize("sizes", [[2, 0, 3], [0, 0, 0], [5, 0, 0], [1, 1, 1]])
def test_products_in_groups(sizes: list[int]) -> None:
    ends = np.cumsum(sizes)
    x, w = draw(5, 4), draw(3, 4, 2)
    f = ragged(
        *("tensor<5x4xf32>", "tensor<3x4x2xf32>", "tensor<5x2xf32>"),
        inner=(1, 1),
        axis=0,
        groups=", rhs_group_dimensions = [0]",
    )
    wanted = np.zeros((5, 2), np.float32)
    for group, end in enumerate(ends):
        wanted[end - sizes[group] : end] = x[end - sizes[group] : end] @ w[group]
    np.testing.assert_allclose(f(x, w, np.array(sizes, np.int32)).numpy(), wanted, rtol=1e-4, atol=1e-5)
    y = draw(5, 2)
    f = ragged("tensor<5x4xf32>", "tensor<5x2xf32>", "tensor<3x4x2xf32>", inner=(0, 0), axis=0)
    sums = np.stack([x[end - size : end].T @ y[end - size : end] for size, end in zip(sizes, ends, strict=True)])
    np.testing.assert_allclose(f(x, y, np.array(sizes, np.int32)).numpy(), sums, rtol=1e-4, atol=1e-5)


def test_the_largest_elements_are_in_the_total_order() -> None:
    # As XLA gives them: NaN comes first, -NaN last, and -0 behind 0.
    x = np.array([-0.0, 0.0, np.nan, -np.nan, 1, np.inf, -np.inf, 0.0, -0.0, -1], np.float32)
    f = sm.stablehlo.load("""func.func @main(%x: tensor<10xf32>) -> tensor<10xi32> {
      %0, %1 = chlo.top_k(%x, k = 10) : tensor<10xf32> -> (tensor<10xf32>, tensor<10xi32>)
      return %1 : tensor<10xi32> }""")
    assert f(x).tolist() == [2, 5, 4, 1, 7, 0, 8, 9, 6, 3]


BATCHED = """
func.func @main(%x: tensor<{whole}x4xf32>, %i: tensor<{count}x1xi64>, %u: tensor<{given}xf32>) -> {type} {{
  {operation}
  return %y : {type}
}}"""
PICKED = """%y = "stablehlo.gather"(%x, %i) <{{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1],
  operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1>,
  slice_sizes = array<i64: 1, 1>, indices_are_sorted = false}}> :
  (tensor<{whole}x4xf32>, tensor<{count}x1xi64>) -> tensor<{count}xf32>"""
PUT = """%y = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
  inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0],
  scatter_dims_to_operand_dims = [1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }}) : (tensor<{whole}x4xf32>, tensor<{count}x1xi64>, tensor<{given}xf32>) -> tensor<{whole}x4xf32>"""


def batched(operation: str, whole: int, count: int, given: int) -> np.ndarray:
    kind = f"tensor<{count}xf32>" if operation is PICKED else f"tensor<{whole}x4xf32>"
    sizes = {"whole": whole, "count": count, "given": given}
    program = sm.stablehlo.load(BATCHED.format(operation=operation.format(**sizes), type=kind, **sizes))
    x = np.arange(4 * whole, dtype=np.float32).reshape(whole, 4)
    return program(x, np.ones((count, 1), np.int64), np.full(given, 9.0, np.float32)).numpy()


def test_axes_that_go_along_have_one_size() -> None:
    """Where they have not, elements would be read and written outside."""
    assert batched(PICKED, 3, 3, 3).tolist() == [1.0, 5.0, 9.0]
    assert batched(PUT, 3, 3, 3)[:, 1].tolist() == [9.0] * 3
    assert batched(PICKED, 0, 0, 0).shape == (0,)
    for operation in (PICKED, PUT):
        for sizes in ((1, 5, 5), (5, 1, 1), (1, 1, 5)):
            if operation is PUT or sizes[0] != sizes[1]:
                with pytest.raises(sm.errors.ShapeError, match=r"batching axes have different sizes"):
                    batched(operation, *sizes)

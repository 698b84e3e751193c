"""Complex numbers in texts, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import SmeltError

RNG = np.random.default_rng(0)


def draw(*shape: int) -> np.ndarray[Any, Any]:
    return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(np.complex64)


def program(signature: str, body: str) -> sm.stablehlo.Imported:
    return sm.stablehlo.load(f"func.func @main({signature} {{\n{body}\n}}")


def close(found: sm.Tensor, wanted: Any) -> None:
    wanted = np.asarray(wanted)
    assert found.dtype.name == wanted.dtype.name
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-5, atol=2e-5)


C = "tensor<5xcomplex<f32>>"
UNARY = {
    "negate": np.negative,
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "log": np.log,
    "log_plus_one": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": lambda x: x ** np.float32(1 / 3),
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "sign": lambda x: x / abs(x),
}
BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "maximum": np.maximum,  # NumPy's order is the lexicographic one, too
    "minimum": np.minimum,
}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name: str) -> None:
    x = draw(5)
    close(program(f"%x: {C}) -> {C}", f"%0 = stablehlo.{name} %x : {C}\nreturn %0 : {C}")(x), UNARY[name](x))


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers(name: str) -> None:
    a, b = draw(5), draw(5)
    b[0] = a[0].real + 1j * b[0].imag  # a tie of the real parts
    f = program(f"%a: {C}, %b: {C}) -> {C}", f"%0 = stablehlo.{name} %a, %b : {C}\nreturn %0 : {C}")
    close(f(a, b), BINARY[name](a, b))


def test_an_angle_of_two_complex_numbers_is_one() -> None:
    a, b = draw(5), draw(5)
    f = program(f"%a: {C}, %b: {C}) -> {C}", f"%0 = stablehlo.atan2 %a, %b : {C}\nreturn %0 : {C}")
    near = f(a.real.astype(np.complex64), b.real.astype(np.complex64)).numpy()
    np.testing.assert_allclose(near, np.arctan2(a.real, b.real), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.tan(f(a, b).numpy()), a / b, rtol=1e-3)


@pytest.mark.parametrize(("name", "wanted"), [("abs", np.abs), ("real", np.real), ("imag", np.imag), ("sqrt", np.sqrt)])
def test_corners(name: str, wanted: Any) -> None:
    x = np.array([0, complex(0, -0.0), complex(np.inf, 1), complex(-np.inf, np.nan), complex(-4, -0.0)], np.complex64)
    gives = C if name == "sqrt" else "tensor<5xf32>"
    f = program(f"%x: {C}) -> {gives}", f"%0 = stablehlo.{name} %x : ({C}) -> {gives}\nreturn %0 : {gives}")
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(f(x).numpy(), wanted(x))


@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
def test_comparisons(direction: str) -> None:
    a = np.array([1, 1 + 1j, 2 - 3j, complex(np.nan, 0), 0], np.complex64)
    b = np.array([1, 1 + 2j, 2 - 4j, complex(np.nan, 0), complex(0, np.nan)], np.complex64)
    f = program(
        f"%a: {C}, %b: {C}) -> tensor<5xi1>",
        f"%0 = stablehlo.compare {direction}, %a, %b : ({C}, {C}) -> tensor<5xi1>\nreturn %0 : tensor<5xi1>",
    )
    wanted = {
        "EQ": [True, False, False, False, False],
        "NE": [False, True, True, True, True],
        "LT": [False, True, False, False, False],
        "LE": [True, True, False, False, False],
        "GT": [False, False, True, False, False],
        "GE": [True, False, True, False, False],
    }
    assert f(a, b).tolist() == wanted[direction]


def test_constants_and_conversions() -> None:
    z = "tensor<2xcomplex<f64>>"
    f = program(
        f"%x: tensor<2xf64>) -> ({z}, {z}, {z}, tensor<2xf64>, tensor<2xi32>, {z})",
        f"""%0 = stablehlo.constant dense<[(1.0,-2.0), (0x7FF0000000000000,0.5)]> : {z}
        %1 = stablehlo.constant dense<(3.0,4.0)> : {z}
        %2 = stablehlo.complex %x, %x : {z}
        %3 = stablehlo.convert %1 : ({z}) -> tensor<2xf64>
        %4 = stablehlo.convert %1 : ({z}) -> tensor<2xi32>
        %5 = stablehlo.convert %x : (tensor<2xf64>) -> {z}
        return %0, %1, %2, %3, %4, %5 : {z}, {z}, {z}, tensor<2xf64>, tensor<2xi32>, {z}""",
    )
    a, b, c, d, e, g = f(np.array([1.5, -2.0]))
    close(a, np.array([1 - 2j, complex(np.inf, 0.5)]))
    close(b, np.array([3 + 4j, 3 + 4j]))
    close(c, np.array([1.5 + 1.5j, -2 - 2j]))
    close(d, np.array([3.0, 3.0]))
    close(e, np.array([3, 3], np.int32))
    close(g, np.array([1.5 + 0j, -2 + 0j]))


def test_bytes_of_complex_numbers() -> None:
    data = np.array([1 + 2j, 3 - 4j], np.complex64)
    kind = "tensor<2xcomplex<f32>>"
    f = program(
        f") -> {kind}", f'%0 = stablehlo.constant dense<"0x{data.tobytes().hex()}"> : {kind}\nreturn %0 : {kind}'
    )
    close(f(), data)


def test_choices_and_movement() -> None:
    a, b = draw(2, 3), draw(2, 3)
    kind, wide = "tensor<2x3xcomplex<f32>>", "tensor<5x6xcomplex<f32>>"
    f = program(
        f"%p: tensor<2x3xi1>, %a: {kind}, %b: {kind}) -> ({wide}, tensor<3x2xcomplex<f32>>, {kind})",
        f"""%0 = stablehlo.select %p, %a, %b : tensor<2x3xi1>, {kind}
        %f = stablehlo.constant dense<(7.0,-7.0)> : tensor<complex<f32>>
        %1 = stablehlo.pad %0, %f, low = [1, 0], high = [1, 1], interior = [1, 1] :
          ({kind}, tensor<complex<f32>>) -> {wide}
        %2 = stablehlo.transpose %0, dims = [1, 0] : ({kind}) -> tensor<3x2xcomplex<f32>>
        %3 = stablehlo.reverse %0, dims = [1] : {kind}
        return %1, %2, %3 : {wide}, tensor<3x2xcomplex<f32>>, {kind}""",
    )
    p = np.array([[True, False, True], [False, True, False]])
    chosen = np.where(p, a, b)
    padded = np.full((5, 6), 7 - 7j, np.complex64)
    padded[1:4:2, 0:5:2] = chosen
    for found, wanted in zip(f(p, a, b), (padded, chosen.T, chosen[:, ::-1]), strict=True):
        close(found, wanted)


def test_products() -> None:
    a, b = draw(2, 3, 4), draw(2, 4, 5)
    f = program(
        "%a: tensor<2x3x4xcomplex<f32>>, %b: tensor<2x4x5xcomplex<f32>>) -> tensor<2x3x5xcomplex<f32>>",
        """%0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1] :
          (tensor<2x3x4xcomplex<f32>>, tensor<2x4x5xcomplex<f32>>) -> tensor<2x3x5xcomplex<f32>>
        return %0 : tensor<2x3x5xcomplex<f32>>""",
    )
    close(f(a, b), a @ b)


def test_a_convolution() -> None:
    x, w = draw(1, 1, 9), draw(1, 1, 3)
    kinds = "tensor<1x1x9xcomplex<f32>>", "tensor<1x1x3xcomplex<f32>>", "tensor<1x1x7xcomplex<f32>>"
    f = program(
        f"%x: {kinds[0]}, %w: {kinds[1]}) -> {kinds[2]}",
        f"""%0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {{}}
          {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({kinds[0]}, {kinds[1]}) -> {kinds[2]}
        return %0 : {kinds[2]}""",
    )
    close(f(x, w)[0, 0], np.convolve(x[0, 0], w[0, 0, ::-1], "valid"))


def reduction(op: str, size: int, init: str) -> sm.stablehlo.Imported:
    kind = f"tensor<2x{size}xcomplex<f32>>"
    return program(
        f"%x: {kind}) -> tensor<2xcomplex<f32>>",
        f"""%i = stablehlo.constant dense<{init}> : tensor<complex<f32>>
        %0 = stablehlo.reduce(%x init: %i) applies stablehlo.{op} across dimensions = [1] :
          ({kind}, tensor<complex<f32>>) -> tensor<2xcomplex<f32>>
        return %0 : tensor<2xcomplex<f32>>""",
    )


@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.parametrize("init", [(0.0, 0.0), (1.0, 0.0), (2.0, -1.0)])
def test_reductions(size: int, init: tuple[float, float]) -> None:
    x, first = draw(2, size), np.complex64(complex(*init))
    close(reduction("add", size, f"({init[0]},{init[1]})")(x), x.sum(1) + first)
    close(reduction("multiply", size, f"({init[0]},{init[1]})")(x), x.prod(1) * first)
    if size:
        close(reduction("maximum", size, f"({init[0]},{init[1]})")(x), np.maximum(np.sort(x, 1)[:, -1], first))


@pytest.mark.parametrize(("pads", "window"), [((4, 0), 5), ((1, 1), 3)])
@pytest.mark.parametrize("op", ["add", "multiply"])
def test_windows(op: str, pads: tuple[int, int], window: int) -> None:
    x = draw(5)
    init, numpy = ("(0.0,0.0)", np.sum) if op == "add" else ("(1.0,0.0)", np.prod)
    f = program(
        f"%x: {C}) -> {C}",
        f"""%i = stablehlo.constant dense<{init}> : tensor<complex<f32>>
        %0 = "stablehlo.reduce_window"(%x, %i) <{{padding = dense<[[{pads[0]}, {pads[1]}]]> : tensor<1x2xi64>,
          window_dimensions = array<i64: {window}>, window_strides = array<i64: 1>}}> ({{
          ^bb0(%a: tensor<complex<f32>>, %b: tensor<complex<f32>>):
            %1 = stablehlo.{op} %a, %b : tensor<complex<f32>>
            stablehlo.return %1 : tensor<complex<f32>> }}) : ({C}, tensor<complex<f32>>) -> {C}
        return %0 : {C}""",
    )
    close(f(x), [numpy(x[max(k - pads[0], 0) : k - pads[0] + window]) for k in range(5)])


@pytest.mark.parametrize("unique", ["true", "false"])
@pytest.mark.parametrize("op", ["add", "multiply", "set", "minimum"])
def test_scatters(op: str, unique: str) -> None:
    x, updates = draw(5), draw(4)
    places = np.array([[3], [0], [4 if unique == "true" else 3], [9]], np.int32)
    inner = "%1 = stablehlo.add %b, %b : tensor<complex<f32>>" if op == "set" else ""
    result = "%b" if op == "set" else "%2"
    inner = inner if op == "set" else f"%2 = stablehlo.{op} %a, %b : tensor<complex<f32>>"
    f = program(
        f"%x: {C}, %i: tensor<4x1xi32>, %u: tensor<4xcomplex<f32>>) -> {C}",
        f"""%0 = "stablehlo.scatter"(%x, %i, %u) <{{indices_are_sorted = false, unique_indices = {unique},
          scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
            scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
          ^bb0(%a: tensor<complex<f32>>, %b: tensor<complex<f32>>):
            {inner}
            stablehlo.return {result} : tensor<complex<f32>> }}) :
          ({C}, tensor<4x1xi32>, tensor<4xcomplex<f32>>) -> {C}
        return %0 : {C}""",
    )
    wanted = x.copy()
    functions = {"add": np.add, "multiply": np.multiply, "set": lambda a, b: b, "minimum": np.minimum}
    for place, update in zip(places[:3, 0], updates, strict=False):
        wanted[place] = functions[op](wanted[place], update)
    close(f(x, places, updates), wanted)


def test_a_gather() -> None:
    x = draw(5)
    f = program(
        f"%x: {C}, %i: tensor<3x1xi32>) -> tensor<3xcomplex<f32>>",
        f"""%0 = "stablehlo.gather"(%x, %i) <{{slice_sizes = array<i64: 1>, dimension_numbers =
          #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}}> :
          ({C}, tensor<3x1xi32>) -> tensor<3xcomplex<f32>>
        return %0 : tensor<3xcomplex<f32>>""",
    )
    close(f(x, np.array([[4], [0], [-7]], np.int32)), x[[4, 0, 0]])


LESS = {
    "by both parts": """%r = stablehlo.real %a : (tensor<complex<f32>>) -> tensor<f32>
      %s = stablehlo.real %b : (tensor<complex<f32>>) -> tensor<f32>
      %i = stablehlo.imag %a : (tensor<complex<f32>>) -> tensor<f32>
      %j = stablehlo.imag %b : (tensor<complex<f32>>) -> tensor<f32>
      %1 = stablehlo.compare LT, %r, %s, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %2 = stablehlo.compare EQ, %r, %s, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.compare LT, %i, %j, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.and %2, %3 : tensor<i1>
      %5 = stablehlo.or %1, %4 : tensor<i1>""",
    "by size": """%r = stablehlo.abs %a : (tensor<complex<f32>>) -> tensor<f32>
      %s = stablehlo.abs %b : (tensor<complex<f32>>) -> tensor<f32>
      %5 = stablehlo.compare LT, %r, %s, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>""",
}


@pytest.mark.parametrize("form", LESS)
def test_sorting(form: str) -> None:
    x, y = draw(5), np.arange(5, dtype=np.int32)
    x[3] = x[1].real + 1j * x[3].imag
    f = program(
        f"%x: {C}, %y: tensor<5xi32>) -> ({C}, tensor<5xi32>)",
        f"""%0:2 = "stablehlo.sort"(%x, %y) <{{dimension = 0 : i64, is_stable = true}}> ({{
          ^bb0(%a: tensor<complex<f32>>, %b: tensor<complex<f32>>, %c: tensor<i32>, %d: tensor<i32>):
            {LESS[form]}
            stablehlo.return %5 : tensor<i1> }}) : ({C}, tensor<5xi32>) -> ({C}, tensor<5xi32>)
        return %0#0, %0#1 : {C}, tensor<5xi32>""",
    )
    order = np.argsort(x if form == "by both parts" else abs(x))
    values, places = f(x, y)
    close(values, x[order])
    assert places.tolist() == order.tolist()


def test_loops_and_branches_carry_complex_numbers() -> None:
    x = draw(3)
    kind = "tensor<3xcomplex<f32>>"
    f = program(
        f"%x: {kind}, %n: tensor<i32>) -> ({kind}, {kind}, tensor<i32>)",
        f"""%c0 = stablehlo.constant dense<0> : tensor<i32>
        %c1 = stablehlo.constant dense<1> : tensor<i32>
        %0:2 = stablehlo.while(%i = %c0, %z = %x) : tensor<i32>, {kind}
          cond {{ %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %1 : tensor<i1> }}
          do {{ %1 = stablehlo.add %i, %c1 : tensor<i32>
            %2 = stablehlo.multiply %z, %x : {kind}
            stablehlo.return %1, %2 : tensor<i32>, {kind} }}
        %3 = stablehlo.compare LT, %n, %c1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %4 = "stablehlo.if"(%3) ({{ %5 = stablehlo.negate %x : {kind}
          stablehlo.return %5 : {kind} }}, {{ %5 = stablehlo.add %x, %0#1 : {kind}
          stablehlo.return %5 : {kind} }}) : (tensor<i1>) -> {kind}
        return %0#1, %4, %0#0 : {kind}, {kind}, tensor<i32>""",
    )
    for n in (0, 3):
        power, chosen, count = f(x, np.int32(n))
        close(power, x ** (n + 1))
        close(chosen, -x if n < 1 else x + x ** (n + 1))
        assert count.item() == n


def test_gradients_and_batches() -> None:
    x = draw(5)
    f = program(f"%x: {C}) -> {C}", f"%0 = stablehlo.multiply %x, %x : {C}\nreturn %0 : {C}")
    found = sm.grad(lambda x: sm.real(f(x)).sum())(sm.asarray(x))
    np.testing.assert_allclose(found.numpy(), 2 * x, rtol=1e-5)
    close(sm.vmap(f)(sm.asarray(np.stack([x, 2 * x]))), np.stack([x * x, 4 * x * x]))


def test_mistakes_are_said() -> None:
    with pytest.raises(SmeltError, match="line 2, column"):
        program(f"%x: {C}) -> {C}", f"%0 = stablehlo.floor %x : {C}\nreturn %0 : {C}").check()
    half = "tensor<5xcomplex<f16>>"
    with pytest.raises(SmeltError, match="complex<f16>"):
        program(f"%x: {half}) -> {half}", f"return %x : {half}").check()

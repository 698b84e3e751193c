"""Reductions, scatters and sorts with any body, by the reference interpreter."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import smelt as sm
from smelt.graph import Op, topological
from tests.interpreted import interpreted


def run(text: str, *arrays: object) -> list[np.ndarray]:
    found = sm.stablehlo.load(text)(*arrays)
    return interpreted(list(found) if isinstance(found, tuple) else [found])


def ops(text: str) -> set[Op]:
    return {node.op for node in topological(sm.stablehlo.load(text).graph())}


REDUCE = """func.func @main(%x: tensor<SIZExi32>, %init: tensor<i32>) -> tensor<i32> {
  %0 = stablehlo.reduce(%x init: %init) across dimensions = [0] : (tensor<SIZExi32>, tensor<i32>) -> tensor<i32>
    reducer(%a: tensor<i32>, %b: tensor<i32>) { BODY stablehlo.return %r : tensor<i32> }
  return %0 : tensor<i32> }"""


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8, 13])
def test_a_general_body_is_folded_in_order(size: int) -> None:
    # 2 x 2 matrices in a word would do as well: what counts is that the body is associative and not commutative.
    body = """%k = stablehlo.constant dense<0> : tensor<i32>
      %z = stablehlo.compare EQ, %b, %k, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %r = stablehlo.select %z, %a, %b : tensor<i1>, tensor<i32>"""
    x = np.random.default_rng(size).integers(0, 3, size).astype(np.int32)
    [found] = run(REDUCE.replace("SIZE", str(size)).replace("BODY", body), x, np.int32(7))
    assert found == functools.reduce(lambda a, b: b or a, x.tolist(), 7)


@pytest.mark.parametrize(
    ("name", "init", "wanted"), [("add", 5, 20), ("multiply", 2, 240), ("maximum", 4, 5), ("xor", 1, 0)]
)
def test_first_values_count_once(name: str, init: int, wanted: int) -> None:
    text = REDUCE.replace("SIZE", "5").replace("BODY", f"%r = stablehlo.{name} %b, %a : tensor<i32>")
    assert run(text, np.arange(1, 6, dtype=np.int32), np.int32(init)) == [wanted]
    assert (Op.REDUCE in ops(text)) is (name != "xor")


WINDOW = """func.func @main(%x: tensor<6xf32>) -> tensor<COUNTxf32> {
  %init = stablehlo.constant dense<INIT> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %init) <{window_dimensions = array<i64: SIZE>, window_strides = array<i64: STEP>,
    base_dilations = array<i64: 1>, window_dilations = array<i64: 1>, padding = dense<[[LOW, HIGH]]> : tensor<1x2xi64>
  }> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %r = stablehlo.NAME %a, %b : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) : (tensor<6xf32>, tensor<f32>) -> tensor<COUNTxf32>
  return %0 : tensor<COUNTxf32> }"""


@pytest.mark.parametrize(
    ("name", "init", "size", "step", "pads"),
    [
        ("add", 0.0, 2, 1, (0, 0)),
        ("maximum", -np.inf, 3, 2, (1, 1)),
        ("add", 1.0, 3, 1, (2, 0)),
        ("add", 0.0, 6, 1, (5, 0)),
        ("multiply", 1.0, 6, 1, (0, 5)),
    ],
)
def test_windows(name: str, init: float, size: int, step: int, pads: tuple[int, int]) -> None:
    x = np.array([1, 5, -2, 3, 4, 0.5], np.float32)
    count = (6 + sum(pads) - size) // step + 1
    values = {"SIZE": size, "STEP": step, "LOW": pads[0], "HIGH": pads[1], "NAME": name, "COUNT": count}
    text = functools.reduce(lambda text, pair: text.replace(pair[0], str(pair[1])), values.items(), WINDOW)
    text = text.replace("INIT", "0xFF800000" if np.isinf(init) else f"{init:e}")
    padded = np.pad(x, pads, constant_values=init)
    fold = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum}[name]
    wanted = [fold.reduce([init, *padded[k * step : k * step + size]]) for k in range(count)]
    np.testing.assert_allclose(run(text, x)[0], wanted)
    assert (Op.SCAN in ops(text)) is (size == 6)


SCATTER = """func.func @main(%x: tensor<5xf32>, %at: tensor<4x1xi32>, %u: tensor<4xf32>) -> tensor<5xf32> {
  %0 = "stablehlo.scatter"(%x, %at, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
    scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = UNIQUE}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    BODY
    stablehlo.return %r : tensor<f32>
  }) : (tensor<5xf32>, tensor<4x1xi32>, tensor<4xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32> }"""


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize(
    "body", ["%r = stablehlo.add %a, %b : tensor<f32>", "%r = stablehlo.subtract %b, %a : tensor<f32>"]
)
def test_scatters(body: str, unique: bool) -> None:
    x, u = np.arange(5, dtype=np.float32), np.array([10, 20, 30, 40], np.float32)
    at = np.array([3, 0, 9, 1] if unique else [3, 0, -1, 3], np.int32)
    wanted = x.copy()
    for k, place in enumerate(at.tolist()):
        if 0 <= place < 5:
            wanted[place] = wanted[place] + u[k] if "add" in body else u[k] - wanted[place]
    text = SCATTER.replace("BODY", body).replace("UNIQUE", str(unique).lower())
    np.testing.assert_array_equal(run(text, x, at[:, None], u)[0], wanted)


@pytest.mark.parametrize(("rules", "kept"), [(sm.stablehlo.SPECIFICATION, True), (sm.stablehlo.XLA, False)])
def test_a_window_that_lies_partly_outside(rules: sm.stablehlo.Rules, kept: bool) -> None:
    text = """func.func @main(%x: tensor<5xf32>, %at: tensor<1xi32>, %u: tensor<3xf32>) -> tensor<5xf32> {
      %0 = "stablehlo.scatter"(%x, %at, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0],
        scatter_dims_to_operand_dims = [0], index_vector_dim = 0>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        stablehlo.return %b : tensor<f32>
      }) : (tensor<5xf32>, tensor<1xi32>, tensor<3xf32>) -> tensor<5xf32>
      return %0 : tensor<5xf32> }"""
    program = sm.stablehlo.load(text, rules=rules)
    [found] = interpreted(program(np.zeros(5, np.float32), np.array([3], np.int32), np.ones(3, np.float32)))
    assert found.tolist() == ([0, 0, 0, 1, 1] if kept else [0] * 5)


@pytest.mark.parametrize("start", [-5, 0, 2, 3, 100, 2**31 - 1])
def test_starts_of_slices_are_moved_until_they_fit(start: int) -> None:
    text = """func.func @main(%x: tensor<5xf32>, %s: tensor<i32>) -> (tensor<3xf32>, tensor<5xf32>) {
      %0 = stablehlo.dynamic_slice %x, %s, sizes = [3] : (tensor<5xf32>, tensor<i32>) -> tensor<3xf32>
      %1 = stablehlo.negate %0 : tensor<3xf32>
      %2 = stablehlo.dynamic_update_slice %x, %1, %s : (tensor<5xf32>, tensor<3xf32>, tensor<i32>) -> tensor<5xf32>
      return %0, %2 : tensor<3xf32>, tensor<5xf32> }"""
    x = np.arange(1, 6, dtype=np.float32)
    first = min(max(start, 0), 2)
    cut, changed = run(text, x, np.int32(start))
    wanted = x.copy()
    wanted[first : first + 3] *= -1
    assert (cut.tolist(), changed.tolist()) == (x[first : first + 3].tolist(), wanted.tolist())


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 11])
def test_an_unknown_comparator_sorts_and_keeps_the_order_of_equals(size: int) -> None:
    text = f"""func.func @main(%x: tensor<{size}xi32>, %y: tensor<{size}xi32>)
        -> (tensor<{size}xi32>, tensor<{size}xi32>) {{
      %0:2 = "stablehlo.sort"(%x, %y) <{{dimension = 0 : i64, is_stable = true}}> ({{
      ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
        %three = stablehlo.constant dense<3> : tensor<i32>
        %m = stablehlo.remainder %a, %three : tensor<i32>
        %n = stablehlo.remainder %b, %three : tensor<i32>
        %r = stablehlo.compare LT, %m, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %r : tensor<i1>
      }}) : (tensor<{size}xi32>, tensor<{size}xi32>) -> (tensor<{size}xi32>, tensor<{size}xi32>)
      return %0#0, %0#1 : tensor<{size}xi32>, tensor<{size}xi32> }}"""
    x = np.random.default_rng(size).integers(0, 9, size).astype(np.int32)
    y = np.arange(size, dtype=np.int32)
    order = sorted(range(size), key=lambda k: x[k] % 3)
    found = run(text, x, y)
    assert [a.tolist() for a in found] == [x[order].tolist(), y[order].tolist()]


LARGEST = """func.func @main(%x: tensor<3xf32>) -> tensor<i32> {
      %i = stablehlo.iota dim = 0 : tensor<3xi32>
      %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %0:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [0] :
        (tensor<3xf32>, tensor<3xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
       reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<i32>, %d: tensor<i32>) {
        %1 = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %2 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %3 = stablehlo.or %1, %2 : tensor<i1>
        %4 = stablehlo.compare EQ, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %5 = stablehlo.compare LT, %c, %d, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %6 = stablehlo.and %4, %5 : tensor<i1>
        %7 = stablehlo.or %3, %6 : tensor<i1>
        %8 = stablehlo.select %3, %a, %b : tensor<i1>, tensor<f32>
        %9 = stablehlo.select %7, %c, %d : tensor<i1>, tensor<i32>
        stablehlo.return %8, %9 : tensor<f32>, tensor<i32>
      }
      return %0#1 : tensor<i32> }"""


@pytest.mark.parametrize("values", list(itertools.permutations([1.0, np.nan, 3.0])))
def test_the_largest_with_nan(values: tuple[float, ...]) -> None:
    assert run(LARGEST, np.float32(values)) == [int(np.argmax(values))]


@pytest.mark.parametrize(("positions", "first", "wanted"), [((5, 6, 7), 0, 0), ((5, 6, 7), -1, -1), ((5, 6, 7), 9, 5)])
def test_the_first_position_counts(positions: tuple[int, ...], first: int, wanted: int) -> None:
    """Where all numbers are as small as the first one is, it may come before the others."""
    text = LARGEST.replace("%i = stablehlo.iota dim = 0", f"%i = stablehlo.constant dense<{list(positions)}>")
    text = text.replace("dense<0> :", f"dense<{first}> :")
    assert run(text, np.full(3, -np.inf, np.float32)) == [wanted]
    assert run(text, np.float32([1, 3, 2])) == [positions[1]]
    counted = LARGEST.replace("dense<0> :", f"dense<{first}> :")
    assert run(counted, np.full(3, -np.inf, np.float32)) == [min(first, 0)]


def test_a_batch_norm_and_its_gradient() -> None:
    types = "tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>"
    settings = "<{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}>"
    forward = sm.stablehlo.load(f"""func.func @main(%x: tensor<4x3xf32>, %s: tensor<3xf32>, %o: tensor<3xf32>)
        -> ({types}) {{
      %0:3 = "stablehlo.batch_norm_training"(%x, %s, %o) {settings} : ({types}) -> ({types})
      return %0#0, %0#1, %0#2 : {types} }}""")
    backward = sm.stablehlo.load(f"""func.func @main(%x: tensor<4x3xf32>, %s: tensor<3xf32>, %m: tensor<3xf32>,
        %v: tensor<3xf32>, %g: tensor<4x3xf32>) -> ({types}) {{
      %0:3 = "stablehlo.batch_norm_grad"(%x, %s, %m, %v, %g) {settings} :
        (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4x3xf32>) -> ({types})
      return %0#0, %0#1, %0#2 : {types} }}""")
    x, s, o, g = (
        np.random.default_rng(k).normal(size=n).astype(np.float32) for k, n in enumerate([(4, 3), 3, 3, (4, 3)])
    )
    result, mean, variance = interpreted(list(forward(x, s, o)))
    np.testing.assert_allclose(mean, x.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance, x.var(0), rtol=1e-5)
    np.testing.assert_allclose(result, (x - mean) / np.sqrt(variance + 1e-3) * s + o, rtol=1e-4, atol=1e-5)
    wanted = sm.vjp(lambda *args: forward(*args)[0], sm.asarray(x), sm.asarray(s), sm.asarray(o))[1](sm.asarray(g))
    for a, b in zip(interpreted(list(backward(x, s, mean, variance, g))), interpreted(list(wanted)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)

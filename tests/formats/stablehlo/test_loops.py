"""Loops that count become loops of known length, and give the same."""

from __future__ import annotations

import numpy as np
import pytest

import smelt as sm
from smelt.formats import mlir
from smelt.formats.mlir import LIMITS
from smelt.graph import Loop, Op, topological
from tests.formats.stablehlo.exported import results

X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def loop(body: str, *, bound: str = "4", first: str = "0", extra: str = "") -> sm.stablehlo.Imported:
    """`while i < bound` over i, x (4, 3), carry (3) and ys (4, 3)."""
    states = "tensor<i32>, tensor<4x3xf32>, tensor<3xf32>, tensor<4x3xf32>"
    return sm.stablehlo.load(f"""
    func.func @main(%x: tensor<4x3xf32>, %start: tensor<3xf32>) -> (tensor<3xf32>, tensor<4x3xf32>, tensor<i32>) {{
      %first = stablehlo.constant dense<{first}> : tensor<i32>
      %zero = stablehlo.constant dense<0.0> : tensor<4x3xf32>
      {extra}
      %0:4 = stablehlo.while(%i = %first, %xs = %x, %c = %start, %ys = %zero) : {states}
      cond {{
        %bound = stablehlo.constant dense<{bound}> : tensor<i32>
        %1 = stablehlo.compare LT, %i, %bound, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      }} do {{
        %one = stablehlo.constant dense<1> : tensor<i32>
        %n = stablehlo.constant dense<0> : tensor<i32>
        {body}
        %next = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %next, %xs, %carry, %all : {states}
      }}
      return %0#2, %0#3, %0#0 : tensor<3xf32>, tensor<4x3xf32>, tensor<i32>
    }}""")


SCAN = """
        %row = stablehlo.dynamic_slice %xs, AT, %n, sizes = [1, 3] :
          (tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
        %v = stablehlo.reshape %row : (tensor<1x3xf32>) -> tensor<3xf32>
        %carry = stablehlo.add %c, %v : tensor<3xf32>
        %p = stablehlo.multiply %c, %v : tensor<3xf32>
        %y = stablehlo.broadcast_in_dim %p, dims = [1] : (tensor<3xf32>) -> tensor<1x3xf32>
        %all = stablehlo.dynamic_update_slice %ys, %y, AT, %n :
          (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>"""
BACK = """
        %length = stablehlo.constant dense<4> : tensor<i32>
        %rest = stablehlo.subtract %length, %i : tensor<i32>
        %at = stablehlo.subtract %rest, %one : tensor<i32>"""


def the_loop(program: sm.stablehlo.Imported) -> Loop:
    [found] = [node.attribute for node in topological(program.graph()) if node.op is Op.LOOP]
    assert isinstance(found, Loop)
    return found


def expected(x: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    carries = np.cumsum(np.concatenate([start[None], x]), 0)
    return carries[-1], carries[:-1] * x


def test_a_scan_reads_and_writes_rows() -> None:
    program = loop(SCAN.replace("AT", "%i"))
    assert the_loop(program)[2:] == (1, 0, 1, 4, False)
    last, ys, count = program(X, X[0])
    wanted = expected(X, X[0])
    np.testing.assert_allclose(last.numpy(), wanted[0], rtol=1e-5)
    np.testing.assert_allclose(ys.numpy(), wanted[1], rtol=1e-5)
    assert count.item() == 4


def test_a_scan_from_behind() -> None:
    program = loop(BACK + SCAN.replace("AT", "%at"))
    assert the_loop(program)[2:] == (1, 0, 1, 4, True)
    _, ys, _ = program(X, X[0])
    np.testing.assert_allclose(ys.numpy()[::-1], expected(X[::-1], X[0])[1], rtol=1e-5)


@pytest.mark.parametrize(("first", "bound", "count"), [("0", "3", 3), ("1", "4", 3), ("5", "2", 0)])
def test_other_bounds_keep_their_states(first: str, bound: str, count: int) -> None:
    program = loop(SCAN.replace("AT", "%i"), first=first, bound=bound)
    last, ys, at = program(X, X[0])
    carry, rows = X[0], np.zeros_like(X)
    for i in range(int(first), int(bound)):
        carry, rows[i] = carry + X[i], carry * X[i]
    np.testing.assert_allclose(last.numpy(), carry, rtol=1e-5)
    np.testing.assert_allclose(ys.numpy(), rows, rtol=1e-5)
    assert at.item() == int(first) + count


def test_a_state_that_is_also_read_is_no_row_of_results() -> None:
    body = SCAN.replace("AT", "%i").replace("%carry = stablehlo.add %c, %v", "%carry = stablehlo.add %c, %w")
    more = """
        %r = stablehlo.dynamic_slice %ys, %n, %n, sizes = [1, 3] :
          (tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
        %w = stablehlo.reshape %r : (tensor<1x3xf32>) -> tensor<3xf32>"""
    program = loop(more + body)
    assert the_loop(program).states == 2
    carry, rows = X[0], np.zeros_like(X)
    for i in range(4):
        carry, rows[i] = carry + rows[0], carry * X[i]
    np.testing.assert_allclose(program(X, X[0])[0].numpy(), carry, rtol=1e-5)


def test_it_can_be_differentiated() -> None:
    program = loop(SCAN.replace("AT", "%i"))
    gradient = sm.grad(lambda x: program(x, X[0])[1].sum())(sm.asarray(X))
    step = 1e-2
    for at in np.ndindex(4, 3):
        moved = [X.copy(), X.copy()]
        moved[0][at] += step
        moved[1][at] -= step
        high, low = (expected(x, X[0])[1].astype(np.float64).sum() for x in moved)
        np.testing.assert_allclose(gradient.numpy()[at], (high - low) / (2 * step), rtol=2e-2, atol=2e-2)


def test_many_calls_do_not_walk_through_the_text() -> None:
    """Each call asked where its function stands, though nothing was wrong."""
    count, t = 9, "tensor<f32>"
    functions = [
        f"func.func private @f{k}(%a: {t}) -> {t} {{ %0 = call @f{k + 1}(%a) : ({t}) -> {t}\n"
        f"%1 = call @f{k + 1}(%0) : ({t}) -> {t}\nreturn %1 : {t} }}"
        for k in range(count)
    ]
    last = f"func.func private @f{count}(%a: {t}) -> {t} {{ %0 = stablehlo.sine %a : {t}\nreturn %0 : {t} }}"
    main = f"func.func @main(%a: {t}) -> {t} {{ %0 = call @f0(%a) : ({t}) -> {t}\nreturn %0 : {t} }}"
    program = sm.stablehlo.load("\n".join([*functions, last, main]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mlir, "place", lambda *_: pytest.fail("a place was looked for"))
        program.check()
    with pytest.raises(sm.errors.ParseError, match="reading takes too long"):
        sm.stablehlo.Imported(program.module, "main", sm.stablehlo.SPECIFICATION, LIMITS._replace(seconds=-1.0)).check()


NEVER = {
    "scan": lambda x: sm.scan(lambda c, row: (c + row, c * row), sm.ones(3), x),
    "reverse": lambda x: sm.scan(lambda c, row: (c + row, c * row), sm.ones(3), x, reverse=True),
    "gradient": sm.grad(lambda x: sm.scan(lambda c, row: (c * row + 1, c.sum()), sm.ones(3), x)[0].sum()),
    "batched": sm.vmap(lambda x: sm.scan(lambda c, row: (c + row, c * row), sm.ones(3), x), in_axes=1),
}


@pytest.mark.parametrize("name", NEVER)
def test_loops_that_never_run(name: str) -> None:
    """Their bodies would read rows of what has none: StableHLO takes no such slices, however often they are made."""
    function = NEVER[name]
    x = sm.zeros((0, 2, 3)[:: 1 if name == "batched" else 2])
    text = sm.stablehlo.export(function, x)
    assert "dynamic_slice" not in text
    for a, b in zip(results(sm.stablehlo.load(text)(x)), results(function(x)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert sm.stablehlo.export(sm.stablehlo.load(text), x).count("while") == 0


def test_bodies_that_never_run_are_not_read() -> None:
    start = np.ones(3, np.float32)
    found = loop(SCAN.replace("AT", "%i").replace("[1, 3]", "[9, 9]"), bound="0")(X, start)
    np.testing.assert_array_equal(found[0].numpy(), start)
    np.testing.assert_array_equal(found[1].numpy(), np.zeros_like(X))


def test_a_composite_of_a_loop_without_one_is_what_it_says() -> None:
    """Nothing of it can be taken over from a decomposition without regions."""
    text = sm.stablehlo.export(NEVER["scan"], sm.zeros((0, 3)))
    again = text.replace("length = 0", "length = 3").replace("0x3", "3x3").replace("dense<>", "dense<2.0>")
    state, rows = sm.stablehlo.load(again)(sm.zeros((3, 3)))
    assert state.tolist() == [1.0] * 3
    assert rows.tolist() == [[2.0] * 3] * 3


OPEN = """
func.func @main(%x: tensor<?x3xf32>, %k: tensor<?xf32>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<3xf32>
  %n = stablehlo.get_dimension_size BOUND, dim = 0 : (TYPE) -> tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %c = %start) : tensor<i32>, tensor<3xf32>
  cond {
    %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %row = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 3] :
      (tensor<?x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
    %v = stablehlo.reshape %row : (tensor<1x3xf32>) -> tensor<3xf32>
    %s = stablehlo.add %c, %v : tensor<3xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %s : tensor<i32>, tensor<3xf32>
  }
  return %0#1 : tensor<3xf32>
}"""


def test_rows_of_what_may_have_none() -> None:
    """They are read by a loop over the same rows. Another one may run when there are none."""
    shapes = [(sm.Dim("n", 0, 9), 3), (sm.Dim("m", 0, 9),)]
    same = sm.jit(sm.stablehlo.load(OPEN.replace("BOUND", "%x").replace("TYPE", "tensor<?x3xf32>")), shapes=shapes)
    for count in (0, 1, 4):
        np.testing.assert_array_equal(same(X[:count], np.zeros(2, np.float32)).numpy(), X[:count].sum(0))
    other = sm.stablehlo.load(OPEN.replace("BOUND", "%k").replace("TYPE", "tensor<?xf32>"))
    with pytest.raises(sm.errors.ShapeError, match="Declare the dim with a lower bound"):
        sm.jit(other, shapes=shapes)(X, np.zeros(2, np.float32))


COUNTS = """func.func @main(%x: tensor<f32>) -> tensor<f32> {{
  %first = stablehlo.constant dense<{first}> : tensor<{kind}>
  %last = stablehlo.constant dense<{last}> : tensor<{kind}>
  %one = stablehlo.constant dense<1> : tensor<{kind}>
  %0:2 = stablehlo.while(%i = %first, %v = %x) : tensor<{kind}>, tensor<f32>
   cond {{
    %t = stablehlo.compare LT, %i, %last : (tensor<{kind}>, tensor<{kind}>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  }} do {{
    %f = stablehlo.convert %i : (tensor<{kind}>) -> tensor<f32>
    %w = stablehlo.add %v, %f : tensor<f32>
    %n = stablehlo.add %i, %one : tensor<{kind}>
    stablehlo.return %n, %w : tensor<{kind}>, tensor<f32>
  }}
  return %0#1 : tensor<f32>
}}
"""


@pytest.mark.parametrize(
    "kind, first, last",
    [("i8", -100, 100), ("i8", -28, 100), ("i8", -29, 100), ("i16", -200, 300), ("i16", -32768, 10)],
)
def test_a_count_may_begin_further_below_0_than_its_type_reaches(kind: str, first: int, last: int) -> None:
    f = sm.stablehlo.load(COUNTS.format(kind=kind, first=first, last=last))
    assert f(sm.asarray(0.0)).item() == pytest.approx(sum(range(first, last)), rel=1e-3)


def test_a_size_that_its_type_does_not_hold_wraps_around() -> None:
    """As in `jnp.asarray(x.shape[0]).astype(jnp.uint8)`."""
    count = """%size = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %last = stablehlo.convert %size : (tensor<i32>) -> tensor<ui8>"""
    text = COUNTS.format(kind="ui8", first=0, last=0).replace(
        "%x: tensor<f32>", "%x: tensor<?xf32>, %zero: tensor<f32>"
    )
    text = text.replace("%last = stablehlo.constant dense<0> : tensor<ui8>", count).replace("%v = %x", "%v = %zero")
    f = sm.jit(sm.stablehlo.load(text), shapes=[(sm.Dim("n", 1, 500),), ()])
    for size in (200, 300):
        assert f(np.ones(size, np.float32), np.float32(0)).item() == sum(range(size % 256))


def test_a_loop_in_which_nothing_changes_gives_its_values_if_its_test_is_false() -> None:
    text = """func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.while(%v = %x) : tensor<f32> cond {
        %most = stablehlo.constant dense<1.0> : tensor<f32>
        %t = stablehlo.compare GT, %v, %most : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %t : tensor<i1>
      } do { stablehlo.return %v : tensor<f32> }
      return %0 : tensor<f32> }"""
    f = sm.stablehlo.load(text)
    assert f(np.float32(0.5)).item() == sm.jit(f)(np.float32(0.5)).item() == 0.5
    assert sm.vmap(f)(np.zeros(3, np.float32)).tolist() == [0.0] * 3

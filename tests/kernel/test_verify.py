"""The verifier finds each kind of mistake: kernels made by hand, and good kernels with one line changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from smelt.dtypes import float32
from smelt.errors import InternalError
from smelt.graph.index import as_index, variable
from smelt.graph.index_text import parse_index
from smelt.kernel import lower, parse_kernel, parse_schedule, print_kernel, verify
from smelt.kernel.ir import Compute, Statement, Value, make_part
from smelt.kernel.proofs import implied
from smelt.kernel.region import Less
from tests.kernel import regions as r

HEADER = """kernel k tasks {tasks}
parameter n in 0 .. 100
argument o float32 [n, 8] strides [8, 1] offset 0
argument x float32 [n, 8] strides [8, 1] offset 0
argument b bool [n] strides [1] offset 0
"""


def checked(body: str, tasks: str = "1") -> None:
    verify(parse_kernel(HEADER.format(tasks=tasks) + body))


GOOD = [
    """
loop i < n
  v: float32<c.lane:8> = load x[i, c.lane]
  store o[i, c.lane] = v
""",
    """
loop i < n // 2
  v: float32<r.reg:2, c.lane:8> = load x[2*i + r.reg, c.lane]
  store o[2*i + r.reg, c.lane] = v
""",
    """
v: float32<r.lane:64> = load x[r.lane, 0] if r.lane < n
store o[r.lane, 0] = v if r.lane < n
""",
    """
if 5 < n
  v: float32 = load x[5, 7]
  store o[5, 0] = v
""",
    """
loop i < n
  v: int32<c.lane:8> = const 3
  w: float32<c.lane:8> = load v as h in 0 .. n - 1 of x[h, c.lane]
  store o[i, c.lane] = w
""",
    """
c: float32 = const 1.0
d: bool = lt c c
ask q in 0 .. 1 = d
loop i < n*q
  v: float32 = load x[i, 0]
  store o[i, 0] = v
""",
    """
let q in 0 .. n = min(n, 4)
loop i < q
  v: float32 = load x[i, 0]
  store o[i, 0] = v
""",
    """
a: float32 = acc -0.0
loop i < n
  v: float32<c.lane:8> = load x[i, c.lane]
  s: float32<c.lane:8> = scan add v over c.lane from a
  store o[i, c.lane] = s
""",
    """
a: float32<c.lane:8> = acc -inf
loop i < n
  v: float32<c.lane:8> = load x[i, c.lane]
  s: float32<c.lane:8> = scan logaddexp v from a
  store o[i, c.lane] = s
""",
    """
a: float32 = acc 0.0
loop i < n
  v: float64<c.lane:4> = load x:float64[i, c.lane]
  w: int32<c.lane:8> = load x:int32[i, c.lane]
  a dot2= w w
""",
]


@pytest.mark.parametrize("body", GOOD)
def test_accepts(body: str) -> None:
    checked(body)


BAD = [
    ("loop i < n\n  v: float32 = load x[i + 1, 0]", "may leave"),
    ("loop i < n\n  v: float32 = load x[i - 1, 0]", "may leave"),
    ("loop i < n // 2\n  v: float32<r.reg:3> = load x[2*i + r.reg, 0]", "may leave"),
    ("v: float32<r.lane:64> = load x[r.lane, 0] if r.lane < n + 1", "may leave"),
    ("v: float32 = load x[0, 0]", "may leave"),
    ("if 5 < n\n  v: float32 = load x[6, 0]", "may leave"),
    ("if 5 < n\n  v: float32 = const 1.0\nelse\n  w: float32 = load x[5, 0]", "may leave"),
    ("let q in 0 .. 3 = n", "may leave its bounds"),
    ("v: float32 = const 1.0\nask q in 0 .. 1 = v", "more than one bool"),
    ("v: float32<r.lane:4> = const 1.0\nw: bool<r.lane:4> = lt v v\nask q in 0 .. 1 = w", "more than one bool"),
    ("v: float64 = const 1.0\nw: float32 = cast v\nu: float32 = add w v", "does not take"),
    ("v: float32 = const 1.0\nw: float32 = and v v", "does not take"),
    ("v: float32 = const 1.0\nw: float32 = where v v v", "does not take"),
    ("v: float32 = const 1.0\nw: float32 = eq v v", "does not take"),
    ("v: float32 = const 1.0\nw: float32 = add v", "does not take"),
    ("v: float32 = const 1.0\nw: float32 = exp v v", "does not take"),
    ("v: int16 = index n", "does not take"),
    ("loop i < n\n  v: float64 = load x[i, 0]", "another type"),
    ("v: bool = const true\nloop i < n\n  store o[i, 0] = v", "another type"),
    ("v: float32 = const 1.0\nv: float32 = const 2.0", "given twice"),
    ("loop i < n\n  v: float32 = const 1.0\nloop i < n\n  w: float32 = const 1.0", "given twice"),
    ("loop i < n\n  v: float32 = const 1.0\nw: float32 = neg v", "not been made"),
    ("if 0 < n\n  v: float32 = const 1.0\nelse\n  w: float32 = neg v", "not been made"),
    ("v: float32<c.reg:2> = const 1.0\nw: float32 = neg v", "does not fit"),
    ("v: float32<c.reg:2> = const 1.0\nw: float32<c.reg:3> = neg v", "does not fit"),
    ("v: float32<c.lane:2, d.lane:2> = const 1.0", "lane parts"),
    ("v: float32<c.lane:2, d.reg:2> = const 1.0", "lane parts"),
    ("v: float32<c.reg:2, c.reg:2> = const 1.0", "a part twice"),
    ("v: float32 = const 1.0\nv add= v", "no accumulator"),
    ("a: float32 = acc 0.0\nv: float32<c.reg:2> = const 1.0\na add= v", "folded first"),
    ("a: float32<c.reg:2> = acc 0.0\nv: float32<c.reg:3> = const 1.0\na add= v", "another length"),
    ("a: float32<c.lane:4> = acc 0.0\nv: float32<c.lane:2> = const 1.0\na add= v", "another length"),
    ("a: float32 = acc 0.0\nv: float64 = const 1.0\na add= v", "differ in type"),
    ("a: float32 = acc 0.0\na fma= a", "other arguments"),
    ("a: float32 = acc 0.0\na div= a", "not an update"),
    ("a: float32 = acc 0.0\na dot2= a a", "differ in type"),
    ("a: float32 = acc 0.0\nv: int32 = const 1\na dot4= v v", "another type"),
    ("v: int32 = const 1\nw: int32 = dot2 v v", "does not take"),
    ("loop i < n\n  v: int32 = const 1\n  store x:int32[i, 0] = v", "another form"),
    ("loop i < n\n  v: float64 = load x:float64[i, 4]", "may leave"),
    ("a: float32<c.reg:2, d.reg:2> = acc 0.0\nv: float32 = fold add a over c.reg", "does not fit"),
    ("v: float32 = const 1.0\nw: float32 = scan add v from v", "no accumulator"),
    ("a: int32 = acc 0\nv: int32 = const 1\nw: int32 = scan logaddexp v from a", "not a scan"),
    ("a: float32 = acc 0.0\nv: float32<c.reg:2> = const 1.0\nw: float32<c.reg:2> = scan add v from a", "does not fit"),
    ("a: float32 = acc 0.0\nv: float32<c.reg:2> = const 1.0\nw: float32 = scan add v over c.reg from a", "not fit"),
    ("a: float64 = acc 0.0\nv: float32 = const 1.0\nw: float32 = scan add v from a", "does not fit"),
    ("v: int64 = const 1\nw: float32 = load v as h in 0 .. n of x[h, 0]", "may leave"),
    ("v: float32 = const 1.0\nw: float32 = load v as h in 0 .. n - 1 of x[h, 0]", "not an integer"),
    ("v: int64<c.reg:2> = const 1\nw: float32 = load v as h in 0 .. n - 1 of x[h, 0]", "does not fit"),
    ("v: int64 = const 1\nw: float32 = load v as v in 0 .. n - 1 of x[v, 0]", "given twice"),
    ("v: int64 = const 1\nw: float32 = load v as h in 0 .. n - 1 of x[h, 0]\nu: int64 = index h", "not known"),
    ("local t float32 [n] strides [1] offset 0", "no fixed size"),
    ("loop i < n\n  local t float32 [4] strides [1] offset 0", "inside a loop"),
    ("loop i < n\n  v: float32<c.reg:4> = const 1.0\n  store o[i, 0] = v", "share one place"),
]


@pytest.mark.parametrize(("body", "message"), BAD)
def test_refuses(body: str, message: str) -> None:
    with pytest.raises(InternalError, match=message):
        checked(body)


@pytest.mark.parametrize("fields", [{"kind": "warp"}, {"kind": "thread"}, {"extent": 3}, {"axis": "d"}])
def test_refuses_parts_that_are_none(fields: dict[str, Any]) -> None:
    part = make_part("c", "reg", 2)._replace(**fields)
    body: list[Statement] = [Compute(Value("v", float32, (part,)), "const", (), 1.0)]
    with pytest.raises(InternalError, match="is not a part"):
        verify(replace(parse_kernel(HEADER.format(tasks="1")), body=body))


GRIDS = [
    ("grid g < n\n  v: float32 = const 1.0\n  store o[g, 0] = v", "1", "the tasks are n"),
    ("loop i < n\n  grid g < n\n    v: float32 = const 1.0", "1", "not at the top level"),
    ("v: float32 = const 1.0\ngrid g < n\n  store o[n - 1, 0] = v", "n", "the same place"),
    (
        "v: float32 = const 1.0\ngrid g < n\n  store o[g, 0] = v\nloop i < n\n  store o[i, 1] = v",
        "n",
        "outside the grid",
    ),
    ("grid g < n\n  v: float32 = const 1.0\n  store o[0, g % 2] = v", "n", "the same place"),
    ("grid g < 8\n  v: float32 = const 1.0\n  if 0 < n\n    store o[0, g - g % 2] = v", "8", "the same place"),
    (
        "grid g < 8*n\n  let i in 0 .. n - 1 = g // 8\n  let j in 0 .. 7 = g % 8\n"
        "  v: float32 = const 1.0\n  store o[i, 0] = v",
        "8*n",
        "the same place",
    ),
    *(
        (
            "grid g < 32\n  let i in 0 .. 3 = g // 8\n  let j in 0 .. 7 = g % 8\n"
            f"  v: float32 = const 1.0\n  if 31 < n\n    store o[{place}] = v{mask}",
            "32",
            "the same place",
        )
        for mask in ("", " if j < 4")
        for place in ("i + j, 0", "7*i + j, 0", "2*i, j // 2", "j - i + 3, 0", "i*j, 0", "i*j, j")
    ),
]


@pytest.mark.parametrize(("body", "tasks", "message"), GRIDS)
def test_tasks_must_be_independent(body: str, tasks: str, message: str) -> None:
    with pytest.raises(InternalError, match=message):
        checked(body, tasks)


def test_a_grid_of_two_loops_is_accepted() -> None:
    body = "grid g < 8*n\n  let i in 0 .. n - 1 = g // 8\n  let j in 0 .. 7 = g % 8\n  v: float32 = const 1.0\n"
    checked(body + "  store o[i, j] = v", "8*n")


@pytest.mark.parametrize("index", ["8*i + j, 0", "i + 4*j, 0", "i + j, j", "i, 7 - j", "i + 28 - 4*j, 0", "9*i + j, 0"])
def test_shares_of_a_grid_that_an_index_tells_apart(index: str) -> None:
    body = "grid g < 32\n  let i in 0 .. 3 = g // 8\n  let j in 0 .. 7 = g % 8\n  v: float32 = const 1.0\n"
    checked(f"{body}  if 39 < n\n    store o[{index}] = v", "32")


def test_one_wrong_line_in_a_real_kernel_is_found() -> None:
    schedule = "split m (3 reg); split n (4 lane); split k (4 loop); order k.0 m.0 n.0 k.1; stage B at k.0 (k, n)"
    text = print_kernel(lower(r.matmul().region, parse_schedule(schedule)))
    verify(parse_kernel(text))
    for old, new in (
        ("i7 < 2", "i7 < 9"),
        ("i3 < q1", "i3 < q1 + 1"),
        ("m.reg:3", "m.reg:5"),
        ("load A[", "load A[1 + "),
    ):
        assert old in text
        with pytest.raises(InternalError):
            verify(parse_kernel(text.replace(old, new)))


@pytest.mark.parametrize(
    ("expression", "holds"), [("5 - i % 7 * 2 // 3 - j // 4", True), ("3 - i % 7 * 2 // 3", False)]
)
def test_small_ranges_are_tried_out(expression: str, holds: bool) -> None:
    variables = {"i": variable("i", 0, 60), "j": variable("j", 0, 7)}
    assert implied(parse_index(expression, variables), ()) is holds
    below = (Less(variables["i"] % 7, as_index(5)),)
    assert implied(parse_index(expression, variables), below)


def test_conditions_on_quotients_by_symbolic_numbers() -> None:
    n, i = variable("n", 1, 100_000), variable("i", 0, 1_000_000)
    below = (Less(i, 5 * n),)
    assert implied(4 - i // n, below)
    assert not implied(3 - i // n, below)


def test_conditions_on_several_variables() -> None:
    i, j, k, start = (variable(name, 0, last) for name, last in (("i", 9), ("j", 9), ("k", 2), ("s", 224)))
    index = i - 2 + 8 * (j - 1) + 56 * (k - 2) + start
    conditions = (Less(as_index(1), i), Less(as_index(0), j), Less(as_index(1), k), Less(j, as_index(8)))
    assert implied(index, conditions)
    assert implied(279 - index, conditions)
    assert not implied(278 - index, conditions)
    assert not implied(index, conditions[1:])


def test_conditions_on_rows_and_columns_of_symbolic_matrices() -> None:
    m, n = variable("m", 1, 4096), variable("n", 1, 1000)
    batch, row, column = variable("b", 0, 5), variable("r", 0, 8191), variable("c", 0, 2047)
    left = 6 * m * n - 1 - (m * n * batch + n * row + column)
    inside = (Less(row, m), Less(column, n))
    assert implied(left, inside)
    assert not implied(left - 1, inside)
    assert not implied(left, inside[:1])
    assert not implied(left, inside[1:])


def test_conditions_on_rows_and_columns_of_matrices() -> None:
    batch, panel, row, column = (variable(n, 0, last) for n, last in (("b", 7), ("p", 2), ("r", 63), ("c", 191)))
    left = 8 * 130 * 130 - 1 - (16900 * batch + 130 * (64 * panel + row) + column)
    inside = (Less(64 * panel + row, as_index(130)), Less(column, as_index(130)))
    assert implied(left, inside)
    assert not implied(left - 1, inside)
    assert not implied(left, inside[:1])
    assert not implied(left, inside[1:])

"""The interpreter notices what a correct kernel never does, and rounds as stores do."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.dtypes import float16
from smelt.errors import InternalError
from smelt.kernel import interpret, parse_kernel
from tests.kernel import regions as r
from tests.kernel.runners import evaluate_region

COPY = """kernel k tasks 1
parameter n in 0 .. 100
argument o float32 [n] strides [1] offset 0
argument x float32 [n] strides [1] offset 0
"""


def run(body: str, n: int = 4, *, x: list[float] | None = None) -> list[float]:
    arrays = {"o": np.zeros(n, np.float32), "x": np.array(x or [1.0] * n, np.float32)}
    interpret(parse_kernel(COPY + body), arrays, {"n": n})
    return [float(value) for value in arrays["o"]]


def test_accesses_outside_a_buffer_are_errors() -> None:
    with pytest.raises(InternalError, match="leaves"):
        run("loop i < n\n  v: float32 = load x[i + 1]\n  store o[i] = v")
    with pytest.raises(InternalError, match="leaves"):
        run("loop i < n\n  v: float32 = load x[i]\n  store o[i - 1] = v")


def test_masked_elements_are_zero_and_touch_nothing() -> None:
    body = "v: float32<i.lane:8> = load x[i.lane] if i.lane < n & 0 < i.lane\nstore o[i.lane] = v if i.lane < n"
    assert run(body) == [0.0, 1.0, 1.0, 1.0]


def test_local_memory_starts_poisoned() -> None:
    body = "local t float32 [4] strides [1] offset 0\nv: float32<i.lane:4> = load t[i.lane]\nstore o[i.lane] = v"
    assert np.isnan(run(body)).all()


def test_a_short_tile_updates_the_first_elements() -> None:
    body = "a: float32<i.reg:4> = acc 2.0\nv: float32<i.reg:2> = load x[i.reg]\na add= v\na mul= a\nstore o[i.reg] = a"
    assert run(body) == [9.0, 9.0, 4.0, 4.0]


def test_fma_sums_the_parts_that_the_accumulator_lacks() -> None:
    body = (
        "a: float32<i.reg:2> = acc 0.0\nv: float32<i.reg:2, k.reg:2> = load x[2*i.reg + k.reg]\n"
        "w: float32<k.reg:2> = load x[k.reg]\na fma= v w\nstore o[i.reg] = a"
    )
    assert run(body, x=[1.0, 2.0, 3.0, 4.0]) == [5.0, 11.0, 0.0, 0.0]


def test_conditions_choose_a_body() -> None:
    body = (
        "v: float32 = const 7.0\nw: float32 = const 8.0\nloop i < n\n  if i < 2\n    store o[i] = v\n"
        "  else\n    store o[i] = w"
    )
    assert run(body) == [7.0, 7.0, 8.0, 8.0]


def test_the_reference_rounds_what_it_stores() -> None:
    i = r.axis("i", 2)
    x, o = r.buffer("x", 2), r.buffer("o", 2, dtype=float16)
    case = r.Case(r.region(r.out(o, [i], r.op("add", r.load(x, i), 2048.0)), [i]))
    arrays = {"x": np.array([1.0, 3.0], np.float32), "o": np.zeros(2, np.float16)}
    evaluate_region(case.region, arrays, {})
    assert list(arrays["o"]) == [2048.0, 2052.0]  # halfway cases go to even


def test_arguments_are_checked() -> None:
    case = r.elementwise(4)
    arrays = case.arrays()
    arrays["x"] = arrays["x"].astype(np.float64)
    with pytest.raises(InternalError, match="x needs"):
        interpret(parse_kernel(COPY + "v: float32 = const 0.0"), {"o": arrays["o"], "x": arrays["x"]}, {"n": 4})

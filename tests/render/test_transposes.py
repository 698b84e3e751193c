"""Loads with lanes across the rows of memory: whole squares are transposed in registers."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.dtypes import float64, int16
from smelt.kernel import Kernel, lower, parse_schedule
from smelt.render import render
from tests.kernel import regions as r
from tests.kernel.regions import Case
from tests.kernel.runners import evaluate_region, run_compiled


def staged(n: int, k: int, lanes: int, registers: int = 1) -> tuple[Case, Kernel]:
    case = r.matmul(4, n, k, transposed=True)
    block = registers * lanes
    order = f"(n/{block}, k, n%{block})" if registers > 1 else "(k, n)"
    cut = f"{registers} reg, {lanes} lane" if registers > 1 else f"{lanes} lane"
    return case, lower(
        case.region, parse_schedule(f"split n ({cut})\norder n.0 m.0\nstage B at n.0 {order}\ntranspose")
    )


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("registers", [1, 2])
@pytest.mark.by_turns(3)
def test_squares_and_what_is_left_over(lanes: int, registers: int) -> None:
    jobs, expected = [], []
    for n, k in ((lanes, lanes), (2 * lanes * registers, 3 * lanes), (3 * lanes + 1, 2 * lanes + 3), (lanes - 1, 5)):
        case, kernel = staged(n, k, lanes, registers)
        if n >= lanes <= k:
            text = render([kernel])
            assert f"transposed_f32x{lanes}(" in text
            # Squares with too few rows have zeros in place of the others.
            assert ("masked_transposed_" in text) == (n % lanes != 0)
        jobs.append((kernel, case.arrays(), {}))
        expected.append(case.arrays())
        evaluate_region(case.region, expected[-1], {})
    run_compiled(jobs)
    for (_, arrays, _), wanted in zip(jobs, expected, strict=True):
        np.testing.assert_allclose(arrays["o"], wanted["o"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("said", ["transpose", ""])
@pytest.mark.parametrize("dtype", [float64, int16], ids=str)
def test_other_widths_and_where_nobody_says_so(dtype: r.DType, said: str) -> None:
    i, j = r.axis("i", 16), r.axis("j", 16)
    x = r.load(r.buffer("x", 16, 16, dtype=dtype), j, i)
    case = Case(r.region(r.out(r.buffer("o", 16, 16, dtype=dtype), [i, j], x), [i, j]))
    kernel = lower(case.region, parse_schedule(f"split i (8 reg)\nsplit j (8 lane)\n{said}"))
    assert ("transposed_" in render([kernel])) == bool(said)
    arrays = case.arrays()
    run_compiled([(kernel, arrays, {})])
    np.testing.assert_array_equal(arrays["o"].reshape(16, 16), arrays["x"].reshape(16, 16).T)

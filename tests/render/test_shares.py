"""Loops of products whose sums need more registers than there are: run once for each share of them."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.kernel import lower, parse_schedule
from smelt.render import render
from tests.kernel import regions as r
from tests.kernel.runners import evaluate_region, run_compiled


@pytest.mark.parametrize(
    ("registers", "loops"), [(0, 1), (2, 1), (3, 6), (8, 3), (9, 2), (17, 2), (18, 1), (100, 1)], ids=str
)
def test_a_loop_runs_once_for_each_share_that_fits(registers: int, loops: int) -> None:
    case = r.matmul(3, 24, 7)
    said = f"; shares {registers}" if registers else ""
    kernel = lower(case.region, parse_schedule(f"split m (3 reg); split n (6 reg, 4 lane){said}"))
    assert render([kernel]).count("for (long") == loops
    arrays, wanted = case.arrays(), case.arrays()
    evaluate_region(case.region, wanted, {})
    run_compiled([(kernel, arrays, {})])
    np.testing.assert_allclose(arrays["o"], wanted["o"], rtol=1e-4, atol=1e-4)

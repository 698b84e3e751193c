"""Medians beside infinities."""

from __future__ import annotations

import numpy as np
import pytest

import smelt as sm

INF = np.inf
ROWS = [[1, INF], [INF, INF], [-INF, INF], [-INF, -INF], [-INF, 2], [1, 2, INF, INF], [1, INF, INF], [6e4, 6.4e4]]


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_median_is_the_mean_of_the_middle_two(row: list[float], dtype: str) -> None:
    values = np.array(row, dtype)
    with np.errstate(all="ignore"):
        expected = np.median(values)
    np.testing.assert_array_equal(sm.median(sm.asarray(values)).numpy(), expected)
    np.testing.assert_array_equal(sm.nanmedian(sm.asarray(np.array([*row, np.nan], dtype))).numpy(), expected)

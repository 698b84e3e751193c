"""Folds whose results depend on how they are computed."""

from __future__ import annotations

import pytest

import smelt as sm


def test_deviations_of_large_integers_are_those_of_small_ones() -> None:
    times = sm.asarray([1700000001, 1700000003, 1700000005])
    assert times.mean().dtype is sm.float32
    assert float(times.var()) == pytest.approx(8 / 3)
    assert float(times.std()) == pytest.approx((8 / 3) ** 0.5)
    assert float(times.mean()) == float(sm.asarray(1700000003).astype(sm.float32))

"""Gathered rows are asked for ahead where that can pay, and only there."""

from __future__ import annotations

import numpy as np
import pytest

import smelt as sm

rng = np.random.default_rng(5)


def source(function: object, *arguments: sm.Tensor) -> str:
    return str(sm.explain(function, *arguments))


def table(rows: int, *row: int) -> sm.Tensor:
    return sm.from_numpy(rng.standard_normal((rows, *row), dtype=np.float32))


def places(rows: int, *shape: int) -> sm.Tensor:
    return sm.from_numpy(rng.integers(0, rows, shape))


def test_rows_of_a_large_table_are_asked_for_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    text = source(lambda x, i: sm.take(x, i, axis=0), table(10_000, 64), places(10_000, 500))
    assert text.count("__builtin_prefetch") == 4  # 256 bytes
    capsys.readouterr()


def test_those_of_a_small_table_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    text = source(lambda x, i: sm.take(x, i, axis=0), table(1000, 64), places(1000, 500))
    assert "__builtin_prefetch" not in text
    capsys.readouterr()


def test_results_near_the_end_of_the_indices() -> None:
    x = table(70_000, 7)
    for count in (0, 1, 7, 8, 9, 1000):
        i = places(70_000, count, 2)
        np.testing.assert_array_equal(sm.take(x, i, axis=0).numpy(), x.numpy()[i.numpy()])
        np.testing.assert_array_equal((x[i] + 1).numpy(), x.numpy()[i.numpy()] + 1)

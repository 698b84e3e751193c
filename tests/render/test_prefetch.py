"""Memory that is walked through once is asked for a page ahead, gathered rows some iterations, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import smelt as sm

rng = np.random.default_rng(6)


def asked(function: Callable[..., sm.Tensor], *shapes: tuple[int, ...]) -> int:
    """How many lines the kernels of a function ask for."""
    inputs = [sm.from_numpy(rng.standard_normal(shape, dtype=np.float32)) for shape in shapes]
    text = str(sm.explain(function, *inputs))
    return text[text.index("=== source") :].count("__builtin_prefetch")


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x: x.sum(1), [(64, 10_000)]),  # long rows: along the row
        (lambda x: x.sum(1), [(4000, 100)]),  # short rows: along the rows
        (lambda x: x.sum(0), [(4000, 1024)]),  # down the columns
        (lambda x: x + 1, [(300, 1024)]),  # the result, too
        (lambda x, w: x @ w, [(1, 1024), (1024, 1024)]),
        (lambda x: sm.softmax(x, axis=1), [(700, 1000)]),
    ],
    ids=["rows", "short rows", "columns", "elementwise", "matrix-vector", "softmax"],
)
def test_what_is_walked_through_is_asked_for(
    function: Callable[..., sm.Tensor], shapes: list[tuple[int, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(function, *shapes) > 0
    capsys.readouterr()


def test_what_the_caches_hold_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(lambda x: x.sum(1), (64, 1000)) == 0
    capsys.readouterr()


def test_a_buffer_is_asked_for_once(capsys: pytest.CaptureFixture[str]) -> None:
    text = str(sm.explain(lambda x: sm.softmax(x, axis=1), sm.zeros((700, 1024))))
    loops = text[text.rindex("void ") :].split("for (long")
    assert sum("__builtin_prefetch" in loop and ", 1)" not in loop for loop in loops) == 1  # of the three over a row
    capsys.readouterr()


@pytest.mark.parametrize("shape", [(1, 300_007), (300_007, 1), (577, 577), (70_001, 5), (3, 5, 20_011)])
def test_results_at_the_ends(shape: tuple[int, ...]) -> None:
    x = rng.standard_normal(shape, dtype=np.float32)
    y = sm.from_numpy(x)
    for axis in range(x.ndim):
        np.testing.assert_allclose(y.sum(axis).numpy(), x.sum(axis, dtype=np.float64), rtol=1e-3, atol=1e-2)
    np.testing.assert_array_equal((y + 1).numpy(), x + 1)


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

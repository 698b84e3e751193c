"""Memory of graphs with dims: a call takes what its own sizes need, whatever the dims' bounds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.config import configure
from smelt.plan import Home, assign_sized

WIDTH = 8


def scores(x: sm.Tensor) -> sm.Tensor:
    """Its intermediate has the square of the dim."""
    weights = sm.sort(x @ x.mT, axis=1)
    return weights / weights.sum(0)


def parts(x: sm.Tensor) -> sm.Tensor:
    """One intermediate is written by two launches."""
    return sm.sort(sm.concat([sm.sort(x, axis=0), x.cumsum(0) * 0.5], axis=1), axis=0).cumsum(0)


def looped(x: sm.Tensor) -> sm.Tensor:
    """The memory of a body lies beside what moves."""
    total, _ = sm.scan(lambda total, row: (total + row, total.sum()), sm.sort(x, axis=0)[0], sm.sort(x, axis=1))
    return sm.sort(x, axis=1).cumsum(0) + total


def numbers(rows: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(rows).standard_normal((rows, WIDTH)).astype(np.float32)


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("function", [scores, parts, looped])
def test_one_graph_serves_every_size(function: Callable[[sm.Tensor], sm.Tensor], tmp_path: Path) -> None:
    n = sm.Dim("n", 1, 100_000)
    with configure(cache_dir=tmp_path):
        for _ in range(2):  # the second time it comes from the disk
            runtime.current().clear_caches()
            jitted = sm.jit(function, shapes=[(n, WIDTH)])
            for rows in (70, 3, 300, 71):
                x = sm.asarray(numbers(rows))
                np.testing.assert_allclose(jitted(x).numpy(), function(x).numpy(), rtol=1e-4, atol=1e-5)


def test_memory_is_that_of_the_call() -> None:
    n = sm.Dim("n", 1, 1 << 20)  # its square would be four terabytes
    jitted = sm.jit(scores, shapes=[(n, WIDTH)])
    x = sm.asarray(numbers(100))
    assert jitted(x).shape == (100, 100)
    needed = 4 * 100 * 100
    assert needed <= jitted.memory(x).intermediates < 10 * needed
    assert jitted.memory(sm.asarray(numbers(10))).intermediates < jitted.memory(x).intermediates


def test_sizes_that_are_alike_share_an_arrangement() -> None:
    n = sm.Dim("n", 1, 1 << 20)
    jitted = sm.jit(scores, shapes=[(n, WIDTH)])
    plans = {jitted.memory(sm.asarray(numbers(rows))).intermediates for rows in range(1000, 1025)}
    assert len(plans) == 1


def test_a_home_is_large_enough_for_all_who_live_there() -> None:
    a, b = sm.Dim("a", 1, 1000), sm.Dim("b", 1, 1000)
    homes = [Home((a * 64, b * 64), 0, 2), Home((a * 64,), 1, 3), Home((128,), 4, 5)]
    offsets, nbytes = assign_sized(homes, {"a": 1, "b": 10})
    assert offsets == [0, 640, 0]
    assert nbytes == 704

"""Where the first extreme value is: by blocks in one kernel, or in the kernel that makes the values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.transform.explain import examine

RNG = np.random.default_rng(5)
LONG = 1 << 13  # elements of a row that is searched by blocks


def drawn(dtype: Any, rows: int, size: int) -> np.ndarray[Any, Any]:
    """Many equal values; a row of infinities, and rows with NaN, where there are such."""
    x = RNG.integers(-40, 40, (rows, size)).astype(dtype)
    if x.dtype.kind == "f":
        x[1 % rows, size // 3 :] = np.nan
        x[2 % rows], x[3 % rows] = -np.inf, np.inf
    return x


@pytest.mark.parametrize(("rows", "kernels"), [(64, 1), (5, 2), (1, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.by_turns(4)
def test_long_rows_are_searched_by_blocks(name: str, dtype: Any, rows: int, kernels: int) -> None:
    x = drawn(dtype, rows, LONG * (64 // rows))
    given = sm.asarray(x)
    function = getattr(sm, name)
    found = examine(lambda x: function(x, -1), given).kernels
    assert len(found) == kernels
    assert "online" in found[0].schedule
    np.testing.assert_array_equal(sm.jit(lambda x: function(x, -1))(given).numpy(), getattr(np, name)(x, -1))


def test_rows_that_do_not_divide_are_searched_as_they_are() -> None:
    x = drawn(np.float32, 70, 4099)
    given = sm.asarray(x)
    [kernel] = examine(lambda x: x.argmax(1), given).kernels
    assert "online" not in kernel.schedule
    np.testing.assert_array_equal(given.argmax(1).numpy(), x.argmax(1))


def test_a_mean_of_places_is_no_place() -> None:
    x = RNG.standard_normal((64, LONG)).astype(np.float32)

    def mean(x: sm.Tensor) -> sm.Tensor:
        return (sm.exp(x - x.max(1, keepdims=True)) * sm.arange(LONG, dtype=sm.float32)).sum(1)

    expected = (np.exp(x.astype(float) - x.max(1, keepdims=True)) * np.arange(LONG)).sum(1)
    np.testing.assert_allclose(sm.jit(mean)(sm.asarray(x)).numpy(), expected, rtol=1e-4)


def test_the_maximum_may_be_asked_for_as_well() -> None:
    x = drawn(np.int32, 64, LONG)

    def both(x: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        return x.max(1), x.argmax(1)

    largest, place = sm.jit(both)(sm.asarray(x))
    np.testing.assert_array_equal(largest.numpy(), x.max(1))
    np.testing.assert_array_equal(place.numpy(), x.argmax(1))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_nearest_of_many_stores_no_distances(name: str) -> None:
    points, centers = (RNG.integers(-9, 9, shape).astype(np.float32) for shape in ((3, 90, 8), (3, 200, 8)))

    def nearest(points: sm.Tensor, centers: sm.Tensor) -> sm.Tensor:
        return getattr(sm, name)((centers * centers).sum(-1)[:, None, :] - 2.0 * (points @ centers.mT), -1)

    given = sm.asarray(points), sm.asarray(centers)
    kernels = examine(nearest, *given).kernels
    assert len(kernels) == 2  # the first sums the squares of the centers
    assert "online" in kernels[-1].schedule
    distances = (centers * centers).sum(-1)[:, None, :] - 2.0 * (points @ centers.swapaxes(1, 2))
    np.testing.assert_array_equal(sm.jit(nearest)(*given).numpy(), getattr(np, name)(distances, -1))

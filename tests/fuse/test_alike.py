"""Groups that are alike share a region: layers whose slices start elsewhere, and that read by index, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.compiler import driver
from smelt.config import configure


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The groups whose regions are built."""
    groups: list[Any] = []
    original = driver.build_region

    def counted(group: Any, *rest: Any) -> Any:
        groups.append(group)
        return original(group, *rest)

    monkeypatch.setattr(driver, "build_region", counted)
    with configure(disk_cache=False), runtime.using(runtime.Runtime()):
        yield groups


def test_slices_that_start_elsewhere(built: list[Any]) -> None:
    """Each product is a kernel with two starts, of which now the one and now the other comes first."""

    @sm.jit
    def multiplied(x: sm.Tensor, total: sm.Tensor) -> sm.Tensor:
        x = sm.sort(x, axis=0)  # stored: what slices an argument is an argument itself
        for k in range(10):
            total = (x[k : k + 5] - 2 * x[9 - k : 14 - k]) @ total
        return total

    x, total = np.random.default_rng(0).standard_normal((14, 5)).astype(np.float32), np.ones(5, np.float32)
    found = multiplied(sm.asarray(x), sm.asarray(total)).numpy()
    x = np.sort(x, axis=0)
    for k in range(10):
        total = (x[k : k + 5] - 2 * x[9 - k : 14 - k]) @ total
    np.testing.assert_allclose(found, total, rtol=1e-4)
    assert len(built) <= 4  # the nodes of some are met in another order


def test_layers_that_read_by_index(built: list[Any]) -> None:
    @sm.jit
    def layers(x: sm.Tensor, tables: list[sm.Tensor], at: sm.Tensor) -> sm.Tensor:
        for table in tables:
            x = (x @ table[at, 2:6]).tanh() * x.sum(-1, keepdims=True)
        return x

    rng = np.random.default_rng(1)
    x, at = rng.standard_normal((3, 4)).astype(np.float32), np.array([3, 0, 2, 1], np.int32)
    tables = [rng.standard_normal((5, 7)).astype(np.float32) for _ in range(6)]
    found = layers(sm.asarray(x), [sm.asarray(table) for table in tables], sm.asarray(at)).numpy()
    for table in tables:
        x = np.tanh(x @ table[at, 2:6]) * x.sum(-1, keepdims=True)
    np.testing.assert_allclose(found, x, rtol=1e-4, atol=1e-4)
    assert len(built) <= 6  # the first layer may be another one


def test_indices_of_different_ranges_are_not_alike(built: list[Any]) -> None:
    """What may lie outside is moved inside, what cannot is read as it is."""

    @sm.jit
    def picked(x: sm.Tensor, at: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        return x[at & 3].exp(), x[at].exp()

    x = np.arange(5, dtype=np.float32)
    inside, anywhere = picked(sm.asarray(x), sm.asarray(np.array([6, 1, 4], np.int32)) % 5)
    np.testing.assert_allclose(inside.numpy(), np.exp(x[[1, 1, 0]]), rtol=1e-6)
    np.testing.assert_allclose(anywhere.numpy(), np.exp(x[[1, 1, 4]]), rtol=1e-6)

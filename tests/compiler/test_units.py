"""Kernels are shared where they can be, and compiled in units while others are still being made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.compiler import units
from smelt.config import configure
from smelt.plan import CompiledGraph


def compiled(function: Any, *args: Any) -> CompiledGraph:
    """A graph that went through every stage."""
    runtime.current().clear_caches()
    with configure(disk_cache=False):
        return runtime.current().compiler.compile(*sm.jit(function).graph_key(*args))


def sliced(x: sm.Tensor, weights: list[sm.Tensor]) -> sm.Tensor:
    """Layers that read a computed value at three places each: the starts are integers of the call."""
    for w in weights:
        h = x @ w
        x = h[:, 3:19] * h[:, 23:39].exp() - h[:, 5:21]
    return x


@pytest.mark.parametrize("layers", [2, 4, 12])
def test_layers_share_their_kernels(layers: int) -> None:
    """Also the layer whose slices are number 9, 10 and 11: by their letters they come in another order."""
    weights = [sm.full((16, 40), 1.0 + k) for k in range(layers)]
    graph = compiled(sliced, sm.ones((4, 16)), weights)
    assert len({kernel.name for kernel in graph.kernels}) == 2
    assert len(graph.kernels) == 2 * layers


def test_what_a_kernel_reads_is_named_by_its_use() -> None:
    """Of the last difference, what is subtracted becomes known first."""
    values = [sm.full((50,), float(k)) for k in range(4)]
    graph = compiled(lambda a, b, c, d: (a.abs() - b.abs(), d.abs() * 3, c.abs() - d.abs()), *values)
    names = [kernel.name for kernel in graph.kernels if "sub" in kernel.nodes]
    assert len(names) == 2
    assert len(set(names)) == 1


def test_units_are_given_away_as_they_fill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel in a unit of its own, all of them at work."""
    monkeypatch.setattr(units, "UNIT_LINES", 1)
    x = np.linspace(-1, 1, 60, dtype=np.float32).reshape(6, 10)

    def function(x: sm.Tensor) -> tuple[sm.Tensor, ...]:
        y = x @ x.T
        return y, y.sum(0), (y * 2).max(1), sm.cumsum(y, 1)

    graph = compiled(function, sm.asarray(x))
    assert len({kernel.name for kernel in graph.kernels}) == len(graph.kernels)
    y = x @ x.T
    runtime.current().clear_caches()
    for found, wanted in zip(sm.jit(function)(sm.asarray(x)), (y, y.sum(0), (y * 2).max(1), y.cumsum(1)), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_cores_that_wait_get_their_first_units_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "FIRST_LINES", 1)
    given: list[int] = []
    give = units.Units._give

    def noted(self: units.Units, part: list[Any]) -> None:
        given.append(len(part))
        give(self, part)

    monkeypatch.setattr(units.Units, "_give", noted)
    cores = runtime.common_device([]).profile.cores

    def function(x: sm.Tensor) -> list[sm.Tensor]:
        sums = [x]
        for k in range(cores + 5):  # sums of different shapes, each a kernel of its own
            sums.append(sums[-1].sum(-1)[None] * sm.ones((k + 2, 1)))
        return sums

    compiled(function, sm.ones((2, 3)))
    assert given[:cores] == [1] * cores
    assert max(given[cores:]) > 1


def test_a_broken_stage_stops_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "UNIT_LINES", 1)

    def broken(self: units.Units) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(units.Units, "finish", broken)
        with pytest.raises(ZeroDivisionError):
            compiled(lambda x: (x * 3).sum(), sm.ones((7, 7)))
    assert compiled(lambda x: (x * 3).sum(), sm.ones((7, 7))).kernels

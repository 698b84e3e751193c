"""Many steps: nothing is compiled again, and nothing is left behind."""

from __future__ import annotations

import gc
import resource
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.graph.node import live_nodes

N = sm.Dim("n", 1, 64)


class Training:
    """A network with batch norm and dropout, whose compiled step counts its traces."""

    def __init__(self, **options: Any) -> None:
        sm.random.seed(0)
        layers = (sm.nn.Linear(6, 16), sm.nn.BatchNorm1d(16), sm.nn.ReLU(), sm.nn.Dropout(0.1), sm.nn.Linear(16, 3))
        self.model = sm.nn.Sequential(*layers)
        self.optimizer = sm.optim.AdamW(lr=sm.optim.schedules.cosine(1e-2, 1000))
        self.state = self.optimizer.init(self.model)
        self.traces: list[int] = []
        self.step = sm.jit(self._step, **options)

    def _step(self, model: Any, state: Any, x: sm.Tensor, y: sm.Tensor) -> Any:
        self.traces.append(1)
        loss, slopes = sm.value_and_grad(lambda m: sm.nn.losses.cross_entropy(m(x), y))(model)
        return (*self.optimizer.update(model, slopes, state), loss)

    def run(self, sizes: list[int], seed: int = 0) -> list[float]:
        generator, losses = np.random.default_rng(seed), []
        for size in sizes:
            x = generator.standard_normal((size, 6), dtype=np.float32)
            batch = sm.asarray(x), sm.asarray(x[:, :3].argmax(1))
            self.model, self.state, loss = self.step(self.model, self.state, *batch)
            losses.append(float(loss))
        return losses


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_contents_change_and_nothing_else(count: int) -> None:
    training = Training(donate=(0, 1))
    first = training.run([32] * 200)
    gc.collect()
    nodes, graphs, memory = (
        live_nodes(),
        len(runtime.current().graphs),
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    )
    losses = training.run([32] * count, seed=1)
    gc.collect()
    assert len(training.traces) == 1
    assert len(runtime.current().graphs) == graphs
    assert live_nodes() <= nodes + 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 16 << 10  # kilobytes
    assert np.mean(losses[-50:]) < np.mean(first[:50]) / 2


def test_a_smaller_last_batch_costs_one_trace() -> None:
    training = Training(donate=(0, 1))
    for epoch in range(3):
        training.run([32, 32, 32, 7], seed=epoch)
    assert len(training.traces) == 2


def test_a_symbolic_batch_costs_none() -> None:
    training = Training(shapes=[None, None, (N, 6), (N,)])
    training.run([32, 32, 7, 1 + 1, 31])
    assert len(training.traces) == 1

"""Optimizers as chains of steps: what they update, what they leave alone, and under which transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError
from smelt.transform.waiting import take_waiting


def test_a_rate_that_is_set_later_is_seen() -> None:
    optimizer = sm.optim.SGD(lr=0.5)

    @sm.jit
    def step(x: sm.Tensor, state: Any) -> Any:
        return optimizer.update(x, sm.ones(2), state)

    x = sm.zeros(2)
    state = optimizer.init(x)
    assert step(x, state)[0].tolist() == [-0.5, -0.5]
    optimizer.lr = 2.0
    assert step(x, state)[0].tolist() == [-2.0, -2.0]


def test_a_schedule_is_a_function_of_updates_done() -> None:
    optimizer = sm.optim.SGD(lr=lambda done: 1.0 / (1 + done))
    x = sm.zeros(1)
    state = optimizer.init(x)
    seen = []
    for _ in range(3):
        x, state = optimizer.update(x, sm.ones(1), state)
        seen.append(round(float(x[0]), 4))
    assert seen == [-1.0, -1.5, -1.8333]


def test_the_loss_is_computed_with_the_update() -> None:
    """Outside of jit there is one graph for both: nothing is left to compute when the loss is asked for."""
    take_waiting()
    optimizer = sm.optim.Adam(lr=0.1)
    x = sm.asarray([1.0, 2.0])
    loss, slope = sm.value_and_grad(lambda x: x.square().sum())(x)
    assert "lazy" in repr(loss)
    optimizer.update(x, slope, optimizer.init(x))
    assert "lazy" not in repr(loss)
    assert float(loss) == 5.0


@pytest.mark.parametrize("make", [sm.optim.SGD, sm.optim.Adam, sm.optim.AdamW])
def test_with_and_without_jit(make: Any) -> None:
    sm.random.seed(0)
    optimizer = sm.optim.chain(sm.optim.ClipNorm(0.5), make(lr=0.05))
    first = sm.nn.Sequential(sm.nn.Linear(3, 4), sm.tanh, sm.nn.Linear(4, 1))
    x = sm.random.normal((8, 3))

    def step(model: Any, state: Any) -> Any:
        loss, slopes = sm.value_and_grad(lambda m: m(x).square().sum())(model)
        return (*optimizer.update(model, slopes, state), loss)

    compiled = sm.jit(step, donate=(0, 1))
    plain, own = first, first.copy().map(lambda t: sm.asarray(t.numpy(), copy=True))
    states = [optimizer.init(first), optimizer.init(first)]
    for _ in range(5):
        plain, states[0], loss = step(plain, states[0])
        own, states[1], same = compiled(own, states[1])
        assert float(loss) == float(same)
    for a, b in zip(plain.parameters(), own.parameters(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_mistakes() -> None:
    x = sm.ones(2)
    with pytest.raises(ArgumentError, match="lr is -1"):
        sm.optim.SGD(lr=-1)
    with pytest.raises(ArgumentError, match="nothing to update"):
        sm.optim.SGD().init(sm.nn.Linear(2, 2).freeze())
    with pytest.raises(ArgumentError, match="the structure is dict"):
        optimizer = sm.optim.SGD()
        optimizer.update(x, {"x": x}, optimizer.init(x))
    with pytest.raises(ArgumentError, match="must be an optimizer"):
        sm.optim.chain(sm.optim.ClipNorm(1.0))
    with pytest.raises(ArgumentError, match="not a step"):
        sm.optim.Optimizer(3, lr=0.1)  # type: ignore[arg-type]


def test_optimizers_say_what_they_are() -> None:
    assert repr(sm.optim.SGD(lr=0.1)) == "SGD(lr=0.1)"
    assert repr(sm.optim.Adam(lr=sm.optim.schedules.cosine(0.1, 10))) == "Adam(AdamMoments, lr=a schedule)"

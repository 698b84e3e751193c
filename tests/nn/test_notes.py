"""Tensors that a call of a module keeps for later: `self.last = h`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm

X = sm.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))


class Net(sm.nn.Module):
    def __init__(self) -> None:
        self.body = sm.nn.Linear(3, 3)
        self.head = sm.nn.Linear(3, 1)

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        hidden = self.body(x).tanh()
        self.last = hidden
        self.all = [hidden, {"mean": hidden.mean()}]
        return self.head(hidden)


def hidden(model: Any) -> Any:
    return model.body(X).tanh().numpy()


def test_what_a_call_keeps_is_no_parameter_and_is_not_saved(tmp_path: Path) -> None:
    sm.random.seed(0)
    model = Net()
    before = [name for name, _ in model.named_parameters()]
    model(X)
    np.testing.assert_allclose(model.last.numpy(), hidden(model))
    assert [name for name, _ in model.named_parameters()] == before == list(model.state_dict())
    assert list(model.named_buffers()) == [] and model.summary().splitlines()[-1].startswith("16 parameters")
    sm.save(model, tmp_path / "net.safetensors")
    fresh = sm.load(Net(), tmp_path / "net.safetensors")
    again = sm.load(model, tmp_path / "net.safetensors")
    assert (fresh(X) == model(X)).all() and (again.last == model.last).all()


@pytest.mark.parametrize("jitted", [False, True])
def test_a_training_step_goes_on_with_what_calls_keep(jitted: bool) -> None:
    sm.random.seed(0)
    model, opt, ema = Net(), sm.optim.AdamW(lr=1e-2, weight_decay=0.5), sm.optim.EMA(0.5)
    traces = []

    def step(model: Net, state: Any, average: Any) -> tuple[Net, Any, Any, Any]:
        traces.append(0)
        loss, gradients = sm.value_and_grad(lambda model: (model(X) ** 2).mean())(model)
        model, state = opt.update(model, gradients, state)
        return model, state, ema.update(average, model), loss

    run = sm.jit(step) if jitted else step
    state, average, losses = opt.init(model), ema.init(model), []
    for _ in range(5):
        expected = hidden(model)
        model, state, average, loss = run(model, state, average)
        losses.append(float(loss))
        np.testing.assert_allclose(model.last.numpy(), expected, rtol=1e-5)
    assert losses == sorted(losses, reverse=True)
    assert len(traces) == (2 if jitted else 5)  # with and without a value from the call before


def test_a_parameter_may_be_made_in_the_first_call_where_init_has_left_room() -> None:
    class Lazy(sm.nn.Module):
        def __init__(self) -> None:
            self.weight: sm.Tensor | None = None

        def __call__(self, x: sm.Tensor) -> sm.Tensor:
            if self.weight is None:
                self.weight = sm.random.normal((x.shape[-1], 2))
            return x @ self.weight

    model = Lazy()
    model(X)
    assert [name for name, _ in model.named_parameters()] == ["weight"]


def test_tensors_without_floats_are_buffers() -> None:
    class Table(sm.nn.Module):
        def __init__(self) -> None:
            self.weight = sm.ones(3)
            self.order = sm.asarray([2, 0, 1])
            self.masks = [sm.asarray([True, False, True])]

        def __call__(self, x: sm.Tensor) -> sm.Tensor:
            return x[self.order] * self.weight * self.masks[0]

    model = Table()
    assert [name for name, _ in model.named_parameters()] == ["weight"]
    assert [name for name, _ in model.named_buffers()] == ["order", "masks.0"]
    assert list(model.state_dict()) == ["weight", "order", "masks.0"]
    assert model.summary().splitlines()[-1] == "3 parameters, 12 bytes; 6 numbers in buffers"

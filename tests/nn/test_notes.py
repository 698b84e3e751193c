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


def test_a_call_says_which_tensors_are_parameters_and_buffers() -> None:
    class Lazy(sm.nn.Module):
        def __init__(self) -> None:
            self.weight: sm.Tensor | None = None
            self.last: sm.Tensor | None = None

        def __call__(self, x: sm.Tensor) -> sm.Tensor:
            if self.weight is None:
                self.weight = sm.nn.Parameter(sm.random.normal((x.shape[-1], 2)))
                self.register_buffer("mean", x.mean(0))
                self.layers = [sm.nn.Linear(2, 2)]
            self.last = self.layers[0](x @ self.weight)
            return self.last

    model = Lazy()
    model(X)
    model(X)
    assert [name for name, _ in model.named_parameters()] == ["weight", "layers.0.weight", "layers.0.bias"]
    assert [name for name, _ in model.named_buffers()] == ["mean"]
    assert sorted(model.state_dict()) == ["layers.0.bias", "layers.0.weight", "mean", "weight"]
    assert model.last is not None and "last" not in repr(model)
    slopes = sm.grad(lambda model: model(X).sum())(model)
    assert bool((slopes.layers[0].weight != 0).any()) and bool((slopes.weight != 0).any())


class Kept(sm.nn.Module):
    def __init__(self) -> None:
        self.weight = sm.ones(3)

    def forward(self, x: sm.Tensor) -> sm.Tensor:
        self.seen = {"input": x, "weight": self.weight}
        return (x * self.weight).sum()


class Around(sm.nn.Module):
    def __init__(self) -> None:
        self.inner = Kept()
        self.embedding = sm.full(3, 2.0)

    def __call__(self) -> sm.Tensor:
        return self.inner(self.embedding)


def test_a_parameter_that_is_also_noted_is_still_trained() -> None:
    model, opt = Around(), sm.optim.SGD(lr=0.5)
    state = opt.init(model)
    for _ in range(2):
        model()
        slopes = sm.grad(lambda model: model())(model)
        model, state = opt.update(model, slopes, state)
    assert state.names.all == ("inner.weight", "embedding")
    assert (slopes.inner.weight.tolist(), slopes.embedding.tolist()) == ([1.5] * 3, [0.0] * 3)


def test_a_note_that_is_refused_leaves_nothing_behind() -> None:
    model = Kept()
    with pytest.raises(sm.errors.ArgumentError, match=r"(?s)changes seen of Kept.*Return the tensor instead"):
        sm.vmap(model)(sm.ones((2, 3)))
    assert not hasattr(model, "seen") and model.noted_names == ()
    model.seen = sm.ones(3)
    assert [name for name, _ in model.named_parameters()] == ["weight", "seen"]


def test_a_forward_that_is_called_by_itself_keeps_notes_too() -> None:
    model = Kept()
    model.forward(sm.ones(3))
    assert [name for name, _ in model.named_parameters()] == ["weight"]
    assert model.seen["input"].tolist() == [1.0, 1.0, 1.0]


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

"""Donation takes the tensors that were passed, and only what no other tensor needs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, DonatedError


class Net(sm.nn.Module):
    def __init__(self) -> None:
        self.first, self.norm = sm.nn.Linear(4, 8), sm.nn.LayerNorm(8)
        self.last = sm.nn.Linear(8, 4)
        self.last.bias = self.first.weight[0].realize()

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        return self.last(self.norm(self.first(x)).relu())


@sm.jit(donate=0)
def step(model: Net, x: sm.Tensor) -> Net:
    grads = sm.grad(lambda m: (m(x) ** 2).sum())(model)
    return sm.tree.map(lambda w, g: w - 0.1 * g, model, grads)


X = sm.asarray(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))


def trained() -> Net:
    """A model whose tensors came out of a step, so that nothing but it has them."""
    sm.random.seed(3)
    return step(Net(), X)


def arrays(tensors: Any) -> list[Any]:
    return [np.array(tensor.numpy()) for tensor in tensors]


def values(model: Net) -> list[Any]:
    return arrays(tensor for _, tensor in model.named_tensors())


def places(model: Net) -> set[int]:
    return {tensor.numpy().ctypes.data for _, tensor in model.named_tensors()}


HOLDERS: dict[str, Callable[[Net], Any]] = {
    "deepcopy": copy.deepcopy,
    "copy": lambda model: model.copy(),
    "astype": lambda model: model.astype(sm.float32),
    "to_device": lambda model: model.to_device("cpu"),
    "state_dict": lambda model: model.state_dict(),
    "another module": lambda model: Net().load_state_dict(model.state_dict()),
    "copies of tensors": lambda model: [copy.copy(tensor) for _, tensor in model.named_tensors()],
    "asarray": lambda model: [sm.asarray(tensor) for _, tensor in model.named_tensors()],
    "not computed yet": lambda model: [tensor + 0 for _, tensor in model.named_tensors()],
}


@pytest.mark.parametrize("way", HOLDERS)
@pytest.mark.parametrize("start", [Net, trained])
@pytest.mark.by_turns(2)
def test_what_was_taken_before_a_donating_step_stays(start: Callable[[], Net], way: str) -> None:
    model = start()
    held = HOLDERS[way](model)
    expected = [np.array(tensor.numpy()) for _, tensor in copy.deepcopy(model).named_tensors()]
    for _ in range(3):
        model = step(model, X)
    tensors = held.state_dict() if isinstance(held, Net) else held
    found = arrays(tensors.values() if isinstance(tensors, dict) else tensors)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(values(model)[0], expected[0])


def test_the_model_that_was_passed_is_given_up() -> None:
    old = model = trained()
    weight = model.first.weight  # another name of one of its tensors
    model = step(model, X)
    for use in (weight.numpy, old.first.weight.numpy, lambda: old(X).numpy()):
        with pytest.raises(DonatedError):
            use()
    assert len(values(model)) == 6


def test_a_copy_that_is_held_costs_one_step_and_not_all() -> None:
    decay = sm.jit(lambda model: model.map(lambda w: 0.9 * w), donate=0)
    model = trained()
    held = model.copy()
    first = places(held)
    model = decay(model)
    second = places(model)
    assert not first & second
    for _ in range(3):
        model = decay(model)
        assert places(model) == second
    assert places(held) == first


def test_the_best_weights_are_kept_and_come_back() -> None:
    model = trained()
    best = model.state_dict()
    expected = arrays(best.values())
    for _ in range(2):
        model = step(model.load_state_dict(best), X)
        for one, other in zip(arrays(best.values()), expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_tied_tensors_stay_tied_in_copies() -> None:
    tied = sm.nn.Sequential(sm.nn.Linear(4, 4), sm.nn.Linear(4, 4))
    tied[1].weight = tied[0].weight
    for held in (tied.copy(), copy.deepcopy(tied)):
        assert held[0].weight is held[1].weight is not tied[0].weight
    found = tied.state_dict()
    assert found["0.weight"] is found["1.weight"] is not tied[0].weight


def test_equal_constants_are_tensors_of_their_own() -> None:
    double = sm.jit(lambda w, x: w * 2 + x, donate=0)
    w, x = sm.ones(64), sm.ones(64)
    assert double(w, x).tolist() == [3] * 64
    assert x.tolist() == [1] * 64
    w, x = sm.realize(sm.ones(64), sm.ones(64))
    assert double(w, sm.zeros(64)).tolist() == [2] * 64
    assert x.tolist() == [1] * 64


def test_equal_expressions_are_tensors_of_their_own() -> None:
    x = sm.asarray([1.0, 2.0, 3.0])
    double = sm.jit(lambda w: w * 2, donate=0)
    first, second = sm.realize(x + 1, x + 1)
    assert double(first).tolist() == [4, 6, 8]
    assert second.tolist() == [2, 3, 4]
    first, second = x + 1, x + 1
    first.realize()
    assert double(first).tolist() == [4, 6, 8]
    assert second.tolist() == [2, 3, 4]
    first, second = sm.jit(lambda x: (x + 1, x + 1))(x)
    assert double(first).tolist() == [4, 6, 8]
    assert second.tolist() == [2, 3, 4]


def test_arguments_are_donated_by_name() -> None:
    w, x = sm.asarray([1.0, 2.0]), sm.asarray([3.0, 4.0])
    step = sm.jit(lambda x, w: w + x, donate="w")
    assert step(x, w).tolist() == [4, 6]
    with pytest.raises(DonatedError):
        w.numpy()
    assert x.tolist() == [3, 4]
    with pytest.raises(ArgumentError, match="no argument 'weight'"):
        sm.jit(lambda x, w: w + x, donate=["weight"])

"""Dataclasses and classes of the user's as arguments, states and results."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, TraceError


@dataclass
class State:
    weights: dict[str, sm.Tensor]
    velocity: Any
    step: int = 0


@dataclass(frozen=True)
class Config:
    width: int
    rate: float = 0.1


@dataclass(frozen=True, slots=True)
class Scaled:
    values: Any
    heads: int = field(default=2, metadata={"static": True})


@sm.tree.register(static=("name",))
class Layer:
    def __init__(self, weight: Any, name: str) -> None:
        self.weight, self.name = weight, name
        self.shown = weight.sum().item()  # stand-ins have no values: nobody calls this for them

    def __call__(self, x: Any) -> Any:
        return x @ self.weight


def test_a_dataclass_with_tensors_is_a_state_of_training() -> None:
    @sm.jit
    def train(state: State, x: sm.Tensor, config: Config) -> State:
        assert range(config.width)  # a dataclass without tensors is one static value
        grads = sm.grad(lambda w: ((x @ w["a"]) ** 2).sum())(state.weights)
        velocity = sm.tree.map(lambda v, g: 0.9 * v + g, state.velocity, grads)
        weights = sm.tree.map(lambda w, v: w - config.rate * v, state.weights, velocity)
        return State(weights, velocity, state.step + 1)

    w = {"a": sm.ones((3, 1))}
    state = State(w, sm.tree.map(sm.zeros_like, w))
    x = sm.ones((2, 3))
    for _ in range(3):
        state = train(state, x, Config(4))
    assert isinstance(state, State) and int(state.step) == 3
    assert "traces=2" in repr(train)  # `step` is a number at first, and a tensor from then on
    want, velocity = np.ones((3, 1)), 0.0
    for _ in range(3):
        velocity = 0.9 * velocity + 2 * np.ones((3, 2)) @ (np.ones((2, 3)) @ want)
        want = want - 0.1 * velocity
    np.testing.assert_allclose(state.weights["a"].numpy(), want, rtol=1e-5)


def test_gradients_batches_and_loops_take_dataclasses() -> None:
    scaled = Scaled(sm.asarray([1.0, 2.0, 3.0]))
    slope = sm.grad(lambda s: (s.values**2).sum() * s.heads)(scaled)
    assert isinstance(slope, Scaled) and slope.values.tolist() == [4.0, 8.0, 12.0]
    batched = sm.vmap(lambda s: s.values * s.heads)(scaled)
    assert batched.tolist() == [2.0, 4.0, 6.0]
    assert sm.vmap(lambda s, x: s.values * x, in_axes=(Scaled(0), None))(scaled, sm.asarray(3.0)).tolist() == [3, 6, 9]
    last, _ = sm.scan(lambda s, x: (dataclasses.replace(s, values=s.values + x), None), scaled, sm.ones(4))
    assert last.values.tolist() == [5.0, 6.0, 7.0] and last.heads == 2


def test_static_fields_are_part_of_the_structure() -> None:
    split = sm.jit(lambda s: s.values.reshape(s.heads, -1))
    x = sm.arange(6, dtype=sm.float32)
    assert split(Scaled(x)).shape == (2, 3) and split(Scaled(x, 3)).shape == (3, 2)
    with pytest.raises(ArgumentError, match="the static attribute heads of Scaled is a list"):
        split(Scaled(x, [2]))  # type: ignore[arg-type]
    numbers = sm.jit(lambda s: s.weights["a"].reshape(s.step, -1))
    with pytest.raises(TraceError):  # numbers beside tensors are inputs, as in a dictionary
        numbers(State({"a": x}, None, 2))


def test_a_class_of_the_users_own_is_a_tree() -> None:
    layer = Layer(sm.ones((2, 2)), "first")
    step = sm.jit(lambda layer, x: sm.tree.map(lambda w, g: w - g, layer, sm.grad(lambda m: m(x).sum())(layer)))
    after = step(layer, sm.asarray([[1.0, 3.0]]))
    assert isinstance(after, Layer) and after.name == "first"
    assert after.weight.tolist() == [[0.0, 0.0], [-2.0, -2.0]]
    leaves, structure = sm.tree.flatten({"layer": layer})
    assert sm.tree.paths(structure) == ["['layer'].weight", "['layer'].shown"] and len(leaves) == 2


def test_a_model_in_a_dataclass() -> None:
    @dataclass
    class Learner:
        model: Any
        state: Any

    opt = sm.optim.SGD(lr=0.1)
    model = sm.nn.Linear(2, 1)
    learner = Learner(model, opt.init(model))

    @sm.jit(donate=0)
    def step(learner: Learner, x: Any) -> tuple[Learner, Any]:
        loss, grads = sm.value_and_grad(lambda m: (m(x) ** 2).mean())(learner.model)
        return Learner(*opt.update(learner.model, grads, learner.state)), loss

    x = sm.ones((4, 2))
    losses = []
    for _ in range(5):
        learner, loss = step(learner, x)
        losses.append(float(loss))
    assert losses[-1] < losses[0] and isinstance(learner.model, sm.nn.Linear)

"""Whole training steps inside a loop on the device: as many steps as one likes in one call, equal to a Python loop."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.bench import models
from smelt.transform import examine
from smelt.tree import flatten

Weights = dict[str, sm.Tensor]
BATCHES, STEPS = 5, 12  # the data set is walked more than twice

Loss = Callable[[Weights, sm.Tensor, sm.Tensor], sm.Tensor]


def adam(loss: Loss) -> Callable[..., Any]:
    """One step: (weights, moments, squares, time), inputs and labels to a new state and the loss."""

    def step(state: Any, x: sm.Tensor, y: sm.Tensor) -> Any:
        w, m, v, t = state
        value, slopes = sm.value_and_grad(loss)(w, x, y)
        t = t + 1
        m = {k: 0.9 * m[k] + 0.1 * g for k, g in slopes.items()}
        v = {k: 0.999 * v[k] + 0.001 * g * g for k, g in slopes.items()}
        rate = 1e-2 * (1 - 0.999**t) ** 0.5 / (1 - 0.9**t)
        # Much is added to the roots, as gradients that are nothing but rounding (of the bias of keys) would decide.
        return ({k: w[k] - rate * m[k] / (v[k].sqrt() + 1e-3) for k in w}, m, v, t), value

    return step


def fresh(weights: dict[str, Any]) -> Any:
    """A first state in memory of its own."""
    zeros = {k: np.zeros_like(x) for k, x in weights.items()}
    parts = ({k: sm.asarray(x, copy=True) for k, x in part.items()} for part in (weights, zeros, zeros))
    return (*parts, sm.asarray(np.float32(0)))


def perceptron() -> tuple[Loss, dict[str, Any], sm.Tensor, sm.Tensor]:
    rng = np.random.default_rng(0)
    sizes = (20, 32, 16, 5)
    weights = {f"w{k}": rng.standard_normal(pair) / 4 for k, pair in enumerate(pairwise(sizes))}
    weights |= {f"b{k}": np.zeros(size) for k, size in enumerate(sizes[1:])}

    def loss(w: Weights, x: sm.Tensor, y: sm.Tensor) -> sm.Tensor:
        for k in range(3):
            x = x @ w[f"w{k}"] + w[f"b{k}"]
            x = x if k == 2 else sm.relu(x)
        return sm.cross_entropy(x, y)

    x, y = rng.standard_normal((BATCHES, 24, 20)), rng.integers(0, 5, (BATCHES, 24))
    return loss, {k: w.astype(np.float32) for k, w in weights.items()}, sm.asarray(x.astype(np.float32)), sm.asarray(y)


def transformer() -> tuple[Loss, dict[str, Any], sm.Tensor, sm.Tensor]:
    size = models.Transformer(layers=1, width=16, heads=2, length=12, vocabulary=30)

    def loss(w: Weights, x: sm.Tensor, y: sm.Tensor) -> sm.Tensor:
        logits = models.forward(w, w["tokens"][x], size.layers, size.heads)
        return sm.cross_entropy(logits.reshape((-1, size.vocabulary)), y.reshape((-1,)))

    tokens = np.random.default_rng(0).integers(0, size.vocabulary, (BATCHES, 3, size.length))
    return loss, dict(models.parameters(size)), sm.asarray(tokens), sm.asarray(np.roll(tokens, -1, 2))


MODELS = {"perceptron": perceptron, "transformer": transformer}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> tuple[Loss, dict[str, Any], sm.Tensor, sm.Tensor]:
    made: tuple[Loss, dict[str, Any], sm.Tensor, sm.Tensor] = MODELS[request.param]()
    return made


def step_by_step(step: Callable[..., Any], state: Any, x: sm.Tensor, y: sm.Tensor) -> tuple[Any, list[float]]:
    """The same in Python."""
    jitted, losses = sm.jit(step, donate=0), []
    for i in range(STEPS):
        state, value = jitted(state, x[i % BATCHES], y[i % BATCHES])
        losses.append(float(value))
    return state, losses


def check_equal(found: Any, expected: Any) -> None:
    for a, b in zip(flatten(found)[0], flatten(expected)[0], strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=0, atol=1e-6)


@pytest.mark.by_turns(2)
def test_steps_in_a_loop_are_those_of_a_python_loop(model: Any) -> None:
    loss, weights, x, y = model
    step = adam(loss)

    def train(state: Any, x: sm.Tensor, y: sm.Tensor) -> Any:
        def body(i: sm.Tensor, carried: Any) -> Any:
            state, _ = carried
            return step(state, x[i % BATCHES], y[i % BATCHES])

        return sm.fori_loop(0, STEPS, body, (state, sm.asarray(np.float32(0))))

    expected, losses = step_by_step(step, fresh(weights), x, y)
    state, last = sm.jit(train, donate=0)(fresh(weights), x, y)
    check_equal(state, expected)
    np.testing.assert_allclose(float(last), losses[-1], atol=1e-6)
    assert losses[-1] < losses[0]


@pytest.mark.by_turns(2)
def test_an_epoch_is_a_scan(model: Any) -> None:
    """Batches are slices of the data where it lies; the loss of every step is kept."""
    loss, weights, x, y = model
    step = adam(loss)

    def epoch(state: Any, x: sm.Tensor, y: sm.Tensor) -> Any:
        return sm.scan(lambda state, batch: step(state, *batch), state, (x, y))

    expected, losses = step_by_step(step, fresh(weights), x, y)
    state, first = sm.jit(epoch, donate=0)(fresh(weights), x, y)
    jitted = sm.jit(epoch, donate=0)
    state, second = jitted(state, x, y)
    state, rest = jitted(state, x[: STEPS - 2 * BATCHES], y[: STEPS - 2 * BATCHES])
    check_equal(state, expected)
    np.testing.assert_allclose(np.concatenate([part.numpy() for part in (first, second, rest)]), losses, atol=1e-6)


@pytest.mark.by_turns(2)
def test_nothing_is_copied_in_an_epoch(model: Any) -> None:
    """All states stay where the arguments were, and no kernel of the body only copies a batch or a weight."""
    loss, weights, x, y = model
    step = adam(loss)
    state = fresh(weights)

    def epoch(state: Any, x: sm.Tensor, y: sm.Tensor) -> Any:
        return sm.scan(lambda state, batch: step(state, *batch), state, (x, y))

    explanation = examine(epoch, state, x, y)
    assert len(explanation.compiled.in_place) == len(flatten(state)[0])
    moves = {"cast", "reshape", "permute", "expand", "slice"}
    inside = [record for record in explanation.kernels if record.depth]
    assert inside
    assert not [record for record in inside if set(record.nodes) <= moves and not record.sink.endswith("[]>")]


def test_donated_states_are_updated_where_they_are() -> None:
    loss, weights, x, y = perceptron()
    epoch = sm.jit(lambda state, x, y: sm.scan(lambda s, b: adam(loss)(s, *b), state, (x, y)), donate=0)
    state = fresh(weights)
    before = {tensor.numpy().ctypes.data for tensor in flatten(state)[0]}
    for _ in range(3):
        state, _ = epoch(state, x, y)
        assert {tensor.numpy().ctypes.data for tensor in flatten(state)[0]} == before

"""A bound function gives what the jitted one gives, call after call, and its state stays in its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import nn
from smelt.errors import ArgumentError, IndexRangeError, TraceError


class Layer(nn.Module):
    def __init__(self, seed: int) -> None:
        self.weight = sm.asarray(np.random.default_rng(seed).standard_normal((4, 4)).astype(np.float32))


def step(layers: list[Layer], cache: list[sm.Tensor], x: sm.Tensor, at: sm.Tensor) -> Any:
    new = []
    for layer, rows in zip(layers, cache, strict=True):
        x = x @ layer.weight
        new.append(rows.at[at].set(x))
        x = x + new[-1].sum(0)
    return new, x, {"largest": x.max(), "name": "step"}


def model() -> list[Layer]:
    return [Layer(k) for k in range(3)]


def cache() -> list[sm.Tensor]:
    return [sm.asarray(np.zeros((8, 4), np.float32)) for _ in range(3)]


def inputs(number: int) -> tuple[Any, Any]:
    x = np.random.default_rng(number).standard_normal((1, 4)).astype(np.float32)
    return x, np.array([number % 8], np.int32)


@pytest.mark.parametrize("kind", ["arrays", "tensors"])
def test_calls_are_those_of_the_jitted_function(kind: str) -> None:
    function, layers, state = sm.jit(step, donate=1), model(), cache()
    bound = function.bind(layers, cache())
    places = set()
    for number in range(8):
        given = inputs(number) if kind == "arrays" else tuple(map(sm.asarray, inputs(number)))
        state, x, notes = function(layers, state, *map(sm.asarray, inputs(number)))
        found, others = bound(*given)
        np.testing.assert_array_equal(found.numpy(), x.numpy())
        assert float(others["largest"]) == float(notes["largest"]) and others["name"] == "step"
        places.add(tuple(id(part._node.attribute.memory) for part in bound._given[1]))
    assert any(bound._quick.values()) and len(places) <= 2  # the tensors that were bound, then those of the state
    for one, other in zip(bound.state[0], state, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_a_state_that_somebody_holds_does_not_change() -> None:
    mine = cache()
    bound = sm.jit(step, donate=1).bind(model(), mine)
    for number in range(4):
        bound(*inputs(number))
    assert not any(part.numpy().any() for part in mine)  # they are not given up, as they were held
    (held,) = bound.state
    before = [part.numpy().copy() for part in held]
    expression, view = held[0] + 1, bound.state[0][1].numpy()
    bound(*inputs(5))
    bound(*inputs(6))
    for one, other in zip(held, before, strict=True):
        np.testing.assert_array_equal(one.numpy(), other)
    np.testing.assert_array_equal(expression.numpy(), before[0] + 1)
    np.testing.assert_array_equal(view, before[1])
    del held, expression, view
    first = bound.state[0][0].numpy().copy()
    bound(*inputs(7))
    assert (bound.state[0][0].numpy() != first).any()


def test_what_is_bound_stays_as_it_is() -> None:
    layers = model()
    bound, expected = sm.jit(step, donate=1).bind(layers, cache()), sm.jit(step)(layers, cache(), *inputs(1))[1].numpy()
    for _ in range(3):
        found, _ = bound(*inputs(1))
        np.testing.assert_array_equal(found.numpy(), expected)
        layers[0].weight = layers[0].weight * 2


def test_numbers_and_other_shapes_and_nothing_given_up() -> None:
    bound = sm.jit(lambda w, x, scale: w * x * scale).bind(sm.asarray([1.0, 2.0]))
    for scale in (1.0, 2.5, 3, 4):
        for x in (np.float32([[1, 2]]), np.float32([3, 4]), sm.asarray(np.float32([5, 6])), [7.0, 8.0]):
            expected = np.float32([1, 2]) * (x.numpy() if isinstance(x, sm.Tensor) else np.asarray(x)) * scale
            for _ in range(2):
                np.testing.assert_allclose(bound(sm.asarray(x) if isinstance(x, list) else x, scale).numpy(), expected)


def test_results_are_fresh_and_indices_are_checked() -> None:
    bound = sm.jit(step, donate=1).bind(model(), cache())
    found = [bound(*inputs(number))[0] for number in range(4)]
    values = [one.numpy().copy() for one in found]
    with pytest.raises(IndexRangeError):
        bound(inputs(0)[0], np.array([8], np.int32))
    bound(*inputs(5))
    for one, other in zip(found, values, strict=True):
        np.testing.assert_array_equal(one.numpy(), other)


def test_a_state_that_moves_takes_the_long_way() -> None:
    bound = sm.jit(lambda s, x: (s[::-1] + x, s.sum()), donate=0).bind(sm.asarray(np.arange(4.0)))
    expected = np.arange(4.0)
    for k in range(5):
        assert float(bound(np.float64(k) * np.ones(4))) == expected.sum()
        expected = expected[::-1] + k
    np.testing.assert_array_equal(bound.state[0].numpy(), expected)
    alone = sm.jit(lambda s, x: s + x, donate=0).bind(sm.zeros(3))
    assert [alone(np.float32([1, 2, 3])) for _ in range(3)] == [None] * 3
    assert alone.state[0].tolist() == [3, 6, 9]


def test_what_is_refused() -> None:
    with pytest.raises(ArgumentError, match="another form"):
        sm.jit(lambda s, x: s[:1], donate=0).bind(sm.zeros(3))(1.0)
    with pytest.raises(ArgumentError, match="returns dict"):
        sm.jit(lambda s, t, x: {"s": s}, donate=(0, 1)).bind(sm.zeros(3), sm.zeros(3))(1.0)
    bound = sm.jit(lambda s, x: s + x, donate=0).bind(sm.zeros(3))
    with pytest.raises(TraceError, match="has a state"):
        sm.jit(bound)(sm.zeros(3))

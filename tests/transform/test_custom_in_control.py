"""Functions with a way back of their own, inside loops and branches: the gradient is that of the plain function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm

Function = Callable[[sm.Tensor], sm.Tensor]


def plain(x: sm.Tensor) -> sm.Tensor:
    return sm.sin(x) * x


def given() -> Function:
    function = sm.custom_vjp(plain)
    function.defvjp(lambda x: (plain(x), {"x": x, "kind": "product"}), _backward)
    return function


def _backward(kept: dict[str, Any], ct: sm.Tensor) -> tuple[sm.Tensor]:
    assert kept["kind"] == "product"
    return ((sm.cos(kept["x"]) * kept["x"] + sm.sin(kept["x"])) * ct,)


WRAPPED: dict[str, Callable[[], Function]] = {
    "checkpoint": lambda: sm.checkpoint(plain),
    "checkpoint that keeps products": lambda: sm.checkpoint(plain, keep="products"),
    "checkpoint of a checkpoint": lambda: sm.checkpoint(sm.checkpoint(plain)),
    "custom_vjp": given,
    "custom_vjp in a checkpoint": lambda: sm.checkpoint(given()),
}
PLACES: dict[str, Callable[[Function, sm.Tensor], sm.Tensor]] = {
    "cond": lambda f, x: sm.cond(x.sum() > 0, f, lambda a: a, x),
    "the other branch": lambda f, x: sm.cond(x.sum() < 0, lambda a: a, lambda a: f(a * 1.5) + a, x),
    "closure of a branch": lambda f, x: sm.cond(x.sum() > 0, lambda: f(x * 2), lambda: x),
    "fori_loop": lambda f, x: sm.fori_loop(0, 3, lambda k, state: f(state), x),
    "while_loop": lambda f, x: sm.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, f(s[1])), (0, x), max_steps=3)[1],
    "scan": lambda f, x: sm.scan(lambda state, one: (f(state + one), state), sm.asarray(0.5), x)[0],
    "loop in a branch": lambda f, x: sm.cond(
        x.sum() > 0, lambda a: sm.fori_loop(0, 2, lambda k, state: f(state), a), lambda a: a, x
    ),
    "vmap": lambda f, x: sm.vmap(f)(x),
}
ROUTES: dict[str, Callable[[Function, sm.Tensor], sm.Tensor]] = {
    "grad": lambda loss, x: sm.grad(loss)(x),
    "jit": lambda loss, x: sm.jit(sm.grad(loss))(x),
    "vmap": lambda loss, x: sm.vmap(sm.grad(loss))(sm.stack([x, x + 1])),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.by_turns(8)
def test_gradients(wrapped: str, place: str) -> None:
    x, function = sm.asarray([0.25, 0.5, 0.75]), WRAPPED[wrapped]()
    for route in ROUTES.values():
        found = route(lambda x: PLACES[place](function, x).sum(), x)
        expected = route(lambda x: PLACES[place](plain, x).sum(), x)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5)


def test_weights_of_a_checkpointed_layer_in_a_branch() -> None:
    layer, x = sm.nn.Linear(3, 3), sm.ones((2, 3))

    def loss(layer: sm.nn.Linear, call: Callable[..., sm.Tensor]) -> sm.Tensor:
        return sm.cond(x.sum() > 0, lambda a: call(layer, a), lambda a: a, x).sum()

    found = sm.grad(loss)(layer, sm.checkpoint(lambda layer, a: sm.tanh(layer(a))))
    expected = sm.grad(loss)(layer, lambda layer, a: sm.tanh(layer(a)))
    np.testing.assert_allclose(found.weight.numpy(), expected.weight.numpy(), rtol=1e-5)


def test_integers_go_along() -> None:
    x, picks = sm.ones((2, 3)), sm.asarray([1, 2])
    product = sm.checkpoint(lambda x, k: x[k] * x[0])
    found = sm.vmap(lambda x, k: sm.grad(lambda x: sm.cond(x[0] > 0, product, lambda x, k: x[0], x, k))(x))(x, picks)
    assert found.tolist() == [[1, 1, 0], [1, 0, 1]]

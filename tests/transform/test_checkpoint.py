"""Values computed again on the way back: the same gradients, in less memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import tree
from smelt.errors import ArgumentError

RNG = np.random.default_rng(0)


def _block(x: sm.Tensor, w: sm.Tensor) -> sm.Tensor:
    hidden = sm.gelu(x @ w)
    return x + sm.tanh(hidden * hidden) @ w.mT


def _loss(block: Any, x: sm.Tensor, weights: list[sm.Tensor]) -> sm.Tensor:
    for w in weights:
        x = block(x, w)
    return (x * x).sum()


def _arguments(rows: int = 5, width: int = 4, layers: int = 3) -> tuple[sm.Tensor, list[sm.Tensor]]:
    x = sm.asarray(RNG.standard_normal((rows, width)))
    return x, [sm.asarray(RNG.standard_normal((width, width)) / width) for _ in range(layers)]


def _same(got: Any, expected: Any) -> None:
    for a, b in zip(tree.flatten(got)[0], tree.flatten(expected)[0], strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("keep", ["nothing", "products"])
def test_gradients_are_the_same(keep: str) -> None:
    x, weights = _arguments()
    again = sm.checkpoint(_block, keep=keep)
    plain = sm.value_and_grad(lambda x, w: _loss(_block, x, w), (0, 1))
    cheap = sm.value_and_grad(lambda x, w: _loss(again, x, w), (0, 1))
    _same(cheap(x, weights), plain(x, weights))
    _same(sm.jit(cheap)(x, weights), plain(x, weights))


def test_tensors_that_a_function_reaches_have_gradients_too() -> None:
    x, (w, *_) = _arguments()
    got = sm.grad(lambda w: sm.checkpoint(lambda x: _block(x, w))(x).sum())(w)
    _same(got, sm.grad(lambda w: _block(x, w).sum())(w))


def test_second_derivatives_and_batches() -> None:
    x, (w, *_) = _arguments()
    again = sm.checkpoint(_block)
    _same(sm.hessian(lambda x: again(x, w).sum())(x[0]), sm.jacobian(sm.grad(lambda x: _block(x, w).sum()))(x[0]))
    _same(sm.vmap(sm.grad(lambda x: again(x, w).sum()))(x), sm.vmap(sm.grad(lambda x: _block(x, w).sum()))(x))


def test_several_results_and_integers() -> None:
    def function(x: sm.Tensor, k: sm.Tensor) -> dict[str, sm.Tensor]:
        return {"picked": sm.exp(x)[k], "all": x * 2, "count": k + 1}

    x, k = sm.asarray([1.0, 2.0, 3.0]), sm.asarray([2, 0])

    def loss(function: Any) -> Any:
        def run(x: sm.Tensor) -> sm.Tensor:
            found = function(x, k)
            return found["picked"].sum() * found["all"].sum() + found["count"].sum()

        return run

    _same(sm.grad(loss(sm.checkpoint(function)))(x), sm.grad(loss(function))(x))


def test_the_peak_is_lower() -> None:
    x, weights = _arguments(rows=512, width=64, layers=8)

    def wide(x: sm.Tensor, w: sm.Tensor) -> sm.Tensor:
        hidden = x
        for _ in range(4):
            hidden = sm.tanh(hidden @ w)
        return hidden

    def peak(block: Any) -> int:
        return sm.jit(sm.grad(lambda x: _loss(block, x, weights))).memory(x).intermediates

    plain, kept, again = peak(wide), peak(sm.checkpoint(wide, keep="products")), peak(sm.checkpoint(wide))
    assert again < 0.5 * plain
    assert again < kept


def test_mistakes() -> None:
    with pytest.raises(ArgumentError, match="keep='some'"):
        sm.checkpoint(_block, keep="some")
    with pytest.raises(ArgumentError, match="is not a function"):
        sm.checkpoint(3)  # type: ignore[arg-type]


def test_forward_derivatives_are_those_of_what_is_computed() -> None:
    def plain(x: sm.Tensor) -> sm.Tensor:
        return sm.sin(x * x)

    x, change = sm.asarray([0.3, 2.0]), sm.asarray([1.0, -2.0])
    _, found = sm.jvp(sm.checkpoint(plain), (x,), (change,))
    assert found.tolist() == sm.jvp(plain, (x,), (change,))[1].tolist()
    second = sm.hessian(lambda x: sm.checkpoint(plain)(x).sum())(x)
    np.testing.assert_allclose(second.numpy(), sm.hessian(lambda x: plain(x).sum())(x).numpy(), rtol=1e-6)
    rows = sm.vmap(lambda x: sm.jvp(sm.checkpoint(plain), (x,), (1.0,))[1])(x)
    np.testing.assert_allclose(rows.numpy(), sm.jvp(plain, (x,), (sm.ones(2),))[1].numpy(), rtol=1e-6)

"""Matrices of derivatives, and transforms of transforms."""

from __future__ import annotations

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError


def _function(x: sm.Tensor, w: sm.Tensor) -> sm.Tensor:
    return sm.tanh(w @ x) * x[0]


RNG = np.random.default_rng(0)
X, W = RNG.standard_normal(3), RNG.standard_normal((4, 3))


def test_a_jacobian_has_the_rows_of_pullbacks() -> None:
    x, w = sm.asarray(X), sm.asarray(W)
    by_x, by_w = sm.jacobian(_function, argnums=(0, 1))(x, w)
    assert by_x.shape == (4, 3)
    assert by_w.shape == (4, 4, 3)
    _, pullback = sm.vjp(_function, x, w)
    for k in range(4):
        row_x, row_w = pullback(sm.asarray(np.eye(4)[k]))
        np.testing.assert_allclose(by_x.numpy()[k], row_x.numpy())
        np.testing.assert_allclose(by_w.numpy()[k], row_w.numpy())
    for k in range(3):
        _, column = sm.jvp(lambda x: _function(x, w), (x,), (sm.asarray(np.eye(3)[k]),))
        np.testing.assert_allclose(by_x.numpy()[:, k], column.numpy())


def test_trees() -> None:
    found = sm.jacobian(lambda p: {"sum": p["a"].sum() + p["b"], "twice": p["a"] * 2})(
        {"a": sm.asarray([1.0, 2.0]), "b": sm.asarray(3.0)}
    )
    assert found["sum"]["a"].tolist() == [1.0, 1.0]
    assert found["sum"]["b"].tolist() == 1.0
    assert found["twice"]["a"].tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert found["twice"]["b"].tolist() == [0.0, 0.0]


def test_a_hessian_is_the_jacobian_of_the_gradient() -> None:
    x, w = sm.asarray(X), sm.asarray(W)

    def scalar(x: sm.Tensor) -> sm.Tensor:
        return (_function(x, w) ** 2).sum()

    found = sm.hessian(scalar)(x).numpy()
    np.testing.assert_allclose(found, found.T, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found, sm.jacobian(sm.grad(scalar))(x).numpy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found, sm.jit(sm.hessian(scalar))(x).numpy(), rtol=1e-10, atol=1e-12)
    both = sm.hessian(lambda a, b: (a * a).sum() * b, argnums=(0, 1))(sm.asarray([1.0, 2.0]), sm.asarray(3.0))
    assert both[0][0].tolist() == [[6.0, 0.0], [0.0, 6.0]]
    assert both[0][1].tolist() == [2.0, 4.0]
    assert both[1][0].tolist() == [2.0, 4.0]
    assert both[1][1].tolist() == 0.0


def test_gradients_of_each_element_of_a_batch() -> None:
    rows = sm.asarray(RNG.standard_normal((5, 3)))
    w = sm.asarray(W)
    slope = sm.grad(lambda x: _function(x, w).sum())
    batched = sm.vmap(slope)(rows).numpy()
    for k in range(5):
        np.testing.assert_allclose(batched[k], slope(rows[k]).numpy(), rtol=1e-12)
    total = sm.grad(lambda rows: sm.vmap(lambda x: _function(x, w).sum())(rows).sum())(rows)
    np.testing.assert_allclose(total.numpy(), batched, rtol=1e-12)
    directions = sm.asarray(np.eye(3))
    pushed = sm.vmap(lambda t: sm.jvp(lambda x: _function(x, w), (rows[0],), (t,))[1])(directions)
    np.testing.assert_allclose(pushed.numpy().T, sm.jacobian(lambda x: _function(x, w))(rows[0]).numpy(), rtol=1e-12)


def test_a_hessian_times_a_vector() -> None:
    x, w, v = sm.asarray(X), sm.asarray(W), sm.asarray(RNG.standard_normal(3))

    def scalar(x: sm.Tensor) -> sm.Tensor:
        return (_function(x, w) ** 2).sum()

    _, product = sm.jvp(sm.grad(scalar), (x,), (v,))
    np.testing.assert_allclose(product.numpy(), sm.hessian(scalar)(x).numpy() @ v.numpy(), rtol=1e-10)
    again = sm.grad(lambda x: (sm.grad(scalar)(x) * v).sum())(x)
    np.testing.assert_allclose(product.numpy(), again.numpy(), rtol=1e-10)


def test_tensors_outside_are_looked_up_at_every_call() -> None:
    scale = sm.asarray(2.0)
    f = sm.jit(sm.grad(lambda x: x * x * scale))
    assert float(f(sm.asarray(3.0))) == 12.0
    scale = sm.asarray(10.0)
    assert float(f(sm.asarray(3.0))) == 60.0


def test_mistakes() -> None:
    with pytest.raises(ArgumentError, match="jacobian: 3 is not a function"):
        sm.jacobian(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="has a leaf of type str"):
        sm.jacobian(lambda x: "text")(sm.ones(2))

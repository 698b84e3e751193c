"""Values that a kernel stores next to its result: a whole update of a parameter in the kernel of its gradient."""

from __future__ import annotations

import numpy as np
import pytest

import smelt as sm
from smelt.transform import examine


def _update(w: sm.Tensor, m: sm.Tensor, v: sm.Tensor, gradient: sm.Tensor) -> tuple[sm.Tensor, ...]:
    m = 0.9 * m + 0.1 * gradient
    v = 0.99 * v + 0.01 * gradient * gradient
    return w - 0.1 * m / (v.sqrt() + 1e-3), m, v


def _reference(w: np.ndarray, m: np.ndarray, v: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, ...]:
    m = 0.9 * m + 0.1 * gradient
    v = 0.99 * v + 0.01 * gradient * gradient
    return w - 0.1 * m / (np.sqrt(v) + 1e-3), m, v


@pytest.mark.parametrize("shape", [(7,), (333, 77), (1, 1), (64, 64), (3, 5, 7)])
def test_an_update_is_one_kernel(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) ** 2 for _ in range(4)]
    tensors = [sm.asarray(x) for x in arrays]
    function = sm.jit(_update)
    for got, expected in zip(function(*tensors), _reference(*arrays), strict=True):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12)
    assert len(examine(function, *tensors).kernels) == 1


@pytest.mark.parametrize(("rows", "columns", "batch"), [(33, 65, 17), (128, 256, 300), (5, 3, 2), (96, 1, 40)])
def test_the_gradient_of_a_weight_is_never_stored(rows: int, columns: int, batch: int) -> None:
    rng = np.random.default_rng(1)
    w, m, v = (rng.standard_normal((rows, columns)) ** 2 for _ in range(3))
    x, dy = rng.standard_normal((batch, rows)), rng.standard_normal((batch, columns))
    function = sm.jit(lambda w, m, v, x, dy: _update(w, m, v, x.mT @ dy))
    tensors = [sm.asarray(a) for a in (w, m, v, x, dy)]
    for got, expected in zip(function(*tensors), _reference(w, m, v, x.T @ dy), strict=True):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-9)
    assert function.memory(*tensors).intermediates == 0


def test_what_others_read_is_stored_before_them() -> None:
    """A value that a later kernel reads as well, at other elements."""
    x = sm.asarray(np.arange(12.0).reshape(3, 4))

    def function(x: sm.Tensor) -> tuple[sm.Tensor, ...]:
        y = sm.exp(x * 0.1)
        return y, y * 2 + 1, y.mT * 3, y.sum()

    got = sm.jit(function)(x)
    y = np.exp(x.numpy() * 0.1)
    for tensor, expected in zip(got, (y, y * 2 + 1, y.T * 3, y.sum()), strict=True):
        np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-12)


def test_values_in_the_memory_of_what_was_read() -> None:
    """Several results, each of which could take the place of a temporary that the others read."""

    def function(x: sm.Tensor, y: sm.Tensor) -> sm.Tensor:
        a, b = sm.sort(x), sm.sort(y)  # temporaries
        c = a * b + 1
        d = (c * a - b) * c
        return sm.sort(c) + sm.sort(d)

    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((2, 999))
    a, b = np.sort(x), np.sort(y)
    c = a * b + 1
    d = (c * a - b) * c
    np.testing.assert_allclose(
        sm.jit(function)(sm.asarray(x), sm.asarray(y)).numpy(), np.sort(c) + np.sort(d), rtol=1e-12
    )

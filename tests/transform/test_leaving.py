"""Values that leave smelt inside of a function that is differentiated: an error, and never a gradient of zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import GradientError, TraceError

X = sm.asarray([1.0, 2.0, 3.0])

WAYS: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda x: x.numpy(),
    "asarray": np.asarray,
    "dlpack": np.from_dlpack,
    "a function that only NumPy has": lambda x: np.convolve(x, x),
}

TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: sm.grad(f)(X),
    "value_and_grad": lambda f: sm.value_and_grad(f)(X),
    "vjp": lambda f: sm.vjp(f, X),
    "jvp": lambda f: sm.jvp(f, (X,), (X,)),
    "hessian": lambda f: sm.hessian(f)(X),
    "jit of grad": lambda f: sm.jit(sm.grad(f))(X),
    "grad in grad": lambda f: sm.grad(lambda x: sm.grad(lambda y: f(x) * y)(sm.asarray(1.0)))(X),
}


@pytest.mark.parametrize("way", WAYS)
def test_numpy_in_a_loss_is_refused(way: str) -> None:
    def loss(x: sm.Tensor) -> sm.Tensor:
        return (sm.asarray(WAYS[way](x * 2)) ** 2).sum()

    with pytest.raises(GradientError, match=r"leaves smelt(.|\n)*stop_gradient\(x\)\.numpy\(\)"):
        sm.grad(loss)(X)


def test_numpy_functions_that_smelt_has_are_differentiated() -> None:
    assert sm.grad(lambda x: (np.concatenate([x, np.sin(x) * 0]) ** 2).sum())(X).tolist() == (2 * X).tolist()


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_every_derivative_refuses_it(transform: str) -> None:
    refused = (GradientError, sm.errors.TraceError)  # inside jit there is no value at all
    with pytest.raises(refused):
        TRANSFORMS[transform](lambda x: sm.asarray(x.numpy()).sum())


def test_parameters_of_a_module_are_refused_and_frozen_ones_are_not() -> None:
    model = sm.nn.Linear(3, 1)
    with pytest.raises(GradientError, match="leaves smelt"):
        sm.grad(lambda m: sm.asarray(m.weight.numpy()).sum())(model)
    assert sm.grad(lambda m: sm.asarray(m.weight.numpy()).sum())(model.freeze()).weight.tolist() == [[0.0] * 3]


def test_values_that_are_read_as_constants_stay_readable() -> None:
    seen: list[Any] = []

    def loss(x: sm.Tensor, data: sm.Tensor) -> sm.Tensor:
        seen.append(sm.stop_gradient(x).numpy().tolist())
        seen.append(data.numpy().tolist())
        seen.append((x.argmax().numpy().item(), (x > 1).numpy().tolist()))
        seen.append((float(x.sum()), x.tolist(), str(x), x.max().item()))
        factor = 2.0 if x.sum() > 0 else 1.0
        return (x * x * factor * data).sum()

    assert sm.grad(loss)(X, sm.ones(3)).tolist() == [4.0, 8.0, 12.0]
    assert seen[0] == [1.0, 2.0, 3.0] and seen[2] == (2, [False, True, True])
    assert seen[3] == (6.0, [1.0, 2.0, 3.0], "Tensor([1., 2., 3.], dtype=float32)", 3.0)


def test_after_the_transform_everything_is_readable() -> None:
    def outer(x: sm.Tensor) -> sm.Tensor:
        inner = sm.grad(lambda y: (y**3).sum())(X)  # of what the outer function does not change
        return (x * sm.asarray(inner.numpy())).sum()

    value, slope = sm.value_and_grad(outer)(X)
    assert slope.numpy().tolist() == [3.0, 12.0, 27.0] and value.numpy() == 3.0 + 24.0 + 81.0
    with pytest.raises(GradientError):
        sm.grad(lambda x: sm.asarray(sm.grad(lambda y: (x * y**2).sum())(X).numpy()).sum())(X)


def test_a_function_with_its_own_gradient_may_use_numpy() -> None:
    @sm.custom_vjp
    def sine(x: sm.Tensor) -> sm.Tensor:
        return x

    sine.defvjp(
        lambda x: (sm.asarray(np.sin(x.numpy())), x),
        lambda x, ct: (ct * sm.cos(x),),
    )
    np.testing.assert_allclose(sm.grad(lambda x: sine(x * 2).sum())(X).numpy(), 2 * np.cos(2 * X.numpy()), rtol=1e-6)


def test_a_copy_keeps_the_gradient() -> None:
    assert sm.grad(lambda x: (sm.asarray(x, copy=True) ** 2).sum())(X).tolist() == [2.0, 4.0, 6.0]
    assert sm.grad(lambda x: (sm.from_dlpack(x, copy=True) ** 2).sum())(X).tolist() == [2.0, 4.0, 6.0]


def test_what_a_function_left_behind_is_named_as_such() -> None:
    log: list[sm.Tensor] = []
    sm.jit(lambda x: (log.append(x.sum()), x)[1])(sm.ones(2))
    with pytest.raises(TraceError, match=r"what a function left behind(.|\n)*Return the tensor"):
        float(log[0])

"""`sm.debug.nans()` names the operation and the line that first made a NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import IndexRangeError, NaNError


def _raised(function: Any, *args: Any) -> str:
    with pytest.raises(NaNError) as caught, sm.debug.nans():
        function(*args)
    return str(caught.value)


def test_the_operation_and_its_line_are_named() -> None:
    def program(x: sm.Tensor) -> sm.Tensor:
        shifted = x - 2.0
        logarithm = sm.log(shifted)
        return logarithm.sum()

    text = _raised(program, sm.asarray([3.0, 1.0]))
    assert "log made a NaN: 1 of 2 values" in text
    assert "logarithm = sm.log(shifted)" in text


def test_inside_compiled_functions_as_well() -> None:
    @sm.jit
    def step(x: sm.Tensor) -> sm.Tensor:
        ratio = x / x
        return ratio + 1

    x = sm.asarray([1.0, 0.0])
    assert np.isnan(step(x).numpy()).any()  # compiled before
    text = _raised(step, x)
    assert "divide made a NaN" in text and "ratio = x / x" in text
    assert np.isnan(step(x).numpy()).any()  # and as before afterwards


def test_a_gradient_names_the_operation_that_it_belongs_to() -> None:
    def distance(x: sm.Tensor) -> sm.Tensor:
        squares = (x * x).sum()
        return squares.sqrt()

    text = _raised(sm.grad(distance), sm.zeros(3))
    assert "the gradient of multiply made a NaN: 3 of 3 values" in text and "squares = (x * x).sum()" in text
    assert "infinite, first in the gradient of sqrt" in text and "return squares.sqrt()" in text


def test_loops_and_batches_name_the_line_in_their_function() -> None:
    def body(total: Any, x: Any) -> Any:
        total = total + 1
        total = total - sm.sqrt(x)
        return total, total

    text = _raised(lambda: sm.scan(body, sm.asarray(0.0), sm.asarray([4.0, -1.0])))
    assert "sqrt made a NaN" in text and "total = total - sm.sqrt(x)" in text

    def one(x: sm.Tensor) -> sm.Tensor:
        y = sm.log(x)
        return y + 1

    text = _raised(sm.vmap(one), sm.asarray([4.0, -1.0]))
    assert "log made a NaN: 1 of 2 values" in text and "y = sm.log(x)" in text


def test_a_training_step_runs_as_it_would_and_layers_are_named() -> None:
    model = sm.nn.Sequential(sm.nn.Linear(3, 4), sm.nn.BatchNorm1d(4), sm.nn.ReLU(), sm.nn.Linear(4, 2))
    opt = sm.optim.AdamW(lr=1e-2)

    def step(model: Any, state: Any, x: Any) -> Any:
        def loss(model: Any) -> Any:
            logits = model(x)
            return sm.nn.losses.cross_entropy(logits, sm.asarray([0, 1, 1]))

        value, grads = sm.value_and_grad(loss)(model)
        model, state = opt.update(model, grads, state)
        return model, state, value

    x = sm.random.normal((3, 3), key=sm.random.key(1))
    _, _, plain = sm.jit(step)(model, opt.init(model), x)
    with sm.debug.nans():
        after, _, value = sm.jit(step)(model, opt.init(model), x)
    np.testing.assert_allclose(value.numpy(), plain.numpy(), rtol=1e-5)
    text = _raised(sm.jit(step), after, opt.init(model), x * 1e38 * 1e38)
    assert "Sequential made a NaN" in text and "logits = model(x)" in text


def test_a_nan_in_the_data_is_called_that() -> None:
    x = sm.asarray([1.0, np.nan])
    text = _raised(lambda: x * 2)
    assert "multiply: an operand holds a NaN already, which 1 of 2 values" in text and "the data come from" in text


def test_what_is_written_or_cleaned_is_no_mistake() -> None:
    with sm.debug.nans():
        x = sm.asarray([1.0, np.nan])
        clean = sm.where(sm.isnan(x), 0.0, x)
        assert clean.tolist() == [1.0, 0.0]
        assert np.isnan(sm.full((2,), sm.nan).numpy()).all()
        with pytest.raises(IndexRangeError):
            _ = x[sm.asarray([5])]
    assert "lazy" in repr(clean + 1)  # nothing is computed early any more

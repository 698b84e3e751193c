"""Convolutions and pooling in what is exported: found where the graph is exactly that, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from tests.formats.stablehlo import windowed
from tests.formats.stablehlo.windowed import NEARLY, Case
from tests.turns import one_in


def check(case: Case) -> str:
    """The text, which has the operations, computes the same, and reads back as itself."""
    given = [sm.asarray(x) for x in case.args]
    text = sm.stablehlo.export(case.function, *given)
    assert text.count(f"stablehlo.{case.operation}") == case.count
    program = sm.stablehlo.load(text)
    assert sm.stablehlo.export(program, *given) == text
    found, wanted = program(*given).numpy(), case.function(*given).numpy()
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == wanted.dtype
    return text


@pytest.mark.parametrize("seed", one_in(4, range(120)))
def test_convolutions(seed: int) -> None:
    assert "smelt.window" not in check(windowed.convolution(seed))


@pytest.mark.parametrize("seed", one_in(4, range(120)))
def test_pooling(seed: int) -> None:
    assert "smelt.window" not in check(windowed.pooling(seed))


@pytest.mark.parametrize("name", NEARLY)
def test_what_is_nearly_one(name: str) -> None:
    check(NEARLY[name])


def test_open_batches() -> None:
    n, w = sm.Dim("n", 1, 8), sm.ones((4, 3, 3, 3))
    text = sm.stablehlo.export(
        lambda x: sm.max_pool2d(sm.conv2d(x, w), 2), sm.ones((2, 3, 6, 7)), shapes=[(n, 3, 6, 7)]
    )
    assert "(tensor<?x3x6x7xf32>, tensor<4x3x3x3xf32>) -> tensor<?x4x4x5xf32>" in text
    program = sm.stablehlo.load(text)
    x = sm.asarray(np.random.default_rng(0).normal(size=(5, 3, 6, 7)).astype(np.float32))
    wanted = sm.max_pool2d(sm.conv2d(x, w), 2).numpy()
    np.testing.assert_allclose(program(x, w).numpy(), wanted, rtol=1e-5)


def test_bodies_of_loops_have_them() -> None:
    w = sm.ones((2, 2, 3, 3))

    def function(x: Any) -> Any:
        return sm.fori_loop(0, 3, lambda i, s: sm.conv2d(s, w, padding=1) / 9, x)

    text = sm.stablehlo.export(function, sm.ones((1, 2, 5, 5)))
    assert text.count("stablehlo.convolution") == 1 and "smelt.window" not in text


def test_a_network_and_its_gradient() -> None:
    """Each way forward and back is one convolution: strides of 1 need none of the zeros in between."""
    x, w, v = (sm.asarray(np.random.default_rng(k).normal(size=s).astype(np.float32)) for k, s in enumerate(SHAPES))

    def loss(params: Any, x: Any) -> Any:
        w, v = params
        return (sm.conv2d(sm.tanh(sm.conv2d(x, w, padding=1)), v, padding=2) ** 2).mean()

    text = sm.stablehlo.export(sm.value_and_grad(loss), (w, v), x)
    assert text.count("stablehlo.convolution") == 5 and "smelt.window" not in text


SHAPES = [(2, 3, 8, 9), (4, 3, 3, 3), (5, 4, 5, 5)]

"""Contractions of what was computed from contractions: which become one kernel, and which must not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import smelt as sm
from smelt.transform.explain import examine
from tests.derive.checking import values
from tests.turns import one_in

RNG = np.random.default_rng(11)
Function = Callable[..., Any]


def arrays(*shapes: tuple[int, ...]) -> list[Any]:
    return [0.5 * RNG.standard_normal(shape) for shape in shapes]


def check(function: Function, kernels: int, *shapes: tuple[int, ...]) -> None:
    """So many kernels, and what the reference computes."""
    given = arrays(*shapes)
    tensors = [sm.asarray(x).astype(sm.float32) for x in given]
    assert len(examine(function, *tensors).kernels) == kernels
    results = sm.jit(function)(*tensors)
    results = results if isinstance(results, tuple) else (results,)
    expected = function(*[sm.asarray(x) for x in given])
    for got, wanted in zip(results, values(expected if isinstance(expected, tuple) else [expected]), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, atol=1e-4 * (1 + np.abs(wanted).max()))


HEADS = (3, 40, 8)


def gradients(causal: bool = False) -> Function:
    def loss(q: sm.Tensor, k: sm.Tensor, v: sm.Tensor) -> sm.Tensor:
        return (sm.attention(q, k, v, causal=causal) ** 2).sum()

    return sm.grad(loss, argnums=(0, 1, 2))


def test_the_gradient_of_attention() -> None:
    # The forward pass with the logarithms of sums; its cotangent, and that summed with it; queries; keys and values.
    for causal in one_in(2, (False, True)):
        check(gradients(causal=causal), 5, HEADS, HEADS, HEADS)


def test_values_of_another_size_have_a_kernel_of_their_own() -> None:
    check(gradients(causal=True), 6, HEADS, HEADS, (3, 40, 16))


def test_it_need_not_be_attention() -> None:
    check(lambda q, k, v: sm.tanh(q @ k.mT) @ v, 1, HEADS, HEADS, HEADS)
    check(lambda q, k, v: sm.tanh(q @ k.mT).mT @ v, 1, HEADS, (3, 50, 8), HEADS)
    check(lambda q, k, v: (sm.tanh(q @ k.mT) * (v @ q.mT).mT) @ k, 1, HEADS, HEADS, HEADS)


def test_inner_sums_may_be_symbolic() -> None:
    n = sm.Dim("n", 1, 8)
    function = sm.jit(lambda a, b: sm.tanh(a @ b) @ b.mT, shapes=[(3, 20, n), (3, n, 20)])
    for size in (1, 5):
        a, b = arrays((3, 20, size), (3, size, 20))
        got = function(sm.asarray(a).astype(sm.float32), sm.asarray(b).astype(sm.float32)).numpy()
        np.testing.assert_allclose(got, np.tanh(a @ b) @ b.swapaxes(1, 2), atol=1e-4)


def test_nothing_to_attend_to() -> None:
    function = sm.jit(gradients())
    slopes = function(sm.ones((2, 0, 4)), sm.ones((2, 9, 4)), sm.ones((2, 9, 3)))
    assert [slope.shape for slope in slopes] == [(2, 0, 4), (2, 9, 4), (2, 9, 3)]
    assert not any(slope.numpy().any() for slope in slopes)


def test_the_logarithm_of_a_sum_of_exponentials() -> None:
    def log_sums(q: sm.Tensor, k: sm.Tensor) -> sm.Tensor:
        x = q @ k.mT
        largest = x.max(-1, keepdims=True)
        return largest + sm.log(sm.exp(x - largest).sum(-1, keepdims=True))

    check(log_sums, 1, HEADS, (3, 90, 8))


def test_results_that_wait_for_each_other_stay_apart() -> None:
    def chained(q: sm.Tensor, k: sm.Tensor, v: sm.Tensor) -> sm.Tensor:
        scores = sm.tanh(q @ k.mT)
        return scores.mT @ (v + (scores.mT @ v))

    def side_by_side(q: sm.Tensor, k: sm.Tensor, v: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        scores = sm.tanh(q @ k.mT)
        return scores.mT @ v, (scores * scores).mT @ (v + 1.0)

    check(chained, 2, HEADS, HEADS, HEADS)
    check(side_by_side, 1, HEADS, HEADS, HEADS)


def test_scores_that_somebody_reads_are_stored() -> None:
    def read(q: sm.Tensor, k: sm.Tensor, v: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        scores = sm.tanh(q @ k.mT)
        return scores, scores @ v

    def summed(q: sm.Tensor, k: sm.Tensor, v: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        scores = sm.tanh(q @ k.mT)
        return scores.sum((0, 1)), scores @ v

    check(read, 2, HEADS, HEADS, HEADS)
    check(summed, 3, HEADS, HEADS, HEADS)


def test_hidden_layers_are_stored() -> None:
    check(lambda x, up, down: (x @ up).relu() @ down, 2, (100, 16), (16, 64), (64, 16))


def test_second_derivatives_store_what_they_need() -> None:
    def curvature(q: sm.Tensor, k: sm.Tensor, v: sm.Tensor) -> Any:
        return sm.grad(lambda q: (gradients()(q, k, v)[1] ** 2).sum())(q)

    given = arrays((2, 12, 4), (2, 12, 4), (2, 12, 4))
    got = sm.jit(curvature)(*[sm.asarray(x).astype(sm.float32) for x in given])
    (expected,) = values([curvature(*[sm.asarray(x) for x in given])])
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-3 * (1 + np.abs(expected).max()))

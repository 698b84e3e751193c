"""Attention is one kernel whatever its form, and computes what its definition says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import smelt as sm
from smelt.tensor.tensor import Tensor
from smelt.transform.explain import examine

RNG = np.random.default_rng(7)
Function = Callable[..., Tensor]


def tensor(*shape: int) -> Tensor:
    return sm.from_numpy(RNG.standard_normal(shape).astype(np.float32))


def kernels(function: Function, *arguments: Tensor) -> int:
    return len(examine(function, *arguments).kernels)


def expected(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, mask: np.ndarray | None = None) -> np.ndarray:
    queries, keys, values = (x.numpy().astype(np.float64) for x in (q, k, v))
    scores = queries @ keys.swapaxes(-1, -2) / np.sqrt(queries.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ values


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 70, 64), (1, 2, 33, 20), (129, 16), (12, 8, 128), (3, 97, 3), (1, 200, 256)])
@pytest.mark.by_turns(8)
def test_one_kernel_for_any_head_size(shape: tuple[int, ...], causal: bool) -> None:
    q, k, v = tensor(*shape), tensor(*shape), tensor(*shape)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return sm.attention(q, k, v, causal=causal)

    assert kernels(attend, q, k, v) == 1
    np.testing.assert_allclose(sm.jit(attend)(q, k, v).numpy(), expected(q, k, v, causal), atol=2e-5)


def test_queries_and_values_of_other_sizes() -> None:
    q, k, v = tensor(2, 11, 24), tensor(2, 50, 24), tensor(2, 50, 40)
    assert kernels(sm.attention, q, k, v) == 1
    np.testing.assert_allclose(sm.jit(sm.attention)(q, k, v).numpy(), expected(q, k, v), atol=2e-5)


def test_grouped_heads_share_keys() -> None:
    q, k, v = tensor(2, 3, 40, 16), tensor(2, 1, 40, 16), tensor(2, 1, 40, 16)
    assert kernels(sm.attention, q, k, v) == 1
    np.testing.assert_allclose(sm.jit(sm.attention)(q, k, v).numpy(), expected(q, k, v), atol=2e-5)


def test_masks() -> None:
    q, k, v = tensor(2, 40, 16), tensor(2, 40, 16), tensor(2, 40, 16)
    allowed = RNG.random((40, 40)) < 0.7
    allowed[:, 0] = True
    mask = sm.from_numpy(allowed)
    assert kernels(sm.attention, q, k, v, mask) == 2  # the first tells which queries see any key
    np.testing.assert_allclose(sm.jit(sm.attention)(q, k, v, mask).numpy(), expected(q, k, v, mask=allowed), atol=2e-5)


def test_lengths_may_be_symbolic() -> None:
    n = sm.Dim("n", 1, 256)
    attend = sm.jit(lambda q, k, v: sm.attention(q, k, v, causal=True), shapes=[(3, n, 16)] * 3)
    for length in (9, 64, 130):
        q, k, v = tensor(3, length, 16), tensor(3, length, 16), tensor(3, length, 16)
        np.testing.assert_allclose(attend(q, k, v).numpy(), expected(q, k, v, True), atol=2e-5)


def test_weights_that_somebody_reads_are_stored() -> None:
    q, k, v = tensor(40, 16), tensor(40, 16), tensor(40, 16)

    def both(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        weights = sm.softmax(q @ k.T, -1)
        return weights, weights @ v

    weights, result = sm.jit(both)(q, k, v)
    np.testing.assert_allclose(weights.numpy() @ v.numpy(), result.numpy(), atol=2e-5)


def test_it_need_not_be_the_composite() -> None:
    q, k, v = tensor(40, 16), tensor(40, 16), tensor(40, 16)
    assert kernels(lambda q, k, v: sm.softmax(q @ k.T * 0.25, -1) @ v, q, k, v) == 1


WEIGHTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "e / t": lambda e, t: e / t,
    "e * (1 / t)": lambda e, t: e * (1 / t),
    "(1 / t) * e": lambda e, t: (1 / t) * e,
    "reciprocal": lambda e, t: e * t.reciprocal(),
}
MAXIMA: dict[str, Callable[[Tensor], Tensor]] = {
    "max": lambda x: x.max(-1, keepdims=True),
    "max, -inf": lambda x: sm.maximum(x.max(-1, keepdims=True), -np.inf),
    "-inf, max": lambda x: sm.maximum(-np.inf, sm.minimum(x.max(-1, keepdims=True), np.inf)),
}


@pytest.mark.parametrize("weigh", WEIGHTS)
@pytest.mark.parametrize("largest", MAXIMA)
def test_a_softmax_written_by_hand_skips_what_a_mask_rules_out(weigh: str, largest: str) -> None:
    q, k, v = tensor(2, 96, 16), tensor(2, 96, 16), tensor(2, 96, 16)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        places = sm.arange(96)
        scores = sm.where(places[None, :] <= places[:, None], q @ k.mT * 0.25, -np.inf)
        e = sm.exp(scores - MAXIMA[largest](scores))
        return WEIGHTS[weigh](e, e.sum(-1, keepdims=True)) @ v

    [kernel] = examine(attend, q, k, v).kernels
    assert "skip" in kernel.schedule
    np.testing.assert_allclose(sm.jit(attend)(q, k, v).numpy(), expected(q, k, v, causal=True), atol=2e-5)


TRIANGLES: dict[str, Callable[[Tensor], Tensor]] = {
    "tril > 0": lambda scores: sm.where(sm.tril(sm.ones((96, 96))) > 0, scores, -np.inf),
    "tril == 0": lambda scores: sm.where(sm.tril(sm.ones((96, 96))) == 0, -np.inf, scores),
    "tril of bools": lambda scores: sm.where(sm.tril(sm.ones((96, 96), dtype=sm.bool)), scores, -np.inf),
    "tril to bools": lambda scores: sm.where(sm.tril(sm.ones((96, 96))).astype(sm.bool), scores, -np.inf),
}


@pytest.mark.parametrize("triangle", TRIANGLES)
def test_masks_that_are_triangles_of_ones_skip_blocks_too(triangle: str) -> None:
    q, k, v = tensor(2, 96, 16), tensor(2, 96, 16), tensor(2, 96, 16)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return TRIANGLES[triangle](q @ k.mT * 0.25).softmax(-1) @ v

    [kernel] = examine(attend, q, k, v).kernels
    assert "skip" in kernel.schedule
    np.testing.assert_allclose(sm.jit(attend)(q, k, v).numpy(), expected(q, k, v, causal=True), atol=2e-5)


def test_one_query_streams_the_keys_instead() -> None:
    q, k, v = tensor(4, 1, 64), tensor(4, 300, 64), tensor(4, 300, 64)
    assert kernels(sm.attention, q, k, v) > 1
    np.testing.assert_allclose(sm.jit(sm.attention)(q, k, v).numpy(), expected(q, k, v), atol=2e-5)


@pytest.mark.parametrize("order, axis", [((1, 0, 2, 3), -1), ((0, 1, 3, 2), -2), ((), -1)])
def test_axes_of_scores_may_be_moved_and_added(order: tuple[int, ...], axis: int) -> None:
    q, k, v = tensor(2, 3, 40, 16), tensor(2, 3, 40, 16), tensor(2, 3, 40, 16)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.swapaxes(-1, -2) / 4
        moved = scores.permute(order) if order else scores.unsqueeze(2)
        weights = sm.exp(moved - moved.max(axis, keepdims=True))
        weights = weights / weights.sum(axis, keepdims=True)
        return (weights.permute(order) if order else weights.squeeze(2)) @ v

    assert kernels(attend, q, k, v) == 1
    np.testing.assert_allclose(sm.jit(attend)(q, k, v).numpy(), expected(q, k, v), atol=2e-5)

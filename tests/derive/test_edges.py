"""Gradients where a derivative has to be chosen, and where a formula has a kink that its function has not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from tests.interpreted import interpreted, settled

X = np.array([-6.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 6.0])
STEP = 1e-6

SMOOTH: dict[str, Callable[[Any], Any]] = {
    "sigmoid": sm.sigmoid,
    "log_sigmoid": sm.log_sigmoid,
    "softplus": sm.softplus,
    "silu": sm.silu,
    "mish": sm.mish,
    "gelu": sm.gelu,
    "gelu tanh": lambda x: sm.gelu(x, approximate="tanh"),
    "gelu quick": lambda x: sm.gelu(x, approximate="quick"),
    "tanh": sm.tanh,
    "softsign": sm.softsign,
    "elu": sm.elu,
    "celu": sm.celu,
    "sinc": sm.sinc,
    "erf": sm.erf,
    "sin": sm.sin,
    "asinh": sm.asinh,
    "expm1": sm.expm1,
    "logaddexp": lambda x: sm.logaddexp(x, 0.0),
    "smooth l1": lambda x: sm.nn.losses.smooth_l1_loss(x, sm.zeros(len(X)), reduction="none"),
    "huber": lambda x: sm.nn.losses.huber_loss(x, sm.zeros(len(X)), reduction="none"),
    "logits": lambda x: sm.nn.losses.binary_cross_entropy_with_logits(x, sm.ones(len(X)), reduction="none"),
    "soft margin": lambda x: sm.nn.losses.soft_margin_loss(x, sm.ones(len(X)), reduction="none"),
}


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.by_turns(3)
def test_smooth_functions_have_their_slope_everywhere(name: str) -> None:
    """Also at 0 and at whole numbers, where formulas often turn."""
    function = SMOOTH[name]
    above, below = interpreted([function(sm.asarray(X + step)) for step in (STEP, -STEP)])
    slope = sm.grad(lambda x: function(x).sum())(sm.asarray(X)).numpy()
    np.testing.assert_allclose(slope, (above - below) / (2 * STEP), atol=1e-6)
    _, change = sm.jvp(function, (sm.asarray(X),), (sm.ones_like(sm.asarray(X)),))
    np.testing.assert_allclose(change.numpy(), slope, atol=1e-9)


def test_a_network_whose_last_layer_begins_with_zeros_learns() -> None:
    logits = sm.zeros(4)
    slope = sm.grad(lambda z: sm.nn.losses.binary_cross_entropy_with_logits(z, sm.asarray([1.0, 0, 1, 0])))(logits)
    assert slope.tolist() == [-0.125, 0.125, -0.125, 0.125]


def test_on_its_bounds_clip_has_the_gradient_that_it_has_between() -> None:
    x = sm.asarray([-2.0, -1.0, 0.0, 1.0, 2.0])
    assert sm.grad(lambda x: x.clip(-1, 1).sum())(x).tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]
    assert sm.grad(lambda x: sm.clamp(x, min=-1.0).sum())(x).tolist() == [0.0, 1.0, 1.0, 1.0, 1.0]
    low, high = sm.full((5,), -1.0), sm.full((5,), 1.0)
    slopes = sm.grad(lambda x, low, high: x.clip(low, high).sum(), (0, 1, 2))(x, low, high)
    assert [slope.tolist() for slope in slopes] == [[0, 1, 1, 1, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1]]


def test_clip_of_what_is_no_number() -> None:
    x = np.array([math.nan, -math.inf, math.inf, 0.5, -0.5])
    for low, high in ((-1.0, 1.0), (math.nan, 1.0), (np.array([0.0, 0, math.nan, 0, 0]), None), (1.0, -1.0)):
        np.testing.assert_array_equal(sm.asarray(x).clip(low, high).numpy(), np.clip(x, low, high))
    assert sm.asarray([1, 5, 9]).clip(2, 8).tolist() == [2, 5, 8]


@pytest.mark.parametrize("order", [0.5, 1, 1.5, 2, 3, math.inf])
def test_the_norm_of_nothing_is_flat(order: float) -> None:
    x = sm.asarray([[0.0, 0.0], [3.0, 0.0]])
    value, slope = sm.value_and_grad(lambda x: sm.vector_norm(x, axis=1, ord=order).sum())(x)
    assert value.item() == pytest.approx(3.0)
    np.testing.assert_allclose(slope.numpy(), [[0.0, 0.0], [1.0, 0.0]], rtol=1e-6)


def test_a_distance_of_a_point_from_itself_does_not_spoil_the_others() -> None:
    points = sm.asarray([[0.0, 0.0], [3.0, 4.0]])

    def between(p: sm.Tensor) -> sm.Tensor:
        return sm.norm(p.expand_dims(0) - p.expand_dims(1), axis=-1).sum()

    np.testing.assert_allclose(sm.grad(between)(points).numpy(), [[-1.2, -1.6], [1.2, 1.6]], rtol=1e-6)
    assert bool(sm.isfinite(sm.grad(lambda p: (sm.grad(between)(p) ** 2).sum())(points)).all())


@pytest.mark.parametrize("numbers", [[2.0], [2.0, 2.0, 2.0]])
def test_the_deviation_of_numbers_that_do_not_deviate_is_flat(numbers: list[float]) -> None:
    value, slope = sm.value_and_grad(lambda x: x.std())(sm.asarray(numbers))
    assert value.item() == 0.0 and slope.tolist() == [0.0] * len(numbers)


def test_the_deviation_of_one_number_of_a_sample_is_unknown() -> None:
    value, slope = sm.value_and_grad(lambda x: x.std(correction=1))(sm.asarray([2.0]))
    assert math.isnan(value.item()) and math.isnan(slope.item())


def test_at_the_origin_there_is_no_direction() -> None:
    zero = sm.asarray(0.0)
    assert [x.item() for x in sm.grad(sm.atan2, (0, 1))(zero, zero)] == [0.0, 0.0]
    assert [x.item() for x in sm.grad(sm.hypot, (0, 1))(zero, zero)] == [0.0, 0.0]


def test_a_share_of_nothing_times_a_logarithm() -> None:
    assert sm.grad(sm.xlogy)(sm.asarray(0.0), sm.asarray(0.0)).item() == 0.0
    assert sm.grad(sm.xlogy)(sm.asarray(0.0), sm.asarray(2.0)).item() == pytest.approx(math.log(2))
    assert sm.xlogy(sm.zeros(3), sm.asarray([0.0, math.inf, -1.0])).tolist() == [0.0, 0.0, 0.0]


MASKS: dict[str, Any] = {
    "bool": np.array([[True, False, True], [False, False, False], [True, True, True]]),
    "keys": np.array([False, False, False]),
    "one for all": np.array(False),
    "added": np.array([[0.0, -math.inf, 1.0], [-math.inf] * 3, [0.5, 0.0, -1.0]]),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.by_turns(4)
def test_a_query_that_sees_no_key_takes_nothing(kind: str, causal: bool) -> None:
    """Zeros forward, zeros backward; and the other queries as if it were not there."""
    generator = np.random.default_rng(0)
    q, k, v = (sm.asarray(generator.normal(size=(2, 3, 4))) for _ in range(3))
    mask = sm.asarray(MASKS[kind])

    def written_out(q: sm.Tensor, k: sm.Tensor, v: sm.Tensor) -> sm.Tensor:
        scores = q @ k.mT / 2
        hidden = sm.where(mask, 0.0, -sm.inf) if mask.dtype.is_bool else mask
        hidden = sm.where(sm.tri(3, dtype=sm.bool), hidden, -sm.inf) if causal else hidden
        powers = sm.exp(scores + hidden)
        total = powers.sum(-1, keepdims=True)
        return powers / sm.where(total == 0, 1.0, total) @ v

    ours = sm.attention(q, k, v, mask, causal=causal)
    np.testing.assert_allclose(ours.numpy(), *interpreted(written_out(q, k, v)), atol=1e-12)
    found, expected = (
        sm.grad(lambda q, k, v, f=f: (f(q, k, v) ** 2).sum() + f(q, k, v).sum(), (0, 1, 2))(q, k, v)
        for f in (lambda q, k, v: sm.attention(q, k, v, mask, causal=causal), written_out)
    )
    for slope, wanted in zip(found, interpreted(expected), strict=True):
        np.testing.assert_allclose(slope.numpy(), wanted, atol=1e-12)


def test_a_batch_with_an_element_that_is_all_padding() -> None:
    layer = settled(sm.nn.MultiheadAttention(8, 2, batch_first=True))
    x, padding = settled(sm.random.normal((2, 3, 8))), sm.asarray([[False, False, True], [True, True, True]])

    def loss(layer: Any, need_weights: bool) -> sm.Tensor:
        result, _ = layer(x, x, x, key_padding_mask=padding, need_weights=need_weights)
        return (result**2).sum()  # type: ignore[no-any-return]

    slopes = [sm.grad(loss)(layer, need_weights) for need_weights in (False, True)]
    for first, second in zip(slopes[0].parameters(), interpreted(slopes[1].parameters()), strict=True):
        assert np.isfinite(first.numpy()).all()
        np.testing.assert_allclose(first.numpy(), second, atol=1e-5)
    _, weights = layer(x, x, x, key_padding_mask=padding)
    assert weights[1].tolist() == [[0.0] * 3] * 3

"""The models that are measured compute what they should."""

from __future__ import annotations

import numpy as np
import pytest

import smelt as sm
from smelt.bench.models import GPT2, TINY, check_close, embed, forward, gelu_reference, parameters, reference
from smelt.errors import InternalError


def test_the_forward_pass_agrees_with_numpy() -> None:
    arrays = parameters(TINY, seed=5)
    x = embed(arrays, TINY, seed=6)
    weights = {name: sm.from_numpy(array) for name, array in arrays.items()}
    logits = sm.jit(lambda w, x: forward(w, x, TINY.layers, TINY.heads))(weights, sm.from_numpy(x))
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    expected = reference(wide, x.astype(np.float64), TINY.layers, TINY.heads)
    assert logits.shape == (1, TINY.length, TINY.vocabulary)
    np.testing.assert_allclose(logits.numpy(), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_a_position_sees_only_what_comes_before_it() -> None:
    arrays = parameters(TINY)
    x = embed(arrays, TINY)
    changed = x.copy()
    changed[:, 11:] = x[:, 11:, ::-1]
    before, after = (reference(arrays, y, TINY.layers, TINY.heads) for y in (x, changed))
    np.testing.assert_array_equal(before[:, :11], after[:, :11])
    assert (np.abs(before - after)[:, 11:].max(axis=-1) > 1e-3).all()


def test_gpt2_has_its_size() -> None:
    layer = 12 * GPT2.width**2 + 13 * GPT2.width
    small = parameters(TINY)
    assert (GPT2.layers, GPT2.width, GPT2.heads, GPT2.length, GPT2.vocabulary) == (12, 768, 12, 128, 50257)
    assert sum(a.size for name, a in small.items() if name.startswith("h0.")) == 12 * TINY.width**2 + 13 * TINY.width
    assert GPT2.layers * layer + GPT2.vocabulary * GPT2.width > 120e6


def test_gelu_in_numpy_is_the_tanh_form() -> None:
    x = np.array([-3.0, -0.0, 0.5, 3.0])
    expected = [-0.00363739, 0.0, 0.34571401, 2.99636261]
    np.testing.assert_allclose(gelu_reference(x), expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(
    "found",
    [np.array([1.0, 2.1]), np.array([1.0, np.nan]), np.array([[1.0, 2.0]]), np.array([1.0, np.inf])],
)
def test_a_wrong_result_is_never_timed(found: np.ndarray) -> None:
    with pytest.raises(InternalError, match="wrong"):
        check_close(found, np.array([1.0, 2.0]))


def test_a_right_result_passes() -> None:
    check_close(np.array([1.0, 2.0005]), np.array([1.0, 2.0]))
    check_close(np.zeros((0, 3)), np.zeros((0, 3)))

"""Causal masks that fill with a number: blocks are skipped, and rows where the fill weighs something keep it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import smelt as sm
from smelt.tensor.tensor import Tensor
from smelt.transform.explain import examine

QUERIES, KEYS, FEATURES = 70, 90, 16
LOWEST = float(np.finfo(np.float32).min)
# The place of the first query, and what it sees: all before it, few, nothing, or only what comes later.
MASKS: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "causal": (0, lambda q, k: k <= q),
    "strictly causal": (0, lambda q, k: k < q),
    "causal behind a prefix": (20, lambda q, k: k <= q),
    "the first rows see nothing": (-40, lambda q, k: k <= q),
    "what comes later": (0, lambda q, k: k >= q),
    "the last rows see nothing": (30, lambda q, k: k > q),
}
FILLS = (-np.inf, LOWEST, -1e30, -1e9, -1e4, -100.0, -2.0, 0.0, 5.0, np.inf, np.nan)
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def attention(mask: str, fill: float) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    def attend(q: Tensor, k: Tensor, v: Tensor, shift: Tensor) -> Tensor:
        first, sees = MASKS[mask]
        rows, columns = sm.arange(first, first + QUERIES)[:, None], sm.arange(KEYS)[None, :]
        scores = q @ k.mT * 0.25 + shift
        return sm.softmax(sm.where(sees(rows, columns), scores, fill)) @ v

    return attend


def arguments(dtype: Any, shift: float = 0.0) -> list[Any]:
    generator = np.random.default_rng(3)
    shapes = ((2, QUERIES, FEATURES), (2, KEYS, FEATURES), (2, KEYS, FEATURES))
    rows = np.where(np.arange(QUERIES)[:, None] % 3 == 0, shift, 0.0)  # only some
    return [*(generator.standard_normal(shape).astype(dtype) for shape in shapes), rows.astype(dtype)]


def expected(mask: str, fill: float, arrays: list[Any]) -> Any:
    q, k, v, shift = (array.astype(np.float64) for array in arrays)
    first, sees = MASKS[mask]
    held = sees(np.arange(first, first + QUERIES)[:, None], np.arange(KEYS)[None, :])
    with np.errstate(all="ignore"):
        scores = (q @ k.swapaxes(1, 2) * 0.25 + shift).astype(np.float32)
        scores = np.where(held, scores, np.asarray(fill, arrays[0].dtype).astype(np.float32)).astype(np.float64)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v


def check(mask: str, fill: float, arrays: list[Any], tolerance: float) -> None:
    tensors = [sm.from_numpy(array) for array in arrays]
    found = sm.jit(attention(mask, fill))(*tensors).numpy().astype(np.float64)
    np.testing.assert_allclose(found, expected(mask, fill, arrays), atol=tolerance)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("fill", [-1e30, -1e9, -100.0])
def test_blocks_are_skipped(mask: str, fill: float) -> None:
    tensors = [sm.from_numpy(array) for array in arguments(np.float32)]
    [kernel] = examine(attention(mask, fill), *tensors).kernels
    assert "skip" in kernel.schedule


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("fill", FILLS)
def test_every_row_has_its_value(mask: str, fill: float) -> None:
    check(mask, fill, arguments(np.float32), 2e-5)


@pytest.mark.parametrize("shift", [-110.0, -2e4, -1e31, -np.inf])
@pytest.mark.parametrize("mask", ["causal", "what comes later"])
@pytest.mark.parametrize("fill", [-1e30, -1e9, -1e4, -100.0])
def test_scores_below_the_fill(mask: str, fill: float, shift: float) -> None:
    check(mask, fill, arguments(np.float32, shift), 2e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("mask", ["causal", "the first rows see nothing", "the last rows see nothing"])
@pytest.mark.parametrize("fill", [-6e4, -1e4, -30.0])
def test_short_floats(dtype: str, mask: str, fill: float) -> None:
    check(mask, fill, arguments(DTYPES[dtype]), 4e-2)


def test_a_nan_is_seen() -> None:
    arrays = arguments(np.float32)
    arrays[3][5] = np.nan
    found = sm.jit(attention("causal", -1e9))(*map(sm.from_numpy, arrays)).numpy()
    assert np.isnan(found[:, 5]).all()
    assert np.isfinite(np.delete(found, 5, 1)).all()


def test_gradients() -> None:
    arrays = arguments(np.float32)[:3]
    shift = sm.zeros((QUERIES, 1))

    def loss(fill: float) -> Callable[..., Tensor]:
        return lambda q, k, v: (attention("causal", fill)(q, k, v, shift) ** 2).sum()

    tensors = [sm.from_numpy(array) for array in arrays]
    found, wanted = (sm.jit(sm.grad(loss(fill), (0, 1, 2)))(*tensors) for fill in (-1e9, -np.inf))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=1e-4)

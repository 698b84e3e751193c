"""Attention to the first keys of a cache is one kernel, which reads as many as an integer says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.transform import examine

HEADS, WIDTH, KEYS = 2, 8, 48


def arrays(rows: int, keys: int = KEYS) -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(rows)
    shapes = (HEADS, rows, WIDTH), (HEADS, keys, WIDTH), (HEADS, keys, WIDTH)
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def attend(q: sm.Tensor, k: sm.Tensor, v: sm.Tensor, mask: sm.Tensor) -> sm.Tensor:
    scores = sm.where(mask, sm.einsum("hqd,hkd->hqk", q, k) * 0.25, -sm.inf)
    return sm.einsum("hqk,hkd->hqd", sm.softmax(scores, axis=-1), v)


def expected(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = np.where(mask, np.einsum("hqd,hkd->hqk", q, k) * 0.25, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hqk,hkd->hqd", weights / weights.sum(-1, keepdims=True), v)


def up_to(xp: Any, rows: int, n: Any) -> Any:
    return xp.arange(KEYS, dtype=xp.int32) <= n


def of_each_head(xp: Any, rows: int, n: Any) -> Any:
    return xp.arange(KEYS, dtype=xp.int32) < xp.stack([n, n + 3])[:, None, None]


def causal(xp: Any, rows: int, n: Any) -> Any:
    return xp.arange(KEYS, dtype=xp.int32) <= xp.arange(rows, dtype=xp.int32)[:, None] + n


MASKS: dict[str, Callable[[Any, int, Any], Any]] = {"one": up_to, "each head": of_each_head, "past": causal}


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("mask", MASKS)
def test_as_many_keys_as_an_integer_says(mask: str, rows: int) -> None:
    made, given = MASKS[mask], arrays(rows)

    def function(q: sm.Tensor, k: sm.Tensor, v: sm.Tensor, n: sm.Tensor) -> sm.Tensor:
        return attend(q, k, v, made(sm, rows, n))

    tensors = [*map(sm.asarray, given)]
    jitted = sm.jit(function)
    for n in (1, 15, 16, 31, KEYS - 1, KEYS + 100):
        found = jitted(*tensors, sm.asarray(np.int32(n)))
        np.testing.assert_allclose(found.numpy(), expected(*given, made(np, rows, np.int32(n))), rtol=1e-4, atol=1e-5)
    kernels = examine(function, *tensors, sm.asarray(np.int32(3))).compiled.kernels
    if rows > 1 and mask != "each head":  # whose integers are computed by a kernel of their own
        assert [("skip" in kernel.schedule, "ask" in kernel.ir) for kernel in kernels] == [(True, True)]


def test_what_lies_beyond_is_not_read() -> None:
    """A cache need not hold anything there: blocks of keys are a few hundred at most, on any processor."""
    q, k, v = arrays(3, 1024)
    k[:, 512:], v[:, 512:] = np.nan, np.inf

    def function(q: sm.Tensor, k: sm.Tensor, v: sm.Tensor, n: sm.Tensor) -> sm.Tensor:
        return attend(q, k, v, sm.arange(1024, dtype=sm.int32) <= n)

    found = sm.jit(function)(*map(sm.asarray, (q, k, v, np.int32(5))))
    np.testing.assert_allclose(
        found.numpy(), expected(q, k[:, :32], v[:, :32], np.arange(32) <= 5), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("rows", [3, 16])
def test_a_mask_that_is_not_monotone_leaves_nothing_out(rows: int) -> None:
    given, at = arrays(rows), np.random.default_rng(0).permutation(KEYS).astype(np.int32)

    def function(q: sm.Tensor, k: sm.Tensor, v: sm.Tensor, at: sm.Tensor, n: sm.Tensor) -> sm.Tensor:
        return attend(q, k, v, at <= n)

    found = sm.jit(function)(*map(sm.asarray, (*given, at, np.int32(7))))
    np.testing.assert_allclose(found.numpy(), expected(*given, at <= 7), rtol=1e-4, atol=1e-5)


def test_a_step_appends_to_its_cache_and_attends_to_it() -> None:
    """The whole of a decoding step's cache: nothing of its size is written, nothing beyond the position is read."""

    def step(cache: sm.Tensor, q: sm.Tensor, row: sm.Tensor, at: sm.Tensor) -> Any:
        cache = cache.at[:, at].set(row)
        return cache, attend(q, cache, cache, up_to(sm, 3, at))

    q, k, _ = arrays(3)
    bound = sm.jit(step, donate=0).bind(sm.asarray(k))
    for at in range(4, 12):
        row = np.full((HEADS, WIDTH), at, np.float32)
        k[:, at] = row
        found = bound(q, row, np.array(at, np.int32))
        np.testing.assert_allclose(found.numpy(), expected(q, k, k, np.arange(KEYS) <= at), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(bound.state[0].numpy(), k)
    assert any(bound._quick.values())

"""Scans as a user meets them: under jit with symbolic sizes, of views, with what comes before and after."""

from __future__ import annotations

from typing import Any

import numpy as np

import smelt as sm
from smelt.transform import examine
from tests.interpreted import interpreted


def floats(*shape: int) -> sm.Tensor:
    return sm.asarray(np.random.default_rng(5).random(shape, np.float32))


def test_symbolic_sizes() -> None:
    n = sm.Dim("n", 1, 300)

    def block(x: sm.Tensor) -> Any:
        along = sm.cumsum(x * 2, axis=0) + 1, sm.cumsum(x, axis=1), sm.cummax(x), sm.logcumsumexp(x, axis=0)
        return *along, sm.diff(x, axis=0), sm.cumulative_sum(x, axis=0, include_initial=True), sm.norm(x, axis=0)

    f = sm.jit(block, shapes=[(n, 37)])
    for size in (1, 2, 7, 97, 300):
        x = floats(size, 37)
        for got, expected in zip(f(x), interpreted(block(x)), strict=True):
            np.testing.assert_allclose(got.numpy(), expected, rtol=2e-5, atol=2e-5)
    assert len(f._entries) == 1


def test_a_scan_with_its_neighbors_is_one_kernel() -> None:
    x = floats(70, 50)
    report = examine(lambda x: (x - x.mean(1, keepdims=True)).cumsum(1).exp(), x)
    assert len(report.kernels) == 1


def test_parts_of_a_scan() -> None:
    x = floats(7, 7)
    for axis in (0, 1):
        scanned, expected = x.cumsum(axis), x.numpy().cumsum(axis)
        parts: Any = (lambda s: s[2], lambda s: s[:, -1], lambda s: s[:1], lambda s: s[3, 3], lambda s: s.diagonal())
        for part in parts:
            np.testing.assert_allclose((part(scanned) + 1).numpy(), part(expected) + 1, rtol=1e-6)


def test_a_scan_backwards() -> None:
    x = floats(5, 19)
    np.testing.assert_allclose(x.flip(1).cumsum(1).flip(1).numpy(), x.numpy()[:, ::-1].cumsum(1)[:, ::-1], rtol=1e-6)


def test_differences_undo_sums() -> None:
    x = sm.asarray(np.arange(24).reshape(4, 6) % 7)
    for axis in (0, 1):
        again = sm.diff(sm.cumulative_sum(x, axis=axis, include_initial=True), axis=axis)
        np.testing.assert_array_equal(again.numpy(), x.numpy())


def test_a_dtype_for_the_sums() -> None:
    x = sm.asarray(np.full(300, 1, np.uint8))
    assert sm.cumsum(x).dtype is sm.uint64
    assert sm.cumsum(x, dtype=sm.uint8).tolist()[254:258] == [255, 0, 1, 2]
    assert sm.cumprod(x + 1, dtype=sm.float64).numpy()[20] == 2.0**21


def test_more_differences_than_elements_leave_none() -> None:
    assert sm.diff(sm.asarray([[1, 2, 4]]), 10**9).shape == (1, 0)

"""Weights that stay the same are packed once; results are the same whatever happens to them."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.runtime.prepared import CALLS
from smelt.tensor.tensor import Tensor
from smelt.transform.explain import examine
from smelt.transform.jit import Jit
from tests.profiles import here

RNG = np.random.default_rng(11)
DEPTH, COLUMNS = 512, 576  # a little more than a megabyte of float32
tiles = pytest.mark.skipif("amx_int8" not in here().features, reason="packed for matrix instructions only")


def own(array: np.ndarray) -> Tensor:
    return sm.asarray(array, copy=True)


def numbers(*shape: int) -> Tensor:
    return own(RNG.standard_normal(shape, dtype=np.float32))


def is_packed(function: Jit[Any, Any]) -> bool:
    watches = [entry.watch for entry in function._entries.values()]
    return any(watch is not None and watch.compiled.prepared for watch in watches)


def check(function: Jit[Any, Any], x: Tensor, w: Tensor) -> None:
    np.testing.assert_allclose(function(x, w).numpy(), x.numpy() @ w.numpy(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("rows", [(), (1,), (3,), (4,), (7,), (65,), (2, 3, 5)])
def test_weights_are_packed_after_some_calls(rows: tuple[int, ...]) -> None:
    f = sm.jit(lambda x, w: x @ w)
    w = numbers(DEPTH, COLUMNS)
    for call in range(CALLS + 3):
        assert is_packed(f) == (call > CALLS)
        check(f, numbers(*rows, DEPTH), w)


def test_transposed_weights_and_what_follows() -> None:
    f = sm.jit(lambda x, w, b: sm.relu(x @ w.mT + b))
    x, w, b = numbers(16, DEPTH), numbers(COLUMNS, DEPTH), numbers(COLUMNS)
    for _ in range(CALLS + 2):
        expected = np.maximum(x.numpy() @ w.numpy().T + b.numpy(), 0)
        np.testing.assert_allclose(f(x, w, b).numpy(), expected, rtol=1e-4, atol=1e-3)
    assert is_packed(f)


def test_a_weight_used_twice_both_ways() -> None:
    f = sm.jit(lambda x, w: (x @ w) @ w.mT)
    x, w = numbers(8, DEPTH), numbers(DEPTH, 1024)
    for _ in range(CALLS + 2):
        expected = x.numpy() @ w.numpy() @ w.numpy().T
        np.testing.assert_allclose(f(x, w).numpy(), expected, rtol=1e-3, atol=1e-1)
    assert is_packed(f)


def test_weights_that_a_function_reaches_by_itself() -> None:
    w = numbers(DEPTH, COLUMNS)
    f = sm.jit(lambda x: x @ w)
    x = numbers(16, DEPTH)
    for _ in range(CALLS + 2):
        np.testing.assert_allclose(f(x).numpy(), x.numpy() @ w.numpy(), rtol=1e-4, atol=1e-3)
    assert is_packed(f)
    w = numbers(DEPTH, COLUMNS)
    np.testing.assert_allclose(f(x).numpy(), x.numpy() @ w.numpy(), rtol=1e-4, atol=1e-3)


def test_other_weights_give_other_results_and_in_the_end_none_are_packed() -> None:
    f = sm.jit(lambda x, w: x @ w)
    x, w = numbers(16, DEPTH), numbers(DEPTH, COLUMNS)
    for _ in range(CALLS + 1):
        check(f, x, w)
    assert is_packed(f)
    for _ in range(CALLS):
        check(f, x, numbers(DEPTH, COLUMNS))
    assert not is_packed(f)
    for _ in range(CALLS + 1):
        check(f, x, w)
    assert not is_packed(f)


def test_weights_that_change_are_never_packed() -> None:
    f = sm.jit(lambda x, w: x @ w)
    for _ in range(2 * CALLS):
        check(f, numbers(16, DEPTH), numbers(DEPTH, COLUMNS))
        assert not is_packed(f)


def test_memory_that_others_may_write_to_is_not_trusted() -> None:
    f = sm.jit(lambda x, w: x @ w)
    array = RNG.standard_normal((DEPTH, COLUMNS), dtype=np.float32)
    x, w = numbers(16, DEPTH), sm.from_numpy(array)
    for _ in range(CALLS + 2):
        check(f, x, w)
    assert not is_packed(f)


@pytest.mark.parametrize("rows", [1, 3, 16])
@pytest.mark.parametrize(("depth", "columns"), [(523, 521), (DEPTH, 550)], ids=["primes", "no whole panels"])
def test_the_last_panel_is_filled_up(rows: int, depth: int, columns: int) -> None:
    f = sm.jit(lambda x, w: x @ w)
    w = numbers(depth, columns)
    for _ in range(CALLS + 2):
        check(f, numbers(rows, depth), w)
    assert is_packed(f)


def test_small_ones_stay_as_they_are() -> None:
    f = sm.jit(lambda x, w: x @ w)
    x, w = numbers(16, 64), numbers(64, 64)
    for _ in range(CALLS + 2):
        check(f, x, w)
    assert not is_packed(f)


def test_neither_are_donated_ones() -> None:
    f = sm.jit(lambda x, w: (x @ w, w * 2), donate=1)
    x = numbers(16, DEPTH)
    w = numbers(DEPTH, COLUMNS)
    for _ in range(CALLS + 2):
        before = w.numpy().copy()
        y, w = f(x, w)
        np.testing.assert_allclose(y.numpy(), x.numpy() @ before, rtol=1e-4, atol=1e-3 * np.abs(before).max())
    assert not is_packed(f)


def test_the_copy_goes_with_the_weight() -> None:
    f = sm.jit(lambda x, w: x @ w)
    x, w = numbers(16, DEPTH), numbers(DEPTH, COLUMNS)
    for _ in range(CALLS + 1):
        f(x, w)
    (copy,) = w._node.attribute.kept.values()
    gone = weakref.ref(copy)
    assert f.memory(x, w).inputs == 4 * (16 * DEPTH + 2 * DEPTH * COLUMNS)
    del copy, w
    gc.collect()
    assert gone() is None


@tiles
@pytest.mark.parametrize("transposed", [False, True])
def test_bytes_and_bfloat16(transposed: bool) -> None:
    a, b = RNG.integers(-128, 128, (32, 1024), np.int8), RNG.integers(-128, 128, (1024, 1056), np.int8)
    x, w = own(a), own(np.ascontiguousarray(b.T) if transposed else b)
    f = sm.jit(lambda x, w: x.astype(sm.int32) @ (w.mT if transposed else w).astype(sm.int32))
    for _ in range(CALLS + 2):
        np.testing.assert_array_equal(f(x, w).numpy(), a.astype(np.int32) @ b.astype(np.int32))
    assert is_packed(f)
    g = sm.jit(lambda x, w: x @ (w.mT if transposed else w))
    xb, wb = x.astype(sm.bfloat16).realize(), w.astype(sm.bfloat16).realize()
    first = g(xb, wb).astype(sm.float32).numpy()
    for _ in range(CALLS + 2):
        np.testing.assert_allclose(g(xb, wb).astype(sm.float32).numpy(), first, rtol=1e-2)
    assert is_packed(g)


def test_rows_that_change_share_one_program_and_one_copy() -> None:
    n = sm.Dim("n", 1, 64)
    f = sm.jit(lambda x, w: x @ w, shapes=[(n, DEPTH), None])
    w = numbers(DEPTH, COLUMNS)
    for rows in (1, 3, 4, 7, 64, 33, 2):
        check(f, numbers(rows, DEPTH), w)
    assert is_packed(f)
    g = sm.jit(lambda x, w: sm.relu(x @ w))
    for _ in range(CALLS + 1):
        g(numbers(5, DEPTH), w)
    assert is_packed(g)
    assert len(w._node.attribute.kept) == 1


def test_what_stays_is_prepared_beside_what_does_not() -> None:
    f = sm.jit(lambda x, v, w: x @ v @ w)
    x, w = numbers(4, DEPTH), numbers(COLUMNS, DEPTH)
    for _ in range(CALLS + 2):
        v = numbers(DEPTH, COLUMNS)
        np.testing.assert_allclose(f(x, v, w).numpy(), x.numpy() @ v.numpy() @ w.numpy(), rtol=1e-3, atol=1e-1)
    assert is_packed(f)
    assert v._node.attribute.kept is None
    assert len(w._node.attribute.kept) == 1


def test_a_part_of_a_tensor_is_prepared_by_itself() -> None:
    f = sm.jit(lambda x, w: x @ w[64:] + x @ w[:-64])
    x, w = numbers(4, DEPTH), numbers(DEPTH + 64, COLUMNS)
    for _ in range(CALLS + 2):
        expected = x.numpy() @ w.numpy()[64:] + x.numpy() @ w.numpy()[:-64]
        np.testing.assert_allclose(f(x, w).numpy(), expected, rtol=1e-4, atol=1e-3)
    assert is_packed(f)
    assert len(w._node.attribute.kept) == 2


def test_without_room_everything_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smelt.device.cpu.CPU.available_bytes", lambda self: 4 * DEPTH * COLUMNS)
    f = sm.jit(lambda x, w: x @ w)
    x, w = numbers(4, DEPTH), numbers(DEPTH, COLUMNS)
    for _ in range(CALLS + 2):
        check(f, x, w)
    assert not is_packed(f)
    assert f.memory(x, w).inputs == 4 * (4 * DEPTH + DEPTH * COLUMNS)


def test_an_earlier_process_prepares_for_a_later_one() -> None:
    """Both plans are read back from disk, with what they ask for."""
    x, w = numbers(4, DEPTH), numbers(DEPTH, COLUMNS)
    for _ in range(2):
        sm.runtime.current().clear_caches()
        f = sm.jit(lambda x, w: x @ w)
        for _ in range(CALLS + 2):
            check(f, x, w)
        assert is_packed(f)


def test_explain_shows_the_plan_that_runs_by_the_end() -> None:
    found = examine(lambda x, w: x @ w, numbers(4, DEPTH), numbers(DEPTH, COLUMNS))
    assert "=== inputs that are prepared\nof input 1: graph leaves(1)" in str(found)
    assert found.compiled.prepared and found.kernels[0].form.startswith("packed")
    assert found.launch_seconds is not None and all(seconds > 0 for seconds in found.launch_seconds)


def test_explain_says_what_would_be_prepared() -> None:
    shared = np.zeros((DEPTH, COLUMNS), np.float32)  # its owner may write to it
    found = examine(lambda x, w: x @ w, numbers(4, DEPTH), sm.from_numpy(shared))
    assert "=== inputs that are prepared once they stay the same\nof input 1: graph leaves(1)" in str(found)

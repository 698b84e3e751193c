"""Parts of a concat that are alike share one kernel, wherever they lie in the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.compiler.record import graph_digest, load_graph
from smelt.config import configure
from smelt.transform.explain import examine

ROWS = [np.arange(5, dtype=np.float32) + k for k in range(24)]


@pytest.mark.parametrize("axis", [0, 1])
def test_a_stack_of_many_has_few_kernels(axis: int) -> None:
    found = examine(lambda *xs: sm.stack([x * 2 for x in xs], axis=axis), *map(sm.asarray, ROWS))
    assert len(found.kernels) == len(ROWS)
    assert len({kernel.region for kernel in found.kernels}) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float16, np.bool_])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_pieces_of_any_size_lie_where_they_belong(axis: int, dtype: Any) -> None:
    rng = np.random.default_rng(axis)
    shapes = [tuple(size if a == axis else 3 for a in range(3)) for size in (1, 4, 0, 4, 7, 1)]
    arrays = [rng.integers(0, 2, shape).astype(dtype) for shape in shapes]
    expected = np.concatenate(arrays, axis)
    tensors = [sm.asarray(x) for x in arrays]
    np.testing.assert_array_equal(sm.concat(tensors, axis=axis).numpy(), expected)
    computed = sm.concat([sm.where(x == 1, x, x) for x in tensors], axis=axis)
    np.testing.assert_array_equal(computed.numpy(), expected)
    inside = sm.jit(lambda *xs: sm.concat(xs, axis=axis).astype(sm.int32).sum())(*tensors)  # where it is no result
    assert inside.item() == expected.astype(np.int32).sum()


def test_a_piece_does_not_take_the_place_of_what_it_reads() -> None:
    x = np.arange(6, dtype=np.float32)
    f = sm.jit(lambda x: sm.concat([x[3:], x[:3]]), donate=(0,))
    np.testing.assert_array_equal(f(sm.asarray(x)).numpy(), np.roll(x, 3))
    f = sm.jit(lambda x: sm.concat([x[:3] * 2, x[3:] * 2]), donate=(0,))
    np.testing.assert_array_equal(f(sm.asarray(x)).numpy(), x * 2)


def test_pieces_in_loops_and_branches() -> None:
    def turned(count: Any, x: sm.Tensor) -> sm.Tensor:
        return sm.fori_loop(0, count, lambda _, s: sm.concat([s[2:], s[:2]]), x)

    x = np.arange(7, dtype=np.float32)
    for count in (0, 1, 2, 5):
        np.testing.assert_array_equal(sm.jit(turned)(count, sm.asarray(x)).numpy(), np.roll(x, -2 * count))
    chosen = sm.jit(lambda p, x: sm.cond(p, lambda x: sm.concat([x, x]), lambda x: sm.concat([x, -x]), x))
    assert chosen(sm.asarray(True), sm.ones(1)).tolist() == [1.0, 1.0]
    assert chosen(sm.asarray(False), sm.ones(1)).tolist() == [1.0, -1.0]


def test_a_graph_with_pieces_is_read_back_from_disk(tmp_path: Any) -> None:
    key, device = sm.jit(lambda *xs: sm.stack([x + 1 for x in xs])).graph_key(*map(sm.asarray, ROWS[:3]))
    with configure(cache_dir=str(tmp_path), disk_cache=True):
        made = runtime.current().compiler.compile(key, device)
        found = load_graph(key, graph_digest(key, device), device, lambda question: None)
    assert found is not None and found.outputs == made.outputs

"""Random numbers: the published test vectors, reproducibility, independence, and the distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError
from smelt.graph import build
from smelt.graph.draws import words
from smelt.graph.node import topological
from smelt.tensor import wrap

# Known answers of threefry2x32 with 20 rounds: key, counter, result.
VECTORS = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("key", "counter", "expected"), VECTORS)
def test_known_answers(key: tuple[int, int], counter: tuple[int, int], expected: tuple[int, int]) -> None:
    x, y = (build.const(word, sm.uint32) for word in counter)
    assert tuple(wrap(node).item() for node in words(sm.asarray(key, dtype=sm.uint32)._node, x, y)) == expected


def test_a_draw_is_few_nodes() -> None:
    """Where a number is drawn outside of `jit`, each node costs microseconds."""
    for draw in (sm.random.normal((5,), 1.0, 2.0), sm.random.uniform((5,), -1.0, 1.0), sm.random.gumbel((5,))):
        assert len(topological([draw._node])) <= 5


@pytest.mark.parametrize("draw", [sm.random.normal, sm.random.uniform, sm.random.exponential, sm.random.laplace])
@pytest.mark.parametrize("dtype", [sm.float16, sm.bfloat16, sm.float32, sm.float64])
@pytest.mark.by_turns(3)
def test_numbers_and_tensors_as_parameters_give_the_same(draw: Any, dtype: Any) -> None:
    first = [] if draw is sm.random.exponential else [1.0]
    numbers = draw((50,), *first, 3.0, dtype=dtype, key=sm.random.key(4))
    tensors = draw((50,), *(sm.asarray(x) for x in first), sm.asarray(3.0), dtype=dtype, key=sm.random.key(4))
    np.testing.assert_array_equal(numbers.astype(sm.float64).numpy(), tensors.astype(sm.float64).numpy())


def test_the_seed_decides() -> None:
    sm.random.seed(7)
    first = [sm.random.uniform((4,)).tolist(), sm.random.normal((4,)).tolist()]
    sm.random.seed(7)
    assert [sm.random.uniform((4,)).tolist(), sm.random.normal((4,)).tolist()] == first
    sm.random.seed(8)
    assert sm.random.uniform((4,)).tolist() != first[0]


def test_draws_differ() -> None:
    sm.random.seed(0)
    draws = np.stack([sm.random.bits((64,)).numpy() for _ in range(20)])
    assert len(np.unique(draws)) == draws.size


def test_a_key_gives_the_same_numbers_again_and_leaves_the_global_sequence_alone() -> None:
    key = sm.random.key(3)
    sm.random.seed(1)
    expected = sm.random.uniform((3,)).tolist()
    sm.random.seed(1)
    assert sm.random.normal((5,), key=key).tolist() == sm.random.normal((5,), key=key).tolist()
    assert sm.random.uniform((3,)).tolist() == expected


def test_an_element_depends_on_its_place_only() -> None:
    key = sm.random.key(5)
    long = sm.random.bits((100,), key=key).numpy()
    assert np.array_equal(sm.random.bits((7,), key=key).numpy(), long[:7])
    assert np.array_equal(sm.random.bits((4, 25), key=key).numpy().reshape(-1), long)


def test_new_keys_are_new() -> None:
    key = sm.random.key(0)
    keys = [key, *sm.random.split(key, 5), *(sm.random.fold_in(key, i) for i in (0, 1, 2, 2**33))]
    assert len({tuple(k.tolist()) for k in keys}) == len(keys)
    numbers = np.stack([sm.random.bits((50,), key=k).numpy() for k in keys])
    assert len(np.unique(numbers)) == numbers.size


@pytest.mark.parametrize("dtype", [sm.float16, sm.bfloat16, sm.float32, sm.float64], ids=str)
def test_distributions(dtype: sm.DType) -> None:
    key = sm.random.key(11)
    u = sm.random.uniform((20_000,), key=key, dtype=dtype).numpy().astype(np.float64)
    n = sm.random.normal((20_000,), key=key, dtype=dtype).numpy().astype(np.float64)
    assert u.min() >= 0 and u.max() < 1
    assert abs(u.mean() - 0.5) < 0.01 and abs(u.var() - 1 / 12) < 0.003
    assert np.isfinite(n).all() and abs(n.mean()) < 0.03 and abs(n.std() - 1) < 0.02
    assert abs((np.abs(n) < 1).mean() - 0.6827) < 0.015 and abs((n**4).mean() - 3) < 0.3


def test_integers_cover_their_range_evenly() -> None:
    drawn = sm.random.randint(-3, 4, (7000,), key=sm.random.key(2)).numpy()
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == [-3, -2, -1, 0, 1, 2, 3]
    assert abs(counts - 1000).max() < 150


def test_tensors_as_limits_also_inside_jit() -> None:
    low = sm.asarray([0.0, 10.0, 20.0])
    key = sm.random.key(3)
    plain = sm.random.uniform((1000, 3), low, low + 1, key=key).numpy()
    assert (np.floor(plain) == [0, 10, 20]).all()
    traced = sm.jit(lambda low, key: sm.random.uniform((1000, 3), low, low + 1, key=key))(low, key)
    np.testing.assert_array_equal(traced.numpy(), plain)


def test_a_steep_slope_leaves_small_weights() -> None:
    assert not sm.random.kaiming_uniform((2, 3), a=1e200).any()


DRAWS = ("normal", "uniform", "laplace", "gumbel", "exponential", "truncated_normal")


@pytest.mark.parametrize("name", DRAWS)
def test_two_sizes_without_parentheses_are_refused(name: str) -> None:
    draw = getattr(sm.random, name)
    with pytest.raises(ArgumentError, match=rf"are 2 and 3 two sizes(.|\n)*{name}\(\(2, 3\)\)"):
        draw(2, 3)
    with pytest.raises(ArgumentError, match="two sizes"):  # NumPy's order
        draw(0, 1, (4,))
    assert draw((2, 3)).shape == (2, 3) and draw(2).shape == draw((2,)).shape == (2,)


def test_a_size_and_parameters() -> None:
    assert sm.random.normal(2, 3.0, 0.0).tolist() == sm.random.normal((2,), 3, 0).tolist() == [3.0, 3.0]
    assert sm.random.normal(2, mean=3, std=0).tolist() == [3.0, 3.0]

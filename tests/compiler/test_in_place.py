"""An elementwise kernel writes over an input that nobody reads afterwards, and only then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.config import configure
from smelt.transform import examine

X = np.random.default_rng(5).standard_normal((61, 67)).astype(np.float32)


def places(function: Callable[..., Any], *arguments: Any) -> list[tuple[int, int, int]]:
    """Offset, first and last launch of each intermediate, in the order of launches."""
    with configure(threads=2):
        return [(p.offset, p.first, p.last) for p in examine(function, *map(sm.from_numpy, arguments)).memory]


def reused(placed: list[tuple[int, int, int]]) -> int:
    """How many intermediates begin where another one ends: at the same launch, in the same place."""
    return sum(a[0] == b[0] and a[2] == b[1] for a in placed for b in placed if a is not b)


def test_a_value_takes_the_place_of_its_dying_input() -> None:
    """Sorting needs its input and gives its result in memory; what lies between two sorts is elementwise."""

    def function(x: sm.Tensor) -> sm.Tensor:
        return sm.sort(sm.sort(x, axis=0) * 2 - 1, axis=1)

    assert reused(places(function, X)) == 1
    expected = np.sort(np.sort(X, axis=0) * np.float32(2) - 1, axis=1)
    np.testing.assert_allclose(sm.jit(function)(sm.from_numpy(X)).numpy(), expected, rtol=1e-6)


def test_a_chain_of_them_stays_in_one_place() -> None:
    def function(x: sm.Tensor) -> sm.Tensor:
        for k in range(4):
            x = sm.sort(x, axis=k % 2) + k
        return sm.sort(x, axis=0)

    expected = X
    for k in range(4):
        expected = np.sort(expected, axis=k % 2) + np.float32(k)
    assert reused(places(function, X)) == 4
    np.testing.assert_allclose(sm.jit(function)(sm.from_numpy(X)).numpy(), np.sort(expected, axis=0), rtol=1e-6)


def test_an_update_waits_for_others_that_read_what_it_replaces() -> None:
    """The update of the last weight could run before the way back through that weight."""

    def step(weights: tuple[sm.Tensor, ...], x: sm.Tensor) -> list[sm.Tensor]:
        def loss(weights: tuple[sm.Tensor, ...]) -> sm.Tensor:
            first, second, third = weights
            return (sm.tanh(sm.tanh(x @ first) @ second) @ third).sum()

        return [w - 0.1 * slope for w, slope in zip(weights, sm.grad(loss)(weights), strict=True)]

    weights = tuple(sm.asarray(np.full(shape, 0.1, np.float32)) for shape in ((67, 60), (60, 50), (50, 40)))
    found = examine(step, weights, sm.from_numpy(X)).compiled.in_place
    assert [result for result, _ in found] == [0, 1, 2]


def test_a_loop_runs_where_its_states_came_from() -> None:
    def run(w: sm.Tensor, v: sm.Tensor) -> tuple[sm.Tensor, ...]:
        w, v = sm.fori_loop(0, 3, lambda i, s: (s[0] * 2 - s[1], s[1] + 1), (w, v))
        return w, v

    function, w, v = sm.jit(run, donate=(0, 1)), sm.asarray(X), sm.asarray(X)
    places_before = [w.numpy().ctypes.data, v.numpy().ctypes.data]
    w, v = function(w, v)
    assert [w.numpy().ctypes.data, v.numpy().ctypes.data] == places_before
    np.testing.assert_allclose(w.numpy(), (((X * 2 - X) * 2 - X - 1) * 2) - X - 2, rtol=1e-4, atol=1e-4)


def test_a_loop_that_also_reads_the_first_value_of_a_state_copies_it() -> None:
    def run(w: sm.Tensor) -> sm.Tensor:
        return sm.fori_loop(0, 3, lambda i, s: s * 2 - w, w)

    assert examine(run, sm.from_numpy(X)).compiled.in_place == ()
    np.testing.assert_allclose(sm.jit(run, donate=0)(sm.asarray(X)).numpy(), X, rtol=1e-4, atol=1e-4)


DIFFERENT: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "it is read later": (
        lambda s: sm.sort(s * 2, axis=0) + s,
        lambda s: np.sort(s * 2, axis=0) + s,
    ),
    "turned around": (lambda s: sm.sort(s.T * 2, axis=0), lambda s: np.sort(s.T * 2, axis=0)),
    "the other way": (lambda s: sm.sort(s.flip(0) * 2, axis=1), lambda s: np.sort(s[::-1] * 2, axis=1)),
    "also from elsewhere": (lambda s: sm.sort(s + s.flip(0), axis=1), lambda s: np.sort(s + s[::-1], axis=1)),
    "another width": (
        lambda s: sm.sort(s.astype(sm.float64) * 2, axis=0),
        lambda s: np.sort(s.astype(np.float64) * 2, axis=0),
    ),
    "another type": (
        lambda s: sm.sort((s * 10).astype(sm.int32), axis=0),
        lambda s: np.sort((s * 10).astype(np.int32), axis=0),
    ),
    "a part of it": (lambda s: sm.sort(s[1:] * 2, axis=0), lambda s: np.sort(s[1:] * 2, axis=0)),
    "padded": (
        lambda s: sm.sort(sm.pad(s[1:], ((1, 0), (0, 0))) * 2, axis=0),
        lambda s: np.sort(np.pad(s[1:], ((1, 0), (0, 0))) * 2, axis=0),
    ),
    "along rows": (lambda s: sm.sort(s.cumsum(1), axis=0), lambda s: np.sort(s.cumsum(1), axis=0)),
    "folded": (
        lambda s: sm.sort(s - s.mean(1, keepdims=True), axis=0),
        lambda s: np.sort(s - s.mean(1, keepdims=True), 0),
    ),
}


@pytest.mark.parametrize("why", DIFFERENT)
def test_otherwise_it_keeps_its_own(why: str) -> None:
    ours, theirs = DIFFERENT[why]

    def function(x: sm.Tensor) -> Any:
        return ours(sm.sort(x, axis=0))

    assert reused(places(function, X)) == 0
    found, expected = sm.jit(function)(sm.from_numpy(X)), theirs(np.sort(X, axis=0))
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for one, other in pairs:
        np.testing.assert_allclose(one.numpy(), other, rtol=2e-5, atol=2e-5)


def test_it_works_with_symbolic_sizes() -> None:
    n = sm.Dim("n", 1, 90)
    function = sm.jit(lambda x: sm.sort(sm.sort(x, axis=0) * 2 - 1, axis=1), shapes=[(n, 67)])
    for rows in (1, 2, 61, 90):
        x = np.random.default_rng(rows).standard_normal((rows, 67)).astype(np.float32)
        expected = np.sort(np.sort(x, axis=0) * np.float32(2) - 1, axis=1)
        np.testing.assert_allclose(function(sm.from_numpy(x)).numpy(), expected, rtol=1e-6)

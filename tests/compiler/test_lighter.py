"""Loops leave to others what can be made of what they stack, and give the same values."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.compiler import simplifying
from smelt.compiler.planning import plans
from smelt.compiler.simplifying import simplify
from smelt.graph import Loop, Op, topological
from smelt.rewrite import rewrite
from tests.interpreted import interpreted, settled
from tests.profiles import AVX512

T = sm.Tensor


def loops(*tensors: T) -> list[Loop]:
    return [node.attribute for node in topological(simplify([x._node for x in tensors])) if node.op is Op.LOOP]


def check(f: Callable[..., Any], *arrays: Any) -> list[Loop]:
    """Compare with the reference interpreter, and give the loops that are left."""
    tensors = [sm.asarray(array) for array in arrays]
    found, wanted = sm.jit(f)(*tensors), interpreted(f(*tensors))
    for value, array in zip(sm.tree.flatten(found)[0], wanted, strict=True):
        np.testing.assert_allclose(value.numpy(), array, rtol=1e-5, atol=1e-6)
    return loops(*sm.tree.flatten(f(*tensors))[0])


def rows(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 7])
def test_what_is_made_of_slices_leaves(length: int, reverse: bool) -> None:
    def f(x: T, w: T) -> Any:
        def body(h: T, row: T) -> tuple[T, Any]:
            new = sm.tanh(h @ w + row)
            return new, (new, new, row, 1 - new, row * new + w[0], h, w[1], h * 2, sm.exp(row))

        return sm.scan(body, sm.ones(3), x, reverse=reverse)

    found = check(f, rows(length, 3), rows(3, 3))
    assert [len(loop.body) for loop in found] == [2]  # the state, and what is stacked of it


def test_a_loop_of_nothing_else_is_gone() -> None:
    def f(x: T) -> T:
        found: T = sm.scan(lambda carry, row: (carry, row.exp() + 1), sm.zeros(()), x)[1]
        return found

    assert check(f, rows(5, 4)) == []


@pytest.mark.parametrize("first", [0.0, 2.0])
@pytest.mark.parametrize("reverse", [False, True])
def test_sums_of_products_are_one_product(first: float, reverse: bool) -> None:
    def f(x: T, w: T) -> Any:
        def body(carry: tuple[T, T, T], row: T) -> tuple[Any, T]:
            h, total, bias = carry
            new = sm.tanh(h @ w + row)
            return (new, total + (h.T @ new).T, bias + new.sum(axis=0)), new

        start = sm.full((2, 3), first), sm.full((3, 3), first), sm.full((3,), first)
        return sm.scan(body, start, x, reverse=reverse)

    [loop] = check(f, rows(6, 2, 3), rows(3, 3))
    assert loop.states == 1


def test_what_has_to_stay() -> None:
    def shifted(x: T) -> Any:
        """A state that another state was, and one that is a slice."""
        return sm.scan(lambda s, row: ((row, s[0], s[1]), (s[1], s[2], s[0] + row)), (sm.ones(3),) * 3, x)

    def read(x: T) -> Any:
        """A sum that is read on the way, one that is given out, and one of what is not stacked."""
        return sm.scan(
            lambda s, row: ((s[0] + row, s[1] + row * s[0], s[2] + sm.sin(s[0])), s[1]), (sm.ones(3),) * 3, x
        )

    def dear(x: T) -> Any:
        """What the loop computes for itself is not computed again."""
        return sm.scan(lambda s, row: (s * row.exp() + 1, row.exp()), sm.ones(3), x)

    def counted(x: T) -> Any:
        """What depends on the number of the iteration."""
        return sm.fori_loop(0, 5, lambda i, s: (s[0] + 1, s[1] + s[1] * i), (sm.asarray(3), x[0]))

    for f in (shifted, read, dear, counted):
        assert check(f, rows(5, 3))


def test_a_sum_of_wide_products_of_little_stays_a_state() -> None:
    """All its factors stacked would be the memory of all steps."""

    def f(ks: T, vs: T) -> T:
        def body(total: T, kv: tuple[T, T]) -> tuple[T, None]:
            wide = (sm.arange(200, dtype=sm.float32).reshape((2, 100)) * kv[0]).sin()
            return total + kv[1].T @ wide, None

        return sm.scan(body, sm.zeros((4, 100)), (ks, vs))[0]

    [loop] = check(f, np.arange(5, dtype=np.float32), rows(5, 2, 4))
    assert loop.states == 1


def test_the_way_back_as_others_write_it_is_that_of_smelt() -> None:
    def f(x: T, w: T) -> Any:
        def forth(h: T, row: T) -> tuple[T, Any]:
            new = sm.tanh(h @ w + row)
            return new, (new, h, 1 - new * new)

        def back(carry: tuple[T, T], given: tuple[T, T, T]) -> tuple[Any, None]:
            ct, total = carry
            up, h, slope = given
            inner = (ct + up) * slope
            return (inner @ w.T, total + h.T @ inner), None

        _, (ys, before, slopes) = sm.scan(forth, sm.zeros((2, 8)), x)
        return sm.scan(back, (sm.zeros((2, 8)), sm.zeros((8, 8))), (ys, before, slopes), reverse=True)[0][1]

    x, w = rows(9, 2, 8), rows(8, 8) / 3
    assert [loop.states for loop in check(f, x, w)] == [1, 1]

    def loss(w: T, x: T) -> T:
        found: T = sm.scan(lambda h, row: (sm.tanh(h @ w + row),) * 2, sm.zeros((2, 8)), x)[1]
        return (found * found).sum() / 2

    [wanted] = interpreted(sm.grad(loss)(sm.asarray(w), sm.asarray(x)))
    np.testing.assert_allclose(sm.jit(f)(sm.asarray(x), sm.asarray(w)).numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_what_is_made_after_a_loop_is_planned() -> None:
    """The sum over the steps has become one product, and a row of it is cheaper than all of it."""

    def f(x: T, w: T, c: T) -> T:
        def body(carry: tuple[T, T], row: T) -> tuple[Any, None]:
            h, total = carry
            return (sm.tanh(h @ w + row), total + h.T @ row), None

        return sm.scan(body, (sm.ones((2, 64)), sm.zeros((64, 64))), x)[0][1] @ c

    root = f(*(sm.asarray(array) for array in (rows(100, 2, 64), rows(64, 64), rows(64))))._node
    planned = simplify([root], plans("regroups", AVX512))
    products = [node.shape for node in topological(planned) if node.op is Op.CONTRACT]
    assert (64, 64) not in products
    assert products[-1] == (64,)


def test_loops_in_loops_are_simplified_once_for_each_level(monkeypatch: pytest.MonkeyPatch) -> None:
    def nested(depth: int, h: T, x: T, w: T) -> Any:
        def body(carry: tuple[T, T], row: T) -> Any:
            h, total = carry
            (inner, below), said = nested(depth - 1, h, row, w) if depth > 1 else ((row, 0 * w), ())
            new = sm.tanh(h @ w + inner)
            return (new, total + h.T @ new), (new, 1 - new * new, h, below, said)

        return sm.scan(body, (h, sm.zeros((3, 3))), x)

    def rewrites(depth: int) -> int:
        found = nested(depth, sm.zeros((2, 3)), sm.zeros((*(2,) * depth, 2, 3)), sm.zeros((3, 3)))
        asked.clear()
        assert [loop.states for loop in loops(*sm.tree.flatten(found)[0])] == [1]
        return len(asked)

    asked: list[int] = []
    monkeypatch.setattr(simplifying, "rewrite", lambda roots: asked.append(len(roots)) or rewrite(roots))
    counts = [rewrites(depth) for depth in range(1, 6)]
    assert len({later - earlier for earlier, later in itertools.pairwise(counts)}) == 1, counts

    check(lambda x, w: nested(3, sm.ones((2, 3)), x, w), rows(2, 4, 3, 2, 3), rows(3, 3))


@pytest.mark.by_turns(4)
@pytest.mark.parametrize("seed", range(40))
def test_random_loops(seed: int) -> None:
    """States and ys drawn from sums, products, functions, slices, constants and each other."""
    generator = np.random.default_rng(seed)

    def f(x: T, z: T, c: T) -> Any:
        draw = np.random.default_rng(seed + 1000)

        def body(states: tuple[T, ...], given: tuple[T, T]) -> tuple[Any, Any]:
            pool = [*states, *given, c, sm.ones(4), *states]
            for _ in range(int(draw.integers(1, 7))):
                a, b = (pool[k] for k in draw.integers(0, len(pool), 2))
                kind = int(draw.integers(0, 5))
                pool.append((a + b, a * b / 2, sm.tanh(a), a.sum() * b / 4, sm.where(a < b, a, 0))[kind])
            new = tuple(pool[k] for k in draw.integers(0, len(pool), len(states)))
            summed = tuple(s + a if draw.random() < 0.4 else a for s, a in zip(states, new, strict=True))
            return summed, tuple(pool[k] for k in draw.integers(0, len(pool), 5))

        # Drawn anew for every tracing of the body, so that it is the same each time.
        def once(states: tuple[T, ...], given: tuple[T, T]) -> tuple[Any, Any]:
            nonlocal draw
            draw = np.random.default_rng(seed + 1000)
            return body(states, given)

        return sm.scan(once, (sm.zeros(4), c, sm.ones(4)), (x, z), reverse=bool(seed % 2))

    x, z, c = (generator.uniform(-1, 1, shape).astype(np.float32) for shape in ((5, 4), (5, 4), (4,)))
    check(f, *(settled(sm.asarray(array)) for array in (x, z, c)))

"""Loops and branches: the compiled program, the reference and plain Python give the same."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import smelt as sm
from smelt import runtime, tree
from smelt.config import configure
from smelt.device import memory
from smelt.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError, TraceError
from smelt.graph.node import live_nodes
from smelt.tensor import Tensor
from smelt.transform.explain import examine
from tests.interpreted import interpreted

RANDOM = np.random.default_rng(0)
x4 = RANDOM.normal(size=4).astype(np.float32)
rows = RANDOM.normal(size=(7, 4)).astype(np.float32)


def plain_cond(pred: Any, true_fn: Any, false_fn: Any, *operands: Any) -> Any:
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


def plain_while(test: Any, body: Any, state: Any) -> Any:
    while bool(test(state)):
        state = body(state)
    return state


def plain_fori(low: Any, high: Any, body: Any, state: Any) -> Any:
    for i in range(int(low), int(high)):
        state = body(i, state)
    return state


def plain_scan(f: Any, carry: Any, xs: Any = None, length: int | None = None, reverse: bool = False) -> Any:
    leaves, structure = tree.flatten(xs)
    count = length if length is not None else leaves[0].shape[0]
    ys: list[Any] = [None] * count
    for k in reversed(range(count)) if reverse else range(count):
        carry, ys[k] = f(carry, tree.unflatten(structure, [leaf[k] for leaf in leaves]))
    return carry, tree.map(lambda *row: sm.stack(row), *ys)


class Functions(NamedTuple):
    cond: Any
    while_loop: Any
    fori_loop: Any
    scan: Any


PLAIN = Functions(plain_cond, plain_while, plain_fori, plain_scan)
NATIVE = Functions(sm.cond, sm.while_loop, sm.fori_loop, sm.scan)


def arrays(value: Any) -> list[Any]:
    return [np.asarray(leaf) for leaf in tree.flatten(value)[0]]


def close(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(
            a.astype(np.float64), b.astype(np.float64), rtol=2e-3 if a.itemsize < 4 else 2e-5, atol=1e-6
        )


def agree(program: Callable[..., Any], *values: Any) -> None:
    """A program of (functions, tensors): interpreted, compiled, in jit, and as Python runs it, interpreted."""
    tensors = [sm.asarray(value).realize() if isinstance(value, np.ndarray) else value for value in values]
    expected = interpreted(program(PLAIN, *tensors))
    close(interpreted(program(NATIVE, *tensors)), expected)
    close(arrays(program(NATIVE, *tensors)), expected)
    close(arrays(sm.jit(lambda *given: program(NATIVE, *given))(*tensors)), expected)


# --- every function


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 30])
def test_fori_loop(count: int) -> None:
    agree(lambda f, x: f.fori_loop(0, count, lambda i, s: s * 0.5 + x, x * 2), x4)


@pytest.mark.parametrize(("low", "high"), [(3, 8), (-2, 2), (5, 5), (6, 2)])
def test_fori_loop_counts_from_low_to_high(low: int, high: int) -> None:
    agree(lambda f, x: f.fori_loop(low, high, lambda i, s: s + i * x, x), x4)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int32, np.int64, np.uint16])
@pytest.mark.by_turns(3)
def test_fori_loop_over_dtypes(dtype: Any) -> None:
    agree(lambda f, x: f.fori_loop(0, 5, lambda i, s: s + x * i, x), np.arange(6).astype(dtype))


def test_bools_alternate() -> None:
    agree(lambda f, x: f.fori_loop(0, 5, lambda i, s: ~s, x), np.array([True, False, True]))


def test_fori_loop_with_tensors_as_bounds() -> None:
    agree(lambda f, x, n: f.fori_loop(n - 2, n, lambda i, s: s * 2 + i, x), x4, np.array(5))
    agree(lambda f, x, n: f.fori_loop(0, n, lambda i, s: s * 2 + i, x), x4, np.array(0, np.int32))


@pytest.mark.parametrize("limit", [-1.0, 0.5, 40.0, 1e4])
def test_while_loop_ends_when_the_values_say_so(limit: float) -> None:
    agree(lambda f, x: f.while_loop(lambda s: s[0].sum() < limit, lambda s: (s[0] * 2, s[1] + 1), (sm.abs(x), 0)), x4)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_scan(count: int, reverse: bool) -> None:
    def program(f: Functions, x: Tensor, xs: Tensor) -> Any:
        if f is PLAIN and count == 0:
            return x, sm.zeros((0, 4))
        return f.scan(lambda c, v: (c * 0.5 + v, c - v), x, xs, reverse=reverse)

    agree(program, x4, rows[:count])


def test_scan_over_nothing_but_a_length() -> None:
    agree(lambda f, x: f.scan(lambda c, _: (c * 2, c.sum()), x, None, length=5), x4)


def test_scan_without_a_carry() -> None:
    agree(lambda f, m: f.scan(lambda c, v: (c, (v * 2, v)), (), m, reverse=True), rows)


def test_loops_over_nothing_give_nothing() -> None:
    assert sm.fori_loop(0, 3, lambda i, s: s, ()) == ()
    assert sm.scan(lambda c, v: (c, None), (), sm.arange(3)) == ((), None)
    assert sm.cond(sm.asarray(True), lambda: None, lambda: None) is None


def test_scan_without_ys() -> None:
    total, ys = sm.scan(lambda c, v: (c + v, None), sm.zeros((4,)), sm.asarray(rows))
    assert ys is None
    np.testing.assert_allclose(total.numpy(), rows.sum(0), rtol=1e-5)


@pytest.mark.parametrize("value", [1.0, -1.0])
def test_cond(value: float) -> None:
    agree(lambda f, x, p: f.cond(p > 0, lambda x: x * 2, lambda x: x - p, x), x4, np.float32(value).reshape(()))


def test_cond_of_a_python_bool_and_of_a_number() -> None:
    x = sm.asarray(x4)
    np.testing.assert_array_equal(sm.cond(True, lambda x: x + 1, lambda x: x, x).numpy(), x4 + 1)
    np.testing.assert_array_equal(sm.cond(False, lambda x: x + 1, lambda x: x, x).numpy(), x4)
    assert sm.cond(sm.asarray(2), lambda: 1, lambda: 0).item() == 1
    assert sm.cond(sm.asarray(0.0), lambda: 1, lambda: 0).item() == 0


def test_cond_gives_trees() -> None:
    agree(
        lambda f, x: f.cond(x[0] > 0, lambda x: {"a": x, "b": (x.sum(), 1)}, lambda x: {"a": -x, "b": (x.max(), 2)}, x),
        x4,
    )


def test_while_loop_with_a_limit() -> None:
    for limit in (0, 1, 4, 50):
        got = sm.while_loop(lambda s: s < 100, lambda s: s * 3, 1, max_steps=limit).item()
        assert got == min(3**limit, 243)
    assert sm.while_loop(lambda s: True, lambda s: s + 1, 0, max_steps=5).item() == 5


# --- states


def test_states_swap() -> None:
    for count in (4, 5):
        agree(lambda f, x, n=count: f.fori_loop(0, n, lambda i, s: (s[1], s[0] + 1), (x, x * 3)), x4)


def test_a_state_that_never_changes() -> None:
    agree(lambda f, x: f.fori_loop(0, 6, lambda i, s: (s[0], s[1] + s[0]), (x, x * 0)), x4)
    agree(lambda f, x: f.fori_loop(0, 6, lambda i, s: s, x), x4)


def test_one_value_for_several_states() -> None:
    agree(lambda f, x: f.fori_loop(0, 3, lambda i, s: (s[0] + 1,) * 3, (x, x * 2, x * 3)), x4)


def test_states_of_several_shapes_and_dtypes() -> None:
    def program(f: Functions, x: Tensor, xs: Tensor) -> Any:
        def step(c: Any, v: Any) -> Any:
            total, counts, best = c["total"], c["counts"], c["best"]
            state = {"total": total + v.sum(), "counts": counts + (v > 0), "best": sm.maximum(best, v[:, None] * x)}
            return state, (total, [v * 2, counts])

        first = {"total": sm.asarray(0.0), "counts": sm.zeros((4,), dtype=sm.int32), "best": sm.full((4, 4), -9.0)}
        return f.scan(step, first, xs)

    agree(program, x4, rows)


def test_states_that_read_each_other() -> None:
    """What is written over must have been read by everybody before."""
    agree(lambda f, x: f.fori_loop(0, 5, lambda i, s: (s[0] * 0.5, s[1] + s[0].sum()), (x, x * 2)), x4)
    agree(lambda f, x: f.fori_loop(0, 5, lambda i, s: (s[0] + s[1], s[0] - s[1]), (x, x * 2)), x4)
    agree(lambda f, x: f.fori_loop(0, 5, lambda i, s: (s[0] + 1, s[0][::-1] + s[1]), (x, x * 2)), x4)
    agree(lambda f, x: f.scan(lambda c, _: (c * 0.5 + 1, (c, c.sum(), c[::-1])), x, None, length=6), x4)
    agree(lambda f, x: f.while_loop(lambda s: s[1] < 5, lambda s: (s[0] + s[0][s[1] % 4], s[1] + 1), (x, 0)), x4)


def test_scatters_into_states() -> None:
    agree(lambda f, m: f.fori_loop(1, 7, lambda i, s: s.at[i].add(s[i - 1] * 0.5), m), rows)
    agree(lambda f, m: f.fori_loop(0, 6, lambda i, s: s.at[i].set(s[6 - i]).at[0].multiply(0.5), m), rows)
    agree(lambda f, m: f.scan(lambda s, i: (s.at[i, 1].set(9.0), s[i]), m, sm.arange(7)), rows)
    agree(lambda f, m: f.fori_loop(0, 3, lambda i, s: s.at[:, i].set(s[:, 3]), m.astype(sm.float16)), rows)
    agree(lambda f, m: f.fori_loop(0, 3, lambda i, s: s.at[1::2].set(s[0:-1:2]), m), rows)


def test_a_state_of_constants_and_a_body_of_constants() -> None:
    agree(lambda f: f.fori_loop(0, 3, lambda i, s: s + 1, sm.zeros((3,))))
    agree(lambda f, x: f.fori_loop(0, 3, lambda i, s: sm.ones((4,)), x), x4)


def test_a_transposed_tensor_is_a_state_and_an_x() -> None:
    agree(lambda f, m: f.fori_loop(0, 3, lambda i, s: s * 2, m.T), rows)
    agree(lambda f, m: f.scan(lambda c, v: (c + v, v * 2), m.T[0] * 0, m.T), rows)
    agree(lambda f, m: f.scan(lambda c, v: (c + v, v * 2), m[0] * 0, m[::-2], reverse=True), rows)


def test_empty_tensors() -> None:
    agree(lambda f, x: f.fori_loop(0, 3, lambda i, s: s * 2, x), np.zeros((0, 3), np.float32))


class Pair(NamedTuple):
    a: Any
    b: Any


def test_named_tuples_stay_what_they_are() -> None:
    got = sm.fori_loop(0, 3, lambda i, s: Pair(s.b, s.a), Pair(sm.asarray(1), sm.asarray(2)))
    assert isinstance(got, Pair)
    assert (got.a.item(), got.b.item()) == (2, 1)


def test_numbers_take_the_dtype_of_what_they_meet() -> None:
    half = sm.asarray(x4).astype(sm.float16)
    assert sm.scan(lambda c, v: (c + v, None), 0, half)[0].dtype is sm.float16
    assert sm.fori_loop(0, 3, lambda i, s: s + 0.5, 0).dtype is sm.float32
    assert sm.fori_loop(0, 3, lambda i, s: s + i, 0).dtype is sm.int64
    assert sm.fori_loop(0, 3, lambda i, s: s + i, sm.asarray(0, dtype=sm.int8)).dtype is sm.int8
    assert sm.cond(half[0] > 0, lambda: half[0], lambda: 0).dtype is sm.float16


def test_numbers_given_to_a_compiled_function() -> None:
    f = sm.jit(lambda x, n, scale: sm.fori_loop(0, n, lambda i, s: s * scale, x))
    x = sm.asarray(x4)
    before = None
    for n, scale in ((3, 0.5), (4, 0.25)):
        np.testing.assert_allclose(f(x, n, scale).numpy(), x4 * scale**n, rtol=1e-6)
        before = before or len(runtime.current().graphs)
    assert len(runtime.current().graphs) == before


# --- nesting and closures


def test_nested_loops() -> None:
    def program(f: Functions, x: Tensor, m: Tensor) -> Any:
        def outer(c: Any, row: Any) -> Any:
            inner = f.fori_loop(0, 3, lambda i, s: s * 0.5 + row * c.sum(), c)
            return inner, f.scan(lambda a, v: (a + v, a * v), row.sum(), row)[1]

        return f.scan(outer, x, m)

    agree(program, x4, rows)


def test_loops_three_deep_with_a_branch_inside() -> None:
    def program(f: Functions, x: Tensor) -> Any:
        def level(depth: int) -> Any:
            if depth == 0:
                return lambda i, s: f.cond(s.sum() > 1, lambda s: s * 0.5, lambda s: s + x, s)
            return lambda i, s: f.fori_loop(0, depth + 1, level(depth - 1), s) + x

        return f.fori_loop(0, 3, level(2), x)

    agree(program, x4)


def test_branch_in_scan() -> None:
    agree(
        lambda f, x, m: f.scan(
            lambda c, v: (
                f.cond(v[0] > 0, lambda c: c + v, lambda c: c * 0.5, c),
                f.cond(c[0] > v[0], lambda: c, lambda: v),
            ),
            x,
            m,
        ),
        x4,
        rows,
    )


def test_a_loop_in_a_branch() -> None:
    for sign in (1, -1):
        agree(
            lambda f, x, s=sign: f.cond(
                x.sum() * s > 0, lambda x: f.fori_loop(0, 4, lambda i, a: a + x, x), lambda x: x * 2, x
            ),
            x4,
        )


def test_two_loops_one_after_the_other() -> None:
    def program(f: Functions, x: Tensor, m: Tensor) -> Any:
        a, ys = f.scan(lambda c, v: (c + v, c), x, m)
        b = f.fori_loop(0, 3, lambda i, s: s * 0.5 + ys[0], a)
        return f.scan(lambda c, y: (c * 0.5 + y, c.max()), b, ys)

    agree(program, x4, rows)


def test_closures_over_computed_tensors() -> None:
    def program(f: Functions, x: Tensor, m: Tensor) -> Any:
        weights = sm.exp(m @ x)
        return f.fori_loop(0, 4, lambda i, s: s + (m * weights[:, None]).sum(0) * 0.1 + weights[0], x)

    agree(program, x4, rows)


def test_indexing_by_the_number_of_the_iteration() -> None:
    agree(lambda f, m: f.fori_loop(0, 7, lambda i, s: s + m[i] * i, m[0]), rows)
    agree(lambda f, m: f.fori_loop(0, 7, lambda i, s: s.at[i].set(s[i - 1] * 0.5), m), rows)


def test_products_sorts_and_scatters_inside() -> None:
    square = RANDOM.normal(size=(4, 4)).astype(np.float32) * 0.5

    def program(f: Functions, x: Tensor, a: Tensor) -> Any:
        def step(i: Any, s: Any) -> Any:
            return sm.sort(sm.tanh(a @ s) + x.cumsum(0)).at[0].add(1.0)

        return f.fori_loop(0, 5, step, x)

    agree(program, x4, square)


def test_a_jit_inside_is_inlined() -> None:
    half = sm.jit(lambda x: x * 0.5)
    np.testing.assert_array_equal(sm.fori_loop(0, 2, lambda i, s: half(s), sm.asarray(x4)).numpy(), x4 * 0.25)


def test_sizes_of_several_slices() -> None:
    """Slices of xs are parts of a matrix, and ys of several shapes are stacked."""
    cube = RANDOM.normal(size=(3, 5, 4)).astype(np.float32)
    agree(lambda f, x, c: f.scan(lambda a, v: (a + v.sum(0), (v[0], v.T, v.sum())), x, c.transpose(1, 0, 2)), x4, cube)


# --- symbolic sizes


n = sm.Dim("n", 1, 16)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_symbolic_number_of_iterations(reverse: bool) -> None:
    f = sm.jit(lambda x, m: sm.scan(lambda c, v: (c * 0.5 + v, c), x, m, reverse=reverse), shapes=[None, (n, 4)])
    for size in (1, 2, 7):
        expected = plain_scan(lambda c, v: (c * 0.5 + v, c), sm.asarray(x4), sm.asarray(rows[:size]), reverse=reverse)
        close(arrays(f(sm.asarray(x4), sm.asarray(rows[:size]))), arrays(expected))


@pytest.mark.parametrize("reverse", [False, True])
def test_symbolic_slices(reverse: bool) -> None:
    f = sm.jit(lambda x, m: sm.scan(lambda c, v: (c * 0.5 + v, c), x, m, reverse=reverse), shapes=[(n,), (7, n)])
    for size in (1, 3, 4):
        x, m = sm.asarray(x4[:size]), sm.asarray(np.ascontiguousarray(rows[:, :size]))
        expected = plain_scan(lambda c, v: (c * 0.5 + v, c), x, m, reverse=reverse)
        close(arrays(f(x, m)), arrays(expected))


def test_a_loop_over_a_symbolic_size() -> None:
    f = sm.jit(lambda x: sm.fori_loop(0, x.shape[0], lambda i, s: s + x[i], sm.asarray(0.0)), shapes=[(n,)])
    for size in (1, 4, 16):
        x = np.arange(size, dtype=np.float32)
        assert f(sm.asarray(x)).item() == x.sum()


# --- replays


def test_replays_see_changed_closures_and_compile_nothing() -> None:
    state = {"w": sm.asarray(x4).realize()}
    w = sm.asarray(x4).realize()
    f = sm.jit(lambda x: sm.fori_loop(0, 3, lambda i, s: s + w + state["w"], x))
    np.testing.assert_allclose(f(w).numpy(), 7 * x4, rtol=1e-5)
    before = len(runtime.current().graphs)
    w = sm.asarray(x4 * 2).realize()
    state["w"] = sm.asarray(x4 * 3).realize()
    np.testing.assert_allclose(f(w).numpy(), 17 * x4, rtol=1e-5)
    assert len(runtime.current().graphs) == before


def test_another_number_in_the_body_compiles_nothing() -> None:
    x = sm.asarray(x4)

    def run(scale: float, first: int) -> Any:
        return sm.fori_loop(0, 3, lambda i, s: s * scale + sm.asarray(rows)[first], x).numpy()

    run(0.3, 1)
    before = len(runtime.current().graphs)
    for scale, first in ((0.7, 2), (0.9, 3)):
        expected = x4 * scale**3 + rows[first] * (scale**2 + scale + 1)
        np.testing.assert_allclose(run(scale, first), expected, rtol=1e-5)
    assert len(runtime.current().graphs) == before


def test_a_loop_runs_once_for_all_of_its_values() -> None:
    """Asking for the carry computes the ys as well, which somebody holds."""
    carry, ys = sm.scan(lambda c, v: (c + v, c), sm.zeros((4,)), sm.asarray(rows))
    (carry * 2).numpy()
    assert ys._node.leaf is not None
    assert carry._node.leaf is not None


def test_threads_do_not_change_the_bits() -> None:
    big = RANDOM.normal(size=(300, 300)).astype(np.float32) / 20

    def run() -> Any:
        a = sm.asarray(big)
        return sm.fori_loop(0, 1000, lambda i, s: sm.tanh(a @ s) + 0.1, a[:, :40]).numpy()

    found = []
    for threads in (1, 2):
        with configure(threads=threads):
            runtime.current().clear_caches()
            found.append(run())
    np.testing.assert_array_equal(*found)


# --- memory


def test_the_memory_of_bodies_is_planned() -> None:
    """A state of a megabyte has two places, whatever the number of iterations."""
    big = sm.ones((1 << 18,)).realize()
    plans = [
        sm.jit(lambda x, k=count: sm.fori_loop(0, k, lambda i, s: s[::-1] / s.sum(), x)).memory(big)
        for count in (10, 1000)
    ]
    assert plans[0] == plans[1]
    assert plans[0].results == 1 << 20
    assert 1 << 20 <= plans[0].intermediates < (1 << 20) + 8192


@pytest.mark.parametrize(
    "step", [lambda i, s: s * 0.5 + i, lambda i, s: s.at[i].set(s[i] * 2), lambda i, s: s.at[i + 1].add(s[i])]
)
def test_a_state_that_is_written_over_has_one_place(step: Any) -> None:
    big = sm.ones((1 << 18,)).realize()
    assert sm.jit(lambda x: sm.fori_loop(0, 10, step, x)).memory(big).intermediates < 8192


def test_calls_leave_nothing_behind() -> None:
    x = sm.ones((1000,)).realize()
    f = sm.jit(lambda x: sm.scan(lambda c, _: (c * 0.5, c.sum()), x, None, length=50))
    f(x)
    nodes, used = live_nodes(), memory.pool().used_bytes
    for _ in range(20):
        f(x)
        sm.fori_loop(0, 5, lambda i, s: s + i, x).realize()
    gc.collect()
    assert live_nodes() <= nodes
    assert memory.pool().used_bytes <= used


def test_branches_share_their_memory() -> None:
    big = sm.ones((1 << 18,)).realize()

    def long(x: Tensor) -> Tensor:
        return x.sort() + x.sort(descending=True)

    one = sm.jit(long).memory(big).intermediates
    two = sm.jit(lambda x: sm.cond(x[0] > 0, long, lambda x: long(x * 2) + 1, x)).memory(big).intermediates
    assert two < one * 2


# --- random numbers


def test_a_key_in_the_state_draws_new_numbers() -> None:
    def step(key: Any, _: Any) -> Any:
        key, now = sm.random.split(key)
        return key, sm.random.uniform((3,), key=now)

    _, drawn = sm.scan(step, sm.random.key(1), None, length=5)
    _, expected = plain_scan(step, sm.random.key(1), None, length=5)
    np.testing.assert_array_equal(drawn.numpy(), expected.numpy())
    assert len(np.unique(drawn.numpy())) == 15


def test_a_draw_without_a_key_is_refused_in_a_loop_and_made_in_a_branch() -> None:
    with pytest.raises(TraceError, match="every iteration would draw the same"):
        sm.fori_loop(0, 3, lambda i, s: s + sm.random.uniform(()), 0.0)
    draw = sm.jit(lambda p: sm.cond(p, lambda: sm.random.uniform((8,)), lambda: sm.zeros((8,))))
    yes = sm.asarray(True)
    assert (draw(yes).numpy() != draw(yes).numpy()).any()


# --- mistakes


def mistakes() -> Iterator[tuple[str, type[Exception], str, Callable[[], Any]]]:
    x = sm.asarray(x4)
    m = sm.asarray(rows)
    yield (
        "dtype",
        DTypeError,
        r"state\[1\] is float32, and the body gives int64",
        lambda: sm.fori_loop(0, 3, lambda i, s: (s[0], s[1].astype(sm.int64)), (x, x)),
    )
    yield (
        "shape",
        ShapeError,
        r"carry\['a'\] changes its shape",
        lambda: sm.scan(lambda c, v: ({"a": c["a"][:2]}, None), {"a": x}, m),
    )
    yield (
        "shape under a tensor as bound",
        ShapeError,
        r"state\['a'\] changes",
        lambda: sm.fori_loop(0, x[0].astype(sm.int64), lambda i, s: {"a": s["a"][:2]}, {"a": x}),
    )
    yield "rank", ShapeError, "changes its shape", lambda: sm.fori_loop(0, 3, lambda i, s: s + x, 0.0)
    yield "structure", ArgumentError, "structure", lambda: sm.fori_loop(0, 3, lambda i, s: (s, s), x)
    yield "no pair", ArgumentError, "must give a pair", lambda: sm.scan(lambda c, v: c, x, m)
    yield "lengths", ShapeError, r"xs\[1\] has shape", lambda: sm.scan(lambda c, v: (c, None), x, (m, m[:3]))
    yield "length", ShapeError, "and 3 slices are wanted", lambda: sm.scan(lambda c, v: (c, None), x, m, length=3)
    yield "no length", ArgumentError, "neither xs nor a length", lambda: sm.scan(lambda c, v: (c, None), x, None)
    yield "scalar xs", ShapeError, "is a scalar", lambda: sm.scan(lambda c, v: (c, None), x, 1.0)
    yield "too many", ArgumentError, "less than", lambda: sm.fori_loop(0, 10**20, lambda i, s: s, x)
    yield "negative", ArgumentError, "at least 0", lambda: sm.scan(lambda c, v: (c, None), x, None, length=-1)
    yield "test shape", ShapeError, "must be a scalar", lambda: sm.while_loop(lambda s: s > 0, lambda s: s, x)
    yield "endless", ArgumentError, "never end", lambda: sm.while_loop(lambda s: True, lambda s: s, x)
    yield "predicate", ShapeError, "the predicate has shape", lambda: sm.cond(x > 0, lambda: x, lambda: x)
    yield (
        "branch dtypes",
        DTypeError,
        "float32 and int64",
        lambda: sm.cond(x[0] > 0, lambda: x, lambda: x.astype(sm.int64)),
    )
    yield "branch shapes", ShapeError, "differs in shape", lambda: sm.cond(x[0] > 0, lambda: x, lambda: x[:2])
    yield "branch trees", ArgumentError, "same structure", lambda: sm.cond(x[0] > 0, lambda: x, lambda: (x, x))
    yield "bounds", DTypeError, "bounds are integers", lambda: sm.fori_loop(0, x[0], lambda i, s: s, x)
    yield "float bounds", ArgumentError, "not a size", lambda: sm.fori_loop(0, 1.5, lambda i, s: s, x)
    yield (
        "value",
        TraceError,
        "not known while the function is traced",
        lambda: sm.fori_loop(0, 3, lambda i, s: s if bool(s.sum() > 0) else -s, x),
    )
    yield (
        "narrow",
        DTypeError,
        "float32, and the body gives",
        lambda: sm.fori_loop(0, 3, lambda i, s: s.astype(sm.int32), 0.5),
    )


@pytest.mark.parametrize(("kind", "message", "call"), [pytest.param(*rest, id=name) for name, *rest in mistakes()])
def test_mistakes_are_explained(kind: type[Exception], message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_values_in_the_place_of_functions_are_told_what_to_write() -> None:
    x = sm.ones(2)
    calls: dict[str, Callable[[], Any]] = {
        r"sm\.where\(pred, x, y\)": lambda: sm.cond(x.sum() > 1, x, x),  # type: ignore[arg-type]
        "functions of the state": lambda: sm.while_loop(x, lambda x: x, x),  # type: ignore[arg-type]
        r"sm\.fori_loop\(low, high, lambda i, state": lambda: sm.fori_loop(0, 3, x, x),  # type: ignore[arg-type]
        r"sm\.scan\(lambda carry, x": lambda: sm.scan(x, x, x),  # type: ignore[arg-type]
        "vjp: .* is not a function": lambda: sm.vjp(x, x),  # type: ignore[arg-type]
    }
    for message, call in calls.items():
        with pytest.raises(ArgumentError, match=message):
            call()


x = sm.asarray(x4)
last = sm.asarray(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sm.fori_loop(0, 9, lambda i, s: s + x[i], 0.0), "indexing: index 8 is out of range"),
        (lambda: sm.fori_loop(0, 9, lambda i, s: s.at[i].add(1.0), x), "add: index 8 is out of range"),
        (lambda: sm.scan(lambda c, i: (c, x[i]), 0, sm.asarray([1, 7, 2]))[1], "index 7 is out of range"),
        (lambda: sm.while_loop(lambda s: x[s] > -9, lambda s: s + 1, 0, max_steps=6), "index 5 is out"),
        (
            lambda: sm.while_loop(lambda s: s[1] & (x[s[0]] > -9), lambda s: (s[0] + 3, s[0] < 3), (0, True))[0],
            "index 6",
        ),
        (lambda: sm.cond(x.sum() < 99, lambda: x[last * 2], lambda: x[0]), "index 6 is out of range"),
        (
            lambda: sm.fori_loop(0, 3, lambda i, s: sm.fori_loop(0, 3, lambda j, t: t + x[i + j], s), 0.0),
            "index 4 is out of range",
        ),
    ],
)
def test_indices_outside_are_reported(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(IndexRangeError, match=message):
        call().numpy()
    with pytest.raises(IndexRangeError, match=message):
        sm.jit(call)()


def test_only_the_chosen_branch_is_computed() -> None:
    """What a branch computes of tensors that it reaches by itself is not computed for the other one."""
    assert sm.cond(x.sum() > 99, lambda: x[last * 2], lambda: x[0]).item() == x4[0]
    outside = sm.exp(x)
    explanation = examine(lambda x: sm.cond(x[0] > 99, lambda: sm.tanh(x), lambda: outside + sm.exp(x)), x)
    depth = {name: record.depth for record in explanation.kernels for name in record.nodes}
    assert depth["tanh"] == depth["exp"] == 1


def test_values_that_are_asked_for_inside_a_branch() -> None:
    kept: list[Tensor] = []

    def branch() -> Tensor:
        doubled = x * 2
        kept.append(sm.exp(sm.asarray(2.0)))
        return doubled + float(doubled.sum()) + kept[-1]

    chosen = sm.cond(x.sum() < 99, branch, lambda: x)
    kept[0].numpy()
    np.testing.assert_allclose(chosen.numpy(), x4 * 2 + 2 * x4.sum() + np.exp(2.0), rtol=1e-5)


def test_indices_inside_need_no_check() -> None:
    f = sm.jit(lambda x: sm.fori_loop(0, 4, lambda i, s: s + x[i], 0.0))
    assert f(x).item() == pytest.approx(x4.sum(), rel=1e-5)
    assert [record.depth for record in examine(f, x).kernels].count(1) == 1


# --- looking at it


def test_explain_shows_the_kernels_of_bodies(capsys: pytest.CaptureFixture[str]) -> None:
    explanation = sm.explain(lambda x: sm.fori_loop(0, 3, lambda i, s: sm.tanh(s) * 2, x), sm.asarray(x4))
    printed = capsys.readouterr().out
    assert "loop" in printed
    assert "parameter 0" in printed
    assert "tanh" in " ".join(explanation.kernels[0].nodes)
    assert explanation.kernels[0].depth == 1

"""`jit`: the same numbers as without it, traced once per structure, with the contract of its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, DonatedError, ShapeError, TraceError
from tests.interpreted import interpreted

rng = np.random.default_rng(7)


def floats(*shape: int) -> sm.Tensor:
    return sm.asarray(rng.standard_normal(shape).astype(np.float32))


class Counted:
    """A function that counts how often it is traced."""

    def __init__(self, function: Any) -> None:
        self.function, self.traces = function, list[None]()
        self.jitted = sm.jit(self._call)

    @property
    def calls(self) -> int:
        return len(self.traces)

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        self.traces.append(None)
        return self.function(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.jitted(*args, **kwargs)


def test_results_are_computed_and_equal() -> None:
    x, w = floats(5, 7), floats(7, 3)
    f = sm.jit(lambda x, w: (x @ w).softmax(-1))
    result = f(x, w)
    assert "lazy" not in repr(result)
    np.testing.assert_allclose(result.numpy(), (x @ w).softmax(-1).numpy(), rtol=1e-6)


def test_one_trace_per_structure() -> None:
    f = Counted(lambda x: x * 2 + 1)
    for _ in range(3):
        np.testing.assert_allclose(f(floats(4)).shape, (4,))
    assert f.calls == 1
    f(floats(5))
    f(floats(4).astype(sm.float64))
    assert f.calls == 3


def test_pytrees_in_and_out() -> None:
    f = sm.jit(lambda p, *, scale: {"a": p["w"][0] * scale, "b": (p["w"][1], None, "kept", 3)})
    w0, w1 = floats(3), floats(2, 2)
    out = f({"w": [w0, w1]}, scale=2.0)
    np.testing.assert_allclose(out["a"].numpy(), w0.numpy() * 2)
    np.testing.assert_array_equal(out["b"][0].numpy(), w1.numpy())
    assert out["b"][1:] == (None, "kept", 3)


def test_python_numbers_change_without_a_new_trace_and_stay_weak() -> None:
    f = Counted(lambda x, s, k: x * s + k)
    x = floats(4)
    for s, k in ((0.5, 1), (0.25, 2), (1.0, 0), (0.0, -3)):
        out = f(x, s, k)
        assert out.dtype is sm.float32
        np.testing.assert_allclose(out.numpy(), x.numpy() * np.float32(s) + k, rtol=1e-6)
    assert f.calls == 1
    assert sm.jit(lambda x, s: x * s)(floats(3).astype(sm.float16), 0.5).dtype is sm.float16
    assert sm.jit(lambda x, s: x + s)(sm.arange(3), 2).dtype is sm.int64
    assert sm.jit(lambda x, s: x * s)(sm.arange(3), 0.5).dtype is sm.float32


def test_bools_and_strings_are_static() -> None:
    f = Counted(lambda x, flip, mode: -x if flip else (x if mode == "same" else x * 0))
    x = floats(3)
    np.testing.assert_array_equal(f(x, True, "same").numpy(), -x.numpy())
    np.testing.assert_array_equal(f(x, False, "same").numpy(), x.numpy())
    np.testing.assert_array_equal(f(x, False, "zero").numpy(), x.numpy() * 0)
    assert f.calls == 3


def test_static_arguments_by_name_and_position() -> None:
    def repeat(x: sm.Tensor, n: int) -> sm.Tensor:
        for _ in range(n):
            x = x + 1
        return x

    for static in ("n", 1, ["n"]):
        f = sm.jit(repeat, static=static)
        assert f(sm.zeros((2,)), 3).tolist() == [3.0, 3.0]
        assert f(sm.zeros((2,)), n=4).tolist() == [4.0, 4.0]
    with pytest.raises(ArgumentError, match="no argument 'm'"):
        sm.jit(repeat, static="m")


def test_a_number_used_as_a_count_is_refused_with_advice() -> None:
    with pytest.raises(TraceError):
        sm.jit(lambda x, n: [x for _ in range(n)])(sm.zeros((2,)), 3)


def test_conditions_on_values_are_refused_with_advice() -> None:
    with pytest.raises(TraceError, match=r"where|cond"):
        sm.jit(lambda x: x if x.sum() > 0 else -x)(floats(3))
    with pytest.raises(TraceError):
        sm.jit(lambda x: float(x.sum()))(floats(3))


def test_closures_and_globals_are_inputs() -> None:
    w = floats(3)
    f = sm.jit(lambda x: x + w)
    x = floats(3)
    np.testing.assert_allclose(f(x).numpy(), x.numpy() + w.numpy(), rtol=1e-6)
    w = floats(3)
    np.testing.assert_allclose(f(x).numpy(), x.numpy() + w.numpy(), rtol=1e-6)
    box = {"w": floats(3)}
    g = sm.jit(lambda x: x + box["w"])
    g(x)
    box["w"] = floats(3)
    np.testing.assert_allclose(g(x).numpy(), x.numpy() + box["w"].numpy(), rtol=1e-6)


def test_lazy_arguments_are_computed_once() -> None:
    x = floats(3) * 2 + 1
    f = sm.jit(lambda x: x + 1)
    np.testing.assert_allclose(f(x).numpy(), x.numpy() + 1, rtol=1e-6)


def test_the_same_tensor_twice_and_results_that_are_arguments() -> None:
    x = floats(3)
    a, b, c = sm.jit(lambda x, y: (x, y + 1, x.reshape(3, 1)))(x, x)
    np.testing.assert_array_equal(a.numpy(), x.numpy())
    np.testing.assert_allclose(b.numpy(), x.numpy() + 1)
    assert c.shape == (3, 1)


def test_jit_inside_jit_is_inlined() -> None:
    inner = Counted(lambda x: x * 2)
    outer = sm.jit(lambda x: inner(x) + 1)
    x = floats(4)
    np.testing.assert_allclose(outer(x).numpy(), x.numpy() * 2 + 1, rtol=1e-6)
    np.testing.assert_allclose(outer(x).numpy(), x.numpy() * 2 + 1, rtol=1e-6)
    assert inner.calls == 1


def test_an_error_while_tracing_leaves_no_trace() -> None:
    f = sm.jit(lambda x: x @ sm.zeros((9, 9)))
    with pytest.raises(ShapeError):
        f(floats(2, 3))
    assert (floats(2) + 1).numpy().shape == (2,)


def test_non_contiguous_arguments() -> None:
    base = rng.standard_normal((6, 8)).astype(np.float32)
    f = sm.jit(lambda x: x * 2)
    for view in (base.T, base[::2, 1:], base[::-1], base[:, ::-3], np.broadcast_to(base[0], (4, 8))):
        np.testing.assert_array_equal(f(sm.from_numpy(view)).numpy(), view * 2)


def test_random_draws_differ_on_every_replay_and_match_eager_ones() -> None:
    f = sm.jit(lambda x: x + sm.random.uniform((4,)) + sm.random.uniform((4,)))
    zero = sm.zeros((4,))
    sm.random.seed(3)
    jitted = [f(zero).numpy() for _ in range(3)]
    sm.random.seed(3)
    eager = [(zero + sm.random.uniform((4,)) + sm.random.uniform((4,))).numpy() for _ in range(3)]
    np.testing.assert_allclose(jitted, eager, rtol=1e-6)
    assert not np.array_equal(jitted[0], jitted[1])


def test_donation() -> None:
    f = sm.jit(lambda x, y: x + y, donate=0)
    x, y = floats(4), floats(4)
    expected = x.numpy() + y.numpy()
    np.testing.assert_array_equal(f(x, y).numpy(), expected)
    with pytest.raises(DonatedError):
        x.numpy()
    with pytest.raises(DonatedError):
        f(x, y)
    with pytest.raises(DonatedError):
        (x + 1).numpy()
    np.testing.assert_array_equal((y + 0).numpy(), y.numpy())


def test_a_donated_argument_that_is_returned_stays() -> None:
    x = floats(4)
    kept = sm.jit(lambda x: x.reshape(2, 2), donate=(0,))(x)
    assert kept.numpy().shape == (2, 2)


def test_what_numpy_holds_survives_donation() -> None:
    x = floats(4)
    view = x.numpy()
    before = view.copy()
    sm.jit(lambda x: x * 2, donate=0)(x)
    for _ in range(5):
        sm.realize(floats(4) + 1)
    np.testing.assert_array_equal(view, before)


def test_symbolic_dims_serve_every_size() -> None:
    n = sm.Dim("n", 1, 300)
    w, b = floats(64, 32), floats(32)

    def block(x: sm.Tensor, w: sm.Tensor, b: sm.Tensor) -> Any:
        h = (x @ w + b).gelu()
        return h.softmax(-1), h.sum(0), sm.concat([h, x[:, :5]], axis=1), x.T.reshape(-1)

    f = sm.jit(block, shapes=[(n, 64), None, None])
    for size in (1, 2, 7, 64, 97, 300):
        x = floats(size, 64)
        for got, expected in zip(f(x, w, b), interpreted(block(x, w, b)), strict=True):
            np.testing.assert_allclose(got.numpy(), expected, rtol=2e-5, atol=2e-5)
    assert len(f._entries) == 1


def test_a_dim_may_be_zero() -> None:
    n = sm.Dim("n", 0, 40)

    def block(x: sm.Tensor) -> Any:
        y = (x * 2).softmax(-1)
        return y, x.sum(0), x.sum(), x.T.reshape(-1), sm.concat([x, x + 1], axis=0), x @ sm.ones((3, 4)), x.T @ x

    f = sm.jit(block, shapes=[(n, 3)])
    for size in (0, 1, 5, 40):
        x = floats(size, 3)
        for got, expected in zip(f(x), interpreted(block(x)), strict=True):
            np.testing.assert_allclose(got.numpy(), expected, rtol=2e-5, atol=2e-5)


def test_symbolic_shapes_are_checked() -> None:
    n = sm.Dim("n", 2, 8)
    f = sm.jit(lambda x, y: x + y, shapes=[(n, 3), (n, 3)])
    assert f(floats(4, 3), floats(4, 3)).shape == (4, 3)
    for shapes in ([(4, 3), (5, 3)], [(9, 3), (9, 3)], [(1, 3), (1, 3)], [(4, 2), (4, 2)], [(4,), (4, 3)]):
        with pytest.raises(ShapeError, match="declared"):
            f(*(floats(*shape) for shape in shapes))


def test_symbolic_arguments_need_not_be_contiguous() -> None:
    n = sm.Dim("n", 1, 50)
    f = sm.jit(lambda x: x * 2, shapes=[(n, 3)])
    base = rng.standard_normal((3, 7)).astype(np.float32)
    np.testing.assert_array_equal(f(sm.from_numpy(base.T)).numpy(), base.T * 2)


def test_methods_can_be_jitted() -> None:
    class Scale:
        def __init__(self, by: float) -> None:
            self.by = by

        @sm.jit
        def __call__(self, x: sm.Tensor) -> sm.Tensor:
            return x * self.by

    x = floats(3)
    np.testing.assert_allclose(Scale(2.0)(x).numpy(), x.numpy() * 2)
    np.testing.assert_allclose(Scale(3.0)(x).numpy(), x.numpy() * 3)


def test_arguments_that_cannot_be_static() -> None:
    with pytest.raises(ArgumentError, match="neither a tensor nor hashable"):
        sm.jit(lambda x, a: x)(floats(3), {1, 2})
    with pytest.raises(ArgumentError, match="not a function"):
        sm.jit(3)  # type: ignore[call-overload]


def test_donated_buffers_are_updated_in_place() -> None:
    def step(w: sm.Tensor, m: sm.Tensor, g: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        m = 0.9 * m + g
        return w - 0.1 * m, m

    f = sm.jit(step, donate=(0, 1))
    w, m, g = (sm.asarray(np.full(1000, value)) for value in (1.0, 2.0, 3.0))
    places = {w.numpy().ctypes.data, m.numpy().ctypes.data}
    for _ in range(3):
        w, m = f(w, m, g)
        assert {w.numpy().ctypes.data, m.numpy().ctypes.data} == places
    expected_w, expected_m = np.full(1000, 1.0), np.full(1000, 2.0)
    for _ in range(3):
        expected_m = 0.9 * expected_m + 3.0
        expected_w = expected_w - 0.1 * expected_m
    np.testing.assert_allclose(w.numpy(), expected_w)
    np.testing.assert_allclose(m.numpy(), expected_m)


def test_what_others_see_is_not_overwritten() -> None:
    f = sm.jit(lambda x, y: (x * 2 + y, y.sum()), donate=0)
    x = sm.asarray(np.arange(1000.0))
    seen = x.numpy()
    f(x, sm.ones(1000, dtype=sm.float64))
    np.testing.assert_array_equal(seen, np.arange(1000.0))
    x = sm.asarray(np.arange(1000.0))
    both, total = f(x, x)  # passed twice
    np.testing.assert_array_equal(both.numpy(), 3 * np.arange(1000.0))
    assert float(total) == 999 * 500
    x = sm.asarray(np.arange(1000.0))
    part = x[10:20].realize()  # a view of the same memory
    f(x, sm.ones(1000, dtype=sm.float64))
    np.testing.assert_array_equal(part.numpy(), np.arange(10.0, 20.0))
    outside = np.arange(1000.0)
    f(sm.from_numpy(outside), sm.ones(1000, dtype=sm.float64))
    np.testing.assert_array_equal(outside, np.arange(1000.0))
    x = sm.asarray(np.arange(1000.0))
    same, twice = sm.jit(lambda x: (x.reshape(10, 100), x * 2), donate=0)(x)  # returned as it is
    np.testing.assert_array_equal(same.numpy().reshape(-1), np.arange(1000.0))
    np.testing.assert_array_equal(twice.numpy(), 2 * np.arange(1000.0))


def test_a_jitted_function_says_what_it_is() -> None:
    @sm.jit(donate=0)
    def step(x: sm.Tensor) -> sm.Tensor:
        return x + 1

    assert repr(step).endswith("step, donate=(0,), traces=0)")
    step(sm.asarray([1.0]))
    assert repr(step).endswith("step, donate=(0,), traces=1)")
    assert repr(sm.jit(lambda x: x, dynamic=True)).endswith("traces=0, dynamic=True)")

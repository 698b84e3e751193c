"""Operations of users: what they compute, their derivatives and batches, and what is refused before it is used."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, CompilerError, DTypeError, GradientError, ShapeError

rng = np.random.default_rng(4)


def normal(*shape: int, dtype: Any = np.float32) -> sm.Tensor:
    return sm.asarray(np.asarray(rng.normal(size=shape), dtype))


SQUARE = """
void square(const float *x, float *y, int64_t n, int64_t n_out) {
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * x[i];
}
"""


def square(**more: Any) -> Any:
    return sm.custom_op("square", reference=lambda x: x * x, source={"cpu": SQUARE}, **more)


def slopes(function: Callable[..., Any], *args: sm.Tensor) -> Any:
    return sm.grad(lambda *xs: (function(*xs) ** 2).sum())(*args).numpy()


def tanh(x: Any) -> Any:
    return np.tanh(np.asarray(x))  # of a tensor, np.tanh(x) would be smelt's own


# --- values


def test_c_source_everywhere() -> None:
    op, x = square(), normal(5)
    values = x.numpy() ** 2
    np.testing.assert_allclose(op(x).numpy(), values, rtol=1e-6)
    np.testing.assert_allclose(sm.jit(lambda x: op(x + 1) * 2)(x).numpy(), 2 * (x.numpy() + 1) ** 2, rtol=1e-6)
    np.testing.assert_allclose(slopes(op, x), 4 * x.numpy() ** 3, rtol=1e-5)
    np.testing.assert_allclose(sm.jit(sm.grad(lambda x: op(x).sum()))(x).numpy(), 2 * x.numpy(), rtol=1e-5)
    xs = normal(3, 5)
    np.testing.assert_allclose(sm.vmap(op)(xs).numpy(), xs.numpy() ** 2, rtol=1e-6)
    np.testing.assert_allclose(sm.vmap(lambda x: slopes_of(op, x))(xs).numpy(), 2 * xs.numpy(), rtol=1e-5)
    np.testing.assert_allclose(sm.grad(lambda xs: sm.vmap(op)(xs).sum())(xs).numpy(), 2 * xs.numpy(), rtol=1e-5)
    assert repr(op) == "custom_op(square)"


def slopes_of(op: Any, x: sm.Tensor) -> Any:
    return sm.grad(lambda x: op(x).sum())(x)


def test_views_and_sizes_without_elements() -> None:
    op = square()
    np.testing.assert_allclose(op(normal(4, 6)[:, 2]).shape, (4,))
    x = normal(9)
    np.testing.assert_allclose(op(x[::-2]).numpy(), x.numpy()[::-2] ** 2, rtol=1e-6)
    assert op(sm.zeros(0)).tolist() == []


def test_a_reference_alone_is_part_of_the_graph() -> None:
    double = sm.custom_op("double", reference=lambda x: x + x)
    assert double(normal(2)).shape == (2,)
    key, _ = sm.jit(lambda x: double(x) + 1).graph_key(normal(2))
    assert not key.calls_python
    slope = sm.custom_op("slope", reference=lambda x: x.round(), gradient=lambda ct, x: ct * 3)
    assert sm.grad(lambda x: slope(x).sum())(normal(3)).tolist() == [3.0, 3.0, 3.0]


def test_numpy_references() -> None:
    op = sm.custom_op("sorted_rows", reference=lambda x: np.sort(np.asarray(x), axis=-1), shape=lambda x: x.shape)
    x = normal(3, 4)
    np.testing.assert_array_equal(op(x).numpy(), np.sort(x.numpy(), -1))
    np.testing.assert_array_equal(sm.vmap(op)(normal(2, 3, 4)).shape, (2, 3, 4))
    with pytest.raises(GradientError, match="custom_op sorted_rows: it has no gradient"):
        slopes(op, x)
    known = sm.custom_op("tanh", reference=tanh, shape=lambda x: x.shape, gradient=lambda ct, x: ct / sm.cosh(x) ** 2)
    np.testing.assert_allclose(slopes(known, x), slopes(sm.tanh, x), rtol=1e-4, atol=1e-5)


def test_callbacks_are_compared_with_the_reference() -> None:
    calls: list[int] = []

    def computed(x: Any) -> Any:
        calls.append(1)
        return np.maximum(x, 0)

    op = sm.custom_op("positive", reference=lambda x: x.relu(), callback=computed)
    x = normal(4)
    np.testing.assert_allclose(op(x).numpy(), np.maximum(x.numpy(), 0))
    assert len(calls) == 3
    np.testing.assert_allclose(op(x + 1).numpy(), np.maximum(x.numpy() + 1, 0))
    assert len(calls) == 4
    wrong = sm.custom_op("positive", reference=lambda x: x.relu(), callback=np.abs)
    with pytest.raises(ArgumentError, match="the reference and its callback differ"):
        wrong(x)


def test_several_results_and_inputs() -> None:
    text = """
    void parts(const double *x, const int32_t *k, double *a, bool *b, int64_t n, int64_t na, int64_t nb) {
        for (int64_t i = 0; i < n; i++) { a[i] = x[i] * *k; b[i] = x[i] > 0; }
    }
    """
    op = sm.custom_op("parts", reference=lambda x, k: (x * k, x > 0), source={"cpu": text})
    x, k = normal(6, dtype=np.float64), sm.asarray(3, dtype=sm.int32)
    a, b = sm.jit(op)(x, k)
    np.testing.assert_allclose(a.numpy(), 3 * x.numpy())
    assert b.dtype is sm.bool and b.tolist() == (x.numpy() > 0).tolist()
    np.testing.assert_allclose(sm.grad(lambda x: op(x, k)[0].sum())(x).numpy(), np.full(6, 3.0))
    declared = sm.custom_op(
        "ends",
        reference=lambda x: (np.asarray(x).min(), np.asarray(x).max()),
        shape=lambda x: (sm.zeros((), dtype=x.dtype), sm.zeros((), dtype=x.dtype)),
    )
    assert [float(y) for y in declared(sm.asarray([3.0, 1.0, 2.0]))] == [1.0, 3.0]


def test_symbolic_sizes() -> None:
    n = sm.Dim("n", 1, 100)
    op = square()
    found = sm.jit(lambda x: op(x) + x, shapes=[(n,)])
    for size in (1, 8, 33):
        x = normal(size)
        np.testing.assert_allclose(found(x).numpy(), x.numpy() ** 2 + x.numpy(), rtol=1e-5)


def test_loops_and_branches() -> None:
    op, x = square(), sm.asarray([1.1, 1.01])
    found, _ = sm.scan(lambda s, _: (op(s), s), x, sm.zeros(3))
    np.testing.assert_allclose(found.numpy(), x.numpy() ** 8, rtol=1e-4)
    slope = sm.grad(lambda x: sm.fori_loop(0, 3, lambda i, s: op(s), x).sum())(x)
    np.testing.assert_allclose(slope.numpy(), 8 * x.numpy() ** 7, rtol=1e-4)


def test_a_batching_rule_is_taken() -> None:
    seen: list[Any] = []

    def batching(axes: Any, x: sm.Tensor, w: sm.Tensor) -> sm.Tensor:
        seen.append(axes)
        return x * w

    text = "void scaled(const float *x, const float *w, float *y, int64_t n, int64_t n_out) {" + (
        "for (int64_t i = 0; i < n; i++) y[i] = x[i] * *w; }"
    )
    op = sm.custom_op("scaled", reference=lambda x, w: x * w, source={"cpu": text}, batching=batching)
    xs, w = normal(3, 4), sm.asarray(2.0)
    np.testing.assert_allclose(sm.vmap(op, in_axes=(0, None))(xs, w).numpy(), 2 * xs.numpy())
    assert seen == [(0, None)]
    wrong = sm.custom_op("scaled", reference=lambda x, w: x * w, source={"cpu": text}, batching=lambda axes, x, w: x[0])
    with pytest.raises(ShapeError, match="batching gave"):
        sm.vmap(wrong, in_axes=(0, None))(xs, w)


# --- what is refused


def wrong_source(text: str, kind: type[Exception] = ArgumentError) -> str:
    with pytest.raises(kind) as error:
        sm.custom_op("square", reference=lambda x: x * x, source={"cpu": text})(normal(5))
    return str(error.value)


LOOP = "void square(const float *x, float *y, int64_t n, int64_t m) {{ for (int64_t i = 0; i < {}; i++) {}; }}"


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (LOOP.format("n", "y[i] = x[i] + x[i]"), ArgumentError, "the reference and its C function differ"),
        (LOOP.format("n - 1", "y[i] = x[i] * x[i]"), ArgumentError, "differ"),
        (LOOP.format("n + 1", "y[i] = x[i] * x[i]"), ArgumentError, "writes outside of its outputs"),
        (LOOP.format("n", "((float *)x)[i] = y[i] = x[i] * x[i]"), ArgumentError, "writes over its inputs"),
        (LOOP.format("n", "y[i] = x[i] * z"), CompilerError, "'z' undeclared|undeclared identifier 'z'"),
        ("void square(const double *x, float *y, int64_t n, int64_t m) {}", CompilerError, "conflicting types"),
        ("void other(void) {}", CompilerError, "the function has to be void square\\(const float \\*, float \\*,"),
        ("int square;", CompilerError, "square"),
        ("/* " + SQUARE, CompilerError, "unterminated"),
        ("#if 0\n" + SQUARE, CompilerError, "unterminated|#if|hides"),
        ("#error no\n", CompilerError, "no"),
        ('"}' * 100, CompilerError, "refuses"),
        ("void smelt_custom_entry(void) {}" + SQUARE, CompilerError, "smelt_custom_entry"),
    ],
)
def test_wrong_sources_are_refused(text: str, kind: type[Exception], said: str) -> None:
    assert re.search(said, wrong_source(text, kind))


@pytest.mark.parametrize("source", ["void f();", {"gpu": SQUARE}, {"cpu": 3}, {"cpu": ""}, {"cpu": "a\0b"}, {3: ""}])
def test_sources_of_the_wrong_kind(source: Any) -> None:
    with pytest.raises(ArgumentError):
        sm.custom_op("square", reference=lambda x: x * x, source=source)


@pytest.mark.parametrize("name", ["", "2x", "a b", 'x";', "a-b", "ä", "x" * 65, 3, "a\n", "_x"])
def test_names_that_are_none(name: Any) -> None:
    with pytest.raises(ArgumentError, match="is not a name"):
        sm.custom_op(name, reference=lambda x: x)


def test_examples_where_random_inputs_make_no_sense() -> None:
    def solved(a: Any) -> Any:
        return np.linalg.cholesky(a)

    def by_hand(a: Any) -> Any:
        factor = np.linalg.cholesky(a + 0)
        return factor

    a = normal(3, 3)
    positive = a @ a.T + sm.eye(3)
    op = sm.custom_op("cholesky", reference=solved, callback=by_hand, shape=lambda a: a.shape, examples=[(positive,)])
    np.testing.assert_allclose(op(positive).numpy(), np.linalg.cholesky(positive.numpy()), rtol=1e-5)
    with pytest.raises(ArgumentError, match="the reference and its callback differ"):
        sm.custom_op(
            "cholesky", reference=solved, callback=lambda a: a, shape=lambda a: a.shape, examples=lambda: [(positive,)]
        )


def test_shapes_and_dtypes_that_do_not_fit() -> None:
    with pytest.raises(ArgumentError, match="one in NumPy needs shape="):
        sm.custom_op("f", reference=tanh)(normal(3))
    with pytest.raises(ShapeError, match="it gave shape"):
        sm.custom_op("f", reference=tanh, shape=lambda x: (7,))(normal(3)).numpy()
    with pytest.raises(DTypeError, match="it gave float32"):
        sm.custom_op("f", reference=tanh, shape=lambda x: sm.zeros(x.shape, dtype=sm.int32))(normal(3)).numpy()
    with pytest.raises(ShapeError, match="shape= says"):
        sm.custom_op("f", reference=lambda x: x + 1, shape=lambda x: (7,))(normal(3))
    with pytest.raises(ArgumentError, match="shape= gave"):
        sm.custom_op("f", reference=tanh, shape=lambda x: "wide")(normal(3))
    with pytest.raises(ArgumentError, match="it gave 2 arrays"):
        sm.custom_op("f", reference=lambda x: (tanh(x), x), shape=lambda x: x.shape)(normal(3)).numpy()
    with pytest.raises(DTypeError, match="C has no float16"):
        square()(normal(3).astype(sm.float16))
    with pytest.raises(CompilerError, match="has to be void square\\(const double"):
        square()(normal(3, dtype=np.float64))
    with pytest.raises(ArgumentError, match="not among its inputs"):
        outside = normal(3)
        sm.custom_op("f", reference=lambda x: x + outside)(normal(3))


def test_other_mistakes() -> None:
    with pytest.raises(ArgumentError, match="not a function"):
        sm.custom_op("f", reference=3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="no reference"):
        sm.custom_op("f", reference=None)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="a source and a callback"):
        square(callback=np.square)
    with pytest.raises(ArgumentError, match="without tensors"):
        square()()
    with pytest.raises(ArgumentError, match="examples="):
        square(examples=3)
    with pytest.raises(ArgumentError, match="custom_vjp square: backward must return a tuple"):
        slopes(square(gradient=lambda ct, x: (ct, ct)), normal(3))


def test_mistakes_in_a_reference_are_told_as_they_are() -> None:
    with pytest.raises(ShapeError, match=r"matmul: inner sizes differ(?s:.*)at test_operations.py"):
        sm.custom_op("squared", reference=lambda x: x @ x)(sm.ones((2, 3)))

"""Derivatives where differences do not reach: corners, ties, zeros, narrow types, long graphs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.derive import jvp, vjp
from smelt.errors import ArgumentError, DTypeError, GradientError, ShapeError
from smelt.graph.node import Node, topological
from smelt.transform.explain import examine


def test_corners() -> None:
    x = sm.asarray([-1.0, 0.0, 2.0])
    assert sm.grad(lambda x: x.relu().sum())(x).tolist() == [0.0, 0.0, 1.0]
    assert sm.grad(lambda x: abs(x).sum())(x).tolist() == [-1.0, 0.0, 1.0]
    assert sm.grad(lambda x: sm.maximum(x, x * 1.0).sum())(x).tolist() == [1.0, 1.0, 1.0]


def test_equal_largest_elements_share() -> None:
    x = sm.asarray([3.0, 1.0, 3.0, 0.0])
    assert sm.grad(lambda x: x.max())(x).tolist() == [0.5, 0.0, 0.5, 0.0]


@pytest.mark.parametrize("numbers", [[2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 0.0, 4.0], [5.0]])
def test_products_with_zeros(numbers: list[float]) -> None:
    expected = [math.prod(numbers[:k] + numbers[k + 1 :]) for k in range(len(numbers))]
    x = sm.asarray(numbers)
    assert sm.grad(lambda x: x.prod())(x).tolist() == expected
    _, forward = sm.jvp(lambda x: x.prod(), (x,), (sm.ones(len(numbers)),))
    assert float(forward) == sum(expected)
    running = sm.grad(lambda x: sm.cumulative_prod(x)[-1])(x)
    assert running.tolist() == expected


def test_a_power_with_the_exponent_zero_or_the_base_zero() -> None:
    zero = sm.asarray(0.0)
    assert float(sm.grad(lambda x: x**0.0)(zero)) == 0.0
    assert float(sm.grad(lambda x: x**2.0)(zero)) == 0.0
    assert float(sm.grad(lambda n: zero**n)(sm.asarray(2.0))) == 0.0


def test_duplicate_indices() -> None:
    x = sm.asarray([1.0, 2.0, 3.0])
    places = sm.asarray([0, 2, 0])
    assert sm.grad(lambda x: (x[places] * sm.asarray([1.0, 10.0, 100.0])).sum())(x).tolist() == [101.0, 0.0, 10.0]
    updates = sm.asarray([5.0, 6.0, 7.0])
    weights = sm.asarray([1.0, 10.0, 100.0])

    def last_wins(x: sm.Tensor, u: sm.Tensor) -> sm.Tensor:
        return (x.at[places].set(u) * weights).sum()

    by_target, by_updates = sm.grad(last_wins, argnums=(0, 1))(x, updates)
    assert by_target.tolist() == [0.0, 10.0, 0.0]
    assert by_updates.tolist() == [0.0, 100.0, 1.0]


@pytest.mark.parametrize("dtype", [sm.float16, sm.bfloat16])
def test_narrow_floats_round_once(dtype: sm.DType) -> None:
    exact = np.linspace(-2, 2, 41)
    x = sm.asarray(exact, dtype=dtype)
    got = sm.grad(lambda x: sm.gelu(x).sum())(x)
    assert got.dtype is dtype
    wide = sm.grad(lambda x: sm.gelu(x).sum())(x.astype(sm.float32))
    np.testing.assert_array_equal(got.astype(sm.float32).numpy(), wide.astype(dtype).astype(sm.float32).numpy())


def test_a_long_chain_needs_no_recursion() -> None:
    def chain(x: sm.Tensor) -> sm.Tensor:
        for _ in range(2000):
            x = x * 1.0001
        return x.sum()

    assert abs(float(sm.grad(chain)(sm.ones(3))[0]) - 1.0001**2000) < 1e-2
    _, forward = sm.jvp(chain, (sm.ones(3),), (sm.ones(3),))
    assert abs(float(forward) - 3 * 1.0001**2000) < 1e-2


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1)])
def test_cotangents_of_neighboring_slices_lie_side_by_side(order: tuple[int, ...]) -> None:
    spans = [slice(0, 4), slice(4, 7), slice(7, 10)]

    def loss(x: sm.Tensor) -> sm.Tensor:
        return sum(((x[:, spans[k]] ** (k + 2)).sum() for k in order), start=sm.asarray(0.0))

    x = np.random.default_rng(0).standard_normal((6, 10)).astype(np.float32)
    parts = [(k + 2) * x[:, span] ** (k + 1) for k, span in enumerate(spans)]
    np.testing.assert_allclose(sm.jit(sm.grad(loss))(sm.asarray(x)).numpy(), np.concatenate(parts, 1), rtol=1e-5)


def test_cotangents_of_slices_that_overlap_or_leave_gaps() -> None:
    def loss(x: sm.Tensor) -> sm.Tensor:
        return x[:4].sum() + 2 * x[3:6].sum() + 3 * x[7:9].sum() + 4 * x[8:].sum()

    got = sm.jit(sm.grad(loss))(sm.zeros((10,)))
    np.testing.assert_array_equal(got.numpy(), [1, 1, 1, 3, 2, 2, 0, 3, 7, 4])


def test_cross_entropy_of_many_classes_takes_the_memory_of_its_logits_once() -> None:
    x, w = sm.random.normal((64, 8)), sm.random.normal((8, 20000))
    labels = sm.arange(64) * 300
    loss = sm.value_and_grad(lambda x, w: sm.cross_entropy(x @ w, labels), argnums=(0, 1))
    assert sm.jit(loss).memory(x, w).intermediates < 1.1 * 4 * 64 * 20000


def test_values_may_be_read_inside() -> None:
    def function(x: sm.Tensor) -> sm.Tensor:
        y = x * 2
        if float(y[0]) > 0:  # reading keeps the history
            y = y * y
        assert sm.stop_gradient(y).numpy().shape == (2,)
        return y.sum()

    assert sm.grad(function)(sm.asarray([1.0, 3.0])).tolist() == [8.0, 24.0]
    assert sm.grad(function)(sm.asarray([-1.0, 3.0])).tolist() == [2.0, 2.0]


def test_sizes_that_depend_on_values() -> None:
    x = sm.asarray([3.0, -1.0, 2.0])
    assert sm.grad(lambda x: (x[x > 0] ** 2).sum())(x).tolist() == [6.0, 0.0, 4.0]


def test_an_argument_is_told_apart_from_the_same_tensor_outside() -> None:
    x = sm.asarray(3.0)
    assert float(sm.grad(lambda y: x * y)(x)) == 3.0


def test_nested_functions_do_not_mix_their_variables() -> None:
    def inner(x: sm.Tensor) -> sm.Tensor:
        return sm.grad(lambda y: x * y * y)(x)  # 2 x y at y = x

    assert float(sm.grad(inner)(sm.asarray(3.0))) == 12.0


def test_results_that_do_not_depend_on_an_argument_give_zeros() -> None:
    by_x, by_y = sm.grad(lambda x, y: x.sum(), argnums=(0, 1))(sm.ones(2), sm.ones(3))
    assert by_x.tolist() == [1.0, 1.0]
    assert by_y.tolist() == [0.0, 0.0, 0.0]


def test_trees_and_something_else() -> None:
    parameters = {"w": sm.asarray([1.0, 2.0]), "b": [sm.asarray(3.0), 4.0]}

    def loss(p: dict[str, object]) -> tuple[sm.Tensor, str]:
        w, (b, c) = p["w"], p["b"]  # type: ignore[misc]
        return ((w * w).sum() * b + c), "note"

    (value, note), slopes = sm.value_and_grad(loss, has_aux=True)(parameters)
    assert float(value) == 19.0
    assert note == "note"
    assert slopes["w"].tolist() == [6.0, 12.0]
    assert [float(s) for s in slopes["b"]] == [5.0, 1.0]
    gradient, note = sm.grad(loss, has_aux=True)(parameters)
    assert note == "note"
    assert gradient["w"].tolist() == [6.0, 12.0]


def test_operands_of_one_function_that_depend_on_each_other_count_once() -> None:
    x, key = sm.asarray([[0.5, -1.0], [2.0, 0.25], [1.0, 1.5]]), sm.ones((1, 2))
    # With one key, every query has the one value, which is the first of them.
    slope = sm.grad(lambda x: sm.attention(x, key, x[:1]).sum())(x)
    assert slope.tolist() == [[3.0, 3.0], [0.0, 0.0], [0.0, 0.0]]


def test_a_gradient_by_tensors_on_the_way() -> None:
    x = sm.asarray([1.0, 2.0])
    y = x * 3
    loss = (y * y).sum()
    by_x, by_y = loss.gradient(x, y)
    assert by_x.tolist() == [18.0, 36.0]
    assert by_y.tolist() == [6.0, 12.0]


def test_jit_of_gradients_and_gradients_of_jit() -> None:
    def loss(w: sm.Tensor, x: sm.Tensor) -> sm.Tensor:
        return (sm.tanh(x @ w) ** 2).sum()

    rng = np.random.default_rng(0)
    w, x = sm.asarray(rng.standard_normal((3, 4))), sm.asarray(rng.standard_normal((5, 3)))
    plain = sm.grad(loss)(w, x).numpy()
    np.testing.assert_allclose(sm.jit(sm.grad(loss))(w, x).numpy(), plain)
    np.testing.assert_allclose(sm.grad(sm.jit(loss))(w, x).numpy(), plain)
    _, slope = sm.jit(sm.value_and_grad(loss))(w, x)
    np.testing.assert_allclose(slope.numpy(), plain)
    assert sm.jit(sm.grad(lambda x: x**2))(3.0).tolist() == 6.0


def test_calls_again_compile_nothing() -> None:
    from smelt import runtime

    def step(x: sm.Tensor) -> np.ndarray:
        return sm.grad(lambda x: (sm.sin(x) * x).sum())(x).numpy()

    step(sm.asarray([0.5] * 5))
    before = len(runtime.current().graphs)
    for k in range(5):
        step(sm.asarray([float(k)] * 5))
    assert len(runtime.current().graphs) == before


@pytest.mark.parametrize(
    ("error", "text", "call"),
    [
        (ShapeError, "grad: the value has shape (2,)", lambda: sm.grad(lambda x: x)(sm.ones(2))),
        (DTypeError, "the value is int64", lambda: sm.grad(lambda x: x.astype(sm.int64))(sm.asarray(1.0))),
        (ArgumentError, "the function returned float", lambda: sm.grad(lambda x: 1.0)(sm.asarray(1.0))),
        (DTypeError, "argument 0 has a tensor of int64", lambda: sm.grad(lambda x: x)(sm.asarray(1))),
        (ArgumentError, "argument 0 has a leaf of type str", lambda: sm.grad(lambda x: x)("text")),
        (ArgumentError, "there is no positional argument 1", lambda: sm.grad(lambda x: x, argnums=1)(sm.ones(()))),
        (ArgumentError, "names an argument twice", lambda: sm.grad(lambda x: x, argnums=(0, -1))(sm.ones(()))),
        (ArgumentError, "must return (value", lambda: sm.grad(lambda x: x, has_aux=True)(sm.ones(()))),
        (ArgumentError, "primals and tangents must be tuples", lambda: sm.jvp(sm.sin, sm.ones(()), sm.ones(()))),
        (ArgumentError, "1 primals and 0 tangents", lambda: sm.jvp(sm.sin, (sm.ones(()),), ())),
        (ShapeError, "tangent 0 has shape (2,)", lambda: sm.jvp(sm.sin, (sm.ones(()),), (sm.ones(2),))),
        (
            DTypeError,
            "the cotangent is float64",
            lambda: sm.vjp(sm.sin, sm.ones(()))[1](sm.ones((), dtype=sm.float64)),
        ),
        (ArgumentError, "by what?", lambda: sm.ones(()).gradient()),
        (GradientError, "does not depend on argument 0", lambda: sm.ones(()).gradient(sm.ones(2))),
    ],
)
def test_mistakes(error: type[Exception], text: str, call: object) -> None:
    with pytest.raises(error) as raised:
        call()  # type: ignore[operator]
    assert text in str(raised.value)


def test_mistakes_name_the_function_that_was_called() -> None:
    for function, name in ((sm.grad, "grad"), (sm.value_and_grad, "value_and_grad")):
        with pytest.raises(ShapeError, match=f"^{name}: "):
            function(lambda x: x)(sm.ones(2))


def test_history_that_was_released_is_named() -> None:
    x = sm.ones(2)
    y = x * 2
    y.numpy()
    with pytest.raises(GradientError, match=r"read too early, which released their history: float32\(2,\)"):
        (y * y).sum().gradient(x)


@pytest.mark.parametrize("stride", [1, 2])
def test_the_gradient_by_an_image_is_one_kernel_without_its_padding(stride: int) -> None:
    x, weight = sm.ones(2, 3, 9, 8), sm.ones(4, 3, 3, 3)
    slope = sm.grad(lambda x: sm.conv2d(x, weight, padding=1, stride=stride).sum())
    assert len(examine(slope, x).kernels) == 1
    windows = np.lib.stride_tricks.sliding_window_view(np.ones((11, 10)), (3, 3))
    expected = np.zeros((11, 10))
    for i in range(0, windows.shape[0], stride):
        for j in range(0, windows.shape[1], stride):
            expected[i : i + 3, j : j + 3] += 4
    np.testing.assert_array_equal(slope(x)[1, 2].numpy(), expected[1:-1, 1:-1])


def test_an_image_of_nothing_but_padding_has_a_gradient() -> None:
    x, weight = sm.zeros(1, 1, 0), sm.ones(1, 1, 1)
    slopes = sm.grad(lambda x, w: sm.conv1d(x, w, padding=2).sum(), argnums=(0, 1))(x, weight)
    assert slopes[0].shape == (1, 1, 0)
    assert slopes[1].tolist() == [[[0.0]]]


def test_what_relu_is_taken_of_is_not_kept() -> None:
    """The result says where it was positive: the product, relu and the way back are two kernels."""
    x, w = sm.asarray([[1.0, -1.0], [2.0, 0.5]]), sm.asarray([[1.0, 2.0], [3.0, 1.0]])
    slope = sm.grad(lambda x: (x @ w).relu().sum())
    assert len(examine(slope, x).kernels) == 2
    for number in (-1.0, 0.0, 2.0, math.nan, math.inf):
        for clip in (lambda x: x.maximum(0.5), lambda x: x.minimum(0.5)):
            once = sm.grad(clip)(sm.asarray(number)).tolist()
            assert once == (1.0 if float(clip(sm.asarray(number))) == number else 0.0), number


@pytest.mark.parametrize("transform", [sm.grad, lambda f: lambda x: sm.jvp(f, (x,), (x,))[1]])
def test_derivatives_do_not_walk_the_history_of_arguments(transform: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[int] = []

    def counted(*args: Any, **options: Any) -> list[Node]:
        order = topological(*args, **options)
        walked.append(len(order))
        return order

    monkeypatch.setattr(vjp, "topological", counted)
    monkeypatch.setattr(jvp, "topological", counted)
    slope = transform(lambda x: (x * x).sum())
    x = sm.asarray(np.arange(3.0))
    for _ in range(20):  # a loop in which nothing is read
        x = x - 0.1 * slope(x)
    assert len(set(walked)) == 1


@pytest.mark.parametrize(
    "other", [1.0, sm.ones(2), sm.asarray([1.0, 1.0]), np.ones(2)], ids=["number", "ones", "tensor", "array"]
)
def test_equal_operands_of_maximum_share_however_they_were_made(other: Any) -> None:
    x = sm.asarray([1.0, 2.0])
    assert sm.grad(lambda x: sm.maximum(x, other).sum())(x).tolist() == [0.5, 1.0]
    assert sm.grad(lambda x: sm.minimum(other, x).sum())(x).tolist() == [0.5, 0.0]


def test_equal_operands_share_whichever_of_them_is_differentiated() -> None:
    one = sm.ones(1)
    for argnums in (0, 1):
        assert sm.grad(lambda a, b: sm.maximum(a, b).sum(), argnums=argnums)(one, one).tolist() == [0.5]


def test_the_largest_of_what_is_computed_again_is_found_again() -> None:
    """A product and a sum rounded as one in one kernel, and one by one in another, would not be equal."""
    x = np.random.default_rng(0).normal(size=(48,)).astype(np.float32)

    def loss(x: sm.Tensor) -> sm.Tensor:
        return (sm.softmax(x, -1) - 0.5).reshape(16, 3).max(1).sum()

    np.testing.assert_allclose(sm.grad(loss)(sm.asarray(x)), sm.grad(loss)(sm.asarray(x.astype(np.float64))), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_behind_a_condition_are_rounded_too(dtype: Any) -> None:
    """Of what is padded, the C compiler sees where the condition always holds."""
    x, y, c = (np.random.default_rng(k).normal(size=(64, 26)).astype(dtype) for k in range(3))
    ways = {
        "pad": lambda xp, p: xp.pad(p[2:], [(0, 2), (0, 0)]),
        "concat": lambda xp, p: xp.concatenate([p[2:], xp.zeros((2, 26), dtype=p.dtype)]),
        "roll": lambda xp, p: xp.roll(p, 3, 0),
    }
    for name, way in ways.items():
        tensors = [sm.asarray(value) for value in (x, y, c)]
        found = sm.jit(lambda x, y, c, way=way: way(sm, x * y) + c)(*tensors)
        np.testing.assert_array_equal(found.numpy(), way(np, x * y) + c, name)
        slope = sm.grad(lambda x, y, c, way=way: sm.max(way(sm, x * y) + c, axis=1).sum(), argnums=2)(*tensors).numpy()
        np.testing.assert_array_equal(slope.sum(1), np.ones(64), name)

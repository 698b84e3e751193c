"""What `jit` takes as input, and what is part of the structure: nothing is stale, nothing is mixed up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, TraceError

V = sm.asarray(np.zeros(3, np.float32))


def full(value: float) -> sm.Tensor:
    return sm.full((3,), value).realize()


def values(tensor: Any) -> list[float]:
    return list(tensor.numpy())


def test_undeclared_arguments_of_a_symbolic_function_keep_their_own_shape() -> None:
    n = sm.Dim("n", 1, 9)
    f = sm.jit(lambda a, b: a.sum() + b.sum(), shapes=[(n,)])
    assert float(f(V, sm.ones((1000,)))) == 1000
    assert float(f(V, sm.ones((3,)))) == 3
    assert float(f(V, b=sm.ones((5,)))) == 5


def test_slices_of_symbolic_axes() -> None:
    n, m = sm.Dim("d1", 1, 9), sm.Dim("m", 1, 9)
    f = sm.jit(lambda p, q: (p.exp()[::-1], q[::-1], p[-1], sm.flip(q), q[1:] if False else q * 1), shapes=[(n,), (m,)])
    p, q = np.arange(3, dtype=np.float32), np.arange(5, dtype=np.float32)
    expected = (np.exp(p)[::-1], q[::-1], p[-1], q[::-1], q)
    for got, wanted in zip(f(sm.asarray(p), sm.asarray(q)), expected, strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6)


def test_a_dim_must_be_found_in_the_shapes() -> None:
    n = sm.Dim("n", 1, 9)
    with pytest.raises(ArgumentError, match="cannot be read off"):
        sm.jit(lambda a: a, shapes=[(2 * n,)])(V)


def test_globals_defined_after_the_function_are_seen() -> None:
    scope: dict[str, Any] = {"sm": sm}
    late = type(V)  # any name: the function below reads `weight` from its globals

    def read(a: sm.Tensor) -> sm.Tensor:
        return a + weight  # type: ignore[name-defined]  # noqa: F821

    function = type(read)(read.__code__, scope, "read")
    f = sm.jit(function)
    scope["weight"] = full(2)
    assert values(f(V)) == [2, 2, 2]
    scope["weight"] = full(3)
    assert values(f(V)) == [3, 3, 3]
    assert late is type(V)


def test_two_names_for_one_tensor_are_one_only_as_long_as_they_are() -> None:
    a = b = full(1)
    f = sm.jit(lambda x: x + a + 10 * b)
    assert values(f(V)) == [11, 11, 11]
    b = full(5)
    assert values(f(V)) == [51, 51, 51]


def test_an_equal_expression_that_was_computed_outside_is_no_constant() -> None:
    hidden = full(1)
    first, second = hidden * 2, hidden * 2
    first.numpy()
    f = sm.jit(lambda x: x + hidden * 2)
    assert values(f(V)) == [2, 2, 2]
    hidden = full(5)
    assert values(f(V)) == [10, 10, 10]
    assert values(second) == [2, 2, 2]


def test_values_of_hidden_tensors_cannot_be_asked_for() -> None:
    hidden = full(2)
    for function in (lambda x: x + float(hidden[0]), lambda x: x if bool(hidden.sum() > 0) else -x):
        with pytest.raises(TraceError):
            sm.jit(function)(V)


def test_other_objects_count_by_identity_for_as_long_as_they_live() -> None:
    class Config:
        def __init__(self, factor: float) -> None:
            self.factor = factor

    config = Config(0.0)
    f = sm.jit(lambda x: x + config.factor)
    for k in range(20):
        config = Config(float(k))
        assert values(f(V)) == [k, k, k]


@pytest.mark.parametrize("pair", [((1,), (True,)), ((1,), (1.0,)), (0.0, -0.0), ("a", "b"), ((1, (2,)), (1, (2.0,)))])
def test_static_values_differ_by_type_and_sign(pair: tuple[Any, Any]) -> None:
    seen: list[Any] = []

    def function(x: sm.Tensor, value: Any) -> sm.Tensor:
        seen.append(value)
        return x

    f = sm.jit(function, static=1)
    for value in (*pair, *pair):
        f(V, value)
    assert [repr(value) for value in seen] == [repr(value) for value in pair]


def test_static_tensors_are_inputs_all_the_same() -> None:
    f = sm.jit(lambda x, y: x + y, static="y")
    assert values(f(V, y=full(4))) == [4, 4, 4]
    assert values(f(V, full(5))) == [5, 5, 5]


def test_static_arguments_of_bound_methods() -> None:
    class Repeater:
        def run(self, x: sm.Tensor, n: int) -> sm.Tensor:
            for _ in range(n):
                x = x + 1
            return x

    assert values(sm.jit(Repeater().run, static="n")(V, 3)) == [3, 3, 3]


def test_jit_of_jit_sees_what_the_function_reaches() -> None:
    hidden = full(1)
    f = sm.jit(sm.jit(lambda x: x + hidden))
    assert values(f(V)) == [1, 1, 1]
    hidden = full(2)
    assert values(f(V)) == [2, 2, 2]


def test_dictionaries_that_are_no_trees_count_by_identity() -> None:
    table = {1: 2.0, "a": 3.0}
    assert values(sm.jit(lambda x: x + table["a"])(V)) == [3, 3, 3]


def test_donated_keywords_and_equal_expressions() -> None:
    f = sm.jit(lambda q: q * 2, donate=0)
    assert values(f(q=full(2))) == [4, 4, 4]
    a = full(1)
    p = a + 1
    z = p * 3
    p.numpy()
    f(p)
    assert values(a + 1) == [2, 2, 2]
    assert values(z) == [6, 6, 6]


def test_numbers_stay_weak_and_constants_strong() -> None:
    strong = sm.jit(lambda a: (a, sm.full((), 2.0, dtype=sm.float64)))(V)[1]
    assert strong.dtype is sm.float64

    def chain(x: sm.Tensor, k: float) -> sm.Tensor:
        for _ in range(1500):
            k = k + 1
        for _ in range(40):
            k = k + k
        return x * (k * 0)

    assert sm.jit(chain)(V, 1.0).dtype is sm.float32
    assert math.isfinite(float(sm.jit(lambda k: k + 1)(2.5)))


INT8 = sm.asarray(np.array([1, 100, -5], np.int8))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: x < n,
        lambda x, n: x + (2 * n + 1),
        lambda x, n: sm.where(x > 3, n, x),
        lambda x, n: x.clip(0, n),
        lambda x, n: x.at[0].set(n),
        lambda x, n: sm.full((2,), n, dtype=sm.int8),
        lambda x, n: sm.asarray(n, dtype=sm.int8),
        lambda x, n: sm.pad(x, 1, value=n),
        lambda x, n: sm.scan(lambda total, _: (total + n, None), x, length=2)[0],
    ],
)
def test_integers_that_do_not_fit_are_refused_inside_as_they_are_outside(function: Any) -> None:
    compiled = sm.jit(function)
    assert compiled(INT8, 3).tolist() == function(INT8, 3).tolist()
    for call in (function, compiled):
        with pytest.raises(ArgumentError, match=r"the integer (300|601) does not fit in int8"):
            call(INT8, 300)
    assert compiled(INT8, 4).tolist() == function(INT8, 4).tolist()


def test_sizes_that_do_not_fit_are_refused_as_integers_are() -> None:
    f = sm.jit(lambda x: x + x.shape[0], shapes=[(sm.Dim("n", 1, 1000),)])
    assert f(sm.zeros(5, dtype=sm.int8)).tolist() == [5] * 5
    with pytest.raises(ArgumentError, match="the integer 200 does not fit in int8"):
        f(sm.zeros(200, dtype=sm.int8))


@pytest.mark.parametrize("word", ["static", "donate"])
def test_positions_that_the_function_does_not_have_are_refused(word: str) -> None:
    def f(x: Any, n: Any) -> Any:
        return x * n

    for wrong in (2, -3, (0, 5), True, 1.0):
        with pytest.raises(ArgumentError, match=rf"jit: {word}"):
            sm.jit(f, **{word: wrong})  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match=rf"jit: {word} names argument 1\n[\s\S]*the function has 1"):
        sm.jit(sm.nn.Linear(3, 3), **{word: 1})  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match=rf"jit: {word} names argument -1\n[\s\S]*no last one"):
        sm.jit(lambda *xs: xs[0], **{word: -1})  # type: ignore[call-overload]
    assert values(sm.jit(lambda *xs: xs[0] + 1, **{word: 3})(V)) == [1, 1, 1]  # type: ignore[call-overload]


def test_positions_may_count_from_the_end_as_in_jax() -> None:
    assert values(sm.jit(lambda x, n: x + sm.ones(n), static=-1)(V, 3)) == [1, 1, 1]
    x = full(2)
    sm.jit(lambda y, x: y + x, donate=-1)(V, x)
    with pytest.raises(sm.errors.DonatedError):
        x.numpy()
    assert values(sm.jit(lambda x, **options: x + options["by"], static="by")(V, by=2)) == [2, 2, 2]


def test_results_that_are_no_tensors_are_copies_in_every_call() -> None:
    f = sm.jit(lambda x: (x + 1, np.arange(3), {1, 2}, [1, 2]))
    _, array, numbers, items = f(V)
    array[0], _ = 99, numbers.add(99)
    items.append(99)
    _, array, numbers, items = f(V)
    assert (array.tolist(), numbers, items) == ([0, 1, 2], {1, 2}, [1, 2])

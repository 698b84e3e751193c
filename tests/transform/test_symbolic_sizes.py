"""Sizes that are known at the call, in the arithmetic and the comparisons of a user's own code."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.config import configure
from smelt.errors import ArgumentError, IndexRangeError, ShapeError, TraceError
from tests.interpreted import interpreted

N = sm.Dim("n", 1, 64)
TABLE = sm.arange(64, dtype=sm.float32)

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "a slice to n": lambda x: x + TABLE[: x.shape[0]],
    "a slice from n": lambda x: TABLE[x.shape[0] :].sum() + x,
    "the last n": lambda x: x + TABLE[-x.shape[0] :],
    "half": lambda x: x[: x.shape[0] // 2].sum() + x,
    "the last by its number": lambda x: x[x.shape[0] - 1] * x,
    "an update of the first n": lambda x: TABLE.at[: x.shape[0]].set(x),
    "a mean": lambda x: x.sum() / x.shape[0],
    "a divisor": lambda x: x.shape[0] / (x + 1),
    "both sides": lambda x: (x.shape[0] - x) * x.shape[0] + x.size,
    "a root": lambda x: x * x.shape[0] ** -0.5,
    "a square": lambda x: x * x.shape[0] ** 2,
    "a power of two": lambda x: x * 2.0 ** x.shape[0],
    "fractions": lambda x: x * (1 / x.shape[0]) + x.shape[0] / 2 + 0.5 * x.shape[0] + (x.shape[0] - 0.25),
    "what may be negative": lambda x: x * (x.shape[0] - 10),
    "numbers of NumPy's": lambda x: x * (x.shape[0] + np.int64(2)) + np.float32(0.5) * x.shape[0],
    "a function": lambda x: x * sm.sqrt(x.shape[0]) + sm.log(sm.asarray(x.shape[0], dtype=sm.float32)),
    "a tensor of sizes": lambda x: sm.asarray([x.shape[0], 2]) * 3,
    "a fill": lambda x: sm.full((3,), x.shape[0]),
    "the larger": lambda x: sm.maximum(x, x.shape[0]) + max(x.shape[0], 1),
    "a mask": lambda x: sm.where(sm.arange(x.shape[0]) < x.shape[0] - 1, x, x.shape[0]),
    "evenly spaced": lambda x: sm.linspace(0, 1, x.shape[0]) + sm.linspace(-1, 2, x.shape[0], endpoint=False),
    "counts": lambda x: sm.arange(1, x.shape[0] + 1) + sm.arange(2 * x.shape[0], 0, -2) * x,
    "what bounds decide": lambda x: x if 0 < x.shape[0] <= 64 and x.shape[0] != 65 and x.shape[0] > 0.5 else -x,
    "what is there": lambda x: x if x.shape[0] else -x,
    "a gradient": sm.grad(lambda x: (x**2).sum() / x.shape[0]),
    "a small dtype": lambda x: x.astype(sm.float16) * x.shape[0] ** -0.5 + x.astype(sm.float16) * x.shape[0],
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.by_turns(3)
def test_a_symbolic_size_is_a_number(name: str) -> None:
    function = PROGRAMS[name]
    compiled = sm.jit(function, shapes=[(N,)])
    for size in (5, 1, 12):
        x = sm.arange(size, dtype=sm.float32)
        got, wanted = compiled(x), function(x)
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        (expected,) = interpreted(wanted)
        np.testing.assert_allclose(got.numpy(), expected, rtol=2e-6 if got.dtype is sm.float32 else 1e-3)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "an order": (lambda x: x if x.shape[0] > 10 else -x, r"whether n > 10 depends on the call(.|\n)*sm\.where"),
    "a number": (lambda x: x if x.shape[0] == 5 else -x, r"whether n == 5 depends on the call(.|\n)*n in 1\.\.64"),
    "a shape": (lambda x: x if x.shape == (5,) else -x, "whether n == 5 depends"),
    "evenness": (lambda x: x if x.shape[0] % 2 == 0 else -x, "whether n % 2 == 0 depends"),
    "a loop": (lambda x: [x[i] for i in range(x.shape[0])], "sm.fori_loop"),
    "iteration": (lambda x: [2 * row for row in x], "sm.scan"),
    "a length": (lambda x: x / len(x), r"x\.shape\[0\]"),
    "a float": (lambda x: x * math.sqrt(x.shape[0]), r"n \*\* 0\.5"),
    "a key": (lambda x: x * {5: 2.0}.get(x.shape[0], 1.0), "hash: the size n is symbolic"),
    "a computed key": (lambda x: x if x.shape[0] + 1 in {5, 6} else -x, r"hash: the size n \+ 1 is symbolic"),
    "a key that is a shape": (lambda x: x * {(5,): 2.0}.get(x.shape, 1.0), "hash: the size n is symbolic"),
    "a bound": (lambda x: x[: x.shape[0] - 2], r"may be negative|whether"),
}


@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (8, 11)])
def test_two_open_axes_that_a_window_makes_smaller(shape: tuple[int, int]) -> None:
    """Their sizes less one are factors of what is walked, and of what is flattened."""
    h, w = sm.Dim("h", 3, 1000), sm.Dim("w", 3, 1000)

    def f(x: Any) -> Any:
        pooled = sm.max_pool2d(sm.permute_dims(x, (0, 3, 1, 2)), 3, 2)
        return sm.permute_dims(pooled, (0, 2, 3, 1)), x[:, 2:, 2:].reshape((-1,))

    x = sm.asarray(np.random.default_rng(0).normal(size=(2, *shape, 2)).astype(np.float32))
    with configure(verify=True):
        found = sm.jit(f, shapes=[(2, h, w, 2)])(x)
    for value, wanted in zip(found, interpreted(f(x)), strict=True):
        np.testing.assert_array_equal(value.numpy(), wanted)


@pytest.mark.parametrize("name", REFUSED)
def test_what_depends_on_the_size_names_another_way(name: str) -> None:
    function, message = REFUSED[name]
    with pytest.raises((TraceError, IndexRangeError), match=message):
        sm.jit(function, shapes=[(N,)])(TABLE[:5])


@pytest.mark.parametrize("function", [lambda x: x[0], lambda x: x[1:], lambda x: sm.roll(x, 1)])
def test_what_sizes_that_may_be_zero_do_not_allow_names_the_cure(function: Callable[[Any], Any]) -> None:
    with pytest.raises((ArgumentError, IndexRangeError), match="must hold for every size: give the Dim"):
        sm.jit(function, shapes=[(sm.Dim("n", 0, 64),)])(sm.ones(3))


def test_a_table_that_is_too_short_is_refused_for_the_sizes_that_need_more() -> None:
    function = sm.jit(lambda x: x + TABLE[2 : x.shape[0] + 2], shapes=[(N,)])
    with pytest.raises(IndexRangeError, match="bounds that say so"):
        function(TABLE[:5])
    narrow = sm.Dim("n", 1, 62)
    assert sm.jit(function.__wrapped__, shapes=[(narrow,)])(TABLE[:2]).tolist() == [2.0, 4.0]


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_the_largest_of_what_may_be_nothing_is_refused(name: str) -> None:
    with pytest.raises(ShapeError, match=r"there may be no elements(.|\n)*n may be 0(.|\n)*begin with 1"):
        sm.jit(lambda x: getattr(x, name)(0), shapes=[(sm.Dim("n", 0, 8),)])(sm.zeros(3))


def test_a_shape_that_was_not_declared_is_named_as_a_part_of_its_argument() -> None:
    step = sm.jit(lambda model, batch: model(batch["x"]), shapes=[None, [(N, 3)]])
    model = sm.nn.Linear(3, 2)
    assert step(model, {"x": sm.ones(5, 3)}).shape == (5, 2)
    with pytest.raises(ShapeError, match=r"argument 1\['x'\] was declared \(n, 3\) and has shape \(5, 4\)"):
        step(model, {"x": sm.ones(5, 4)})
    with pytest.raises(ArgumentError, match=r"(?s)1 shapes for argument 0, which has 2 tensors.*0\.bias.*Write None"):
        sm.jit(lambda model, x: model(x), shapes=[[(N,)], (N, 3)])(model, sm.ones(5, 3))

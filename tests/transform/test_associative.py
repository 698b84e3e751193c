"""`associative_scan` against what a loop gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, AxisError, ShapeError


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.by_turns(2)
def test_sums_of_every_length(size: int, reverse: bool) -> None:
    x = np.arange(1, 2 * size + 1, dtype=np.float32).reshape(2, size)
    got = sm.associative_scan(sm.add, sm.asarray(x), axis=1, reverse=reverse)
    want = x[:, ::-1].cumsum(1)[:, ::-1] if reverse else x.cumsum(1)
    np.testing.assert_allclose(got.numpy(), want)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_order_of_operands_is_kept(reverse: bool) -> None:
    matrices = sm.random.normal((7, 3, 3), key=sm.random.key(3))
    product = sm.jit(lambda m: sm.associative_scan(lambda a, b: a @ b, m, reverse=reverse))
    rows = list(matrices.numpy())
    want: list[Any] = [rows[-1] if reverse else rows[0]]
    for row in rows[-2::-1] if reverse else rows[1:]:
        want.append(row @ want[-1] if reverse else want[-1] @ row)
    np.testing.assert_allclose(product(matrices).numpy(), np.stack(want[::-1] if reverse else want), rtol=1e-4)


def test_a_linear_recurrence_and_its_gradient() -> None:
    def combine(a: Any, b: Any) -> Any:
        return {"decay": a["decay"] * b["decay"], "x": b["decay"] * a["x"] + b["x"]}

    def states(decay: Any, x: Any) -> Any:
        return sm.associative_scan(combine, {"decay": decay, "x": x})["x"]

    def loop(decay: Any, x: Any) -> Any:
        return sm.scan(lambda h, now: (now[0] * h + now[1],) * 2, sm.zeros(4), (decay, x))[1]

    decay = sm.random.uniform((11, 4), key=sm.random.key(0))
    x = sm.random.normal((11, 4), key=sm.random.key(1))
    np.testing.assert_allclose(states(decay, x).numpy(), loop(decay, x).numpy(), rtol=2e-5, atol=1e-6)
    slopes = [sm.grad(lambda d, f=f: (f(d, x) ** 2).sum())(decay) for f in (states, loop)]
    np.testing.assert_allclose(slopes[0].numpy(), slopes[1].numpy(), rtol=1e-4, atol=1e-5)


def test_mistakes() -> None:
    x = sm.ones((4, 2))
    with pytest.raises(ArgumentError, match="not a function"):
        sm.associative_scan("add", x)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="a leaf of type int"):
        sm.associative_scan(sm.add, [x, 3])
    with pytest.raises(AxisError, match="axis 2 is out of range"):
        sm.associative_scan(sm.add, x, axis=2)
    with pytest.raises(ShapeError, match="different lengths"):
        sm.associative_scan(lambda a, b: a, (x, sm.ones(3)))
    with pytest.raises(ShapeError, match="shapes and dtypes of what it is given"):
        sm.associative_scan(lambda a, b: a.sum(), x)
    with pytest.raises(ArgumentError, match="it must give"):
        sm.associative_scan(lambda a, b: (a, b), x)
    with pytest.raises(ArgumentError, match="which takes any number of steps"):
        sm.jit(lambda x: sm.associative_scan(sm.add, x), shapes=[(sm.Dim("n", 1, 9),)])(sm.ones(3))

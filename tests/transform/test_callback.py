"""Functions of Python's inside compiled programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, DTypeError, GradientError, ShapeError


def test_a_function_of_numpy_in_a_compiled_one() -> None:
    @sm.jit
    def solved(a: Any, b: Any) -> Any:
        return sm.callback(np.linalg.solve, b, a @ a, b) + 1

    a, b = sm.asarray([[2.0, 1.0], [0.0, 4.0]]), sm.asarray([2.0, 4.0])
    for _ in range(2):
        np.testing.assert_allclose(solved(a, b).numpy(), np.linalg.solve(a.numpy() @ a.numpy(), b.numpy()) + 1)


def test_trees_go_in_and_come_out() -> None:
    def split(data: Any, factor: Any) -> Any:
        order = np.argsort(data["x"])
        return {"order": order, "sorted": data["x"][order] * factor}

    like = {"order": sm.zeros(3, dtype=sm.int64), "sorted": sm.zeros(3, dtype=sm.float64)}
    found = sm.jit(lambda x: sm.callback(split, like, {"x": x * 2}, 10))(sm.asarray([3.0, 1.0, 2.0]))
    assert found["order"].tolist() == [1, 2, 0] and found["order"].dtype is sm.int64
    assert found["sorted"].tolist() == [20.0, 40.0, 60.0] and found["sorted"].dtype is sm.float64


def test_in_loops_branches_and_batches() -> None:
    calls: list[float] = []

    def noted(x: Any) -> Any:
        calls.append(float(x))
        return x + 1

    def body(total: Any, x: Any) -> Any:
        total = total + sm.callback(noted, x, x)
        return total, total

    x = sm.asarray([1.0, 2.0, 3.0])
    last, sums = sm.jit(lambda x: sm.scan(body, sm.asarray(0.0), x))(x)
    assert last.item() == 9.0 and sums.tolist() == [2.0, 5.0, 9.0] and calls == [1.0, 2.0, 3.0]
    chosen = sm.jit(lambda x: sm.cond(x > 0, lambda x: sm.callback(noted, x, x), lambda x: -x, x))
    assert (chosen(sm.asarray(5.0)).item(), chosen(sm.asarray(-5.0)).item(), len(calls)) == (6.0, 5.0, 4)
    rows = sm.asarray([[3.0, 1.0], [5.0, 4.0]])
    assert sm.jit(sm.vmap(lambda row: sm.callback(np.sort, row, row)))(rows).tolist() == [[1.0, 3.0], [4.0, 5.0]]


def test_symbolic_sizes_and_results_without_jit() -> None:
    n = sm.Dim("n", 1, 9)
    ordered = sm.jit(lambda x: sm.callback(np.sort, x, x)[: x.shape[0]] * 2, shapes=[(n,)])
    for size in (1, 4):
        x = sm.arange(size, dtype=sm.float32)[::-1]
        assert ordered(x).tolist() == (2 * sm.arange(size, dtype=sm.float32)).tolist()
    lazy = sm.callback(np.cumsum, sm.zeros(3), sm.ones(3))
    assert "lazy" in repr(lazy) and lazy.tolist() == [1.0, 2.0, 3.0]


def test_a_gradient_of_its_own() -> None:
    @sm.custom_vjp
    def sine(x: Any) -> Any:
        return sm.callback(np.sin, x, x)

    sine.defvjp(lambda x: (sm.callback(np.sin, x, x), x), lambda x, ct: (ct * sm.cos(x),))
    x = sm.asarray([0.0, 1.0])
    for slope in (sm.grad(lambda x: sine(x).sum()), sm.jit(sm.grad(lambda x: sine(x).sum()))):
        np.testing.assert_allclose(slope(x).numpy(), np.cos([0.0, 1.0]), rtol=1e-6)
    with pytest.raises(GradientError, match="no derivative"):
        sm.grad(lambda x: sm.callback(np.sin, x, x).sum())(x)
    assert sm.grad(lambda x: (x * sm.stop_gradient(sm.callback(np.cos, x, x))).sum())(x).tolist()[0] == 1.0


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda a: a[:1], ShapeError, r"gave shape \(1,\)(.|\n)*\(2,\) was declared"),
        (lambda a: a * 1.5, DTypeError, "gave float32"),
        (lambda a: (a, a), ArgumentError, r"gave tuple"),
        (lambda a: 1 / 0, ZeroDivisionError, "division"),
    ],
)
def test_what_the_function_gives_is_checked(function: Any, error: Any, message: str) -> None:
    call = sm.jit(lambda x: sm.callback(function, sm.zeros(2, dtype=sm.int32), x))
    with pytest.raises(error, match=message):
        call(sm.asarray([1.0, 2.0]))


def test_mistakes() -> None:
    x = sm.ones(2)
    with pytest.raises(ArgumentError, match="is not a function"):
        sm.callback("sort", x, x)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="a leaf of type int"):
        sm.callback(np.sort, (2, sm.float32), x)
    with pytest.raises(ArgumentError, match="no tensors"):
        sm.callback(np.sort, None, x)
    with pytest.raises(DTypeError, match="only stores values"):
        sm.callback(np.sort, sm.zeros(2, dtype=sm.int4), x)


def test_what_is_kept_of_a_call_stays_as_it_was() -> None:
    kept: list[np.ndarray[Any, Any]] = []

    def keep(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        kept.append(x)
        x += 1  # its own copy
        return x

    f = sm.jit(lambda x: sm.callback(keep, x, x * 2) * 3)
    x = sm.asarray([1.0, 2.0])
    assert [f(x + k).tolist() for k in range(3)] == [[9.0, 15.0], [15.0, 21.0], [21.0, 27.0]]
    assert [array.tolist() for array in kept] == [[3.0, 5.0], [5.0, 7.0], [7.0, 9.0]]
    assert x.tolist() == [1.0, 2.0]

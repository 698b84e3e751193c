"""Sizes that change from call to call: a note after a few traces, and one compilation for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, TraceWarning
from tests.transform.test_watching import Counted


def rows(count: int, columns: int = 4) -> Any:
    return np.arange(count * columns, dtype=np.float32).reshape(count, columns)


def test_a_note_names_a_way_after_five_sizes() -> None:
    f = sm.jit(lambda x, w: (x * w).sum(-1))
    for count in range(2, 6):
        f(sm.asarray(rows(count)), sm.ones((4,)))
    with pytest.warns(TraceWarning, match=r"dynamic=True.*shapes=\[\(n, 4,\)\]"):
        f(sm.asarray(rows(9)), sm.ones((4,)))
    for count in range(10, 16):
        f(sm.asarray(rows(count)), sm.ones((4,)))  # once is enough


def test_a_dynamic_function_is_traced_twice_for_all_sizes() -> None:
    f = Counted(lambda model, x, y: ((model(x) - y) ** 2).mean(), dynamic=True)
    model = sm.nn.Linear(4, 4)
    for count in (3, 7, 5, 31, 2, 3):
        x = rows(count)
        found = float(f(model, x, sm.asarray(x)))
        assert found == pytest.approx(float(((model(sm.asarray(x)) - x) ** 2).mean()), rel=1e-5)
    assert len(f) == 2
    assert float(f(model, rows(1), rows(1))) > 0  # one row broadcasts: a graph of its own
    assert len(f) == 3


def test_sizes_that_change_apart_become_dims_of_their_own() -> None:
    f = Counted(lambda x, y: x.sum() + y.sum(), dynamic=True)
    for n, m in ((3, 3), (4, 4), (5, 6), (7, 2), (8, 9)):
        assert float(f(sm.ones((n,)), sm.ones((m,)))) == n + m
    assert len(f) == 3


def test_a_function_that_needs_its_sizes_is_traced_for_each() -> None:
    f = Counted(lambda x: x.reshape(-1, 2).sum(0) if x.shape[0] % 2 == 0 else x[:2], dynamic=True)
    for count in (4, 6, 5, 8):
        x = np.arange(count, dtype=np.float32)
        expected = x.reshape(-1, 2).sum(0) if count % 2 == 0 else x[:2]
        np.testing.assert_allclose(f(x).numpy(), expected)


def test_several_axes_that_change_need_memory_for_sizes_near_those_seen() -> None:
    f = Counted(lambda x: x @ x.T @ x, dynamic=True)
    for count in (3, 7, 100, 40):
        x = rows(count, count) / count**2
        np.testing.assert_allclose(f(x).numpy(), x @ x.T @ x, rtol=1e-5)
    assert len(f) == 2
    f(rows(600, 600))
    assert len(f) == 3


def test_without_the_memory_for_all_sizes_each_is_traced() -> None:
    f = Counted(lambda x: sm.cumsum(sm.cumsum(x, axis=0), axis=5), dynamic=True)
    for count in (2, 3, 4):
        x = np.ones((count,) * 6, np.float32)
        np.testing.assert_array_equal(f(x).numpy(), x.cumsum(0).cumsum(5))


@pytest.mark.parametrize("reverse", [False, True])
def test_loops_over_squares_of_any_size(reverse: bool) -> None:
    f = Counted(lambda x: sm.scan(lambda c, row: (c + row, c), x[0], x, reverse=reverse)[1], dynamic=True)
    for count in (5, 6, 9, 2):
        x = rows(count, count)
        order = x[::-1] if reverse else x
        expected = np.concatenate([x[:1], (x[0] + order.cumsum(0))[:-1]])
        np.testing.assert_array_equal(f(x).numpy(), expected[::-1] if reverse else expected)
    assert len(f) == 2


def test_dims_are_declared_or_found() -> None:
    with pytest.raises(ArgumentError, match="Use one of them"):
        sm.jit(lambda x: x, dynamic=True, shapes=[(sm.Dim("n"),)])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * np.sqrt(x.shape[0]),
        lambda x: x * divmod(x.shape[0], 2)[1],
        lambda x: x * (x.shape[0] & 1),
        lambda x: x * np.arange(x.shape[0]).sum(),
    ],
)
def test_numbers_that_only_a_known_size_has(function: Callable[[sm.Tensor], sm.Tensor]) -> None:
    f = sm.jit(function, dynamic=True)
    for size in (3, 5, 7, 4):
        np.testing.assert_allclose(f(sm.ones(size)).numpy(), function(sm.ones(size)).numpy())


def test_many_traces_are_worth_a_warning() -> None:
    class Batch:
        def __init__(self) -> None:
            self.x = sm.ones(2)

    f = sm.jit(lambda batch: batch.x * 2)
    with pytest.warns(TraceWarning, match=r"traced 64 times(.|\n)*another object as an argument"):
        for _ in range(64):
            f(Batch())


SEEN: dict[int, float] = {}
SCALES = {3: 10.0, 4: 20.0, 9: 90.0}


def remembered(x: sm.Tensor) -> sm.Tensor:
    number = SEEN.setdefault(x.shape[0], 2.0 * x.shape[0])
    return x.sum() + number


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum() * SCALES.get(x.shape[0], 1.0),
        lambda x: x.sum() + len({x.shape[0], 4}),
        lambda x: x.sum() + (1 if x.shape[0] in {9, 4} else 0),
        lambda x: x.sum() + (1 if str(x.shape[0]) == "9" else 0),
        lambda x: x.sum() + len(f"{2 * x.shape[0]}"),
        lambda x: x.sum() + len(f"{x.shape[0]:4}"),
        remembered,
    ],
)
def test_keys_and_texts_of_sizes_are_those_of_the_call(function: Callable[[sm.Tensor], sm.Tensor]) -> None:
    compiled = sm.jit(function, dynamic=True)
    for count in (3, 4, 5, 9, 9):
        assert float(compiled(sm.ones(count))) == float(function(sm.ones(count)))


def test_texts_that_a_dynamic_function_gives_have_the_numbers_of_the_call() -> None:
    f = sm.jit(lambda x: (x * 2, f"{x.shape[0]} rows"), dynamic=True)
    assert [f(sm.ones(count))[1] for count in (3, 4, 5, 3)] == ["3 rows", "4 rows", "5 rows", "3 rows"]


def test_a_shape_may_be_printed_without_a_new_trace(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: sm.Tensor) -> sm.Tensor:
        print("tracing", x.shape)
        return x * 2

    f = Counted(f, dynamic=True)
    for count in (3, 4, 5, 6):
        f(sm.ones(count))
    assert len(f) == 2 and capsys.readouterr().out.startswith("tracing (3,)\ntracing (Dim(")

"""`sm.debug.print` shows values when they are computed."""

from __future__ import annotations

from typing import Any

import pytest

import smelt as sm
from smelt.errors import ArgumentError

Capture = pytest.CaptureFixture[str]


def test_at_every_call_of_a_compiled_function(capsys: Capture) -> None:
    @sm.jit
    def step(x: sm.Tensor) -> sm.Tensor:
        y = x * 2
        sm.debug.print("y = {}, sum {total:.1f}", y, total=y.sum())
        return x + 1  # nothing depends on y

    for value in (1.0, 2.0):
        assert step(sm.asarray([value, 3.0])).tolist() == [value + 1, 4.0]
    assert capsys.readouterr().out == "y = [2. 6.], sum 8.0\ny = [4. 6.], sum 10.0\n"


def test_in_the_order_in_which_it_is_written(capsys: Capture) -> None:
    @sm.jit
    def step(x: sm.Tensor) -> sm.Tensor:
        for k in range(5):
            sm.debug.print("{}: {}", k, x * k)
        return x

    step(sm.asarray(2.0))
    assert capsys.readouterr().out.split("\n")[:-1] == [f"{k}: {2.0 * k}" for k in range(5)]


def test_in_every_iteration_and_in_the_branch_that_is_taken(capsys: Capture) -> None:
    def body(total: Any, x: Any) -> Any:
        sm.debug.print("{} + {}", total, x)
        return total + x, None

    def shown(x: Any) -> Any:
        sm.debug.print("at {}", x)
        return x * 3

    def quiet(x: Any) -> Any:
        return x

    xs = sm.asarray([1.0, 2.0])
    sm.jit(lambda xs: sm.scan(body, sm.asarray(0.0), xs)[0])(xs)
    assert capsys.readouterr().out == "0.0 + 1.0\n1.0 + 2.0\n"
    for most in (None, 9):
        sm.jit(lambda x, most=most: sm.while_loop(lambda x: x < 5, shown, x, max_steps=most))(sm.asarray(1.0))
        assert capsys.readouterr().out == "at 1.0\nat 3.0\n"
    sm.jit(lambda x: sm.fori_loop(0, 2, lambda i, x: shown(x + i), x))(sm.asarray(1.0))
    assert capsys.readouterr().out == "at 1.0\nat 4.0\n"
    chosen = sm.jit(lambda x: sm.cond(x > 0, shown, quiet, x))
    chosen(sm.asarray(2.0)), chosen(sm.asarray(-2.0))
    assert capsys.readouterr().out == "at 2.0\n"


def test_for_every_element_of_a_batch_and_once_in_gradients(capsys: Capture) -> None:
    def one(x: Any) -> Any:
        sm.debug.print("one {}", x)
        return x * x

    x = sm.asarray([1.0, 2.0])
    for batched in (sm.vmap(one), sm.jit(sm.vmap(one))):
        assert batched(x).tolist() == [1.0, 4.0]
        assert capsys.readouterr().out == "one 1.0\none 2.0\n"
    for slope in (sm.grad(one), sm.jit(sm.grad(one))):
        assert slope(sm.asarray(3.0)).item() == 6.0
        assert capsys.readouterr().out == "one 3.0\n"


def test_without_jit_at_once_and_like_print(capsys: Capture) -> None:
    sm.debug.print(sm.ones(2), "and", 3)
    sm.debug.print("{name}: {}", sm.asarray(1), name="count")
    assert capsys.readouterr().out == "[1. 1.] and 3\ncount: 1\n"


def test_a_text_without_places_is_one_of_the_values(capsys: Capture) -> None:
    sm.jit(lambda x: (sm.debug.print("loss", x.sum(), 3), x)[1])(sm.asarray([1.0, 2.0]))
    sm.debug.print("{", sm.asarray(1.0))
    assert capsys.readouterr().out == "loss 3.0 3\n{ 1.0\n"


def test_a_program_that_prints_nothing_has_nothing_more_to_compute(capsys: Capture) -> None:
    def failing(x: Any) -> Any:
        sm.debug.print("{}", x)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        sm.jit(failing)(sm.ones(2))
    assert (sm.ones(2) + 1).tolist() == [2.0, 2.0]
    assert sm.jit(lambda x: x + 1)(sm.ones(1)).tolist() == [2.0]
    assert capsys.readouterr().out == ""


def test_a_place_without_a_value_is_an_error_where_it_is_written() -> None:
    @sm.jit
    def step(x: sm.Tensor) -> sm.Tensor:
        sm.debug.print("x {}, y {}", x)
        return x

    with pytest.raises(ArgumentError, match=r"(?s)no value for one of the places {}, {}\n  at test_printing.py"):
        step(sm.ones(2))
    with pytest.raises(ArgumentError, match=r"no value for one of the places {x}, {y}"):
        sm.debug.print("{x} {y:.1f}", x=1)


def test_a_text_alone_is_printed_as_it_is(capsys: Capture) -> None:
    sm.debug.print(f"{dict(a=1)}")
    sm.debug.print()
    assert capsys.readouterr().out == "{'a': 1}\n\n"

"""Loops outside of `jit` that read one of several values which depend on each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.errors import user_location
from smelt.graph import Op
from smelt.runtime.lines import held_values


def pendulum() -> list[float]:
    angle, speed, found = sm.asarray(0.3), sm.asarray(0.0), []
    for _ in range(12):
        speed = speed - 0.07 * sm.sin(angle)
        angle = angle + 0.07 * speed
        found.append(float(angle))
    return found


def momentum_by_hand() -> list[float]:
    weights, speed, found = sm.ones(4), sm.zeros(4), []
    for _ in range(12):
        speed = 0.9 * speed + sm.grad(lambda w: ((w - 3) ** 2).sum())(weights)
        weights = weights - 0.05 * speed
        found.append(float(weights[0]))
    return found


def recurrent_cell() -> list[float]:
    cell = sm.nn.LSTMCell(3, 3)
    hidden = cells = sm.zeros((2, 3))
    found = []
    for _ in range(12):
        hidden, cells = cell(sm.ones((2, 3)), (hidden, cells))
        found.append(float(hidden[0, 0]))
    return found


@pytest.mark.parametrize("loop", [pendulum, momentum_by_hand, recurrent_cell])
def test_a_state_of_which_one_part_is_read_is_compiled_for_two_steps_at_most(loop: Callable[[], list[float]]) -> None:
    before = len(runtime.current().graphs)
    found = loop()
    assert len(runtime.current().graphs) - before <= 4
    assert len(set(found)) == 12


def test_values_are_those_of_a_loop_that_reads_everything() -> None:
    angle, speed = 0.3, 0.0
    for value in pendulum():
        speed -= 0.07 * np.sin(angle)
        angle += 0.07 * speed
        assert value == pytest.approx(angle, rel=1e-5)


def asked_twice(*tensors: sm.Tensor) -> list[tuple[int, ...]]:
    """What is held of the graph of some tensors, when a line asks for a second program."""
    for key in range(2):
        found = held_values([tensor._node for tensor in tensors], key, user_location() or ("", 0))
    return [node.shape for node in found]


def test_a_program_that_was_forgotten_is_the_same_one_again() -> None:
    values = []
    for _ in range(3):
        runtime.current().clear_caches()
        doubled = sm.asarray([1.0, 2.0]) * 2
        values.append(float((doubled + 1).sum()))
        assert doubled._node.leaf is None
    assert values == [8.0] * 3


def test_only_what_tensors_hold_is_kept_and_nothing_large() -> None:
    x = sm.from_numpy(np.ones((700, 1), np.float32))
    squares = x * x
    total = ((squares + 1) * 3).sum()
    assert asked_twice(total) == [(700, 1)]
    pairs = squares - squares.T  # never in memory, unless somebody asks for it
    largest = pairs.max()
    assert asked_twice(largest) == [(700, 1)]
    del squares, total
    assert asked_twice(largest) == []
    # Equal nodes are one: no other test holds one of this size, which would be found, too.
    view, numbers = x[3:], sm.arange(1013) * 1.0
    total = view.sum() + numbers.sum()
    assert asked_twice(total) == [(1013,)]


def test_loops_that_somebody_holds_are_no_values() -> None:
    """As a function of JAX's does that was traced: what is read are items of the loop."""
    last, rows = sm.scan(lambda c, x: (c + x, x * c), sm.asarray(0.0), sm.arange(37) * 1.0)
    total = last + rows.sum()
    held = last._node.sources[0]
    assert held.op is Op.LOOP
    assert sorted(asked_twice(total)) == [(), (37,)]  # as the loop would be, were it a value
    del last, rows
    assert asked_twice(total) == []

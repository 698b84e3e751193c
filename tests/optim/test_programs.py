"""Updates outside of `jit` run as compiled programs; whatever an update depends on, a change of it is seen."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.optim import programs
from smelt.optim.core import Parameters, Step

START, SLOPE = {"w": sm.asarray([1.0, 2.0])}, {"w": sm.asarray([1.0, -1.0])}


def stepped(optimizer: Any, lr: Any = None) -> list[float]:
    new, _ = optimizer.update(START, SLOPE, optimizer.init(START), lr)
    found: list[float] = np.round(new["w"].numpy().astype(np.float64), 6).tolist()
    return found


def test_a_rate_that_changes_needs_no_new_program() -> None:
    optimizer = sm.optim.SGD(lr=0.5)
    assert stepped(optimizer) == [0.5, 2.5]
    optimizer.lr = 1.0
    assert stepped(optimizer) == [0.0, 3.0]
    optimizer.lr = sm.asarray(2.0)
    assert stepped(optimizer) == [-1.0, 4.0]
    assert stepped(optimizer, 0.0) == [1.0, 2.0]
    assert len(programs._programs[optimizer]) == 1


def test_other_numbers_are_another_program() -> None:
    optimizer = sm.optim.SGD(lr=0.5, weight_decay=1.0)
    first = stepped(optimizer)
    (decay,) = (item for item in optimizer.steps if hasattr(item, "factor"))
    for factor in (0.5, 2.0, 3.0, 4.0, 5.0):  # more of them than are kept
        decay.factor = factor
        assert stepped(optimizer) == stepped(sm.optim.SGD(lr=0.5, weight_decay=factor)) != first
    assert len(programs._programs[optimizer]) == 4


def test_a_schedule_may_be_set_later_and_changed() -> None:
    optimizer = sm.optim.SGD(lr=0.5)
    assert stepped(optimizer) == [0.5, 2.5]
    optimizer.lr = sm.optim.schedules.constant(1.0)
    assert stepped(optimizer) == [0.0, 3.0]
    optimizer.lr = sm.optim.schedules.constant(2.0)
    assert stepped(optimizer) == [-1.0, 4.0]


def test_rates_of_groups_are_seen() -> None:
    inner = sm.optim.SGD(lr=0.5)
    optimizer = sm.optim.groups(inner)
    assert stepped(optimizer) == [0.5, 2.5]
    inner.lr = 1.0
    assert stepped(optimizer) == [0.0, 3.0]


def test_rates_of_optimizers_inside_others_are_seen() -> None:
    inner = sm.optim.SGD(lr=0.5)
    optimizer = sm.optim.Accumulate(inner, every=1)
    assert stepped(optimizer) == [0.5, 2.5]
    inner.lr = 1.0
    assert stepped(optimizer) == [0.0, 3.0]
    assert len(programs._programs[optimizer]) == 1


def test_a_schedule_of_somebody_else_is_asked_every_time() -> None:
    rates = iter([0.5, 1.0, 2.0])
    optimizer = sm.optim.SGD(lr=lambda count: next(rates))
    assert [stepped(optimizer) for _ in range(3)] == [[0.5, 2.5], [0.0, 3.0], [-1.0, 4.0]]
    assert optimizer not in programs._programs


class Counting(Step):
    calls = 0

    def apply(
        self, updates: list[sm.Tensor], state: Any, parameters: Parameters, count: sm.Tensor
    ) -> tuple[list[sm.Tensor], Any]:
        self.calls += 1
        return [update * float(self.calls) * (update.sum().item() + 1) for update in updates], state


def test_a_step_of_somebody_else_runs_every_time_and_may_look_at_values() -> None:
    optimizer = sm.optim.chain(Counting(), sm.optim.SGD(lr=0.5))
    assert [stepped(optimizer) for _ in range(2)] == [[0.5, 2.5], [0.0, 3.0]]


def test_what_is_no_tensor_is_refused_as_ever() -> None:
    optimizer = sm.optim.SGD(lr=0.5)
    with pytest.raises(sm.errors.ArgumentError, match="leaf of type"):
        optimizer.update({"w": 1.0}, {"w": SLOPE["w"]}, optimizer.init(START))


def test_the_loss_is_computed_with_the_gradients() -> None:
    optimizer, w = sm.optim.Adam(lr=0.1), sm.asarray([1.0, 2.0])
    state = optimizer.init(w)
    loss, slope = sm.value_and_grad(lambda w: (w * w).sum())(w)
    optimizer.update(w, slope, state)
    assert "lazy" not in repr(loss) and loss.item() == 5.0


def test_programs_go_with_their_optimizer() -> None:
    optimizer = sm.optim.SGD(lr=0.5)
    stepped(optimizer)
    reference = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert reference() is None

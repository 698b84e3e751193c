"""Updates outside of `jit` run as compiled programs; whatever an update depends on, a change of it is seen."""

from __future__ import annotations

import functools
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
    for factor in (0.5, 2.0, 3.0, 4.0, 5.0, 0.5):  # more of them than are kept
        decay.factor = factor
        assert stepped(optimizer) == stepped(sm.optim.SGD(lr=0.5, weight_decay=factor)) != first
    assert len(programs._programs[optimizer]) == 4


def test_numpy_numbers_are_rates_as_others() -> None:
    optimizer = sm.optim.SGD(lr=0.5)
    for rate in (np.float64(0.5), np.float32(1.0), np.asarray(2.0), np.asarray([1.0, 0.0])):
        assert stepped(optimizer, rate) == np.subtract([1.0, 2.0], rate * np.asarray([1.0, -1.0])).tolist()
    optimizer.lr = np.float64(1.0)
    assert stepped(optimizer) == [0.0, 3.0]
    (program,) = programs._programs[optimizer].values()
    assert len(program._entries) <= 3  # a number, a tensor of one element, one of two


@pytest.mark.parametrize("name", sm.optim.schedules.__all__)
def test_every_schedule_has_a_program(name: str) -> None:
    schedules = sm.optim.schedules
    arguments: dict[str, tuple[Any, ...]] = {
        "constant": (0.5,),
        "cosine": (0.5, 10),
        "cosine_restarts": (0.5, 10),
        "exponential": (0.5, 0.5),
        "join": ([schedules.constant(0.5), schedules.cosine(0.5, 10)], [5]),
        "linear": (0.5,),
        "multistep": (0.5, [2, 4]),
        "one_cycle": (0.5, 10),
        "polynomial": (0.5,),
        "step": (0.5, 2),
        "warmup": (schedules.constant(0.5), 4),
    }
    optimizer = sm.optim.SGD(lr=getattr(schedules, name)(*arguments[name]))
    rate = np.float32(float(optimizer.lr(sm.asarray(0))))  # type: ignore[operator]
    np.testing.assert_allclose(stepped(optimizer), [1.0 - rate, 2.0 + rate], rtol=1e-5)
    assert len(programs._programs[optimizer]) == 1


def test_a_schedule_around_one_of_ours_is_somebody_elses() -> None:
    ours, scale = sm.optim.schedules.constant(0.5), [1.0]

    @functools.wraps(ours)
    def around(count: sm.Tensor) -> Any:
        return scale[0] * ours(count)

    optimizer = sm.optim.SGD(lr=around)
    assert stepped(optimizer) == [0.5, 2.5]
    scale[0] = 2.0
    assert stepped(optimizer) == [0.0, 3.0]


def test_what_is_not_updated_stays_the_same_tensor() -> None:
    model = sm.nn.Sequential(sm.nn.Linear(2, 2), sm.nn.BatchNorm1d(2), sm.nn.Linear(2, 1).freeze())
    optimizer = sm.optim.SGD(lr=0.5)
    slopes = sm.grad(lambda m: m(sm.ones(3, 2)).sum())(model)
    buffer, frozen = model[1].running_mean, model[2].weight
    new, _ = optimizer.update(model, slopes, optimizer.init(model))
    assert new[1].running_mean is buffer and new[2].weight is frozen


@pytest.mark.parametrize("kind", [sm.optim.Adam, sm.optim.RMSprop, sm.optim.NAdam])
def test_an_overflow_stops_one_element_and_no_other(kind: Any) -> None:
    """A square that is infinite makes its element stand still; it does not become NaN."""
    optimizer, w = kind(lr=0.1), sm.asarray([1.0, 2.0])
    state = optimizer.init(w)
    for slope in ([1e20, 1.0], [1.0, 1.0]):
        w, state = optimizer.update(w, sm.asarray(slope), state)
    assert np.isfinite(w.numpy()).all() and w.numpy()[1] < 2.0


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

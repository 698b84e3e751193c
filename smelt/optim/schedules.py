"""Schedules: learning rates as functions of the number of updates done.

A schedule is a function from a count, a tensor, to a rate: `AdamW(lr=cosine(1e-3, 10_000))`. The count is part of the
optimizer's state, so that a compiled step needs no new trace. Names of arguments are PyTorch's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec

from smelt.dtypes import float32, int32
from smelt.errors import ArgumentError
from smelt.names import door
from smelt.optim.core import Schedule
from smelt.tensor import Tensor, asarray, where

P = ParamSpec("P")

__all__ = [
    "constant",
    "cosine",
    "cosine_restarts",
    "exponential",
    "join",
    "linear",
    "multistep",
    "one_cycle",
    "polynomial",
    "step",
    "warmup",
]


def _count(value: Any, name: str, what: str, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(f"{name}: {what} is {value!r:.80}", rule=f"it must be an integer of at least {least}.")
    return value


def _rate(value: Any, name: str, what: str = "lr") -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ArgumentError(f"{name}: {what} is {value!r:.80}", rule="it must be a number of at least 0.")
    return float(value)


def _of_numbers(make: Callable[P, Schedule]) -> Callable[P, Schedule]:
    """What makes a schedule that takes Python's numbers, too: `[rate(k) for k in range(100)]`."""

    @functools.wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> Schedule:
        rate = make(*args, **kwargs)

        def schedule(count: Any) -> Any:
            return rate(count if isinstance(count, Tensor) else asarray(count, dtype=int32))

        given = [repr(value) for value in args] + [f"{name}={value!r}" for name, value in kwargs.items()]
        schedule.__qualname__ = f"{make.__name__}({', '.join(given)})"
        return schedule

    return made


def _part(count: Tensor, start: float, stop: float) -> Tensor:
    """How far a count is on the way from start to stop, from 0 to 1."""
    return ((count.astype(float32) - start) / (stop - start)).clip(0.0, 1.0)


def _cosine(part: Tensor, start: float, stop: float) -> Tensor:
    """From start to stop along half a wave."""
    return stop + (0.5 * (start - stop)) * (1 + (math.pi * part).cos())


def _reached(count: Tensor, milestones: Sequence[int]) -> Tensor:
    """How many of the milestones are reached."""
    total = (count * 0).astype(float32)
    for milestone in milestones:
        total = total + (count >= milestone).astype(float32)
    return total


@_of_numbers
def constant(lr: float, factor: float = 1.0, total_iters: int = 0) -> Schedule:
    """One rate, times `factor` for the first updates.

    >>> import smelt as sm
    >>> sm.optim.schedules.constant(0.5, 0.5, 2)(sm.asarray(1)).item()
    0.25
    """
    _rate(lr, "constant")
    _rate(factor, "constant", "factor")
    _count(total_iters, "constant", "total_iters", 0)
    return lambda count: where(count < total_iters, lr * factor, lr)


@_of_numbers
def step(lr: float, step_size: int, gamma: float = 0.1) -> Schedule:
    """Times `gamma` after each `step_size` updates."""
    _rate(lr, "step")
    _count(step_size, "step", "step_size")
    _rate(gamma, "step", "gamma")
    return lambda count: lr * gamma ** (count // step_size).astype(float32)


@_of_numbers
def multistep(lr: float, milestones: Sequence[int], gamma: float = 0.1) -> Schedule:
    """Times `gamma` at each of the milestones."""
    _rate(lr, "multistep")
    _rate(gamma, "multistep", "gamma")
    for milestone in milestones:
        _count(milestone, "multistep", "a milestone", 0)
    return lambda count: lr * gamma ** _reached(count, milestones)


@_of_numbers
def exponential(lr: float, gamma: float) -> Schedule:
    """Times `gamma` after each update."""
    _rate(lr, "exponential")
    _rate(gamma, "exponential", "gamma")
    return lambda count: lr * gamma ** count.astype(float32)


@_of_numbers
def linear(lr: float, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5) -> Schedule:
    """In a straight line from `lr * start_factor` to `lr * end_factor`, where it stays.

    >>> import smelt as sm
    >>> sm.optim.schedules.linear(1.0, 0.0, 1.0, 4)(sm.asarray(1)).item()
    0.25
    """
    _rate(lr, "linear")
    _rate(start_factor, "linear", "start_factor")
    _rate(end_factor, "linear", "end_factor")
    _count(total_iters, "linear", "total_iters")
    return lambda count: lr * (start_factor + (end_factor - start_factor) * _part(count, 0, total_iters))


@_of_numbers
def polynomial(lr: float, total_iters: int = 5, power: float = 1.0) -> Schedule:
    """Down to 0 as a power of the part that is left."""
    _rate(lr, "polynomial")
    _rate(power, "polynomial", "power")
    _count(total_iters, "polynomial", "total_iters")
    return lambda count: lr * (1 - _part(count, 0, total_iters)) ** power


@_of_numbers
def cosine(lr: float, T_max: int, eta_min: float = 0.0) -> Schedule:
    """Down to `eta_min` along half a wave of `T_max` updates, where it stays (PyTorch's goes up again).

    >>> import smelt as sm
    >>> round(sm.optim.schedules.cosine(1.0, 100)(sm.asarray(50)).item(), 4)
    0.5
    """
    _rate(lr, "cosine")
    _rate(eta_min, "cosine", "eta_min")
    _count(T_max, "cosine", "T_max")
    return lambda count: _cosine(_part(count, 0, T_max), lr, eta_min)


@_of_numbers
def cosine_restarts(lr: float, T_0: int, T_mult: int = 1, eta_min: float = 0.0) -> Schedule:
    """`cosine` again and again; each time it takes `T_mult` times as long."""
    _rate(lr, "cosine_restarts")
    _rate(eta_min, "cosine_restarts", "eta_min")
    _count(T_0, "cosine_restarts", "T_0")
    _count(T_mult, "cosine_restarts", "T_mult")

    def rate(count: Tensor) -> Tensor:
        start, length = (count // T_0) * T_0, count * 0 + T_0
        if T_mult > 1:
            start = count * 0
            at, size = T_0, T_0 * T_mult
            while at < 2**31:  # as far as counts go
                start, length = where(count >= at, at, start), where(count >= at, size, length)
                at, size = at + size, min(size * T_mult, 2**31 - 1)
        part = (count - start).astype(float32) / length
        return _cosine(part, lr, eta_min)

    return rate


class _Phase(NamedTuple):
    """A part of a cycle: until when, and from which rate to which."""

    end: float
    start_rate: float
    end_rate: float


@_of_numbers
def one_cycle(
    max_lr: float,
    total_steps: int,
    pct_start: float = 0.3,
    anneal_strategy: str = "cos",
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
    three_phase: bool = False,
) -> Schedule:
    """Up to `max_lr` for a share `pct_start` of the updates, from a `div_factor`-th of it; then down to a
    `final_div_factor`-th of where it started. With `three_phase` it comes down as fast as it went up, and then fades.
    """
    name = "one_cycle"
    _rate(max_lr, name, "max_lr")
    _count(total_steps, name, "total_steps", 2)
    if not isinstance(pct_start, int | float) or not 0 < pct_start < (0.5 if three_phase else 1):
        raise ArgumentError(f"{name}: pct_start is {pct_start!r:.80}", rule="it is a share of the updates.")
    if anneal_strategy not in ("cos", "linear"):
        raise ArgumentError(f"{name}: anneal_strategy is {anneal_strategy!r:.80}", rule='it is "cos" or "linear".')
    if not div_factor > 0 or not final_div_factor > 0:
        raise ArgumentError(
            f"{name}: the factors are {div_factor!r}, {final_div_factor!r}", rule="divisors are positive."
        )
    first, last = max_lr / div_factor, max_lr / div_factor / final_div_factor
    phases = [_Phase(pct_start * total_steps - 1, first, max_lr)]
    if three_phase:
        phases.append(_Phase(2 * pct_start * total_steps - 2, max_lr, first))
    phases.append(_Phase(total_steps - 1, phases[-1].end_rate, last))

    def rate(count: Tensor) -> Tensor:
        starts = [0.0, *(phase.end for phase in phases)]
        result: Any = None
        for start, phase in zip(reversed(starts[:-1]), reversed(phases), strict=True):
            part = _part(count, start, phase.end)
            now = _cosine(part, phase.start_rate, phase.end_rate)
            if anneal_strategy == "linear":
                now = phase.start_rate + (phase.end_rate - phase.start_rate) * part
            result = now if result is None else where(count.astype(float32) <= phase.end, now, result)
        return result  # type: ignore[no-any-return]

    return rate


@_of_numbers
def warmup(after: float | Schedule, steps: int, start_factor: float = 0.0) -> Schedule:
    """Up in a straight line to where another schedule, or a number, starts, which then goes on.

    >>> import smelt as sm
    >>> rate = sm.optim.schedules.warmup(sm.optim.schedules.cosine(1.0, 10), steps=4)
    >>> [round(rate(sm.asarray(k)).item(), 4) for k in (0, 1, 4, 9)]
    [0.0, 0.25, 1.0, 0.5]
    """
    _count(steps, "warmup", "steps")
    _rate(start_factor, "warmup", "start_factor")
    following = _schedule(after, "warmup")

    def rate(count: Tensor) -> Tensor:
        # The first rate of what follows, as far as the way up has come.
        part = start_factor + (1 - start_factor) * _part(count, 0, steps)
        return part * following((count - steps).clip(min=0))  # type: ignore[no-any-return]

    return rate


@_of_numbers
def join(schedules: Sequence[float | Schedule], milestones: Sequence[int]) -> Schedule:
    """Several schedules, one after the other: each counts from the milestone at which it starts."""
    if len(schedules) != len(milestones) + 1 or list(milestones) != sorted(set(milestones)):
        raise ArgumentError(
            f"join: {len(schedules)} schedules and the milestones {list(milestones)}",
            rule="there is a milestone between each two schedules, in ascending order.",
        )
    parts = [_schedule(schedule, "join") for schedule in schedules]

    def rate(count: Tensor) -> Any:
        result = parts[0](count)
        for milestone, part in zip(milestones, parts[1:], strict=True):
            result = where(count >= milestone, part((count - milestone).clip(min=0)), result)
        return result

    return rate


def _schedule(value: Any, name: str) -> Callable[[Tensor], Any]:
    if callable(value):
        return value  # type: ignore[no-any-return]
    _rate(value, name, "a rate")
    return lambda count: value


if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__, __all__)

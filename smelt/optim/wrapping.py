"""Optimizers around optimizers: what several of them share, and gradient accumulation."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from smelt import tree
from smelt.dtypes import int32
from smelt.errors import ArgumentError
from smelt.optim.core import Parameters, Updater, at_once, check_kind, check_state, free_parameters, zeros_like_each
from smelt.shown import Shown
from smelt.tensor import Tensor, where, zeros

__all__ = ["Accumulate", "Accumulated"]

T = TypeVar("T")


def chosen(condition: Tensor, new: T, old: T) -> T:
    """One of two trees of tensors."""
    return tree.map(lambda a, b: a if a is b else where(condition, a, b), new, old)  # type: ignore[no-any-return]


class Wrapper(Shown, Updater):
    """An optimizer around another: used as one, but not part of a chain."""

    def __init__(self, optimizer: Any) -> None:
        if not isinstance(optimizer, Updater):
            raise ArgumentError(
                f"{type(self).__name__}: {optimizer!r:.80} is no optimizer", hint="chain(...) goes inside."
            )
        self.optimizer = optimizer


class Accumulated(NamedTuple):
    """What `Accumulate` remembers: calls since the last update, the sum of their gradients, the optimizer's state."""

    calls: Tensor
    sums: list[Tensor]
    inner: Any


class Accumulate(Wrapper):
    """One update for the mean of the gradients of several calls, as of one batch that many times as large.

    >>> import smelt as sm
    >>> optimizer = sm.optim.Accumulate(sm.optim.SGD(lr=0.5), every=2)
    >>> x = sm.asarray([1.0])
    >>> state = optimizer.init(x)
    >>> x, state = optimizer.update(x, sm.asarray([1.0]), state)
    >>> x.tolist()
    [1.0]
    >>> x, state = optimizer.update(x, sm.asarray([0.0]), state)
    >>> x.tolist()
    [0.75]
    """

    def __init__(self, optimizer: Any, every: int) -> None:
        super().__init__(optimizer)
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ArgumentError(f"Accumulate: every is {every!r:.80}", rule="it must be a positive integer.")
        self.every = every

    def init(self, parameters: Any) -> Accumulated:
        inner = self.optimizer.init(parameters)
        return at_once(Accumulated(zeros((), dtype=int32), zeros_like_each(free_parameters(parameters)), inner))

    def advance(
        self, parameters: Parameters, updates: list[Tensor], state: Any, lr: Any = None
    ) -> tuple[list[Tensor], Accumulated]:
        check_kind(self, state, Accumulated)
        check_state(type(self).__name__, state.sums, updates)
        sums = [old + update for old, update in zip(state.sums, updates, strict=True)]
        calls = state.calls + 1
        last = calls == self.every
        new, inner = self.optimizer.advance(parameters, [total / self.every for total in sums], state.inner, lr)
        kept = Accumulated(where(last, 0, calls), [where(last, 0.0, total) for total in sums], None)
        return chosen(last, new, list(parameters)), kept._replace(inner=chosen(last, inner, state.inner))

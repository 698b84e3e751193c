"""Averages of parameters over time, which often do better than the last ones."""

from __future__ import annotations

from typing import Any, NamedTuple

from smelt.dtypes import float32, int32
from smelt.errors import ArgumentError
from smelt.optim.core import at_once, free_parameters, wide
from smelt.shown import Shown
from smelt.tensor import Tensor, zeros

__all__ = ["EMA", "Averaged"]


class Averaged(NamedTuple):
    """The average of a module, or another tree of tensors, and how many updates it has seen."""

    done: Tensor
    average: Any


class EMA(Shown):
    """An exponential moving average: at each update, the average keeps a share `decay` and takes the rest.

    What optimizers do not change (buffers, frozen parameters) is taken as it is. With `warmup` the share starts at
    2 / 11 and grows to `decay`, so that the first parameters are soon forgotten.

    >>> import smelt as sm
    >>> ema = sm.optim.EMA(0.75)
    >>> state = ema.init({"w": sm.asarray([0.0])})
    >>> state = ema.update(state, {"w": sm.asarray([1.0])})
    >>> state.average["w"].tolist()
    [0.25]
    """

    def __init__(self, decay: float = 0.999, warmup: bool = False) -> None:
        if isinstance(decay, bool) or not isinstance(decay, int | float) or not 0 <= decay <= 1:
            raise ArgumentError(f"EMA: decay is {decay!r:.80}", rule="it must be between 0 and 1.")
        self.decay, self.warmup = decay, warmup

    def init(self, parameters: Any) -> Averaged:
        """The average before the first update: a copy."""
        own = free_parameters(parameters)
        # A copy, since buffers that are shared could not be given away (`donate`).
        copies = [zeros(p.shape, dtype=wide(p.dtype)) + p for p in own]
        return at_once(Averaged(zeros((), dtype=int32), own.replaced(copies)))

    def update(self, state: Averaged, parameters: Any) -> Averaged:
        """The average with these parameters in it. Outside of `jit` it is computed at once."""
        own = free_parameters(parameters)
        before = own.in_tree(state.average, "EMA: the average")
        done = state.done + 1
        share: Any = self.decay
        if self.warmup:
            share = ((1 + done).astype(float32) / (10 + done).astype(float32)).clip(max=self.decay)
        new = [(share * old + (1 - share) * p).astype(old.dtype) for old, p in zip(before, own, strict=True)]
        return at_once(Averaged(done, own.replaced(new)))

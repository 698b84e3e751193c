"""Mixed precision: networks that compute in 16 bits, with parameters and their updates in 32.

Parameters stay float32. The loss casts the module, and gradients come back through the cast in float32:

    loss, slopes = sm.value_and_grad(lambda m: loss_of(m.astype(sm.bfloat16)(x.astype(sm.bfloat16)), y))(model)

That is all for bfloat16, which has the range of float32. Gradients in float16 vanish below 6e-8: there the loss is
scaled up before the gradients are taken, and they are scaled down before the update. `LossScale` finds the scale.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple, TypeVar

from smelt.dtypes import float32, int32
from smelt.errors import ArgumentError
from smelt.optim.core import Parameters, at_once, check_kind, wide
from smelt.optim.wrapping import Wrapper, chosen
from smelt.tensor import Tensor, full, isfinite, where, zeros

__all__ = ["LossScale", "Scaled"]

T = TypeVar("T")


class Scaled(NamedTuple):
    """What `LossScale` remembers: the scale, how many updates in a row were finite, and the optimizer's state."""

    scale: Tensor
    finite: Tensor
    inner: Any


class LossScale(Wrapper):
    """An optimizer for gradients of a scaled loss, with a scale that is as large as they allow.

    An update with gradients that are not finite is left out, and the scale multiplied by `backoff_factor`. After
    `growth_interval` finite ones in a row it is multiplied by `growth_factor`. All of it happens inside `jit`.

    >>> import smelt as sm
    >>> optimizer = sm.optim.LossScale(sm.optim.SGD(lr=0.5), init_scale=8.0)
    >>> x = sm.asarray([1.0, 2.0])
    >>> state = optimizer.init(x)
    >>> slope = sm.grad(lambda x: optimizer.scaled((x * x).sum(), state))(x)
    >>> slope.tolist()
    [16.0, 32.0]
    >>> x, state = optimizer.update(x, slope, state)
    >>> x.tolist()
    [0.0, 0.0]
    >>> x, state = optimizer.update(x, slope / 0, state)
    >>> x.tolist(), state.scale.item()
    ([0.0, 0.0], 4.0)
    """

    def __init__(
        self,
        optimizer: Any,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
    ) -> None:
        super().__init__(optimizer)
        if not init_scale > 0:
            raise ArgumentError(f"LossScale: init_scale is {init_scale!r}", rule="it must be positive.")
        if not growth_factor > 1:
            raise ArgumentError(f"LossScale: growth_factor is {growth_factor!r}", rule="it must be above 1.")
        if not 0 < backoff_factor < 1:
            raise ArgumentError(f"LossScale: backoff_factor is {backoff_factor!r}", rule="it must be between 0 and 1.")
        if not isinstance(growth_interval, int) or growth_interval < 1:
            raise ArgumentError(f"LossScale: growth_interval is {growth_interval!r}", rule="it must be positive.")
        self.init_scale, self.growth_factor = init_scale, growth_factor
        self.backoff_factor, self.growth_interval = backoff_factor, growth_interval

    def init(self, parameters: Any) -> Scaled:
        inner = self.optimizer.init(parameters)
        return at_once(Scaled(full((), self.init_scale, dtype=float32), zeros((), dtype=int32), inner))

    def scaled(self, loss: Tensor, state: Scaled) -> Tensor:
        """The loss to take gradients of."""
        return loss.astype(wide(loss.dtype)) * state.scale

    def advance(
        self, parameters: Parameters, updates: list[Tensor], state: Any, lr: Any = None
    ) -> tuple[list[Tensor], Scaled]:
        check_kind(self, state, Scaled)
        finite = reduce(lambda a, b: a & b, [isfinite(update).all() for update in updates])
        true = [update.astype(wide(update.dtype)) / state.scale for update in updates]
        new, inner = self.optimizer.advance(parameters, true, state.inner, lr)
        row = where(finite, state.finite + 1, 0)
        grows = row == self.growth_interval
        factor = where(finite, where(grows, self.growth_factor, 1.0), self.backoff_factor)
        kept = Scaled(state.scale * factor, where(grows, 0, row), chosen(finite, inner, state.inner))
        return chosen(finite, new, list(parameters)), kept

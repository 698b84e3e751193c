"""Optimizers by name: chains of steps."""

from __future__ import annotations

from smelt.errors import ArgumentError
from smelt.optim.core import Optimizer, Rate, Step
from smelt.optim.steps import AdamMoments, AddDecay, Momentum

__all__ = ["SGD", "Adam", "AdamW"]


def _factor(value: float, name: str, what: str, below: float = 1.0) -> float:
    if isinstance(value, bool) or not 0 <= value < below:
        raise ArgumentError(f"{name}: {what} is {value!r}", rule=f"it must be at least 0 and below {below}.")
    return value


def _decay(factor: float, name: str) -> list[Step]:
    return [AddDecay(_factor(factor, name, "weight_decay", float("inf")))] if factor else []


class SGD(Optimizer):
    """Down the gradient, with momentum if that is not 0.

    >>> import smelt as sm
    >>> optimizer = sm.optim.SGD(lr=0.1, momentum=0.9)
    >>> x = sm.asarray([1.0, 2.0])
    >>> x, state = optimizer.update(x, 2 * x, optimizer.init(x))
    >>> [round(v, 4) for v in x.tolist()]
    [0.8, 1.6]
    """

    def __init__(
        self,
        lr: Rate = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        _factor(momentum, "SGD", "momentum", float("inf"))
        if nesterov and (not momentum or dampening):
            raise ArgumentError("SGD: Nesterov's momentum needs a momentum and no dampening")
        moving = [Momentum(momentum, dampening, nesterov)] if momentum else []
        super().__init__(*_decay(weight_decay, "SGD"), *moving, lr=lr)


class Adam(Optimizer):
    """The running mean of gradients over the root of the running mean of their squares.

    >>> import smelt as sm
    >>> optimizer = sm.optim.Adam(lr=0.1)
    >>> x = sm.asarray([1.0, 2.0])
    >>> x, state = optimizer.update(x, 2 * x, optimizer.init(x))
    >>> [round(v, 4) for v in x.tolist()]
    [0.9, 1.9]
    """

    def __init__(
        self,
        lr: Rate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
    ) -> None:
        for k in range(2):
            _factor(betas[k], "Adam", f"betas[{k}]")
        super().__init__(*_decay(weight_decay, "Adam"), AdamMoments(betas, eps, amsgrad), lr=lr)


class AdamW(Optimizer):
    """`Adam`, with parameters that shrink by themselves: the decay does not go through the means.

    >>> import smelt as sm
    >>> optimizer = sm.optim.AdamW(lr=0.1, weight_decay=0.5)
    >>> x = sm.asarray([1.0, 2.0])
    >>> x, state = optimizer.update(x, 2 * x, optimizer.init(x))
    >>> [round(v, 4) for v in x.tolist()]
    [0.85, 1.8]
    """

    def __init__(
        self,
        lr: Rate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
    ) -> None:
        for k in range(2):
            _factor(betas[k], "AdamW", f"betas[{k}]")
        super().__init__(AdamMoments(betas, eps, amsgrad), *_decay(weight_decay, "AdamW"), lr=lr)

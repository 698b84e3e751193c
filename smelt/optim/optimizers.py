"""Optimizers by name: chains of steps. Names, arguments and defaults are PyTorch's where it has them."""

from __future__ import annotations

import math
from typing import Any

from smelt.errors import ArgumentError
from smelt.optim.core import Optimizer, Rate, Step
from smelt.optim.groups import Choice, Groups, everything, picks
from smelt.optim.matrices import Average, FactoredSquares, Orthogonal, RelativeSize
from smelt.optim.moments import (
    AdamMoments,
    LargestMoments,
    NesterovMoments,
    RatioOfMeans,
    RectifiedMoments,
    RootMeanSquare,
    SignOfMean,
    SumOfSquares,
)
from smelt.optim.steps import AddDecay, Momentum, SignSteps, TrustRatio
from smelt.tensor import Tensor

__all__ = [
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "LAMB",
    "Lion",
    "Muon",
    "NAdam",
    "RAdam",
    "RMSprop",
    "Rprop",
]


def _number(value: Any, name: str, what: str, below: float = math.inf) -> Any:
    """A number from 0 on, and below a bound."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < below:
        bound = "" if below == math.inf else f" and below {below:g}"
        raise ArgumentError(f"{name}: {what} is {value!r:.80}", rule=f"it must be a number of at least 0{bound}.")
    return value


def _pair(values: Any, name: str, what: str = "betas", below: float = 1.0) -> tuple[float, float]:
    if not isinstance(values, tuple | list) or len(values) != 2:
        raise ArgumentError(f"{name}: {what} is {values!r:.80}", rule="it must be a pair of numbers.")
    return _number(values[0], name, f"{what}[0]", below), _number(values[1], name, f"{what}[1]", below)


def _decay(factor: float, name: str) -> list[Step]:
    return [AddDecay(factor)] if _number(factor, name, "weight_decay") else []


def _with_decay(step: Step, factor: float, name: str, decoupled: bool) -> list[Step]:
    """A step, and a decay behind it or in front."""
    return [step, *_decay(factor, name)] if decoupled else [*_decay(factor, name), step]


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
        _number(momentum, "SGD", "momentum")
        if nesterov and (not momentum or dampening):
            raise ArgumentError("SGD: Nesterov's momentum needs a momentum and no dampening")
        moving = [Momentum(momentum, dampening, nesterov)] if momentum else []
        super().__init__(*_decay(weight_decay, "SGD"), *moving, lr=lr)


class Adam(Optimizer):
    """The running mean of gradients over the root of the running mean of their squares.

    With `amsgrad` the largest such mean so far stands below.

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
        step = AdamMoments(_pair(betas, "Adam"), _number(eps, "Adam", "eps"), amsgrad)
        super().__init__(*_decay(weight_decay, "Adam"), step, lr=lr)


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
        step = AdamMoments(_pair(betas, "AdamW"), _number(eps, "AdamW", "eps"), amsgrad)
        super().__init__(step, *_decay(weight_decay, "AdamW"), lr=lr)


class NAdam(Optimizer):
    """`Adam` with Nesterov's momentum, which grows as `momentum_decay` says."""

    def __init__(
        self,
        lr: Rate = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
    ) -> None:
        _number(momentum_decay, "NAdam", "momentum_decay")
        step = NesterovMoments(_pair(betas, "NAdam"), _number(eps, "NAdam", "eps"), momentum_decay)
        super().__init__(*_with_decay(step, weight_decay, "NAdam", decoupled_weight_decay), lr=lr)


class RAdam(Optimizer):
    """`Adam` that warms up by itself: it divides by the root mean square only once enough squares are known."""

    def __init__(
        self,
        lr: Rate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
    ) -> None:
        step = RectifiedMoments(_pair(betas, "RAdam"), _number(eps, "RAdam", "eps"))
        super().__init__(*_with_decay(step, weight_decay, "RAdam", decoupled_weight_decay), lr=lr)


class Adamax(Optimizer):
    """`Adam` with the largest gradient, which fades, in place of the root mean square."""

    def __init__(
        self,
        lr: Rate = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        step = LargestMoments(_pair(betas, "Adamax"), _number(eps, "Adamax", "eps"))
        super().__init__(*_decay(weight_decay, "Adamax"), step, lr=lr)


class RMSprop(Optimizer):
    """Gradients over the root of the running mean of their squares; if `centered`, over their spread."""

    def __init__(
        self,
        lr: Rate = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
    ) -> None:
        step = RootMeanSquare(_number(alpha, "RMSprop", "alpha"), _number(eps, "RMSprop", "eps"), centered)
        moving = [Momentum(momentum)] if _number(momentum, "RMSprop", "momentum") else []
        super().__init__(*_decay(weight_decay, "RMSprop"), step, *moving, lr=lr)


class Adagrad(Optimizer):
    """Gradients over the root of the sum of all their squares so far: steps become ever smaller."""

    def __init__(
        self,
        lr: Rate = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
    ) -> None:
        first = _number(initial_accumulator_value, "Adagrad", "initial_accumulator_value")
        step = SumOfSquares(_number(eps, "Adagrad", "eps"), first, _number(lr_decay, "Adagrad", "lr_decay"))
        super().__init__(*_decay(weight_decay, "Adagrad"), step, lr=lr)


class Adadelta(Optimizer):
    """Steps in the units of the parameters, from the running means of the squares of gradients and of steps."""

    def __init__(self, lr: Rate = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0.0) -> None:
        step = RatioOfMeans(_number(rho, "Adadelta", "rho", 1.0), _number(eps, "Adadelta", "eps"))
        super().__init__(*_decay(weight_decay, "Adadelta"), step, lr=lr)


class Rprop(Optimizer):
    """Steps by the signs of gradients, each of its own size; `lr` is the first. For whole batches only."""

    def __init__(
        self,
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0),
    ) -> None:
        less, more = _pair(etas, "Rprop", "etas", math.inf)
        if not 0 < less < 1 < more:
            raise ArgumentError(f"Rprop: etas is {etas!r}", rule="the first is below 1, the second above.")
        bounds = _pair(step_sizes, "Rprop", "step_sizes", math.inf)
        super().__init__(SignSteps(_number(lr, "Rprop", "lr"), (less, more), bounds), lr=1.0)


class LAMB(Optimizer):
    """`AdamW` whose updates of each parameter are as long as the parameter, for very large batches."""

    def __init__(
        self,
        lr: Rate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        step = AdamMoments(_pair(betas, "LAMB"), _number(eps, "LAMB", "eps"))
        super().__init__(step, *_decay(weight_decay, "LAMB"), TrustRatio(), lr=lr)


class Lion(Optimizer):
    """Steps by the signs of a running mean: all of the same size, and one state only.

    >>> import smelt as sm
    >>> optimizer = sm.optim.Lion(lr=0.125)
    >>> x = sm.asarray([1.0, 2.0])
    >>> x, state = optimizer.update(x, sm.asarray([3.0, -0.1]), optimizer.init(x))
    >>> x.tolist()
    [0.875, 2.125]
    """

    def __init__(self, lr: Rate = 1e-4, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0) -> None:
        super().__init__(SignOfMean(_pair(betas, "Lion")), *_decay(weight_decay, "Lion"), lr=lr)


class Muon(Optimizer):
    """Momentum whose updates of matrices are made orthogonal. Other parameters go to `others`, an `AdamW` of the same
    rate and decay unless given.

    `matrices` chooses among the parameters with two axes: a pattern of names, or a function of a name and a parameter.
    Embeddings and the last layer are often left to `others`. With `adjust_lr_fn="match_rms_adamw"` one rate suits both.
    """

    def __init__(
        self,
        lr: Rate = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
        *,
        matrices: Choice = "*",
        others: Optimizer | None = None,
    ) -> None:
        _number(momentum, "Muon", "momentum", 1.0)
        _number(eps, "Muon", "eps")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ArgumentError(
                f"Muon: adjust_lr_fn is {adjust_lr_fn!r:.80}", rule='it must be "original" or "match_rms_adamw".'
            )
        if not isinstance(ns_coefficients, tuple | list) or len(ns_coefficients) != 3:
            raise ArgumentError(f"Muon: ns_coefficients is {ns_coefficients!r:.80}", rule="it must be three numbers.")
        if not isinstance(ns_steps, int) or not 0 < ns_steps < 100:
            raise ArgumentError(f"Muon: ns_steps is {ns_steps!r:.80}", rule="it must be from 1 to 99.")
        orthogonal = Orthogonal(ns_coefficients, ns_steps, eps, adjust_lr_fn)
        own = Optimizer(Average(momentum, nesterov), orthogonal, *_decay(weight_decay, "Muon"), lr=lr)
        others = AdamW(lr, weight_decay=weight_decay) if others is None else others

        def is_matrix(name: str, parameter: Tensor) -> bool:
            return parameter.ndim == 2 and picks(matrices, name, parameter)

        super().__init__(Groups((is_matrix, own), (everything, others)), lr=1.0)


class Adafactor(Optimizer):
    """Gradients over root mean squares that for matrices are kept by rows and columns only: little memory.

    Steps are relative to the size of each parameter, and `lr` is their largest. The first of `eps` bounds squares from
    below (None: the smallest number that 1 can be told from), the second the size of a parameter.
    """

    def __init__(
        self,
        lr: Rate = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
    ) -> None:
        if not isinstance(eps, tuple | list) or len(eps) != 2:
            raise ArgumentError(f"Adafactor: eps is {eps!r:.80}", rule="it must be a pair.")
        if eps[0] is not None:
            _number(eps[0], "Adafactor", "eps[0]")
        if not isinstance(beta2_decay, int | float) or beta2_decay > 0:
            raise ArgumentError(f"Adafactor: beta2_decay is {beta2_decay!r:.80}", rule="it must be at most 0.")
        if not _number(d, "Adafactor", "d") >= 1:
            raise ArgumentError(f"Adafactor: d is {d!r}", rule="it must be at least 1.")
        size = RelativeSize(_number(eps[1], "Adafactor", "eps[1]"), lr)
        super().__init__(FactoredSquares(beta2_decay, eps[0], d), size, *_decay(weight_decay, "Adafactor"), lr=lr)

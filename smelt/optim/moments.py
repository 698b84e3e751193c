"""Steps that keep running means of the updates, or of their squares: the family of Adam."""

from __future__ import annotations

import math
from typing import Any

from smelt.dtypes import DType, float64
from smelt.optim.core import Parameters, Step, wide, widest, zeros_like_each
from smelt.tensor import Tensor, full, ones, where

__all__ = ["AdamMoments", "RootMeanSquare"]


def missing(beta: float, count: Tensor, dtype: DType) -> Any:
    """1 - beta**count: by this factor a running mean that started at zero is too small. Exact for betas near 1."""
    return -(count.astype(dtype) * math.log(beta)).expm1() if beta else 1.0


def running(beta: float, old: list[Tensor], new: list[Tensor]) -> list[Tensor]:
    """Running means, one update later. One that has overflowed stays infinite: differences would make it NaN."""
    return [beta * mean + (1 - beta) * x for mean, x in zip(old, new, strict=True)]


def squared(updates: list[Tensor], parameters: Parameters) -> list[Tensor]:
    """The squares, in a dtype that holds them."""
    return [u.astype(wide(p.dtype)).square() for u, p in zip(updates, parameters, strict=True)]


class AdamMoments(Step):
    """The running mean of the updates, divided by the root of the running mean of their squares."""

    def __init__(self, betas: tuple[float, float], eps: float, amsgrad: bool = False) -> None:
        self.betas, self.eps, self.amsgrad = betas, eps, amsgrad

    def init(self, parameters: Parameters) -> Any:
        found = {"mean": zeros_like_each(parameters), "square": zeros_like_each(parameters)}
        return found | ({"largest": zeros_like_each(parameters)} if self.amsgrad else {})

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        new = self.moments(updates, state, parameters)
        below = new["square"]
        if self.amsgrad:
            below = new["largest"] = [old.maximum(s) for old, s in zip(state["largest"], below, strict=True)]
        dtype = widest(parameters)
        # Numbers that all elements share are divided by once; elements are multiplied, which is faster.
        scale = 1 / missing(self.betas[0], count, dtype)
        root = 1 / missing(self.betas[1], count, dtype) ** 0.5
        return [m * scale / (s.sqrt() * root + self.eps) for m, s in zip(new["mean"], below, strict=True)], new

    def moments(self, updates: list[Tensor], state: Any, parameters: Parameters) -> dict[str, Any]:
        """Both running means."""
        first, second = self.betas
        squares = squared(updates, parameters)
        return {
            "mean": running(first, state["mean"], updates),
            "square": running(second, state["square"], squares),
        }


class NesterovMoments(AdamMoments):
    """`AdamMoments` that look one step ahead: those of `NAdam`. The share of the mean grows with time."""

    def __init__(self, betas: tuple[float, float], eps: float, momentum_decay: float) -> None:
        super().__init__(betas, eps)
        self.momentum_decay = momentum_decay

    def init(self, parameters: Parameters) -> Any:
        return super().init(parameters) | {"product": ones((), dtype=widest(parameters))}

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        new = self.moments(updates, state, parameters)
        dtype = widest(parameters)
        now, ahead = (
            self.betas[0] * (1 - 0.5 * ((count + k).astype(dtype) * (math.log(0.96) * self.momentum_decay)).exp())
            for k in (0, 1)
        )
        product = new["product"] = state["product"] * now
        of_update, of_mean = (1 - now) / (1 - product), ahead / (1 - product * ahead)
        root = 1 / missing(self.betas[1], count, dtype) ** 0.5
        found = [
            (of_update * u + of_mean * m) / (s.sqrt() * root + self.eps)
            for u, m, s in zip(updates, new["mean"], new["square"], strict=True)
        ]
        return found, new


class RectifiedMoments(AdamMoments):
    """`AdamMoments` whose divisor is left out while too few squares are known, then used more and more: `RAdam`'s."""

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        new = self.moments(updates, state, parameters)
        first, second = self.betas
        # The number of squares that count is a small difference of large numbers: 64 bits, whatever the parameters.
        missed = missing(second, count, float64)
        limit = 2 / (1 - second) - 1
        known = limit - 2 * count.astype(float64) * (1 - missed) / missed
        is_known = known > 5
        rest = where(is_known, known, 6.0)
        ratio = (rest - 4) * (rest - 2) * limit / ((limit - 4) * (limit - 2) * rest)
        dtype = widest(parameters)
        factor = (ratio * missed).sqrt().astype(dtype)
        scale = 1 / missing(first, count, dtype)
        found = [
            m * scale * where(is_known, factor / (s.sqrt() + self.eps), 1.0)
            for m, s in zip(new["mean"], new["square"], strict=True)
        ]
        return found, new


class LargestMoments(Step):
    """The running mean of the updates, divided by the largest of them, which fades: those of `Adamax`."""

    def __init__(self, betas: tuple[float, float], eps: float) -> None:
        self.betas, self.eps = betas, eps

    def init(self, parameters: Parameters) -> Any:
        return {"mean": zeros_like_each(parameters), "largest": zeros_like_each(parameters)}

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        first, second = self.betas
        means = running(first, state["mean"], updates)
        largest = [
            (second * old).maximum(abs(u) + self.eps).astype(old.dtype)
            for old, u in zip(state["largest"], updates, strict=True)
        ]
        scale = 1 / missing(first, count, widest(parameters))
        found = [m * scale / s for m, s in zip(means, largest, strict=True)]
        return found, {"mean": means, "largest": largest}


class SignOfMean(Step):
    """The signs of a running mean, in which the newest update counts more than in the one that is kept: `Lion`'s."""

    def __init__(self, betas: tuple[float, float]) -> None:
        self.betas = betas

    def init(self, parameters: Parameters) -> Any:
        return zeros_like_each(parameters)

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        found = [mean.sign() for mean in running(self.betas[0], state, updates)]
        return found, running(self.betas[1], state, updates)


class RootMeanSquare(Step):
    """Divides updates by the root of the running mean of their squares; if `centered`, by their spread."""

    def __init__(self, alpha: float, eps: float, centered: bool = False) -> None:
        self.alpha, self.eps, self.centered = alpha, eps, centered

    def init(self, parameters: Parameters) -> Any:
        found = {"square": zeros_like_each(parameters)}
        return found | ({"mean": zeros_like_each(parameters)} if self.centered else {})

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        squares = running(self.alpha, state["square"], squared(updates, parameters))
        new, below = {"square": squares}, squares
        if self.centered:
            means = new["mean"] = running(self.alpha, state["mean"], updates)
            below = [s - m.square() for s, m in zip(squares, means, strict=True)]
        return [u / (s.sqrt() + self.eps) for u, s in zip(updates, below, strict=True)], new


class SumOfSquares(Step):
    """Divides updates by the root of the sum of all their squares so far: those of `Adagrad`."""

    def __init__(self, eps: float, first: float, rate_decay: float) -> None:
        self.eps, self.first, self.rate_decay = eps, first, rate_decay

    def init(self, parameters: Parameters) -> Any:
        return [full(p.shape, self.first, dtype=wide(p.dtype)) for p in parameters]

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        sums = [old + s for old, s in zip(state, squared(updates, parameters), strict=True)]
        scale: Any = 1.0
        if self.rate_decay:
            scale = 1 / (1 + (count - 1).astype(widest(parameters)) * self.rate_decay)
        return [scale * u / (s.sqrt() + self.eps) for u, s in zip(updates, sums, strict=True)], sums


class RatioOfMeans(Step):
    """Updates in the units of the parameters: times the root mean square of the changes so far, over that of the
    updates. Those of `Adadelta`.
    """

    def __init__(self, rho: float, eps: float) -> None:
        self.rho, self.eps = rho, eps

    def init(self, parameters: Parameters) -> Any:
        return {"square": zeros_like_each(parameters), "change": zeros_like_each(parameters)}

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        squares = running(self.rho, state["square"], squared(updates, parameters))
        found = [
            u * (change + self.eps).sqrt() / (s + self.eps).sqrt()
            for u, s, change in zip(updates, squares, state["change"], strict=True)
        ]
        changes = running(self.rho, state["change"], [u.square() for u in found])
        return found, {"square": squares, "change": changes}

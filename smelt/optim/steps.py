"""The steps that optimizers are chains of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smelt.dtypes import float32
from smelt.errors import ArgumentError
from smelt.optim.core import Step, zeros_like_each
from smelt.tensor import Tensor
from smelt.tensor.elementwise import where

__all__ = ["AdamMoments", "AddDecay", "ClipNorm", "Momentum"]


class AddDecay(Step):
    """Adds the parameters, times a factor. First in a chain it is a penalty on their squares, last it makes them
    smaller by themselves.
    """

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Sequence[Tensor], count: Tensor
    ) -> tuple[list[Tensor], Any]:
        return [u + self.factor * p for u, p in zip(updates, parameters, strict=True)], state


class ClipNorm(Step):
    """Scales all updates down together where the root of the sum of their squares is larger than a number."""

    def __init__(self, largest: float) -> None:
        if not largest > 0:
            raise ArgumentError(f"ClipNorm: the largest norm is {largest!r}", rule="it must be positive.")
        self.largest = largest

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Sequence[Tensor], count: Tensor
    ) -> tuple[list[Tensor], Any]:
        total = updates[0].astype(float32).square().sum()
        for update in updates[1:]:
            total = total + update.astype(float32).square().sum()
        factor = (self.largest / (total.sqrt() + 1e-6)).clip(max=1.0)  # the small number is PyTorch's
        return [(u * factor).astype(u.dtype) for u in updates], state


class Momentum(Step):
    """A running sum of the updates, in which older ones count less and less."""

    def __init__(self, factor: float, dampening: float = 0.0, nesterov: bool = False) -> None:
        self.factor, self.dampening, self.nesterov = factor, dampening, nesterov

    def init(self, parameters: Sequence[Tensor]) -> Any:
        return zeros_like_each(parameters)

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Sequence[Tensor], count: Tensor
    ) -> tuple[list[Tensor], Any]:
        # The first update is taken whole, as PyTorch does.
        share = 1.0 if self.dampening == 0 else where(count == 1, 1.0, 1.0 - self.dampening)
        sums = [self.factor * old + share * u for old, u in zip(state, updates, strict=True)]
        if self.nesterov:
            return [u + self.factor * total for u, total in zip(updates, sums, strict=True)], sums
        return sums, sums


class AdamMoments(Step):
    """The running mean of the updates, divided by the root of the running mean of their squares."""

    def __init__(self, betas: tuple[float, float], eps: float, amsgrad: bool = False) -> None:
        self.betas, self.eps, self.amsgrad = betas, eps, amsgrad

    def init(self, parameters: Sequence[Tensor]) -> Any:
        found = {"mean": zeros_like_each(parameters), "square": zeros_like_each(parameters)}
        return found | ({"largest": zeros_like_each(parameters)} if self.amsgrad else {})

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Sequence[Tensor], count: Tensor
    ) -> tuple[list[Tensor], Any]:
        first, second = self.betas
        steps = count.astype(float32)
        # Both means start at zero, and are too small by these factors.
        of_mean, of_square = 1 - first**steps, (1 - second**steps).sqrt()
        means = [first * old + (1 - first) * u for old, u in zip(state["mean"], updates, strict=True)]
        squares = [second * old + (1 - second) * (u * u) for old, u in zip(state["square"], updates, strict=True)]
        new = {"mean": means, "square": squares}
        below = squares
        if self.amsgrad:
            below = new["largest"] = [old.maximum(s) for old, s in zip(state["largest"], squares, strict=True)]
        found = [(m / of_mean) / (s.sqrt() / of_square + self.eps) for m, s in zip(means, below, strict=True)]
        return found, new

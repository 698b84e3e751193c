"""The steps that optimizers are chains of: decay, clipping, momentum, scaling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smelt.errors import ArgumentError
from smelt.optim.core import Parameters, Step, wide, widest, zeros_like_each
from smelt.tensor import Tensor, full, where

__all__ = ["AddDecay", "ClipNorm", "ClipValue", "Momentum", "TrustRatio"]


class AddDecay(Step):
    """Adds the parameters, times a factor. First in a chain it is a penalty on their squares, last it makes them
    smaller by themselves.
    """

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        return [u + self.factor * p for u, p in zip(updates, parameters, strict=True)], state


class ClipNorm(Step):
    """Scales all updates down together where the root of the sum of their squares is larger than a number."""

    def __init__(self, largest: float) -> None:
        if not largest > 0:
            raise ArgumentError(f"ClipNorm: the largest norm is {largest!r}", rule="it must be positive.")
        self.largest = largest

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        factor = (self.largest / (norm(updates) + 1e-6)).clip(max=1.0)  # the small number is PyTorch's
        return [(u * factor).astype(u.dtype) for u in updates], state


class ClipValue(Step):
    """Keeps each element of the updates between a number and its negative."""

    def __init__(self, largest: float) -> None:
        if not largest > 0:
            raise ArgumentError(f"ClipValue: the largest value is {largest!r}", rule="it must be positive.")
        self.largest = largest

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        return [u.clip(-self.largest, self.largest) for u in updates], state


class Momentum(Step):
    """A running sum of the updates, in which older ones count less and less."""

    def __init__(self, factor: float, dampening: float = 0.0, nesterov: bool = False) -> None:
        self.factor, self.dampening, self.nesterov = factor, dampening, nesterov

    def init(self, parameters: Parameters) -> Any:
        return zeros_like_each(parameters)

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        new = updates
        if self.dampening:  # but for the first update, as in PyTorch
            new = [where(count == 1, u, (1 - self.dampening) * u) for u in updates]
        sums = [(self.factor * old + u).astype(old.dtype) for old, u in zip(state, new, strict=True)]
        if self.nesterov:
            return [u + self.factor * total for u, total in zip(updates, sums, strict=True)], sums
        return sums, sums


class TrustRatio(Step):
    """Gives each parameter's update the length of the parameter, where neither is zero."""

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        found = []
        for update, parameter in zip(updates, parameters, strict=True):
            own, other = norm([parameter]), norm([update])
            found.append(update * where((own > 0) & (other > 0), own / where(other > 0, other, 1.0), 1.0))
        return found, state


class SignSteps(Step):
    """Steps whose sizes grow while the sign of the slope stays, and shrink when it changes: those of `Rprop`."""

    def __init__(self, first: float, factors: tuple[float, float], bounds: tuple[float, float]) -> None:
        self.first, self.factors, self.bounds = first, factors, bounds

    def init(self, parameters: Parameters) -> Any:
        sizes = [full(p.shape, self.first, dtype=wide(p.dtype)) for p in parameters]
        return {"before": zeros_like_each(parameters), "size": sizes}

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        less, more = self.factors
        found, new = [], {"before": [], "size": []}  # type: ignore[var-annotated]
        for u, before, size in zip(updates, state["before"], state["size"], strict=True):
            agreement = u * before
            size = where(agreement > 0, more * size, where(agreement < 0, less * size, size)).clip(*self.bounds)
            u = where(agreement < 0, 0.0, u)  # one step without it, after which signs are compared anew
            new["before"].append(u.astype(before.dtype))
            new["size"].append(size)
            found.append(u.sign() * size)
        return found, new


def norm(tensors: Sequence[Tensor]) -> Tensor:
    """The root of the sum of all squares."""
    dtype = widest(tensors)
    total = tensors[0].astype(dtype).square().sum()
    for tensor in tensors[1:]:
        total = total + tensor.astype(dtype).square().sum()
    return total.sqrt()

"""Steps that treat matrices as matrices: those of Muon and of Adafactor."""

from __future__ import annotations

import math
from typing import Any

from smelt.dtypes import DType
from smelt.optim.core import Parameters, Rate, Step, wide, widest
from smelt.optim.moments import running
from smelt.optim.steps import norm
from smelt.tensor import Tensor, zeros

__all__ = ["Average", "FactoredSquares", "Orthogonal", "RelativeSize"]


class Average(Step):
    """The running mean of the updates; with `nesterov` one step ahead."""

    def __init__(self, factor: float, nesterov: bool = False) -> None:
        self.factor, self.nesterov = factor, nesterov

    def init(self, parameters: Parameters) -> Any:
        return [zeros(p.shape, dtype=wide(p.dtype)) for p in parameters]

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        means = running(self.factor, state, updates)
        return running(self.factor, means, updates) if self.nesterov else means, means


class Orthogonal(Step):
    """The nearest orthogonal matrix to each update, roughly: all its singular values become about 1.

    By steps of a polynomial in U Uᵀ (Newton–Schulz). `adjust` says how long updates of different shapes are.
    """

    def __init__(self, coefficients: tuple[float, float, float], steps: int, eps: float, adjust: str | None) -> None:
        self.coefficients, self.steps, self.eps, self.adjust = coefficients, steps, eps, adjust

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        return [self._orthogonal(u) * self._length(*p.shape) for u, p in zip(updates, parameters, strict=True)], state

    def _orthogonal(self, update: Tensor) -> Tensor:
        a, b, c = self.coefficients
        rows, columns = update.shape
        x = update.mT if rows > columns else update
        x = x / norm([x]).clip(min=self.eps)  # no singular value is above 1
        for _ in range(self.steps):
            products = x @ x.mT
            x = a * x + (b * products + c * (products @ products)) @ x
        return x.mT if rows > columns else x

    def _length(self, rows: int, columns: int) -> float:
        if self.adjust == "match_rms_adamw":
            return 0.2 * math.sqrt(max(rows, columns))
        return math.sqrt(max(1.0, rows / columns)) if columns else 1.0


class FactoredSquares(Step):
    """Divides updates by the roots of their mean squares, which for matrices are kept by rows and by columns only.

    Updates whose root mean square is then above `largest` are scaled down to it.
    """

    def __init__(self, decay: float, eps: float | None, largest: float) -> None:
        self.decay, self.eps, self.largest = decay, eps, largest

    def init(self, parameters: Parameters) -> Any:
        return [_factors(p.shape, wide(p.dtype)) for p in parameters]

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        share = count.astype(widest(parameters)) ** self.decay  # of the newest squares
        found, new = [], []
        for update, old, p in zip(updates, state, parameters, strict=True):
            eps = _EPS[p.dtype.name] if self.eps is None else self.eps
            u = update.astype(wide(p.dtype))
            kept, mean = self._means(u, old, share)
            scaled = u / mean.clip(min=eps * eps).sqrt()
            size = _size(scaled) / self.largest
            found.append(scaled / size.clip(min=1.0))
            new.append(kept)
        return found, new

    def _means(self, u: Tensor, old: dict[str, Tensor], share: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        def moved(mean: Tensor, square: Tensor) -> Tensor:
            return (mean + share * (square - mean)).astype(mean.dtype)

        squares = u.square()
        if u.ndim < 2:
            every = moved(old["every"], squares)
            return {"every": every}, every
        rows = moved(old["rows"], squares.mean(-1, keepdims=True))
        columns = moved(old["columns"], squares.mean(-2, keepdims=True))
        least = self.eps if self.eps is not None else _EPS[u.dtype.name]
        return {"rows": rows, "columns": columns}, rows * columns / rows.mean(-2, keepdims=True).clip(min=least)


class RelativeSize(Step):
    """Times the root mean square of the parameter, but at least `eps`; and less, as if the rate were at most
    1 / sqrt(count).
    """

    def __init__(self, eps: float, lr: Rate) -> None:
        self.eps, self.lr = eps, lr

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        lr = self.lr(count - 1) if callable(self.lr) else self.lr
        slowing = (1 / (lr * count.astype(widest(parameters)) ** 0.5)).clip(max=1.0)
        return [u * (_size(p).clip(min=self.eps) * slowing) for u, p in zip(updates, parameters, strict=True)], state


def _size(x: Tensor) -> Tensor:
    """The root of the mean square."""
    return x.astype(widest([x])).square().mean().sqrt()


_EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


def _factors(shape: Any, dtype: DType) -> dict[str, Tensor]:
    if len(shape) < 2:
        return {"every": zeros(shape, dtype=dtype)}
    return {
        "rows": zeros((*shape[:-1], 1), dtype=dtype),
        "columns": zeros((*shape[:-2], 1, shape[-1]), dtype=dtype),
    }

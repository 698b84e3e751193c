"""Dropout: elements that are left out at random while a network is trained."""

from __future__ import annotations

from smelt.errors import ArgumentError
from smelt.nn.module import Module
from smelt.tensor import Tensor, random
from smelt.tensor.arguments import real_number
from smelt.tensor.elementwise import where

__all__ = ["Dropout"]


class Dropout(Module):
    """In training each element becomes 0 with probability p, and the others grow by 1 / (1 - p).

    >>> import smelt as sm
    >>> sm.nn.Dropout(0.5).eval()(sm.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p = real_number(p, "Dropout", "p")
        if not 0 <= self.p <= 1:
            raise ArgumentError(f"Dropout: p is {p!r}", rule="it must be a probability, from 0 to 1.")

    def __call__(self, x: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x
        kept = random.bernoulli(1 - self.p, x.shape)
        return where(kept, x / (1 - self.p) if self.p < 1 else x, 0)

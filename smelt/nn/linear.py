"""Layers of one product: linear, bilinear, embedding."""

from __future__ import annotations

from smelt.nn.module import Module
from smelt.nn.sizes import count
from smelt.tensor import Tensor, random

__all__ = ["Linear"]


class Linear(Module):
    """x @ weight.T + bias, over the last axis. The weight has shape (out_features, in_features), as in PyTorch.

    >>> import smelt as sm
    >>> sm.nn.Linear(3, 5)(sm.ones(2, 3)).shape
    (2, 5)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.in_features = count(in_features, "Linear", "in_features")
        self.out_features = count(out_features, "Linear", "out_features")
        bound = in_features**-0.5 if in_features else 0.0
        self.weight = random.uniform((out_features, in_features), low=-bound, high=bound)
        self.bias = random.uniform((out_features,), low=-bound, high=bound) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias

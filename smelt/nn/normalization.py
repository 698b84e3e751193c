"""Normalization layers."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.nn.module import Module
from smelt.tensor import Tensor
from smelt.tensor.creation import ones, zeros
from smelt.tensor.layers import layer_norm, rms_norm

__all__ = ["LayerNorm", "RMSNorm"]


class LayerNorm(Module):
    """x with mean 0 and variance 1 over its last axes, times the weight, plus the bias."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.weight = ones(self.normalized_shape) if elementwise_affine else None
        self.bias = zeros(self.normalized_shape) if elementwise_affine and bias else None

    def __call__(self, x: Tensor) -> Tensor:
        return layer_norm(x, self.weight, self.bias, axes=len(self.normalized_shape), eps=self.eps)


class RMSNorm(Module):
    """x divided by the root of its mean square over its last axes, times the weight."""

    def __init__(self, normalized_shape: int | Sequence[int], eps: float | None = None) -> None:
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.weight = ones(self.normalized_shape)

    def __call__(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, axes=len(self.normalized_shape), eps=1e-6 if self.eps is None else self.eps)

"""Normalization by statistics of each example: over its last axes, groups of channels, or neighboring channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smelt.dtypes import compute_dtype
from smelt.errors import ArgumentError, ShapeError
from smelt.graph import shape_text
from smelt.nn.module import Module
from smelt.nn.sizes import count, floats, not_negative, with_features
from smelt.tensor import Tensor, finfo, layer_norm, ones, pad, real_number, rms_norm, unfold, zeros

__all__ = ["GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


def affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """x (batch, channels, space...) times a weight plus a bias for each channel."""
    aligned = (-1, *(1,) * (x.ndim - 2))
    if weight is not None:
        x = x * weight.reshape(aligned).astype(x.dtype)
    return x if bias is None else x + bias.reshape(aligned).astype(x.dtype)


def widened(x: Tensor) -> Tensor:
    """x in the type in which formulas of several steps are computed, so that they round once."""
    return x.astype(compute_dtype(x.dtype))


class _LastAxes(Module):
    """Over the last axes, which must have the sizes `normalized_shape`."""

    normalized_shape: tuple[int, ...]

    def _set_shape(self, shape: Any) -> None:
        name = type(self).__name__
        sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
        if not sizes:
            raise ArgumentError(f"{name}: normalized_shape is empty", rule="there must be an axis to normalize.")
        self.normalized_shape = tuple(count(size, name, "a size of normalized_shape", 1) for size in sizes)

    def _checked(self, x: Any) -> Tensor:
        given, axes = floats(x), len(self.normalized_shape)
        if given.ndim < axes or given.shape[given.ndim - axes :] != self.normalized_shape:
            raise ShapeError(
                f"{type(self).__name__}: the input has shape {shape_text(given.shape)}",
                rule=f"its last sizes must be normalized_shape={shape_text(self.normalized_shape)}.",
            )
        return given


class LayerNorm(_LastAxes):
    """x with mean 0 and variance 1 over the axes of `normalized_shape`, times the weight, plus the bias.

    >>> import smelt as sm
    >>> sm.nn.LayerNorm(4)(sm.asarray([[1.0, 1.0, 3.0, 3.0]])).round().tolist()
    [[-1.0, -1.0, 1.0, 1.0]]
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        self._set_shape(normalized_shape)
        self.eps = not_negative(eps, "LayerNorm", "eps")
        self.weight = ones(self.normalized_shape) if elementwise_affine else None
        self.bias = zeros(self.normalized_shape) if elementwise_affine and bias else None

    def __call__(self, x: Tensor) -> Tensor:
        return layer_norm(self._checked(x), self.weight, self.bias, axes=len(self.normalized_shape), eps=self.eps)


class RMSNorm(_LastAxes):
    """x divided by the root of its mean square over the axes of `normalized_shape`, times the weight.

    Without an `eps`, it is the smallest step from 1 in the type that is computed in: float32 for narrower ones.

    >>> import smelt as sm
    >>> sm.nn.RMSNorm(2, eps=0.0)(sm.asarray([[3.0, -3.0]])).tolist()
    [[1.0, -1.0]]
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = None, elementwise_affine: bool = True
    ) -> None:
        self._set_shape(normalized_shape)
        self.eps = None if eps is None else not_negative(eps, "RMSNorm", "eps")
        self.weight = ones(self.normalized_shape) if elementwise_affine else None

    def __call__(self, x: Tensor) -> Tensor:
        x = self._checked(x)
        eps = finfo(compute_dtype(x.dtype)).eps if self.eps is None else self.eps
        return rms_norm(x, self.weight, axes=len(self.normalized_shape), eps=eps)


class GroupNorm(Module):
    """x (batch, channels, space...) with mean 0 and variance 1 over each group of channels and space, then for each
    channel times a weight, plus a bias.

    >>> import smelt as sm
    >>> sm.nn.GroupNorm(2, 6)(sm.ones(3, 6, 4, 4)).shape
    (3, 6, 4, 4)
    """

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True) -> None:
        self.num_groups = count(num_groups, "GroupNorm", "num_groups", 1)
        self.num_channels = count(num_channels, "GroupNorm", "num_channels", 1)
        if num_channels % num_groups:
            raise ArgumentError(f"GroupNorm: {num_channels} channels cannot be divided into {num_groups} groups")
        self.eps = not_negative(eps, "GroupNorm", "eps")
        self.weight = ones(num_channels) if affine else None
        self.bias = zeros(num_channels) if affine else None

    def __call__(self, x: Tensor) -> Tensor:
        x = with_features(floats(x), 1, self.num_channels, "GroupNorm", "num_channels")
        batch, channels, *space = x.shape
        apart = widened(x).reshape(batch, self.num_groups, channels // self.num_groups, *space)
        y = layer_norm(apart, axes=1 + len(space), eps=self.eps).reshape(x.shape)
        return affine(y, self.weight, self.bias).astype(x.dtype)


class LocalResponseNorm(Module):
    """x / (k + alpha * the mean square of `size` neighboring channels) ** beta, over (batch, channels, space...).

    >>> import smelt as sm
    >>> sm.nn.LocalResponseNorm(5)(sm.ones(2, 8, 4, 4)).shape
    (2, 8, 4, 4)
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        self.size = count(size, "LocalResponseNorm", "size", 1)
        self.alpha = real_number(alpha, "LocalResponseNorm", "alpha")
        self.beta = real_number(beta, "LocalResponseNorm", "beta")
        self.k = real_number(k, "LocalResponseNorm", "k")

    def __call__(self, x: Tensor) -> Tensor:
        x = floats(x)
        if x.ndim < 3:
            raise ShapeError(
                f"LocalResponseNorm: the input has shape {shape_text(x.shape)}",
                rule="there must be a batch, channels and space.",
            )
        wide = widened(x)
        around = [(0, 0), (self.size // 2, (self.size - 1) // 2), *[(0, 0)] * (x.ndim - 2)]
        mean = unfold(pad(wide * wide, around), 1, self.size).mean(-1)
        return (wide / (self.k + self.alpha * mean) ** self.beta).astype(x.dtype)

"""Dropout: a random share of the elements, or of the channels, replaced in training.

The numbers are the next ones of the global sequence (`sm.random.seed`), under `jit` new ones at every call, or those of
the `key` at the call: `vmap` over keys gives each element its own. In evaluation nothing happens.
"""

from __future__ import annotations

import math
from typing import ClassVar

from smelt.dtypes import compute_dtype
from smelt.nn.module import Module
from smelt.nn.sizes import floats, share, with_rank
from smelt.tensor import Tensor, random, where

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]

# What `selu` gives for very negative numbers: its value for what is dropped.
LOWEST = -1.0507009873554805 * 1.6732632423543772


def kept(shape: tuple[int, ...], p: float, key: Tensor | None) -> Tensor:
    """For each element whether it stays, which it does with probability 1 - p, to within 2**-32."""
    return random.bits(shape, key=key) >= min(round(p * 2**32), 2**32 - 1)


class _Dropout(Module):
    """`p` is the probability to be dropped. `inplace` is taken as PyTorch takes it; tensors never change."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        self.p = share(p, type(self).__name__)

    def __call__(self, x: Tensor, key: Tensor | None = None) -> Tensor:
        x = self._checked(x)
        if not self.training or not self.p:
            return x
        return self._dropped(x, key)

    def _checked(self, x: Tensor) -> Tensor:
        return floats(x)

    def _together(self, x: Tensor) -> tuple[int, ...]:
        """The shape of the draw: 1 along axes that stay or go together."""
        return x.shape

    def _dropped(self, x: Tensor, key: Tensor | None) -> Tensor:
        if self.p == 1:
            return x * 0.0
        return where(kept(self._together(x), self.p, key), x * (1 / (1 - self.p)), 0.0)


class Dropout(_Dropout):
    """Zeros with probability `p`; what stays is divided by 1 - p.

    >>> import smelt as sm
    >>> drop = sm.nn.Dropout(0.5)
    >>> sorted(set(drop(sm.ones(1000)).tolist())), drop.eval()(sm.ones(2)).tolist()
    ([0.0, 2.0], [1.0, 1.0])
    """


class _ChannelDropout(_Dropout):
    """Whole channels of images, (batch, channels, space...), where the batch may be missing."""

    axes: ClassVar[int]

    def _checked(self, x: Tensor) -> Tensor:
        axes = f"(batch), channels and {self.axes} spatial axes"
        return with_rank(floats(x), (self.axes + 1, self.axes + 2), type(self).__name__, axes)

    def _together(self, x: Tensor) -> tuple[int, ...]:
        return (*x.shape[: x.ndim - self.axes], *(1,) * self.axes)


class Dropout1d(_ChannelDropout):
    """Whole channels of (batch, channels, length) zero with probability `p`; what stays is divided by 1 - p."""

    axes = 1


class Dropout2d(_ChannelDropout):
    """Whole channels of (batch, channels, height, width) zero with probability `p`.

    >>> import smelt as sm
    >>> y = sm.nn.Dropout2d(0.25)(sm.ones(1, 8, 2, 2))
    >>> bool((y == y[:, :, :1, :1]).all())
    True
    """

    axes = 2


class Dropout3d(_ChannelDropout):
    """Whole channels of (batch, channels, depth, height, width) zero with probability `p`."""

    axes = 3


class AlphaDropout(_Dropout):
    """What `selu` has as its limit with probability `p`, then scaled and shifted: mean 0 and variance 1 stay so.

    >>> import smelt as sm
    >>> sm.nn.AlphaDropout(0.2)(sm.ones(3, 4)).shape
    (3, 4)
    """

    def _dropped(self, x: Tensor, key: Tensor | None) -> Tensor:
        p = self.p
        if p == 1:
            return x * 0.0
        scale = 1 / math.sqrt((1 - p) * (1 + p * LOWEST**2))
        wide = x.astype(compute_dtype(x.dtype))
        y = where(kept(self._together(x), p, key), wide, LOWEST) * scale - scale * LOWEST * p
        return y.astype(x.dtype)


class FeatureAlphaDropout(AlphaDropout):
    """`AlphaDropout` of whole channels: the first two axes are batch and channels."""

    def _checked(self, x: Tensor) -> Tensor:
        return with_rank(floats(x), tuple(range(2, 9)), "FeatureAlphaDropout", "batch, channels and space")

    def _together(self, x: Tensor) -> tuple[int, ...]:
        return (*x.shape[:2], *(1,) * (x.ndim - 2))

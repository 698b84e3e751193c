"""Normalization of channels with running statistics: over the batch, or for each example by itself.

In training the statistics of the input are used, and the buffers move towards them by `momentum`; in evaluation the
buffers are used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from smelt import runtime
from smelt.dtypes import float64, int64
from smelt.errors import ShapeError
from smelt.graph import shape_text
from smelt.nn.module import Module
from smelt.nn.normalization import affine as scaled
from smelt.nn.normalization import widened
from smelt.nn.sizes import count, floats, not_negative, with_features, with_rank
from smelt.tensor import Tensor, flag, layer_norm, ones, real_number, realize, zeros
from smelt.transform import stop_gradient

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class _Running(Module):
    """Weights and statistics of channels."""

    buffer_names = ("running_mean", "running_var", "num_batches_tracked")

    ranks: ClassVar[tuple[int, ...]]
    axes: ClassVar[str]  # what they are, for messages

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def _set(self, num_features: int, eps: float, momentum: float | None, affine: bool, track: bool) -> None:
        name = type(self).__name__
        self.num_features = count(num_features, name, "num_features", 1)
        self.eps = not_negative(eps, name, "eps")
        self.momentum = None if momentum is None else float(real_number(momentum, name, "momentum"))
        self.affine = flag(affine, name, "affine")
        self.track_running_stats = flag(track, name, "track_running_stats")
        self.weight = ones(num_features) if affine else None
        self.bias = zeros(num_features) if affine else None
        self.running_mean = self.running_var = self.num_batches_tracked = None
        self.reset_running_stats()

    def reset_running_stats(self) -> None:
        """Forget the running statistics."""
        if self.track_running_stats:
            self.running_mean, self.running_var = zeros(self.num_features), ones(self.num_features)
            self.num_batches_tracked = zeros((), dtype=int64)

    def _several(self, x: Tensor, axes: Sequence[int]) -> None:
        """There must be something to take a variance of."""
        if math.prod(x.shape[axis] for axis in axes) == 1:
            raise ShapeError(
                f"{type(self).__name__}: the input of shape {shape_text(x.shape)} has one value per channel",
                rule="statistics need more than one.",
                hint="Use a larger batch, or model.eval().",
            )

    def _tracks(self, x: Tensor) -> bool:
        """Whether a batch counts: an empty one has no statistics."""
        return self.training and self.running_mean is not None and 0 not in x.shape

    def _track(self, mean: Tensor, variance: Tensor, share: float | Tensor) -> None:
        """Move the buffers towards new statistics. They are constants to whatever is differentiated later."""
        assert self.running_mean is not None
        assert self.running_var is not None
        if not (runtime.is_tracing() or runtime.is_transforming()):
            # What the call before left. Calls that nobody updates after would keep every batch there ever was.
            realize(*(tensor for tensor in (getattr(self, name) for name in self.buffer_names) if tensor is not None))
        self.running_mean = _moved(self.running_mean, mean, share)
        self.running_var = _moved(self.running_var, variance, share)

    def _normalized(self, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """x (batch, channels, space...) by statistics of the channels."""
        aligned = (-1, *(1,) * (x.ndim - 2))
        centered = x - mean.reshape(aligned).astype(x.dtype)
        return centered * (variance.reshape(aligned).astype(x.dtype) + self.eps).rsqrt()


def _moved(old: Tensor, new: Tensor, share: float | Tensor) -> Tensor:
    fresh: Tensor = stop_gradient(new)
    return ((1 - share) * old + share * fresh).astype(old.dtype)


class _BatchNorm(_Running):
    """Over the batch and space. `momentum=None` gives the plain mean over all batches so far."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        self._set(num_features, eps, momentum, affine, track_running_stats)

    def __call__(self, x: Tensor) -> Tensor:
        name = type(self).__name__
        x = with_features(with_rank(floats(x), self.ranks, name, self.axes), 1, self.num_features, name, "num_features")
        wide, around = widened(x), (0, *range(2, x.ndim))
        if self.training or self.running_mean is None or self.running_var is None:
            self._several(x, around)
            mean, variance = wide.mean(around), wide.var(around)
            if self._tracks(x) and self.num_batches_tracked is not None:
                self.num_batches_tracked = self.num_batches_tracked + 1
                self._track(mean, wide.var(around, correction=1), self._share(self.num_batches_tracked))
        else:
            mean, variance = self.running_mean, self.running_var
        return scaled(self._normalized(wide, mean, variance), self.weight, self.bias).astype(x.dtype)

    def _share(self, batches: Tensor) -> float | Tensor:
        """How much the newest batch counts."""
        return 1 / batches.astype(float64) if self.momentum is None else self.momentum


class BatchNorm1d(_BatchNorm):
    """Channels of (batch, channels) or (batch, channels, length) with mean 0 and variance 1 over all else, then times
    a weight, plus a bias. In evaluation by the running mean and variance of the batches of training.

    >>> import smelt as sm
    >>> norm = sm.nn.BatchNorm1d(1)
    >>> norm(sm.asarray([[1.0], [3.0]])).round().tolist(), norm.running_mean.tolist()
    ([[-1.0], [1.0]], [0.20000000298023224])
    """

    ranks, axes = (2, 3), "batch, channels and (length)"


class BatchNorm2d(_BatchNorm):
    """`BatchNorm1d` of (batch, channels, height, width).

    >>> import smelt as sm
    >>> sm.nn.BatchNorm2d(3)(sm.ones(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """

    ranks, axes = (4,), "batch, channels, height and width"


class BatchNorm3d(_BatchNorm):
    """`BatchNorm1d` of (batch, channels, depth, height, width)."""

    ranks, axes = (5,), "batch, channels, depth, height and width"


class _InstanceNorm(_Running):
    """Over the space of each example and channel."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
    ) -> None:
        self._set(num_features, eps, momentum, affine, track_running_stats)

    def __call__(self, x: Tensor) -> Tensor:
        name = type(self).__name__
        x = with_rank(floats(x), self.ranks, name, self.axes)
        missing = x.ndim == min(self.ranks)
        x = with_features(x, 0 if missing else 1, self.num_features, name, "num_features")
        y = self._each(x.expand_dims(0) if missing else x)
        return y.squeeze(0) if missing else y

    def _each(self, x: Tensor) -> Tensor:
        wide, space = widened(x), tuple(range(2, x.ndim))
        if self.training or self.running_mean is None or self.running_var is None:
            self._several(x, space)
            if self._tracks(x):
                share = self.momentum or 0.0
                self._track(wide.mean(space).mean(0), wide.var(space, correction=1).mean(0), share)
            y = layer_norm(wide, axes=len(space), eps=self.eps)
        else:
            y = self._normalized(wide, self.running_mean, self.running_var)
        return scaled(y, self.weight, self.bias).astype(x.dtype)


class InstanceNorm1d(_InstanceNorm):
    """Each channel of each example, (batch, channels, length), with mean 0 and variance 1 over its length.

    The batch may be missing. With `affine` there is a weight and a bias for each channel; with `track_running_stats`
    evaluation uses the mean statistics of training.

    >>> import smelt as sm
    >>> sm.nn.InstanceNorm1d(1)(sm.asarray([[[1.0, 3.0]], [[5.0, 9.0]]])).round().tolist()
    [[[-1.0, 1.0]], [[-1.0, 1.0]]]
    """

    ranks, axes = (2, 3), "(batch), channels and length"


class InstanceNorm2d(_InstanceNorm):
    """`InstanceNorm1d` of (batch, channels, height, width)."""

    ranks, axes = (3, 4), "(batch), channels, height and width"


class InstanceNorm3d(_InstanceNorm):
    """`InstanceNorm1d` of (batch, channels, depth, height, width)."""

    ranks, axes = (4, 5), "(batch), channels, depth, height and width"

"""Convolutions and transposed convolutions, over one to three spatial axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from smelt.errors import ArgumentError, ShapeError
from smelt.nn.linear import weights
from smelt.nn.module import Module
from smelt.nn.sizes import count, one_of, with_features, with_rank
from smelt.tensor import (
    Tensor,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    for_each,
    pad,
)

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

Numbers = int | Sequence[int]

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _Convolution(Module):
    """Sizes and weights."""

    axes: ClassVar[int]
    function: ClassVar[Callable[..., Tensor]]

    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def _set_sizes(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, dilation: Any, groups: int
    ) -> None:
        name, axes = type(self).__name__, self.axes
        count(groups, name, "groups", 1)
        self.in_channels = count(in_channels, name, "in_channels", 1)
        self.out_channels = count(out_channels, name, "out_channels", 1)
        for channels, what in ((in_channels, "in_channels"), (out_channels, "out_channels")):
            if channels % groups:
                raise ArgumentError(f"{name}: {what}={channels} cannot be divided into {groups} groups")
        self.kernel_size = for_each(kernel_size, axes, name, "kernel_size")
        self.stride = for_each(stride, axes, name, "stride")
        self.dilation = for_each(dilation, axes, name, "dilation")
        self.groups = groups

    def _set_weights(self, outer: int, inner: int, bias: bool) -> None:
        """Uniform numbers whose bound is one over the root of how many inputs an output has, as PyTorch counts them."""
        bound = (inner * math.prod(self.kernel_size)) ** -0.5
        self.weight, self.bias = weights((outer, inner, *self.kernel_size), self.out_channels, bias, bound)

    def _images(self, x: Any) -> Tensor:
        """The input, with or without a batch axis."""
        name = type(self).__name__
        images = with_rank(x, (self.axes + 1, self.axes + 2), name, f"(batch), channels and {self.axes} spatial axes")
        return with_features(images, images.ndim - 1 - self.axes, self.in_channels, name, "in_channels")


class _Conv(_Convolution):
    """A convolution. What it pads with is zeros or the input itself."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Numbers,
        stride: Numbers = 1,
        padding: str | Numbers = 0,
        dilation: Numbers = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
    ) -> None:
        self._set_sizes(in_channels, out_channels, kernel_size, stride, dilation, groups)
        self.padding = self._padding(padding)
        self.padding_mode = one_of(padding_mode, PADDING_MODES, type(self).__name__, "padding_mode")
        self._set_weights(out_channels, in_channels // groups, bias)

    def _padding(self, padding: Any) -> str | tuple[int, ...]:
        name = type(self).__name__
        if not isinstance(padding, str):
            return for_each(padding, self.axes, name, "padding", 0)
        one_of(padding, ("valid", "same"), name, "padding")
        if padding == "same" and max(self.stride) > 1:
            raise ArgumentError(f"{name}: padding 'same' with stride {self.stride}", rule="it needs a stride of 1.")
        return padding

    def __call__(self, x: Tensor) -> Tensor:
        x, padding = self._images(x), self.padding
        if self.padding_mode != "zeros":
            widths = [(0, 0)] * (x.ndim - self.axes) + self._widths()
            x, padding = pad(x, widths, self.padding_mode), "valid"
        return type(self).function(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _widths(self) -> list[tuple[int, int]]:
        """How many elements come before and after each axis."""
        if isinstance(self.padding, tuple):
            return [(width, width) for width in self.padding]
        reach = [
            (size - 1) * gap if self.padding == "same" else 0
            for size, gap in zip(self.kernel_size, self.dilation, strict=True)
        ]
        return [(total // 2, total - total // 2) for total in reach]


class Conv1d(_Conv):
    """A convolution over (batch, channels, length). The batch axis may be missing.

    The weight has shape (out_channels, in_channels / groups, kernel_size). `padding` is a width, "valid" or "same";
    `padding_mode` "zeros", "reflect", "replicate" or "circular".

    >>> import smelt as sm
    >>> sm.nn.Conv1d(3, 8, 5, padding="same")(sm.ones(2, 3, 10)).shape
    (2, 8, 10)
    """

    axes, function = 1, conv1d


class Conv2d(_Conv):
    """A convolution over (batch, channels, height, width). The batch axis may be missing.

    The weight has shape (out_channels, in_channels / groups, height, width). `padding` is a width, one for each axis,
    "valid" or "same"; `padding_mode` "zeros", "reflect", "replicate" or "circular".

    >>> import smelt as sm
    >>> sm.nn.Conv2d(3, 8, 3, stride=2, padding=1)(sm.ones(2, 3, 8, 8)).shape
    (2, 8, 4, 4)
    """

    axes, function = 2, conv2d


class Conv3d(_Conv):
    """A convolution over (batch, channels, depth, height, width): `Conv2d` with one more axis.

    >>> import smelt as sm
    >>> sm.nn.Conv3d(1, 2, 3)(sm.ones(1, 1, 4, 5, 6)).shape
    (1, 2, 2, 3, 4)
    """

    axes, function = 3, conv3d


class _ConvTranspose(_Convolution):
    """A transposed convolution."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Numbers,
        stride: Numbers = 1,
        padding: Numbers = 0,
        output_padding: Numbers = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Numbers = 1,
        padding_mode: str = "zeros",
    ) -> None:
        name = type(self).__name__
        self._set_sizes(in_channels, out_channels, kernel_size, stride, dilation, groups)
        self.padding = for_each(padding, self.axes, name, "padding", 0)
        self.output_padding = for_each(output_padding, self.axes, name, "output_padding", 0)
        for more, step, gap in zip(self.output_padding, self.stride, self.dilation, strict=True):
            if more >= max(step, gap):
                raise ArgumentError(
                    f"{name}: output_padding {more} is too large",
                    rule="it must be less than the stride or the dilation.",
                )
        one_of(padding_mode, ("zeros",), name, "padding_mode")
        self._set_weights(in_channels, out_channels // groups, bias)

    def __call__(self, x: Tensor, output_size: Numbers | None = None) -> Tensor:
        x = self._images(x)
        more = self.output_padding if output_size is None else self._padding_for(x, output_size)
        return type(self).function(
            x, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation
        )

    def _padding_for(self, x: Tensor, output_size: Any) -> tuple[int, ...]:
        """The output padding that gives a size. With stride s, s sizes have the same convolution."""
        name = type(self).__name__
        wanted = for_each(output_size, self.axes, name, "output_size")
        found = []
        for k, size in enumerate(wanted):
            reach = (self.kernel_size[k] - 1) * self.dilation[k] + 1
            least = (x.shape[k - self.axes] - 1) * self.stride[k] - 2 * self.padding[k] + reach
            if not least <= size < least + max(self.stride[k], self.dilation[k]):
                raise ShapeError(
                    f"{name}: output_size {size} for axis {k} of {self.axes}",
                    rule=f"it must be from {least} to {least + max(self.stride[k], self.dilation[k]) - 1}.",
                )
            found.append(size - least)
        return tuple(found)


class ConvTranspose1d(_ConvTranspose):
    """A transposed convolution over (batch, channels, length). The batch axis may be missing.

    Each element adds a copy of the weight, of shape (in_channels, out_channels / groups, kernel_size), times itself.
    The call may name the `output_size`, of which a stride leaves several possible.

    >>> import smelt as sm
    >>> sm.nn.ConvTranspose1d(3, 8, 4, stride=2, padding=1)(sm.ones(2, 3, 10)).shape
    (2, 8, 20)
    """

    axes, function = 1, conv_transpose1d


class ConvTranspose2d(_ConvTranspose):
    """A transposed convolution over (batch, channels, height, width): `ConvTranspose1d` with one more axis.

    >>> import smelt as sm
    >>> up = sm.nn.ConvTranspose2d(3, 8, 3, stride=2, padding=1)
    >>> up(sm.ones(2, 3, 4, 4)).shape, up(sm.ones(2, 3, 4, 4), output_size=8).shape
    ((2, 8, 7, 7), (2, 8, 8, 8))
    """

    axes, function = 2, conv_transpose2d


class ConvTranspose3d(_ConvTranspose):
    """A transposed convolution over (batch, channels, depth, height, width): `ConvTranspose1d` with two more axes.

    >>> import smelt as sm
    >>> sm.nn.ConvTranspose3d(2, 3, 2, stride=2)(sm.ones(1, 2, 2, 2, 2)).shape
    (1, 3, 4, 4, 4)
    """

    axes, function = 3, conv_transpose3d

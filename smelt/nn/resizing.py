"""Images in other sizes: resized, with channels for space and back, windows as columns and back."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.errors import ArgumentError, ShapeError
from smelt.graph import shape_text
from smelt.nn.module import Module
from smelt.nn.sizes import count, one_of, refuse_tensors, tensor
from smelt.tensor import MODES, Tensor, fold, for_each, interpolate, unfold

__all__ = [
    "ChannelShuffle",
    "Fold",
    "PixelShuffle",
    "PixelUnshuffle",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]

Numbers = int | Sequence[int]
Factors = float | Sequence[float]


class Upsample(Module):
    """Images (batch, channels, space...) in another size, given as a size or as a factor.

    Modes: "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area".

    >>> import smelt as sm
    >>> sm.nn.Upsample(scale_factor=2, mode="bilinear")(sm.ones(1, 3, 4, 4)).shape
    (1, 3, 8, 8)
    """

    def __init__(
        self,
        size: Numbers | None = None,
        scale_factor: Factors | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
    ) -> None:
        refuse_tensors(type(self).__name__, [size])
        if (size is None) == (scale_factor is None):
            raise ArgumentError(f"{type(self).__name__}: give either size or scale_factor")
        self.size = tuple(size) if isinstance(size, list) else size
        self.scale_factor = tuple(scale_factor) if isinstance(scale_factor, list) else scale_factor
        self.mode = one_of(mode, tuple(MODES), type(self).__name__, "mode")
        self.align_corners = align_corners

    def __call__(self, x: Tensor) -> Tensor:
        return interpolate(x, self.size, self.scale_factor, self.mode, bool(self.align_corners))


class UpsamplingNearest2d(Upsample):
    """`Upsample` of images, each element repeated."""

    def __init__(self, size: Numbers | None = None, scale_factor: Factors | None = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of images, between whose elements lines are drawn; the corners keep their values."""

    def __init__(self, size: Numbers | None = None, scale_factor: Factors | None = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


class PixelShuffle(Module):
    """Channels as pixels: (..., channels * factor**2, height, width) to (..., channels, height * factor, width *
    factor).

    >>> import smelt as sm
    >>> sm.nn.PixelShuffle(2)(sm.arange(4.0).reshape(1, 4, 1, 1)).tolist()
    [[[[0.0, 1.0], [2.0, 3.0]]]]
    """

    def __init__(self, upscale_factor: int) -> None:
        self.upscale_factor = count(upscale_factor, "PixelShuffle", "upscale_factor", 1)

    def __call__(self, x: Tensor) -> Tensor:
        x, r = _images(x, "PixelShuffle"), self.upscale_factor
        *batch, channels, height, width = x.shape
        _check_multiple(x, -3, r * r, "PixelShuffle")
        x = x.reshape(*batch, channels // (r * r), r, r, height, width)
        lead = len(batch) + 1
        x = x.permute_dims(*range(lead), lead + 2, lead, lead + 3, lead + 1)
        return x.reshape(*batch, channels // (r * r), height * r, width * r)


class PixelUnshuffle(Module):
    """Pixels as channels: the way back from `PixelShuffle`.

    >>> import smelt as sm
    >>> sm.nn.PixelUnshuffle(2)(sm.ones(1, 3, 4, 6)).shape
    (1, 12, 2, 3)
    """

    def __init__(self, downscale_factor: int) -> None:
        self.downscale_factor = count(downscale_factor, "PixelUnshuffle", "downscale_factor", 1)

    def __call__(self, x: Tensor) -> Tensor:
        x, r = _images(x, "PixelUnshuffle"), self.downscale_factor
        *batch, channels, height, width = x.shape
        _check_multiple(x, -2, r, "PixelUnshuffle")
        _check_multiple(x, -1, r, "PixelUnshuffle")
        x = x.reshape(*batch, channels, height // r, r, width // r, r)
        lead = len(batch) + 1
        x = x.permute_dims(*range(lead), lead + 1, lead + 3, lead, lead + 2)
        return x.reshape(*batch, channels * r * r, height // r, width // r)


class ChannelShuffle(Module):
    """Channels in another order: those of the groups take turns.

    >>> import smelt as sm
    >>> sm.nn.ChannelShuffle(2)(sm.arange(4.0).reshape(1, 4, 1)).tolist()
    [[[0.0], [2.0], [1.0], [3.0]]]
    """

    def __init__(self, groups: int) -> None:
        self.groups = count(groups, "ChannelShuffle", "groups", 1)

    def __call__(self, x: Tensor) -> Tensor:
        x = tensor(x)
        if x.ndim < 3:
            raise ShapeError(
                f"ChannelShuffle: the input has shape {shape_text(x.shape)}",
                rule="there must be a batch, channels and space.",
            )
        _check_multiple(x, 1, self.groups, "ChannelShuffle")
        batch, channels, *space = x.shape
        return x.reshape(batch, self.groups, channels // self.groups, *space).swapaxes(1, 2).reshape(x.shape)


def _images(x: Tensor, name: str) -> Tensor:
    x = tensor(x)
    if x.ndim < 3:
        raise ShapeError(
            f"{name}: the input has shape {shape_text(x.shape)}", rule="its last axes are channels, height and width."
        )
    return x


def _check_multiple(x: Tensor, axis: int, factor: int, name: str) -> None:
    if x.shape[axis] % factor:
        raise ShapeError(
            f"{name}: the input has shape {shape_text(x.shape)}",
            rule=f"the size of axis {axis % x.ndim} must be a multiple of {factor}.",
        )


class Unfold(Module):
    """The windows of images as columns: (batch, channels * elements of a window, number of windows).

    >>> import smelt as sm
    >>> sm.nn.Unfold(2)(sm.ones(1, 3, 4, 4)).shape
    (1, 12, 9)
    """

    def __init__(self, kernel_size: Numbers, dilation: Numbers = 1, padding: Numbers = 0, stride: Numbers = 1) -> None:
        self.kernel_size = for_each(kernel_size, 2, "Unfold", "kernel_size")
        self.dilation = for_each(dilation, 2, "Unfold", "dilation")
        self.padding = for_each(padding, 2, "Unfold", "padding", 0)
        self.stride = for_each(stride, 2, "Unfold", "stride")

    def __call__(self, x: Tensor) -> Tensor:
        return unfold(x, self.kernel_size, dilation=self.dilation, padding=self.padding, stride=self.stride)


class Fold(Module):
    """Columns of windows added up to images of `output_size`: the transpose of `Unfold`.

    >>> import smelt as sm
    >>> sm.nn.Fold(4, 2)(sm.ones(1, 12, 9)).shape
    (1, 3, 4, 4)
    """

    def __init__(
        self,
        output_size: Numbers,
        kernel_size: Numbers,
        dilation: Numbers = 1,
        padding: Numbers = 0,
        stride: Numbers = 1,
    ) -> None:
        self.output_size = for_each(output_size, 2, "Fold", "output_size")
        self.kernel_size = for_each(kernel_size, 2, "Fold", "kernel_size")
        self.dilation = for_each(dilation, 2, "Fold", "dilation")
        self.padding = for_each(padding, 2, "Fold", "padding", 0)
        self.stride = for_each(stride, 2, "Fold", "stride")

    def __call__(self, x: Tensor) -> Tensor:
        return fold(x, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

"""Pooling: a largest value, mean or norm of each window along the last one to three axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from smelt.errors import ArgumentError
from smelt.nn.module import Module
from smelt.nn.sizes import count
from smelt.tensor import Tensor, flag, for_each, real_number
from smelt.tensor.windows import adaptive_pooling, pooling

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
]

Numbers = int | Sequence[int]


class _Pool(Module):
    """Windows of a size, their own size apart unless a stride is given."""

    axes: ClassVar[int]
    function: ClassVar[Callable[..., Tensor]]

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    ceil_mode: bool

    def _set_windows(self, kernel_size: Any, stride: Any, ceil_mode: bool) -> None:
        name = type(self).__name__
        self.kernel_size = for_each(kernel_size, self.axes, name, "kernel_size")
        self.stride = self.kernel_size if stride is None else for_each(stride, self.axes, name, "stride")
        self.ceil_mode = flag(ceil_mode, name, "ceil_mode")

    def _padding(self, padding: Any, dilation: Sequence[int]) -> tuple[int, ...]:
        name = type(self).__name__
        widths = for_each(padding, self.axes, name, "padding", 0)
        for width, size, gap in zip(widths, self.kernel_size, dilation, strict=True):
            if width > (size - 1) * gap:
                raise ArgumentError(
                    f"{name}: padding {width} is wider than a window of {size}",
                    rule="a window must reach into the input.",
                )
        return widths


def _no_indices(return_indices: bool, name: str) -> None:
    if return_indices:
        raise ArgumentError(f"{name}: return_indices is not supported", hint="Use argmax of the windows of sm.unfold.")


# --- maximum


class _MaxPool(_Pool):
    """The largest value of each window."""

    def __init__(
        self,
        kernel_size: Numbers,
        stride: Numbers | None = None,
        padding: Numbers = 0,
        dilation: Numbers = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        self._set_windows(kernel_size, stride, ceil_mode)
        self.dilation = for_each(dilation, self.axes, type(self).__name__, "dilation")
        self.padding = self._padding(padding, self.dilation)
        _no_indices(return_indices, type(self).__name__)

    def __call__(self, x: Tensor) -> Tensor:
        return type(self).function(x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)


class MaxPool1d(_MaxPool):
    """The largest value of each window along the last axis.

    >>> import smelt as sm
    >>> sm.nn.MaxPool1d(2)(sm.asarray([[3.0, 1.0, 4.0, 1.0]])).tolist()
    [[3.0, 4.0]]
    """

    axes, function = 1, pooling.max_pool1d


class MaxPool2d(_MaxPool):
    """The largest value of each window along the last two axes.

    >>> import smelt as sm
    >>> sm.nn.MaxPool2d(3, stride=2, padding=1)(sm.ones(2, 4, 8, 8)).shape
    (2, 4, 4, 4)
    """

    axes, function = 2, pooling.max_pool2d


class MaxPool3d(_MaxPool):
    """The largest value of each window along the last three axes."""

    axes, function = 3, pooling.max_pool3d


# --- average


class _AvgPool(_Pool):
    """The mean of each window."""

    def __init__(
        self,
        kernel_size: Numbers,
        stride: Numbers | None = None,
        padding: Numbers = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        name = type(self).__name__
        self._set_windows(kernel_size, stride, ceil_mode)
        self.padding = self._padding(padding, (1,) * self.axes)
        self.count_include_pad = flag(count_include_pad, name, "count_include_pad")
        self.divisor_override = divisor_override
        if divisor_override is not None and not real_number(divisor_override, name, "divisor_override"):
            raise ArgumentError(f"{name}: divisor_override must not be 0")

    def __call__(self, x: Tensor) -> Tensor:
        return type(self).function(
            x,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool1d(_AvgPool):
    """The mean of each window along the last axis; padding counts as zeros, or not at all.

    >>> import smelt as sm
    >>> sm.nn.AvgPool1d(2)(sm.asarray([[3.0, 1.0, 4.0, 2.0]])).tolist()
    [[2.0, 3.0]]
    """

    axes, function = 1, pooling.avg_pool1d


class AvgPool2d(_AvgPool):
    """The mean of each window along the last two axes; padding counts as zeros, or not at all."""

    axes, function = 2, pooling.avg_pool2d


class AvgPool3d(_AvgPool):
    """The mean of each window along the last three axes; padding counts as zeros, or not at all."""

    axes, function = 3, pooling.avg_pool3d


# --- norms


class _LPPool(_Pool):
    """The norm of each window."""

    def __init__(
        self, norm_type: float, kernel_size: Numbers, stride: Numbers | None = None, ceil_mode: bool = False
    ) -> None:
        name = type(self).__name__
        self.norm_type = real_number(norm_type, name, "norm_type")
        if not self.norm_type > 0:
            raise ArgumentError(f"{name}: norm_type is {norm_type!r}", rule="it must be positive.")
        self._set_windows(kernel_size, stride, ceil_mode)

    def __call__(self, x: Tensor) -> Tensor:
        return type(self).function(x, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPool):
    """The norm of each window along the last axis: the sum of |x| ** norm_type, to the power of 1 / norm_type.

    >>> import smelt as sm
    >>> sm.nn.LPPool1d(2, 2)(sm.asarray([[3.0, 4.0, 5.0, 12.0]])).tolist()
    [[5.0, 13.0]]
    """

    axes, function = 1, pooling.lp_pool1d


class LPPool2d(_LPPool):
    """The norm of each window along the last two axes."""

    axes, function = 2, pooling.lp_pool2d


class LPPool3d(_LPPool):
    """The norm of each window along the last three axes."""

    axes, function = 3, pooling.lp_pool3d


# --- to a size


class _AdaptivePool(Module):
    """As many windows as are asked for, which cover the axes evenly."""

    axes: ClassVar[int]
    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, output_size: int | Sequence[int | None] | None) -> None:
        name = type(self).__name__
        given = tuple(output_size) if isinstance(output_size, Sequence) else (output_size,) * self.axes
        if len(given) != self.axes:
            raise ArgumentError(
                f"{name}: output_size {output_size!r}",
                rule=f"it must be one size, or one for each axis ({self.axes}).",
            )
        self.output_size = tuple(None if size is None else count(size, name, "output_size", 1) for size in given)

    def __call__(self, x: Tensor) -> Tensor:
        return type(self).function(x, self.output_size)


class AdaptiveAvgPool1d(_AdaptivePool):
    """The means of `output_size` windows that cover the last axis evenly.

    >>> import smelt as sm
    >>> sm.nn.AdaptiveAvgPool1d(2)(sm.arange(5.0).reshape(1, 5)).tolist()
    [[1.0, 3.0]]
    """

    axes, function = 1, adaptive_pooling.adaptive_avg_pool1d


class AdaptiveAvgPool2d(_AdaptivePool):
    """The means of `output_size` windows that cover the last two axes evenly; None keeps the size of an axis.

    >>> import smelt as sm
    >>> sm.nn.AdaptiveAvgPool2d((1, None))(sm.ones(2, 3, 4, 5)).shape
    (2, 3, 1, 5)
    """

    axes, function = 2, adaptive_pooling.adaptive_avg_pool2d


class AdaptiveAvgPool3d(_AdaptivePool):
    """The means of `output_size` windows that cover the last three axes evenly; None keeps the size of an axis."""

    axes, function = 3, adaptive_pooling.adaptive_avg_pool3d


class _AdaptiveMaxPool(_AdaptivePool):
    def __init__(self, output_size: int | Sequence[int | None] | None, return_indices: bool = False) -> None:
        _no_indices(return_indices, type(self).__name__)
        super().__init__(output_size)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest values of `output_size` windows that cover the last axis evenly."""

    axes, function = 1, adaptive_pooling.adaptive_max_pool1d


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest values of `output_size` windows that cover the last two axes evenly; None keeps an axis' size."""

    axes, function = 2, adaptive_pooling.adaptive_max_pool2d


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest values of `output_size` windows that cover the last three axes evenly; None keeps an axis' size."""

    axes, function = 3, adaptive_pooling.adaptive_max_pool3d


class FractionalMaxPool2d(Module):
    """The largest values of windows at random places, as evenly spaced as whole numbers allow.

    The places are drawn at each call, from `key` where one is given.

    >>> import smelt as sm
    >>> sm.nn.FractionalMaxPool2d(2, output_ratio=0.6)(sm.ones(1, 3, 10, 10)).shape
    (1, 3, 6, 6)
    """

    def __init__(
        self,
        kernel_size: Numbers,
        output_size: Numbers | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
    ) -> None:
        name = "FractionalMaxPool2d"
        if (output_size is None) == (output_ratio is None):
            raise ArgumentError(f"{name}: give either output_size or output_ratio")
        _no_indices(return_indices, name)
        self.kernel_size = for_each(kernel_size, 2, name, "kernel_size")
        self.output_size = None if output_size is None else for_each(output_size, 2, name, "output_size")
        self.output_ratio = tuple(output_ratio) if isinstance(output_ratio, list) else output_ratio

    def __call__(self, x: Tensor, key: Tensor | None = None) -> Tensor:
        return adaptive_pooling.fractional_max_pool2d(x, self.kernel_size, self.output_size, self.output_ratio, key=key)

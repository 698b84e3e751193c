"""Elements around the last axes: a constant, or the tensor's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from smelt.errors import ArgumentError, ShapeError
from smelt.graph import shape_text
from smelt.nn.module import Module
from smelt.nn.sizes import count, tensor
from smelt.tensor import Tensor, pad, real_number

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]

Widths = int | Sequence[int]


class _Pad(Module):
    """`padding` is one width, or (left, right, top, bottom, front, back) as far as there are axes: the last one first,
    as in PyTorch.
    """

    axes: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: Widths) -> None:
        name, sides = type(self).__name__, 2 * self.axes
        given: tuple[Any, ...] = tuple(padding) if isinstance(padding, tuple | list) else (padding,) * sides
        if len(given) != sides:
            raise ArgumentError(
                f"{name}: padding {padding!r} has {len(given)} widths",
                rule=f"it must be one width, or {sides}: before and after each axis, the last axis first.",
            )
        self.padding = tuple(count(width, name, "a width") for width in given)

    def __call__(self, x: Tensor) -> Tensor:
        return self._padded(x)

    def _padded(self, x: Any, value: float = 0.0) -> Tensor:
        x = tensor(x)
        if x.ndim < self.axes:
            raise ShapeError(
                f"{type(self).__name__}: the input has shape {shape_text(x.shape)}",
                rule=f"its rank must be at least {self.axes}.",
            )
        pairs = list(zip(self.padding[::2], self.padding[1::2], strict=True))
        return pad(x, [(0, 0)] * (x.ndim - self.axes) + pairs[::-1], self.mode, value=value)


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: Widths, value: float) -> None:
        super().__init__(padding)
        self.value = real_number(value, type(self).__name__, "value")

    def __call__(self, x: Tensor) -> Tensor:
        return self._padded(x, self.value)


class ConstantPad1d(_ConstantPad):
    """A value before and after the last axis: (left, right), or one width for both.

    >>> import smelt as sm
    >>> sm.nn.ConstantPad1d((1, 2), 7.0)(sm.zeros(1, 2)).tolist()
    [[7.0, 0.0, 0.0, 7.0, 7.0]]
    """

    axes = 1


class ConstantPad2d(_ConstantPad):
    """A value around the last two axes: (left, right, top, bottom), or one width for all sides."""

    axes = 2


class ConstantPad3d(_ConstantPad):
    """A value around the last three axes: (left, right, top, bottom, front, back), or one width for all sides."""

    axes = 3


class ZeroPad1d(_Pad):
    """Zeros before and after the last axis: (left, right), or one width for both."""

    axes, mode = 1, "constant"


class ZeroPad2d(_Pad):
    """Zeros around the last two axes: (left, right, top, bottom), or one width for all sides.

    >>> import smelt as sm
    >>> sm.nn.ZeroPad2d((1, 0, 0, 1))(sm.ones(1, 2, 2)).tolist()
    [[[0.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0]]]
    """

    axes, mode = 2, "constant"


class ZeroPad3d(_Pad):
    """Zeros around the last three axes: (left, right, top, bottom, front, back), or one width for all sides."""

    axes, mode = 3, "constant"


class ReflectionPad1d(_Pad):
    """The elements next to the ends of the last axis backwards, without those at the ends.

    >>> import smelt as sm
    >>> sm.nn.ReflectionPad1d(2)(sm.arange(4.0).reshape(1, 4)).tolist()
    [[2.0, 1.0, 0.0, 1.0, 2.0, 3.0, 2.0, 1.0]]
    """

    axes, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """`ReflectionPad1d` over the last two axes: (left, right, top, bottom), or one width for all sides."""

    axes, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """`ReflectionPad1d` over the last three axes: (left, right, top, bottom, front, back), or one width."""

    axes, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """The elements at the ends of the last axis again and again.

    >>> import smelt as sm
    >>> sm.nn.ReplicationPad1d(2)(sm.arange(3.0).reshape(1, 3)).tolist()
    [[0.0, 0.0, 0.0, 1.0, 2.0, 2.0, 2.0]]
    """

    axes, mode = 1, "edge"


class ReplicationPad2d(_Pad):
    """`ReplicationPad1d` over the last two axes: (left, right, top, bottom), or one width for all sides."""

    axes, mode = 2, "edge"


class ReplicationPad3d(_Pad):
    """`ReplicationPad1d` over the last three axes: (left, right, top, bottom, front, back), or one width."""

    axes, mode = 3, "edge"


class CircularPad1d(_Pad):
    """The elements from the other end of the last axis.

    >>> import smelt as sm
    >>> sm.nn.CircularPad1d(1)(sm.arange(3.0).reshape(1, 3)).tolist()
    [[2.0, 0.0, 1.0, 2.0, 0.0]]
    """

    axes, mode = 1, "wrap"


class CircularPad2d(_Pad):
    """`CircularPad1d` over the last two axes: (left, right, top, bottom), or one width for all sides."""

    axes, mode = 2, "wrap"


class CircularPad3d(_Pad):
    """`CircularPad1d` over the last three axes: (left, right, top, bottom, front, back), or one width."""

    axes, mode = 3, "wrap"

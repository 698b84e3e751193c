"""Arguments that many functions share: axes, shapes, devices, and PyTorch's words for them."""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt.device import MODULES, is_name
from smelt.dtypes import DType, as_dtype, is_dtype
from smelt.errors import ArgumentError, DeviceError
from smelt.graph import Shape, checked_shape, normalized_axes, normalized_axis
from smelt.tensor.handle import Handle
from smelt.tensor.types import Axes, ShapeLike


def integer(value: Any, name: str, what: str) -> int:
    """A Python or NumPy integer (not a bool) as an `int`."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise ArgumentError(f"{name}: {what} must be an integer, got {value!r}")


def real_number(value: Any, name: str, what: str) -> float:
    """A Python or NumPy number, as Python's."""
    if isinstance(value, np.bool_ | np.integer | np.floating):
        value = value.item()
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ArgumentError(
            f"{name}: {what} is an integer of {value.bit_length()} bits", rule="it must fit in a float."
        )
    if isinstance(value, bool | int | float):
        return value
    raise ArgumentError(f"{name}: {what} must be a number, got {value!r:.80}")


def diagonal_number(value: Any, name: str, what: str = "k") -> int:
    """The number of a diagonal, as one that fits in 64 bits: all diagonals so far outside are the same."""
    return max(-(2**62), min(2**62, integer(value, name, what)))


def flag(value: Any, name: str, what: str) -> bool:
    """True or False. A tensor is asked for its value, which it refuses inside `jit` in its own words."""
    if isinstance(value, bool | np.bool_ | Handle):
        return bool(value)
    raise ArgumentError(f"{name}: {what} must be True or False, got {value!r:.80}")


def keep_axes(keepdims: Any, keepdim: Any, name: str) -> bool:
    """`keepdim` is PyTorch's word for `keepdims`."""
    return flag(keepdims, name, "keepdims") | flag(keepdim, name, "keepdim")


def many_axes(axes: Axes, rank: int, name: str) -> tuple[int, ...]:
    """Axes counted from the front, in the order given; None means all of them."""
    if axes is None:
        return tuple(range(rank))
    return normalized_axes(axes if isinstance(axes, Sequence) else (axes,), rank, name)


def axis_or_dim(axis: Any, dim: Any, name: str, default: Any = None) -> Any:
    """`dim` is PyTorch's word for `axis`, which is `default` if it is left out."""
    if dim is None:
        return axis
    if axis != default:
        raise ArgumentError(f"{name}: axis and dim are the same argument", hint="Give one of them.")
    return dim


def one_axis(axis: Any, dim: Any, rank: int, name: str, default: int) -> int:
    """The axis along which a function works, counted from the front."""
    along = axis_or_dim(axis, dim, name, default)
    if along is None:  # all of them for some libraries, one of them for others
        raise ArgumentError(
            f"{name}: an axis must be an integer, got None",
            rule=f"it works along one axis: {default}, if none is given.",
            hint="For all elements as one row, flatten the tensor first: x.flatten().",
        )
    return normalized_axis(along, rank, name)


def spread(values: Any) -> tuple[Any, ...]:
    """`f((2, 3))`, `f([2, 3])`, `f(2, 3)` and `f(2)` mean the same."""
    if not isinstance(values, tuple | list):
        return (values,)
    if len(values) == 1 and isinstance(values[0], tuple | list):
        return tuple(values[0])
    return tuple(values)


def as_shape(shape: ShapeLike | Sequence[ShapeLike], name: str) -> Shape:
    """A shape from one size, several, or a shape on its own."""
    sizes = spread(shape)
    try:
        return checked_shape(sizes, name)
    except ArgumentError:
        for size in sizes:
            refuse_dtype(size, name)
        raise


def refuse_dtype(value: Any, name: str) -> None:
    """Say how dtypes are given, if a value in the place of another is one."""
    if isinstance(value, str | type | np.dtype | DType) and is_dtype(value):
        raise ArgumentError(f"{name}: {value!r} in the place of a number", hint=f"Write dtype=sm.{as_dtype(value)}.")


def check_device(device: Any, name: str) -> None:
    """Accept the devices that there are."""
    if device is not None and not is_name(str(device)):
        raise DeviceError(
            f"{name}: there is no device {str(device)!r}",
            rule=f"there are: {', '.join(MODULES)}.",
            hint="Leave it out to compute on all cores of the processor; `smelt devices` lists what is here.",
        )


def check_copy(copy: Any, name: str) -> None:
    """Accept what the array API allows for `copy`."""
    if copy is not None and not isinstance(copy, bool):
        raise ArgumentError(f"{name}: copy must be True, False or None, got {copy!r}")

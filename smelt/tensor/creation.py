"""Tensors from nothing but a description. None of them takes memory before it is read.

Without a dtype, values are float32, or what the given numbers are: bool, int64 or float32.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType, Scalar, as_dtype
from smelt.errors import ArgumentError
from smelt.graph import Index, Node, build, least, maximum, pairs, size_of, upper
from smelt.tensor.arguments import as_shape, check_device, diagonal_number, flag, integer, refuse_dtype
from smelt.tensor.devices import placed
from smelt.tensor.handle import check_fits, fitted, node_of, scalar_node, wrap
from smelt.tensor.shape.movement import diagonal_offset
from smelt.tensor.types import DTypeLike, ShapeLike, Size

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "arange",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "linspace",
    "ones",
    "ones_like",
    "tri",
    "zeros",
    "zeros_like",
]


def full(
    shape: ShapeLike, fill_value: Scalar | Tensor, dtype: DTypeLike | None = None, *, device: Any = None
) -> Tensor:
    """A tensor of one value.

    >>> sm.full((2, 2), 7).tolist()
    [[7, 7], [7, 7]]
    """
    return _filled(as_shape(shape, "full"), fill_value, dtype, device, "full")


def zeros(shape: ShapeLike = (), *sizes: Size, dtype: DTypeLike | None = None, device: Any = None) -> Tensor:
    """A tensor of zeros: `zeros((2, 3))` or `zeros(2, 3)`.

    >>> sm.zeros((2, 3)).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    return _filled(as_shape((shape, *sizes), "zeros"), 0, dtype or dtypes.float32, device, "zeros")


def ones(shape: ShapeLike = (), *sizes: Size, dtype: DTypeLike | None = None, device: Any = None) -> Tensor:
    """A tensor of ones: `ones((2, 3))` or `ones(2, 3)`.

    >>> sm.ones(3, dtype=sm.int8).tolist()
    [1, 1, 1]
    """
    return _filled(as_shape((shape, *sizes), "ones"), 1, dtype or dtypes.float32, device, "ones")


def empty(shape: ShapeLike = (), *sizes: Size, dtype: DTypeLike | None = None, device: Any = None) -> Tensor:
    """A tensor whose values do not matter. They are zeros.

    >>> sm.empty((4, 0)).shape
    (4, 0)
    """
    return _filled(as_shape((shape, *sizes), "empty"), 0, dtype or dtypes.float32, device, "empty")


def full_like(x: Tensor, fill_value: Scalar | Tensor, *, dtype: DTypeLike | None = None, device: Any = None) -> Tensor:
    """A tensor of one value, in the shape and dtype of x.

    >>> sm.full_like(sm.zeros(3), 0.5).tolist()
    [0.5, 0.5, 0.5]
    """
    node = node_of(x, "full_like")
    return _filled(node.shape, fill_value, dtype or node.dtype, device, "full_like")


def zeros_like(x: Tensor, *, dtype: DTypeLike | None = None, device: Any = None) -> Tensor:
    """Zeros in the shape and dtype of x.

    >>> sm.zeros_like(sm.asarray([1, 2])).tolist()
    [0, 0]
    """
    node = node_of(x, "zeros_like")
    return _filled(node.shape, 0, dtype or node.dtype, device, "zeros_like")


def ones_like(x: Tensor, *, dtype: DTypeLike | None = None, device: Any = None) -> Tensor:
    """Ones in the shape and dtype of x.

    >>> sm.ones_like(sm.asarray([1, 2]), dtype=sm.bool).tolist()
    [True, True]
    """
    node = node_of(x, "ones_like")
    return _filled(node.shape, 1, dtype or node.dtype, device, "ones_like")


def empty_like(x: Tensor, *, dtype: DTypeLike | None = None, device: Any = None) -> Tensor:
    """A tensor in the shape and dtype of x whose values do not matter. They are zeros.

    >>> sm.empty_like(sm.ones((2, 5))).shape
    (2, 5)
    """
    node = node_of(x, "empty_like")
    return _filled(node.shape, 0, dtype or node.dtype, device, "empty_like")


def _filled(shape: tuple[Size, ...], value: Any, dtype: DTypeLike | None, device: Any, name: str) -> Tensor:
    check_device(device, name)
    wanted = None if dtype is None else as_dtype(dtype, name)
    if isinstance(value, bool | int | float | complex) and wanted is not None:
        fill = _constant(value, wanted, name)
    else:
        fill = node_of(value, name)
        fill = fill if wanted is None else fitted(fill, wanted, name)
    return placed(wrap(build.broadcast_to(fill, shape, name=name)), device, name)


def _constant(value: Scalar | complex, dtype: DType, name: str) -> Node:
    # A float for an integer dtype is converted as a cast would; an integer must fit.
    if dtype.is_integer and isinstance(value, float):
        return build.cast(build.const(value, dtypes.float64), dtype)
    if isinstance(value, int):
        check_fits(value, dtype, name)
    return scalar_node(value, dtype, name)


def eye(
    n_rows: Size,
    n_cols: Size | None = None,
    *,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: Any = None,
) -> Tensor:
    """A matrix with ones on the k-th diagonal and zeros elsewhere.

    >>> sm.eye(2, 3, k=1).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    check_device(device, "eye")
    shape = as_shape((n_rows, n_rows if n_cols is None else n_cols), "eye")
    offset = diagonal_offset(*shape)
    diagonal = build.eq(offset, build.const(diagonal_number(k, "eye"), offset.dtype))
    return placed(wrap(build.cast(diagonal, as_dtype(dtype or dtypes.float32, "eye"))), device, "eye")


def tri(
    rows: Size,
    columns: Size | None = None,
    k: int = 0,
    *,
    dtype: DTypeLike | None = None,
    device: Any = None,
) -> Tensor:
    """A matrix with ones on and below the k-th diagonal and zeros above it.

    >>> import smelt as sm
    >>> sm.tri(2, 3, dtype=sm.int64).tolist()
    [[1, 0, 0], [1, 1, 0]]
    """
    check_device(device, "tri")
    shape = as_shape((rows, rows if columns is None else columns), "tri")
    offset = diagonal_offset(*shape)
    below = build.le(offset, build.const(diagonal_number(k, "tri"), offset.dtype))
    return placed(wrap(build.cast(below, as_dtype(dtype or dtypes.float32, "tri"))), device, "tri")


def arange(
    start: Scalar | Index,
    stop: Scalar | Index | None = None,
    step: Scalar = 1,
    *,
    dtype: DTypeLike | None = None,
    device: Any = None,
) -> Tensor:
    """start, start + step, … up to but without stop; from 0 if only one number is given.

    >>> sm.arange(2, 11, 3).tolist()
    [2, 5, 8]
    """
    check_device(device, "arange")
    if stop is None:
        start, stop = 0, start
    if isinstance(start, Index) or isinstance(stop, Index):
        return _counted(start, stop, step, dtype)
    start, stop, step = (_number(value, "arange") for value in (start, stop, step))
    if step == 0:
        raise ArgumentError("arange: the step must not be 0")
    exact = isinstance(start, int) and isinstance(stop, int) and isinstance(step, int)
    wanted = as_dtype(dtype or (dtypes.int64 if exact else dtypes.float32), "arange")
    if exact:
        count = max(0, -((start - stop) // step)) if step > 0 else max(0, -((stop - start) // -step))
    else:
        count = max(0, math.ceil((stop - start) / step))
    count = int(count)
    if exact and count:
        for extreme in (start, start + (count - 1) * step):
            check_fits(int(extreme), wanted, "arange")
    inside = dtypes.int64 if exact else dtypes.float64
    return placed(wrap(build.cast(_progression(count, start, step, inside, "arange"), wanted)), device, "arange")


def _number(value: Any, name: str) -> int | float:
    """A finite number of Python's or NumPy's, as Python's."""
    number = value.item() if isinstance(value, np.integer | np.floating) else value
    try:
        if isinstance(number, int | float) and math.isfinite(number):
            return number
    except OverflowError:  # an integer beyond all floats, which Python may refuse to print
        raise ArgumentError(f"{name}: an integer of {int(number).bit_length()} bits is too large") from None
    refuse_dtype(value, name)
    hint = ""
    if hasattr(value, "shape"):
        hint = "Sizes are known before anything runs: pass the number as a static argument, or int(x) outside of jit."
    raise ArgumentError(f"{name}: {value!r} is not a finite number", hint=hint)


def _counted(start: Any, stop: Any, step: Any, dtype: DTypeLike | None) -> Tensor:
    """A range with symbolic ends."""
    given = (start, stop, step)
    if not all(isinstance(x, Index | int) for x in given) or isinstance(step, Index) or not step:
        raise ArgumentError(
            f"arange: from {start} to {stop} by {step}, of which a symbolic size is part",
            rule="the others must be integers, and the step not 0.",
        )
    gap = stop - start if step > 0 else start - stop
    count = maximum(0, (gap + abs(step) - 1) // abs(step))
    numbers = _progression(size_of(count), start, step, dtypes.int64, "arange")
    return wrap(build.cast(numbers, as_dtype(dtype or dtypes.int64, "arange")))


def _progression(count: Size, start: Scalar | Index, step: Scalar, dtype: DType, name: str) -> Node:
    numbers: Node = build.iota(count, dtype, name=name)
    if step != 1:
        numbers = build.binary("mul", numbers, scalar_node(step, dtype, name))
    if isinstance(start, Index):
        numbers = build.binary("add", numbers, build.size_node(start, dtype))
    elif start != 0:
        numbers = build.binary("add", numbers, scalar_node(start, dtype, name))
    return numbers


def linspace(
    start: float | complex,
    stop: float | complex,
    num: Size,
    *,
    dtype: DTypeLike | None = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` evenly spaced numbers from start to stop, with or without stop itself.

    >>> sm.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    check_device(device, "linspace")
    count = num if isinstance(num, Index) else integer(num, "linspace", "num")
    if not 0 <= count < 2**63:
        raise ArgumentError(f"linspace: num must not be negative, nor more than 64 bits, got {count}")
    if isinstance(start, complex) or isinstance(stop, complex):
        low, high, wanted = complex(start), complex(stop), as_dtype(dtype or dtypes.complex64, "linspace")
        ends = ((low.real, high.real), (low.imag, high.imag))
        parts = [linspace(*pair, num, dtype=wanted.part, device=device, endpoint=endpoint)._node for pair in ends]
        return wrap(pairs.paired(*parts))
    begin, end = float(_number(start, "linspace")), float(_number(stop, "linspace"))
    closed = flag(endpoint, "linspace", "endpoint")
    gaps = count - 1 if closed else count
    if isinstance(gaps, Index):
        numbers: Node = _spaced(count, gaps, begin, end)
    else:
        numbers = _progression(count, begin, (end - begin) / gaps if gaps > 0 else 0.0, dtypes.float64, "linspace")
    if closed and upper(count) > 1:  # the last number is exact, whatever the rounding of the step
        place = build.iota(count, dtypes.int64)
        last = build.eq(place, build.size_node(count - 1, dtypes.int64))
        if least(count) < 2:  # a single number is the first
            last = build.bitwise_and(last, build.lt(build.const(0, dtypes.int64), place))
        numbers = build.where(last, build.const(end, dtypes.float64), numbers)
    return placed(wrap(build.cast(numbers, as_dtype(dtype or dtypes.float32, "linspace"))), device, "linspace")


def _spaced(count: Size, gaps: Index, start: float, stop: float) -> Node:
    """`start` and its successors, of which a symbolic number fit before `stop`."""
    many = build.maximum(build.size_node(gaps, dtypes.float64), build.const(1.0, dtypes.float64))
    step = build.div(build.const(stop - start, dtypes.float64), many)
    steps = build.mul(build.iota(count, dtypes.float64), build.broadcast_to(step, (count,)))
    return build.binary("add", steps, scalar_node(start, dtypes.float64, "linspace"))

"""What floats are made of: signs, neighbors, fractions and bits; comparisons and choices that treat NaN on purpose."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from smelt import dtypes
from smelt.dtypes import DType, as_dtype
from smelt.errors import ArgumentError, DTypeError
from smelt.graph import Node, build, pairs
from smelt.tensor.arguments import flag, real_number
from smelt.tensor.handle import computed, is_weak, node_of, pair, widened, wrap
from smelt.tensor.math.trigonometry import floating_pair
from smelt.tensor.types import DT, DTypeLike, Operand, S

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "allclose",
    "array_equal",
    "bitcast",
    "copysign",
    "fmax",
    "fmin",
    "fmod",
    "frac",
    "heaviside",
    "isclose",
    "nan_to_num",
    "nextafter",
    "signbit",
]

_BITS: Final[dict[int, DType]] = {16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}


def bitcast(x: Tensor[DT, *S], dtype: DTypeLike) -> Tensor[Any, *S]:
    """The bits of x as another dtype of the same width. Signaling NaNs of 16-bit floats become quiet.

    >>> sm.bitcast(sm.asarray([1.0]), sm.int32).tolist()
    [1065353216]
    """
    node, target = node_of(x, "bitcast"), as_dtype(dtype, "bitcast")
    if node.dtype.is_bool and target is not node.dtype:
        node = build.cast(node, dtypes.uint8)
    return wrap(build.bitcast(node, target))


def copysign(x: Operand, y: Operand) -> Tensor:
    """The size of x with the sign of y; the signs of zeros and NaN count.

    >>> sm.copysign(sm.asarray([1.0, 2.0]), sm.asarray([-0.0, 3.0])).tolist()
    [-1.0, 2.0]
    """
    a, b = floating_pair(x, y, "copysign")
    return wrap(build.binary("copysign", a, b))


def signbit(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """True where the sign bit is set: negative numbers, -0.0, and NaN with a sign.

    >>> sm.signbit(sm.asarray([-0.0, 0.0, -3.0])).tolist()
    [True, False, True]
    """
    node = computed(node_of(x, "signbit"), "signbit")
    if node.dtype.is_float:
        node = build.bitcast(node, _BITS[node.dtype.bits])
    return wrap(build.binary("lt", node, build.const(0, node.dtype), name="signbit"))


def nextafter(x: Operand, y: Operand) -> Tensor:
    """The next number after x, of its dtype, in the direction of y.

    >>> sm.nextafter(sm.asarray([0.0, 1.0]), sm.asarray([1.0, 2.0])).tolist()
    [1.401298464324817e-45, 1.0000001192092896]
    """
    a, b = floating_pair(x, y, "nextafter")
    shape = build.broadcast_shapes(a.shape, b.shape, "nextafter")
    a, b = build.broadcast_to(a, shape), build.broadcast_to(b, shape)
    whole = _BITS[a.dtype.bits]
    zero, bits = build.const(0, a.dtype), build.bitcast(a, whole)
    # Bits of one sign count upward with the size of the number.
    away = build.eq(build.lt(a, b), build.lt(zero, a))
    step = build.where(away, build.const(1, whole), build.const(-1, whole))
    sign = build.bitwise_and(build.bitcast(b, whole), build.const(-(1 << (whole.bits - 1)), whole))
    first = build.binary("or", sign, build.const(1, whole))
    moved = build.bitcast(build.where(build.eq(a, zero), first, build.add(bits, step)), a.dtype)
    result = build.where(build.eq(a, b), b, moved)
    unknown = build.binary("or", build.unary("isnan", a), build.unary("isnan", b))
    return wrap(build.where(unknown, build.const(math.nan, a.dtype), result))


def frac(x: Tensor[DT, *S]) -> Tensor[DT, *S]:
    """x without its whole part, with the sign of x.

    >>> sm.frac(sm.asarray([2.5, -1.25])).tolist()
    [0.5, -0.25]
    """
    node = node_of(x, "frac")
    if node.dtype.is_integer:
        return wrap(build.const(0, node.dtype, node.shape))
    part = build.binary("sub", node, build.unary("trunc", node, name="frac"), name="frac")
    return wrap(build.binary("copysign", part, node))


def fmod(x: Operand, y: Operand) -> Tensor:
    """The remainder of x / y with the sign of x. For integers, the remainder by 0 is 0.

    >>> sm.fmod(sm.asarray([-7.0, 7.0]), sm.asarray([3.0, -3.0])).tolist()
    [-1.0, 1.0]
    """
    a, b = pair(x, y, "fmod")
    if a.dtype.is_float:
        rest = build.binary("mod", build.unary("abs", a), build.unary("abs", b), name="fmod")
        return wrap(build.binary("copysign", rest, a))
    rest = build.binary("mod", a, b, name="fmod")
    zero = build.const(0, a.dtype)
    across = build.bitwise_and(build.ne(rest, zero), build.ne(build.lt(a, zero), build.lt(b, zero)))
    return wrap(build.where(across, build.sub(rest, b), rest))


def fmax(x: Operand, y: Operand) -> Tensor:
    """The larger of x and y; where one is NaN, the other.

    >>> sm.fmax(sm.asarray([1.0, sm.nan]), sm.asarray([2.0, 3.0])).tolist()
    [2.0, 3.0]
    """
    return _ignoring_nan("max", x, y, "fmax")


def fmin(x: Operand, y: Operand) -> Tensor:
    """The smaller of x and y; where one is NaN, the other.

    >>> sm.fmin(sm.asarray([1.0, sm.nan]), sm.asarray([2.0, 3.0])).tolist()
    [1.0, 3.0]
    """
    return _ignoring_nan("min", x, y, "fmin")


def _ignoring_nan(function: str, x: Any, y: Any, name: str) -> Tensor:
    a, b = pair(x, y, name)
    if not a.dtype.is_float:
        return wrap(build.binary(function, a, b, name=name))
    a, b = (build.broadcast_to(node, build.broadcast_shapes(a.shape, b.shape, name)) for node in (a, b))
    # Chosen from, so that equal numbers have the gradient of the first; by bits, which tell the zeros apart.
    bits = _BITS[a.dtype.bits]
    differs = build.binary("ne", build.bitcast(build.binary(function, a, b), bits), build.bitcast(a, bits))
    is_other = build.where(build.unary("isnan", b), build.const(False, dtypes.bool_), differs)
    return wrap(build.where(build.binary("or", is_other, build.unary("isnan", a)), b, a))


def heaviside(x: Operand, y: Operand) -> Tensor:
    """0 where x is negative, 1 where it is positive, y where it is 0; NaN stays NaN.

    >>> sm.heaviside(sm.asarray([-2.0, 0.0, 3.0]), 0.5).tolist()
    [0.0, 0.5, 1.0]
    """
    a, b = pair(x, y, "heaviside")
    shape = build.broadcast_shapes(a.shape, b.shape, "heaviside")
    a, b = build.broadcast_to(a, shape), build.broadcast_to(b, shape)
    zero = build.const(0, a.dtype)
    step = build.cast(build.binary("lt", zero, a, name="heaviside"), a.dtype)
    result = build.where(build.eq(a, zero), b, step, name="heaviside")
    return wrap(build.where(build.unary("isnan", a), a, result) if a.dtype.is_float else result)


def nan_to_num(
    x: Tensor[DT, *S], nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor[DT, *S]:
    """NaN replaced by `nan`, infinities by the largest and smallest numbers of the dtype or the numbers given.

    >>> sm.nan_to_num(sm.asarray([sm.nan, sm.inf, 1.0]), posinf=9.0).tolist()
    [0.0, 9.0, 1.0]
    """
    name = "nan_to_num"
    filler = real_number(nan, name, "nan")
    node = computed(node_of(x, name), name)
    most = node.dtype.maximum if posinf is None else real_number(posinf, name, "posinf")
    least = node.dtype.minimum if neginf is None else real_number(neginf, name, "neginf")
    if node.dtype.is_complex:
        parts = [nan_to_num(wrap(part), nan, posinf, neginf)._node for part in pairs.parts(node)]
        return wrap(pairs.paired(*parts))
    if not node.dtype.is_float:
        return wrap(node)
    result = build.where(build.unary("isnan", node), build.const(filler, node.dtype), node)
    for limit, value in ((math.inf, most), (-math.inf, least)):
        result = build.where(build.eq(node, build.const(limit, node.dtype)), build.const(value, node.dtype), result)
    return wrap(result)


def isclose(x: Operand, y: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """True where |x - y| <= atol + rtol * |y|, or both are the same infinity, or (`equal_nan`) both are NaN.

    >>> sm.isclose(sm.asarray([1.0, 2.0]), sm.asarray([1.000001, 2.1])).tolist()
    [True, False]
    """
    return wrap(_close(x, y, rtol, atol, equal_nan, "isclose"))


def allclose(x: Operand, y: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """True if `isclose` holds everywhere.

    >>> sm.allclose(sm.asarray([1.0, 2.0]), sm.asarray([1.000001, 2.0])).item()
    True
    """
    return _everywhere(_close(x, y, rtol, atol, equal_nan, "allclose"))


def array_equal(x: Operand, y: Operand, equal_nan: bool = False) -> Tensor:
    """True if the shapes are the same and so are all elements.

    >>> sm.array_equal(sm.asarray([1, 2]), sm.asarray([1, 2, 3])).item()
    False
    """
    nan_too = flag(equal_nan, "array_equal", "equal_nan")
    a, b = pair(x, y, "array_equal")
    if a.shape != b.shape:
        return wrap(build.const(False, dtypes.bool_))
    same = build.eq(a, b)
    if nan_too and a.dtype.is_inexact:
        same = build.binary("or", same, build.bitwise_and(build.unary("isnan", a), build.unary("isnan", b)))
    return _everywhere(same)


def _close(x: Any, y: Any, rtol: float, atol: float, equal_nan: bool, name: str) -> Node:
    for label, value in (("rtol", rtol), ("atol", atol)):
        if not is_weak(value) or not value >= 0:
            raise ArgumentError(f"{name}: {label} is {value!r}", rule="it must be a number that is not negative.")
    a, b = pair(x, y, name)
    if a.dtype.is_inexact:
        a, b = widened(a), widened(b)
    else:
        a, b = build.cast(a, dtypes.float64), build.cast(b, dtypes.float64)
    gap = build.unary("abs", build.binary("sub", a, b, name=name))
    size = build.unary("abs", b)
    room = build.shift(build.scale(size, rtol), atol)
    near = build.bitwise_and(build.le(gap, room), build.lt(size, build.const(math.inf, size.dtype)))
    near = build.binary("or", near, build.eq(a, b))
    if flag(equal_nan, name, "equal_nan"):
        near = build.binary("or", near, build.bitwise_and(build.unary("isnan", a), build.unary("isnan", b)))
    return near


def _everywhere(node: Node) -> Tensor:
    if not node.dtype.is_bool:
        raise DTypeError(f"all: {node.dtype} is not bool")
    return wrap(build.reduce("min", node, tuple(range(len(node.shape)))))

"""Questions about dtypes: their limits, their kinds, and what they promote to."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes

from smelt import dtypes
from smelt.dtypes import DType, as_dtype
from smelt.errors import ArgumentError, DTypeError
from smelt.tensor.handle import Handle, is_weak, promoted
from smelt.tensor.types import DTypeLike, Operand


class FloatLimits(NamedTuple):
    """The limits of a float dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerLimits(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype_of(value: Any) -> DType:
    return value._node.dtype if isinstance(value, Handle) else as_dtype(value)


def finfo(dtype: DTypeLike | Operand, /) -> FloatLimits:
    """The limits of a float dtype, or of a tensor's."""
    wanted = _dtype_of(dtype)
    if not wanted.is_float:
        raise DTypeError(f"finfo: {wanted} is not a float dtype", hint="Use iinfo for integers.")
    limits = ml_dtypes.finfo(wanted.numpy)
    return FloatLimits(
        wanted.bits,
        float(limits.eps),
        float(wanted.maximum),
        float(wanted.minimum),
        float(limits.smallest_normal),
        wanted,
    )


def iinfo(dtype: DTypeLike | Operand, /) -> IntegerLimits:
    """The limits of an integer dtype, or of a tensor's."""
    wanted = _dtype_of(dtype)
    if not wanted.is_integer:
        raise DTypeError(f"iinfo: {wanted} is not an integer dtype", hint="Use finfo for floats.")
    return IntegerLimits(wanted.bits, int(wanted.maximum), int(wanted.minimum), wanted)


def result_type(*operands: DTypeLike | Operand) -> DType:
    """The dtype of an operation on these dtypes, tensors and Python scalars."""
    strong = [_dtype_of(value) for value in operands if not is_weak(value)]
    weak = [value for value in operands if is_weak(value)]
    if not operands:
        raise ArgumentError("result_type: there are no operands")
    if not strong:
        strong = [dtypes.scalar_dtype(value) for value in weak]  # type: ignore[arg-type]
    dtype = strong[0]
    for other in strong[1:]:
        dtype = promoted(dtype, other, "result_type")
    for value in weak:
        dtype = dtypes.promote_scalar(dtype, value)  # type: ignore[arg-type]
    return dtype


_SIGNED = tuple(d for d in dtypes.INTEGERS if d.is_signed)
_UNSIGNED = tuple(d for d in dtypes.INTEGERS if not d.is_signed)
_MEMBERS: dict[str, tuple[DType, ...]] = {
    "bool": (dtypes.bool_,),
    "signed integer": _SIGNED,
    "unsigned integer": _UNSIGNED,
    "integral": dtypes.INTEGERS,
    "real floating": dtypes.FLOATS,
    "complex floating": (),
    "numeric": dtypes.INTEGERS + dtypes.FLOATS,
}


def isdtype(dtype: DTypeLike, kind: DTypeLike | str | tuple[Any, ...], /) -> bool:
    """Whether a dtype is of a kind: a dtype, "bool", "signed integer", "integral", "numeric", …, or one of several."""
    wanted = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(wanted, one) for one in kind)
    if not isinstance(kind, str) or kind not in _MEMBERS:
        return wanted is as_dtype(kind)
    return wanted in _MEMBERS[kind]

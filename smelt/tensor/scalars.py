"""Questions about dtypes: their limits, their kinds, and what they promote to."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType, as_dtype
from smelt.errors import ArgumentError, DTypeError
from smelt.tensor.handle import Handle, is_weak, promoted
from smelt.tensor.types import DTypeLike, Operand

__all__ = [
    "can_cast",
    "finfo",
    "iinfo",
    "isdtype",
    "result_type",
]


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


def _dtype_of(value: Any, name: str) -> DType:
    if isinstance(value, Handle):
        return value._node.dtype
    return as_dtype(value.dtype if isinstance(value, np.ndarray | np.generic) else value, name)


def finfo(type: DTypeLike | Operand) -> FloatLimits:
    """The limits of a float dtype, or of a tensor's; those of the parts of a complex one.

    >>> sm.finfo(sm.float16).max
    65504.0
    """
    wanted = _dtype_of(type, "finfo").part
    if not wanted.is_float:
        raise DTypeError(f"finfo: {wanted} is not a float dtype", hint="Use iinfo for integers.")
    limits = wanted.limits()
    return FloatLimits(
        wanted.bits,
        float(limits.eps),
        float(wanted.maximum),
        float(wanted.minimum),
        float(limits.smallest_normal),
        wanted,
    )


def iinfo(type: DTypeLike | Operand) -> IntegerLimits:
    """The limits of an integer dtype, or of a tensor's.

    >>> sm.iinfo(sm.int8).min, sm.iinfo(sm.uint16).max
    (-128, 65535)
    """
    wanted = _dtype_of(type, "iinfo")
    if not wanted.is_integer:
        raise DTypeError(f"iinfo: {wanted} is not an integer dtype", hint="Use finfo for floats.")
    return IntegerLimits(wanted.bits, int(wanted.maximum), int(wanted.minimum), wanted)


def result_type(*arrays_and_dtypes: DTypeLike | Operand) -> DType:
    """The dtype of an operation on these dtypes, tensors and Python scalars.

    >>> sm.result_type(sm.int8, sm.uint8), sm.result_type(sm.float16, 1.5)
    (smelt.int16, smelt.float16)
    """
    if not arrays_and_dtypes:
        raise ArgumentError("result_type: there are no operands", hint="Give at least one tensor or dtype.")
    strong = [_dtype_of(value, "result_type") for value in arrays_and_dtypes if not is_weak(value)]
    weak = [value for value in arrays_and_dtypes if is_weak(value)]
    if not strong:
        strong = [dtypes.scalar_dtype(value) for value in weak]  # type: ignore[arg-type]
    dtype = strong[0]
    for other in strong[1:]:
        dtype = promoted(dtype, other, "result_type")
    for value in weak:
        dtype = dtypes.promote_scalar(dtype, value)  # type: ignore[arg-type]
    return dtype


def can_cast(from_: DTypeLike | Operand, to: DTypeLike) -> bool:
    """Whether values of a dtype, or of a tensor's, take the dtype `to` by promotion when the two meet.

    >>> sm.can_cast(sm.uint8, sm.int16), sm.can_cast(sm.float32, sm.int64)
    (True, False)
    """
    if is_weak(from_) and not isinstance(from_, np.generic):
        raise ArgumentError(
            f"can_cast: the number {from_!r} has no dtype of its own",
            rule="give a tensor or a dtype.",
            hint="Use result_type to see what a number becomes.",
        )
    source, target = _dtype_of(from_, "can_cast"), as_dtype(to, "can_cast")
    try:
        return dtypes.promote(source, target) is target
    except DTypeError:  # int64 and uint64 have no common type
        return False


_SIGNED = tuple(d for d in dtypes.INTEGERS if d.is_signed)
_UNSIGNED = tuple(d for d in dtypes.INTEGERS if not d.is_signed)
KINDS: dict[str, tuple[DType, ...]] = {
    "bool": (dtypes.bool_,),
    "signed integer": _SIGNED,
    "unsigned integer": _UNSIGNED,
    "integral": dtypes.INTEGERS,
    "real floating": dtypes.FLOATS,
    "complex floating": dtypes.COMPLEX,
    "numeric": dtypes.INTEGERS + dtypes.FLOATS + dtypes.COMPLEX,
}


def isdtype(dtype: DTypeLike, kind: DTypeLike | str | tuple[Any, ...]) -> bool:
    """Whether a dtype is of a kind: a dtype, "bool", "signed integer", "integral", "numeric", …, or one of several.

    >>> sm.isdtype(sm.bfloat16, "real floating"), sm.isdtype(sm.int8, ("bool", sm.int8))
    (True, True)
    """
    wanted = as_dtype(dtype, "isdtype")
    if isinstance(kind, tuple):
        return any([isdtype(wanted, one) for one in kind])  # all of them, so that every mistake is found
    if isinstance(kind, str) and kind in KINDS:
        return wanted in KINDS[kind]
    try:
        return wanted is as_dtype(kind)
    except DTypeError:
        raise DTypeError(
            f"isdtype: {kind!r} is neither a dtype nor a kind of dtypes", hint=f"The kinds are: {', '.join(KINDS)}."
        ) from None

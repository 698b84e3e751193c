"""Tensors from descriptions, and from other arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import smelt as sm
from smelt import dtypes
from smelt.dtypes import DType
from smelt.errors import ArgumentError, DeviceError, DTypeError, ProtocolError, ShapeError
from tests.ops.samples import (
    Sample,
    call,
    one,
    special,
    strided,
    values,
)
from tests.ops.spec import (
    ALL,
    FLOATS,
    NUMBERS,
    ROUNDED,
    OpSpec,
    Tolerance,
    Wrong,
    not_flag,
    wrong,
    zeros,
)

# --- creation: there are no tensors among the arguments, so the dtype is one of them


def made(
    name: str, reference: Callable[..., Any], *arguments: Sample, supported: tuple[DType, ...] = ALL, **more: Any
) -> OpSpec:
    """The samples are called with `dtype=`; the reference makes numbers that are converted to it."""

    def samples(dtype: DType) -> list[Sample]:
        return [call(*s.args, **s.kwargs, dtype=dtype) for s in arguments]

    def without_dtype(*args: Any, dtype: DType, **kwargs: Any) -> Any:
        return reference(*args, **kwargs)

    return OpSpec(name, without_dtype, samples, supported, **more)


def liked(name: str, reference: Callable[..., Any], *extra: Any, errors: tuple[Wrong, ...] = ()) -> OpSpec:
    return OpSpec(
        name,
        reference,
        lambda dtype: [call(values(dtype, 2, 3), *extra), call(values(dtype), *extra), call(values(dtype, 0), *extra)],
        errors=(
            *errors,
            wrong(DeviceError, "there is no device 'tpu'", zeros(2), *extra, device="tpu"),
            wrong(DTypeError, "is not a dtype that smelt has", zeros(2), *extra, dtype="complex256"),
            wrong(DTypeError, "no tensor can hold elements of the NumPy dtype", "text", *extra),
        ),
    )


SHAPES = (call((2, 3)), call(()), call(0), call(5), call((3, 0, 1)))
SPREAD_SHAPES = (*SHAPES, call(2, 3), call([7]))
NEGATIVE = wrong(ShapeError, "negative", (2, -1))
NO_SIZE = wrong(ArgumentError, "not a size", 2.5)
NO_DEVICE = wrong(DeviceError, "there is no device 'tpu'", 2, device="tpu")
NO_DTYPE = wrong(DTypeError, "is not a dtype that smelt has", 2, dtype="complex256")


def shape_of(shape: tuple[Any, ...]) -> Any:
    return shape[0] if len(shape) == 1 else shape


CREATION = [
    made(
        "zeros",
        lambda *shape: np.zeros(shape_of(shape)),
        *SPREAD_SHAPES,
        errors=(NEGATIVE, NO_SIZE, NO_DEVICE, NO_DTYPE),
    ),
    made(
        "ones", lambda *shape: np.ones(shape_of(shape)), *SPREAD_SHAPES, errors=(NEGATIVE, NO_SIZE, NO_DEVICE, NO_DTYPE)
    ),
    made(
        "empty",
        lambda *shape: np.zeros(shape_of(shape)),
        *SPREAD_SHAPES,
        errors=(NEGATIVE, NO_SIZE, NO_DEVICE, NO_DTYPE),
    ),
    made(
        "full",
        np.full,
        call((2, 3), 7),
        call((), 1),
        call(3, True),
        errors=[
            wrong(ArgumentError, "does not fit in int8", 2, 1000, dtype=sm.int8),
            wrong(ShapeError, "negative", (2, -1), 0),
            wrong(ShapeError, "cannot expand", 2, zeros(3)),
            wrong(DeviceError, "there is no device 'tpu'", 2, 0, device="tpu"),
            wrong(DTypeError, "is not a dtype that smelt has", 2, 0, dtype="complex256"),
        ],
    ),
    made("full", np.full, call((2, 3), math.nan), call(2, -0.0), call(3, math.inf), supported=FLOATS),
    liked("zeros_like", np.zeros_like),
    liked("ones_like", np.ones_like),
    liked("empty_like", np.zeros_like),
    liked(
        "full_like",
        np.full_like,
        1,
        errors=(
            wrong(ArgumentError, "the integer 300 does not fit in uint8", np.zeros(2, np.uint8), 300),
            wrong(ShapeError, "cannot expand", zeros(2), zeros(3)),
        ),
    ),
    made(
        "eye",
        lambda n, m=None, k=0: np.eye(n, m, k),
        call(3),
        call(3, 5),
        call(5, 3, k=1),
        call(4, k=-2),
        call(0),
        call(2, 3, k=9),
        errors=[
            wrong(ShapeError, "negative", 3, -1),
            wrong(ArgumentError, "k must be an integer", 3, k=0.5),
            wrong(ArgumentError, "not a size", "three"),
            NO_DEVICE,
            NO_DTYPE,
        ],
    ),
    made(
        "tri",
        np.tri,
        call(3),
        call(3, 5),
        call(5, 3, 1),
        call(4, k=-2),
        call(0),
        call(2, 3, 9),
        errors=[
            wrong(ShapeError, "negative", 3, -1),
            wrong(ArgumentError, "k must be an integer", 3, k=0.5),
            wrong(DeviceError, "there is no device 'tpu'", 2, device="tpu"),
        ],
    ),
    made(
        "arange",
        np.arange,
        call(5),
        call(0),
        call(2, 11, 3),
        call(10, 0, -3),
        call(3, 3),
        call(5, 2),
        call(127),
        supported=NUMBERS,
        errors=[
            wrong(ArgumentError, "the integer 1030 does not fit in int8", 1031, dtype=sm.int8),
            wrong(ArgumentError, "step must not be 0", 1, 2, 0),
            wrong(ArgumentError, "not a finite number", math.inf),
            wrong(ArgumentError, "'a' is not a finite number", "a"),
            wrong(ArgumentError, "an integer of 2001 bits is too large", 2**2000),
            NO_DEVICE,
            NO_DTYPE,
        ],
    ),
    made("arange", np.arange, call(1031), supported=tuple(dtype for dtype in NUMBERS if dtype.itemsize > 1)),
    made(
        "arange",
        np.arange,
        call(0.0, 1.0, 0.125),
        call(2.5),
        call(1.5, -2.0, -0.25),
        supported=FLOATS,
        tolerance=ROUNDED,
    ),
    made(
        "linspace",
        np.linspace,
        call(0, 1, 5),
        call(-1.5, 2.5, 7),
        call(0, 1, 4, endpoint=False),
        call(3, 3, 2),
        call(0, 1, 1),
        call(0, 1, 0),
        call(5, -5, 1031),
        supported=FLOATS,
        tolerance=Tolerance(2, 2),
        errors=[
            wrong(ArgumentError, "num must not be negative", 0, 1, -1),
            wrong(ArgumentError, "num must be an integer", 0, 1, 2.5),
            wrong(ArgumentError, "nor more than 64 bits", 0, 1, 2**70),
            not_flag("endpoint", 0, 1, 2),
            wrong(ArgumentError, "not a finite number", 0, math.inf, 3),
            wrong(ArgumentError, "not a finite number", zeros(2), 1, 3),
            wrong(DeviceError, "there is no device 'tpu'", 0, 1, 2, device="tpu"),
        ],
    ),
    OpSpec(
        "asarray",
        np.asarray,
        lambda dtype: [
            call(values(dtype, 2, 3)),
            call(strided(dtype, 3, 4)),
            call(special(dtype)),
            call(values(dtype)),
        ],
        errors=[
            wrong(ArgumentError, "the nested lists are ragged", [[1, 2], [3]]),
            wrong(DTypeError, "no tensor can hold elements of the NumPy dtype", "text"),
            wrong(DTypeError, "complex256", [np.clongdouble(1j)]),
            wrong(ArgumentError, "does not fit in int64", 2**70),
            wrong(ArgumentError, "cannot do without a copy", [1], copy=False),
            wrong(ArgumentError, "copy must be True, False or None", [1], copy="yes"),
            wrong(ArgumentError, "cannot do without a copy", zeros(2), dtype=sm.int8, copy=False),
            NO_DTYPE,
            NO_DEVICE,
        ],
    ),
    OpSpec(
        "from_numpy",
        np.asarray,
        one,
        errors=[
            wrong(ArgumentError, "expected a NumPy array, got list", [1.0]),
            wrong(ArgumentError, "expected a NumPy array, got float32", np.float32(1)),
            wrong(
                DTypeError, "no tensor can hold elements of the NumPy dtype complex256", np.array([1j], np.clongdouble)
            ),
        ],
    ),
    OpSpec(
        "from_dlpack",
        np.asarray,
        lambda dtype: [call(values(dtype, 2, 3)), call(values(dtype, 5)[::2])],
        tuple(d for d in ALL if d is not dtypes.bfloat16),
        errors=[
            wrong(ProtocolError, "does not speak DLPack", [1.0]),
            wrong(DeviceError, "there is no device 'tpu'", zeros(2), device="tpu"),
            wrong(ArgumentError, "copy must be True, False or None", zeros(2), copy=1),
        ],
    ),
    *(
        OpSpec(
            "astype",
            lambda x, dtype, to=target: dtypes.cast_array(x, to),
            lambda dtype, to=target: [call(special(dtype), to), call(values(dtype, 3, 5), to), call(values(dtype), to)],
            ALL,
            lambda dtype, to=target: to,
            errors=[
                wrong(DTypeError, "is not a dtype that smelt has", zeros(2), "float128"),
                wrong(DeviceError, "there is no device 'tpu'", zeros(2), target, device="tpu"),
                wrong(ArgumentError, "copy must be True, False or None", zeros(2), target, copy="no"),
            ],
        )
        for target in ALL
    ),
]

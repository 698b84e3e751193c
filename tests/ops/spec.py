"""What the op table says about a function, and the words in which it says it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import smelt as sm
from smelt import dtypes
from smelt.dtypes import DType
from smelt.errors import ArgumentError, AxisError, DTypeError, ShapeError
from tests.ops.samples import Array, Sample, Samples, call

FLOATS, INTEGERS, BOOLS = dtypes.FLOATS, dtypes.INTEGERS, (dtypes.bool_,)
NUMBERS = FLOATS + INTEGERS
ALL = NUMBERS + BOOLS


@dataclass(frozen=True)
class Tolerance:
    """How far a float may be from the reference: in units of the last place, and absolutely in machine epsilons."""

    ulps: float = 0.0
    epsilons: float = 0.0


EXACT = Tolerance()
ROUNDED = Tolerance(ulps=1.0)
MATH = Tolerance(ulps=4.0)
SUM = Tolerance(ulps=16.0, epsilons=16.0)


@dataclass(frozen=True)
class Wrong:
    """A call that must raise, with text that the message must contain."""

    sample: Sample
    error: type[Exception]
    text: str
    general: bool = False  # what every function of tensors refuses


def wrong(error: type[Exception], text: str, *args: Any, **kwargs: Any) -> Wrong:
    return Wrong(call(*args, **kwargs), error, text)


@dataclass(frozen=True)
class OpSpec:
    """One public function. `result` is the dtype that comes out; the first dtype is the one that is always tested."""

    name: str
    reference: Callable[..., Any]
    samples: Samples
    dtypes: tuple[DType, ...] = ALL
    result: Callable[[DType], DType] = lambda dtype: dtype
    tolerance: Tolerance = EXACT
    errors: Sequence[Wrong] = ()

    @property
    def function(self) -> Callable[..., Any]:
        target: Any = sm
        for part in self.name.split("."):
            target = getattr(target, part)
        return target  # type: ignore[no-any-return]


def to_float(dtype: DType) -> DType:
    return dtype if dtype.is_float else dtypes.float32


def to_bool(dtype: DType) -> DType:
    return dtypes.bool_


def to_index(dtype: DType) -> DType:
    return dtypes.int64


def to_sum(dtype: DType) -> DType:
    if dtype.is_float:
        return dtype
    return dtypes.uint64 if dtype.is_integer and not dtype.is_signed else dtypes.int64


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def not_tensors(name: str, *rest: Any) -> tuple[Wrong, ...]:
    """Three things that are no tensors, as first argument of a function."""
    mistakes = (
        wrong(DTypeError, f"{name}: no tensor can hold elements of the NumPy dtype <U4", "text", *rest),
        wrong(DTypeError, f"{name}: no tensor can hold elements of the NumPy dtype <U1", ["a"], *rest),
        wrong(
            ArgumentError, f"{name}: no tensor can be made of a list: the nested lists are ragged", [[1], [1, 2]], *rest
        ),
    )
    return tuple(replace(mistake, general=True) for mistake in mistakes)


def not_computed(name: str, *rest: Any) -> Wrong:
    """A dtype that only stores values."""
    return wrong(DTypeError, f"{name}: float8_e5m2 is not supported", np.zeros(2, dtypes.float8_e5m2.numpy), *rest)


def not_flag(what: str, *args: Any, **more: Any) -> Wrong:
    """A word where True or False belongs."""
    return wrong(ArgumentError, f"{what} must be True or False, got 'yes'", *args, **more, **{what: "yes"})


def not_number(what: str, *args: Any, **more: Any) -> Wrong:
    """A word where a number belongs."""
    return wrong(ArgumentError, f"{what} must be a number, got 'x'", *args, **more, **{what: "x"})


def too_large(what: str, *args: Any, **more: Any) -> Wrong:
    """An integer that no float holds."""
    return wrong(ArgumentError, f"{what} is an integer of 1329 bits", *args, **more, **{what: 10**400})


def unequal(name: str, dtype: Any = np.float32) -> tuple[Wrong, ...]:
    """Pairs that do not go together: shapes, dtypes, and a number for a dtype. The last is no second tensor."""
    return (
        wrong(
            ShapeError,
            f"{name}: shapes do not broadcast\n    (2, 3) and (2,)\n        ^       ^",
            np.zeros((2, 3), dtype),
            np.zeros(2, dtype),
        ),
        *unequal_dtypes(name),
        wrong(DTypeError, f"{name}: no tensor can hold elements of the NumPy dtype <U4", np.zeros(2, dtype), "text"),
    )


def unequal_dtypes(name: str) -> tuple[Wrong, ...]:
    return (
        wrong(DTypeError, f"{name}: uint64 and int64 have no common dtype", np.uint64([1]), np.int64([1])),
        wrong(ArgumentError, f"{name}: the integer 300 does not fit in uint8", np.uint8([1]), 300),
    )


# Mistakes that many functions refuse.
MISMATCH = wrong(ShapeError, "shapes do not broadcast\n    (2, 3) and (2,)\n        ^       ^", zeros(2, 3), zeros(2))
TWO_BOOLS = wrong(DTypeError, "bool is not supported", np.array([True]), np.array([True]))
BOTH_AXES = wrong(ArgumentError, "axis and dim are the same argument", zeros(2, 3), axis=0, dim=1)
AXIS_2 = wrong(AxisError, "axis 2 is out of range for a tensor of rank 2", zeros(2, 3), axis=2)
AXIS_FLOAT = wrong(ArgumentError, "an axis must be an integer, got 1.0", zeros(2, 3), axis=1.0)
AXIS_NONE = wrong(ArgumentError, "an axis must be an integer, got None", zeros(2, 3), axis=None)
AXIS_TENSOR = wrong(ArgumentError, "an axis must be an integer, got Tensor", zeros(2, 3), axis=zeros(2))
AXIS_TWICE = wrong(AxisError, "twice", zeros(2, 3), axis=(0, -2))

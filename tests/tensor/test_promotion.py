"""Results of functions of two tensors have the dtypes of the array API's promotion tables."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import dtypes
from smelt.dtypes import DType
from smelt.errors import ArgumentError, DTypeError

SIGNED = (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)
UNSIGNED = (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)

# unsigned (row) with signed (column); None: no dtype holds both
MIXED = """
int16 int16 int32 int64
int32 int32 int32 int64
int64 int64 int64 int64
None  None  None  None
"""
# the standard has float32 and float64; smelt's 16-bit floats widen to them, and to float32 with each other
FLOATS = {
    (dtypes.float32, dtypes.float64): dtypes.float64,
    (dtypes.float16, dtypes.float32): dtypes.float32,
    (dtypes.float16, dtypes.float64): dtypes.float64,
    (dtypes.bfloat16, dtypes.float32): dtypes.float32,
    (dtypes.bfloat16, dtypes.float64): dtypes.float64,
    (dtypes.float16, dtypes.bfloat16): dtypes.float32,
}


def expected() -> dict[tuple[DType, DType], DType | None]:
    table: dict[tuple[DType, DType], DType | None] = {(d, d): d for d in dtypes.ALL}
    for family in (SIGNED, UNSIGNED):
        table |= {(a, b): b for a, b in itertools.combinations(family, 2)}
    for a, row in zip(UNSIGNED, MIXED.strip().splitlines(), strict=True):
        table |= {(a, b): getattr(dtypes, word, None) for b, word in zip(SIGNED, row.split(), strict=True)}
    table |= FLOATS
    # kinds that the standard leaves open: an integer or bool takes the float's dtype, a bool the integer's
    table |= {(a, b): b for a in (dtypes.bool_, *dtypes.INTEGERS) for b in dtypes.FLOATS}
    table |= {(dtypes.bool_, b): b for b in dtypes.INTEGERS}
    return table | {(b, a): result for (a, b), result in table.items()}


def one(dtype: DType) -> sm.Tensor:
    return sm.ones((1,), dtype=dtype)


@pytest.mark.parametrize("name", ["multiply", "maximum", "equal", "atan2", "fmax"])
def test_two_tensors(name: str) -> None:
    function = getattr(sm, name)
    table = expected()
    assert len(table) == len(dtypes.ALL) ** 2
    for (a, b), common in table.items():
        if name == "multiply" and common is dtypes.bool_:
            continue
        if common is None:
            with pytest.raises(DTypeError, match="no common dtype"):
                function(one(a), one(b))
            continue
        wanted = {"equal": dtypes.bool_, "atan2": common if common.is_float else dtypes.float32}.get(name, common)
        assert function(one(a), one(b)).dtype is wanted, (a, b)


@pytest.mark.parametrize(("scalar", "kinds"), [(True, "bif"), (3, "if"), (0.5, "f")])
def test_python_scalars_are_weak(scalar: Any, kinds: str) -> None:
    for dtype in dtypes.ALL:
        kind = "b" if dtype.is_bool else "i" if dtype.is_integer else "f"
        for result in (sm.maximum(one(dtype), scalar), sm.maximum(scalar, one(dtype))):
            if kind in kinds:
                assert result.dtype is dtype
            else:
                assert result.dtype is (dtypes.float32 if isinstance(scalar, float) else dtypes.int64)


def test_numpy_float64_scalars_are_weak() -> None:
    """They come out of NumPy's functions without being asked for: `x * np.sqrt(2)` stays float32."""
    for dtype in dtypes.FLOATS:
        for result in (one(dtype) * np.sqrt(2), np.sqrt(2) * one(dtype), sm.add(np.float64(1), one(dtype))):
            assert result.dtype is dtype
    assert (one(dtypes.int8) + np.float64(1)).dtype is dtypes.float32
    assert sm.result_type(sm.float16, np.float64(1)) is sm.float16
    assert one(dtypes.float32).at[0].set(np.float64(2)).dtype is dtypes.float32
    assert sm.asarray(np.float64(1)).dtype is sm.result_type(np.float64(1)) is sm.float64  # on its own
    assert sm.can_cast(np.float64(1), sm.float64)


def test_other_numpy_scalars_are_tensors_of_their_own_dtype() -> None:
    assert sm.add(one(dtypes.float16), np.float32(1)).dtype is dtypes.float32
    assert sm.add(one(dtypes.int8), np.int64(1)).dtype is dtypes.int64
    with pytest.raises(ArgumentError, match="does not fit in int8"):
        sm.add(one(dtypes.int8), 300)


@pytest.mark.parametrize("kind", [bool, int, float])
def test_the_name_of_a_python_type_is_the_type(kind: type) -> None:
    assert sm.ones(2, dtype=kind.__name__).dtype is sm.ones(2, dtype=kind).dtype is sm.asarray(kind(1)).dtype

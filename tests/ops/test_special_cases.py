"""Every special case, compiled and interpreted, alone and at every place of a vector."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import smelt as sm
from smelt import dtypes
from smelt.dtypes import DType
from smelt.graph.interpret import interpret
from tests.ops.special_cases import CASES, STANDARD, Row

TEST_ALL = os.environ.get("SMELT_TEST_ALL") == "1"
VECTOR = 67  # at least twice around the widest vector, and a rest

NAMES = list(CASES)
GROUPS = [NAMES[start : start + 16] for start in range(0, len(NAMES), 16)]
SAMPLED = {dtypes.float32: 0, dtypes.float64: 2, dtypes.float16: 1, dtypes.bfloat16: 3}  # dtype: its sampled group
PARAMETERS = [
    pytest.param(group, dtype, id=f"{number}-{dtype}", marks=() if sampled else pytest.mark.slow)
    for number, group in enumerate(GROUPS)
    for dtype in dtypes.FLOATS
    for sampled in [dtype is dtypes.float32 or SAMPLED[dtype] % len(GROUPS) == number]
]


def column(rows: list[Row], at: int, dtype: DType) -> NDArray[Any]:
    numbers = np.array([row[0][at] for row in rows]).astype(dtype.numpy)
    return np.resize(numbers, max(VECTOR, len(rows) + 1))


def agrees(got: Any, wanted: float | bool, dtype: DType) -> bool:
    """Zeros agree in sign; other numbers may be off by one unit of the last place."""
    if isinstance(wanted, bool):
        return bool(got) is wanted
    value = float(got)
    if np.isnan(wanted) or np.isnan(value):
        return bool(np.isnan(wanted) and np.isnan(value))
    if wanted == 0 or np.isinf(wanted):
        return value == wanted and bool(np.signbit(value) == np.signbit(wanted))
    rounded = float(np.array(wanted).astype(dtype.numpy))
    return abs(value - rounded) <= abs(rounded) * {16: 2.0**-7, 32: 2.0**-22, 64: 2.0**-51}[dtype.bits]


@pytest.mark.parametrize(("group", "dtype"), PARAMETERS)
@pytest.mark.by_turns(3)
def test_special_cases(group: list[str], dtype: DType) -> None:
    checks: list[tuple[str, Row, int, sm.Tensor]] = []
    for name in group:
        rows, function = CASES[name], getattr(sm, name)
        columns = [column(rows, at, dtype) for at in range(len(rows[0][0]))]
        vector = function(*(sm.from_numpy(c) for c in columns))
        checks += [(name, rows[at % len(rows)], at, vector) for at in range(columns[0].size)]
        # one row alone is a kernel without vectors, the same for all rows
        alone = rows if TEST_ALL else rows[::5]
        for row in alone:
            scalars = [np.array(x).astype(dtype.numpy) for x in row[0]]
            checks.append((name, row, -1, function(*(sm.from_numpy(x) for x in scalars))))
    tensors = list({id(tensor): tensor for *_, tensor in checks}.values())
    interpreted = interpret([t._node for t in tensors], lambda leaf: leaf.attribute.numpy())
    by_reference = {id(t): value for t, value in zip(tensors, interpreted, strict=True)}
    sm.realize(*tensors)
    by_compiler = {id(t): t.numpy() for t in tensors}
    wrong = [
        f"{level} {name}{row[0]} at {at} gives {got}, not {row[1]}"
        for name, row, at, tensor in checks
        for level, values in (("compiled", by_compiler), ("interpreted", by_reference))
        for got in [values[id(tensor)][at] if at >= 0 else values[id(tensor)][()]]
        if not agrees(got, row[1], dtype)
    ]
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong[:20])


# What the standard leaves without special cases, or what is no function of floats.
NO_CASES = {"clip", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert", "bitwise_left_shift"}
NO_CASES |= {"bitwise_right_shift"}


def test_the_whole_list_of_the_standard_exists_and_has_its_cases() -> None:
    assert [name for name in STANDARD if not callable(getattr(sm, name, None))] == []
    assert [name for name in STANDARD if name not in CASES and name not in NO_CASES] == []

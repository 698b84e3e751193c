"""Functions that answer with a dtype, a shape or a verdict, not with a tensor: what they refuse.

What they answer is tested with the array API and in `tests/tensor`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import smelt as sm
from smelt import dtypes
from smelt.errors import ArgumentError, DTypeError, ShapeError
from tests.ops.spec import OpSpec, Wrong, wrong, zeros


def question(name: str, *errors: Wrong) -> OpSpec:
    def unanswered(*_: Any) -> Any:
        raise AssertionError("there are no samples")

    return OpSpec(name, unanswered, lambda dtype: [], (dtypes.float32,), errors=errors)


QUESTIONS = [
    question(
        "finfo",
        wrong(DTypeError, "int8 is not a float dtype", sm.int8),
        wrong(DTypeError, "bool is not a float dtype", np.array([True])),
        wrong(DTypeError, "'complex256' is not a dtype that smelt has", "complex256"),
    ),
    question(
        "iinfo",
        wrong(DTypeError, "float32 is not an integer dtype", zeros(2)),
        wrong(DTypeError, "bool is not an integer dtype", sm.bool),
        wrong(DTypeError, "None is not a dtype that smelt has", None),
    ),
    question(
        "isdtype",
        wrong(DTypeError, "'real' is neither a dtype nor a kind of dtypes", sm.int8, "real"),
        wrong(DTypeError, "3 is neither a dtype nor a kind of dtypes", sm.int8, ("bool", "integral", 3)),
        wrong(DTypeError, "'complex256' is not a dtype that smelt has", "complex256", "numeric"),
    ),
    question(
        "result_type",
        wrong(ArgumentError, "there are no operands"),
        wrong(DTypeError, "int64 and uint64 have no common dtype", sm.int64, sm.uint64),
        wrong(DTypeError, "'text' is not a dtype that smelt has", sm.int64, "text"),
    ),
    question(
        "can_cast",
        wrong(ArgumentError, "the number 1 has no dtype of its own", 1, sm.int8),
        wrong(DTypeError, "'complex256' is not a dtype that smelt has", sm.int8, "complex256"),
        wrong(DTypeError, "None is not a dtype that smelt has", None, sm.int8),
    ),
    question(
        "broadcast_shapes",
        wrong(ShapeError, "shapes do not broadcast", (2, 3), (2,)),
        wrong(ShapeError, "negative", (2, -3)),
        wrong(ArgumentError, "not a size", (2, 0.5)),
    ),
]

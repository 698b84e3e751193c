"""Products of vectors and matrices."""

from __future__ import annotations

import numpy as np

from smelt.dtypes import DType
from smelt.errors import ArgumentError, ShapeError
from tests.ops.samples import (
    Sample,
    call,
    repeated,
    strided,
    values,
)
from tests.ops.spec import FLOATS, NUMBERS, ROUNDED, TWO_BOOLS, OpSpec, Tolerance, wrong, zeros

# --- products


def products(dtype: DType) -> list[Sample]:
    bounds = {"low": -1.0, "high": 1.0} if dtype.is_float else {}
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 5)),
        ((2, 3), (3, 5)),
        ((1, 1), (1, 1)),
        ((17, 31), (31, 13)),
        ((7, 2, 3), (3, 5)),
        ((2, 1, 4, 3), (5, 3, 2)),
        ((3,), (2, 3, 4)),
        ((2, 4, 3), (3,)),
        ((0, 3), (3, 2)),
        ((2, 0), (0, 3)),
        ((2, 0, 3), (2, 3, 4)),
        ((65, 64), (64, 33)),
    ]
    calls = [call(values(dtype, *a, **bounds), values(dtype, *b, **bounds)) for a, b in shapes]
    return [
        *calls,
        call(strided(dtype, 5, 7, **bounds), strided(dtype, 7, 3, **bounds).copy("F")),
        call(repeated(dtype, 3, 4), values(dtype, 4, 2)),
    ]


MATMUL_ERRORS = (
    wrong(
        ShapeError,
        "inner sizes differ\n    (32, 784) @ (512, 10)\n         ^^^     ^^^",
        zeros(32, 784),
        zeros(512, 10),
    ),
    wrong(ShapeError, "an operand is a scalar", zeros(), zeros(3)),
    wrong(ShapeError, "shapes do not broadcast", zeros(2, 3, 4), zeros(3, 4, 5)),
    TWO_BOOLS,
)
PRODUCT = Tolerance(ulps=8, epsilons=16)

PRODUCTS = [
    OpSpec("matmul", np.matmul, products, NUMBERS, tolerance=PRODUCT, errors=MATMUL_ERRORS),
    OpSpec(
        "vecdot",
        lambda x, y, axis=-1, dim=None: np.sum(np.moveaxis(x, dim or axis, -1) * np.moveaxis(y, dim or axis, -1), -1),
        lambda dtype: [
            call(values(dtype, 3, 5), values(dtype, 5)),
            call(values(dtype, 4, 1, 3), values(dtype, 2, 3)),
            call(values(dtype, 7), values(dtype, 7), axis=0),
        ],
        FLOATS,
        tolerance=Tolerance(ulps=8, epsilons=64),
        errors=[wrong(ShapeError, "inner sizes differ", zeros(2), zeros(3))],
    ),
    OpSpec(
        "outer",
        np.outer,
        lambda dtype: [call(values(dtype, 3), values(dtype, 5)), call(values(dtype, 0), values(dtype, 5))],
        NUMBERS,
        tolerance=ROUNDED,
        errors=[wrong(ArgumentError, "both must be vectors", zeros(2, 2), zeros(2))],
    ),
    OpSpec(
        "tensordot",
        np.tensordot,
        lambda dtype: [
            call(values(dtype, 2, 3, 5), values(dtype, 3, 5, 4)),
            call(values(dtype, 2, 3), values(dtype, 3, 5), axes=1),
            call(values(dtype, 2), values(dtype, 3), axes=0),
            call(values(dtype, 2, 3, 5), values(dtype, 5, 2), axes=((0, 2), (1, 0))),
        ],
        FLOATS,
        tolerance=Tolerance(ulps=8, epsilons=256),
        errors=[wrong(ArgumentError, "two lists of the same length", zeros(2), zeros(2), axes=((0,), ()))],
    ),
]

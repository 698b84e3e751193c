"""Products of vectors and matrices."""

from __future__ import annotations

import numpy as np

from smelt.dtypes import DType
from smelt.errors import ArgumentError, AxisError, DTypeError, ShapeError
from tests.ops.samples import (
    Array,
    Sample,
    call,
    repeated,
    strided,
    values,
)
from tests.ops.spec import FLOATS, NUMBERS, ROUNDED, TWO_BOOLS, OpSpec, Tolerance, wrong, zeros

# --- products


def small(dtype: DType, *shape: int) -> Array:
    return values(dtype, *shape, low=-1.0, high=1.0) if dtype.is_float else values(dtype, *shape)


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
        errors=[
            wrong(ShapeError, "inner sizes differ", zeros(2), zeros(3)),
            wrong(AxisError, "out of range", zeros(2), zeros(2), 1),
            wrong(AxisError, "out of range", zeros(), zeros(2)),
            TWO_BOOLS,
        ],
    ),
    OpSpec(
        "dot",
        np.dot,
        lambda dtype: [
            call(values(dtype, 5), values(dtype, 5)),
            call(values(dtype, 2, 3), values(dtype, 3)),
            call(values(dtype, 3), values(dtype, 3, 4)),
            call(values(dtype, 2, 3), values(dtype, 3, 4)),
            call(values(dtype, 2, 1, 3), values(dtype, 4, 3, 5)),
            call(values(dtype), values(dtype, 3)),
        ],
        NUMBERS,
        tolerance=PRODUCT,
        errors=[
            wrong(ShapeError, "dot: inner sizes differ\n    (2,) with (3,)", zeros(2), zeros(3)),
            wrong(ShapeError, "dot: inner sizes differ\n    (2, 3) with (2, 3)", zeros(2, 3), zeros(2, 3)),
            TWO_BOOLS,
        ],
    ),
    OpSpec(
        "outer",
        np.outer,
        lambda dtype: [call(values(dtype, 3), values(dtype, 5)), call(values(dtype, 0), values(dtype, 5))],
        NUMBERS,
        tolerance=ROUNDED,
        errors=[
            wrong(ArgumentError, "outer: ranks 2 and 1", zeros(2, 2), zeros(2)),
            wrong(ArgumentError, "outer: ranks 1 and 0", zeros(2), zeros()),
            TWO_BOOLS,
        ],
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
        errors=[
            wrong(ArgumentError, "two lists of the same length", zeros(2), zeros(2), axes=((0,), ())),
            wrong(ArgumentError, "two lists of the same length, got (0, 0)", zeros(2), zeros(2), axes=(0, 0)),
            wrong(ArgumentError, "3 axes for tensors of rank 1 and 1", zeros(2), zeros(2), axes=3),
            wrong(ShapeError, "inner sizes differ", zeros(2, 3), zeros(2, 3), axes=1),
        ],
    ),
    OpSpec(
        "inner",
        np.inner,
        lambda dtype: [
            call(small(dtype, 3), small(dtype, 3)),
            call(small(dtype, 2, 5), small(dtype, 4, 3, 5)),
            call(strided(dtype, 3, 7, low=-1, high=1), small(dtype, 7)),
            call(small(dtype), small(dtype, 3)),
            call(small(dtype, 2, 0), small(dtype, 3, 0)),
        ],
        NUMBERS,
        tolerance=PRODUCT,
        errors=[
            wrong(ShapeError, "inner: inner sizes differ", zeros(2), zeros(3)),
            TWO_BOOLS,
            wrong(DTypeError, "inner: uint64 and int64 have no common dtype", np.uint64([1]), np.int64([1])),
            wrong(DTypeError, "inner: no tensor can hold elements of the NumPy dtype <U4", zeros(2), "text"),
        ],
    ),
    OpSpec(
        "kron",
        np.kron,
        lambda dtype: [
            call(values(dtype, 3), values(dtype, 5)),
            call(values(dtype, 2, 3), strided(dtype, 5, 2)),
            call(values(dtype, 2, 3), values(dtype, 2)),
            call(values(dtype), values(dtype, 2, 3)),
            call(values(dtype, 0), values(dtype, 3)),
        ],
        NUMBERS,
        tolerance=ROUNDED,
        errors=[
            TWO_BOOLS,
            wrong(DTypeError, "kron: no tensor can hold", zeros(2), object()),
            wrong(DTypeError, "no common dtype", np.array([1], np.int64), np.array([1], np.uint64)),
        ],
    ),
]


def einsums(dtype: DType) -> list[Sample]:
    square, cube = small(dtype, 4, 4), small(dtype, 3, 3, 3)
    return [
        call("ij,jk->ik", small(dtype, 3, 5), small(dtype, 5, 7)),
        call("ij,jk", small(dtype, 3, 5), small(dtype, 5, 7)),
        call("ji", small(dtype, 3, 5)),
        call("ij->", small(dtype, 3, 5)),
        call("ii", square),
        call("ii->i", square),
        call("iij->ji", small(dtype, 4, 4, 3)),
        call("iii->i", cube),
        call("iji->j", cube),
        call("i,j->ij", small(dtype, 3), small(dtype, 4)),
        call("i,i->", small(dtype, 7), small(dtype, 7)),
        call("ij,ij->ij", square, strided(dtype, 4, 4, low=-1, high=1)),
        call("...ij,...jk->...ik", small(dtype, 2, 1, 3, 4), small(dtype, 5, 4, 2)),
        call("i...,i...", small(dtype, 3, 2), small(dtype, 3, 2)),
        call("...i->...", small(dtype, 2, 3, 4)),
        call("...", small(dtype, 2, 3)),
        call("ab,bc,cd,de->ae", small(dtype, 2, 3), small(dtype, 3, 5), small(dtype, 5, 2), small(dtype, 2, 7)),
        call("bhqd,bhkd->bhqk", small(dtype, 2, 3, 4, 5), small(dtype, 2, 3, 6, 5)),
        call("ij,kj,lj->ikl", small(dtype, 2, 3), small(dtype, 4, 3), small(dtype, 5, 3)),
        call("ij,kl->ik", small(dtype, 2, 3), small(dtype, 4, 5)),
        call("ij,j->i", small(dtype, 2, 3), small(dtype, 1)),
        call("ij,ji->", small(dtype, 2, 0), small(dtype, 0, 2)),
        call(",i->i", small(dtype), small(dtype, 3)),
        call(" i j , j -> i ", small(dtype, 2, 3), small(dtype, 3)),
        call("ii,jj->ij", square, small(dtype, 3, 3)),
    ]


PRODUCTS_BY_LABELS = [
    OpSpec(
        "einsum",
        lambda subscripts, *xs: np.einsum(subscripts, *xs, dtype=np.result_type(*xs)),
        einsums,
        NUMBERS,
        tolerance=Tolerance(ulps=8, epsilons=32),
        errors=[
            wrong(ArgumentError, "has 2 operands, 1 are given", "ij,jk->ik", zeros(2, 2)),
            wrong(ShapeError, "'ij' names 2 axes, the operand has shape (2,)", "ij->i", zeros(2)),
            wrong(ShapeError, "label 'j' has the sizes 3 and 4", "ij,jk->ik", zeros(2, 3), zeros(4, 5)),
            wrong(ArgumentError, "label 'k' of the result is in no operand", "ij->k", zeros(2, 2)),
            wrong(ArgumentError, "label 'i' is twice in the result", "ij->ii", zeros(2, 2)),
            wrong(ArgumentError, "is not made of letters", "i1->i", zeros(2, 2)),
            wrong(ArgumentError, "the result has no '...'", "...i->i", zeros(2, 2)),
            wrong(ArgumentError, "must be a string", zeros(2), zeros(2)),
            wrong(ArgumentError, "there are no operands", "i"),
            wrong(DTypeError, "bool is not supported", "i->", np.array([True])),
        ],
    ),
]

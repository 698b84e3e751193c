"""Functions that move elements, join tensors and take them apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from smelt.dtypes import DType
from smelt.errors import ArgumentError, AxisError, DTypeError, IndexRangeError, ShapeError
from tests.ops.samples import (
    Array,
    Sample,
    Samples,
    call,
    strided,
    values,
)
from tests.ops.spec import (
    ALL,
    AXIS_2,
    AXIS_TWICE,
    BOTH_AXES,
    MISMATCH,
    OpSpec,
    Wrong,
    not_tensors,
    wrong,
    zeros,
)

# --- movement


def moved(name: str, reference: Callable[..., Any], samples: Samples, *errors: Wrong) -> OpSpec:
    return OpSpec(name, reference, samples, ALL, errors=errors)


def cases(*arguments: Sample, shape: tuple[int, ...] = (2, 3, 5)) -> Samples:
    """The same arguments for a contiguous and a strided tensor."""

    def samples(dtype: DType) -> list[Sample]:
        return [
            call(x, *sample.args, **sample.kwargs)
            for x in (values(dtype, *shape), strided(dtype, *shape))
            for sample in arguments
        ]

    return samples


def axes_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function, which has no `dim`."""
    return lambda x, axis=None, dim=None: function(x, axis if dim is None else dim)


def squeezes(dtype: DType) -> list[Sample]:
    x = values(dtype, 1, 3, 1, 2)
    return [call(x), call(x, 0), call(x, axis=(0, 2)), call(x, dim=-2), call(values(dtype)), call(values(dtype, 1, 1))]


def pads(dtype: DType) -> list[Sample]:
    x = strided(dtype, 3, 5)
    return [
        call(x, 1),
        call(x, (2, 0)),
        call(x, [(0, 3), (1, 2)]),
        call(x, ((0, 0), (0, 0))),
        call(x, [(1, 1), (0, 2)], value=1),
        call(values(dtype, 0, 2), 1),
        call(values(dtype), 3),
        call(values(dtype, 1), [(7, 0)]),
    ]


def padded(x: Array, widths: Any, mode: str = "constant", value: Any = 0) -> Array:
    if mode != "constant":
        return np.pad(x, widths, {"replicate": "edge", "circular": "wrap"}.get(mode, mode))
    return np.pad(x, widths, constant_values=value) if x.ndim else x


def modes(dtype: DType) -> list[Sample]:
    x = strided(dtype, 3, 5)
    names = ("reflect", "symmetric", "edge", "replicate", "wrap", "circular")
    return [
        *(call(x, [(1, 2), (4, 0)], mode) for mode in names),
        *(call(values(dtype, 2, 3), [(0, 9), (8, 1)], mode) for mode in names),
        *(call(values(dtype, 1), 3, mode) for mode in names),
        call(values(dtype, 0, 2), [(0, 0), (1, 1)], "edge"),
    ]


def flattened(x: Array, start_axis: int = 0, end_axis: int = -1) -> Array:
    if not x.ndim:
        return x.reshape(1)
    first, last = start_axis % x.ndim, end_axis % x.ndim
    return x.reshape(*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :])


def expanded(x: Array, *shape: Any) -> Array:
    sizes = list(shape[0] if isinstance(shape[0], tuple) else shape)
    for axis in range(1, x.ndim + 1):
        sizes[-axis] = x.shape[-axis] if sizes[-axis] == -1 else sizes[-axis]
    return np.broadcast_to(x, sizes)


def triangles(dtype: DType) -> list[Sample]:
    return [call(values(dtype, 2, 5, 3), k) for k in (0, 1, -2, 9)] + [
        call(values(dtype, 4, 4)),
        call(values(dtype, 0, 3)),
    ]


TRIANGLE_ERRORS = (
    wrong(ShapeError, "shape (3,) has rank 1", zeros(3)),
    wrong(ShapeError, "shape () has rank 0", zeros()),
    wrong(ArgumentError, "k must be an integer", zeros(2, 2), 0.5),
)

MOVEMENT = [
    moved(
        "reshape",
        lambda x, *shape: x.reshape(*shape),
        lambda dtype: [
            *cases(call((6, 5)), call(-1), call(5, -1, 2), call((1, 30, 1)))(dtype),
            call(values(dtype), (1, 1)),
            call(values(dtype, 0, 3), (3, 0, 2)),
            call(values(dtype, 1), ()),
        ],
        wrong(ShapeError, "the number of elements changes", zeros(2, 3), (4, 2)),
        wrong(ShapeError, "only one size can be inferred", zeros(2, 3), (-1, -1)),
        wrong(ShapeError, "no size fits in place of -1", zeros(2, 3), (4, -1)),
        wrong(ShapeError, "negative", zeros(2, 3), (-2, -3)),
        wrong(ArgumentError, "not a size", zeros(2, 3), (2.0, 3)),
    ),
    moved(
        "flatten",
        flattened,
        lambda dtype: [
            *cases(call(), call(1), call(0, 1), call(1, 1))(dtype),
            call(values(dtype)),
            call(values(dtype, 0)),
        ],
        wrong(AxisError, "comes before", zeros(2, 3), 1, 0),
        wrong(AxisError, "out of range", zeros(2, 3), 2),
        wrong(ArgumentError, "must be an integer", zeros(2, 3), 0.5),
    ),
    moved(
        "ravel",
        np.ravel,
        lambda dtype: [*cases(call())(dtype), call(values(dtype)), call(values(dtype, 3, 0))],
        *not_tensors("ravel"),
    ),
    moved(
        "unflatten",
        lambda x, axis, sizes: x.reshape(*x.shape[: axis % x.ndim], *sizes, *x.shape[axis % x.ndim + 1 :]),
        lambda dtype: [
            *cases(call(0, (1, 2)), call(-1, [5, 1]), call(1, (3,)))(dtype),
            call(values(dtype, 2, 12), 1, (2, -1, 3)),
        ],
        wrong(ShapeError, "the number of elements changes", zeros(2, 6), 1, (2, 2)),
        wrong(AxisError, "out of range", zeros(2, 6), 2, (2, 3)),
        wrong(ArgumentError, "must be a list or tuple", zeros(2, 6), 1, 6),
    ),
    *(
        moved(
            f"atleast_{rank}d",
            getattr(np, f"atleast_{rank}d"),
            lambda dtype: (
                [call(values(dtype, *(2, 3, 4, 5)[:n])) for n in range(5)]
                + [call(values(dtype), strided(dtype, 3), values(dtype, 2, 2))]
            ),
            wrong(ArgumentError, f"atleast_{rank}d: there are no tensors"),
            wrong(DTypeError, f"atleast_{rank}d: no tensor can hold <object object", object()),
            wrong(DTypeError, f"atleast_{rank}d: no tensor can hold elements of the NumPy dtype <U4", zeros(2), "text"),
        )
        for rank in (1, 2, 3)
    ),
    moved(
        "squeeze",
        axes_of(np.squeeze),
        squeezes,
        wrong(ShapeError, "axis 1 of shape (1, 3) has size 3", zeros(1, 3), 1),
        wrong(AxisError, "out of range", zeros(1, 3), 2),
        wrong(ArgumentError, "axis and dim are the same argument", zeros(1, 3), 0, dim=0),
    ),
    moved(
        "expand_dims",
        lambda x, axis=None, dim=None: np.expand_dims(
            x, 0 if axis is None and dim is None else dim if axis is None else axis
        ),
        cases(call(), call(0), call(-1), call(axis=(0, 2)), call(dim=3)),
        wrong(AxisError, "axis 4 is out of range", zeros(2, 3, 4), 4),
        wrong(AxisError, "twice", zeros(2, 3), (0, 0)),
        wrong(ArgumentError, "must be an integer", zeros(2, 3), "first"),
    ),
    moved(
        "permute_dims",
        lambda x, *axes: np.transpose(x, axes[0] if isinstance(axes[0], tuple) else axes),
        cases(call((2, 0, 1)), call(0, 2, 1), call((0, 1, 2)), call((-1, 0, 1))),
        wrong(AxisError, "twice", zeros(2, 3), (0, 0)),
        wrong(ArgumentError, "1 axes given for a tensor of rank 2", zeros(2, 3), (0,)),
        wrong(AxisError, "out of range", zeros(2, 3), (0, 2)),
    ),
    moved(
        "transpose",
        lambda x, *axes: np.transpose(x, axes or None),
        cases(call(), call(1, 2, 0)),
        wrong(AxisError, "twice", zeros(2, 3), 0, 0),
        wrong(ArgumentError, "1 axes given for a tensor of rank 2", zeros(2, 3), 0),
        wrong(AxisError, "out of range", zeros(2, 3), 0, 2),
    ),
    moved(
        "matrix_transpose",
        lambda x: np.swapaxes(x, -1, -2),
        cases(call()),
        wrong(ShapeError, "at least two axes", zeros(3)),
        wrong(ShapeError, "at least two axes", zeros()),
        *not_tensors("matrix_transpose"),
    ),
    moved(
        "swapaxes",
        np.swapaxes,
        cases(call(0, 2), call(-1, 1), call(1, 1)),
        wrong(AxisError, "swapaxes: axis 1 is out of range", zeros(3), 0, 1),
        wrong(AxisError, "swapaxes: axis -2 is out of range", zeros(3), -2, 0),
        wrong(ArgumentError, "swapaxes: an axis must be an integer, got None", zeros(3, 2), 0, None),
    ),
    moved(
        "moveaxis",
        np.moveaxis,
        cases(call(0, -1), call((0, 1), (1, 2)), call(2, 0)),
        wrong(ArgumentError, "2 source axes and 1 destinations", zeros(2, 3), (0, 1), 0),
        wrong(AxisError, "out of range", zeros(2, 3), 0, 2),
        wrong(AxisError, "twice", zeros(2, 3), (0, 0), (0, 1)),
    ),
    moved(
        "rot90",
        np.rot90,
        cases(call(), call(2), call(3, (1, 2)), call(-1, (2, 0)), call(4)),
        wrong(ArgumentError, "two axes", zeros(2, 3), 1, (0,)),
        wrong(AxisError, "out of range", zeros(2, 3), 1, (0, 2)),
        wrong(AxisError, "twice", zeros(2, 3), 1, (0, 0)),
        wrong(ArgumentError, "must be an integer", zeros(2, 3), 0.5),
    ),
    moved(
        "diagonal",
        lambda x, offset=0, axis1=-2, axis2=-1: np.diagonal(x, offset, axis1, axis2),
        lambda dtype: [
            *cases(call(), call(1), call(-2), call(2, 0, 1), call(0, 2, 0), call(9), call(-9))(dtype),
            call(values(dtype, 0, 3)),
        ],
        wrong(ShapeError, "at least 2", zeros(3)),
        wrong(AxisError, "twice", zeros(2, 3), 0, 1, -1),
        wrong(ArgumentError, "offset must be an integer", zeros(2, 3), 0.5),
    ),
    moved(
        "diag",
        np.diag,
        lambda dtype: [
            call(values(dtype, 3)),
            call(values(dtype, 3), 2),
            call(strided(dtype, 5), -1),
            call(strided(dtype, 3, 5), 1),
            call(values(dtype, 0)),
            call(values(dtype, 1)),
        ],
        wrong(ShapeError, "diag: shape (2, 2, 2) has rank 3", zeros(2, 2, 2)),
        wrong(ShapeError, "diag: shape () has rank 0", zeros()),
        wrong(ArgumentError, "k must be an integer", zeros(2), 1.5),
    ),
    moved(
        "flip", axes_of(np.flip), cases(call(), call(0), call(axis=(0, -1)), call(dim=1)), AXIS_TWICE, AXIS_2, BOTH_AXES
    ),
    moved(
        "roll",
        lambda x, shift, axis=None, dim=None: np.roll(x, shift, axis if dim is None else dim),
        lambda dtype: [
            *cases(call(1), call(-7), call(2, 1), call((1, 2), axis=(0, 2)), call(100, dim=-1))(dtype),
            call(values(dtype, 0), 3),
        ],
        wrong(ArgumentError, "2 shifts for 3 axes", zeros(1, 2, 3), (1, 2), (0, 1, 2)),
        wrong(ArgumentError, "a shift must be an integer", zeros(3), 0.5),
        wrong(AxisError, "out of range", zeros(3), 1, 1),
    ),
    moved(
        "broadcast_to",
        np.broadcast_to,
        lambda dtype: [
            call(values(dtype, 3, 1), (2, 3, 5)),
            call(values(dtype), (3, 0)),
            call(values(dtype, 1), (0,)),
            call(strided(dtype, 1, 7), (5, 7)),
        ],
        wrong(ShapeError, "only axes of size 1 can grow", zeros(2), (3,)),
        wrong(ShapeError, "the rank cannot shrink", zeros(2, 3), (3,)),
        wrong(ShapeError, "negative", zeros(1), (-1,)),
    ),
    moved(
        "expand",
        expanded,
        lambda dtype: [
            call(values(dtype, 3, 1), 2, -1, 5),
            call(values(dtype, 1, 4), (7, -1)),
            call(values(dtype), (3,)),
        ],
        wrong(ShapeError, "only axes of size 1 can grow", zeros(2), 3),
        wrong(ShapeError, "the rank cannot shrink", zeros(2, 3), 3),
        wrong(ShapeError, "negative", zeros(2), -1, 2),
    ),
    moved(
        "tile",
        lambda x, *counts: np.tile(x, counts[0] if isinstance(counts[0], tuple) else counts),
        cases(call(2), call((2, 1, 3)), call(2, 1, 1, 2), call((0,))),
        wrong(ArgumentError, "must not be negative", zeros(2), -1),
        wrong(ArgumentError, "must be an integer, got 1.5", zeros(2), 1.5),
        wrong(ArgumentError, "must be an integer, got 'two'", zeros(2), (2, "two")),
    ),
    moved(
        "repeat",
        lambda x, repeats, axis=None, dim=None: np.repeat(x, repeats, axis if dim is None else dim),
        cases(
            *(call(2), call(3, axis=1), call(1, dim=-1), call(0, axis=0)),
            *(
                call([2, 0, 1], axis=1),
                call((3, 1), axis=0),
                call([1, 0, 2, 1, 1], dim=-1),
                call([2], axis=1),
                call([True, False, True], axis=1),
                call(np.array([False, True]), axis=0),
                call(True),
            ),
        ),
        wrong(ArgumentError, "must be an integer", zeros(2), 1.5),
        wrong(ArgumentError, "must be an integer, got 0.5", zeros(2), [1, 0.5]),
        wrong(ShapeError, "repeat: 3 counts for axis 0 of shape (2,)", zeros(2), [1, 2, 3]),
        wrong(ShapeError, "counts of shape (1, 2)", zeros(2), np.array([[1, 2]])),
        wrong(ArgumentError, "must not be negative", zeros(2), -1),
        wrong(AxisError, "out of range", zeros(2), 2, 1),
    ),
    moved(
        "pad",
        padded,
        lambda dtype: [*pads(dtype), *modes(dtype)],
        wrong(ArgumentError, "there is no mode 'mirror'", zeros(3), 1, "mirror"),
        wrong(ArgumentError, "there is no mode ['edge']", zeros(3), 1, ["edge"]),
        wrong(ShapeError, "there is nothing to repeat", zeros(0), 1, "wrap"),
        wrong(ArgumentError, "a width is negative", zeros(3), (-1, 0), "edge"),
        wrong(ArgumentError, "do not fit rank 2", zeros(2, 3), [(1, 1)] * 3),
        wrong(ArgumentError, "a width is negative", zeros(2, 3), -1),
        wrong(ArgumentError, "does not fit in uint8", np.uint8([1]), 1, value=-1),
    ),
    moved("tril", np.tril, triangles, *TRIANGLE_ERRORS),
    moved("triu", np.triu, triangles, *TRIANGLE_ERRORS),
    moved(
        "Tensor.__getitem__",
        lambda x, key: x[key],
        lambda dtype: [
            *cases(
                call(1),
                call(-1),
                call((slice(None), 2)),
                call((Ellipsis, -1)),
                call((1, Ellipsis, slice(None, None, -2))),
                call((None, slice(1, 2), None, 0)),
                call((slice(None, None, -1), slice(2, None, -1), slice(1, 100, 3))),
                call((slice(5, 1), slice(-2, None), slice(None, None, 7))),
                call((0, 1, 2)),
                call((np.int64(1), np.uint8(2))),
                call(()),
                call([1, 0, -1]),
                call((slice(None), np.array([[2, 0], [1, -3]]))),
                call((0, slice(None), [4, 0])),
                call((np.array([0, 1]), Ellipsis, np.array([3]))),
                call((slice(None, None, -1), None, np.int8([0, 2, 2]), np.uint8([[1], [4]]))),
                call((slice(1), np.array([True, False, True]))),
                call(np.arange(30).reshape(2, 3, 5) % 3 == 0),
                call((1, np.arange(15).reshape(3, 5) % 2 == 0, None)),
                call(True),
                call((np.array([], int), False)),
            )(dtype),
            call(values(dtype), Ellipsis),
            call(values(dtype), (None, None)),
            call(values(dtype, 0, 3), (slice(None), 1)),
        ],
        wrong(IndexRangeError, "index 2 is out of range for axis 0\n    (2, 3)\n     ^", zeros(2, 3), 2),
        wrong(IndexRangeError, "index -4 is out of range for axis 1", zeros(2, 3), (0, -4)),
        wrong(IndexRangeError, "3 indices for shape (2, 3)", zeros(2, 3), (0, 0, 0)),
        wrong(ArgumentError, "step of a slice must not be 0", zeros(2, 3), slice(None, None, 0)),
        wrong(ArgumentError, "more than one ellipsis", zeros(2, 3), (Ellipsis, Ellipsis)),
        wrong(IndexRangeError, "index 2 is out of range for axis 0\n    (2, 3)\n     ^", zeros(2, 3), [0, 2]),
        wrong(ArgumentError, "an array of float64 cannot be used as an index", zeros(2, 3), [0.5]),
        wrong(ArgumentError, "a tensor of float32 cannot be used as an index", zeros(2, 3), zeros(2)),
        wrong(ShapeError, "a mask must have the shape of the axes", zeros(2, 3), np.array([True, False, True])),
        wrong(ShapeError, "shapes do not broadcast", zeros(2, 3), ([0, 1], [0, 1, 2])),
        wrong(ArgumentError, "a dict cannot be used as an index", zeros(2, 3), {}),
        wrong(ArgumentError, "float 0.5 cannot be used as an index", zeros(2, 3), 0.5),
    ),
]

# --- joining


def joins(dtype: DType) -> list[Sample]:
    a, b, empty = values(dtype, 2, 3), strided(dtype, 2, 3), values(dtype, 0, 3)
    return [
        call([a, b]),
        call([a, empty, b]),
        call((a, b), axis=1),
        call([a, b], axis=None),
        call([a], -1),
        call([a, a, a], dim=1),
    ]


def joined(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda xs, axis=0, dim=None: function(xs, axis if dim is None else dim)


def stacks(dtype: DType) -> list[Sample]:
    a, b = values(dtype, 2, 3), strided(dtype, 2, 3)
    scalar = values(dtype)
    return [call([a, b]), call([a, b], axis=-1), call((a, b, a), dim=1), call([scalar, scalar]), call([a])]


def chunks(x: Array, count: int, axis: Any = None, dim: Any = None) -> list[Array]:
    axis = (0 if dim is None else dim) if axis is None else axis
    step = max(1, -(-x.shape[axis] // count))
    return np.split(x, range(step, x.shape[axis], step), axis)


JOINING = [
    moved(
        "concat",
        joined(np.concatenate),
        joins,
        wrong(ShapeError, "do not fit together", [zeros(2, 3), zeros(2, 4)]),
        wrong(AxisError, "out of range", [zeros(2), zeros(2)], axis=1),
        wrong(ArgumentError, "nothing to join", []),
        wrong(ArgumentError, "in a list or tuple", zeros(2)),
        wrong(ArgumentError, "axis and dim are the same argument", [zeros(2, 3), zeros(2, 3)], axis=1, dim=0),
    ),
    moved(
        "stack",
        joined(np.stack),
        stacks,
        wrong(ShapeError, "differ in shape", [zeros(2), zeros(3)]),
        wrong(AxisError, "out of range", [zeros(2), zeros(2)], axis=2),
        wrong(ArgumentError, "nothing to join", []),
        wrong(ArgumentError, "axis and dim are the same argument", [zeros(2), zeros(2)], axis=1, dim=0),
    ),
    *(
        moved(
            name,
            getattr(np, name),
            lambda dtype, name=name: [  # type: ignore[misc]
                call([values(dtype, 3), strided(dtype, 3)]),
                call([values(dtype), values(dtype)]),
                call((strided(dtype, 2, 3), values(dtype, 2, 3), values(dtype, 2, 3))),
                *([] if name == "column_stack" else [call([values(dtype, 2, 3, 4), strided(dtype, 2, 3, 4)])]),
            ],
            wrong(ArgumentError, "nothing to join", []),
            wrong(ArgumentError, "in a list or tuple", zeros(2)),
            wrong(ShapeError, f"{name}: tensors 0 and 1 do not fit together", [zeros(2, 3, 4), zeros(3, 4, 5)]),
        )
        for name in ("vstack", "hstack", "dstack", "column_stack")
    ),
    moved(
        "array_split",
        lambda x, where, axis=0, dim=None: np.array_split(x, where, axis if dim is None else dim),
        cases(call(2), call(3, axis=2), call(7, 1), call([1, 3], axis=2), call((4, 2, -1), dim=2)),
        wrong(ArgumentError, "at least 1", zeros(3), 0),
        wrong(AxisError, "out of range", zeros(3), 2, 1),
        wrong(ArgumentError, "must be an integer, got 1.5", zeros(3), 1.5),
        wrong(ArgumentError, "array_split: an index must be an integer, got 'a'", zeros(3), ["a"]),
    ),
    moved(
        "unstack",
        lambda x, axis=0, dim=None: list(np.moveaxis(x, axis if dim is None else dim, 0)),
        lambda dtype: [*cases(call(), call(axis=1), call(dim=-1))(dtype), call(values(dtype, 0, 3))],
        wrong(AxisError, "axis 0 is out of range for a tensor of rank 0", zeros()),
        wrong(AxisError, "axis 2 is out of range for a tensor of rank 2", zeros(2, 3), 2),
        wrong(ArgumentError, "an axis must be an integer, got 'first'", zeros(2, 3), "first"),
        wrong(ArgumentError, "axis and dim are the same argument", zeros(2, 3), 1, dim=0),
    ),
    moved(
        "split",
        lambda x, where, axis=0, dim=None: np.split(x, where, axis if dim is None else dim),
        cases(call(2), call(3, axis=1), call([1, 3], axis=2), call([], axis=1), call((4, 2, -1), dim=2)),
        wrong(ShapeError, "do not make 2 equal parts", zeros(3), 2),
        wrong(AxisError, "out of range", zeros(3), 3, 1),
        wrong(ArgumentError, "the number of parts must be an integer", zeros(3), 1.5),
    ),
    moved(
        "chunk",
        chunks,
        cases(call(1), call(2, axis=1), call(2, 2), call(9, dim=2)),
        wrong(ArgumentError, "at least 1", zeros(3), 0),
        wrong(AxisError, "out of range", zeros(3), 3, 1),
        wrong(ArgumentError, "must be an integer", zeros(3), 1.5),
    ),
    moved(
        "meshgrid",
        lambda *xs, indexing="xy": np.meshgrid(*xs, indexing=indexing),
        lambda dtype: [
            call(values(dtype, 2), values(dtype, 3)),
            call(values(dtype, 2), values(dtype, 3), values(dtype, 5), indexing="ij"),
            call(values(dtype, 4)),
        ],
        wrong(ArgumentError, "'xy' or 'ij'", zeros(2), indexing="ji"),
        wrong(ShapeError, "rank 2", zeros(2, 2)),
        wrong(ShapeError, "rank 0", zeros(2), zeros()),
    ),
    moved(
        "broadcast_arrays",
        lambda *xs: list(np.broadcast_arrays(*xs)),
        lambda dtype: [call(values(dtype, 3, 1), values(dtype, 4)), call(values(dtype), values(dtype, 0))],
        MISMATCH,
        wrong(ShapeError, "shapes do not broadcast", zeros(2), zeros(3), zeros(1)),
        wrong(DTypeError, "no tensor can hold", zeros(2), object()),
    ),
]

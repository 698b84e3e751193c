"""The builders: what they give, what gives the source back, and what they say when they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from smelt import dtypes
from smelt.dtypes import bool_, float16, float32, float64, int8, int32, int64, uint32
from smelt.errors import ArgumentError, AxisError, DTypeError, IndexRangeError, ShapeError, SmeltError
from smelt.graph import build, infer_reshape
from smelt.graph.index import Dim, IndexLike
from smelt.graph.node import Node, Shape, constant_value
from smelt.graph.ops import Contraction, Op, Span
from tests.graph.random_graphs import leaf

N = Dim("n", 1, 9)
M = Dim("m", 0, 9)
X = leaf(float32, (2, 3))
Y = leaf(float32, (4, 1, 3))
Z = leaf(float32, (N, 3))
EMPTY = leaf(float32, (0, 3))
I = leaf(int32, (2, 3))  # noqa: E741
B = leaf(bool_, (2, 3))
SCALAR = leaf(float32, ())
ZERO = build.const(0, float32)


@pytest.mark.parametrize(
    "same",
    [
        build.reshape(X, (2, 3)),
        build.permute(X, (0, 1)),
        build.permute(X, (-2, -1)),
        build.expand(X, (2, 3)),
        build.broadcast_to(X, (2, 3)),
        build.pad(X, [(0, 0), (0, 0)], ZERO),
        build.slice_(X, [(0, 2, 1), (0, 3, 1)]),
        build.concat([X], 0),
        build.cast(X, float32),
        build.bitcast(X, float32),
        build.reduce("add", X, []),
        build.reduce("add", X, [], keep_axes=True),
    ],
)
def test_what_changes_nothing_gives_the_source_back(same: Node) -> None:
    assert same is X


@pytest.mark.parametrize(
    ("node", "op", "shape"),
    [
        (build.iota(N, int32), Op.IOTA, (N,)),
        (build.reshape(X, (3, 2)), Op.RESHAPE, (3, 2)),
        (build.reshape(Z, (3, N)), Op.RESHAPE, (3, N)),
        (build.reshape(Z, (N * 3,)), Op.RESHAPE, (N * 3,)),
        (build.reshape(EMPTY, (7, 0)), Op.RESHAPE, (7, 0)),
        (build.reshape(SCALAR, (1, 1)), Op.RESHAPE, (1, 1)),
        (build.permute(Y, (2, 0, -2)), Op.PERMUTE, (3, 4, 1)),
        (build.expand(Y, (4, N, 3)), Op.EXPAND, (4, N, 3)),
        (build.expand(Y, (4, 0, 3)), Op.EXPAND, (4, 0, 3)),
        (build.broadcast_to(X, (5, 2, 3)), Op.EXPAND, (5, 2, 3)),
        (build.broadcast_to(X, (1, 2, 3)), Op.RESHAPE, (1, 2, 3)),
        (build.pad(X, [(1, 0), (N, 2)], ZERO), Op.PAD, (3, N + 5)),
        (build.slice_(X, [(1, 2, -1), (0, 2, 2)]), Op.SLICE, (2, 2)),
        (build.slice_(Z, [(N - 1, N, -1), (0, 3, 1)]), Op.SLICE, (N, 3)),
        (build.slice_(Z, [(0, 1, 1), (0, 3, 1)]), Op.SLICE, (1, 3)),
        (build.slice_(X, [(2, 0, 1), (0, 3, 1)]), Op.SLICE, (0, 3)),
        (build.concat([X, Z, EMPTY], 0), Op.CONCAT, (N + 2, 3)),
        (build.concat([X, X], -1), Op.CONCAT, (2, 6)),
        (build.exp(X), Op.UNARY, (2, 3)),
        (build.add(X, Y), Op.BINARY, (4, 2, 3)),
        (build.add(SCALAR, Z), Op.BINARY, (N, 3)),
        (build.add(EMPTY, leaf(float32, (1, 3))), Op.BINARY, (0, 3)),
        (build.lt(X, X), Op.BINARY, (2, 3)),
        (build.where(B, ZERO, Y), Op.WHERE, (4, 2, 3)),
        (build.cast(X, int8), Op.CAST, (2, 3)),
        (build.bitcast(X, uint32), Op.BITCAST, (2, 3)),
        (build.reduce("max", Y, (-1, 0)), Op.REDUCE, (1,)),
        (build.reduce("add", Y, (2,), keep_axes=True), Op.RESHAPE, (4, 1, 1)),
        (build.reduce("min", B, (0,)), Op.REDUCE, (3,)),
    ],
)
def test_shapes(node: Node, op: Op, shape: Shape) -> None:
    assert node.op is op
    assert node.shape == shape


def test_comparisons_give_bool_and_the_rest_keeps_the_dtype() -> None:
    assert build.lt(X, X).dtype is bool_
    assert build.unary("isnan", X).dtype is bool_
    assert build.maximum(I, I).dtype is int32
    assert build.reduce("add", I, [0]).dtype is int32


def test_spans_are_kept_in_their_simplest_form() -> None:
    cut = build.slice_(X, [(1, 1, -7), (2, 0, 5)])
    assert cut.attribute == (Span(1, 1, 1), Span(0, 0, 1))
    assert build.slice_(X, [(np.int64(1), np.int64(1), np.int64(2)), (0, 3, 1)]) is build.slice_(
        X, [(1, 1, 1), (0, 3, 1)]
    )


def test_constants_expand() -> None:
    node = build.const(2.5, float32, (4, N))
    assert node.op is Op.EXPAND
    assert node.shape == (4, N)
    assert constant_value(node.sources[0].sources[0]) == 2.5


@pytest.mark.parametrize(
    ("a", "b", "labels", "shape"),
    [
        ((2, 3), (3, 4), Contraction((0, 1), (1, 2), (0, 2)), (2, 4)),
        ((3,), (3,), Contraction((0,), (0,), ()), ()),
        ((3,), (3, 4), Contraction((0,), (0, 1), (1,)), (4,)),
        ((2, 3), (3,), Contraction((0, 1), (1,), (0,)), (2,)),
        ((5, 2, 3), (3, 4), Contraction((0, 1, 2), (2, 3), (0, 1, 3)), (5, 2, 4)),
        ((5, 2, 3), (5, 3, 4), Contraction((0, 1, 2), (0, 2, 3), (0, 1, 3)), (5, 2, 4)),
        ((1, 2, 3), (5, 3, 4), Contraction((0, 1), (2, 1, 3), (2, 0, 3)), (5, 2, 4)),
        ((1, 2, 3), (1, 3, 4), Contraction((0, 1, 2), (0, 2, 3), (0, 1, 3)), (1, 2, 4)),
        ((6, 1, 2, 3), (5, 3, 4), Contraction((0, 1, 2), (3, 2, 4), (0, 3, 1, 4)), (6, 5, 2, 4)),
        ((5, 2, 3), (3,), Contraction((0, 1, 2), (2,), (0, 1)), (5, 2)),
        ((3,), (5, 3, 4), Contraction((0,), (1, 0, 2), (1, 2)), (5, 4)),
        ((N, 0), (0, 4), Contraction((0, 1), (1, 2), (0, 2)), (N, 4)),
        ((N, M), (M, N), Contraction((0, 1), (1, 2), (0, 2)), (N, N)),
    ],
)
def test_matmul(a: Shape, b: Shape, labels: Contraction, shape: Shape) -> None:
    node = build.matmul(leaf(float32, a), leaf(float32, b))
    assert node.op is Op.CONTRACT
    assert node.shape == shape
    assert node.attribute == labels


def test_contractions_are_named_by_first_use() -> None:
    a, b = leaf(float32, (2, 3)), leaf(float32, (3, 4))
    assert build.contract(a, b, (70, 9), (9, 5), (70, 5)) is build.matmul(a, b)
    assert build.contract(a, b, (0, 1), (1, 2), (2,)).shape == (4,)  # a label of one operand is summed too
    assert build.contract(a, b, (0, 1), (1, 2), (0, 2), float64).dtype is float64


@pytest.mark.parametrize(
    ("shape", "target", "expected"),
    [
        ((2, 3), (-1,), (6,)),
        ((2, 3), (3, -1, 1), (3, 2, 1)),
        ((), (-1,), (1,)),
        ((0, 3), (-1, 3), (0, 3)),
        ((0, 3), (5, -1), (5, 0)),
        ((N, 4), (-1,), (N * 4,)),
        ((N, 4), (-1, 2), (N * 2, 2)),
        ((N, 4), (N, -1), (N, 4)),
        ((N, M, 6), (M, -1), (M, N * 6)),
        ((N + 1, 4), (-1, N + 1), (4, N + 1)),
        ((M, 4), (M, -1), (M, 4)),
        ((2, 3), (np.int64(3), 2), (3, 2)),
    ],
)
def test_infer_reshape(shape: Shape, target: tuple[IndexLike, ...], expected: Shape) -> None:
    assert infer_reshape(shape, target) == expected
    assert build.reshape(leaf(float32, shape), infer_reshape(shape, target)).shape == expected


def test_a_symbolic_size_as_a_number() -> None:
    assert constant_value(build.size_node(7, float32)) == 7
    node = build.size_node(N * M, float32)
    assert node.shape == ()
    assert node.dtype is float32


REFUSED: list[tuple[Callable[[], Any], type[SmeltError], str]] = [
    (lambda: build.add(X, I), DTypeError, "add: dtypes differ: float32 and int32"),
    (lambda: build.binary("sub", X, I, name="x - y"), DTypeError, "x - y: dtypes differ"),
    (lambda: build.add(B, B), DTypeError, "must be integer or float"),
    (lambda: build.exp(I), DTypeError, "exp: int32 is not supported"),
    (lambda: build.unary("nothing", X), ArgumentError, "no elementwise function called 'nothing'"),
    (lambda: build.binary("nothing", X, X), ArgumentError, "no elementwise function called 'nothing'"),
    (lambda: build.add(X, leaf(float32, (4, 3))), ShapeError, "add: shapes do not broadcast"),
    (lambda: build.add(X, Z), ShapeError, "only fits the same symbolic size or 1"),
    (lambda: build.add(leaf(float32, (Dim("n", 1, 2),)), leaf(float32, (N,))), ShapeError, "n with n in 1..2"),
    (lambda: build.where(X, X, X), DTypeError, "where: the condition is float32"),
    (lambda: build.where(B, X, I), DTypeError, "where: dtypes differ"),
    (lambda: build.where(leaf(bool_, (5,)), X, X), ShapeError, "where: shapes do not broadcast"),
    (lambda: build.const("1", float32), ArgumentError, "is not a bool, an integer or a float"),  # type: ignore[arg-type]
    (lambda: build.const(1j, float32), ArgumentError, "is not a bool, an integer or a float"),  # type: ignore[arg-type]
    (lambda: build.iota(3, bool_), DTypeError, "bool cannot count"),
    (lambda: build.iota(-1, int32), ShapeError, "a size is negative"),
    (lambda: build.iota(True, int32), ArgumentError, "True is not a size"),
    (lambda: build.iota(2.0, int32), ArgumentError, "2.0 is not a size"),  # type: ignore[arg-type]
    (lambda: build.reshape(X, (7,)), ShapeError, "6 elements cannot be 7"),
    (lambda: build.reshape(X, (-1,)), ShapeError, "a size is negative"),
    (lambda: build.reshape(Z, (3, M)), ShapeError, "elements cannot be"),
    (lambda: infer_reshape((2, 3), (-1, -1)), ShapeError, "more than one size is -1"),
    (lambda: infer_reshape((2, 3), (-1, 4)), ShapeError, "no size fits in place of -1"),
    (lambda: infer_reshape((2, 0), (-1, 0)), ShapeError, "no size fits in place of -1"),
    (lambda: infer_reshape((N,), (-1, 2)), ShapeError, "no size fits in place of -1"),
    (lambda: build.permute(X, (0,)), ArgumentError, "1 axes given for a tensor of rank 2"),
    (lambda: build.permute(X, (0, 0)), AxisError, "appears twice"),
    (lambda: build.permute(X, (0, 2)), AxisError, "axis 2 is out of range for a tensor of rank 2"),
    (lambda: build.expand(X, (2, 4)), ShapeError, "only axes of size 1 can grow"),
    (lambda: build.expand(X, (1, 2, 3)), ShapeError, "the rank must stay"),
    (lambda: build.broadcast_to(X, (3,)), ShapeError, "the rank cannot shrink"),
    (lambda: build.broadcast_to(X, (5, 4, 3)), ShapeError, "broadcast_to: cannot expand"),
    (lambda: build.pad(X, [(0, 0)], ZERO), ArgumentError, "1 pairs of widths for a tensor of rank 2"),
    (lambda: build.pad(X, [(0, -1), (0, 0)], ZERO), ArgumentError, "a width is negative"),
    (lambda: build.pad(X, [(0, 1), (0, 0)], build.const(0, int32)), DTypeError, "must be a float32 scalar"),
    (lambda: build.slice_(X, [(0, 2, 1)]), ArgumentError, "1 spans for a tensor of rank 2"),
    (lambda: build.slice_(X, [(0, 2, 0), (0, 3, 1)]), ArgumentError, "the step of axis 0 is 0"),
    (lambda: build.slice_(X, [(0, 3, 1), (0, 3, 1)]), IndexRangeError, "elements 0 to 2 do not all lie in axis 0"),
    (lambda: build.slice_(X, [(-1, 1, 1), (0, 3, 1)]), IndexRangeError, "elements -1 to -1 do not"),
    (lambda: build.slice_(Z, [(0, 2, 1), (0, 3, 1)]), IndexRangeError, "for every size"),
    (lambda: build.slice_(X, [(0, -1, 1), (0, 3, 1)]), ArgumentError, "may be negative"),
    (lambda: build.concat([], 0), ArgumentError, "nothing to join"),
    (lambda: build.concat([X, I], 0), DTypeError, "tensor 0 is float32 and tensor 1 is int32"),
    (lambda: build.concat([X, Y], 0), ShapeError, "tensors 0 and 1 do not fit"),
    (lambda: build.concat([X, leaf(float32, (2, 4))], 0), ShapeError, "all sizes except that of axis 0"),
    (lambda: build.concat([SCALAR], 0), AxisError, "it has no axes"),
    (lambda: build.bitcast(X, int64), DTypeError, "float32 has 32 bits and int64 has 64"),
    (lambda: build.bitcast(leaf(int8, (3,)), bool_), DTypeError, "not every byte is a bool"),
    (lambda: build.reduce("mean", X, [0]), ArgumentError, "no reduction called 'mean'"),
    (lambda: build.reduce("add", B, [0], name="sum"), DTypeError, "sum: bool is not supported"),
    (lambda: build.reduce("add", X, [2], name="sum"), AxisError, "sum: axis 2 is out of range"),
    (lambda: build.reduce("add", X, [0, -2]), AxisError, "appears twice"),
    (lambda: build.reduce("add", X, ["0"]), ArgumentError, "an axis must be an integer"),
    (lambda: build.matmul(X, X), ShapeError, "matmul: inner sizes differ"),
    (lambda: build.matmul(X, SCALAR), ShapeError, "an operand is a scalar"),
    (lambda: build.matmul(leaf(float32, (4, 2, 3)), leaf(float32, (5, 3, 2))), ShapeError, "do not broadcast"),
    (lambda: build.matmul(B, B), ShapeError, "inner sizes differ"),
    (lambda: build.matmul(B, leaf(bool_, (3, 2))), DTypeError, "bool is not supported"),
    (lambda: build.matmul(X, leaf(float16, (3, 2))), DTypeError, "dtypes differ"),
    (lambda: build.contract(X, X, (0, 1), (2, 1), (0, 2), int32), DTypeError, "float32 cannot be summed as int32"),
    (lambda: build.contract(X, X, (0,), (2, 1), (0, 2)), ArgumentError, "each axis needs a label"),
    (lambda: build.contract(X, X, (0, 0), (2, 1), (0, 2)), ArgumentError, "a label appears twice"),
    (lambda: build.contract(X, X, (0, 1), (2, 1), (0, 3)), ArgumentError, "label 3 of the result"),
    (lambda: build.contract(X, X, (0, 1), (1, 2), (0, 2)), ShapeError, "contract: inner sizes differ"),
    (lambda: build.composite("nothing", X), ArgumentError, "no composite called 'nothing'"),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=[text for _, _, text in REFUSED])
def test_mistakes_raise_typed_errors(call: Callable[[], Any], error: type[SmeltError], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)
    assert "test_build.py" in str(caught.value)  # the line of the caller, not of smelt


def test_the_message_points_at_the_sizes_at_fault() -> None:
    with pytest.raises(ShapeError) as caught:
        build.matmul(leaf(float32, (32, 784)), leaf(float32, (512, 10)))
    lines = str(caught.value).splitlines()
    assert lines[:3] == [
        "matmul: inner sizes differ",
        "    (32, 784) @ (512, 10)",
        "         ^^^     ^^^",
    ]
    assert lines[4] == "  axis 1 of the left operand (784) must equal axis 0 of the right one (512)."
    with pytest.raises(ShapeError) as caught:
        build.add(leaf(float32, (8, 1, 4)), leaf(float32, (7, 3, 5)))
    assert str(caught.value).splitlines()[1:3] == ["    (8, 1, 4) and (7, 3, 5)", "     ^     ^       ^     ^"]


def test_every_elementwise_function_takes_exactly_its_dtypes() -> None:
    from smelt.graph.ops import BINARY, UNARY

    for dtype in dtypes.ALL:
        x = leaf(dtype, (2,))
        for name, function in UNARY.items():
            if function.takes(dtype):
                assert build.unary(name, x).dtype is (bool_ if function.boolean else dtype)
            else:
                with pytest.raises(DTypeError):
                    build.unary(name, x)
        for name, function in BINARY.items():
            if function.takes(dtype):
                assert build.binary(name, x, x).dtype is (bool_ if function.boolean else dtype)
            else:
                with pytest.raises(DTypeError):
                    build.binary(name, x, x)

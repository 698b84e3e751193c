"""The reference interpreter: what each op computes."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from smelt import dtypes
from smelt.dtypes import DType, bfloat16, bool_, float16, float32, float64, int8, int32, int64, uint8
from smelt.errors import ArgumentError
from smelt.graph import build
from smelt.graph.index import Dim
from smelt.graph.interpret import interpret
from smelt.graph.node import Node, topological
from smelt.graph.ops import BINARY, UNARY, Op
from tests.graph.random_graphs import leaf, random_program, values

N = Dim("n", 1, 9)


def run(node: Node, *arrays: Any, **dims: int) -> NDArray[Any]:
    """The value of a node whose leaves, in the order in which they appear, are the arrays."""
    leaves = [found for found in topological([node]) if found.op is Op.LEAF]
    given = {x: np.asarray(array, x.dtype.numpy) for x, array in zip(leaves, arrays, strict=True)}
    (result,) = interpret([node], given, dims)
    assert result.dtype == node.dtype.numpy
    return result


def numbers(dtype: DType, data: list[Any]) -> tuple[Node, list[Any]]:
    return leaf(dtype, (len(data),)), data


def test_movement() -> None:
    x = leaf(int32, (2, 3))
    data = np.arange(6).reshape(2, 3)
    nine = build.const(9, int32)
    assert np.array_equal(run(build.reshape(x, (3, 2)), data), data.reshape(3, 2))
    assert np.array_equal(run(build.permute(x, (1, 0)), data), data.T)
    assert np.array_equal(run(build.broadcast_to(x, (2, 2, 3)), data), np.stack([data, data]))
    assert np.array_equal(
        run(build.pad(x, [(1, 0), (0, 2)], nine), data), np.pad(data, [(1, 0), (0, 2)], constant_values=9)
    )
    assert np.array_equal(run(build.slice_(x, [(1, 2, -1), (0, 2, 2)]), data), data[::-1, ::2])
    assert np.array_equal(run(build.concat([x, x], 1), data), np.concatenate([data, data], 1))
    assert np.array_equal(run(build.slice_(x, [(0, 0, 1), (0, 3, 1)]), data), data[:0])


def test_symbolic_sizes() -> None:
    x = leaf(float32, (N, 2))
    flipped = build.slice_(x, [(N - 1, N, -1), (0, 2, 1)])
    padded = build.pad(flipped, [(0, N), (0, 0)], build.const(0, float32))
    data = np.arange(6.0).reshape(3, 2)
    assert np.array_equal(run(padded, data, n=3), np.concatenate([data[::-1], np.zeros((3, 2))]))
    assert run(build.size_node(N * 2 + 1, float32), n=3) == 7
    assert run(build.matmul(x, build.permute(x, (1, 0))), data, n=3).shape == (3, 3)


@pytest.mark.parametrize(
    ("function", "dtype", "a", "b", "expected"),
    [
        ("add", int8, [127, -128], [1, -1], [-128, 127]),
        ("mul", uint8, [200, 16], [2, 16], [144, 0]),
        ("sub", uint8, [0], [1], [255]),
        ("floordiv", int32, [7, -7, 7, -7, 5, -5, -(2**31)], [2, 2, -2, -2, 0, 0, -1], [3, -4, -4, 3, 0, 0, -(2**31)]),
        ("mod", int32, [7, -7, 7, -7, 5, -5, -(2**31)], [2, 2, -2, -2, 0, 0, -1], [1, 1, -1, -1, 0, 0, 0]),
        ("shl", int8, [1, 1, 1, 64, -1], [3, 8, -1, 1, 100], [8, 0, 0, -128, 0]),
        ("shr", int8, [-8, -8, -8, 127, -1], [1, 8, -1, 3, 100], [-4, 0, 0, 15, 0]),
        ("shr", uint8, [255, 255], [1, 8], [127, 0]),
        (
            "pow",
            int8,
            [2, 3, -2, 2, 1, -1, -1, 0, 0, 5],
            [6, 5, 7, 8, -3, -3, -2, 0, -1, -1],
            [64, -13, -128, 0, 1, -1, 1, 1, 0, 0],
        ),
        ("pow", dtypes.uint64, [3, 2], [40, 64], [3**40, 0]),
        ("floordiv", float64, [7.5, -7.5, 1.0, 6.0], [2.0, 2.0, 0.0, 0.1], [3.0, -4.0, math.inf, 59.0]),
        ("mod", float64, [7.5, -7.5, 7.5, 1.0], [2.0, 2.0, -2.0, 0.0], [1.5, 0.5, -0.5, math.nan]),
        ("max", float32, [math.nan, 1.0, -math.inf], [1.0, math.nan, 2.0], [math.nan, math.nan, 2.0]),
        ("min", bfloat16, [math.nan, 1.0, -math.inf], [1.0, math.nan, 2.0], [math.nan, math.nan, -math.inf]),
        ("max", bool_, [True, False, False], [False, True, False], [True, True, False]),
        ("xor", int8, [-1, 5], [1, 5], [-2, 0]),
        ("lt", bool_, [False, True], [True, True], [True, False]),
        ("ne", float32, [math.nan, 0.0], [math.nan, -0.0], [True, False]),
    ],
)
def test_binary_rules(function: str, dtype: DType, a: list[Any], b: list[Any], expected: list[Any]) -> None:
    x, y = leaf(dtype, (len(a),)), leaf(dtype, (len(a),))
    result = run(build.binary(function, x, y), a, b)
    np.testing.assert_array_equal(result.astype(np.float64) if dtype is bfloat16 else result, expected)


def test_the_larger_zero_is_positive() -> None:
    x, y = leaf(float32, (2,)), leaf(float32, (2,))
    largest = run(build.maximum(x, y), [-0.0, 0.0], [0.0, -0.0])
    smallest = run(build.minimum(x, y), [-0.0, 0.0], [0.0, -0.0])
    assert not np.signbit(largest).any()
    assert np.signbit(smallest).all()
    assert np.signbit(run(build.maximum(x, y), [-0.0, -0.0], [-0.0, -0.0])).all()


@pytest.mark.parametrize(
    ("function", "dtype", "data", "expected"),
    [
        ("neg", int8, [-128, 1], [-128, -1]),
        ("neg", uint8, [1, 0], [255, 0]),
        ("abs", int8, [-128, -1], [-128, 1]),
        ("sign", float32, [-2.0, 0.0, math.nan, math.inf], [-1.0, 0.0, math.nan, 1.0]),
        ("not", bool_, [True, False], [False, True]),
        ("not", uint8, [0, 255], [255, 0]),
        ("round", float32, [0.5, 1.5, 2.5, -0.5], [0.0, 2.0, 2.0, -0.0]),
        ("rsqrt", float64, [4.0, 0.0, -1.0], [0.5, math.inf, math.nan]),
        ("reciprocal", float32, [4.0, 0.0, -math.inf], [0.25, math.inf, -0.0]),
        ("erf", float64, [0.0, 1.0, math.inf, math.nan], [0.0, math.erf(1.0), 1.0, math.nan]),
        ("exp", float16, [20.0, -math.inf], [math.inf, 0.0]),
        ("log", float32, [0.0, -1.0, 1.0], [-math.inf, math.nan, 0.0]),
        ("isnan", float16, [math.nan, 1.0], [True, False]),
    ],
)
def test_unary_rules(function: str, dtype: DType, data: list[Any], expected: list[Any]) -> None:
    np.testing.assert_array_equal(run(build.unary(function, leaf(dtype, (len(data),))), data), expected)


def test_every_function_of_every_dtype_runs_on_odd_values() -> None:
    import random

    rng = random.Random(3)
    for dtype in dtypes.ALL:
        x, y = leaf(dtype, (40,)), leaf(dtype, (40,))
        nodes = [build.unary(name, x) for name, f in UNARY.items() if f.takes(dtype)]
        nodes += [build.binary(name, x, y) for name, f in BINARY.items() if f.takes(dtype)]
        for node, result in zip(nodes, interpret(nodes, {z: values(rng, dtype, (40,)) for z in (x, y)}), strict=True):
            assert result.dtype == node.dtype.numpy


@pytest.mark.parametrize(
    ("source", "target", "data", "expected"),
    [
        (float32, int8, [300.0, -300.0, 3.9, -3.9, math.nan, math.inf], [127, -128, 3, -3, 0, 127]),
        (float64, int64, [1e30, -1e30, 2.0**63, math.nan], [2**63 - 1, -(2**63), 2**63 - 1, 0]),
        (float32, uint8, [-1.0, 256.0, 255.9], [0, 255, 255]),
        (int32, int8, [300, -129], [44, 127]),
        (int32, bool_, [0, 2, -1], [False, True, True]),
        (float32, bool_, [0.0, -0.0, math.nan, 0.1], [False, False, True, True]),
        (bool_, float32, [True, False], [1.0, 0.0]),
        (float32, float16, [70000.0, 1e-10], [math.inf, 0.0]),
    ],
)
def test_casts(source: DType, target: DType, data: list[Any], expected: list[Any]) -> None:
    np.testing.assert_array_equal(run(build.cast(leaf(source, (len(data),)), target), data), expected)


def test_bitcast() -> None:
    assert run(build.bitcast(leaf(float32, ()), int32), 1.0) == 0x3F800000
    assert run(build.bitcast(leaf(float16, (2,)), bfloat16), [1.0, -0.0]).tobytes() == np.float16([1, -0.0]).tobytes()


@pytest.mark.parametrize(
    ("op", "dtype", "expected"),
    [
        ("add", float32, 0.0),
        ("mul", int32, 1),
        ("max", float32, -math.inf),
        ("min", float16, math.inf),
        ("max", int8, -128),
        ("min", uint8, 255),
        ("max", bool_, False),
        ("min", bool_, True),
    ],
)
def test_reductions_of_nothing(op: str, dtype: DType, expected: Any) -> None:
    np.testing.assert_array_equal(run(build.reduce(op, leaf(dtype, (2, 0)), [1]), np.zeros((2, 0))), [expected] * 2)


def test_reductions() -> None:
    x = leaf(int8, (2, 3))
    data = np.array([[100, 100, 1], [-5, 3, 2]])
    assert run(build.reduce("add", x, [1]), data).tolist() == [-55, 0]
    assert run(build.reduce("mul", x, [0]), data).tolist() == [12, 44, 2]
    assert run(build.reduce("max", x, [0, 1]), data) == 100
    y = leaf(float32, (3,))
    assert np.isnan(run(build.reduce("max", y, [0]), [1.0, math.nan, 2.0]))
    assert np.isnan(run(build.reduce("min", y, [0]), [math.nan, 1.0, 2.0]))


def test_sums_are_accurate() -> None:
    ones = np.full(100_000, 0.1, np.float32)
    assert run(build.reduce("add", leaf(float32, (100_000,)), [0]), ones) == np.float32(math.fsum(ones.tolist()))
    half = np.full(5_000, 0.1, np.float16)
    assert run(build.reduce("add", leaf(float16, (5_000,)), [0]), half) == np.float16(math.fsum(half.tolist()))


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((1, 2, 3), (5, 3, 4)),
        ((3,), (3,)),
        ((3,), (5, 3, 4)),
        ((6, 1, 2, 3), (5, 3, 4)),
        ((2, 0), (0, 4)),
    ],
)
@pytest.mark.parametrize("dtype", [float32, float64, int8, int64, bfloat16], ids=str)
def test_matmul_is_numpys(shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: DType) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(dtype.numpy) for shape in shapes)
    x, y = leaf(dtype, shapes[0]), leaf(dtype, shapes[1])
    wide = np.float64 if dtype.is_float else dtype.numpy
    np.testing.assert_array_equal(
        run(build.matmul(x, y), a, b), np.matmul(a.astype(wide), b.astype(wide)).astype(dtype.numpy)
    )


def test_contractions_convert_before_they_multiply() -> None:
    x, y = leaf(int8, (2,)), leaf(int8, (2,))
    assert run(build.contract(x, y, (0,), (0,), (), int32), [100, 100], [100, 100]) == 20_000
    assert run(build.contract(x, y, (0,), (0,), ()), [100, 100], [100, 100]) == 20_000 - 78 * 256
    assert run(build.contract(x, y, (0,), (1,), ()), [1, 2], [3, 4]) == 21


@given(st.integers(min_value=0))
def test_random_programs_give_what_their_types_say(seed: int) -> None:
    roots, leaves, dims = random_program(seed)
    for root, value in zip(roots, interpret(roots, leaves, dims), strict=True):
        assert value.dtype == root.dtype.numpy
        assert value.shape == tuple(size if isinstance(size, int) else size.evaluate(dims) for size in root.shape)


@given(st.integers(min_value=0))
def test_one_root_at_a_time_gives_the_same(seed: int) -> None:
    roots, leaves, dims = random_program(seed, steps=6)
    together = interpret(roots, leaves, dims)
    for root, value in zip(roots, together, strict=True):
        (alone,) = interpret([root], leaves, dims)
        assert alone.tobytes() == value.tobytes()


def test_computed_values_are_read() -> None:
    x = leaf(float32, (2,))
    y = build.exp(x)
    y.leaf = leaf(float32, (2,))
    (result,) = interpret([build.neg(y)], {y.leaf: np.array([1, 2], np.float32)})
    assert result.tolist() == [-1.0, -2.0]


def test_leaves_may_come_from_a_function() -> None:
    x = leaf(float32, (2,))
    (result,) = interpret([build.neg(x)], lambda _: np.ones(2, np.float32))
    assert result.tolist() == [-1.0, -1.0]


def test_the_same_root_twice() -> None:
    x = leaf(float32, (2,))
    a, b, c = interpret([x, x, build.neg(x)], {x: np.ones(2, np.float32)})
    assert a.tolist() == b.tolist() == [1.0, 1.0]
    assert c.tolist() == [-1.0, -1.0]


def test_a_long_chain() -> None:
    x = leaf(float32, ())
    node = x
    for _ in range(20_000):
        node = build.neg(node)
    assert run(node, 3.0) == 3.0


def test_what_is_no_longer_needed_is_released() -> None:
    x = leaf(float32, (1_000,))
    seen: list[weakref.ref[NDArray[Any]]] = []

    def read(_: Node) -> NDArray[Any]:
        array = np.ones(1_000, np.float32)
        seen.append(weakref.ref(array))
        return array

    interpret([build.exp(build.neg(x))], read)
    gc.collect()
    assert seen[0]() is None


@pytest.mark.parametrize(
    ("array", "dims", "text"),
    [
        (None, {"n": 3}, "no value was given for <leaf"),
        (np.ones(3, np.float32), {}, "no value was given for the dim 'n'"),
        (np.ones(4, np.float32), {"n": 3}, "float32[4]"),
        (np.ones(3, np.float64), {"n": 3}, "float64[3]"),
        (np.ones(10, np.float32), {"n": 10}, "outside 1..9"),
    ],
)
def test_wrong_inputs_are_refused(array: NDArray[Any] | None, dims: dict[str, int], text: str) -> None:
    x = leaf(float32, (N,))
    with pytest.raises(ArgumentError) as caught:
        interpret([build.neg(x)], {} if array is None else {x: array}, dims)
    assert text in str(caught.value)

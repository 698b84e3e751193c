"""Composites: their expansions against formulas in float64, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from smelt import dtypes
from smelt.dtypes import DType, bfloat16, bool_, float16, float32, float64, int8, int32, int64, uint32, uint64
from smelt.errors import ArgumentError, AxisError, DTypeError, ShapeError, SmeltError
from smelt.graph import build
from smelt.graph.composites import _REGISTRY, expand
from smelt.graph.index import Dim
from smelt.graph.interpret import interpret
from smelt.graph.node import Node, topological
from smelt.graph.ops import Op
from smelt.graph.verify import verify_graph
from tests.graph.random_graphs import leaf

Array = NDArray[Any]
N = Dim("n", 1, 12)
INF = math.inf
TOLERANCE = {float64: 1e-13, float32: 3e-6, float16: 1.1e-3, bfloat16: 8.5e-3}  # of a result of size one


def run(name: str, *arrays: Array, **parameters: Any) -> Array:
    """The value of a composite of the arrays."""
    sources = [leaf(dtypes.as_dtype(array.dtype), array.shape) for array in arrays]
    node = build.composite(name, *sources, **parameters)
    assert node.op is Op.COMPOSITE
    verify_graph([node, expand(node)])
    (result,) = interpret([node], dict(zip(sources, arrays, strict=True)))
    return result


def softmax(x: Array, axis: int) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def normalized(x: Array, axes: int, eps: float) -> Array:
    last = tuple(range(-axes, 0))
    return np.asarray((x - x.mean(last, keepdims=True)) / np.sqrt(x.var(last, keepdims=True) + eps))


def attention(q: Array, k: Array, v: Array, bias: Array | float, scale: float) -> Array:
    return softmax(scale * q @ np.swapaxes(k, -1, -2) + bias, -1) @ v


def normal(seed: int, dtype: DType, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype.numpy)


def assert_close(result: Array, expected: Array, dtype: DType) -> None:
    assert result.dtype == dtype.numpy
    np.testing.assert_allclose(
        result.astype(np.float64), expected.astype(np.float64), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] / 4
    )


def wide(x: Array) -> Array:
    return x.astype(np.float64)


floats = pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)


@floats
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(dtype: DType, axis: int) -> None:
    x = normal(0, dtype, 5, 7) * dtype.numpy.type(4)
    assert_close(run("softmax", x, axis=axis), softmax(wide(x), axis), dtype)
    assert_close(run("log_softmax", x, axis=axis), np.log(softmax(wide(x), axis)), dtype)


def test_softmax_of_odd_rows() -> None:
    x = np.array([[-INF, -INF], [INF, 0], [math.nan, 0], [-INF, 3], [3e38, -3e38], [1e4, 1e4]], np.float32)
    nan = math.nan
    expected = [[nan, nan], [nan, nan], [nan, nan], [0, 1], [1, 0], [0.5, 0.5]]
    np.testing.assert_array_equal(run("softmax", x), expected)
    logs = run("log_softmax", x)
    assert logs[3].tolist() == [-INF, 0.0]
    np.testing.assert_allclose(logs[5], math.log(0.5), rtol=1e-6)
    assert run("log_softmax", np.array([1000.0, 0.0], np.float32)).tolist() == [0.0, -1000.0]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (1,), (1, 1, 1)])
def test_softmax_of_small_shapes(shape: tuple[int, ...]) -> None:
    np.testing.assert_array_equal(run("softmax", np.ones(shape, np.float32)), np.ones(shape))


@floats
@pytest.mark.parametrize("axes", [1, 2])
def test_layer_norm(dtype: DType, axes: int) -> None:
    x, weight, bias = normal(0, dtype, 3, 4, 11), normal(1, dtype, 4, 11), normal(2, dtype, 4, 11)
    if axes == 1:
        weight, bias = weight[0], bias[0]
    plain = normalized(wide(x), axes, 1e-5)
    assert_close(run("layer_norm", x, axes=axes), plain, dtype)
    assert_close(run("layer_norm", x, weight, axes=axes), plain * wide(weight), dtype)
    assert_close(run("layer_norm", x, weight, bias, axes=axes), plain * wide(weight) + wide(bias), dtype)


def test_layer_norm_far_from_zero() -> None:
    x = 10_000 + normal(0, float32, 4, 512)
    half_a_step = np.spacing(np.float32(10_000)) / 2  # the mean is no better than that, but nothing is lost beyond it
    np.testing.assert_allclose(run("layer_norm", x), normalized(wide(x), 1, 1e-5), atol=1.1 * half_a_step)


@floats
def test_rms_norm(dtype: DType) -> None:
    x, weight = normal(0, dtype, 5, 13), normal(1, dtype, 13)
    expected = wide(x) / np.sqrt((wide(x) ** 2).mean(-1, keepdims=True) + 0.25)
    assert_close(run("rms_norm", x, eps=0.25), expected, dtype)
    assert_close(run("rms_norm", x, weight, eps=0.25), expected * wide(weight), dtype)


@floats
def test_activations(dtype: DType) -> None:
    x = normal(0, dtype, 101) * dtype.numpy.type(3)
    w = wide(x)
    erf = np.vectorize(math.erf)
    inner = math.sqrt(2 / math.pi) * (w + 0.044715 * w**3)
    assert_close(run("gelu", x), 0.5 * w * (1 + erf(w / math.sqrt(2))), dtype)
    assert_close(run("gelu", x, approximate="tanh"), 0.5 * w * (1 + np.tanh(inner)), dtype)
    assert_close(run("silu", x), w / (1 + np.exp(-w)), dtype)


def test_activations_of_large_values() -> None:
    x = np.array([-1e30, -200, 0, 200, 1e30], np.float32)
    expected = np.array([0, 0, 0, 200, 1e30], np.float32)
    for name in ("gelu", "silu"):
        np.testing.assert_allclose(run(name, x), expected, atol=1e-30)


@floats
@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        ((5, 4), (5, 4), (5, 4)),
        ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)),
        ((2, 3, 5, 4), (1, 3, 7, 4), (7, 6)),
        ((1, 4), (1, 4), (3, 1, 2)),
    ],
)
def test_attention(dtype: DType, q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...]) -> None:
    a, b, c = normal(0, dtype, *q), normal(1, dtype, *k), normal(2, dtype, *v)
    rows, columns = np.arange(q[-2])[:, None], np.arange(k[-2])
    causal = np.where(columns <= rows, 0.0, -INF)
    wides = (wide(a), wide(b), wide(c))
    assert_close(run("attention", a, b, c), attention(*wides, 0.0, 0.5), dtype)
    assert_close(run("attention", a, b, c, scale=0.125), attention(*wides, 0.0, 0.125), dtype)
    assert_close(run("attention", a, b, c, causal=True), attention(*wides, causal, 0.5), dtype)
    mask = (rows + columns) % 3 != 1
    mask[:, 0] = True
    assert_close(run("attention", a, b, c, mask), attention(*wides, np.where(mask, 0.0, -INF), 0.5), dtype)
    added = normal(4, dtype, q[-2], k[-2])
    assert_close(run("attention", a, b, c, added), attention(*wides, wide(added), 0.5), dtype)


@pytest.mark.parametrize("labels", [int8, int32, int64, uint64], ids=str)
@floats
def test_cross_entropy(dtype: DType, labels: DType) -> None:
    x = normal(0, dtype, 4, 3, 11)
    y = np.random.default_rng(1).integers(0, 11, (4, 3)).astype(labels.numpy)
    expected = -np.take_along_axis(np.log(softmax(wide(x), -1)), y.astype(np.int64)[..., None], -1)[..., 0]
    assert_close(run("cross_entropy", x, y), expected, dtype)


def test_cross_entropy_of_odd_rows() -> None:
    x = np.array([[-INF, 0, -INF], [-INF, 0, -INF], [1000, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]], np.float32)
    y = np.array([1, 0, 1, 3, -1, 2**32], np.int64)
    np.testing.assert_array_equal(run("cross_entropy", x, y), [0, INF, 1000, math.nan, math.nan, math.nan])
    many = np.zeros((2, 200), np.float32)  # more classes than int8 can name
    np.testing.assert_allclose(
        run("cross_entropy", many, np.array([5, -5], np.int8)), [math.log(200), math.nan], rtol=1e-6
    )


def test_16_bit_floats_are_rounded_once() -> None:
    x = normal(0, float16, 6, 300)
    for name in ("softmax", "log_softmax", "layer_norm", "rms_norm", "gelu", "silu"):
        once = run(name, x.astype(np.float32)).astype(np.float16)
        assert np.array_equal(run(name, x), once), name


@pytest.mark.parametrize(
    ("name", "arity", "parameters"),
    [
        ("softmax", 1, {}),
        ("log_softmax", 1, {"axis": 0}),
        ("layer_norm", 1, {}),
        ("rms_norm", 1, {}),
        ("layer_norm", 1, {"axes": 2}),
        ("attention", 3, {}),
        ("attention", 3, {"causal": True}),
    ],
)
@given(n=st.integers(1, 12))
def test_symbolic_sizes_compute_what_static_ones_do(name: str, arity: int, parameters: dict[str, Any], n: int) -> None:
    x = normal(0, float32, n, n)
    symbol = leaf(float32, (N, N))
    node = build.composite(name, *[symbol] * arity, **parameters)
    (result,) = interpret([node], {symbol: x}, {"n": n})
    expected = run(name, *[x] * arity, **parameters)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_cross_entropy_of_symbolic_classes() -> None:
    x, y = leaf(float32, (3, N)), leaf(int64, (3,))
    data, labels = normal(0, float32, 3, 5), np.array([0, 4, 5])
    (result,) = interpret([build.composite("cross_entropy", x, y)], {x: data, y: labels}, {"n": 5})
    np.testing.assert_array_equal(result, run("cross_entropy", data, labels))


def test_expansions_fuse_well() -> None:
    """As few reductions and contractions as the formulas allow: each is a pass over the data."""
    x = leaf(float32, (8, 16))
    w = leaf(float32, (16,))
    y = leaf(int64, (8,))
    passes = {
        build.composite("softmax", x): 2,
        build.composite("log_softmax", x): 2,
        build.composite("layer_norm", x, w, w): 2,
        build.composite("rms_norm", x, w): 1,
        build.composite("attention", x, x, x): 4,
        build.composite("attention_log_sums", x, x): 3,
        build.composite("cross_entropy", x, y): 2,
        build.composite("gelu", x): 0,
    }
    for node, expected in passes.items():
        heavy = [n for n in topological([expand(node)]) if n.op in (Op.REDUCE, Op.CONTRACT)]
        assert len(heavy) == expected, node


def test_equal_composites_are_one_node() -> None:
    x = leaf(float32, (2, 3))
    assert build.composite("softmax", x) is build.composite("softmax", x, axis=1)
    assert build.composite("layer_norm", x, eps=0) is build.composite("layer_norm", x, eps=-0.0)
    q = leaf(float32, (5, 4))
    assert build.composite("attention", q, q, q) is build.composite("attention", q, q, q, scale=0.5)


def test_all_composites_are_known() -> None:
    assert sorted(_REGISTRY) == [
        "attention",
        "attention_log_sums",
        "cross_entropy",
        "gelu",
        "layer_norm",
        "log_softmax",
        "random",
        "rms_norm",
        "silu",
        "softmax",
        "threefry",
    ]


X = leaf(float32, (2, 3))
W = leaf(float32, (3,))
H = leaf(float16, (2, 3))
I = leaf(int32, (2, 3))  # noqa: E741
LABELS = leaf(int64, (2,))
KEY, COUNT = leaf(uint32, (2,)), leaf(uint32, (5,))


def make(name: str, *sources: Node, **parameters: Any) -> Callable[[], Node]:
    return lambda: build.composite(name, *sources, **parameters)


REFUSED: list[tuple[Callable[[], Node], type[SmeltError], str]] = [
    (make("softmax", I), DTypeError, "softmax: int32 is not supported"),
    (make("softmax", X, axis=2), AxisError, "softmax: axis 2 is out of range"),
    (make("softmax", leaf(float32, ())), AxisError, "it is a scalar"),
    (make("softmax", X, axis=None), ArgumentError, "an axis must be an integer"),
    (make("softmax", X, X), ArgumentError, "takes 1 to 1 tensors, got 2"),
    (make("layer_norm", X, axes=3), ArgumentError, "1 to 2, got 3"),
    (make("layer_norm", X, eps=math.nan), ArgumentError, "eps must be a finite number"),
    (make("layer_norm", X, eps=True), ArgumentError, "eps must be a finite number"),
    (make("layer_norm", X, LABELS), DTypeError, "int64 is not supported"),
    (make("layer_norm", H, W), DTypeError, "dtypes differ: float16 and float32"),
    (make("rms_norm", X, leaf(float32, (2,))), ShapeError, "must have the shape of the last 1 axes, (3,)"),
    (make("gelu", X, approximate="fast"), ArgumentError, "approximate must be 'none' or 'tanh'"),
    (make("silu", I), DTypeError, "silu: int32"),
    (make("attention", X, X, leaf(float32, (4, 3))), ShapeError, "not as many keys as values"),
    (make("attention", X, leaf(float32, (2, 4)), X), ShapeError, "different numbers of features"),
    (make("attention", W, W, W), ShapeError, "too few axes"),
    (make("attention", X, X, X, leaf(bool_, (3, 3))), ShapeError, "do not broadcast"),
    (make("attention", X, X, X, leaf(bool_, (7, 2, 2))), ShapeError, "larger than the scores"),
    (make("attention", X, X, X, leaf(int32, (2, 2))), DTypeError, "it must be bool or float32"),
    (make("attention", X, X, X, causal=1), ArgumentError, "causal must be True or False"),
    (make("attention", X, X, X, scale=INF), ArgumentError, "scale must be a finite number"),
    (make("cross_entropy", X, W), DTypeError, "they must be integers"),
    (make("cross_entropy", X, leaf(int64, (3,))), ShapeError, "logits without their last axis"),
    (make("cross_entropy", leaf(float32, ()), leaf(int64, ())), ShapeError, "logits without their last axis"),
    *(
        (call, ArgumentError, f"{name}: this is no key, not counters, or not their parameters")
        for name, *calls in (
            ("threefry", make("threefry", KEY, COUNT, I), make("threefry", COUNT, COUNT, COUNT)),
            ("threefry", make("threefry", KEY, COUNT, COUNT, number=2)),
            ("random", make("random", KEY, I), make("random", KEY, COUNT, kind="strange")),
            ("random", make("random", KEY, COUNT, dtype="int32"), make("random", KEY, COUNT, draw=-1)),
            ("random", make("random", KEY, COUNT, W)),
        )
        for call in calls
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=[text for _, _, text in REFUSED])
def test_mistakes_raise_typed_errors(call: Callable[[], Node], error: type[SmeltError], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)

"""Long reductions in two steps: which are cut, into what, and that the result is the same."""

from __future__ import annotations

import numpy as np
import pytest

import smelt as sm
from smelt import dtypes
from smelt.compiler.simplifying import simplify
from smelt.dtypes import DType
from smelt.fuse import partition
from smelt.fuse.split import split_reductions
from smelt.graph import build
from smelt.graph.index import Dim, IndexLike
from smelt.graph.node import Node
from smelt.graph.ops import Op
from tests.graph.random_graphs import leaf

F32 = dtypes.float32


def pieces(shape: tuple[IndexLike, ...], axes: tuple[int, ...], op: str = "add", dtype: DType = F32) -> list[Node]:
    return list(split_reductions([build.reduce(op, leaf(dtype, shape), axes)])[1])


@pytest.mark.parametrize(
    ("shape", "axes", "piece"),
    [
        ((1 << 24,), (0,), (64,)),
        ((4096, 1024), (0, 1), (64,)),
        ((4096, 1024), (0,), (64, 1024)),
        ((8, 1 << 20), (1,), (8, 64)),
        ((8, 1 << 20, 3), (0, 1), (64, 3)),
        ((1_000_003,), (0,), (15,)),
        ((64, 64, 1024), (0, 1), (64, 1024)),
        ((1024, 60_000), (0,), (16, 60_000)),
    ],
)
def test_pieces(shape: tuple[int, ...], axes: tuple[int, ...], piece: tuple[int, ...]) -> None:
    assert [node.shape for node in pieces(shape, axes)] == [piece]


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((1 << 17,), (0,)), ((4096, 1024), (1,)), ((16, 1 << 16), (0,)), ((Dim("n", 1, 1 << 22),), (0,))],
)
def test_what_is_short_or_has_tasks_enough_stays_whole(shape: tuple[IndexLike, ...], axes: tuple[int, ...]) -> None:
    assert not pieces(shape, axes)


def test_pieces_of_16_bit_sums_are_float32() -> None:
    for op, dtype in (("add", F32), ("max", dtypes.float16)):
        assert [node.dtype for node in pieces((1 << 20,), (0,), op, dtypes.float16)] == [dtype]


def test_the_pieces_and_their_sum_are_kernels_with_all_that_goes_into_them() -> None:
    x = leaf(F32, (4096, 1024))
    mean = build.div(build.reduce("add", x, (0, 1)), build.const(1 << 22, F32))
    centered = build.sub(x, build.broadcast_to(mean, x.shape))
    roots, stored = split_reductions([build.reduce("add", build.mul(centered, centered), (0, 1))])
    found = [[node.op for node in group.inside if node.op is Op.REDUCE] for group in partition(roots, stored).groups]
    assert found == [[Op.REDUCE]] * 4


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.int32, dtypes.uint8])
@pytest.mark.parametrize("shape", [(262_144,), (270_001,), (1024, 257)])
@pytest.mark.by_turns(8)
def test_results(shape: tuple[int, ...], dtype: DType) -> None:
    rng = np.random.default_rng(3)
    x = (rng.integers(0, 2, shape) if dtype.is_integer else rng.integers(-2, 3, shape) / 64).astype(dtype.numpy)
    t = sm.asarray(x)
    wide = x.astype(np.float64)
    for axis in (None, 0):
        np.testing.assert_array_equal(t.sum(axis, dtype=sm.float32).numpy(), wide.sum(axis))
        np.testing.assert_array_equal(t.max(axis).numpy().astype(np.float64), wide.max(axis))
        assert t.min(axis).dtype is dtype
        np.testing.assert_array_equal(t.argmax(axis).numpy(), wide.argmax(axis))
    if dtype.is_float:
        np.testing.assert_array_equal(t.sum().numpy(), np.asarray(wide.sum()).astype(dtype.numpy))


def test_nan_and_infinity_reach_the_result() -> None:
    x = np.zeros(300_007, np.float32)
    for place in (0, 150_000, 300_006):
        for value in (np.nan, np.inf, -np.inf):
            x[place] = value
            t = sm.asarray(x.copy())
            np.testing.assert_array_equal(t.sum().numpy(), x.sum())
            np.testing.assert_array_equal(t.max().numpy(), x.max())
            np.testing.assert_array_equal(t.argmin().numpy(), x.argmin())
        x[place] = 0


# --- contractions


def convolution_of_weights(x: sm.Tensor, ct: sm.Tensor) -> sm.Tensor:
    """The gradient by the weight of a 3×3 convolution."""
    weight = sm.zeros(ct.shape[1], x.shape[1], 3, 3, dtype=x.dtype)
    return sm.grad(lambda w: (sm.conv2d(x, w, padding=1) * ct).sum())(weight)


def floats(*shape: int) -> sm.Tensor:
    return sm.asarray(np.zeros(shape, np.float32))


def products(a: sm.Tensor) -> list[tuple[IndexLike, ...]]:
    return [node.shape for node in split_reductions(simplify([a._node]))[1] if node.op is Op.CONTRACT]


def test_a_contraction_of_long_sums_and_few_results_is_cut_along_its_first_axis() -> None:
    assert products(convolution_of_weights(floats(8, 4, 56, 56), floats(8, 5, 56, 56))) == [(8, 5, 4, 3, 3)]
    assert products(convolution_of_weights(floats(1, 4, 56, 56), floats(1, 5, 56, 56))) == [(2, 5, 4, 3, 3)]
    assert products(floats(30, 7000) @ floats(7000, 20)) == [(5, 30, 20)]


def test_contractions_that_stay_whole() -> None:
    assert not products(floats(300, 7000) @ floats(7000, 300))  # tasks enough
    assert not products(floats(30, 2000) @ floats(2000, 20))  # short sums
    assert not products(floats(30, 7001) @ floats(7001, 20))  # a prime
    q, k = floats(1, 8, 1, 16), floats(1, 8, 8192, 16)
    assert not products(sm.attention(q, k, k))  # one kernel without the scores


def test_sums_of_sums_of_words_stay_whole() -> None:
    """Else a row of a product with codes would be added up in another order alone than among others."""
    codes, scale = np.zeros((2048, 8192), np.uint8), np.ones((2048, 256), np.float32)
    y = sm.nn.QuantizedWeight(codes, 8, scale).product(floats(1, 8192))
    assert not split_reductions(simplify([y._node]))[1]


@pytest.mark.parametrize("dtype", [sm.float32, sm.bfloat16, sm.float64])
@pytest.mark.parametrize("shape", [(8, 3, 20, 21), (2, 2, 61, 59)])
@pytest.mark.by_turns(3)
def test_weights_of_convolutions(shape: tuple[int, ...], dtype: DType) -> None:
    rng = np.random.default_rng(5)
    batch, _, height, width = shape
    x, ct = (rng.integers(-2, 3, s) / 4 for s in (shape, (batch, 5, height, width)))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    expected = np.einsum("noyx,ncyxij->ocij", ct, windows)
    got = convolution_of_weights(*(sm.asarray(a).astype(dtype) for a in (x, ct)))
    np.testing.assert_allclose(got.astype(sm.float64).numpy(), expected, rtol=2**-8 if dtype is sm.bfloat16 else 0)


def test_pieces_of_a_sum_over_several_axes_lie_together() -> None:
    x = leaf(dtypes.float32, (8, 256, 1536))
    results, pieces = split_reductions([build.reduce("add", x, (0, 1))])
    [piece] = pieces
    assert piece.shape[1:] == (1536,) and len(piece.attribute.axes) == 1, "rows one after the other"
    assert results[0].shape == (1536,)

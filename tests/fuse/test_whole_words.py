"""Rows without a whole number of words are copied once, with zeros behind, where words are multiplied."""

from __future__ import annotations

import numpy as np
import pytest

import smelt as sm
from smelt import dtypes
from smelt.dtypes import DType
from smelt.fuse.factors import whole_words
from smelt.graph import build
from smelt.graph.node import Node, topological
from smelt.graph.ops import Op
from tests.graph.random_graphs import leaf
from tests.profiles import AMX, AVX2

RNG = np.random.default_rng(3)


def product(dtype: DType, rows: int, depth: int, columns: int, transposed: bool = False) -> Node:
    a, b = leaf(dtype, (rows, depth)), leaf(dtype, (columns, depth) if transposed else (depth, columns))
    b = build.permute(b, (1, 0)) if transposed else b
    return build.matmul(*(x if dtype.is_float else build.cast(x, dtypes.int32) for x in (a, b)))


def copies(root: Node) -> list[Node]:
    roots, pieces = whole_words([root], set(), AMX)
    assert pieces <= set(topological(roots))
    return sorted(pieces, key=lambda node: str(node.shape))


@pytest.mark.parametrize(("dtype", "length"), [(dtypes.int8, 576), (dtypes.uint8, 576), (dtypes.bfloat16, 576)])
def test_the_rows_of_a_are_copied_to_whole_blocks(dtype: DType, length: int) -> None:
    [copy] = copies(product(dtype, 33, 555, 77))
    assert (copy.op, copy.dtype, copy.shape) == (Op.PAD, dtype, (33, length))


@pytest.mark.parametrize(
    "root",
    [
        product(dtypes.int8, 33, 556, 77),  # whole words
        product(dtypes.bfloat16, 33, 556, 77),
        product(dtypes.float32, 33, 555, 77),  # no words at all
        product(dtypes.int8, 3, 555, 77),  # too few rows to gain anything
        product(dtypes.int8, 33, 55, 77),  # short
    ],
    ids=["bytes", "bfloat16", "float32", "few rows", "short"],
)
def test_others_stay(root: Node) -> None:
    assert copies(root) == []


def test_without_instructions_for_words_nothing_is_copied() -> None:
    root = product(dtypes.int8, 33, 555, 77)
    assert whole_words([root], set(), AVX2._replace(features=frozenset())) == ([root], set())


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("shape", [(33, 555, 77), (16, 65, 16), (100, 127, 31), (64, 1001, 48)])
@pytest.mark.by_turns(3)
def test_bytes_are_exact(kind: type, shape: tuple[int, int, int]) -> None:
    rows, depth, columns = shape
    limits = np.iinfo(kind)
    a = RNG.integers(limits.min, limits.max, (rows, depth), kind, endpoint=True)
    b = RNG.integers(limits.min, limits.max, (depth, columns), kind, endpoint=True)
    expected = a.astype(np.int64) @ b.astype(np.int64)
    x, y, z = sm.from_numpy(a), sm.from_numpy(b), sm.from_numpy(np.ascontiguousarray(b.T))
    np.testing.assert_array_equal((x.astype(sm.int32) @ y.astype(sm.int32)).numpy(), expected)
    np.testing.assert_array_equal((x.astype(sm.int32) @ z.mT.astype(sm.int32)).numpy(), expected)


@pytest.mark.parametrize("shape", [(33, 555, 77), (17, 65, 40), (2, 40, 127, 31)])
@pytest.mark.by_turns(2)
def test_bfloat16_is_right_and_infinities_stay_in_their_rows(shape: tuple[int, ...]) -> None:
    *batch, rows, depth, columns = shape
    a, b = RNG.standard_normal((*batch, rows, depth)), RNG.standard_normal((depth, columns))
    a[..., 0, depth - 1] = np.inf
    x, y = (sm.asarray(v.astype(np.float32)).astype(sm.bfloat16).realize() for v in (a, b))
    wide = (v.astype(sm.float32).numpy().astype(np.float64) for v in (x, y))
    with np.errstate(invalid="ignore"):
        expected = np.matmul(*wide)
    np.testing.assert_allclose((x @ y).astype(sm.float32).numpy(), expected, rtol=2e-2, atol=0.2)

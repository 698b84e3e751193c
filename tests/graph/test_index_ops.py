"""Gather, scatter, nonzero, scan, sort and window: built, verified, printed, parsed and interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt.dtypes import bool_, float16, float32, int32, int64, uint64
from smelt.errors import ArgumentError, AxisError, DTypeError, IndexRangeError, InternalError, ShapeError
from smelt.graph import Dim, build
from smelt.graph.interpret import interpret
from smelt.graph.node import Node, make, topological
from smelt.graph.ops import Gathering, Op
from smelt.graph.text import parse_graph, print_graph
from smelt.graph.verify import verify_graph, verify_node
from tests.graph.random_graphs import leaf

TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)


def run(node: Node, *arrays: Any) -> np.ndarray[Any, Any]:
    """The value of a node, after a round trip through text."""
    verify_graph([node])
    leaves = [found for found in topological([node]) if found.op is Op.LEAF]
    assert parse_graph(print_graph([node]), leaves) == [node]
    (result,) = interpret([node], {x: np.asarray(a, x.dtype.numpy) for x, a in zip(leaves, arrays, strict=True)})
    return result


def test_gather_rows() -> None:
    x, rows = leaf(float32, (4, 3)), leaf(int32, (5, 3))
    ids = np.array([3, 0, 0, 2, 1])
    node = build.gather(x, [rows], (-1, 1))
    assert np.array_equal(run(node, TABLE, np.repeat(ids[:, None], 3, 1)), TABLE[ids])


def test_gather_elements_and_what_lies_outside() -> None:
    x, i, j = leaf(float32, (4, 3)), leaf(int64, (4,)), leaf(int64, (4,))
    node = build.gather(x, [i, j], (-1, -2), checked=True)
    assert run(node, TABLE, [0, 3, -9, 99], [1, 2, 0, 7]).tolist() == [1, 11, 0, 11]


def test_scatter() -> None:
    target, updates, ids = leaf(float32, (4,)), leaf(float32, (5,)), leaf(int64, (5,))
    ones, values, places = np.ones(4), [10, 20, 30, 40, 50], [2, 0, 2, 7, -1]
    expected = {"set": [20, 1, 30, 1], "add": [21, 1, 41, 1], "mul": [20, 1, 300, 1], "max": [20, 1, 30, 1]}
    for op, result in expected.items():
        assert run(build.scatter(op, target, updates, [ids], (-1,)), ones, values, places).tolist() == result


def test_scatter_rows() -> None:
    target, updates, ids = leaf(float32, (4, 3)), leaf(float32, (2, 3)), leaf(int64, (2, 3))
    node = build.scatter("add", target, updates, [ids], (-1, 1))
    result = run(node, TABLE, np.ones((2, 3)), [[1, 1, 1], [1, 1, 1]])
    assert np.array_equal(result, TABLE + np.array([0, 2, 0, 0])[:, None])


def test_scan() -> None:
    x = leaf(float32, (4, 3))
    assert np.array_equal(run(build.scan("add", x, 0), TABLE), TABLE.cumsum(0))
    assert np.array_equal(run(build.scan("max", x, -1), -TABLE), np.maximum.accumulate(-TABLE, 1))
    assert np.allclose(run(build.scan("logaddexp", x, 1), TABLE), np.logaddexp.accumulate(TABLE, 1))
    assert build.scan("add", leaf(float32, (4, 1)), 1).op is Op.LEAF


def test_sort_is_stable_with_nan_as_the_greatest() -> None:
    x = leaf(float16, (6,))
    data = [2, np.nan, 1, 2, -0.0, 0.0]
    assert run(build.sort(x, 0, indices=True), data).tolist() == [4, 5, 2, 0, 3, 1]
    assert run(build.sort(x, 0, indices=True, descending=True), data).tolist() == [1, 0, 3, 2, 4, 5]
    assert run(build.sort(x, 0, count=3), data).tolist() == [0, 0, 1]
    assert run(build.sort(leaf(bool_, (3,)), 0), [True, False, True]).tolist() == [False, True, True]


def test_nonzero_fills_up_with_the_size() -> None:
    x = leaf(bool_, (5,))
    assert run(build.nonzero(x, 4), [0, 1, 0, 1, 0]).tolist() == [1, 3, 5, 5]
    assert run(build.nonzero(x, 1), [0, 1, 0, 1, 0]).tolist() == [1]


def test_window() -> None:
    x = leaf(float32, (2, 9))
    data = np.arange(18, dtype=np.float32).reshape(2, 9)
    node = build.window(x, 1, 3, 2, 2)
    assert node.shape == (2, 3, 3)
    assert run(node, data)[1].tolist() == [[9, 11, 13], [11, 13, 15], [13, 15, 17]]
    assert build.window(build.window(x, 0, 2), 1, 3).shape == (1, 7, 2, 3)


def test_mistakes() -> None:
    x, ids, flags = leaf(float32, (4, 3)), leaf(int64, (5,)), leaf(bool_, (4,))
    with pytest.raises(DTypeError, match="indices must be integers"):
        build.gather(x, [leaf(float32, (5,))] * 2, (-1, -2))
    with pytest.raises(ShapeError, match="index tensors"):
        build.gather(x, [ids, leaf(int64, (4,))], (-1, -2))
    with pytest.raises(IndexRangeError, match="nothing to read"):
        build.gather(leaf(float32, (0,)), [ids], (-1,))
    n = Dim("n", 0, 9)
    assert build.gather(leaf(float32, (n,)), [leaf(int64, (n,))], (-1,)).shape == (n,)  # empty when there is nothing
    with pytest.raises(IndexRangeError, match="nothing to read"):
        build.gather(leaf(float32, (n,)), [ids], (-1,))
    with pytest.raises(ArgumentError, match="no update called 'sub'"):
        build.scatter("sub", x, x, [], (0, 1))
    with pytest.raises(DTypeError, match="bool is not supported"):
        build.scan("add", flags, 0)
    with pytest.raises(AxisError):
        build.scan("add", x, 2)
    with pytest.raises(ArgumentError, match="5 elements are wanted of an axis of 4"):
        build.sort(x, 0, count=5)
    with pytest.raises(ShapeError, match="reaches over 5 elements"):
        build.window(x, 0, 3, dilation=2)
    with pytest.raises(ArgumentError, match="positive"):
        build.window(x, 0, 2, step=0)
    with pytest.raises(InternalError, match="as long on both sides"):
        verify_node(make(Op.GATHER, float32, (5,), (x, ids), Gathering((-1, 0))))


def test_an_index_beyond_int64_reads_the_last_element() -> None:
    x, at = leaf(float32, (4,)), leaf(uint64, (2,))
    assert run(build.gather(x, [at], (-1,)), [1, 2, 3, 4], [2**64 - 4, 1]).tolist() == [4, 2]

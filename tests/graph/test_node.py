"""Nodes: hash-consing, constants and order."""

from __future__ import annotations

import gc
import math
import threading

import numpy as np
import pytest

from smelt import dtypes
from smelt.graph import build
from smelt.graph.index import Dim
from smelt.graph.node import (
    Node,
    constant_array,
    constant_bytes,
    constant_value,
    live_nodes,
    make,
    topological,
    users,
)
from smelt.graph.ops import Op
from tests.graph.random_graphs import leaf
from tests.turns import TEST_ALL


def test_equal_nodes_are_one_object() -> None:
    x = leaf(dtypes.float32, (2, 3))
    assert build.add(x, x) is build.add(x, x)
    assert build.reshape(x, (6,)) is build.reshape(x, [6])
    assert build.exp(x) is not build.neg(x)


def test_sizes_that_are_equal_give_one_node() -> None:
    n = Dim("n", 1, 9)
    assert build.iota(n * 2, dtypes.int32) is build.iota(n + Dim("n", 1, 9), dtypes.int32)
    assert build.iota(n - n + 3, dtypes.int32) is build.iota(3, dtypes.int32)
    assert build.iota(n, dtypes.int32) is not build.iota(Dim("n", 1, 10), dtypes.int32)


def test_leaves_are_told_apart_by_their_storage() -> None:
    assert leaf(dtypes.float32, (2,)) is not leaf(dtypes.float32, (2,))


def test_constants_are_told_apart_by_their_bits() -> None:
    nodes = [
        build.const(0.0, dtypes.float32),
        build.const(-0.0, dtypes.float32),
        build.const(math.nan, dtypes.float32),
        build.const(1, dtypes.float32),
        build.const(1, dtypes.int32),
        build.const(True, dtypes.bool_),
        build.const(1, dtypes.int8),
    ]
    assert len(set(nodes)) == len(nodes)
    assert build.const(1, dtypes.float32) is build.const(1.0, dtypes.float32)
    assert build.const(np.float32(1), dtypes.float32) is build.const(True, dtypes.float32)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (300, dtypes.uint8, 44),
        (-1, dtypes.uint64, 2**64 - 1),
        (2**63, dtypes.int64, -(2**63)),
        (3.9, dtypes.int32, 3),
        (-3.9, dtypes.int32, -3),
        (1e30, dtypes.int32, 2**31 - 1),
        (-math.inf, dtypes.int8, -128),
        (math.nan, dtypes.int16, 0),
        (10**400, dtypes.float32, math.inf),
        (-(10**400), dtypes.float64, -math.inf),
        (1e39, dtypes.float32, math.inf),
        (1e5, dtypes.float16, math.inf),
        (0.5, dtypes.bool_, True),
        (math.nan, dtypes.bool_, True),
        (10**30, dtypes.bool_, True),
        (0, dtypes.bool_, False),
        (1.5, dtypes.bfloat16, 1.5),
    ],
)
def test_constants_convert_as_casts_do(value: float, dtype: dtypes.DType, expected: float) -> None:
    node = build.const(value, dtype)
    assert constant_value(node) == expected
    assert constant_array(node).dtype == dtype.numpy
    assert constant_array(node).shape == ()
    assert len(constant_bytes(value, dtype)) == dtype.itemsize


def test_nodes_die_with_their_last_user() -> None:
    gc.collect()
    before = live_nodes()
    x = leaf(dtypes.float32, (17,))
    y = build.exp(build.neg(x))
    assert live_nodes() == before + 3
    del y
    assert live_nodes() == before + 1
    del x
    assert live_nodes() == before


def test_a_long_chain_is_built_ordered_and_released() -> None:
    gc.collect()  # what tests before this one have left in cycles would die in the middle of it
    before = live_nodes()
    x = leaf(dtypes.float32, (3,))
    node = x
    length = 100_000 if TEST_ALL else 20_000
    for _ in range(length):
        node = build.neg(node)
    order = topological([node])
    assert len(order) == length + 1
    assert order[0] is x
    assert order[-1] is node
    del node, order, x
    assert live_nodes() == before


def test_order_has_sources_first_and_each_node_once() -> None:
    x = leaf(dtypes.float32, (3,))
    y = build.exp(x)
    z = build.add(build.mul(y, x), y)
    order = topological([z, y, z])
    assert sorted(map(id, order)) == sorted({id(node) for node in order})
    place = {node: at for at, node in enumerate(order)}
    assert all(place[source] < place[node] for node in order for source in node.sources)
    assert users(order)[y] == [z.sources[0], z]


def test_order_stops_at_computed_values() -> None:
    x = leaf(dtypes.float32, (3,))
    y = build.exp(x)
    z = build.neg(y)
    y.leaf = leaf(dtypes.float32, (3,))
    assert topological([z]) == [y, z]
    assert topological([z], through_leaves=True) == [x, y, z]


def test_threads_get_the_same_nodes() -> None:
    x = leaf(dtypes.float32, (3,))
    barrier = threading.Barrier(4)
    results: list[list[Node]] = []

    def work() -> None:
        barrier.wait()
        chain = [x]
        for at in range(2_000):
            chain.append(make(Op.UNARY, dtypes.float32, (3,), (chain[-1],), "neg" if at % 3 else "exp"))
        results.append(chain)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(a is b for chain in results[1:] for a, b in zip(results[0], chain, strict=True))


def test_a_node_says_what_it_is() -> None:
    x = leaf(dtypes.float32, (2, Dim("n", 1, 3)))
    assert repr(build.exp(x)) == "<unary 'exp' float32[2, Dim('n', 1, 3)]>"
    assert x.rank == 2

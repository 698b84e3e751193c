"""Routines, compiled, against the reference: sort, selection, scatter and positions of true elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import smelt as sm
from smelt import dtypes
from smelt.dtypes import DType, bool_, float16, float32, float64, int8, int32, int64, uint8, uint16, uint64
from smelt.graph import build
from smelt.graph.interpret import interpret
from smelt.graph.node import Node
from smelt.tensor import wrap
from tests.ops.samples import special, strided, values
from tests.profiles import AVX512, emulated

Array = NDArray[Any]
ALL = (*dtypes.FLOATS, *dtypes.INTEGERS, bool_)


def node_of(array: Array) -> Node:
    return sm.from_numpy(array)._node


def check(*nodes: Node) -> None:
    """Compiled values are those of the reference, bit by bit but for which NaN it is."""
    expected = interpret(nodes, lambda leaf: leaf.attribute.numpy())
    tensors = [wrap(node) for node in nodes]
    sm.realize(*tensors)
    for node, tensor, want in zip(nodes, tensors, expected, strict=True):
        got = tensor.numpy()
        assert got.shape == want.shape, repr(node)
        same = got == want
        if node.dtype.is_float:
            same = (same & (np.signbit(got) == np.signbit(want))) | (np.isnan(got) & np.isnan(want))
        assert np.all(same), f"{node!r}: {np.argwhere(~same)[:3]}, {got[~same][:3]} for {want[~same][:3]}"


def sorts(x: Node, axis: int, count: int | None = None) -> list[Node]:
    return [
        build.sort(x, axis, descending=descending, indices=indices, count=count)
        for descending in (False, True)
        for indices in (False, True)
    ]


# --- sort


def killer(n: int, lanes: int) -> Array:
    """Keys that make a quicksort's pivots bad for as long as it tries: of so many samples, where it takes them, more
    than half are the least that are left. All others are equal.
    """
    keys, number = np.full(n, n, np.int32), {}
    order = list(range(n))
    for _ in range(8 + 2 * n.bit_length()):
        step, first = len(order) // lanes, len(order) // (2 * lanes)
        samples = [order[step * k + first] for k in range(lanes)]
        for place in samples[: lanes // 2 + 1]:
            keys[place] = number.setdefault(place, len(number))
        pivot = sorted((keys[place], place) for place in samples)[lanes // 2]
        blocks = [order[k : k + lanes] for k in range(0, len(order), lanes)]
        # What is not below the pivot is put down from the end.
        order = [place for block in reversed(blocks) for place in block if (keys[place], place) >= pivot]
    return keys


@pytest.mark.parametrize("lanes", [8, 16])
def test_rows_against_which_pivots_are_of_no_use_are_sorted_stably(lanes: int) -> None:
    keys = killer(1500, lanes)
    assert len(np.unique(keys)) > 100
    check(*sorts(node_of(keys), 0), *sorts(node_of(keys.astype(np.float32)), 0))


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.by_turns(3)
def test_sort_of_every_dtype_with_special_values(dtype: DType) -> None:
    few = np.tile(special(dtype), 3)
    many = np.random.default_rng(1).permutation(np.tile(special(dtype), 100))
    check(*sorts(node_of(few), 0)[1:3], *sorts(node_of(many), 0)[::3])


@pytest.mark.parametrize("n", [1, 3, 31, 513, 5003])
def test_sort_of_rows(n: int) -> None:
    x = values(float32, 5, n, low=-9, high=9).round(1)
    check(*sorts(node_of(x), -1)[1:], *sorts(node_of(np.ascontiguousarray(x.T)), 0)[:3])


def adversaries(n: int) -> dict[str, Array]:
    ramp = np.arange(n, dtype=np.float32)
    noise = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    return {
        "sorted": ramp,
        "reversed": ramp[::-1].copy(),
        "constant": np.ones(n, np.float32),
        "sawtooth": ramp % 17,
        "nan blocks": np.where(ramp // 100 % 3 == 1, np.nan, noise),
        "zeros of both signs": np.where(ramp % 3 == 0, -0.0, 0.0).astype(np.float32) * np.where(ramp % 5, 1, 0),
        "some zeros of both signs": np.where(ramp % 4 < 2, noise, np.copysign(0.0, ramp % 3 - 1)).astype("f4"),
        "noise": noise,
        "two values": (noise > 0).astype(np.float32),
    }


@pytest.mark.parametrize("name", adversaries(1))
@pytest.mark.by_turns(2)
def test_sort_of_one_long_row_is_shared_by_threads(name: str) -> None:
    x = adversaries(100_003)[name]
    check(*sorts(node_of(x), 0), *sorts(node_of(x.astype(np.float64)), 0))


@pytest.mark.parametrize("count", [40_000, 50_000, 70_000])
def test_half_of_a_long_row_that_ends_among_zeros(count: int) -> None:
    x = adversaries(100_003)["some zeros of both signs"]
    check(*sorts(node_of(x), 0, count)[::2])


@pytest.mark.parametrize("dtype", [float16, uint8, uint64], ids=str)
def test_long_rows_of_other_dtypes(dtype: DType) -> None:
    check(*sorts(node_of(values(dtype, 1, 70_001, low=-100, high=100)), 1)[1:3])


def test_sort_along_any_axis_of_any_layout() -> None:
    x = strided(float32, 4, 37, 6)
    check(*(sort for axis in range(3) for sort in sorts(node_of(x), axis)[::3]))
    check(*sorts(node_of(values(float32, 2, 600, 21)), 1), *sorts(build.neg(node_of(values(float32, 3, 600))), 1))


# --- selection


@pytest.mark.parametrize("name", adversaries(1))
@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.by_turns(2)
def test_the_first_few_of_many(name: str, count: int) -> None:
    x = adversaries(100_003)[name]
    check(*sorts(node_of(x), 0, count))


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.by_turns(2)
def test_the_first_few_of_every_dtype(dtype: DType) -> None:
    x = np.random.default_rng(1).permutation(np.resize(special(dtype), 600)).reshape(3, -1)
    wide = np.concatenate([x, values(dtype, 3, 1000)], 1)
    check(*sorts(node_of(wide), 1, 5)[1:3], *sorts(node_of(np.ascontiguousarray(wide.T)), 0, 3)[::3])


def test_all_or_none_of_a_row() -> None:
    x = node_of(values(float32, 3, 1031))
    check(*sorts(x, 1, 1031), *sorts(x, 1, 0), *sorts(x, 1, 1030), *sorts(node_of(np.zeros((3, 0), np.float32)), 1))


# --- scatter


@pytest.mark.parametrize("dtype", [float32, float16, dtypes.bfloat16, float64, int8, uint16, int64], ids=str)
@pytest.mark.by_turns(2)
def test_scatter_of_rows(dtype: DType) -> None:
    check(*(scattered_rows(op, dtype) for op in ("set", "add", "mul", "max", "min")))


def scattered_rows(op: str, dtype: DType) -> Node:
    generator = np.random.default_rng(0)
    ids = generator.integers(-2, 9, 40)
    # Small whole numbers: sums and products are exact in any order.
    target = generator.integers(0, 3, (7, 37)).astype(dtype.numpy)
    updates = generator.integers(1 if op == "mul" else 0, 2, (40, 37)).astype(dtype.numpy)
    rows = build.expand(build.reshape(node_of(ids), (40, 1)), (40, 37))
    return build.scatter(op, node_of(target), node_of(updates), [rows], (-1, 1))


def test_scatter_of_elements_and_batches() -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((5, 11, 3)).astype(np.float32)
    i, j = generator.integers(-1, 6, (4, 9)), generator.integers(0, 12, (4, 9)).astype(np.int32)
    u = generator.standard_normal((4, 9, 3)).astype(np.float32)

    def spread(a: Array) -> Node:
        return build.expand(build.reshape(node_of(a), (4, 9, 1)), (4, 9, 3))

    check(build.scatter("set", node_of(x), node_of(u), [spread(i), spread(j)], (-1, -2, 2)))
    # A kept axis before an indexed one, and the updates in another order in memory.
    batch = generator.integers(0, 13, (5, 8)).astype(np.uint8)
    values_ = node_of(generator.standard_normal((8, 5)).astype(np.float32).T)
    check(build.scatter("max", node_of(x[..., 0]), values_, [node_of(batch)], (0, -1)))
    # Axes that change places, and a last axis that is indexed.
    k = generator.integers(0, 3, (11, 5))
    check(
        build.scatter(
            "add", node_of(x), node_of(u[:1, :1, :1].repeat(11, 0).repeat(5, 1)[..., 0]), [node_of(k)], (1, 0, -1)
        )
    )


@pytest.mark.parametrize("dtype", [float32, bool_], ids=str)
def test_scatter_into_constants_and_of_constants(dtype: DType) -> None:
    ids = node_of(np.array([3, 3, 0, 99]))
    one, zero = build.const(1, dtype), build.const(0, dtype)
    check(
        build.scatter(
            "max",
            build.expand(build.reshape(zero, (1,)), (5,)),
            build.expand(build.reshape(one, (1,)), (4,)),
            [ids],
            (-1,),
        )
    )
    rows = build.expand(build.reshape(ids, (4, 1)), (4, 20))
    ones = build.expand(build.reshape(one, (1, 1)), (4, 20))
    check(build.scatter("set", build.expand(build.reshape(zero, (1, 1)), (5, 20)), ones, [rows], (-1, 1)))


def test_scatter_of_nothing_and_into_one_element() -> None:
    x = node_of(np.array([1, 2, 4], np.float32))
    nothing = build.scatter("add", x, node_of(np.zeros(0, np.float32)), [node_of(np.zeros(0, np.int64))], (-1,))
    one = build.scatter("add", node_of(np.ones(1, np.float32)), x, [node_of(np.array([0, 0, 1]))], (-1,))
    check(nothing, one)
    check(build.scatter("add", node_of(np.zeros(0, np.float32)), x, [node_of(np.array([0, 0, 1]))], (-1,)))


def test_a_large_scatter_is_shared_by_threads() -> None:
    generator = np.random.default_rng(0)
    ids = generator.integers(0, 1000, 20_000)
    updates = generator.integers(-3, 3, (20_000, 16)).astype(np.float32)
    rows = build.expand(build.reshape(node_of(ids), (20_000, 1)), (20_000, 16))
    check(build.scatter("add", node_of(np.zeros((1000, 16), np.float32)), node_of(updates), [rows], (-1, 1)))
    check(
        build.scatter(
            "set", node_of(np.zeros(1000, np.int32)), node_of(np.arange(20_000, dtype=np.int32)), [node_of(ids)], (-1,)
        )
    )


def test_16_bit_floats_are_added_without_rounding_in_between() -> None:
    ones = node_of(np.ones(5000, np.float16))
    total = build.scatter("add", node_of(np.zeros(2, np.float16)), ones, [node_of(np.zeros(5000, np.int64))], (-1,))
    assert wrap(total).tolist() == [5000.0, 0.0]


# --- positions


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 1031, 32768, 100_003])
@pytest.mark.parametrize("density", [0.0, 0.01, 0.5, 1.0])
@pytest.mark.by_turns(4)
def test_positions_of_true_elements(n: int, density: float) -> None:
    mask = np.random.default_rng(n).random(n) < density
    x = node_of(mask)
    check(*(build.nonzero(x, size) for size in {1, int(mask.sum()), n + 7}))


def test_positions_of_any_nonzero_byte() -> None:
    x = np.frombuffer(bytes(range(200)) * 7, np.uint8).view(np.bool_)
    assert wrap(build.nonzero(node_of(x), 1400)).numpy().tolist() == [
        *[i for i in range(1400) if i % 200],
        *[1400] * 7,
    ]


# --- between other kernels


def test_routines_take_computed_values_and_are_computed_with() -> None:
    x = node_of(values(float32, 6, 50))
    order = build.sort(build.mul(x, x), 1, indices=True)
    check(build.add(build.cast(order, float32), x))
    shape = (300,)
    check(build.sort(build.reshape(build.add(x, x), shape), 0), build.sort(build.permute(x, (1, 0)), 1))
    check(build.sort(build.iota(100, int32), 0, descending=True))


def test_a_symbolic_number_of_rows_and_columns() -> None:
    n = sm.Dim("n", 1, 3000)
    for shape in ((n, 40), (3, n)):
        function = sm.jit(lambda x: wrap(build.sort(x._node, 1)), shapes=[shape])
        for size in (1, 2, 37, 700, 3000):
            x = values(float32, *(size if s is n else s for s in shape))
            assert np.array_equal(function(sm.from_numpy(x)).numpy(), np.sort(x, 1))


def test_explain_shows_routines() -> None:
    from smelt.transform import examine

    with emulated(AVX512):
        text = str(examine(lambda x: wrap(build.sort(x._node, 0)), sm.from_numpy(values(float32, 100))))
    assert "routine sort_rows float32 tasks 1" in text
    assert "size n = 100" in text

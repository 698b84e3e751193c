"""A function over nodes gives what the nodes are worth, for storages and for bare addresses, in any order of axes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, IndexRangeError
from smelt.runtime import Storage
from smelt.tensor import wrap
from smelt.transform import NativeFunction, stand_in


def made(f: Any, *like: np.ndarray[Any, Any], **options: Any) -> NativeFunction:
    inputs = [stand_in(sm.asarray(x).dtype, x.shape) for x in like]
    results = f(*map(wrap, inputs))
    roots = [x._node for x in (results if isinstance(results, tuple) else (results,))]
    return NativeFunction(inputs, roots, **options)


def written(function: NativeFunction, *args: np.ndarray[Any, Any], into: list[np.ndarray[Any, Any]]) -> None:
    function.write([x.ctypes.data for x in args], [x.ctypes.data for x in into])


def array(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_storages_in_and_out() -> None:
    x, w = array(5, 7), array(7, 3, seed=1)
    function = made(lambda x, w: ((x @ w).relu(), x.sum(0)), x, w)
    for seed in range(2):
        x = array(5, 7, seed=seed)
        first, second = function([Storage.of(x, copy=True), Storage.of(w, copy=True)])
        np.testing.assert_allclose(first.numpy(), np.maximum(x @ w, 0), rtol=1e-5)
        np.testing.assert_allclose(second.numpy(), x.sum(0), rtol=1e-5, atol=1e-6)


def test_addresses_in_and_out() -> None:
    x, w = array(5, 7), array(7, 3, seed=1)
    function = made(lambda x, w: ((x @ w).relu(), x.sum(0)), x, w)
    into = [np.full((5, 3), np.nan, np.float32), np.full(7, np.nan, np.float32)]
    written(function, x, w, into=into)
    np.testing.assert_allclose(into[0], np.maximum(x @ w, 0), rtol=1e-5)
    np.testing.assert_allclose(into[1], x.sum(0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_axes_lie_in_the_order_that_is_wanted(order: tuple[int, ...]) -> None:
    x = array(2, 3, 5)
    function = made(lambda x: x.exp() + 1, x, orders=[order])
    into = np.full([x.shape[k] for k in order], np.nan, np.float32)
    written(function, x, into=[into])
    np.testing.assert_allclose(into, (np.exp(x) + 1).transpose(order), rtol=1e-6)
    [found] = function([Storage.of(x, copy=True)])
    assert found.shape == x.shape and tuple(np.argsort(found.strides)[::-1]) == order
    np.testing.assert_allclose(found.numpy(), np.exp(x) + 1, rtol=1e-6)


def test_results_that_nothing_computes_are_copied() -> None:
    x = array(4, 6)
    function = made(lambda x: (x.T[::-1], x[1:3], y := x * 2, y, sm.zeros((2, 2))), x)
    shapes = [(6, 4), (2, 6), (4, 6), (4, 6), (2, 2)]
    into = [np.full(shape, np.nan, np.float32) for shape in shapes]
    written(function, x, into=into)
    for found, wanted in zip(into, [x.T[::-1], x[1:3], x * 2, x * 2, np.zeros((2, 2))], strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(function([Storage.of(x, copy=True)])[0].numpy(), x.T[::-1])


def test_an_input_may_have_strides_and_be_a_slice_of_what_is_read() -> None:
    x = array(6, 8)
    node = stand_in(sm.float32, (8, 6), (1, 8))
    function = NativeFunction([node], [(wrap(node)[2:5] * 3)._node])
    into = np.full((3, 6), np.nan, np.float32)
    function.write([x.ctypes.data], [into.ctypes.data])
    np.testing.assert_array_equal(into, x.T[2:5] * 3)


def test_a_result_is_written_over_an_input_where_that_may_be() -> None:
    x = array(300)
    function = made(lambda x: x * 2 + 1, x)
    assert function.in_place == [(0, 0)]
    before = x.copy()
    written(function, x, into=[x])
    np.testing.assert_array_equal(x, before * 2 + 1)


def test_one_compilation_serves_all_sizes() -> None:
    n = sm.Dim("rows", 1, 1 << 20)
    node = stand_in(sm.float32, (n, 3))
    function = NativeFunction([node], [wrap(node).exp()._node, wrap(node).sum(0)._node], orders=[(1, 0), None])
    for size in (1, 7, 64):
        x = array(size, 3)
        into = [np.full((3, size), np.nan, np.float32), np.full(3, np.nan, np.float32)]
        function.write([x.ctypes.data], [y.ctypes.data for y in into], {"rows": size})
        np.testing.assert_allclose(into[0], np.exp(x).T, rtol=1e-6)
        np.testing.assert_allclose(into[1], x.sum(0), rtol=1e-4, atol=1e-5)


def test_what_is_captured_is_read_where_it_lies() -> None:
    weights = sm.asarray(array(9, 3))[2:]
    weights.realize()
    x = array(2, 7)
    function = made(lambda x: x @ weights, x)
    into = np.full((2, 3), np.nan, np.float32)
    written(function, x, into=[into])
    np.testing.assert_allclose(into, x @ weights.numpy(), rtol=1e-5)


def test_an_index_outside_its_axis_is_told() -> None:
    x, at = array(4), np.array([1, 3], np.int64)
    function = made(lambda x, at: x[at], x, at)
    into = np.full(2, np.nan, np.float32)
    written(function, x, at, into=[into])
    np.testing.assert_array_equal(into, x[at])
    with pytest.raises(IndexRangeError):
        written(function, x, np.array([1, 4], np.int64), into=[into])


def test_what_does_not_fit_is_refused() -> None:
    x = array(4, 2)
    with pytest.raises(ArgumentError, match="order"):
        made(lambda x: x + 1, x, orders=[(0, 0)])
    function = made(lambda x: x + 1, x)
    with pytest.raises(ArgumentError, match="2 inputs and 1 results"):
        function.write([x.ctypes.data] * 2, [x.ctypes.data])

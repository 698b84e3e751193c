"""Sorting, finding and counting as users do it: eagerly, inside jit, on data that is hard to sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import smelt as sm
from smelt.errors import ArgumentError, TraceError

X = np.array([[3.0, -1.0, np.nan, 2.0], [0.0, -0.0, 5.0, 5.0]], np.float32)


@pytest.mark.by_turns(3)
@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.int8, np.float64]),
        st.sampled_from([(17,), (600,), (3, 40)]),
        fill=st.nothing(),
    ),
    st.booleans(),
)
def test_sorts_are_numpys(x: Any, descending: bool) -> None:
    places = sm.argsort(sm.from_numpy(x), descending=descending).numpy()
    if descending:
        reversed_ = np.flip(np.argsort(np.flip(x, -1), -1, kind="stable"), -1)
        assert np.array_equal(places, x.shape[-1] - 1 - reversed_)
    else:
        assert np.array_equal(places, np.argsort(x, -1, kind="stable"))
    ordered = sm.sort(sm.from_numpy(x), descending=descending).numpy()
    assert np.array_equal(ordered, np.take_along_axis(x, places, -1), equal_nan=x.dtype.kind == "f")


def test_repeated_elements_in_order() -> None:
    for shape in ((900,), (30, 30)):
        x = sm.from_numpy(np.broadcast_to(np.float32(3), shape))
        for axis in range(len(shape)):
            assert np.all(sm.sort(x, axis=axis).numpy() == 3)
            assert np.all(sm.topk(x, 2, axis).values.numpy() == 3)
        assert sm.unique(x).tolist() == [3]
        assert sm.flatnonzero(x).tolist() == list(range(900))


def test_topk_of_floats() -> None:
    values, indices = sm.topk(sm.from_numpy(X), 2)
    assert indices.tolist() == [[2, 0], [2, 3]]
    assert np.isnan(values.numpy()[0, 0]) and values.numpy()[1].tolist() == [5, 5]
    values, indices = sm.from_numpy(X).topk(2, axis=0, largest=False)
    assert indices.tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]
    assert sm.topk(sm.from_numpy(X), 0).values.shape == (2, 0)


def test_topk_of_many() -> None:
    x = np.random.default_rng(0).standard_normal(100_003).astype(np.float32)
    values, indices = sm.topk(sm.from_numpy(x), 100)
    assert np.array_equal(indices.numpy(), np.argsort(-x, kind="stable")[:100])
    assert np.array_equal(values.numpy(), -np.sort(-x)[:100])


def test_sizes_that_values_decide_need_one_compilation() -> None:
    from smelt import runtime

    x = np.random.default_rng(0).integers(0, 2, 1000)
    sm.nonzero(sm.from_numpy(x))
    before = len(runtime.current().graphs)
    for seed in range(5):
        x = np.random.default_rng(seed).integers(0, 3, 1000)
        assert np.array_equal(sm.nonzero(sm.from_numpy(x))[0].numpy(), np.flatnonzero(x))
    assert len(runtime.current().graphs) == before


def test_inside_jit_sizes_are_given() -> None:
    @sm.jit
    def places(x: sm.Tensor) -> Any:
        return sm.nonzero(x, size=4, fill_value=-1), x.argwhere(size=3), sm.bincount(x.flatten(), length=3)

    x = sm.asarray([[0, 2], [1, 0]])
    (rows, columns), pairs, counts = places(x)
    assert (rows.tolist(), columns.tolist()) == ([0, 1, -1, -1], [1, 0, -1, -1])
    assert (pairs.tolist(), counts.tolist()) == ([[0, 1], [1, 0], [0, 0]], [2, 1, 1])


@pytest.mark.parametrize("function", [sm.nonzero, sm.argwhere, sm.flatnonzero, sm.unique_values, sm.bincount])
def test_inside_jit_sizes_are_asked_for(function: Any) -> None:
    with pytest.raises(TraceError, match=f"{function.__name__}: the size of the result depends on values"):
        sm.jit(function)(sm.asarray([1, 0, 2]))


def test_topk_of_a_symbolic_axis() -> None:
    n = sm.Dim("n", 3, 2000)
    best = sm.jit(lambda x: sm.topk(x, 3), shapes=[(n,)])
    for size in (3, 50, 2000):
        x = np.random.default_rng(size).permutation(size).astype(np.float32)
        assert best(sm.from_numpy(x)).values.tolist() == [size - 1, size - 2, size - 3]
    with pytest.raises(ArgumentError, match="k is 4"):
        sm.jit(lambda x: sm.topk(x, 4), shapes=[(n,)])(sm.zeros(5))


def test_positions_on_a_symbolic_axis_that_may_be_empty() -> None:
    n = sm.Dim("n", 0, 50)
    places = sm.jit(lambda x: sm.flatnonzero(x, size=3, fill_value=-1), shapes=[(n,)])
    assert [places(sm.ones(size)).tolist() for size in (0, 2, 50)] == [[-1] * 3, [0, 1, -1], [0, 1, 2]]


def test_unique_with_all_that_it_returns() -> None:
    x = np.array([[3, 1, 3], [2, 1, 1]])
    got = sm.unique(sm.from_numpy(x), return_index=True, return_inverse=True, return_counts=True)
    expected = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    assert [part.numpy().reshape(-1).tolist() for part in got] == [part.reshape(-1).tolist() for part in expected]
    assert got[2].shape == x.shape


def test_nan_is_one_value_for_numpy_and_many_for_the_array_api() -> None:
    x = sm.asarray([np.nan, 1.0, np.nan, 1.0])
    assert np.array_equal(sm.unique(x).numpy(), [1, np.nan], equal_nan=True)
    assert sm.unique_counts(x).counts.tolist() == [2, 1, 1]
    assert sm.unique(x, equal_nan=False).shape == (3,)


@given(hnp.arrays(np.int32, st.sampled_from([1, 7, 40]), elements=st.integers(-5, 5)))
def test_unique_all_takes_apart_and_puts_together(x: Any) -> None:
    values, indices, inverse, counts = (part.numpy() for part in sm.unique_all(sm.from_numpy(x)))
    assert np.array_equal(values[inverse], x)
    assert np.array_equal(x[indices], values)
    assert counts.sum() == x.size


def test_isin_of_many() -> None:
    generator = np.random.default_rng(0)
    x, y = generator.integers(0, 5000, (100, 70)), generator.integers(0, 5000, 1000)
    assert np.array_equal(sm.isin(sm.from_numpy(x), sm.from_numpy(y)).numpy(), np.isin(x, y))


def test_bincount_with_weights() -> None:
    x, w = np.array([1, 3, 1, 0]), np.array([0.5, 2, 0.25, 1], np.float32)
    assert sm.bincount(sm.from_numpy(x), sm.from_numpy(w)).tolist() == np.bincount(x, w).tolist()
    assert sm.from_numpy(x).bincount(sm.asarray([1, 2, 3, 4])).dtype is sm.float64


def test_no_axis_is_all_elements_in_one_row_as_in_numpy() -> None:
    x = sm.asarray(X)
    assert np.array_equal(sm.sort(x, axis=None).numpy(), np.sort(X, axis=None), equal_nan=True)
    assert sm.argsort(x, axis=None).tolist() == np.argsort(X, axis=None, kind="stable").tolist()
    assert np.array_equal(np.sort(x, axis=None).numpy(), np.sort(X, axis=None), equal_nan=True)  # type: ignore[call-overload]


@pytest.mark.parametrize("function", [sm.softmax, sm.log_softmax, sm.softmin, sm.diff, sm.glu, sm.swiglu])
def test_functions_along_one_axis_do_not_guess_which(function: Any) -> None:
    with pytest.raises(ArgumentError, match=r"an axis must be an integer, got None[\s\S]*x\.flatten\(\)"):
        function(sm.asarray(X), axis=None)
    assert function(sm.asarray(X)).shape == function(sm.asarray(X), dim=-1).shape

"""`x[key] = values`: off unless asked for, then what NumPy's assignment gives, for the one tensor x."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smelt as sm
from smelt.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError, SmeltError, TraceError, TraceWarning
from smelt.graph import topological
from tests.tensor.test_indexing import as_tensors, drawn


@pytest.fixture(autouse=True)
def allowed() -> Iterator[None]:
    with sm.item_assignment(True):
        yield


def test_it_is_refused_unless_allowed() -> None:
    x = sm.zeros(3)
    with sm.item_assignment(False), pytest.raises(ArgumentError, match="never change") as caught:
        x[0] = 1
    assert "sm.item_assignment(True)" in str(caught.value) and "x.at[...].set(...)" in str(caught.value)
    x[0] = 1
    sm.item_assignment(False)  # for good
    with pytest.raises(ArgumentError, match="never change"):
        x[0] = 2
    sm.item_assignment(True)
    x[1] = 3
    assert x.tolist() == [1, 3, 0]
    with pytest.raises(ArgumentError, match="allowed"):
        sm.item_assignment("yes")  # type: ignore[arg-type]


@given(seed=st.integers(0, 2**40))
def test_any_key_changes_what_numpy_changes(seed: int) -> None:
    rng = random.Random(seed)
    while (found := drawn(rng)) is None:
        pass
    array, key, chosen = found
    values = np.random.default_rng(seed).normal(size=chosen.shape).astype(np.float32)
    if rng.random() < 0.3:
        values = np.float32(7)
    tensor = sm.asarray(array)
    with sm.item_assignment(True):
        tensor[as_tensors(key)] = float(values) if values.ndim == 0 else sm.asarray(values)
    array[key] = values
    np.testing.assert_array_equal(tensor.numpy(), array)


def test_other_tensors_stay_as_they_are() -> None:
    x = sm.arange(6).reshape(2, 3)
    same, part, turned, double = x, x[0], x.T, x * 2
    kept, array = sm.asarray(x), x.numpy()
    x[0] = 9
    assert same.tolist() == [[9, 9, 9], [3, 4, 5]]
    assert part.tolist() == [0, 1, 2] and turned.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert double.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert kept.tolist() == array.tolist() == [[0, 1, 2], [3, 4, 5]]
    part[0] = -1
    assert x[0, 0].item() == 9 and part.tolist() == [-1, 1, 2]


def test_functions_that_have_nothing_to_do_give_a_tensor_of_its_own() -> None:
    x = sm.asarray([1.0, 2.0])
    functions = (
        lambda x: x.real, lambda x: +x, lambda x: x.astype(sm.float32), lambda x: x.reshape(2), lambda x: x[...],
        lambda x: x.flatten(), sm.squeeze, sm.conj, sm.positive, lambda x: sm.broadcast_to(x, (2,)), sm.asarray,
        lambda x: sm.roll(x, 0), sm.clip, lambda x: sm.concat([x]), lambda x: sm.tile(x, 1), sm.fft.fftshift,
        sm.from_dlpack, lambda x: sm.broadcast_arrays(x)[0], sm.atleast_1d, lambda x: sm.permute_dims(x, 0),
    )  # fmt: skip
    for function in functions:
        found = function(x)
        found[0] = 5
        assert x.tolist() == [1, 2]


def test_masks() -> None:
    x = sm.asarray([[1.0, -2.0], [-3.0, 4.0]])
    x[x < 0] = 0
    assert x.tolist() == [[1, 0], [0, 4]]
    x[x == 0] = sm.asarray([7.0, 8.0])
    assert x.tolist() == [[1, 7], [8, 4]]
    x[sm.asarray([False, True])] = [5.0, 6.0]
    assert x.tolist() == [[1, 7], [5, 6]]
    x[x > 100] = sm.zeros(0)
    x[sm.asarray([[False, True], [False, False]])] += 1
    assert x.tolist() == [[1, 8], [5, 6]]
    with pytest.raises(ShapeError):
        x[x > 0] = sm.zeros(3)
    scalar = sm.asarray(3)
    scalar[()] = 4
    assert scalar.item() == 4
    scalar[sm.asarray(True)] = 5
    scalar[sm.asarray(False)] = 6
    assert scalar.item() == 5
    nothing = sm.zeros((0, 2))
    nothing[:] = 1
    nothing[sm.zeros(0, dtype=sm.bool)] = 1
    assert nothing.shape == (0, 2)


@pytest.mark.parametrize("dtype", [sm.bool, sm.int8, sm.uint64, sm.float16, sm.float64, sm.complex64])
def test_the_dtype_stays(dtype: sm.DType) -> None:
    for value in (True, 1, 1.5, 1j, *(sm.ones((), dtype=d) for d in (sm.bool, sm.int64, sm.float64, sm.complex128))):
        x = sm.zeros(2, dtype=dtype)
        rank = "bifc".index("bifc"[[dtype.is_bool, dtype.is_integer, dtype.is_float, dtype.is_complex].index(True)])
        given = value.dtype if isinstance(value, sm.Tensor) else sm.asarray(value).dtype
        fits = [given.is_bool, given.is_integer, given.is_float, given.is_complex].index(True) <= rank
        if fits:
            x[0] = value
            assert x.dtype is dtype and x.tolist() == [value.item() if isinstance(value, sm.Tensor) else value, 0]
        else:
            with pytest.raises(DTypeError, match="item assignment"):
                x[0] = value
            assert x.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (3, 1, IndexRangeError),
        ((0, 0), 1, SmeltError),
        (slice(None), [1.0, 2.0], ShapeError),
        (slice(None), "text", SmeltError),
        ("text", 1, SmeltError),
    ],
)
def test_mistakes_change_nothing(key: Any, value: Any, error: type[Exception]) -> None:
    x = sm.arange(3.0)
    with pytest.raises(error):
        x[key] = value
    assert x.tolist() == [0, 1, 2]


def filled(x: sm.Tensor) -> sm.Tensor:
    """Assigns to what it has made."""
    y = sm.zeros(x.shape)
    y[0] = x[0] * 3
    z = sm.asarray(x, copy=True)
    z[1:] = y[:-1]
    return y + z


def in_place(x: sm.Tensor) -> sm.Tensor:
    x[0] = 5
    return x


def test_functions_assign_to_what_they_have_made() -> None:
    x = sm.asarray([1.0, 2.0, 3.0])
    expected = filled(x).tolist()
    assert expected == [4, 3, 0]
    assert sm.jit(filled)(x).tolist() == expected
    assert sm.vmap(filled)(sm.stack([x, x])).tolist() == [expected, expected]
    assert sm.grad(lambda x: filled(x).sum())(x).tolist() == [7, 0, 0]
    assert sm.jit(sm.grad(lambda x: filled(x).sum()))(x).tolist() == [7, 0, 0]
    last, _ = sm.scan(lambda total, row: (total + filled(row), None), sm.zeros(3), sm.stack([x, x]))
    assert last.tolist() == [8, 6, 0]


def test_functions_do_not_assign_to_what_they_are_given() -> None:
    x = sm.asarray([1.0, 2.0, 3.0])
    transformed = (
        sm.jit(in_place),
        sm.vmap(in_place),
        sm.grad(lambda x: in_place(x).sum()),
        lambda x: sm.jvp(in_place, (x,), (x,)),
    )
    for function in transformed:
        argument = sm.stack([x, x]) if function is transformed[1] else x
        with pytest.raises(TraceError, match="has not made this tensor"):
            function(argument)
    assert x.tolist() == [1, 2, 3]


def test_the_state_of_a_loop_is_its_own() -> None:
    x = sm.asarray([1.0, 2.0, 3.0])

    def squared(i: sm.Tensor, x: sm.Tensor) -> sm.Tensor:
        x[i] = x[i] * x[i]
        return x

    assert sm.fori_loop(0, 3, squared, x).tolist() == [1, 4, 9] and x.tolist() == [1, 2, 3]
    assert sm.grad(lambda x: sm.fori_loop(0, 3, squared, x).sum())(x).tolist() == [2, 4, 6]


def test_functions_do_not_assign_to_what_lies_outside() -> None:
    x, layer = sm.zeros(3), sm.nn.Linear(2, 2)
    before = layer.weight.tolist()

    def closed(y: sm.Tensor) -> sm.Tensor:
        x[0] = y
        return x

    def to_weight(layer: sm.nn.Linear, y: sm.Tensor) -> sm.Tensor:
        layer.weight[0] = y
        return layer.weight

    for function in (
        lambda: sm.jit(closed)(sm.ones(())),
        lambda: sm.grad(lambda y: closed(y).sum())(sm.ones(())),
        lambda: sm.jit(to_weight)(layer, sm.ones(())),
        lambda: sm.jit(lambda y: to_weight(layer, y))(sm.ones(())),
    ):
        with pytest.raises(TraceError, match="has not made this tensor"):
            function()
    assert x.tolist() == [0, 0, 0] and layer.weight.tolist() == before
    layer.weight[0] = 1
    assert layer.weight[0].tolist() == [1, 1]


def test_a_compiled_function_sees_what_was_assigned() -> None:
    scale = sm.asarray([1.0, 2.0])
    double = sm.jit(lambda x: x * scale)
    assert double(sm.ones(2)).tolist() == [1, 2]
    scale[0] = 7
    assert double(sm.ones(2)).tolist() == [7, 2]


def test_results_of_transforms_can_be_assigned_to() -> None:
    slope, value = sm.grad(lambda x: ((x * x).sum(), x * 2), has_aux=True)(sm.ones(2))
    slope[0], value[0] = 9, 8
    assert slope.tolist() == [9, 2] and value.tolist() == [8, 2]


@pytest.mark.by_turns(3)
def test_long_loops_need_bounded_memory() -> None:
    x = sm.zeros(4)
    with sm.configure(node_limit=400), pytest.warns(TraceWarning):
        for i in range(1000):
            x[i % 4] += 1
    assert len(topological([x._node])) < 1000 and x.tolist() == [250] * 4


def test_beside_the_watch_for_nan() -> None:
    x = sm.ones(2)
    with sm.debug.nans():
        x[0] = 4
        with pytest.raises(sm.errors.NaNError):
            x[1] = sm.sqrt(sm.asarray(-1.0))
    assert x.tolist() == [4, 1]

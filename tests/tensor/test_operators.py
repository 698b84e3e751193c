"""Operators: promotion, weak Python scalars, NumPy on either side, and types that smelt does not know."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import dtypes
from smelt.errors import ArgumentError, DTypeError, ShapeError

OPERATORS = {
    operator.add: [5, 7, 9],
    operator.sub: [-3, -3, -3],
    operator.mul: [4, 10, 18],
    operator.truediv: [0.25, 0.4, 0.5],
    operator.floordiv: [0, 0, 0],
    operator.mod: [1, 2, 3],
    operator.pow: [1, 32, 729],
    operator.and_: [0, 0, 2],
    operator.or_: [5, 7, 7],
    operator.xor: [5, 7, 5],
    operator.lshift: [16, 64, 192],
    operator.rshift: [0, 0, 0],
    operator.eq: [False, False, False],
    operator.ne: [True, True, True],
    operator.lt: [True, True, True],
    operator.le: [True, True, True],
    operator.gt: [False, False, False],
    operator.ge: [False, False, False],
}


@pytest.mark.parametrize(("apply", "expected"), OPERATORS.items(), ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.by_turns(2)
def test_operators_take_tensors_arrays_and_scalars(apply: Any, expected: list[Any]) -> None:
    x, y = sm.asarray([1, 2, 3]), sm.asarray([4, 5, 6])
    assert np.allclose(apply(x, y).numpy(), expected)
    assert np.array_equal(apply(x, y.numpy()).numpy(), apply(x, y).numpy())
    assert np.array_equal(apply(x.numpy(), y).numpy(), apply(x, y).numpy())
    assert np.array_equal(apply(x, 2).numpy(), apply(x, sm.asarray([2, 2, 2])).numpy())
    assert np.array_equal(apply(2, x).numpy(), apply(sm.asarray([2, 2, 2]), x).numpy())
    assert isinstance(apply(x.numpy(), y), sm.Tensor)
    assert np.array_equal(apply(x, [4, 5, 6]).numpy(), apply(x, y).numpy())
    assert np.array_equal(apply([1, 2, 3], y).numpy(), apply(x, y).numpy())


def test_operators_of_one_tensor() -> None:
    x = sm.asarray([1, -2])
    assert ((-x).tolist(), (+x).tolist(), abs(x).tolist(), (~x).tolist()) == ([-1, 2], [1, -2], [1, 2], [-2, 1])


def test_matmul_operator() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    x, y = sm.asarray(a), sm.asarray(b)
    for product in (x @ y, x @ b, a @ y):
        assert isinstance(product, sm.Tensor) and np.array_equal(product.numpy(), a @ b)
    assert (x @ [1, 2, 3]).tolist() == (a @ [1, 2, 3]).tolist()
    assert ([1, 2] @ x).tolist() == ([1, 2] @ a).tolist()
    with pytest.raises(ShapeError, match="inner sizes differ"):
        _ = x @ [1, 2]
    with pytest.raises(TypeError):
        _ = x @ "text"  # type: ignore[operator]


@pytest.mark.parametrize("first", dtypes.ALL, ids=str)
@pytest.mark.parametrize("second", dtypes.ALL, ids=str)
def test_dtypes_promote_by_the_table(first: dtypes.DType, second: dtypes.DType) -> None:
    x, y = sm.ones(2, dtype=first), sm.ones(3, 1, dtype=second)
    try:
        expected = dtypes.promote(first, second)
    except DTypeError:
        with pytest.raises(DTypeError, match=r"maximum: .* have no common dtype"):
            sm.maximum(x, y)
        return
    assert sm.maximum(x, y).dtype is expected
    assert sm.result_type(first, second) is expected
    assert sm.concat([x, y.reshape(3)]).dtype is expected


@pytest.mark.parametrize(
    ("dtype", "scalar", "expected"),
    [
        (sm.int8, 1, sm.int8),
        (sm.uint8, True, sm.uint8),
        (sm.int32, 0.5, sm.float32),
        (sm.bool, 1, sm.int64),
        (sm.bool, 1.0, sm.float32),
        (sm.float16, 1.0, sm.float16),
        (sm.bfloat16, 3, sm.bfloat16),
        (sm.float64, 1.0, sm.float64),
        (sm.float32, np.float64(1), sm.float32),
        (sm.float32, np.float16(1), sm.float32),
        (sm.int8, np.int32(1), sm.int32),
    ],
    ids=str,
)
def test_python_scalars_are_weak_and_numpy_scalars_are_not(dtype: Any, scalar: Any, expected: Any) -> None:
    assert (sm.ones(2, dtype=dtype) * scalar).dtype is expected
    assert (scalar * sm.ones(2, dtype=dtype)).dtype is expected
    assert sm.where(True, sm.ones(2, dtype=dtype), scalar).dtype is expected


def test_integers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ArgumentError, match="256 does not fit in uint8"):
        sm.zeros(2, dtype=sm.uint8) + 256
    with pytest.raises(ArgumentError, match="-1 does not fit in uint8"):
        _ = sm.zeros(2, dtype=sm.uint8) < -1
    with pytest.raises(ArgumentError, match="does not fit in float32"):
        sm.zeros(2) + 10**400


def test_unknown_types_get_their_turn() -> None:
    class Other:
        def __radd__(self, other: Any) -> str:
            return "mine"

    x = sm.zeros(2)
    assert x + Other() == "mine"  # type: ignore[comparison-overlap, operator]
    assert (x == None) is False  # noqa: E711
    assert (x != "text") is True
    with pytest.raises(TypeError):
        _ = x + "text"  # type: ignore[operator]
    with pytest.raises(TypeError):
        _ = x < None


def test_division_and_powers_of_integers() -> None:
    x = sm.asarray([-7, 7], dtype=sm.int32)
    assert (x / 2).dtype is sm.float32 and (x / 2).tolist() == [-3.5, 3.5]
    assert (x // 2).tolist() == [-4, 3] and (x % 4).tolist() == [1, 3] and (x // 0).tolist() == [0, 0]
    assert (x**2).dtype is sm.int32 and (x**2).tolist() == [49, 49]
    assert (2.0 ** sm.asarray([3.0])).tolist() == [8.0]


def test_operators_on_dtypes_that_they_do_not_take_say_what_to_write() -> None:
    x = sm.ones(2)
    with pytest.raises(DTypeError, match=r"~\(x > 0\)"):
        _ = ~x
    with pytest.raises(DTypeError, match=r"\(x > 0\) & \(y > 0\)"):
        _ = x & x
    with pytest.raises(DTypeError, match="Write ~x"):
        _ = -(x > 0)

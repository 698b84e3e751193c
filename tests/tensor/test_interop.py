"""NumPy, nested lists and DLPack: what is shared, what is copied, and which dtypes come out."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import smelt as sm
from smelt import dtypes
from smelt.errors import ArgumentError, DTypeError, ShapeError


def test_asarray_copies() -> None:
    a = np.array([1.0, 2.0])
    x = sm.asarray(a)
    a[0] = 9
    assert x.tolist() == [1.0, 2.0]


VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda a: a,
    "reversed and skipping": lambda a: a[::-1, ::2],
    "transposed": lambda a: a.T,
    "repeated": lambda a: np.broadcast_to(a[0], (3, 5)),
    "empty": lambda a: a[:0],
    "scalar": lambda a: a[1, 2, ...],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_from_numpy_shares_memory_whatever_the_strides(view: Any) -> None:
    a = np.arange(20.0).reshape(4, 5)
    shown = np.asarray(view(a))
    x = sm.from_numpy(shown)
    assert np.array_equal(x.numpy(), shown)
    assert not shown.size or np.shares_memory(x.numpy(), a)
    assert np.array_equal((x + 1).numpy(), shown + 1)


def test_numpy_shares_memory() -> None:
    x = sm.arange(5).realize()
    assert np.shares_memory(x.numpy(), x.numpy())
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert np.asarray(x, dtype=np.float32).dtype == np.float32
    assert not np.shares_memory(np.array(x), x.numpy())
    with pytest.raises(ArgumentError, match="without a copy"):
        np.asarray(x, dtype=np.float32, copy=False)
    with pytest.raises(ShapeError, match="cannot have rank 65"):
        sm.zeros((1,) * 65).numpy()


def test_an_array_outlives_its_tensor() -> None:
    values = (sm.arange(1000) * 2).numpy()
    assert values[-1] == 1998 and not values.flags.writeable


class Level(enum.IntEnum):
    HIGH = 7


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (True, sm.bool),
        (3, sm.int64),
        (2.5, sm.float32),
        (Level.HIGH, sm.int64),
        ([1, 2.5], sm.float32),
        ([[True], [False]], sm.bool),
        ([], sm.float32),
        (np.float64(1), sm.float64),
        ([np.float64(1)], sm.float64),
        (np.array([1.0]), sm.float64),
        (np.array([1], ">i4"), sm.int32),
        (np.array([1.5], ml_dtypes.bfloat16), sm.bfloat16),
        (range(3), sm.int64),
        (memoryview(b"ab"), sm.uint8),
    ],
    ids=lambda value: type(value).__name__,
)
def test_dtypes_of_what_comes_in(value: Any, dtype: dtypes.DType) -> None:
    x = sm.asarray(value)
    assert x.dtype is dtype
    assert np.array_equal(x.numpy().astype(np.float64), np.asarray(value, np.float64))


def test_asarray_with_a_dtype_converts_as_casts_do() -> None:
    assert sm.asarray([1.5, -2.0, float("nan")], dtype=sm.uint8).tolist() == [1, 0, 0]
    assert sm.asarray(np.array([300]), dtype=sm.int8).tolist() == [44]
    assert sm.asarray(sm.asarray([1, 2]), dtype=sm.float16).dtype is sm.float16
    assert sm.asarray([1, 2], "float64").dtype is sm.float64
    assert sm.asarray([1, 2], np.int16).dtype is sm.int16


@pytest.mark.parametrize(
    ("value", "dtype", "culprit"),
    [
        (200, sm.int8, "200 does not fit in int8"),
        (-1, sm.uint8, "-1 does not fit in uint8"),
        (8, sm.int4, "8 does not fit in int4"),
        (2**64, sm.uint64, "does not fit in uint64"),
        (10**400, sm.float32, "does not fit in float32"),
        ([1, 2, 200], sm.int8, "200 does not fit in int8"),
        ([[-1]], sm.uint64, "-1 does not fit in uint64"),
        ((2**40,), sm.int32, "1099511627776 does not fit in int32"),
        (range(300), sm.uint8, "299 does not fit in uint8"),
        ([2**63, -1], None, "9223372036854775808 does not fit in int64"),
        ([sm.asarray(1), 200], sm.int8, "200 does not fit in int8"),
    ],
    ids=str,
)
def test_integers_that_do_not_fit_are_refused(value: Any, dtype: Any, culprit: str) -> None:
    with pytest.raises(ArgumentError, match=culprit):
        sm.asarray(value, dtype=dtype)


@pytest.mark.parametrize(
    ("value", "way"),
    [
        (["north", "east"], "np.unique"),
        (np.array(["2024-02-29"], dtype="datetime64[D]"), "astype(np.int64), in the units"),
        (np.array([1.5, 2], dtype=object), "astype(np.float64)"),
    ],
    ids=["texts", "days", "objects"],
)
def test_columns_that_hold_no_numbers_are_refused_with_a_way_to_make_some(value: Any, way: str) -> None:
    with pytest.raises(DTypeError, match=re.escape(way)):
        sm.asarray(value)


def test_integers_that_fit_are_taken() -> None:
    assert sm.asarray([-128, 127], dtype=sm.int8).tolist() == [-128, 127]
    assert sm.asarray(2**64 - 1, dtype=sm.uint64).item() == 2**64 - 1
    assert sm.asarray([2**63, -1], dtype=sm.float64).tolist() == [2.0**63, -1.0]
    assert sm.asarray([3, 0], dtype=sm.bool).tolist() == [True, False]
    assert sm.asarray([sm.asarray(300), 1], dtype=sm.int8).tolist() == [44, 1]
    assert sm.arange(-128, 128, dtype=sm.int8).shape == (256,)
    with pytest.raises(ArgumentError, match="arange: the integer 128 does not fit in int8"):
        sm.arange(-128, 129, dtype=sm.int8)


class Recorded:
    """A tensor of a library that records derivatives and knows types that NumPy does not."""

    def __init__(self, values: Any, dtype: sm.DType, requires_grad: bool) -> None:
        self.values, self.dtype, self.requires_grad = values, dtype, requires_grad

    def detach(self) -> Recorded:
        return Recorded(self.values, self.dtype, False)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on a tensor that requires grad")
        if self.dtype is sm.bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return np.asarray(self.values, self.dtype.numpy)

    def __dlpack__(self, **asked: Any) -> Any:
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient")
        return sm.asarray(self.values, dtype=self.dtype).__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("dtype", [sm.float32, sm.bfloat16], ids=str)
def test_tensors_of_libraries_that_record_derivatives(dtype: sm.DType, requires_grad: bool) -> None:
    theirs = Recorded([1.0, 2.5], dtype, requires_grad)
    assert sm.asarray(theirs).dtype is dtype and sm.asarray(theirs).tolist() == [1.0, 2.5]
    layer = sm.nn.RMSNorm(2)
    layer.load_state_dict({"weight": theirs})
    assert layer.weight.dtype is sm.float32 and layer.weight.tolist() == [1.0, 2.5]


def test_what_another_library_refuses_is_an_error_of_ours_with_its_reason() -> None:
    class Sparse(Recorded):
        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("no layout")

    with pytest.raises(ArgumentError, match="made of a Sparse: Got unsupported ScalarType BFloat16"):
        sm.asarray(Sparse([1.0], sm.bfloat16, False))
    with pytest.raises(ArgumentError, match="load_state_dict: weight: no tensor can be made of a Sparse"):
        sm.nn.RMSNorm(2).load_state_dict({"weight": Sparse([1.0], sm.bfloat16, False)})


@pytest.mark.parametrize("view", [*VIEWS.values(), memoryview], ids=[*VIEWS, "buffer"])
def test_asarray_without_a_copy_shares_memory(view: Any) -> None:
    a = np.arange(20.0).reshape(4, 5)
    x = sm.asarray(view(a), copy=False)
    assert np.array_equal(x.numpy(), view(a))
    assert not x.size or np.shares_memory(x.numpy(), a)
    assert not x.size or np.shares_memory(sm.asarray(x, copy=False).numpy(), a)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (3, None),
        ([1, 2], None),
        (np.float32(1), None),
        (np.arange(3), sm.int8),
        (np.array([1], ">i4"), None),
        (np.frombuffer(b"123456789", np.uint8)[1:].view(np.float64), None),
        (sm.zeros(2), sm.int8),
    ],
    ids=lambda value: type(value).__name__,
)
def test_asarray_without_a_copy_refuses_where_one_is_needed(value: Any, dtype: Any) -> None:
    with pytest.raises(ValueError, match="without a copy") as caught:
        sm.asarray(value, dtype, copy=False)
    assert isinstance(caught.value, ArgumentError)


def test_asarray_with_a_copy_is_independent_of_shared_memory() -> None:
    a = np.arange(6.0)
    shared = sm.from_numpy(a)
    copies = [sm.asarray(shared, copy=True), sm.asarray(shared.reshape(2, 3), copy=True), sm.asarray(a, copy=True)]
    a[:] = 7
    assert [copy.numpy().sum() for copy in copies] == [15.0] * 3
    assert shared.tolist() == [7.0] * 6


def test_asarray_inside_a_traced_function() -> None:
    double = sm.jit(lambda x: sm.asarray(sm.asarray(x, copy=True), copy=False) * 2)
    assert double(sm.arange(3)).tolist() == [0, 2, 4]


def test_lists_may_hold_tensors() -> None:
    x = sm.asarray([1.0, 2.0])
    assert sm.asarray([x, x + 1]).tolist() == [[1.0, 2.0], [2.0, 3.0]]
    assert sm.asarray([[x[0], 5.0], [x[1], 6.0]]).tolist() == [[1.0, 5.0], [2.0, 6.0]]


def test_array_api_namespace() -> None:
    x = sm.zeros(2)
    assert x.__array_namespace__() is sm
    assert (sm.pi, sm.e, sm.newaxis) == (np.pi, np.e, None) and np.isnan(sm.nan) and np.isinf(sm.inf)
    assert sm.finfo(sm.float16).max == 65504.0 and sm.finfo(x).bits == 32
    assert (sm.iinfo(sm.int8).min, sm.iinfo("uint16").max) == (-128, 65535)
    assert sm.isdtype(sm.int8, "signed integer") and sm.isdtype(sm.bool, ("bool", "numeric"))
    assert not sm.isdtype(sm.float32, "integral") and sm.isdtype(sm.float32, sm.float32)
    assert sm.result_type(sm.int8, 1, x) is sm.float32
    assert sm.broadcast_shapes((3, 1), 4, ()) == (3, 4)
    with pytest.raises(DTypeError):
        sm.finfo(sm.int8)
    with pytest.raises(DTypeError):
        sm.iinfo(sm.float32)


class Theirs:
    """An array of a library whose operators do not know tensors."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: Any) -> None:
        self.array = np.asarray(values)

    def __eq__(self, other: object) -> Any:
        return NotImplemented

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_arrays_of_other_libraries_beside_tensors() -> None:
    x, theirs = sm.asarray([1.0, 2.0]), Theirs(np.array([1.0, 5.0], np.float32))
    assert (x + theirs).tolist() == (theirs + x).tolist() == [2, 7]  # type: ignore[operator]
    assert (x == theirs).tolist() == (theirs == x).tolist() == [True, False]
    assert (theirs > x).tolist() == [False, True]  # type: ignore[operator]
    assert (x == "text") is False
    assert sm.nn.losses.mse_loss(x, theirs).item() == 4.5  # type: ignore[arg-type]


def test_gradients_by_arrays_of_other_libraries() -> None:
    x = np.array([1.0, 2.0], np.float32)
    for array in (x, Theirs(x)):
        assert sm.grad(lambda x: (x * x).sum())(array).tolist() == [2, 4]
    value, slope = sm.jvp(lambda x: (x * x).sum(), (x,), (x,))
    assert (value.item(), slope.item()) == (5, 10)
    assert sm.vjp(sm.square, x)[1](x)[0].tolist() == [2, 8]


def test_items_of_other_libraries_make_batches() -> None:
    items = [(Theirs(np.full(2, k, np.float32)), k) for k in range(3)]
    batches = [(rows.tolist(), numbers.tolist()) for rows, numbers in sm.data.DataLoader(items, batch=2)]
    assert batches == [([[0, 0], [1, 1]], [0, 1]), ([[2, 2]], [2])]


def test_numpy_takes_our_dtypes() -> None:
    for dtype in (sm.float32, sm.bfloat16, sm.int4, sm.bool):
        assert np.dtype(dtype) == dtype.numpy
    x = sm.ones(3, dtype=sm.float16)
    assert np.zeros(3, x.dtype).dtype == np.ones(3).astype(x.dtype).dtype == np.float16


def test_what_is_no_number_is_named() -> None:
    with pytest.raises(DTypeError, match="add: no tensor can hold None"):
        sm.add(sm.ones(2), None)  # type: ignore[arg-type]

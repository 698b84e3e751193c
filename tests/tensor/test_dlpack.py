"""DLPack: versions, copies, devices and the read-only mark, with NumPy and with producers old and new."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import dtypes
from smelt.errors import ArgumentError, DeviceError, ExchangeError, ProtocolError

NAMED_BY_NUMPY = [d for d in dtypes.ALL if d.numpy.kind in "biuf"]


class Producer:
    """Another library's tensor, which hands a smelt tensor's memory on."""

    def __init__(self, x: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.x, self.device = x, device
        self.asked: dict[str, Any] = {}

    def __dlpack__(self, **asked: Any) -> Any:
        self.asked = asked
        return self.x.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class OldProducer(Producer):
    """A library from before DLPack 1.0."""

    def __dlpack__(self, stream: None = None) -> Any:  # type: ignore[override]
        return self.x.__dlpack__()


@pytest.mark.parametrize("dtype", NAMED_BY_NUMPY, ids=str)
def test_numpy_takes_tensors_and_gives_arrays(dtype: dtypes.DType) -> None:
    x = sm.asarray([[1, 0], [0, 1]], dtype=dtype).realize()
    array = np.from_dlpack(x, copy=False)
    assert array.dtype == dtype.numpy and np.shares_memory(array, x.numpy()) and not array.flags.writeable
    assert np.shares_memory(sm.from_dlpack(array).numpy(), array)
    assert x.__dlpack_device__() == np.zeros(1).__dlpack_device__()


@pytest.mark.parametrize("make", [Producer, OldProducer])
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_every_dtype_comes_back(make: type[Producer], dtype: dtypes.DType) -> None:
    if dtype.name in {"int4", "uint4"}:
        pytest.skip("DLPack packs what smelt keeps in a byte each")
    x = sm.asarray([[1, 0, 1], [0, 1, 1]], dtype=dtype).realize()
    y = sm.from_dlpack(make(x))
    assert y.dtype is dtype and y.tolist() == x.tolist()
    assert not np.shares_memory(y.numpy(), x.numpy())  # others might write to it


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3)], ids=str)
def test_shapes_and_strides_come_back(shape: tuple[int, ...]) -> None:
    a = np.arange(np.prod(shape, dtype=int) * 4, dtype=np.float32).reshape(*shape, 4)[..., ::-2]
    x = sm.from_numpy(a)
    assert np.array_equal(np.from_dlpack(x), a)
    assert np.array_equal(sm.from_dlpack(Producer(x)).numpy(), a)
    assert np.array_equal(sm.from_dlpack(a).numpy(), a)


@pytest.mark.parametrize(
    ("version", "name"),
    [(None, "dltensor"), ((0, 8), "dltensor"), ((1, 0), "dltensor_versioned"), ((2, 5), "dltensor_versioned")],
)
def test_the_capsule_is_of_a_version_that_the_consumer_knows(version: Any, name: str) -> None:
    assert f'"{name}"' in str(sm.arange(3).__dlpack__(max_version=version))


def test_copies_of_tensors_are_marked_and_may_be_written_to() -> None:
    x = sm.arange(3).realize()
    for copy, shares in ((None, False), (False, True), (True, False)):
        array = np.from_dlpack(x, copy=copy)
        assert np.shares_memory(array, x.numpy()) is shares and array.flags.writeable is not shares


class Careless:
    """A library that takes capsules and writes in place, whatever their marks say."""

    def __init__(self, x: Any, copy: bool | None = None) -> None:
        self.array = np.from_dlpack(x, copy=copy)
        self.address, self.count = self.array.ctypes.data, self.array.size

    def mul_(self, factor: float) -> None:
        memory = np.ctypeslib.as_array((ctypes.c_float * self.count).from_address(self.address))
        memory *= factor


def test_a_library_that_writes_in_place_does_not_change_a_tensor() -> None:
    w = sm.asarray([1.0, 2.0, 3.0])
    view, doubled = w[1:], (w * 2).realize()
    for x in (w, view, doubled):
        Careless(x).mul_(10)
    assert w.tolist() == [1.0, 2.0, 3.0] and view.tolist() == [2.0, 3.0] and doubled.tolist() == [2.0, 4.0, 6.0]
    with pytest.raises(ValueError, match="read-only"):
        w.numpy()[0] = 10
    with pytest.raises(ValueError, match="read-only"):
        np.from_dlpack(w, copy=False)[0] = 10


def test_copies_of_arrays() -> None:
    a = np.arange(3)
    for copy, shares in ((None, True), (False, True), (True, False)):
        assert np.shares_memory(sm.from_dlpack(a, copy=copy).numpy(), a) is shares
    x = sm.from_dlpack(a)
    assert np.shares_memory(sm.from_dlpack(x).numpy(), a)
    assert not np.shares_memory(sm.from_dlpack(x, copy=True).numpy(), a)
    old = OldProducer(a)
    assert np.shares_memory(sm.from_dlpack(old).numpy(), a)
    assert not np.shares_memory(sm.from_dlpack(old, copy=True).numpy(), a)


def test_memory_outlives_both_libraries() -> None:
    x = sm.arange(1000) * 2
    array = np.from_dlpack(Producer(x))
    y = sm.from_dlpack(array)
    del x, array
    gc.collect()
    assert int(y.sum()) == 999_000


def test_other_devices_are_asked_for_a_copy_in_main_memory() -> None:
    there = Producer(sm.arange(3), device=(2, 0))
    with pytest.raises(BufferError, match="device type 2, which smelt cannot read"):
        sm.from_dlpack(there)
    assert sm.from_dlpack(there, device="cpu").tolist() == [0, 1, 2]
    assert there.asked["dl_device"] == (1, 0)
    with pytest.raises(ExchangeError, match="cannot be copied to main memory on request"):
        sm.from_dlpack(OldProducer(sm.arange(3), device=(2, 0)), device="cpu")
    with pytest.raises(DeviceError, match="no device 'cuda'"):
        sm.from_dlpack(there, device="cuda")


class Broken(Producer):
    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("not today")


class NoCapsule(Producer):
    def __dlpack__(self, **_: Any) -> Any:
        return b"capsule"


def test_producers_that_fail() -> None:
    with pytest.raises(BufferError, match="not today"):
        sm.from_dlpack(Broken(None))
    with pytest.raises(ExchangeError, match="bytes that is no unused DLPack capsule"):
        sm.from_dlpack(NoCapsule(None))
    with pytest.raises(AttributeError, match="does not speak DLPack: it has no __dlpack__") as caught:
        sm.from_dlpack([1.0])
    assert isinstance(caught.value, ProtocolError)
    used = Producer(np.arange(3))
    capsule = np.arange(3).__dlpack__(max_version=(1, 0))
    used.__class__ = type("Used", (Producer,), {"__dlpack__": lambda self, **_: capsule})
    assert sm.from_dlpack(used).tolist() == [0, 1, 2]
    with pytest.raises(ExchangeError, match="no unused DLPack capsule"):
        sm.from_dlpack(used)


@pytest.mark.parametrize(
    ("asked", "error", "text"),
    [
        ({"stream": 1}, BufferError, "main memory has no streams"),
        ({"dl_device": (2, 0)}, BufferError, r"cannot be handed out on device \(2, 0\)"),
        ({"dl_device": 1}, BufferError, "cannot be handed out on device 1"),
        ({"copy": False}, BufferError, "too old to take read-only memory without a copy"),
        ({"copy": False, "max_version": (0, 9)}, BufferError, "too old"),
        ({"max_version": 1}, ArgumentError, "must be a pair of integers"),
        ({"max_version": (1, 0), "copy": 1}, ArgumentError, "copy must be True, False or None"),
    ],
    ids=str,
)
def test_requests_that_are_refused(asked: dict[str, Any], error: type[Exception], text: str) -> None:
    x = sm.arange(3)
    with pytest.raises(error, match=text) as caught:
        x.__dlpack__(**asked)
    assert isinstance(caught.value, sm.errors.SmeltError) and "test_dlpack.py" in str(caught.value)
    assert x.__dlpack__(dl_device=(1, 0), max_version=(1, 0), copy=False) is not None


def test_a_traced_tensor_has_no_memory() -> None:
    with pytest.raises(sm.errors.TraceError, match="not known while the function is traced"):
        sm.jit(np.from_dlpack)(sm.arange(3))

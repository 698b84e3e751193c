"""Where computed values lie, and the leaf nodes that stand for them."""

from __future__ import annotations

import itertools
import math
import sys
import weakref
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from smelt.device import HOST, Memory, allocate, pointer, wrap
from smelt.dtypes import DType, as_dtype
from smelt.errors import DonatedError
from smelt.graph import Node, make_leaf, row_major
from smelt.runtime.devices import default_device, device
from smelt.runtime.state import current

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Signature:
    """What compiled code depends on: one object per distinct combination, so that signatures compare by identity."""

    __slots__ = ("device", "dtype", "packed_bytes", "shape", "strides")

    def __init__(self, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], device: str) -> None:
        self.dtype, self.shape, self.strides, self.device = dtype, shape, strides, device
        in_order = strides == row_major(shape)
        self.packed_bytes = math.prod(shape) * dtype.itemsize if in_order else -1  # of a block that is this alone


def signature(
    dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...] | None = None, device: str = HOST
) -> Signature:
    """The one signature object for these; strides default to row-major order."""
    if strides is None:
        strides = row_major(shape)  # type: ignore[assignment]
        assert strides is not None
    key = (dtype, shape, strides, device)
    known = current().signatures
    return known.get(key) or known.setdefault(key, Signature(*key))


class _Holder:
    """What holds one object, as a storage does its memory and a tensor its node."""

    def __init__(self) -> None:
        self._memory = object()

    def references(self) -> int:
        memory = self._memory
        return sys.getrefcount(memory)


_ALONE: Final = _Holder().references()  # how many references Python counts where nobody else has one


next_serial = itertools.count(1).__next__  # tells what was there before something else began


class Storage:
    """A strided view of a block of memory: element strides, and the element at which it starts. Never written again."""

    __slots__ = (
        "__weakref__",
        "_memory",
        "_moved",
        "has_history",
        "kept",
        "node",
        "offset",
        "pointer",
        "serial",
        "signature",
    )

    def __init__(self, memory: Memory, signature: Signature, offset: int = 0) -> None:
        self._memory: Memory | None = memory
        self._moved: Storage | None = None  # the same on another device
        # What was prepared of it and older ones, by a name and the serial numbers of all.
        self.kept: dict[tuple[Hashable, tuple[int, ...]], Storage] | None = None
        self.signature = signature
        self.offset = offset
        self.serial = next_serial()
        self.has_history = False  # whether an expression was computed for it, of which nothing is left
        self.node: weakref.ref[Node] | None = None  # the leaf that stands for it
        # None once it is given up: nothing can be run on it then.
        self.pointer: bytes | None = memory.pointer if offset == 0 else self.shifted(0)

    @classmethod
    def of(cls, array: NDArray[Any], copy: bool, place: str | None = None) -> Storage:
        """The storage of a NumPy array: a contiguous copy, or the array's own memory where its layout allows.

        It lies on the device that is named, or on the default one. Only the processor shares an array's memory.
        """
        dtype = as_dtype(array.dtype)
        target = default_device() if place is None else device(place)
        if target.name != HOST:
            memory: Memory = target.upload(np.ascontiguousarray(array))
            return cls(memory, signature(dtype, array.shape, device=target.name))
        if not copy and cls.shares(array):
            memory = wrap(array)
            first = array.__array_interface__["data"][0]
            strides = tuple(stride // dtype.itemsize for stride in array.strides)
            offset = (first - memory.address) // dtype.itemsize
            return cls(memory, signature(dtype, array.shape, strides), offset)
        memory = allocate(max(1, array.size) * dtype.itemsize)
        memory.view(dtype.numpy, array.shape, None, 0, writeable=True)[...] = array
        return cls(memory, signature(dtype, array.shape))

    @staticmethod
    def shares(array: NDArray[Any]) -> bool:
        """Whether the layout of an array allows to use its own memory."""
        even = all(stride % array.itemsize == 0 for stride in array.strides)
        return even and array.flags.aligned and array.dtype.isnative

    @property
    def memory(self) -> Memory:
        if self._memory is None:
            raise DonatedError(
                "this tensor was donated to a jitted function and has no value any more",
                hint="Use what the function returned, or leave the argument out of donate=.",
            )
        return self._memory

    @property
    def device(self) -> str:
        return self.signature.device

    @property
    def dtype(self) -> DType:
        return self.signature.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.signature.shape

    @property
    def strides(self) -> tuple[int, ...]:
        return self.signature.strides

    def view(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Storage:
        """Another view of the same memory; the offset counts from this one's start."""
        return Storage(self.memory, signature(self.dtype, shape, strides, self.device), self.offset + offset)

    def in_order(self) -> Storage:
        """The same values in row-major order: this, or a copy."""
        return self if self.strides == row_major(self.shape) else Storage.of(self.numpy(), copy=True, place=self.device)

    def on(self, place: str) -> Storage:
        """The same values, in the same layout, on another device. A copy is made once."""
        if place == self.device:
            return self
        if self._moved is None or self._moved.device != place:
            whole = self.memory.view(np.dtype(np.uint8), (self.memory.nbytes,))
            moved = device(place).upload(whole)
            self._moved = Storage(moved, signature(self.dtype, self.shape, self.strides, place), self.offset)
        return self._moved

    def numpy(self) -> NDArray[Any]:
        """A read-only NumPy view, which keeps the memory."""
        if 0 in self.shape:  # a view of nothing may start anywhere, also outside the memory
            return self.memory.view(self.dtype.numpy, self.shape, None, 0)
        size = self.dtype.itemsize
        is_packed = self.signature.packed_bytes >= 0
        strides = None if is_packed else tuple([stride * size for stride in self.strides])
        return self.memory.view(self.dtype.numpy, self.shape, strides, self.offset * size)

    def element(self) -> Any:
        """The first element, as a Python number."""
        return self.memory.view(self.dtype.numpy, (), None, self.offset * self.dtype.itemsize).item()

    def shifted(self, elements: int) -> bytes:
        """The pointer to an element, counted from this view's start."""
        return pointer(self.memory.address + (self.offset + elements) * self.dtype.itemsize)

    def is_shared(self) -> bool:
        """Whether another tensor than the one that was passed has this value, or some expression needs it."""
        node = None if self.node is None else self.node()
        return node is None or sys.getrefcount(node) > _ALONE

    def donate(self) -> None:
        """Give the memory up: whoever asks for the value from now on is told so."""
        self._memory = None
        self._moved = self.kept = None
        self.pointer = None

    def take(self) -> Memory | None:
        """Give the memory up to whoever calls, if this is all of a block of smelt's own, in order, and nobody else
        holds it.
        """
        memory = self._memory if self.is_alone() else None
        if memory is not None:
            self.donate()
        return memory

    def is_alone(self) -> bool:
        """Whether this is all of a block of smelt's own, in order, that nobody else holds."""
        memory = self._memory
        if memory is None or not memory.recycled or self.offset or memory.nbytes != self.signature.packed_bytes:
            return False
        return sys.getrefcount(memory) <= _ALONE  # other views have references of their own

    def renew(self) -> None:
        """Forget what was made of the values: they are about to change, which nobody else will see."""
        self._moved = self.kept = None
        self.serial = next_serial()

    def is_donated(self) -> bool:
        return self._memory is None


# Values that belong to a program, as numbers in its text do: no other tensor will ever be in their place.
_constants: Final = weakref.WeakSet[Storage]()


def set_constant(storage: Storage) -> None:
    """Say that a value belongs to a program: whoever reads it need not look for another one later."""
    _constants.add(storage)


def is_constant(storage: Storage) -> bool:
    return storage in _constants


def leaf(storage: Storage) -> Node:
    """The node that stands for a computed value: one for as long as it lives."""
    node = None if storage.node is None else storage.node()
    if node is None:
        found = storage.signature
        node = make_leaf(found.dtype, found.shape, storage)
        storage.node = weakref.ref(node)
    return node


def new_leaf(memory: Memory, signature: Signature) -> Node:
    """The node for a value that has just been computed."""
    storage = Storage(memory, signature)
    node = make_leaf(signature.dtype, signature.shape, storage)
    storage.node = weakref.ref(node)
    return node


def host_leaf(values: Any, dtype: DType) -> Node:
    """A leaf holding a few numbers."""
    array = np.asarray(values, dtype.numpy)
    place = default_device()
    return leaf(Storage(place.upload(array.tobytes()), signature(dtype, array.shape, device=place.name)))

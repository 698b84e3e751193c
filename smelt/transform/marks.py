"""What stands for a static value in the key of a structure: values that may lead to different traces have different
marks.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from smelt.errors import ArgumentError, TraceError
from smelt.tensor import Tensor, array_of

_READ_AT_MOST: Final = 1 << 20  # bytes of an array that are looked at before every call: a millisecond


class Identity:
    """An object that counts by identity. It is kept alive, so that its identity stays its own."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def value_mark(value: Any) -> Any:
    """A value by its type and content: 1, 1.0 and True differ, and so do 0.0 and -0.0, also inside tuples."""
    kind = type(value)
    if kind is float:
        return (kind, value.hex())
    if isinstance(value, tuple):
        return (kind, tuple([value_mark(item) for item in value]))
    if kind is frozenset:
        return (kind, frozenset([value_mark(item) for item in value]))
    try:
        if is_array(value):
            raise TypeError
        hash(value)
    except TypeError:
        if hasattr(value, "__dict__") and not is_array(value):
            return (kind, Identity(value))  # what code reads of it counts, too
        raise ArgumentError(
            f"jit: an argument of type {kind.__name__} is neither a tensor nor hashable",
            hint="Pass arrays as tensors (sm.asarray), and other data as tuples, strings or numbers.",
        ) from None
    return (kind, value)


def is_used_up(value: Any) -> bool:
    """Whether Python made an iterator or a generator that reading changes."""
    return hasattr(type(value), "__next__") and type(value).__module__ in ("builtins", "itertools")


def check_lasts(value: Any) -> None:
    """Refuse iterators that a function reads: each of its calls would have what the first one was given."""
    if is_used_up(value):
        raise TraceError(
            f"jit: the function reads a {type(value).__name__} from outside, which gives something else each time",
            rule="a function is traced once: its later calls would have what the first one was given.",
            hint="Call next() outside of the function, and pass what it gives.",
        )


def counts_by_identity(value: Any) -> bool:
    """Whether equal means the same: such an object may change."""
    return getattr(type(value), "__eq__", None) is object.__eq__


def is_array(value: Any) -> bool:
    """Whether a value is another library's array, which may change without anybody noticing."""
    kind = type(value)
    return not issubclass(kind, Tensor | np.generic | type) and (
        hasattr(kind, "__dlpack__") or hasattr(kind, "__array__")
    )


def array_mark(value: Any) -> Any:
    """An array that a function reads from outside, by its content."""
    array = array_of(value, "jit")
    if array.nbytes > _READ_AT_MOST:
        raise TraceError(
            f"jit: the function reads a {type(value).__name__} of {array.nbytes:,} bytes that it is not given",
            rule="such an array may be written to at any time, so its content is compared at every call, up to 1 MiB.",
            hint="Pass it as an argument, or make it a tensor once, outside: sm.asarray(array).",
        )
    return (type(value), array.dtype.str, array.shape, hash(array.tobytes()))


def weights_mark(module: Any) -> Any:
    """The weights of a PyTorch module, and how often each has been written to: code may reach them in many ways."""
    tensors = [tensor for name in ("parameters", "buffers") for tensor in getattr(module, name, tuple)()]
    return tuple([(Identity(tensor), getattr(tensor, "_version", None)) for tensor in tensors])

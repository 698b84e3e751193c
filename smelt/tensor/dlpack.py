"""DLPack both ways: memory handed from library to library.

What comes in is shared. What goes out is a copy unless `copy=False` asks for the memory itself: tensors never change,
and consumers that write in place seldom heed the read-only mark.

NumPy makes and takes the capsules. Element types that NumPy cannot name in a capsule travel as unsigned integers of the
same width, and the name in the capsule is written or read here.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType
from smelt.errors import ArgumentError, ExchangeError, ProtocolError

if TYPE_CHECKING:
    from numpy.typing import NDArray

CPU: Final = (1, 0)
# Device types whose memory Python can read: plain, pinned for CUDA and ROCm, managed by CUDA.
_READABLE: Final = (1, 3, 11, 13)
_VERSION: Final = (1, 1)
_IS_COPIED: Final = 2
_UNSIGNED: Final = 1
_PLAIN: Final[dict[int, np.dtype[Any]]] = {8: np.dtype(np.uint8), 16: np.dtype(np.uint16)}
# dtype name: (type code, bits), for those that NumPy does not know.
_CODES: Final = {"bfloat16": (4, 16), "float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8)}


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_is_capsule: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_address: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _Contents(NamedTuple):
    """What a capsule says: the element type (to be changed in place) and the flags."""

    dtype: _Type
    flags: int


def _opened(capsule: Any) -> _Contents:
    if _is_capsule(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(_address(capsule, b"dltensor_versioned"))
        if managed.major != _VERSION[0]:
            raise ExchangeError(f"from_dlpack: DLPack version {managed.major}.{managed.minor} is not supported")
        return _Contents(managed.tensor.dtype, managed.flags)
    if _is_capsule(capsule, b"dltensor"):
        return _Contents(_Tensor.from_address(_address(capsule, b"dltensor")).dtype, 0)
    raise ExchangeError(f"from_dlpack: __dlpack__ gave a {type(capsule).__name__} that is no unused DLPack capsule")


# --- in


class _Producer:
    """A capsule in the form in which NumPy asks for one."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self._capsule, self._device = capsule, device

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


def incoming(x: Any, device: Any, copy: bool | None) -> tuple[NDArray[Any], bool]:
    """The array that another library hands over, and whether it is already a copy.

    Errors of the other library's own pass through as they are.
    """
    for method in ("__dlpack__", "__dlpack_device__"):
        if not hasattr(x, method):
            raise ProtocolError(
                f"from_dlpack: a {type(x).__name__} does not speak DLPack: it has no {method}", hint="Use asarray."
            )
    kind, number = x.__dlpack_device__()
    place = (int(kind), int(number))
    if place[0] not in _READABLE and device is None:
        raise ExchangeError(
            f"from_dlpack: the memory is on device type {place[0]}, which smelt cannot read",
            hint='Ask for a copy in main memory with device="cpu".',
        )
    capsule = _requested(x, place, copy)
    contents = _opened(capsule)
    named = (contents.dtype.code, contents.dtype.bits)
    name = next((name for name, code in _CODES.items() if code == named), None)
    if name is not None:
        contents.dtype.code = _UNSIGNED
    try:
        array: NDArray[Any] = np.from_dlpack(_Producer(capsule, place if place[0] in _READABLE else CPU))
    except (BufferError, RuntimeError) as error:
        raise ExchangeError(f"from_dlpack: the capsule cannot be used: {error}") from None
    if name is not None:
        array = array.view(dtypes.as_dtype(name).numpy)
    return array, bool(contents.flags & _IS_COPIED)


def _requested(x: Any, place: tuple[int, int], copy: bool | None) -> Any:
    moved = {} if place[0] in _READABLE else {"dl_device": CPU}
    try:
        return x.__dlpack__(max_version=_VERSION, copy=copy, **moved)
    except TypeError:  # from before versions and copies could be asked for
        if moved:
            raise ExchangeError(
                f"from_dlpack: a {type(x).__name__} cannot be copied to main memory on request",
                hint="Copy it to the CPU with its own library first.",
            ) from None
        return x.__dlpack__()


# --- out


def check_request(stream: Any, max_version: Any, device: Any, copy: Any) -> None:
    """Refuse what cannot be handed out, before anything is computed."""
    if stream is not None:
        raise ExchangeError(f"dlpack: stream {stream!r}", rule="main memory has no streams: the stream must be None.")
    if device is not None and not (isinstance(device, tuple) and tuple(device) == CPU):
        raise ExchangeError(
            f"dlpack: the tensor cannot be handed out on device {device!r}", hint=f"Use {CPU}, the CPU."
        )
    if max_version is not None and not (
        isinstance(max_version, tuple) and len(max_version) == 2 and all(isinstance(part, int) for part in max_version)
    ):
        raise ArgumentError(f"dlpack: max_version must be a pair of integers, got {max_version!r}")
    if copy is False and _is_old(max_version):
        raise ExchangeError(
            "dlpack: the consumer is too old to take read-only memory without a copy",
            hint="Let it pass max_version=(1, 0), or allow a copy.",
        )


def outgoing(array: NDArray[Any], dtype: DType, max_version: tuple[int, int] | None, copy: bool | None) -> Any:
    """A capsule of a read-only array: of a copy, unless `copy` is False."""
    code = _CODES.get(dtype.name)
    plain = array if code is None else array.view(_PLAIN[code[1]])
    try:
        if _is_old(max_version):
            capsule = plain.__dlpack__(copy=True)
        else:
            capsule = plain.__dlpack__(max_version=max_version, copy=copy is not False)
    except BufferError:
        raise ExchangeError(
            f"dlpack: DLPack has no name for {dtype}", hint="Cast first, for example with x.astype(sm.float32)."
        ) from None
    if code is not None:
        _opened(capsule).dtype.code = code[0]
    return capsule


def _is_old(max_version: tuple[int, int] | None) -> bool:
    return max_version is None or max_version[0] < 1

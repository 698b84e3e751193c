"""Tensors by name in one file: the safetensors format.

A file is the length of a header (8 bytes, little-endian), the header (JSON: for each name dtype, shape and the range of
its bytes), and the bytes. The whole header is checked before the first tensor is made: a file is hostile until then.
Tensors are views of the file mapped into memory, so only what is used is ever read.

>>> import smelt as sm
>>> import tempfile, os
>>> path = os.path.join(tempfile.mkdtemp(), "two.safetensors")
>>> sm.save({"a": sm.arange(3), "b": sm.ones(2, 2)}, path)
>>> file = SafeTensors(path)
>>> list(file), file["a"].tolist()
(['a', 'b'], [0, 1, 2])
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType, as_dtype
from smelt.errors import ArgumentError, DTypeError, ParseError
from smelt.formats.checked_json import json_object
from smelt.formats.others import refuse_known
from smelt.formats.whole import PathLike, write_whole
from smelt.tensor import Tensor, from_numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST_HEADER: Final = 100_000_000  # bytes, as the format says
LARGEST_RANK: Final = 64  # of NumPy's arrays
ALIGNMENT: Final = 64  # at which the bytes begin in files of ours

METADATA: Final = "__metadata__"
_FIELDS: Final = {"dtype", "shape", "data_offsets"}

_NAMES: Final = {
    dtypes.bool_: "BOOL",
    dtypes.uint8: "U8",
    dtypes.int8: "I8",
    dtypes.uint16: "U16",
    dtypes.int16: "I16",
    dtypes.uint32: "U32",
    dtypes.int32: "I32",
    dtypes.uint64: "U64",
    dtypes.int64: "I64",
    dtypes.float16: "F16",
    dtypes.bfloat16: "BF16",
    dtypes.float32: "F32",
    dtypes.float64: "F64",
    dtypes.complex64: "C64",
    dtypes.float8_e4m3fn: "F8_E4M3",
    dtypes.float8_e5m2: "F8_E5M2",
}
_TYPES: Final = {name: dtype for dtype, name in _NAMES.items()}


class Entry(NamedTuple):
    """Where a tensor lies: its bytes from `start` up to `end`, counted from the beginning of the file."""

    dtype: DType
    shape: tuple[int, ...]
    start: int
    end: int


class Header(NamedTuple):
    """What a file says about itself, all of it checked."""

    entries: dict[str, Entry]
    metadata: dict[str, str]


# --- reading


class SafeTensors(Mapping[str, Tensor]):
    """The tensors of a file by name, each made when it is asked for; `metadata` and `entries` say what else is known.

    The file stays mapped as long as any of its tensors lives, and must not be cut short meanwhile. `save` never changes
    a file, but puts another one in its place.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = os.fspath(path)
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            first = file.read(256)
            if not first.startswith(b"{", 8):
                refuse_known(first, self.path)
            file.seek(8)
            length = _checked_length(first[:8], size, self.path)
            header = _checked_header(file.read(length), size, self.path)
            self._bytes = np.frombuffer(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ), np.uint8)
        self.entries, self.metadata = header

    def array(self, name: str) -> NDArray[Any]:
        """A tensor as a read-only NumPy array over the mapped file."""
        if name not in self.entries:
            raise KeyError(name)
        dtype, shape, start, end = self.entries[name]
        part = self._bytes[start:end]
        if dtype is dtypes.bool_ and bool((part > 1).any()):
            _refuse(self.path, f"{name!r} is BOOL and has other bytes than 0 and 1")
        return part.view(dtype.numpy).reshape(shape)

    def raw(self) -> NDArray[np.uint8]:
        """The whole file, mapped."""
        return self._bytes

    def __getitem__(self, name: str) -> Tensor:
        return from_numpy(self.array(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"SafeTensors({self.path!r}, {len(self)} tensors)"


def _checked_length(first: bytes, size: int, path: str) -> int:
    """The length of the header, which must fit into the file."""
    length = int.from_bytes(first, "little")
    if len(first) < 8 or length > min(LARGEST_HEADER, size - 8):
        _refuse(path, f"a file of {size} bytes cannot have a header of {length}")
    return length


def _checked_header(text: bytes, size: int, path: str) -> Header:
    """The header of a file of `size` bytes."""
    parsed = _parsed(text, path)
    metadata = parsed.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        _refuse(path, "metadata must be strings by name")
    base = 8 + len(text)
    entries = {name: _entry(name, fields, base, path) for name, fields in parsed.items()}
    _check_ranges(entries, base, size, path)
    return Header(entries, metadata)


def _parsed(text: bytes, path: str) -> dict[str, Any]:
    if not text.startswith(b"{"):
        _refuse(path, "the header does not begin with {")
    try:
        return json_object(text)
    except ValueError as error:
        _refuse(path, f"the header cannot be read: {error}")


def _entry(name: str, fields: Any, base: int, path: str) -> Entry:
    if not isinstance(fields, dict) or fields.keys() != _FIELDS:
        _refuse(path, f"{name!r:.80} must have dtype, shape and data_offsets")
    kind, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(kind, str) or kind not in _TYPES:
        _refuse(path, f"{name!r:.80} has the dtype {kind!r:.40}; known are {', '.join(_TYPES)}")
    if not _naturals(shape) or len(shape) > LARGEST_RANK:
        _refuse(path, f"{name!r:.80} has the shape {shape!r:.80}")
    if not _naturals(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        _refuse(path, f"{name!r:.80} has the data_offsets {offsets!r:.80}")
    dtype = _TYPES[kind]
    # Sizes other than 0 are bounded by the file; next to a 0 they could be anything, and NumPy could not count them.
    if math.prod(shape) * dtype.itemsize != offsets[1] - offsets[0] or math.prod(s or 1 for s in shape) >= 2**60:
        _refuse(path, f"{name!r:.80} has {offsets[1] - offsets[0]} bytes, which {kind}{shape!r:.80} does not need")
    return Entry(dtype, tuple(shape), base + offsets[0], base + offsets[1])


def _naturals(value: Any) -> bool:
    return isinstance(value, list) and all(type(number) is int and number >= 0 for number in value)


def _check_ranges(entries: Mapping[str, Entry], base: int, size: int, path: str) -> None:
    """Every byte after the header must belong to exactly one tensor."""
    end = base
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].end)):
        if entry.start != end:
            what = "overlaps another tensor" if entry.start < end else "leaves bytes in front of it unused"
            _refuse(path, f"{name!r:.80} {what}")
        end = entry.end
    if end != size:
        _refuse(path, f"the tensors end at byte {end}, the file at {size}")


def _refuse(path: str, what: str) -> NoReturn:
    raise ParseError(
        f"{os.path.basename(path)}: {what}",
        rule="it is not a whole safetensors file.",
        hint="Was it cut off, or changed, or is it of another kind?",
    )


# --- writing


def write_safetensors(path: PathLike, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] = {}) -> None:
    """Write arrays by name, whole: an older file stays until the new one is complete."""
    header, parts = encoded(arrays, metadata)
    write_whole(path, [header, *parts])


def encoded(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> tuple[bytes, list[NDArray[np.uint8]]]:
    """The header of a file, and the bytes that follow it."""
    header: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    parts = []
    end = 0
    # The widest first, so that each lies at a multiple of its own width.
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].itemsize):
        kind = _kind(name, array)
        part = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [end, end + part.size]}
        end += part.size
        parts.append(part)
    try:
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ArgumentError(f"save: a name is no Unicode text: {error}") from None
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    if len(text) > LARGEST_HEADER:
        raise ArgumentError(f"save: the names of {len(arrays)} tensors take {len(text)} bytes")
    return len(text).to_bytes(8, "little") + text, parts


def _kind(name: str, array: NDArray[Any]) -> str:
    dtype = as_dtype(array.dtype, "save")
    if dtype not in _NAMES:
        hint = "Cast it to sm.complex64, or save its parts." if dtype.is_complex else "Save it as sm.int8."
        raise DTypeError(f"save: {name} is {dtype}, which the format does not have", hint=hint)
    if name == METADATA:
        raise ArgumentError(f"save: a tensor cannot be called {METADATA}")
    return _NAMES[dtype]

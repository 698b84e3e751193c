"""Language models in one file: the GGUF format, versions 2 and 3, little-endian.

A file is a header (counts, metadata by name, for each tensor its name, sizes, format and offset) and the bytes of
tensors, in blocks (`smelt.formats.blocks`). The whole header is checked before anything is used: a file is hostile
until then. Tensors lie in the file mapped into memory, so only what is used is ever read.

>>> import numpy as np
>>> import tempfile, os
>>> path = os.path.join(tempfile.mkdtemp(), "small.gguf")
>>> write_gguf(path, {"general.name": "small"}, {"a": np.ones((2, 3), np.float32), "b": ("Q8_0", np.ones((4, 32)))})
>>> file = Gguf(path)
>>> file.metadata["general.name"], file.entries["b"].block.name, file.raw("b").shape, file.array("b").shape
('small', 'Q8_0', (4, 34), (4, 32))
"""

from __future__ import annotations

import math
import mmap
import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import numpy as np

from smelt.errors import ArgumentError, DTypeError, MissingFileError, ParseError, ShapeError
from smelt.formats.blocks import BLOCKS, BY_NUMBER, OTHERS, Block, Packed
from smelt.formats.others import refuse_known
from smelt.formats.whole import PathLike, write_whole
from smelt.tensor import Tensor, from_numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAGIC: Final = b"GGUF"
ALIGNMENT: Final = 32  # of tensors, where the metadata do not say another one
ALIGNMENT_NAME: Final = "general.alignment"
LARGEST_HEADER: Final = 50_000_000  # bytes; those with the largest vocabularies have a third of it
LARGEST_COUNT: Final = 1 << 21  # texts in all arrays together; the largest vocabularies have a third of it
LARGEST_TABLE: Final = 1 << 16  # metadata, tensors and arrays in arrays together, each of which takes longer
LARGEST_NAME: Final = 65535  # bytes
LARGEST_RANK: Final = 4
DEEPEST: Final = 4  # lists in lists
_LARGEST_SPLIT: Final = 1024  # files

# Kinds of values: numbers by their number in files, and the three others.
NUMBERS: Final = {
    number: np.dtype(name)
    for number, name in enumerate(["<u1", "<i1", "<u2", "<i2", "<u4", "<i4", "<f4", "?", "", "", "<u8", "<i8", "<f8"])
    if name
}
BOOL, STRING, ARRAY = 7, 8, 9
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_SPLIT_NAME: Final = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf", re.DOTALL)


class Entry(NamedTuple):
    """Where a tensor lies: `nbytes` bytes from `start` on, counted from the beginning of the file number `part`. The
    last axis of `shape` is that of the blocks.
    """

    block: Block
    shape: tuple[int, ...]
    start: int
    nbytes: int
    part: int = 0


class _Part(NamedTuple):
    """One file, checked."""

    map: mmap.mmap
    metadata: dict[str, Any]
    entries: dict[str, Entry]


# --- reading


class Gguf(Mapping[str, Tensor]):
    """The tensors of a file by name, each made when it is asked for; `metadata` and `entries` say what else is known.

    Values of `metadata` are numbers, bools and texts; arrays of numbers are read-only NumPy arrays, those of texts or
    of arrays lists. Of a model that was split, the first file (`-00001-of-0000N.gguf`) stands for all. The files stay
    mapped as long as any of the arrays lives, and must not be cut short meanwhile.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = os.fspath(path)
        first = _read(self.path, 0)
        parts = [first, *_others(self.path, first.metadata)]
        self.metadata: Mapping[str, Any] = first.metadata
        self.entries: Mapping[str, Entry] = {name: entry for part in parts for name, entry in part.entries.items()}
        _check_split(self.path, parts, len(self.entries))
        self._maps = [part.map for part in parts]
        self._bytes = [np.frombuffer(part.map, np.uint8) for part in parts]

    def raw(self, name: str) -> NDArray[np.uint8]:
        """The blocks of a tensor as they lie in the mapped file: (rows, bytes of a row), read-only."""
        if name not in self.entries:
            raise KeyError(name)
        block, shape, start, nbytes, part = self.entries[name]
        return self._bytes[part][start : start + nbytes].reshape(-1, shape[-1] // block.size * block.nbytes)

    def packed(self, name: str) -> Packed | None:
        """A tensor to be taken apart into codes and scales, if it lies in blocks that have them."""
        block = self.entries[name].block
        return None if block.dtype is not None else Packed(block, self.raw(name))

    def array(self, name: str) -> NDArray[Any]:
        """The numbers of a tensor: float32 if they lie in blocks, else a read-only view of the mapped file."""
        raw = self.raw(name)
        block, shape = self.entries[name][:2]
        if block.dtype is not None:
            return raw.reshape(-1).view(block.dtype.numpy).reshape(shape)
        return block.dequantize(raw.reshape(-1, shape[-1] // block.size, block.nbytes)).reshape(shape)

    def drop(self, name: str) -> None:
        """Give the memory back that holds what has been read of a tensor. It is read again if it is used again."""
        _, _, start, nbytes, part = self.entries[name]
        before = start % mmap.PAGESIZE
        self._maps[part].madvise(mmap.MADV_DONTNEED, start - before, nbytes + before)

    def __getitem__(self, name: str) -> Tensor:
        return from_numpy(self.array(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"Gguf({self.path!r}, {len(self)} tensors)"


def _read(path: str, number: int) -> _Part:
    """The file with the given number among those of a model."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = file.read(256)
        if not first.startswith(MAGIC):
            refuse_known(first, path)
            _refuse(path, "it does not begin with GGUF")
        mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    cursor = _Cursor(mapped, size, path)
    tensors, pairs = _checked_counts(cursor)
    metadata = _checked_metadata(cursor, pairs)
    alignment = _checked_alignment(metadata, path)
    entries = [_entry(cursor, alignment, number) for _ in range(tensors)]
    base = -(-cursor.at // alignment) * alignment
    placed = {name: entry._replace(start=base + entry.start) for name, entry in entries}
    if len(placed) != tensors:
        _refuse(path, "a tensor's name stands there twice")
    _check_ranges(placed, size, path)
    return _Part(mapped, metadata, placed)


class _Cursor:
    """A place in a header. What is taken lies inside the file and within the limits of headers, or is refused."""

    def __init__(self, data: mmap.mmap, size: int, path: str) -> None:
        self.data, self.path = data, path
        self.at, self.end = len(MAGIC), min(size, LARGEST_HEADER)
        self.counted = 0.0  # the share of the limits that is used up

    def take(self, count: int) -> bytes:
        if count > self.end - self.at:
            _refuse(self.path, f"the header ends within {count} bytes at byte {self.at}")
        self.at += count
        return self.data[self.at - count : self.at]

    def u32(self) -> int:
        return _U32.unpack(self.take(4))[0]  # type: ignore[no-any-return]

    def u64(self) -> int:
        return _U64.unpack(self.take(8))[0]  # type: ignore[no-any-return]

    def count(self, number: int, least: int, most: int, what: str) -> int:
        """A number of things of at least `least` bytes each, of which a header has `most`."""
        self.counted += number / most
        if number * least > self.end - self.at or self.counted > 1:
            _refuse(self.path, f"it cannot have {number} {what}")
        return number

    def strings(self, count: int) -> list[str]:
        """Texts one after the other: vocabularies, so this is what the time of loading goes to."""
        data, at, end, unpack = self.data, self.at, self.end, _U64.unpack_from
        found = []
        for _ in range(count):
            start = at + 8
            if start > end or (at := start + unpack(data, at)[0]) > end:
                _refuse(self.path, f"the header ends within a text at byte {start}")
            try:
                found.append(data[start:at].decode())
            except UnicodeDecodeError:
                _refuse(self.path, f"a text at byte {start} is not UTF-8")
        self.at = at
        return found

    def name(self) -> str:
        start = self.at
        [name] = self.strings(1)
        if not 0 < self.at - start - 8 <= LARGEST_NAME:
            _refuse(self.path, f"a name at byte {start} has {self.at - start - 8} bytes")
        return name

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in NUMBERS:
            return self.numbers(kind, 1)[0].item()
        if kind == STRING:
            return self.strings(1)[0]
        if kind != ARRAY or depth == DEEPEST:
            _refuse(self.path, f"a value before byte {self.at} is of kind {kind}, in {depth} arrays")
        inner, count = self.u32(), self.u64()
        if inner in NUMBERS:
            return self.numbers(inner, count)
        if inner not in (STRING, ARRAY):
            _refuse(self.path, f"an array before byte {self.at} has elements of kind {inner}")
        if inner == STRING:
            return self.strings(self.count(count, 8, LARGEST_COUNT, "texts"))
        return [self.value(inner, depth + 1) for _ in range(self.count(count, 12, LARGEST_TABLE, "arrays"))]

    def numbers(self, kind: int, count: int) -> NDArray[Any]:
        data = self.take(count * NUMBERS[kind].itemsize)
        if kind == BOOL and data.strip(b"\0\1"):
            _refuse(self.path, f"a bool before byte {self.at} is neither 0 nor 1")
        return np.frombuffer(data, NUMBERS[kind])


def _checked_counts(cursor: _Cursor) -> tuple[int, int]:
    """How many tensors and how many metadata there are."""
    version = cursor.u32()
    if version not in (2, 3):
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        text = f"version {swapped}, big-endian" if swapped in (1, 2, 3) else f"version {version}"
        _refuse(cursor.path, f"it is of {text}; versions 2 and 3 are read, little-endian")
    tensors, pairs = cursor.u64(), cursor.u64()
    return (
        cursor.count(tensors, 32, LARGEST_TABLE, "tensors"),
        cursor.count(pairs, 13, LARGEST_TABLE, "metadata"),
    )


def _checked_metadata(cursor: _Cursor, pairs: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for _ in range(pairs):
        name = cursor.name()
        if name in metadata:
            _refuse(cursor.path, f"the metadata {name!r:.80} stand there twice")
        metadata[name] = cursor.value(cursor.u32())
    return metadata


def _checked_alignment(metadata: Mapping[str, Any], path: str) -> int:
    alignment = _natural(metadata, ALIGNMENT_NAME, ALIGNMENT, path)
    if not is_alignment(alignment):
        _refuse(path, f"{ALIGNMENT_NAME} is {alignment}, no power of two from 8 to 2**20")
    return alignment


def is_alignment(number: int) -> bool:
    """Less would put numbers where processors cannot load them, more makes files of holes."""
    return 8 <= number <= 1 << 20 and number & (number - 1) == 0


def _natural(metadata: Mapping[str, Any], name: str, default: int, path: str) -> int:
    number = metadata.get(name, default)
    if type(number) is not int or number < 0:
        _refuse(path, f"{name} is {number!r:.40}, and must be a natural number")
    return number


def _entry(cursor: _Cursor, alignment: int, part: int) -> tuple[str, Entry]:
    """The next tensor; its `start` still counts from the end of the header."""
    name = cursor.name()
    rank = cursor.u32()
    if not 1 <= rank <= LARGEST_RANK:
        _refuse(cursor.path, f"{name!r:.80} has {rank} axes")
    shape = tuple(cursor.u64() for _ in range(rank))[::-1]
    number, offset = cursor.u32(), cursor.u64()
    block = BY_NUMBER.get(number)
    if block is None:
        hint = f"Smelt reads {', '.join(block.name for block in BY_NUMBER.values())}."
        _refuse(cursor.path, f"{name!r:.80} has the format {OTHERS.get(number, number)}", hint)
    if 0 in shape or shape[-1] % block.size:
        _refuse(cursor.path, f"{name!r:.80} has the shape {shape}, and blocks of {block.size} numbers in a row")
    if offset % alignment:
        _refuse(cursor.path, f"{name!r:.80} begins at {offset}, no multiple of {alignment}")
    return name, Entry(block, shape, offset, math.prod(shape) // block.size * block.nbytes, part)


def _check_ranges(entries: Mapping[str, Entry], size: int, path: str) -> None:
    """Tensors must lie inside the file, each apart from all others."""
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1].start):
        if entry.start < end:
            _refuse(path, f"{name!r:.80} overlaps another tensor")
        end = entry.start + entry.nbytes
        if end > size:
            _refuse(path, f"{name!r:.80} ends at byte {end}, the file at {size}")


# --- models in several files


def _others(path: str, metadata: Mapping[str, Any]) -> Iterator[_Part]:
    """The other files of a model whose first file has these metadata. Their names follow from that of the first."""
    count = _natural(metadata, "split.count", 1, path)
    if count > _LARGEST_SPLIT:
        _refuse(path, f"it cannot be one of {count} files")
    if count < 2:
        return
    name = _SPLIT_NAME.fullmatch(path)
    if name is None or (int(name[2]), int(name[3])) != (1, count):
        hint = "Open the first file, and keep the names that all of them had."
        _refuse(path, f"it is one of {count} files, and not called …-00001-of-{count:05}.gguf", hint)
    for number in range(1, count):
        other = f"{name[1]}-{number + 1:05}-of-{count:05}.gguf"
        if not os.path.exists(other):
            raise MissingFileError(f"{os.path.basename(path)}: {os.path.basename(other)} is not beside it")
        yield _read(other, number)


def _check_split(path: str, parts: list[_Part], tensors: int) -> None:
    """Every file must be the one that its name says, and no tensor may be in two."""
    for number, part in enumerate(parts if len(parts) > 1 else []):
        own, count = (_natural(part.metadata, name, 0, path) for name in ("split.no", "split.count"))
        if (own, count) != (number, len(parts)):
            _refuse(path, f"its file {number + 1} of {len(parts)} says that it is {own + 1} of {count}")
    found = sum(len(part.entries) for part in parts)
    if tensors != found:
        _refuse(path, "a tensor is in two of its files")
    wanted = _natural(parts[0].metadata, "split.tensors.count", found, path)
    if len(parts) > 1 and wanted != found:
        _refuse(path, f"its files have {found} tensors together, and should have {wanted}")


def _refuse(path: str, what: str, hint: str = "Was it cut off, or changed, or is it of another kind?") -> NoReturn:
    raise ParseError(
        f"{os.path.basename(path)}: {what}", rule="it is not a whole GGUF file that smelt reads.", hint=hint
    )


# --- writing


class Later(NamedTuple):
    """A tensor that is made when it is written: its format, the shape of its numbers, and what gives these numbers, or
    as uint8 the blocks.
    """

    format: str
    shape: tuple[int, ...]
    make: Callable[[], NDArray[Any]]


def write_gguf(
    path: PathLike,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, NDArray[Any] | tuple[str, NDArray[Any]] | Later],
) -> None:
    """Write a model, whole: an older file stays until the new one is complete.

    A tensor is an array, or a pair: the name of a format and numbers to quantize, or as uint8 the blocks themselves, as
    `Gguf.raw` gives them; or it is made `Later`, so that no two need be in memory. Of the metadata, Python's integers
    become uint32 if they can, floats float32, and lists of integers int32 if they can; NumPy's scalars and arrays keep
    their type.
    """
    alignment = metadata.get(ALIGNMENT_NAME, ALIGNMENT)
    if not isinstance(alignment, int) or not is_alignment(alignment):
        raise ArgumentError(f"write_gguf: {ALIGNMENT_NAME} is {alignment!r}", rule="it is a power of two from 8 on.")
    pairs = [_text(name) + _value(name, value) for name, value in metadata.items()]
    header = [MAGIC, _U32.pack(3), _U64.pack(len(tensors)), _U64.pack(len(pairs)), *pairs]
    offset = 0
    for name, value in tensors.items():
        block, shape = _format(name, value)
        sizes = b"".join(_U64.pack(size) for size in reversed(shape))
        header += [_text(name), _U32.pack(len(shape)), sizes, _U32.pack(block.number), _U64.pack(offset)]
        offset += _padded(math.prod(shape) // block.size * block.nbytes, alignment)
    write_whole(path, _aligned_parts(b"".join(header), tensors, alignment))


def _aligned_parts(header: bytes, tensors: Mapping[str, Any], alignment: int) -> Iterator[Any]:
    """The bytes of a file, made one tensor at a time."""
    yield header.ljust(_padded(len(header), alignment), b"\0")
    for value in tensors.values():
        part = np.ascontiguousarray(_bytes_of(value)).reshape(-1).view(np.uint8)
        yield part
        yield bytes(_padded(part.size, alignment) - part.size)


def _padded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _format(name: str, value: Any) -> tuple[Block, tuple[int, ...]]:
    """The format of a tensor, and the shape of its numbers."""
    if isinstance(value, Later):  # the sizes of its numbers, without the numbers
        value = (value.format, np.broadcast_to(np.float32(0), value.shape))
    kind, array = value if isinstance(value, tuple) and len(value) == 2 else (None, value)
    if not isinstance(array, np.ndarray):
        raise ArgumentError(
            f"write_gguf: {name} is of type {type(array).__name__}",
            rule="a tensor is an array, or a pair of a format's name and an array.",
            hint="Write x.numpy() for a tensor of smelt.",
        )
    if kind is None:
        block = next((block for block in BLOCKS.values() if block.dtype and block.dtype.numpy == array.dtype), None)
        if block is None:
            raise DTypeError(f"write_gguf: {name} is {array.dtype}, which the format does not have")
    elif kind in BLOCKS:
        block = BLOCKS[kind]
    else:
        raise ArgumentError(f"write_gguf: {name} has the format {kind!r}", hint=f"Take one of {', '.join(BLOCKS)}.")
    unit = block.nbytes if kind is not None and array.dtype == np.uint8 else block.size
    if not 1 <= array.ndim <= LARGEST_RANK or array.size == 0 or array.shape[-1] % unit:
        raise ShapeError(
            f"write_gguf: {name} has the shape {array.shape}",
            rule=f"tensors have 1 to {LARGEST_RANK} axes and no size of 0, rows of {block.name} multiples of {unit}.",
        )
    return block, (*array.shape[:-1], array.shape[-1] // unit * block.size)


def _bytes_of(value: Any) -> NDArray[Any]:
    """What is written for a tensor."""
    if not isinstance(value, tuple):
        return value  # type: ignore[no-any-return]
    kind, array = (value.format, value.make()) if isinstance(value, Later) else value
    return array if array.dtype == np.uint8 else BLOCKS[kind].quantize(array)


def _text(text: str) -> bytes:
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ArgumentError(f"write_gguf: {text!r:.80} is no Unicode text: {error}") from None
    return _U64.pack(len(data)) + data


def _value(name: str, value: Any) -> bytes:
    """A value of the metadata with its kind."""
    if isinstance(value, str):
        return _U32.pack(STRING) + _text(value)
    if isinstance(value, np.ndarray | list | tuple):
        kind, parts = _elements(name, value)
        return _U32.pack(ARRAY) + _U32.pack(kind) + _U64.pack(len(value)) + b"".join(parts)
    array = _numbers(name, value, "<u4" if isinstance(value, int) and value >= 0 else "<i4")
    return _U32.pack(_number_kind(name, array)) + array.tobytes()


def _elements(name: str, values: NDArray[Any] | Sequence[Any]) -> tuple[int, list[bytes]]:
    """The kind of an array's elements, and their bytes."""
    if all(isinstance(value, str) for value in values):
        return STRING, [_text(value) for value in values]
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return _number_kind(name, values), [values.astype(values.dtype.newbyteorder("<")).tobytes()]
    if all(isinstance(value, np.ndarray | list | tuple) for value in values):
        return ARRAY, [_value(name, value)[4:] for value in values]
    array = _numbers(name, values, "<i4")
    return _number_kind(name, array), [array.tobytes()]


def _numbers(name: str, values: Any, narrow: str) -> NDArray[Any]:
    """Python's numbers in the types that files of others have for them: narrow ones where they fit."""
    try:
        array = np.array(values)
    except (ValueError, OverflowError):
        array = np.array(None)
    if isinstance(values, np.generic):
        return array
    if array.dtype == np.float64:
        return array.astype("<f4")
    if array.dtype.kind in "iu" and np.array_equal(array.astype(narrow), array):
        return array.astype(narrow)
    return array


def _number_kind(name: str, array: NDArray[Any]) -> int:
    for kind, dtype in NUMBERS.items():
        if dtype == array.dtype.newbyteorder("<"):
            return kind
    raise ArgumentError(
        f"write_gguf: the metadata {name!r:.80} are of a type that the format does not have",
        rule="they are texts, numbers of at most 64 bits, bools, and lists of one kind of them.",
    )

"""The IDX format of MNIST and its relatives: a small header, then the numbers, often compressed with gzip.

The header is two zeros, the type of the elements, the number of axes, and the size of each (4 bytes, big-endian).
"""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn, cast

import numpy as np

from smelt.errors import ParseError
from smelt.formats.whole import PathLike

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TYPES: Final = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MOST_COMPRESSED: Final = 1100  # no gzip file is smaller by a larger factor
_PIECE: Final = 1 << 20  # bytes that are read at once
_LARGEST_RANK: Final = 64


def read_idx(path: PathLike) -> NDArray[Any]:
    """The array of an IDX file, which may be compressed with gzip.

    >>> import os, tempfile
    >>> import smelt as sm
    >>> path = os.path.join(tempfile.mkdtemp(), "labels-idx1-ubyte")
    >>> with open(path, "wb") as file:
    ...     _ = file.write(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9]))
    >>> sm.data.read_idx(path)
    array([7, 8, 9], dtype=uint8)
    """
    name = os.path.basename(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        compressed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not compressed:
            return _read(file, size, name)
        try:
            with gzip.open(file) as inner:
                return _read(cast(IO[bytes], inner), size * _MOST_COMPRESSED, name)
        except (OSError, EOFError, zlib.error) as error:
            _refuse(name, f"it cannot be decompressed: {error}")


def _read(file: IO[bytes], most: int, name: str) -> NDArray[Any]:
    """An array out of a file that holds at most so many bytes."""
    start = file.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in _TYPES or start[3] > _LARGEST_RANK:
        _refuse(name, f"it begins with {start!r}")
    dtype, rank = np.dtype(_TYPES[start[2]]), start[3]
    sizes = file.read(4 * rank)
    if len(sizes) < 4 * rank:
        _refuse(name, "it ends in its header")
    shape = struct.unpack(f">{rank}I", sizes)
    needed = math.prod(shape) * dtype.itemsize
    if needed > most or math.prod(s or 1 for s in shape) >= 2**59:
        _refuse(name, f"it cannot hold an array of shape {shape!s:.80}")
    data = _exactly(file, needed)
    if len(data) < needed:
        _refuse(name, f"{needed} bytes are needed, and it has {len(data)}")
    if file.read(1):
        _refuse(name, f"there is more behind the {needed} bytes of its array")
    array = np.frombuffer(data, dtype).reshape(shape)
    return array.astype(dtype.newbyteorder("="), copy=False)


def _exactly(file: IO[bytes], count: int) -> bytearray:
    """So many bytes, or all if there are less. Memory grows with what is really there."""
    data = bytearray()
    while len(data) < count:
        piece = file.read(min(_PIECE, count - len(data)))
        if not piece:
            break
        data += piece
    return data


def _refuse(name: str, what: str) -> NoReturn:
    raise ParseError(f"{name}: {what}", rule="it is not a whole IDX file.")

"""Pictures as PNG files, written with nothing but zlib."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from smelt.errors import ShapeError
from smelt.formats.whole import PathLike, write_whole
from smelt.tensor import Tensor, numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KINDS: Final = {1: 0, 3: 2, 4: 6}  # PNG's numbers for gray, color, and color with opacity


def save_png(path: PathLike, pixels: Any) -> None:
    """Write a picture of shape (height, width), or (height, width, 1, 3 or 4): bytes, or floats from 0 to 1.

    >>> import pathlib, tempfile
    >>> from smelt.formats import save_png
    >>> path = pathlib.Path(tempfile.mkdtemp(), "gray.png")
    >>> save_png(path, np.linspace(0, 1, 64).reshape(8, 8))
    >>> path.read_bytes()[1:4]
    b'PNG'
    """
    array = numpy(pixels) if isinstance(pixels, Tensor) else np.asarray(pixels)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in _KINDS or 0 in array.shape:
        raise ShapeError(
            f"save_png: the pixels have shape {array.shape}",
            rule="it must be (height, width), or (height, width, channels) with 1, 3 or 4 channels.",
        )
    write_whole(path, [encoded(_as_bytes(array))])


def _as_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return array
    return np.round(np.clip(np.nan_to_num(array.astype(np.float64)), 0, 1) * 255).astype(np.uint8)


def encoded(pixels: NDArray[np.uint8]) -> bytes:
    """A picture of shape (height, width, channels) as a PNG file."""
    height, width, channels = pixels.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each row begins with the number of its filter: none
    rows[:, 1:] = pixels.reshape(height, -1)
    about = struct.pack(">IIBBBBB", width, height, 8, _KINDS[channels], 0, 0, 0)
    chunks = [(b"IHDR", about), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join([_chunk(kind, data) for kind, data in chunks])


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

"""Arrays that stay in files: only what a batch needs is read."""

from __future__ import annotations

import math
import mmap
import os
import tokenize
from typing import IO, TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from smelt.data.datasets import ArrayDataset
from smelt.dtypes import as_dtype
from smelt.errors import ArgumentError, ParseError, SmeltError
from smelt.formats.safetensors import SafeTensors
from smelt.formats.whole import PathLike
from smelt.names import listed

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LARGEST_NPY_HEADER = 10_000  # characters: NumPy's own limit


class RawArray(NamedTuple):
    """An array in a file without a header, or behind one: little-endian numbers in row-major order.

    A size of -1 in front, or a missing shape, means as many as the file holds from `offset` on.
    """

    path: PathLike
    dtype: Any
    shape: tuple[int, ...] = (-1,)
    offset: int = 0

    def open(self) -> NDArray[Any]:
        """The array, read-only over the mapped file."""
        with open(self.path, "rb") as file:
            return _mapped(file, self)


class MappedDataset(ArrayDataset):
    """Arrays in files side by side, as `ArrayDataset` has them in memory: paths of .npy files, or `RawArray`s.

    The files must not be changed while they are used. Sent to another process, it opens the files there.

    >>> import os, tempfile
    >>> import smelt as sm
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> np.save(path, np.arange(6).reshape(3, 2))
    >>> len(sm.data.MappedDataset(path))
    3
    """

    def __init__(self, *parts: PathLike | RawArray) -> None:
        self.parts = tuple([part if isinstance(part, RawArray) else _npy(part) for part in parts])
        super().__init__(*[part.open() for part in self.parts])

    @classmethod
    def from_safetensors(cls, path: PathLike, *names: str) -> MappedDataset:
        """Tensors of a safetensors file by name.

        >>> import os, tempfile
        >>> import smelt as sm
        >>> path = os.path.join(tempfile.mkdtemp(), "data.safetensors")
        >>> sm.save({"x": sm.ones(4, 2), "y": sm.arange(4)}, path)
        >>> int(sm.data.MappedDataset.from_safetensors(path, "x", "y")[3][1])
        3
        """
        file = SafeTensors(path)
        missing = [name for name in names if name not in file]
        if missing or not names:
            raise ArgumentError(
                f"MappedDataset: {os.path.basename(file.path)} has no tensor {', '.join(missing)}",
                hint=f"It has: {listed(list(file))}.",
            )
        entries = [file.entries[name] for name in names]
        return cls(*[RawArray(path, entry.dtype, entry.shape, entry.start) for entry in entries])

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), self.parts)


def _mapped(file: IO[bytes], part: RawArray) -> NDArray[Any]:
    name, size = os.path.basename(file.name), os.fstat(file.fileno()).st_size
    dtype = as_dtype(part.dtype, "RawArray").numpy
    offset, shape = part.offset, tuple(part.shape)
    if not all(type(number) is int for number in (*shape, offset)) or min(*shape[1:], offset, 0) < 0:
        raise ArgumentError(f"RawArray: shape {shape} at offset {offset}", rule="only the first size may be -1.")
    row = math.prod(shape[1:]) * dtype.itemsize
    if shape[:1] == (-1,):
        if row == 0 or offset > size or (size - offset) % row:
            _refuse(name, f"{size - offset} bytes from {offset} on are no whole number of rows of {row} bytes")
        shape = ((size - offset) // row, *shape[1:])
    if min(shape, default=0) < 0 or len(shape) > 64 or math.prod(s or 1 for s in shape) * dtype.itemsize >= 2**62:
        _refuse(name, f"the shape is {shape!s:.80}")
    needed = math.prod(shape) * dtype.itemsize
    if offset + needed > size:
        _refuse(name, f"{needed} bytes from {offset} on are needed, and the file ends at {size}")
    if needed == 0:
        return np.zeros(shape, dtype)
    whole = np.frombuffer(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ), np.uint8)
    return whole[offset : offset + needed].view(dtype).reshape(shape)


def _npy(path: PathLike) -> RawArray:
    """Where the array of a .npy file lies. NumPy reads the header, which is a literal and never evaluated."""
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError(f"MappedDataset: a {type(path).__name__} is neither a path nor a RawArray")
    name = os.path.basename(path)
    with open(path, "rb") as file:
        try:
            version = np.lib.format.read_magic(file)
            if version not in ((1, 0), (2, 0)):
                _refuse(name, f"version {version} of the format is not known")
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(file, max_header_size=_LARGEST_NPY_HEADER)
            place = file.tell()
        except SmeltError:
            raise
        except (
            ValueError,
            SyntaxError,
            TypeError,
            EOFError,
            tokenize.TokenError,
            RecursionError,
            MemoryError,
        ) as error:
            _refuse(name, f"it is no .npy file: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
    if any(type(size) is not int or size < 0 for size in shape):  # NumPy takes True for a size
        _refuse(name, f"the shape is {shape!s:.80}")
    if fortran and len(shape) > 1:
        _refuse(name, "its rows are not one after the other (Fortran order)")
    if not dtype.isnative or dtype.hasobject:
        _refuse(name, f"its elements are {dtype}, which cannot be used where they lie")
    return RawArray(path, as_dtype(dtype, "MappedDataset"), tuple(shape), place)


def _refuse(name: str, what: str) -> NoReturn:
    raise ParseError(f"{name}: {what}")

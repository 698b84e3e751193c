"""Blocks of main memory, recycled, because the first touch of fresh pages costs more than most kernels.

A `Memory` is one block for as long as anybody holds it or a NumPy view of it; then its bytes go back to the pool.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.lib.array_utils import byte_bounds

from smelt.cost import facts_of
from smelt.errors import InternalError, MemoryLimitError
from smelt.locks import new_lock

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import DTypeLike, NDArray

ALIGNMENT: Final = 64
_PAGE: Final = 4096
_LARGE: Final = 1 << 16  # blocks from here on begin at a page
_SMALL: Final = 1 << 18  # blocks below this may lie about for a while
_MOST_PUT_DOWN: Final = 1024
_STRETCH: Final = 1 << 25  # bytes for what stays that are had from the system at once
_LONG: Final = 1 << 22  # bytes of a stretch of its own
_KEPT_FRACTION: Final = 8  # an eighth of the machine may lie in the pool
_COUNTED_FRACTION: Final = 16  # what the pool holds is counted each time a sixteenth of that was given back

# The length is never used: a view is cut to its block. One type for all blocks, since making a ctypes type is slow.
_Anywhere: Final = ctypes.c_char * (1 << 62)


def pointer(address: int) -> bytes:
    """An address as native code takes it."""
    return address.to_bytes(8, sys.byteorder)


NOWHERE: Final = pointer(0)


def _reserve(nbytes: int) -> NDArray[np.uint8]:
    """Bytes from the system: the one place where memory for tensors is taken. MemoryError if there are none."""
    return np.empty(nbytes, np.uint8)


class _Lasting:
    """Memory for what stays: `take` gives pieces of long stretches, which are returned once all of them are gone.

    NumPy asks the system for pages of 2 MB where an array is long. Weights that are read once in every call, each a
    little of many megabytes, else wait for translations of their addresses: products of one row take 7 % longer.
    """

    def __init__(self) -> None:
        self._lock = new_lock()
        self._left: NDArray[np.uint8] = np.empty(0, np.uint8)

    def take(self, shape: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
        """An array with arbitrary content, aligned as those of tensors are."""
        of = np.dtype(dtype)
        nbytes = math.prod(shape) * of.itemsize
        whole = -(-nbytes // ALIGNMENT) * ALIGNMENT
        if whole >= _LONG:
            return self._stretch(whole)[:nbytes].view(of).reshape(shape)
        with self._lock:
            if whole > len(self._left):
                self._left = self._stretch(_STRETCH)
            taken, self._left = self._left[:nbytes], self._left[whole:]
        return taken.view(of).reshape(shape)

    def _stretch(self, nbytes: int) -> NDArray[np.uint8]:
        stretch = _reserve(nbytes + ALIGNMENT)
        return stretch[-stretch.__array_interface__["data"][0] % ALIGNMENT :]


class Block:
    """Bytes of our own: `address` is where they begin, `pointer` the same as native code takes it.

    Those of another device are a subclass, which says where they come from.
    """

    __slots__ = ("address", "nbytes", "pointer", "pool", "since", "storage")

    def __init__(self, nbytes: int, pool: Pool) -> None:
        self.nbytes, self.pool = 0, pool
        self.address = self.reserve(nbytes)
        self.pointer = pointer(self.address)
        self.since = 0  # when it was last given back, on the pool's clock
        self.nbytes = nbytes
        pool.count(nbytes)

    def __del__(self) -> None:
        self.pool.count(-self.nbytes)

    def reserve(self, nbytes: int) -> int:
        """Take bytes; their address. MemoryError if there are none."""
        alignment = _PAGE if nbytes >= _LARGE else ALIGNMENT
        self.storage = _reserve(nbytes + alignment)
        first: int = self.storage.__array_interface__["data"][0]
        return -(-first // alignment) * alignment


class Memory:
    """`nbytes` bytes at `address`, aligned to 64 unless wrapped; recycled when nobody refers to them anymore.

    That of another device is a subclass: `pointer` is what its programs take, and `view` gives a copy.
    """

    __slots__ = ("__weakref__", "address", "nbytes", "owner", "pointer", "writeable")

    def __init__(self, address: int, pointer: bytes, nbytes: int, owner: Any, writeable: bool = True) -> None:
        self.address, self.pointer, self.nbytes = address, pointer, nbytes
        self.writeable = writeable
        self.owner = owner  # keeps the bytes alive: an array, or the lease of a block

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.nbytes} bytes at {self.address:#x})"

    @property
    def recycled(self) -> bool:
        """Whether the bytes belong to smelt, and not to an array that somebody else made."""
        return type(self.owner) is Lease

    def view(
        self,
        dtype: np.dtype[Any],
        shape: Sequence[int],
        strides_bytes: Sequence[int] | None = None,
        offset_bytes: int = 0,
        writeable: bool = False,
    ) -> NDArray[Any]:
        """A NumPy array over part of the block, which keeps the block alive. Strides default to C order."""
        if offset_bytes < 0:
            raise InternalError(f"a view at offset {offset_bytes}")
        if writeable and not self.writeable:
            raise InternalError("a writeable view of read-only memory")
        anchor = _Anywhere.from_address(self.address)
        anchor.memory = self  # type: ignore[attr-defined]
        buffer = memoryview(anchor)[: self.nbytes]
        # A read-only buffer, unlike a flag on the array, cannot be made writeable again by whoever gets the view.
        whole = np.frombuffer(buffer if writeable else buffer.toreadonly(), np.uint8)
        try:
            return np.ndarray(shape, dtype, whole, offset_bytes, strides_bytes)
        except (ValueError, TypeError) as error:
            wanted = f"shape {tuple(shape)}, strides {strides_bytes} at {offset_bytes}"
            raise InternalError(f"no view of {wanted} in {self.nbytes} bytes: {error}") from None

    def write(self, data: bytes | NDArray[Any]) -> None:
        """Begin with these bytes, or those of a contiguous array."""
        if isinstance(data, bytes):
            ctypes.memmove(self.address, data, len(data))
        else:
            ctypes.memmove(self.address, data.ctypes.data, data.nbytes)


class Lease(weakref.ref[Memory]):
    """A block that is lent for as long as the Memory lives."""

    __slots__ = ("block",)
    block: Block


class Pool:
    """Free blocks by size class, the latest given back first; past about `limit` bytes the oldest are released.

    Taking and giving back happen at every call of every compiled function, so they hold no lock: each is one operation
    on a deque. What is kept is only counted after enough was given back to matter.

    When the Memory of a small block dies, no Python code runs, because an exception there (Ctrl-C, say) would be lost:
    the block is put down, and sorted in when the next one is taken. Large blocks are not left lying about.
    """

    def __init__(
        self,
        limit: int | None = None,
        block: Callable[[int, Pool], Block] = Block,
        memory: Callable[[int, bytes, int, Any], Memory] = Memory,
    ) -> None:
        self._limit, self._block, self._memory = limit, block, memory
        self._count_after = (limit or 0) // _COUNTED_FRACTION
        self._lock = new_lock()  # reentrant: giving back may happen in the middle of releasing
        self._now = 0  # bytes of all blocks that are there
        self._free: dict[int, deque[Block]] = {}
        self._put_down: deque[Lease] = deque(maxlen=_MOST_PUT_DOWN)
        self._clock = 0
        self._uncounted = 0  # bytes given back since the last count; threads may lose some of them

    @property
    def kept_bytes(self) -> int:
        """Bytes in free blocks."""
        self._sort_in()
        return sum(size * len(free) for size, free in list(self._free.items()))

    @property
    def used_bytes(self) -> int:
        """Bytes in blocks that somebody holds."""
        kept = self.kept_bytes
        return self._now - kept

    def count(self, nbytes: int) -> None:
        """So many bytes more, or less, were had from the system."""
        with self._lock:
            self._now += nbytes

    def take(self, nbytes: int) -> Memory:
        """A block of at least `nbytes` with arbitrary content."""
        size = size_class(nbytes)
        block = None
        if self._put_down:
            try:
                block = self._put_down.pop().block
            except IndexError:  # another thread was faster
                pass
            # What was put down last fits in a loop, usually. If not, all are sorted in.
            if block is not None and block.nbytes != size:
                self._keep(block)
                self._sort_in()
                block = None
        if block is None:
            try:
                block = self._free[size].pop()
            except (KeyError, IndexError):
                block = self._fresh(nbytes, size)
        memory = self._memory(block.address, block.pointer, nbytes, None)
        memory.owner = lease = Lease(memory, self._put_down.append if size < _SMALL else self._give_back)
        lease.block = block
        return memory

    def _sort_in(self) -> None:
        """Give back what was put down."""
        while self._put_down:
            try:
                lease = self._put_down.popleft()
            except IndexError:  # another thread was faster
                return
            self._keep(lease.block)

    def _give_back(self, lease: Lease) -> None:
        self._keep(lease.block)

    def _keep(self, block: Block) -> None:
        """Keep a block that nobody uses anymore."""
        self._clock = block.since = self._clock + 1
        self._free[block.nbytes].append(block)
        self._uncounted += block.nbytes
        if self._limit is not None and self._uncounted > self._count_after:
            with self._lock:
                self._uncounted = 0
                self._release(self._limit)

    def trim(self) -> None:
        """Release every free block to the system."""
        self._sort_in()
        with self._lock:
            self._release(0)

    def _release(self, limit: int) -> None:
        excess = sum(size * len(free) for size, free in list(self._free.items())) - limit
        while excess > 0:
            filled = [free for free in list(self._free.values()) if free]
            try:
                oldest = min(filled, key=lambda free: free[0].since)
                excess -= oldest.popleft().nbytes
            except (ValueError, IndexError):  # others took what was there
                return

    def _fresh(self, nbytes: int, size: int) -> Block:
        self._free.setdefault(size, deque())
        if self._limit is None:  # not when memory is given back: that may be while the interpreter shuts down
            self._limit = available_bytes() // _KEPT_FRACTION
            self._count_after = self._limit // _COUNTED_FRACTION
        try:
            return self._block(size, self)
        except MemoryError:
            self.trim()
            try:
                return self._block(size, self)
            except MemoryError:
                raise MemoryLimitError(
                    f"cannot allocate {nbytes} bytes", hint="Free some tensors, or compute in smaller pieces."
                ) from None


_pool = Pool()


# A block with arbitrary content, aligned to 64 bytes (large ones to a page).
allocate = _pool.take


# An array for what stays for long and is read often, as weights are.
lasting = _Lasting().take


def pool() -> Pool:
    """The pool behind `allocate`, for those who count what is in use."""
    return _pool


def wrap(array: NDArray[Any]) -> Memory:
    """The memory of an array, shared and kept alive.

    It begins at the lowest byte that the array reaches, which for negative strides is not its first element.
    """
    if array.dtype.hasobject:
        raise InternalError("an array of Python objects has no memory to share")
    low, high = byte_bounds(array) if array.size else (array.__array_interface__["data"][0],) * 2
    return Memory(low, pointer(low), high - low, array, bool(array.flags.writeable))


@functools.lru_cache(maxsize=4096)
def size_class(nbytes: int) -> int:
    """The size of the block that serves `nbytes`: at most a quarter more for small ones, an eighth for large ones."""
    if nbytes <= ALIGNMENT:
        return ALIGNMENT
    steps = 3 if nbytes >= 1 << 20 else 2
    granule = max(ALIGNMENT, 1 << max(0, (nbytes - 1).bit_length() - 1 - steps))
    return -(-nbytes // granule) * granule


def machine_bytes() -> int:
    """All memory of the machine, whoever uses it."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def available_bytes(root: Path | None = None) -> int:
    """What may still be allocated: the least that the machine and each control group around this process allow."""
    if root is None:
        from pathlib import Path

        root = Path("/")
    bounds = [_machine_available(root), *_group_available(root)]
    return max(0, min(bounds)) + _pool.kept_bytes


def _machine_available(root: Path) -> int:
    try:
        return int(facts_of(root / "proc/meminfo")["MemAvailable"].split()[0]) * 1024
    except (ValueError, LookupError):
        return machine_bytes()


# Where a version of control groups says, by its controller: the limit, what is used, and what of that is cached files.
_GROUPS: Final = {
    "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    "": ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
}


def _group_available(root: Path) -> Iterator[int]:
    """What the control group of this process and all those around it allow; seen from a container, only the top one
    may exist.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        inner = [part for part in path.split("/") if part and part != ".."]
        for controller in _GROUPS.keys() & controllers.split(","):
            top, limit, used, cached = _GROUPS[controller]
            for depth in range(len(inner), -1, -1):
                folder = root.joinpath(top, *inner[:depth])
                with suppress(OSError, ValueError):  # no such group here, or no limit ("max")
                    facts = dict(text.split() for text in (folder / "memory.stat").read_text().splitlines())
                    bound = int((folder / limit).read_text()) - int((folder / used).read_text())
                    yield bound + int(facts.get(cached, 0))

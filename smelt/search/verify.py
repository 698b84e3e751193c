"""Whether a kernel is right: it runs on memory that ends where nothing may be read, and what it wrote is compared with
a reference that is no kernel.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from smelt.config import configure, settings
from smelt.device import Device, Launch, Library, Listing, pointer
from smelt.dtypes import DType, cast_array
from smelt.errors import MemoryLimitError
from smelt.kernel import Region
from smelt.search.contender import Verdict
from smelt.search.inputs import KINDS, Array, inputs, length
from smelt.search.reference import Expected, reference

MOST_COMPUTED = 1 << 21  # about, of the elements of results from inputs that are not whole
POISON = 0xFF  # in every byte: NaN, and -1
PATTERNS = (0xA5, 0x5A)  # what results hold before a kernel writes them
# The runs on each kind of inputs: on how many threads (0: all), and which pattern results hold. A kernel that is right
# only the first time is wrong, and so is one whose tasks are right only one after the other.
RUNS = {
    "whole": ((1, PATTERNS[0]), (1, PATTERNS[1]), (0, PATTERNS[0]), (0, PATTERNS[1])),
    "normal": ((0, PATTERNS[1]),),
    "special": ((0, PATTERNS[0]),),
}
_NO_ACCESS, _READ_ONLY = 0, mmap.PROT_READ


class Runnable(NamedTuple):
    """A kernel that was built: its library, its name there, and what a launch has to know."""

    library: Library
    name: str
    task_count: str
    tasks: int
    grain: int
    threads: int
    workspace: int
    skips: bool  # it leaves out what would be multiplied by zero, infinities too

    def launch(self, library: int, buffers: Sequence[int], integers: int) -> Launch:
        """A launch on these slots."""
        given = tuple(range(integers))
        return Launch(library, self.name, self.task_count, self.tasks, self.grain, self.threads, tuple(buffers), given)


class Guarded:
    """Bytes that end where a page begins that nobody may touch; those before them are poisoned."""

    def __init__(self, nbytes: int) -> None:
        page = mmap.PAGESIZE
        self._held = -(-max(1, nbytes) // page) * page
        try:
            self._map = mmap.mmap(-1, self._held + page)
        except OSError as error:
            raise MemoryLimitError(f"cannot map {nbytes} bytes: {error.strerror}") from None
        whole = np.frombuffer(self._map, np.uint8)
        self._start: int = whole.__array_interface__["data"][0]
        self._slack, self.bytes = whole[: self._held - nbytes], whole[self._held - nbytes : self._held]
        self._slack[:] = POISON
        self.pointer = pointer(self._start + self._held - nbytes)
        _protect(self._start + self._held, page, _NO_ACCESS)

    @classmethod
    def of(cls, array: Array) -> Guarded:
        """The bytes of an array, which nobody may write from now on."""
        made = cls(array.nbytes)
        made.bytes[:] = array.view(np.uint8)
        _protect(made._start, made._held, _READ_ONLY)
        return made

    @property
    def is_intact(self) -> bool:
        """Whether nothing was written before the bytes."""
        return bool(np.all(self._slack == POISON))


def _protect(address: int, nbytes: int, allowed: int) -> None:
    mprotect = ctypes.CDLL(None, use_errno=True).mprotect
    if mprotect(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), allowed):
        raise MemoryLimitError(f"cannot protect {nbytes} bytes: error {ctypes.get_errno()}")


class Trial:
    """A region at some sizes, with inputs of every kind and what is expected of them."""

    def __init__(self, region: Region, sizes: Mapping[str, int], seed: int, device: Device) -> None:
        self.region, self.sizes, self.seed, self.device = region, sizes, seed, device
        self.integers = struct.pack(f"{len(region.parameters)}q", *(sizes[v.name] for v in region.parameters))
        self.inputs: dict[str, dict[str, Guarded]] = {}
        self.expected: dict[str, dict[str, Expected]] = {}
        self._default: dict[str, Array] = {}  # what the default computes from normal inputs
        self._right: dict[tuple[str, int], dict[str, Array]] = {}  # results that were found right
        # Where nothing is added up, zeros have the sign that the reference gives them.
        self.signs = not any(e.op in ("reduce", "scan") for e in region.order())

    def prepare(self) -> None:
        """Make the inputs, and what is expected: long before any kernel runs."""
        for kind in KINDS:
            arrays = inputs(self.region, self.sizes, kind, self.seed)
            written = sum(length(output.buffer, self.sizes) for output in self.region.outputs)
            # Whole numbers show what is left out or misplaced: of large results, others are computed in part.
            share = 1 if kind == "whole" else 1 + written // MOST_COMPUTED
            self.expected[kind] = reference(self.region, arrays, self.sizes, share)
            self.inputs[kind] = {name: Guarded.of(array) for name, array in arrays.items()}

    def verify(self, kernel: Runnable, default: Runnable, kinds: Sequence[str] = KINDS) -> Verdict:
        """Whether a kernel is right, on one thread and on all, twice in a row; whether it has the default's bits."""
        bits = "same"
        for kind in kinds:
            for threads, pattern in RUNS[kind]:
                # On all threads each takes as few tasks at a time as possible.
                tried = kernel if threads else kernel._replace(grain=1)
                with configure(threads=threads or settings().threads):
                    results, reason = self._run(tried, kind, pattern)
                reason = reason or self._wrong(results, kind, kernel.skips, pattern)
                if reason:
                    where = f"{kind} inputs, {'one thread' if threads else 'all threads'}"
                    return Verdict(False, f"{reason} ({where})", "")
            if kind == "normal":
                self._default = self._default or self._run(default, kind, pattern)[0]
                bits = "same" if _are_same(results, self._default) else "sums"
        return Verdict(True, "", bits)

    def _run(self, kernel: Runnable, kind: str, pattern: int) -> tuple[dict[str, Array], str]:
        """Run a kernel once: the bytes of its results, and what is wrong with where it wrote."""
        given, results = self.inputs[kind], dict[str, Guarded]()
        buffers = self.region.buffers()
        for buffer in buffers:
            if buffer.name in self.expected[kind]:
                results[buffer.name] = made = Guarded(length(buffer, self.sizes) * buffer.dtype.itemsize)
                made.bytes[:] = given[buffer.name].bytes if buffer.name in given else pattern
        count = len(buffers)
        launch = kernel.launch(0, range(count), len(self.region.parameters))
        listing = Listing([launch], [(1 + k, 0) for k in range(count)], kernel.workspace)
        program = self.device.load(listing, [kernel.library])
        arena = Guarded(program.arena_bytes)
        arena.bytes[:] = POISON
        places = [(results.get(b.name) or given[b.name]).pointer for b in buffers]
        program.run(arena.pointer + b"".join(places), self.integers)
        reason = "" if all(made.is_intact for made in results.values()) else "it writes before its results"
        return {name: made.bytes.copy() for name, made in results.items()}, reason

    def _wrong(self, results: dict[str, Array], kind: str, skips: bool, pattern: int) -> str:
        """What is wrong with results, in words; empty if nothing is."""
        if _are_same(results, self._right.get((kind, pattern))):
            return ""
        dtypes = {output.buffer.name: output.buffer.dtype for output in self.region.outputs}
        for name, expected in self.expected[kind].items():
            reason = difference(expected, results[name], dtypes[name], pattern, skips, self.signs)
            if reason:
                return f"{name}: {reason}" if len(results) > 1 else reason
        self._right[kind, pattern] = results
        return ""


def _are_same(some: Mapping[str, Array], others: Mapping[str, Array] | None) -> bool:
    return others is not None and all(np.array_equal(some[name], others[name]) for name in some)


def difference(
    expected: Expected, stored: Array, dtype: DType, pattern: int, skips: bool = False, signs: bool = False
) -> str:
    """What is wrong with the bytes of a result that held a pattern before, in words; empty if nothing is."""
    touched = stored.reshape(-1, dtype.itemsize)
    kept = (touched == pattern).all(1)
    if not kept[~expected.written].all():
        return "it writes where nothing belongs"
    got = stored.view(np.uint8 if dtype.is_bool else dtype.numpy)
    wrong = expected.written & ~_agrees(expected, got, dtype, skips, signs)
    if not wrong.any():
        return ""
    first, count = int(wrong.argmax()), int(wrong.sum())
    if kept[first]:
        return f"{count} elements were not written"
    shown = f"element {first} is {got[first]}, and should be {expected.value[first]}"
    return shown if count == 1 else f"{shown}; {count} elements are wrong"


def _agrees(expected: Expected, got: Array, dtype: DType, skips: bool, signs: bool) -> Array:
    """Which elements are as expected."""
    with np.errstate(all="ignore"):
        value, radius = expected.value, expected.radius
        rounded = cast_array(value, dtype)
        if not dtype.is_float:
            apart = np.abs(got.astype(np.float64) - rounded.astype(np.float64))
            return np.asarray((got == rounded) | ((radius > 0) & (apart <= radius)))
        found, wanted = got.astype(np.float64), rounded.astype(np.float64)
        is_same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        if signs:
            is_same &= (wanted != 0) | (np.signbit(found) == np.signbit(wanted))
        rounding = np.where(radius > 0, float(dtype.limits().eps), 0.0) * np.abs(value.astype(np.float64))
        is_near = (radius > 0) & (np.abs(found - value.astype(np.float64)) <= radius + rounding)
        allowed = is_same | (np.isfinite(wanted) & is_near) | (radius == math.inf)
        return np.asarray(allowed | ~np.isfinite(wanted) if skips else allowed)

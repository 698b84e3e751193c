"""From C source to loaded code: having it compiled, and remembering what came of it.

`build` goes through three layers: the libraries of this process, the cache on disk, the compiler. Every key begins with
the compiler's identity (its command, version and flags, and the processor that `-march=native` meant) and goes on with
the source.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from smelt.device.discovery import Compiler, compiler
from smelt.diskcache import disk_cache
from smelt.errors import InternalError

__all__ = ["Compiler", "Library", "build", "compile_count", "compiler", "stored"]


class Library:
    """A loaded shared library. It stays loaded, so addresses are good for the life of the process."""

    __slots__ = ("_handle", "key")

    def __init__(self, handle: ctypes.CDLL, key: str) -> None:
        self._handle = handle
        self.key = key  # under which `stored` finds it again

    def address(self, name: str) -> int:
        """The address of a function."""
        try:
            address = ctypes.cast(getattr(self._handle, name), ctypes.c_void_p).value
        except AttributeError:
            address = None
        if address is None:
            raise InternalError(f"a compiled library lacks the function {name[:80]!r}")
        return address


class _Slot:
    """The place of one source in this process.

    Whoever builds it holds `building` meanwhile. Free without a library: the builder gave up, and the next one tries.
    """

    __slots__ = ("building", "key", "library", "source")

    def __init__(self, key: str, source: str, building: threading.Lock) -> None:
        self.key = key
        self.source = source
        self.building = building
        self.library: Library | None = None

    @property
    def is_abandoned(self) -> bool:
        return self.library is None and not self.building.locked()


_lock = threading.Lock()
_slots: dict[str, _Slot] = {}


def _after_fork() -> None:
    """The threads that were building, or held the lock, do not exist in the child."""
    global _lock
    _lock = threading.Lock()
    for slot in list(_slots.values()):
        if slot.library is None:
            del _slots[slot.key]


os.register_at_fork(after_in_child=_after_fork)


def compile_count() -> int:
    """How often this process has run the compiler."""
    from smelt.device import compilation

    return compilation.run_count()


def build(sources: Sequence[str]) -> list[Library]:
    """The libraries for these C sources, compiled if need be, several at a time; equal sources share one library.

    A source that does not compile is a mistake of smelt's and raises `InternalError`, with the source kept for a look.
    """
    found: list[Library] = []
    while len(found) < len(sources):
        # Comes round again where another thread gave up on something that we waited for: then it is ours to try.
        found = _build_round(compiler(), sources)
    return found


def stored(keys: Sequence[str]) -> list[Library] | None:
    """The libraries that were built under these keys, by this process or an earlier one.

    None if one is missing, or was made by another compiler, with other flags or for another processor.
    """
    cache = disk_cache()
    maker = _maker(compiler())
    found: list[Library] = []
    for key in keys:
        if not key.startswith(maker):
            return None
        slot = _slots.get(key)
        library = slot.library if slot is not None else None
        if library is None:
            handle = None if cache is None else cache.load_library(key)
            if handle is None:
                return None
            library = Library(handle, key)
        found.append(library)
    return found


def _maker(chosen: Compiler) -> str:
    """What the keys of all libraries begin with that this compiler makes on this machine."""
    return hashlib.sha256(chosen.identity.encode()).hexdigest()[:32]


def _build_round(chosen: Compiler, sources: Sequence[str]) -> list[Library]:
    maker = _maker(chosen)
    keys = [maker + hashlib.sha256(source.encode()).hexdigest() for source in sources]
    mine: list[_Slot] = []
    building = threading.Lock()
    # Whatever interrupts us, a plain lock is free again after its block, and nobody waits for us in vain.
    with building:
        with _lock:
            for key, source in zip(keys, sources, strict=True):
                known = _slots.get(key)
                if known is None or known.is_abandoned:
                    mine.append(_Slot(key, source, building))
                    _slots[key] = mine[-1]
            slots = [_slots[key] for key in keys]
        missing = [slot for slot in mine if not _load_stored(slot)]
        if missing:
            _compile(chosen, missing)
    for slot in slots:
        _wait_for(slot)
    return [slot.library for slot in slots if slot.library is not None]


def _wait_for(slot: _Slot) -> None:
    """Return when the slot has its library, or its builder has given up."""
    if slot.library is None:
        with slot.building:
            pass


def _settle(slot: _Slot, library: Library) -> None:
    slot.library = library
    slot.source = ""  # a process may build thousands


def _load_stored(slot: _Slot) -> bool:
    cache = disk_cache()
    handle = None if cache is None else cache.load_library(slot.key)
    if handle is not None:
        _settle(slot, Library(handle, slot.key))
    return handle is not None


def _compile(chosen: Compiler, missing: list[_Slot]) -> None:
    from smelt.device import compilation

    slots = {slot.key: slot for slot in missing}

    def done(key: str, output: Path) -> None:
        """Load through the cache where there is one, so that what runs now is what later processes will run."""
        cache = disk_cache()
        if cache is not None:
            cache.store_library(key, output)
        if _load_stored(slots[key]):
            return
        try:
            _settle(slots[key], Library(ctypes.CDLL(str(output)), key))
        except OSError as error:
            raise compilation.refused(key, slots[key].source, str(error).encode()) from None

    compilation.compile_each(chosen, {slot.key: slot.source for slot in missing}, done)

"""From C source to loaded code: having it compiled, and remembering what came of it.

`build` goes through three layers: the libraries of this process, the cache on disk, the compiler. Every key begins with
the compiler's identity (its command, version and flags, and the processor that `-march=native` meant) and goes on with
the source.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import os
import threading
import weakref
from _ctypes import dlclose
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from smelt.cost.profile import profile
from smelt.device import protocol
from smelt.device.discovery import Compiler, compiler
from smelt.diskcache import disk_cache, open_library
from smelt.errors import InternalError, MemoryLimitError
from smelt.locks import new_lock

if TYPE_CHECKING:
    from smelt.device.compilation import Run

__all__ = ["Builder", "Compiler", "Library", "build", "building", "compile_count", "compiler", "stored"]


class Library:
    """A loaded shared library. Its addresses are good for as long as somebody holds it."""

    __slots__ = ("__weakref__", "_handle", "key")

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


class _Unneeded(weakref.ref[Library]):
    """Takes note of the death of a library, for the next one that is loaded to unload it.

    Not at once: Python drops exceptions of what runs when objects die, Ctrl-C among them.
    """

    __slots__ = ("handle", "key")

    handle: int
    key: str

    def __new__(cls, library: Library) -> Self:
        self = super().__new__(cls, library, _unneeded.append)
        self.handle, self.key = library._handle._handle, library.key
        return self


_lock = new_lock()
_libraries: dict[str, _Unneeded] = {}  # by key, those that somebody needs
# By key, what whoever builds it holds meanwhile. Free, without a library: the builder gave up, and whoever comes next
# begins anew.
_builders: dict[str, threading.Lock] = {}
_unneeded: deque[_Unneeded] = deque()
_kept: set[Library] = set()  # what was built beside others, which need it

os.register_at_fork(after_in_child=_builders.clear)  # the threads that were building do not exist in the child


def _known(key: str) -> Library | None:
    """The library that this process has under a key."""
    reference = _libraries.get(key)
    return None if reference is None else reference()


def _settled(library: Library) -> Library:
    """A library that others find from now on, or the one that they find already."""
    with _lock:
        known = _known(library.key)
        if known is None:
            _libraries[library.key] = _Unneeded(library)
        _builders.pop(library.key, None)
    return known or library


def compile_count() -> int:
    """How often this process has run the compiler."""
    from smelt.device import compilation

    return compilation.run_count()


def build(sources: Sequence[str]) -> list[Library]:
    """The libraries for these C sources, compiled if need be, several at a time; equal sources share one library.

    A source that does not compile is a mistake of smelt's and raises `InternalError`, with the source kept for a look.
    """
    with building() as builder:
        return list(builder.all(sources))


@contextmanager
def building(beside: Sequence[str] = ()) -> Iterator[Builder]:
    """Build sources that become known one by one, each from the moment that it is. What is not done at the end of the
    block is given up.

    Sources `beside` them are needed soon as well: they are built along with the first one.
    """
    with ExitStack() as stack:
        yield Builder(stack, beside)


class Builder(protocol.Builder):
    """Sources on their way to libraries: compilers run beside this process."""

    def __init__(self, stack: ExitStack, beside: Sequence[str]) -> None:
        self._stack, self._beside = stack, beside
        self._keys: list[tuple[str, str]] = []  # with their sources, those beside them first
        self._held: list[Library | None] = []  # until the caller has them
        self._waiting: dict[str, tuple[str, Compiler]] = {}  # keys that wait for a core, with their sources
        self._runs: dict[str, Run] = {}
        self._folder: Path | None = None  # that compilers work in
        # Whatever interrupts us, a plain lock is free again after its block, and nobody waits for us in vain.
        self._building = threading.Lock()
        stack.enter_context(self._building)

    def add(self, source: str) -> None:
        """Begin to build a source; this waits for nothing but the disk."""
        for one in (source,) if self._keys else (*self._beside, source):
            self._keys.append((self._begin(one), one))

    def advance(self) -> None:
        """Take note of runs that have ended, and start others in their place, as many as there are cores."""
        for key, run in list(self._runs.items()):
            if run.child.is_due:
                self._take(key, run)
        while self._waiting and len(self._runs) < profile().cores:
            # What takes longest must not be what all others have to wait for in the end.
            self._run(max(self._waiting, key=lambda key: len(self._waiting[key][0])))

    def waiting(self) -> int:
        return len(self._waiting) + len(self._runs)

    def finish(self, each: Callable[[], None] = lambda: None) -> list[Library]:
        while self._runs:
            from smelt.device import compilation

            each()
            compilation.wait_for_one([run.child for run in self._runs.values()])
            self.advance()
        # Nobody waits for us while we wait for others.
        self._stack.close()
        libraries = [_built(key, source) for key, source in self._keys]
        self._held.clear()
        _kept.update(libraries[: len(self._beside)])
        return libraries[len(self._beside) :]

    def _begin(self, source: str) -> str:
        chosen = compiler()
        key = _maker(chosen) + hashlib.sha256(source.encode()).hexdigest()
        with _lock:
            library, builder = _known(key), _builders.get(key)
            is_mine = library is None and (builder is None or not builder.locked())
            if is_mine:
                _builders[key] = self._building
            self._held.append(library)
        if is_mine and not self._load_stored(key):
            self._compile(chosen, key, source)
        return key

    def _load_stored(self, key: str) -> bool:
        found = _stored_library(key)
        if found is not None:
            self._held.append(_settled(found))
        return found is not None

    def _compile(self, chosen: Compiler, key: str, source: str) -> None:
        self._waiting[key] = source, chosen
        self.advance()

    def _run(self, key: str) -> None:
        from smelt.device import compilation

        if self._folder is None:
            self._folder = self._stack.enter_context(compilation.temporary_folder())
            self._stack.callback(self._stop)
        source, chosen = self._waiting.pop(key)
        with compilation.interrupts_later():
            self._runs[key] = compilation.Run(chosen, key, source, self._folder)

    def _stop(self) -> None:
        """Kill what still runs."""
        for run in self._runs.values():
            run.child.stop()

    def _take(self, key: str, run: Run) -> None:
        """Load through the cache where there is one, so that what runs now is what later processes will run."""
        output = run.library()
        del self._runs[key]
        run.child.stop()
        cache = disk_cache()
        if cache is not None:
            cache.store_library(key, output)
        if self._load_stored(key):
            return
        try:
            handle = _loaded(lambda: open_library(str(output)))
        except OSError as error:
            from smelt.device import compilation

            raise compilation.refused(key, run.source, str(error).encode()) from None
        self._held.append(_settled(Library(handle, key)))


def stored(keys: Sequence[str]) -> list[Library] | None:
    """The libraries that were built under these keys, by this process or an earlier one.

    None if one is missing, or was made by another compiler, with other flags or for another processor.
    """
    maker = _maker(compiler())
    found: list[Library] = []
    for key in keys:
        if not key.startswith(maker):
            return None
        library = _known(key) or _stored_library(key)
        if library is None:
            return None
        found.append(_settled(library))
    return found


def _maker(chosen: Compiler) -> str:
    """What the keys of all libraries begin with that this compiler makes on this machine."""
    return hashlib.sha256(chosen.identity.encode()).hexdigest()[:32]


def _built(key: str, source: str) -> Library:
    """The library of a key, when its builder has settled it; should that have given up, it is ours to try."""
    _wait_for(key)
    return _known(key) or build([source])[0]


def _wait_for(key: str) -> None:
    """Return when a key has its library, or its builder has given up."""
    builder = _builders.get(key)
    if builder is not None and _known(key) is None:
        with builder:
            pass


def _stored_library(key: str) -> Library | None:
    cache = disk_cache()
    handle = None if cache is None else _loaded(lambda: cache.load_library(key))
    return None if handle is None else Library(handle, key)


Handle = TypeVar("Handle", ctypes.CDLL, ctypes.CDLL | None)


def _loaded(load: Callable[[], Handle]) -> Handle:
    """Load a library, after those that nobody needs any more have made room."""
    _unload()
    try:
        return load()
    except MemoryLimitError:
        gc.collect()
        _unload()
        return load()


def _unload() -> None:
    while _unneeded:
        dead = _unneeded.popleft()
        with _lock:
            if _libraries.get(dead.key) is dead:
                del _libraries[dead.key]
        dlclose(dead.handle)

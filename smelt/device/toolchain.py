"""From C source to loaded code: running the compiler, and remembering what it made.

`build` goes through three layers: the libraries of this process, the cache on disk, the compiler. Every key holds the
source and the compiler's identity: its command, version and flags, and the processor that `-march=native` meant.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from smelt.device.discovery import Compiler, compiler, settle_flags
from smelt.device.profile import profile
from smelt.diskcache import disk_cache
from smelt.errors import CompilerError, InternalError

__all__ = ["Compiler", "Library", "build", "compile_count", "compiler"]

TIME_LIMIT: Final = 120.0  # seconds for one run of the compiler


class Library:
    """A loaded shared library. It stays loaded, so addresses are good for the life of the process."""

    __slots__ = ("_handle",)

    def __init__(self, handle: ctypes.CDLL) -> None:
        self._handle = handle

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
    """The place of one source in this process. Ready without a library: whoever was building it gave up."""

    __slots__ = ("key", "library", "ready", "source")

    def __init__(self, key: str, source: str) -> None:
        self.key = key
        self.source = source
        self.ready = threading.Event()
        self.library: Library | None = None


_lock = threading.Lock()
_slots: dict[str, _Slot] = {}
_runs = 0


def _after_fork() -> None:
    """The threads that were building, or held the lock, do not exist in the child."""
    global _lock
    _lock = threading.Lock()
    for slot in list(_slots.values()):
        if not slot.ready.is_set():
            del _slots[slot.key]


os.register_at_fork(after_in_child=_after_fork)


def compile_count() -> int:
    """How often this process has run the compiler."""
    return _runs


def build(sources: Sequence[str]) -> list[Library]:
    """The libraries for these C sources, compiled if need be, several at a time; equal sources share one library.

    A source that does not compile is a mistake of smelt's and raises `InternalError`, with the source kept for a look.
    """
    found: list[Library] = []
    while len(found) < len(sources):
        # Comes round again where another thread gave up on something that we waited for: then it is ours to try.
        found = _build_round(compiler(), sources)
    return found


def _build_round(chosen: Compiler, sources: Sequence[str]) -> list[Library]:
    identity = hashlib.sha256(chosen.identity.encode()).hexdigest()
    keys = [hashlib.sha256(f"{identity}\n{source}".encode()).hexdigest() for source in sources]
    mine: list[_Slot] = []
    try:
        with _lock:
            for key, source in zip(keys, sources, strict=True):
                if key not in _slots:
                    mine.append(_Slot(key, source))
                    _slots[key] = mine[-1]
            slots = [_slots[key] for key in keys]
        missing = [slot for slot in mine if not _load_stored(slot)]
        if missing:
            _compile(chosen, missing)
    finally:
        for slot in mine:
            if slot.library is None:
                _settle(slot, None)
    for slot in slots:
        slot.ready.wait()
    return [slot.library for slot in slots if slot.library is not None]


def _settle(slot: _Slot, library: Library | None) -> None:
    with _lock:
        slot.library = library
        if library is None and _slots.get(slot.key) is slot:
            del _slots[slot.key]
        slot.ready.set()


def _load_stored(slot: _Slot) -> bool:
    cache = disk_cache()
    handle = None if cache is None else cache.load_library(slot.key)
    if handle is not None:
        _settle(slot, Library(handle))
    return handle is not None


def _compile(chosen: Compiler, missing: list[_Slot]) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="smelt-", ignore_cleanup_errors=True) as folder,
        _running(chosen, missing, Path(folder)) as runs,
    ):
        for run in runs:
            said = run.finish()
            if said is not None and not _compiles_with_fewer_flags(chosen, run.slot, Path(folder)):
                raise _refused(run.slot, said)
            _settle(run.slot, _load_new(run.slot, run.output))


def _compiles_with_fewer_flags(chosen: Compiler, slot: _Slot, folder: Path) -> bool:
    for fewer in chosen.with_fewer_flags():
        with _running(fewer, [slot], folder) as runs:
            said = next(runs).finish()
        if said is None:
            settle_flags(chosen, fewer)
            return True
    return False


class _Run:
    """One process of the compiler, in a session of its own so that it can be stopped with all its children."""

    def __init__(self, chosen: Compiler, slot: _Slot, folder: Path) -> None:
        self.slot = slot
        self.output = folder / f"{slot.key}.so"
        self._name = chosen.command[0]
        source = folder / f"{slot.key}.c"
        source.write_text(slot.source, encoding="utf-8")
        _count_run()
        # Its temporary files go where they are cleaned up; zig would otherwise keep every object in the user's cache.
        private = dict.fromkeys(("TMPDIR", "ZIG_LOCAL_CACHE_DIR", "ZIG_GLOBAL_CACHE_DIR"), str(folder))
        try:
            self._process = subprocess.Popen(
                [*chosen.command, *chosen.flags, str(source), "-o", str(self.output)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=os.environ | private | {"LC_ALL": "C"},
                start_new_session=True,
            )
        except OSError as error:
            raise CompilerError(f"the C compiler {self._name!r} does not start: {error.strerror}") from None
        self._deadline = time.monotonic() + TIME_LIMIT

    def finish(self) -> bytes | None:
        """Wait for the end: None if all went well, else what the compiler said."""
        try:
            _, said = self._process.communicate(timeout=max(0.0, self._deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise CompilerError(
                f"the C compiler {self._name!r} did not finish within {TIME_LIMIT:g} seconds",
                hint="Is the machine overloaded or out of memory? SMELT_CC can name another compiler.",
            ) from None
        if self._process.returncode < 0:
            cause = signal.Signals(-self._process.returncode).name
            raise CompilerError(
                f"the C compiler {self._name!r} was stopped by {cause}", hint="The machine may be out of memory."
            )
        return None if self._process.returncode == 0 else said

    def stop(self) -> None:
        """Kill what still runs."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()


def _count_run() -> None:
    global _runs
    with _lock:
        _runs += 1


@contextlib.contextmanager
def _interrupts_later() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block: a process that is started but not yet written down would run on."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield
        return
    pending: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pending.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pending:
            signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def _running(chosen: Compiler, slots: list[_Slot], folder: Path) -> Iterator[Iterator[_Run]]:
    """Runs of the compiler in the order of the slots, as many at a time as there are cores; all stopped at the end."""
    started: list[_Run] = []

    def start(slot: _Slot) -> _Run:
        with _interrupts_later():
            started.append(_Run(chosen, slot, folder))
        return started[-1]

    def each() -> Iterator[_Run]:
        ahead = profile().cores
        waiting = [start(slot) for slot in slots[:ahead]]
        for slot in slots[ahead:]:
            yield waiting.pop(0)
            waiting.append(start(slot))
        yield from waiting

    try:
        yield each()
    finally:
        for run in started:
            run.stop()


def _load_new(slot: _Slot, output: Path) -> Library:
    """Through the cache where there is one, so that what runs now is what later processes will run."""
    cache = disk_cache()
    handle = None
    if cache is not None:
        cache.store_library(slot.key, output)
        handle = cache.load_library(slot.key)
    try:
        return Library(handle or ctypes.CDLL(str(output)))
    except OSError as error:
        raise _refused(slot, str(error).encode()) from None


def _refused(slot: _Slot, said: bytes) -> InternalError:
    """The error for source that does not compile or load; both the source and what was said about it are kept."""
    cache = disk_cache()
    path = None if cache is None else cache.keep_file("failed", slot.key, ".c", slot.source.encode())
    if cache is not None and path is not None:
        cache.keep_file("failed", slot.key, ".txt", said)
    else:
        path = Path(tempfile.mkdtemp(prefix="smelt-failed-")) / f"{slot.key}.c"
        path.write_text(slot.source, encoding="utf-8")
        path.with_suffix(".txt").write_bytes(said)
    return InternalError(f"the C compiler refused generated code; it is kept, with the compiler's answer, as {path}")

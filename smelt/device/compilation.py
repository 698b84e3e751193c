"""Running the C compiler: several processes at a time, each within a time limit, none left behind.

Loaded only when something has to be compiled, since most processes find all their code in the cache.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from smelt.cost.profile import profile
from smelt.device.child import Child, wait_for_one
from smelt.device.discovery import INSTALL_HINT, Compiler, settle_flags
from smelt.diskcache import disk_cache
from smelt.errors import CompilerError, InternalError
from smelt.locks import new_lock

TIME_LIMIT: Final = 120.0  # seconds for one run of the compiler
_LEAST_SOURCE: Final = "#include <time.h>\nint works(int x) { return x + 1; }\n"
_LONGEST_ANSWER: Final = 500  # characters of what a compiler said that a message repeats
_FULL: Final = os.strerror(errno.ENOSPC).encode()  # as compilers say it too: they run in the C locale

_lock = new_lock()
_runs = 0


def run_count() -> int:
    """How often this process has run the compiler."""
    return _runs


@contextlib.contextmanager
def compiling(chosen: Compiler, done: Callable[[str, Path], None]) -> Iterator[Compilation]:
    """Compile sources into shared libraries while the caller goes on; `done(key, library)` is called as each is there.

    The library is gone when `done` returns. A source that the compiler refuses raises `InternalError`, from whichever
    method takes note of it; a compiler that refuses everything, `CompilerError`. Nothing runs on after the block.
    """
    with _temporary_folder() as folder:
        work = Compilation(chosen, folder, done)
        try:
            yield work
        finally:
            work.stop()


class Compilation:
    """Runs of the compiler, as many at a time as there are cores, and sources that wait for their turn."""

    def __init__(self, chosen: Compiler, folder: Path, done: Callable[[str, Path], None]) -> None:
        self._chosen, self._folder, self._done = chosen, folder, done
        self._waiting: dict[str, str] = {}  # sources by key
        self._runs: list[_Run] = []

    def add(self, key: str, source: str) -> None:
        """Have a source compiled."""
        self._waiting[key] = source
        self.advance()

    def advance(self) -> None:
        """Take note of runs that have ended, and start others in their place; this waits for nothing."""
        for run in [run for run in self._runs if run.child.is_due]:
            self._take(run)
        while self._waiting and len(self._runs) < profile().cores:
            # What takes longest must not be what all others have to wait for in the end.
            key = max(self._waiting, key=lambda key: len(self._waiting[key]))
            with _interrupts_later():
                self._runs.append(_Run(self._chosen, key, self._waiting.pop(key), self._folder))

    def waiting(self) -> int:
        """How many sources have no library yet."""
        return len(self._waiting) + len(self._runs)

    def finish(self, each: Callable[[], None]) -> None:
        """Wait for all runs; `each` is called whenever one has ended."""
        while self._runs:
            each()
            wait_for_one([run.child for run in self._runs])
            self.advance()

    def stop(self) -> None:
        """Kill what still runs."""
        for run in self._runs:
            run.child.stop()

    def _take(self, run: _Run) -> None:
        """The end of a run: its library is handed on."""
        said = run.finish()
        if said is not None and not _compiles_after_all(self._chosen, run.key, run.source, self._folder):
            _check_works(self._chosen, self._folder)
            raise refused(run.key, run.source, said)
        self._runs.remove(run)
        run.child.stop()
        self._done(run.key, run.output)


def refused(key: str, source: str, said: bytes, language: str = "C", suffix: str = ".c") -> InternalError:
    """The error for source that does not compile or load; both the source and what was said about it are kept."""
    what = f"the {language} compiler refused generated code"
    cache = disk_cache()
    path = None if cache is None else cache.keep_file("failed", key, suffix, source.encode())
    if cache is not None and path is not None:
        cache.keep_file("failed", key, ".txt", said)
    else:
        try:
            path = Path(tempfile.mkdtemp(prefix="smelt-failed-")) / f"{key}{suffix}"
            path.write_text(source, encoding="utf-8")
            path.with_suffix(".txt").write_bytes(said)
        except OSError:  # nowhere to keep it: what the compiler said has to do
            return InternalError(f"{what}: {said.decode(errors='replace')[:2000]}")
    return InternalError(f"{what}; it is kept, with the compiler's answer, as {path}")


@contextlib.contextmanager
def _temporary_folder() -> Iterator[Path]:
    """A folder for what the compiler reads and writes, gone afterwards."""
    # The name is known before the folder is there: Ctrl-C at any moment leaves nothing behind.
    try:
        path = Path(tempfile.gettempdir()) / f"smelt-{os.urandom(8).hex()}"
    except OSError as error:
        raise _no_room(error.strerror or str(error)) from None
    try:
        try:
            path.mkdir(0o700)
        except OSError as error:
            raise _no_room(error.strerror or str(error)) from None
        yield path
    finally:
        try:
            shutil.rmtree(path, ignore_errors=True)
        except KeyboardInterrupt:
            shutil.rmtree(path, ignore_errors=True)
            raise


def _no_room(why: str) -> CompilerError:
    return CompilerError(
        f"the C compiler has no room for its temporary files: {why}",
        hint="Make room, or name a folder that can be written to with TMPDIR.",
    )


def _compiles_after_all(chosen: Compiler, key: str, source: str, folder: Path) -> bool:
    """Whether a source compiles at the second attempt, since compilers are killed where memory is short; or with fewer
    flags, which stay.
    """
    for attempt in (chosen, *chosen.with_fewer_flags()):
        if _complaint(attempt, key, source, folder) is None:
            if attempt is not chosen:
                settle_flags(chosen, attempt)
            return True
    return False


def _complaint(chosen: Compiler, key: str, source: str, folder: Path) -> bytes | None:
    """What a compiler says against a source; None if it takes it."""
    with _interrupts_later():
        run = _Run(chosen, key, source, folder)
    try:
        return run.finish()
    finally:
        run.child.stop()


def _check_works(chosen: Compiler, folder: Path) -> None:
    """Raise `CompilerError` if a compiler takes nothing at all: then it is not our source that is wrong."""
    *_, least = (chosen, *chosen.with_fewer_flags())
    said = _complaint(least, "works", _LEAST_SOURCE, folder)
    if said is not None:
        answer = said.decode(errors="replace").strip()[:_LONGEST_ANSWER] or "nothing"
        raise CompilerError(
            f"the C compiler {' '.join(chosen.command)!r} refuses even a function of one line; it says: {answer}",
            rule="it must compile C for this machine, and find the headers of the C library.",
            hint="SMELT_CC names a compiler, with arguments of its own. " + INSTALL_HINT,
        )


class _Run:
    """One process of the compiler."""

    def __init__(self, chosen: Compiler, key: str, source: str, folder: Path) -> None:
        self.key = key
        self.source = source
        self.output = folder / f"{key}.so"
        self._name = chosen.command[0]
        text = folder / f"{key}.c"
        try:
            text.write_text(source, encoding="utf-8")
        except OSError as error:
            raise _no_room(error.strerror or str(error)) from None
        _count_run()
        # Its temporary files go where they are cleaned up; zig would otherwise keep every object in the user's cache.
        private = dict.fromkeys(("TMPDIR", "ZIG_LOCAL_CACHE_DIR", "ZIG_GLOBAL_CACHE_DIR"), str(folder))
        command = [*chosen.command, *chosen.flags, str(text), "-o", str(self.output)]
        try:
            self.child = Child(command, TIME_LIMIT, "stderr", private)
        except OSError as error:
            raise CompilerError(f"the C compiler {self._name!r} does not start: {error.strerror}") from None

    def finish(self) -> bytes | None:
        """Wait for the end: None if all went well, else what the compiler said."""
        try:
            status, said = self.child.finish()
        except TimeoutError:
            raise CompilerError(
                f"the C compiler {self._name!r} did not finish within {TIME_LIMIT:g} seconds",
                hint="Is the machine overloaded or out of memory? SMELT_CC can name another compiler.",
            ) from None
        if status < 0:
            raise CompilerError(
                f"the C compiler {self._name!r} was stopped by {signal.Signals(-status).name}",
                hint="The machine may be out of memory.",
            )
        if status == 0 and not self.output.exists():
            raise CompilerError(
                f"the C compiler {self._name!r} said that all was well and made nothing",
                hint="Is it a C compiler? SMELT_CC can name another one.",
            )
        if status == 0:
            return None
        if _FULL in said:
            raise _no_room(_FULL.decode())
        return said


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

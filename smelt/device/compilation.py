"""Running the C compiler: each process within a time limit, and stopped with everything that it started itself.

Loaded only when something has to be compiled, since most processes find all their code in the cache.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from smelt.device.discovery import INSTALL_HINT, Compiler, settle_flags
from smelt.device.protocol import RefusedCodeError
from smelt.diskcache import disk_cache
from smelt.errors import CompilerError

TIME_LIMIT: Final = 120.0  # seconds for one run of the compiler
_LOOK: Final = 0.001  # seconds between looks at whether a program has ended
_LEAST_SOURCE: Final = "#include <time.h>\nint works(int x) { return x + 1; }\n"
_LONGEST_ANSWER: Final = 500  # characters of what a compiler said that a message repeats
_FOLDER: Final = "smelt-build-"  # how names of temporary folders begin
_NEW: Final = 2.0  # seconds within which whoever made a folder holds it
_FULL: Final = os.strerror(errno.ENOSPC).encode()  # as compilers say it too: they run in the C locale

_runs: list[str] = []  # the keys of what was compiled


def run_count() -> int:
    """How often this process has run the compiler."""
    return len(_runs)


def refused(key: str, source: str, said: bytes, language: str = "C", suffix: str = ".c") -> RefusedCodeError:
    """The error for source that does not compile or load; both the source and what was said about it are kept."""
    what, answer = f"the {language} compiler refused generated code", said.decode(errors="replace")
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
            return RefusedCodeError(f"{what}: {answer[:2000]}", answer)
    return RefusedCodeError(f"{what}; it is kept, with the compiler's answer, as {path}", answer)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for what the compiler reads and writes, gone afterwards. Those of processes that were killed go, too."""
    # The name is known before the folder is there: Ctrl-C at any moment leaves nothing behind.
    with _room():
        path = Path(tempfile.gettempdir()) / f"{_FOLDER}{os.urandom(8).hex()}"
    _sweep(path.parent)
    held = -1
    try:
        with _room():
            path.mkdir(0o700)
            held = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(held, fcntl.LOCK_EX)  # while this process lives
        yield path
    finally:
        if held >= 0:
            os.close(held)
        try:
            shutil.rmtree(path, ignore_errors=True)
        except KeyboardInterrupt:
            shutil.rmtree(path, ignore_errors=True)
            raise


def _sweep(parent: Path) -> None:
    """Remove the folders that nobody holds any more."""
    for path in parent.glob(f"{_FOLDER}*"):
        with contextlib.suppress(OSError):
            found = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                status = os.fstat(found)
                if status.st_uid == os.getuid() and time.time() - status.st_mtime > _NEW:
                    fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(found)


@contextlib.contextmanager
def _room() -> Iterator[None]:
    """What cannot be written here has no room."""
    try:
        yield
    except OSError as error:
        raise _no_room(error.strerror or str(error)) from None


def _no_room(why: str) -> CompilerError:
    return CompilerError(
        f"the C compiler has no room for its temporary files: {why}",
        hint="Make room, or name a folder that can be written to with TMPDIR.",
    )


class Child:
    """A running program, in a session of its own. What it says on one of its streams is read."""

    def __init__(
        self, command: Sequence[str], limit: float, stream: Literal["stdout", "stderr"], variables: Mapping[str, str]
    ) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if stream == "stdout" else subprocess.DEVNULL,
            stderr=subprocess.PIPE if stream == "stderr" else subprocess.DEVNULL,
            env=os.environ | variables | {"LC_ALL": "C"},
            start_new_session=True,
        )
        pipe = self._process.stdout or self._process.stderr
        assert pipe is not None
        self._pipe, self._said, self._is_closed = pipe, b"", False
        os.set_blocking(pipe.fileno(), False)
        self._deadline = time.monotonic() + limit

    @property
    def has_ended(self) -> bool:
        """Whether it is over: its own end counts, children that live on are not waited for."""
        has_ended = self._process.poll() is not None
        self._read()  # or it would wait for us
        return has_ended

    @property
    def is_due(self) -> bool:
        """Whether it has ended, or should have."""
        return self.has_ended or time.monotonic() >= self._deadline

    def finish(self) -> tuple[int, bytes]:
        """Wait for the end: the exit status, and what was said. `TimeoutError` if that takes too long."""
        wait_for_one([self])
        if not self.has_ended:
            raise TimeoutError
        return self._process.returncode, self._said

    def stop(self) -> None:
        """Kill what still runs, the children that it may have left behind included."""
        if not self.has_ended or not self._is_closed:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._pipe.close()

    def _read(self) -> None:
        """Take what has been said so far."""
        with contextlib.suppress(BlockingIOError):
            while not self._is_closed and not self._pipe.closed:
                part = os.read(self._pipe.fileno(), 1 << 16)
                self._said += part
                self._is_closed = not part


def wait_for_one(children: Sequence[Child]) -> None:
    """Return when one of them has ended, or should have."""
    while not any(child.is_due for child in children):
        time.sleep(_LOOK)


class Run:
    """One process of the compiler."""

    def __init__(self, chosen: Compiler, key: str, source: str, folder: Path) -> None:
        self._chosen, self._key, self.source, self._folder = chosen, key, source, folder
        self._name = chosen.command[0]
        self._output = folder / f"{key}.so"
        text = folder / f"{key}.c"
        with _room():
            text.write_text(source, encoding="utf-8")
        _runs.append(key)
        # Its temporary files go where they are cleaned up; zig would otherwise keep every object in the user's cache.
        private = dict.fromkeys(("TMPDIR", "ZIG_LOCAL_CACHE_DIR", "ZIG_GLOBAL_CACHE_DIR"), str(folder))
        command = [*chosen.command, *chosen.flags, str(text), "-o", str(self._output)]
        try:
            self.child = Child(command, TIME_LIMIT, "stderr", private)
        except OSError as error:
            raise CompilerError(f"the C compiler {self._name!r} does not start: {error.strerror}") from None

    def library(self) -> Path:
        """Wait for the library. `InternalError` for a source that is refused, `CompilerError` if everything is."""
        said = self._complaint()
        if said is not None and not self._compiles_after_all():
            self._check_works()
            raise refused(self._key, self.source, said)
        return self._output

    def _compiles_after_all(self) -> bool:
        """Whether it compiles at the second attempt, since compilers are killed where memory is short; or with fewer
        flags, which stay.
        """
        for attempt in (self._chosen, *self._chosen.with_fewer_flags()):
            if _complaint(attempt, self._key, self.source, self._folder) is None:
                if attempt is not self._chosen:
                    settle_flags(self._chosen, attempt)
                return True
        return False

    def _check_works(self) -> None:
        """Raise `CompilerError` if the compiler takes nothing at all: then it is not our source that is wrong."""
        *_, least = (self._chosen, *self._chosen.with_fewer_flags())
        said = _complaint(least, "works", _LEAST_SOURCE, self._folder)
        if said is not None:
            answer = said.decode(errors="replace").strip()[:_LONGEST_ANSWER] or "nothing"
            command = " ".join(self._chosen.command)
            raise CompilerError(
                f"the C compiler {command!r} refuses even a function of one line; it says: {answer}",
                rule="it must compile C for this machine, and find the headers of the C library.",
                hint="SMELT_CC names a compiler, with arguments of its own. " + INSTALL_HINT,
            )

    def _complaint(self) -> bytes | None:
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
        if status == 0 and not self._output.exists():
            raise CompilerError(
                f"the C compiler {self._name!r} said that all was well and made nothing",
                hint="Is it a C compiler? SMELT_CC can name another one.",
            )
        if status == 0:
            return None
        if _FULL in said:
            raise _no_room(_FULL.decode())
        return said


def _complaint(chosen: Compiler, key: str, source: str, folder: Path) -> bytes | None:
    """What a compiler says against a source; None if it takes it."""
    with interrupts_later():
        run = Run(chosen, key, source, folder)
    try:
        return run._complaint()
    finally:
        run.child.stop()


@contextlib.contextmanager
def interrupts_later() -> Iterator[None]:
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

"""A private cache on disk: compiled libraries and small records, kept from process to process.

An entry is a regular file `<root>/<kind>/<key>` that ends in a checksum over its kind, key and content. Before every
read the folders and the file are checked through descriptors that follow no link: they must be this user's and writable
by nobody else. A library is loaded from the very descriptor whose bytes were verified. Entries are written whole
(temporary file, fsync, rename), so any number of processes may share one cache.

Nothing here raises because of the state of the disk: an entry that is damaged, foreign or half-written is dropped with
one warning a process and reads as absent, and a folder that cannot be trusted or written means working without a
cache, after a line that says so.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import itertools
import mmap
import os
import re
import stat
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from smelt.config import settings
from smelt.errors import InternalError, Location, MemoryLimitError, user_location

DEFAULT_LIMIT: Final = 1 << 30  # bytes

_LIBRARY: Final = "library"
_KIND: Final = re.compile(r"[a-z]{1,32}")
_KEY: Final = re.compile(r"[0-9a-f]{16,128}")

_MAGIC: Final = b"smelt-1\n"
_TRAILER: Final = hashlib.sha256().digest_size + len(_MAGIC)

_OPEN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO in our way must not block us
_OPEN_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH

TEMPORARY: Final = ".new"
_ABANDONED_AFTER: Final = 3600.0  # seconds after which a temporary file belongs to no living writer
_TOUCH_AFTER: Final = 24 * 3600.0  # an entry's time of last use is kept to the day

_OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})  # say nothing about the entry

_MAPS_OF_A_LIBRARY: Final = 8  # at most

_aliases = itertools.count(1)
_pruning = threading.Lock()


def _after_fork() -> None:
    global _pruning
    _pruning = threading.Lock()  # whoever held it does not exist in the child


os.register_at_fork(after_in_child=_after_fork)


class _Untrusted(OSError):
    """A folder or file that somebody else may have made or changed."""


class DiskCache:
    """Entries under `root`, which is created when first needed; past `limit` bytes those unused for longest go."""

    def __init__(self, root: Path, limit: int = DEFAULT_LIMIT) -> None:
        self.root = root
        self.limit = limit
        self._warned = self._damaged = False
        self._bytes: int | None = None  # what the cache holds as far as this process knows; None: not counted yet

    def load_bytes(self, kind: str, key: str) -> bytes | None:
        """The content stored under `kind` and `key`, or None."""
        with self._entry(kind, key) as entry:
            return None if entry is None else entry[1]

    def store_bytes(self, kind: str, key: str, data: bytes) -> None:
        """Store `data`, replacing what was there; on an unusable disk, do nothing."""
        self._write(kind, _checked(_KEY, key), data + _checksum(kind, key, data) + _MAGIC)

    def load_library(self, key: str) -> ctypes.CDLL | None:
        """The shared library stored under `key`, loaded, or None. `MemoryLimitError` if the process has no room."""
        with self._entry(_LIBRARY, key) as entry:
            if entry is None:
                return None
            name = _loader_name(entry[0]) if sys.platform == "linux" else str(self.root / _LIBRARY / key)
            try:
                return open_library(name)
            except OSError:  # whole, but not for this machine
                self._drop(_LIBRARY, key)
                return None

    def store_library(self, key: str, library: Path | bytes) -> None:
        """Store a shared library, given as a file or as its bytes."""
        self.store_bytes(_LIBRARY, key, library if isinstance(library, bytes) else library.read_bytes())

    def keep_file(self, kind: str, key: str, suffix: str, data: bytes) -> Path | None:
        """Write a plain file for people to look at, never read back by smelt; its path, or None on an unusable disk."""
        name = _checked(_KEY, key) + suffix
        return self.root / kind / name if self._write(kind, name, data) else None

    def problem(self) -> str | None:
        """Why nothing can be kept here, or None if all is well. Nothing is created, and nothing stays behind."""
        try:
            root = open_folder(self.root, None, create=False)
        except FileNotFoundError:
            nearest = nearest_folder(self.root)
            return None if os.access(nearest, os.W_OK | os.X_OK) else f"nothing can be created in {nearest}"
        except OSError as error:
            return error.strerror or str(error)
        try:
            name = f"{os.urandom(8).hex()}{TEMPORARY}"
            write_whole(name, b"whether this works", root)
            os.unlink(name, dir_fd=root)
        except OSError as error:
            return error.strerror or str(error)
        finally:
            os.close(root)
        return None

    @contextlib.contextmanager
    def _folder(self, kind: str, create: bool) -> Iterator[int | None]:
        """A descriptor of the folder for `kind`, checked from the root down; None when there is none to use."""
        _checked(_KIND, kind)
        with contextlib.ExitStack() as stack:
            descriptor: int | None = None
            try:
                root = open_folder(self.root, None, create)
                stack.callback(os.close, root)
                descriptor = open_folder(kind, root, create)
                stack.callback(os.close, descriptor)
            except FileNotFoundError as error:
                if create:
                    self._warn(error)
            except OSError as error:
                self._warn(error)
            yield descriptor

    @contextlib.contextmanager
    def _entry(self, kind: str, key: str) -> Iterator[tuple[int, bytes] | None]:
        """An open descriptor of a verified entry, and its content."""
        _checked(_KEY, key)
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(self._folder(kind, create=False))
            entry: tuple[int, bytes] | None = None
            if folder is not None:
                try:
                    descriptor = os.open(key, OPEN_FILE, dir_fd=folder)
                    stack.callback(os.close, descriptor)
                    entry = descriptor, _verified(descriptor, kind, key)
                except FileNotFoundError:
                    pass
                except OSError as error:
                    if error.errno not in _OUT_OF_RESOURCES:
                        _remove(key, folder)
                        self._warn_of_damage(f"{kind}/{key}", error)
            yield entry

    def _drop(self, kind: str, name: str) -> None:
        with self._folder(kind, create=False) as folder:
            if folder is not None:
                _remove(name, folder)

    def _write(self, kind: str, name: str, data: bytes) -> bool:
        with self._folder(kind, create=True) as folder:
            if folder is None:
                return False
            try:
                write_whole(name, data, folder)
            except OSError as error:
                self._warn(error)
                return False
        self._bound(len(data))
        return True

    def _bound(self, added: int) -> None:
        """Keep the whole cache within its limit; the folders are only read through when this process has reason to."""
        with _pruning:
            if self._bytes is not None and self._bytes + added <= self.limit:
                self._bytes += added
                return
            try:
                self._bytes = self._prune()
            except OSError as error:
                self._warn(error)

    def _prune(self) -> int:
        """Remove abandoned temporary files and, past the limit, the oldest entries; the number of bytes left."""
        files: list[tuple[float, int, str, str]] = []
        with os.scandir(self.root) as beside:
            kinds = [
                entry.name for entry in beside if _KIND.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
        for kind in kinds:
            with self._folder(kind, create=False) as folder:
                files += [] if folder is None else ((*fact, kind) for fact in _files(folder))
        total = sum(size for _, size, _, _ in files)
        if total <= self.limit:
            return total
        # Going a good way below the limit keeps the next few hundred stores from reading the folders again.
        for _, size, name, kind in sorted(files):
            if total <= self.limit - self.limit // 8:
                break
            self._drop(kind, name)
            total -= size
        return total

    def _warn_of_damage(self, name: str, error: OSError) -> None:
        """Once: whatever damaged one entry may have damaged many."""
        if self._damaged:
            return
        self._damaged = True
        place = user_location() or Location(__file__, 0)
        why = f"{self.root / name} could not be trusted ({error.strerror or error})"
        text = f"smelt: {why}, and is made anew. Is the disk all right? Nothing was taken from it."
        warnings.warn_explicit(text, UserWarning, *place)

    def _warn(self, error: OSError) -> None:
        passing = isinstance(error, FileNotFoundError) and self.problem() is None  # what others have just removed
        if not self._warned and not passing:
            self._warned = True
            why = f"what is compiled cannot be kept in {self.root}: {(error.strerror or str(error)).lower()}"
            what = "It is compiled anew each time; SMELT_CACHE_DIR names another folder"
            print(f"smelt: {why}. {what}.", file=sys.stderr)


def open_library(name: str) -> ctypes.CDLL:
    """Load a shared library; OSError if it does not fit here, `MemoryLimitError` if the process has no room for it."""
    try:
        return ctypes.CDLL(name)
    except OSError:
        if not _is_crowded():
            raise
    raise MemoryLimitError(
        "the process has no room for more compiled code",
        rule="each library takes a few memory maps, and the system allows a process only so many (vm.max_map_count).",
        hint="Let go of compiled functions that are not needed any more; sizes as sm.Dim need fewer of them.",
    )


def _is_crowded() -> bool:
    """Whether the system gives this process no more memory maps."""
    try:
        mmap.mmap(-1, mmap.PAGESIZE).close()
        with open("/proc/sys/vm/max_map_count", encoding="ascii") as limit, open("/proc/self/maps", "rb") as maps:
            return sum(1 for _ in maps) + _MAPS_OF_A_LIBRARY > int(limit.read())
    except FileNotFoundError:  # not Linux
        return False
    except (OSError, MemoryError):
        return True


_caches: dict[Path, DiskCache] = {}


def disk_cache() -> DiskCache | None:
    """The cache that the settings name; None where they switch it off or name none."""
    if not settings().disk_cache or not settings().cache_dir:
        return None
    root = Path(settings().cache_dir)
    return _caches.get(root) or _caches.setdefault(root, DiskCache(root))


def nearest_folder(path: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    return next((folder for folder in (path, *path.parents) if folder.is_dir()), Path("/"))


def _checked(pattern: re.Pattern[str], name: str) -> str:
    if not pattern.fullmatch(name):
        raise InternalError(f"{name[:80]!r} is not a name for a cache entry")
    return name


def _checksum(kind: str, key: str, data: bytes) -> bytes:
    """Bound to the entry's name, so that a whole entry in the wrong place is recognized as well."""
    digest = hashlib.sha256(f"{kind}/{key}\n".encode())
    digest.update(data)
    return digest.digest()


def _trust(status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise _Untrusted("it belongs to another user")
    if status.st_mode & _WRITABLE_BY_OTHERS:
        raise _Untrusted("others may write to it")


def open_folder(path: Path | str, parent: int | None, create: bool) -> int:
    """Open a folder of ours, without following a link at its last step, and check whose it is."""
    try:
        descriptor = os.open(path, _OPEN_FOLDER, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            raise
        if isinstance(path, Path):
            path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700, dir_fd=parent)
        descriptor = os.open(path, _OPEN_FOLDER, dir_fd=parent)
    try:
        _trust(os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def trusted_file(descriptor: int) -> os.stat_result:
    """What the system says of an open file; OSError unless it is a regular one that nobody else may have written."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise _Untrusted("it is not a regular file")
    _trust(status)
    return status


def _verified(descriptor: int, kind: str, key: str) -> bytes:
    """The content of an open entry, once owner, mode, length and checksum are right."""
    status = trusted_file(descriptor)
    with open(descriptor, "rb", closefd=False) as file:
        whole = file.read()
    data, digest, magic = whole[:-_TRAILER], whole[-_TRAILER : -len(_MAGIC)], whole[-len(_MAGIC) :]
    if magic != _MAGIC or digest != _checksum(kind, key, data):
        raise _Untrusted("it is damaged")
    if time.time() - status.st_mtime > _TOUCH_AFTER:
        with contextlib.suppress(OSError):
            os.utime(descriptor)
    return data


def write_whole(name: str, data: bytes, folder: int) -> None:
    """Write a file of a folder, or leave what was there."""
    temporary = f"{os.urandom(8).hex()}{TEMPORARY}"
    try:
        descriptor = os.open(temporary, _OPEN_NEW, 0o600, dir_fd=folder)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        _unlink(temporary, folder)
        raise


def _unlink(name: str, folder: int) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _remove(name: str, folder: int) -> None:
    """Remove whatever has a name: a folder in the place of an entry would otherwise stay there for ever."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    except OSError:
        import shutil

        shutil.rmtree(name, ignore_errors=True, dir_fd=folder)


def _files(folder: int) -> list[tuple[float, int, str]]:
    """Time of last use, size and name of everything in a folder, less the abandoned temporary files, which go."""
    found = []
    for name in os.listdir(folder):
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:  # another process was faster
            continue
        if name.endswith(TEMPORARY) and time.time() - status.st_mtime > _ABANDONED_AFTER:
            _unlink(name, folder)
            continue
        found.append((status.st_mtime, status.st_size, name))
    return found


def _loader_name(descriptor: int) -> str:
    """A path to an open file that the dynamic loader has not seen before.

    The loader takes two equal paths for the same library without looking, and descriptor numbers come round again. `//`
    and `/.` name the same folder, so they spell a running number.
    """
    number = "".join("/." if bit == "1" else "//" for bit in f"{next(_aliases):b}")
    return f"/proc/self{number}/fd/{descriptor}"

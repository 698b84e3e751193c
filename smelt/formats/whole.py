"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from smelt.errors import ArgumentError

_TEMPORARY: Final = re.compile(r"\..+\.[0-9a-f]{16}\.new", re.DOTALL)  # names of files that are not whole yet
_KINDS: Final = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}

PathLike = str | os.PathLike[str]


def write_whole(path: PathLike, parts: Iterable[Any]) -> None:
    """Write a file out of parts that have bytes. Whatever happens in between, including loss of power, the path names
    the old file or the new one: a temporary file is written beside it, flushed to the disk, and renamed.

    Links are followed, and a file that is replaced hands on its owner and permissions. What is no regular file is
    refused. A process that is killed leaves its temporary file behind; the next write into the folder removes it.
    """
    old = _replaced(path)
    target = Path(os.path.realpath(path))
    with _temporary(target) as (name, descriptor):
        if old is not None:
            _take_over(old, descriptor)
        with open(descriptor, "wb", closefd=False) as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(descriptor)
        os.replace(name, target)
    _remove_abandoned(target.parent)
    _flush_folder(target.parent)


def _replaced(path: PathLike) -> os.stat_result | None:
    """What stands at the path so far, which must be a file if it is anything."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "device")
        raise ArgumentError(
            f"{os.fspath(path)} is a {kind}",
            rule="only a regular file can be replaced by another one.",
            hint="Name a file that is not there yet, or one to replace.",
        )
    return status


@contextlib.contextmanager
def _temporary(target: Path) -> Iterator[tuple[Path, int]]:
    """A new file beside the target: its path and a descriptor. It is gone after the block unless it was renamed.

    Its writer holds a lock on it, by which others tell that it is not abandoned.
    """
    while True:
        name = target.with_name(f".{target.name}.{os.urandom(8).hex()}.new")
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with contextlib.suppress(OSError):  # not every file system has locks; nothing is removed there
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink == 0:  # it was taken for abandoned before it was locked
                continue
            yield name, descriptor
            return
        except BaseException:
            with contextlib.suppress(OSError):
                name.unlink()
            raise
        finally:
            os.close(descriptor)


def _take_over(old: os.stat_result, descriptor: int) -> None:
    """Give a new file the owner, group and permissions of the one that it replaces, as far as this user may."""
    os.fchmod(descriptor, 0o600)  # nobody else looks in before it has the right owner
    for owner, group in ((old.st_uid, -1), (-1, old.st_gid)):
        with contextlib.suppress(OSError):
            os.fchown(descriptor, owner, group)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _remove_abandoned(folder: Path) -> None:
    """Remove temporary files whose writers were killed: those that nobody has locked."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if _TEMPORARY.fullmatch(name):
                _remove_unless_locked(folder / name)


def _remove_unless_locked(path: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(descriptor)


def _flush_folder(folder: Path) -> None:
    """Make the new name last, too; not every file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

TEMPORARY: Final = ".new"  # how the names of files that are not whole yet end

PathLike = str | os.PathLike[str]


def write_whole(path: PathLike, parts: Iterable[Any]) -> None:
    """Write a file out of parts that have bytes. Whatever happens in between, including loss of power, the path names
    the old file or the new one: a temporary file is written beside it, flushed to the disk, and renamed.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.urandom(8).hex()}{TEMPORARY}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with open(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _flush_folder(target.parent)


def _flush_folder(folder: Path) -> None:
    """Make the new name last, too; not every file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

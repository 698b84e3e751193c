"""The file that holds the log, and its lines as bytes. Who only looks up an answer needs no more than this."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import BinaryIO, Final

from smelt.diskcache import OPEN_FILE, open_folder, trusted_file

NAME: Final = "records.log"
LINE: Final = 64 << 10  # bytes, at most
VERSION: Final = 1  # of the form of lines
METHOD: Final = 1  # of how times are taken: figures of another method are hints


def open_log(root: Path) -> BinaryIO | None:
    """The log in a folder, for reading; None where there is none that can be trusted."""
    try:
        folder = open_folder(root, None, create=False)
        try:
            return opened(NAME, OPEN_FILE, folder)
        finally:
            os.close(folder)
    except OSError:
        return None


def opened(name: str, flags: int, folder: int) -> BinaryIO:
    """A file of an open folder, checked once it is open."""
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        trusted_file(descriptor)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def signed(body: bytes) -> bytes:
    """A line, without its end: a text, and the beginning of its checksum."""
    return body + b" " + hashlib.sha256(body).hexdigest()[:16].encode()


def body_of(line: bytes) -> bytes | None:
    """The text of a line, if that is whole."""
    body = line.rpartition(b" ")[0]
    return body if len(line) < LINE and signed(body) == line else None

"""The answers of a log, found without reading all of it.

A process asks a few of the questions that a log may answer. So beside it lies an index: for each question at a place,
where the lines of its answers begin. It belongs to one state of the log; whoever finds another one makes it fit.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, BinaryIO, Final

from smelt.compiler import MEASURED_AS
from smelt.device import Device
from smelt.diskcache import DiskCache
from smelt.search.file import LINE, METHOD, VERSION, body_of, open_log
from smelt.search.place import place_of

Facts = dict[str, Any]  # of a place

# Of a row of the index: a digest, then for each setting where the line begins of the answer that counts.
NAME: Final = 16
OFFSET: Final = 4
ROW: Final = NAME + 2 * OFFSET
NONE: Final = 0xFFFFFFFF
KIND: Final = "index"
KEY: Final = "0" * 32
_SETTINGS: Final = ("on", "same-bits")


class Answers:
    """The answers of a log as it was when it was first looked at."""

    def __init__(self, root: Path) -> None:
        self.root, self.inode, self.rows = root, 0, memoryview(b"")
        file = open_log(root)
        if file is not None:
            with file:
                self._look(file)

    def find(self, setting: str, device: Device, question: str) -> str | None:
        """An answer as the compiler takes it, at the place where a device is."""
        place = place_of(device) if self.rows else {}
        file = None if self._offset(setting, place, question) is None else open_log(self.root)
        if file is None:
            return None
        with file:
            if os.fstat(file.fileno()).st_ino != self.inode:  # it was made shorter: lines begin elsewhere
                self._look(file)
            offset = self._offset(setting, place, question)
            line = b"" if offset is None else os.pread(file.fileno(), LINE, offset).partition(b"\n")[0]
        return _answer(body_of(line) or b"", place, question)

    def _look(self, file: BinaryIO) -> None:
        self.inode, self.rows = os.fstat(file.fileno()).st_ino, _index(self.root, file)

    def _offset(self, setting: str, place: Facts, question: str) -> int | None:
        """Where the line of an answer begins."""
        rows, name, low, high = self.rows, name_of(place, question), 0, len(self.rows) // ROW
        while low < high:  # by halves, without a module that nobody else needs
            middle = (low + high) // 2
            low, high = (middle + 1, high) if bytes(rows[ROW * middle :][:NAME]) < name else (low, middle)
        if rows[ROW * low :][:NAME] != name:
            return None
        at = ROW * low + NAME + OFFSET * _SETTINGS.index(setting)
        offset = int.from_bytes(rows[at : at + OFFSET], "big")
        return None if offset == NONE else offset


def _answer(body: bytes, place: Facts, question: str) -> str | None:
    """What the text of a line says, which was understood when the index was made."""
    try:
        record = json.loads(body)
        if (record["question"]["digest"], record["place"]) != (question, place):
            return None
        return f"{record['answer']['schedule']}{MEASURED_AS}{record['answer']['source']}"
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _index(root: Path, file: BinaryIO) -> memoryview:
    """The rows of the index, sorted by name."""
    status = os.fstat(file.fileno())
    header = f"{VERSION} {METHOD} {status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns}\n".encode()
    cache = DiskCache(root)
    stored = cache.load_bytes(KIND, KEY) or b""
    if stored.startswith(header):
        return memoryview(stored)[len(header) :]
    from smelt.search.index import make

    return memoryview(make(cache, file, stored, header))


def name_of(place: Facts, question: str) -> bytes:
    """What a row of the index begins with."""
    return hashlib.sha256(repr((list(place.values()), question)).encode()).digest()[:NAME]

"""The answers of a log, found without reading all of it.

A process asks a few of the questions that a log may answer. So beside it lies an index: for each answer in force, where
its line begins. It belongs to one state of the log, and whoever finds another state makes it anew.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_left
from collections.abc import Iterator
from typing import BinaryIO, Final

from smelt.compiler import MEASURED_AS
from smelt.device.protocol import Device
from smelt.diskcache import DiskCache
from smelt.search.log import Log, confirmed, lines, standing
from smelt.search.place import Place
from smelt.search.record import LINE, METHOD, VERSION, Record, read

_KIND: Final = "index"
_KEY: Final = "0" * 32
_NAME: Final = 32  # digits of the name of an answer
_ROW: Final = _NAME + 9  # with where its line begins, and the end of the row
_SETTINGS: Final = {"on": False, "same-bits": True}  # whether answers must keep the bits of the default
_NO_ANSWER: Final = (b'"state":"timed"', b'"state":"imported"')  # lines that the index need not understand


class Answers:
    """The answers of a log as it was when it was first looked at, by the names that they have in the index."""

    def __init__(self, log: Log) -> None:
        self.log, self.inode, self.rows = log, 0, b""
        self.known: dict[tuple[str, Place, str], str | None] = {}
        file = log.open()
        if file is not None:
            with file:
                self._look(file)

    def find(self, setting: str, device: Device, question: str) -> str | None:
        """An answer as the compiler takes it, at the place where a device is."""
        if not self.rows:
            return None
        key = setting, Place.of(device), question
        if key not in self.known:
            file = self.log.open()
            if file is None:
                return None
            with file:
                self.known[key] = self._read(file, *key)
        return self.known[key]

    def _look(self, file: BinaryIO) -> None:
        self.inode, self.rows = os.fstat(file.fileno()).st_ino, _index(self.log, file)

    def _read(self, file: BinaryIO, setting: str, place: Place, question: str) -> str | None:
        if os.fstat(file.fileno()).st_ino != self.inode:  # it was made shorter: lines begin elsewhere
            self._look(file)
        name = _name(setting, place, question)
        row = bisect_left(range(len(self.rows) // _ROW), name, key=lambda k: self.rows[k * _ROW : k * _ROW + _NAME])
        found = self.rows[row * _ROW : (row + 1) * _ROW]
        if found[:_NAME] != name:
            return None
        record = read(os.pread(file.fileno(), LINE, int(found[_NAME:], 16)).partition(b"\n")[0])
        if isinstance(record, str) or (record.place, record.question.digest) != (place, question):
            return None
        return f"{record.answer.schedule}{MEASURED_AS}{record.answer.source}"


def _index(log: Log, file: BinaryIO) -> bytes:
    """The rows of the index, sorted by name."""
    status = os.fstat(file.fileno())
    state = (VERSION, METHOD, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    header = f"{state}\n".encode()
    cache = DiskCache(log.root)
    stored = cache.load_bytes(_KIND, _KEY)
    if stored is not None and stored.startswith(header):
        return stored[len(header) :]
    rows = b"".join(sorted(_rows(file)))
    cache.store_bytes(_KIND, _KEY, header + rows)
    return rows


def _rows(file: BinaryIO) -> Iterator[bytes]:
    for (place, question), said in standing(_deciding(file)).items():
        for setting, same_bits in _SETTINGS.items():
            found = confirmed(said, same_bits)
            if found is not None:
                yield _name(setting, place, question) + f"{found[0]:08x}\n".encode()


def _deciding(file: BinaryIO) -> Iterator[tuple[int, Record]]:
    """The records that say what is in force, less the texts of their regions, with where their lines begin."""
    for at, line in lines(file):
        if any(state in line for state in _NO_ANSWER):
            continue
        record = read(line)
        if isinstance(record, Record):
            yield at, record._replace(question=record.question._replace(text=""))


def _name(setting: str, place: Place, question: str) -> bytes:
    return hashlib.sha256(repr((setting, tuple(place), question)).encode()).hexdigest()[:_NAME].encode()

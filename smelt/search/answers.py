"""The answers of a log, found without reading all of it.

A process asks a few of the questions that a log may answer. So beside it lies an index: for each question at a place,
where the lines of its answers begin. It belongs to one state of the log; whoever finds another one makes it fit.

The index also has the answers by the form of their regions, if they may serve as neighbours (see `transfer`). What was
found so is noted beside the log as well: whoever has stored a graph asks without the text of its regions.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any, BinaryIO, Final

from smelt.compiler import MEASURED_AS, NEIGHBOUR
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
FORMS: Final = b"\xff" * NAME  # a row that says that there are neighbours
_NOTES: Final = "2" * 32  # of what was found for neighbours
_MOST: Final = 64  # neighbours that are looked at


class Answers:
    """The answers of a log as it was when it was first looked at."""

    def __init__(self, root: Path) -> None:
        self.root, self.inode, self.header, self.rows = root, 0, b"", memoryview(b"")
        self.noted: dict[str, str] = {}
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

    def denies(self, device: Device, question: str, source: str) -> bool:
        """Whether a source was found at this place to be no good for a question."""
        return bool(self.rows) and self._row(name_of(place_of(device), f"{question} {source}")) is not None

    def near(self, device: Device, question: str, text: str) -> str | None:
        """What two neighbours of a region say, one on each side, as long as the log is what it is."""
        if self.rows[-ROW : -ROW + NAME] != FORMS:
            return None
        place = place_of(device)
        name = name_of(place, question).hex()
        if name in self.noted:
            return NEIGHBOUR + self.noted[name]
        file = open_log(self.root) if text else None
        if file is None:
            return None
        from smelt.search.record import Question
        from smelt.search.transfer import bracketed

        asked = Question.of(text)
        with file:
            found = [os.pread(file.fileno(), LINE, at).partition(b"\n")[0] for at in self._offsets(place, asked.form)]
        knobs = bracketed(asked, device, found)
        if not knobs:
            return None
        self.noted = self._notes() | {name: knobs}
        DiskCache(self.root).store_bytes(KIND, _NOTES, self.header + json.dumps(self.noted).encode())
        return NEIGHBOUR + knobs

    def _notes(self) -> dict[str, str]:
        """What was found for neighbours by whoever compiled, by name, since the log is what it is."""
        stored = DiskCache(self.root).load_bytes(KIND, _NOTES) or b""
        if not self.header or not stored.startswith(self.header):
            return {}
        with contextlib.suppress(ValueError):
            return {str(name): str(knobs) for name, knobs in json.loads(stored[len(self.header) :]).items()}
        return {}

    def _look(self, file: BinaryIO) -> None:
        self.inode, (self.header, self.rows) = os.fstat(file.fileno()).st_ino, _index(self.root, file)
        self.noted = self._notes() if self.rows[-ROW : -ROW + NAME] == FORMS else {}

    def _offset(self, setting: str, place: Facts, question: str) -> int | None:
        """Where the line of an answer begins."""
        at = self._row(name_of(place, question))
        if at is None:
            return None
        at += NAME + OFFSET * _SETTINGS.index(setting)
        offset = int.from_bytes(self.rows[at : at + OFFSET], "big")
        return None if offset == NONE else offset

    def _offsets(self, place: Facts, form: str) -> list[int]:
        """Where the lines begin of answers for regions of a form."""
        name, found = form_name(place, form), list[int]()
        at = self._row(name)
        while at is not None and self.rows[at : at + len(name)] == name and len(found) < _MOST:
            found.append(int.from_bytes(self.rows[at + NAME : at + NAME + OFFSET], "big"))
            at += ROW
        return found

    def _row(self, name: bytes) -> int | None:
        """Where the first row begins whose name begins so."""
        rows, low, high = self.rows, 0, len(self.rows) // ROW
        while low < high:  # by halves, without a module that nobody else needs
            middle = (low + high) // 2
            low, high = (middle + 1, high) if bytes(rows[ROW * middle :][:NAME]) < name else (low, middle)
        return ROW * low if rows[ROW * low :][: len(name)] == name else None


def _answer(body: bytes, place: Facts, question: str) -> str | None:
    """What the text of a line says, which was understood when the index was made."""
    try:
        record = json.loads(body)
        if (record["question"]["digest"], record["place"]) != (question, place):
            return None
        return f"{record['answer']['schedule']}{MEASURED_AS}{record['answer']['source']}"
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _index(root: Path, file: BinaryIO) -> tuple[bytes, memoryview]:
    """What tells a state of the log from others, and the rows of its index, sorted by name."""
    status = os.fstat(file.fileno())
    header = f"{VERSION} {METHOD} {status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns}\n".encode()
    cache = DiskCache(root)
    stored = cache.load_bytes(KIND, KEY) or b""
    if stored.startswith(header):
        return header, memoryview(stored)[len(header) :]
    from smelt.search.index import make

    return header, memoryview(make(cache, file, stored, header))


def name_of(place: Facts, question: str) -> bytes:
    """What a row of the index begins with."""
    return hashlib.sha256(repr((list(place.values()), question)).encode()).digest()[:NAME]


def form_name(place: Facts, form: str) -> bytes:
    """What the names of rows begin with that are about regions of a form."""
    return name_of(place, form)[: NAME // 2]

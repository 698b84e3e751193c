"""The answers of a log, found without reading all of it.

A process asks a few of the questions that a log may answer. So beside it lies an index: for each question at a place,
where the lines of its answers begin. It belongs to one state of the log. Whoever finds that lines were added since
reads those alone: beside the index lies where all lines begin that had a say in it. Another file has another index.
"""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_left
from pathlib import Path
from typing import Any, BinaryIO, Final

from smelt.compiler import MEASURED_AS
from smelt.device import Device
from smelt.diskcache import DiskCache
from smelt.search.file import LINE, METHOD, VERSION, body_of, open_log
from smelt.search.place import place_of

Facts = dict[str, Any]  # of a place
Rows = dict[bytes, bytes]  # of the index, by name
Past = dict[bytes, list[int]]  # where lines begin, by name

# Of a row of the index: a digest, then for each setting where the line begins of the answer that counts.
_NAME: Final = 16
_OFFSET: Final = 4
_SETTINGS: Final = ("on", "same-bits")
_ROW: Final = _NAME + _OFFSET * len(_SETTINGS)
_NONE: Final = 0xFFFFFFFF

_KIND: Final = "index"
_KEY: Final = "0" * 32  # of the rows
_PAST: Final = "1" * 32  # of where the lines begin that they are made of: a digest and a place each
_SAID: Final = _NAME + _OFFSET
_MARK: Final = 64  # bytes before the end of what was read: a file that has others there was written anew


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
        rows, name = self.rows, _name(place, question)
        at = _ROW * bisect_left(range(len(rows) // _ROW), name, key=lambda k: bytes(rows[_ROW * k : _ROW * k + _NAME]))
        if rows[at : at + _NAME] != name:
            return None
        at += _NAME + _OFFSET * _SETTINGS.index(setting)
        offset = int.from_bytes(rows[at : at + _OFFSET], "big")
        return None if offset == _NONE else offset


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
    stored = cache.load_bytes(_KIND, _KEY) or b""
    if stored.startswith(header):
        return memoryview(stored)[len(header) :]
    end = _whole(file, status.st_size)
    start, rows, past = _known(stored, cache.load_bytes(_KIND, _PAST) or b"", header, file)
    rows |= _rows(file, start, end, past)
    data = b"".join(row for _, row in sorted(rows.items()))
    said = b"".join(name + at.to_bytes(_OFFSET, "big") for name, places in sorted(past.items()) for at in places)
    cache.store_bytes(_KIND, _PAST, header + f"{end} {_mark(file, end)}\n".encode() + said)
    cache.store_bytes(_KIND, _KEY, header + data)
    return memoryview(data)


def _known(
    stored: bytes, said: bytes, header: bytes, file: BinaryIO
) -> tuple[int, dict[bytes, bytes], dict[bytes, list[int]]]:
    """How far the file was read, the rows that came of it, and where the lines begin that each is made of."""
    before, _, rows = stored.partition(b"\n")
    same, _, rest = said.partition(b"\n")
    read, _, past = rest.partition(b"\n")
    words, places = read.decode("ascii", "replace").split(" "), dict[bytes, list[int]]()
    # The same file, of which no less is there; both parts of the index of one state.
    if before != same or before.split()[:4] != header.split()[:4] or len(words) != 2:
        return 0, {}, {}
    end = int(words[0])
    # One that did not grow was changed by somebody else.
    if int(before.split()[4]) >= int(header.split()[4]) or _mark(file, end) != words[1]:
        return 0, {}, {}
    for at in range(0, len(past), _SAID):
        offset = int.from_bytes(past[at + _NAME : at + _SAID], "big")
        places.setdefault(past[at : at + _NAME], []).append(offset)
    return end, {rows[at : at + _NAME]: rows[at : at + _ROW] for at in range(0, len(rows), _ROW)}, places


def _rows(file: BinaryIO, start: int, end: int, past: Past) -> Rows:
    """The rows of what is said in a part of a file, by name: empty where there is no answer any more."""
    from smelt.search.log import confirmed, deciding, standing

    new: dict[bytes, list[tuple[int, Any]]] = {}
    for at, record in deciding(file, start, end):
        new.setdefault(_name(record.place._asdict(), record.question.digest), []).append((at, record))
    found = {}
    for name, entries in new.items():
        before = past.setdefault(name, [])
        earlier = [entry for at in before for entry in deciding(file, at, at + 1)]
        before += [at for at, _ in entries]
        [said] = standing([*earlier, *entries]).values()
        answers = [confirmed(said, same_bits) for same_bits in (False, True)]
        offsets = [_NONE if entry is None else entry[0] for entry in answers]
        row = name + b"".join(offset.to_bytes(_OFFSET, "big") for offset in offsets)
        found[name] = row if any(answers) else b""
    return found


def _whole(file: BinaryIO, size: int) -> int:
    """Where the last whole line ends: what follows may still be written."""
    start = max(0, size - LINE)
    ended = os.pread(file.fileno(), size - start, start).rfind(b"\n")
    return size if ended < 0 else start + ended + 1


def _mark(file: BinaryIO, end: int) -> str:
    start = max(0, end - _MARK)
    return hashlib.sha256(os.pread(file.fileno(), end - start, start)).hexdigest()


def _name(place: Facts, question: str) -> bytes:
    return hashlib.sha256(repr((list(place.values()), question)).encode()).digest()[:_NAME]

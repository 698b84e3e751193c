"""The index of a log, made to fit it: whoever finds that lines were added reads those alone.

Beside the index lies where all lines begin that had a say in it, so that an answer that is refused gives way to the one
before it. A file that was written anew has an index that is made anew.
"""

from __future__ import annotations

import hashlib
import os
from typing import BinaryIO, Final

from smelt.diskcache import DiskCache
from smelt.search.answers import FORMS, KEY, KIND, NAME, NONE, OFFSET, ROW, form_name, name_of
from smelt.search.file import LINE
from smelt.search.log import confirmed, deciding, standing
from smelt.search.record import Record

Rows = dict[bytes, bytes]  # of the index, by name
Past = dict[bytes, list[int]]  # where lines begin, by name

_PAST: Final = "1" * 32  # the key of where lines begin: a digest and a place each
_SAID: Final = NAME + OFFSET
_GAIN: Final = 1.05  # times as fast as the default are those that may serve their neighbours
_MARK: Final = 64  # bytes before the end of what was read: a file that has others there was written anew


def make(cache: DiskCache, file: BinaryIO, stored: bytes, header: bytes) -> bytes:
    """The rows of the index of a file in the state that a header names; they are stored, too."""
    end = _whole(file, int(header.split()[4]))
    start, rows, past = _known(stored, cache.load_bytes(KIND, _PAST) or b"", header, file)
    rows |= _rows(file, start, end, past)
    data = b"".join(row for _, row in sorted(rows.items()))
    said = b"".join(name + at.to_bytes(OFFSET, "big") for name, places in sorted(past.items()) for at in places)
    cache.store_bytes(KIND, _PAST, header + f"{end} {_mark(file, end)}\n".encode() + said)
    cache.store_bytes(KIND, KEY, header + data)
    return data


def _known(stored: bytes, said: bytes, header: bytes, file: BinaryIO) -> tuple[int, Rows, Past]:
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
        offset = int.from_bytes(past[at + NAME : at + _SAID], "big")
        places.setdefault(past[at : at + NAME], []).append(offset)
    return end, {rows[at : at + NAME]: rows[at : at + ROW] for at in range(0, len(rows), ROW)}, places


def _rows(file: BinaryIO, start: int, end: int, past: Past) -> Rows:
    """The rows of what is said in a part of a file, by name: empty where there is no answer any more."""
    new: dict[bytes, list[tuple[int, Record]]] = {}
    for at, record in deciding(file, start, end):
        new.setdefault(name_of(record.place._asdict(), record.question.digest), []).append((at, record))
    found = {}
    for name, entries in new.items():
        before = past.setdefault(name, [])
        earlier = [entry for at in before for entry in deciding(file, at, at + 1)]
        before += [at for at, _ in entries]
        [said] = standing([*earlier, *entries]).values()
        answers = [confirmed(said, same_bits) for same_bits in (False, True)]
        row = name + _packed(*(NONE if entry is None else entry[0] for entry in answers))
        found[name] = row if any(answers) else b""
        found |= _others(said)
    return found


def _others(said: dict[str, tuple[int, Record]]) -> Rows:
    """Rows besides the one of the answer to a question, empty where they say nothing any more: that it may serve its
    neighbours, and which sources are no good.
    """
    rows = {}
    for _, record in said.values():
        name = name_of(record.place._asdict(), f"{record.question.digest} {record.answer.source}")
        rows[name] = b"" if record.state == "confirmed" else name + _packed(NONE, NONE)
    best = confirmed(said, same_bits=False)
    name = form_name(record.place._asdict(), record.question.form) + bytes.fromhex(record.question.digest)[: NAME // 2]
    if best is None or not best[1].answer.knobs or best[1].evidence.ratio < _GAIN:
        return rows | {name: b""}
    return rows | {name: name + _packed(best[0], NONE), FORMS: FORMS + _packed(NONE, NONE)}


def _packed(*offsets: int) -> bytes:
    return b"".join(offset.to_bytes(OFFSET, "big") for offset in offsets)


def _whole(file: BinaryIO, size: int) -> int:
    """Where the last whole line ends: what follows may still be written."""
    start = max(0, size - LINE)
    ended = os.pread(file.fileno(), size - start, start).rfind(b"\n")
    return size if ended < 0 else start + ended + 1


def _mark(file: BinaryIO, end: int) -> str:
    start = max(0, end - _MARK)
    return hashlib.sha256(os.pread(file.fileno(), end - start, start)).hexdigest()

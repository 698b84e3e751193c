"""The log of all that was found out: one text file in the user's data directory, to which records are only added.

Several processes may add at once: each holds the lock and writes all of its lines with one call. Whoever only reads
needs no lock. Folder and file must be this user's, no links, and writable by nobody else; otherwise, and whatever the
file holds, reading gives what is sound in it and raises nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeVar

from smelt.config import settings
from smelt.diskcache import OPEN_FILE, TEMPORARY, open_folder, write_whole
from smelt.errors import SmeltError
from smelt.search.file import LINE, METHOD, NAME, open_log, opened
from smelt.search.record import Place, Record, read, write

LIMIT: Final = 256 << 20  # bytes that are read, and written
LOSERS: Final = 8  # kept of each question when the log is made shorter: they teach what does not pay
_OPEN_LOG: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_HINTS: Final = (b'"state":"timed"', b'"state":"imported"')  # in lines that answer nothing
_WEAK: Final = ("timed", "imported")  # what changes nothing about an answer that is confirmed

At = TypeVar("At")
Subject = tuple[Place, str]  # a place, and the digest of a question
Standing = dict[Subject, dict[str, tuple[At, Record]]]


class Found(NamedTuple):
    """The sound records of a file, the oldest first, and how many lines are not sound, by what is wrong with them."""

    records: list[Record]
    skipped: Counter[str]


class Log:
    """The log in the folder `root`, which is made when the first record is added."""

    def __init__(self, root: Path) -> None:
        self.root, self.path = root, root / NAME

    def load(self) -> Found:
        """All that is sound in the log."""
        file = open_log(self.root)
        if file is None:
            return Found([], Counter())
        with file:
            return load(file)

    def add(self, records: Iterable[Record]) -> int:
        """Add records: all of them or none. Gives how many; those with too long a line are left out."""
        written = [line for line in map(write, records) if len(line) <= LINE]
        with self._locked() as folder:
            if _size(folder) + sum(map(len, written)) > LIMIT:
                _compact(folder)
            _append(folder, b"".join(written))
        return len(written)

    def compact(self) -> None:
        """Make the log shorter: what is confirmed stays, and so does what must not be tried again."""
        with self._locked() as folder:
            _compact(folder)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """The folder, while nobody else writes. What a writer has left that was killed goes."""
        with contextlib.ExitStack() as stack:
            try:
                folder = open_folder(self.root, None, create=True)
                stack.callback(os.close, folder)
                lock = stack.enter_context(opened("lock", _OPEN_LOG, folder))
                fcntl.flock(lock, fcntl.LOCK_EX)
                for name in os.listdir(folder):
                    if name.endswith(TEMPORARY):
                        os.unlink(name, dir_fd=folder)
                yield folder
            except OSError as error:
                hint = "SMELT_DATA_DIR names another folder."
                why = error.strerror or str(error)
                raise SmeltError(f"nothing can be kept in {self.root}: {why}", hint=hint) from None


def user_log() -> Log | None:
    """The log of this user; None for one without a home."""
    folder = settings().data_dir
    return Log(Path(folder) / "tuned") if folder else None


def load(file: BinaryIO) -> Found:
    """The records of an open file, of which not more than `LIMIT` is read."""
    found = Found([], Counter())
    for _, line in lines(file):
        record = read(line)
        if isinstance(record, str):
            found.skipped[record] += 1
        else:
            found.records.append(record)
    return found


def lines(file: BinaryIO, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Where each line begins, and the line without its end, from where the file stands. Parts of a line that has none,
    or is too long, are empty lines.
    """
    offset, whole = start, True
    while offset < LIMIT and (line := file.readline(LINE)):
        ends = line.endswith(b"\n")
        yield offset, line[:-1] if ends and whole else b""
        offset, whole = offset + len(line), ends


def standing(records: Iterable[tuple[At, Record]]) -> Standing[At]:
    """For each question at a place, the last word about each schedule, the latest last."""
    found: Standing[At] = {}
    for at, record in records:
        said = found.setdefault((record.place, record.question.digest), {})
        held = said.get(record.answer.schedule)
        if held is not None and held[1].state == "confirmed" and record.state in _WEAK:
            continue
        said.pop(record.answer.schedule, None)
        said[record.answer.schedule] = at, record
    return found


def confirmed(said: dict[str, tuple[At, Record]], same_bits: bool) -> tuple[At, Record] | None:
    """The answer in force, of what stands about a question: the latest that is confirmed."""
    for at, record in reversed(said.values()):
        right_bits = record.answer.bits == "same" or not same_bits
        if record.state == "confirmed" and record.evidence.method == METHOD and right_bits:
            return at, record
    return None


def deciding(file: BinaryIO, start: int, end: int) -> Iterator[tuple[int, Record]]:
    """What is said about answers in a part of a file, less the texts of regions, with where the lines begin."""
    file.seek(start)
    for at, line in lines(file, start):
        if at >= end:
            return
        record = "" if any(state in line for state in _HINTS) else read(line)
        if isinstance(record, Record):
            yield at, _brief(record)


def _brief(record: Record) -> Record:
    """A record without the text of its region, which is most of it."""
    return record._replace(question=record.question._replace(text=""))


def _size(folder: int) -> int:
    try:
        return os.stat(NAME, dir_fd=folder, follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0


def _append(folder: int, data: bytes) -> None:
    """Write at the end of the log, and wait until it is on the disk. A line that is torn there ends first."""
    with opened(NAME, _OPEN_LOG, folder) as file:
        log, size = file.fileno(), os.fstat(file.fileno()).st_size
        if size and os.pread(log, 1, size - 1) != b"\n":
            data = b"\n" + data
        try:
            if size + len(data) > LIMIT:
                raise OSError(errno.EFBIG, "the log is full")
            if os.write(log, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(log)
        except BaseException:
            os.ftruncate(log, size)
            raise
    if not size:
        os.fsync(folder)


def _compact(folder: int) -> None:
    try:
        file = opened(NAME, OPEN_FILE, folder)
    except FileNotFoundError:
        return
    with file:
        if os.fstat(file.fileno()).st_size > LIMIT:  # what is not read must not be lost
            raise OSError(errno.EFBIG, "the log is full")
        kept = set(_kept(file))
        file.seek(0)
        data = b"".join([line + b"\n" for at, line in lines(file) if at in kept])
    write_whole(NAME, data, folder)
    os.fsync(folder)


def _kept(file: BinaryIO) -> Iterator[int]:
    """Where the lines begin that stay: what only newer code understands, too."""
    entries = []
    for at, line in lines(file):
        record = read(line)
        if isinstance(record, Record):
            entries.append((at, _brief(record)))
        elif record == "newer":
            yield at
    for said in standing(entries).values():
        others = [(at, record) for at, record in said.values() if record.state in ("timed", "refused")]
        best = sorted(others, key=lambda entry: -entry[1].evidence.ratio)[:LOSERS]
        dropped = {at for at, _ in others} - {at for at, _ in best}
        yield from (at for at, record in said.values() if at not in dropped and record.state != "forgotten")

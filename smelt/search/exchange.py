"""What people do with the log: look into it, forget parts of it, and carry records from machine to machine.

A file that comes from elsewhere is read as the log is. Its records become hints, which a search tries and confirms
here; only whoever trusts the file takes its answers as they are. They still are answers for their own place alone.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from smelt.errors import ArgumentError, ParseError
from smelt.fuse import parse_choices
from smelt.kernel import Illegal, parse_schedule
from smelt.search import tuned
from smelt.search.answers import Answers
from smelt.search.file import LINE
from smelt.search.log import Log, confirmed, load, standing
from smelt.search.record import Question, Record, read, write

_REDUCED = {"add": "sum", "mul": "prod"}  # what reductions are called
_COUNTING = ("confirmed", "timed", "imported")  # states of what is an answer or a hint


class Known(NamedTuple):
    """What is known about a region at a place: the answer in force or else the best hint, and the states of others."""

    record: Record
    others: Counter[str]


def known(records: Sequence[Record], only: str = "") -> list[Known]:
    """What stands in a log, the latest first. With `only`, what has this in the text of the region or the schedule, or
    at the beginning of its name.
    """
    found = []
    for said in standing(enumerate(records)).values():
        hints = sorted(_counting(said.values()), key=lambda entry: entry[1].evidence.ratio)
        best = confirmed(said, same_bits=False) or (hints[-1] if hints else None)
        if best is not None and concerns(best[1], only):
            states = Counter(record.state for at, record in said.values() if at != best[0])
            found.append((best[0], Known(best[1], states)))
    return [one for _, one in sorted(found, reverse=True)]


def counting(records: Sequence[Record]) -> list[Record]:
    """The records that still count, as answers or as hints, the oldest first."""
    said = [entry for words in standing(enumerate(records)).values() for entry in words.values()]
    return [record for _, record in sorted(_counting(said))]


def forget(log: Log, records: Iterable[Record]) -> int:
    """Let records count no longer; how many."""
    return add(log, [record._replace(state="forgotten") for record in records])


def export(records: Iterable[Record], path: Path) -> int:
    """Write records into a file of their own; how many. Only a file of records is overwritten."""
    written = [write(record) for record in records]
    try:
        if path.is_file() and path.stat().st_size:
            with path.open("rb") as file:
                if not isinstance(read(file.readline(LINE)[:-1]), Record):
                    hint = "Give another name, or remove it first."
                    raise ArgumentError(f"{path} is there already, and holds no choices", hint=hint)
        path.write_bytes(b"".join(written))
    except OSError as error:
        raise ArgumentError(f"{path}: {error.strerror or error}") from None
    return len(written)


def shipped() -> Iterator[Record]:
    """The records that come with smelt, for all families of processors."""
    for path in sorted(Path(tuned.SHIPPED).glob("*.log")):
        with open(path, "rb") as file:
            yield from load(file).records


def take(log: Log, path: Path, run: str, trust: bool = False) -> Counter[str]:
    """Add the records of a file to the log, as hints unless the file is trusted. What became of its lines, counted."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ArgumentError(f"{path} is not a file")
            found = load(file)
    except OSError as error:
        raise ArgumentError(f"{path}: {error.strerror or error}") from None
    counts, taken = found.skipped, []
    there = {(_identity(record), state) for record in log.load().records for state in (record.state, "imported")}
    for record in found.records:
        state = record.state if trust else "imported"
        if record.state not in _COUNTING or not _parses(record):
            counts["foreign"] += 1
        elif (_identity(record), state) in there:
            counts["known"] += 1
        else:
            there.add((_identity(record), state))
            taken.append(record._replace(state=state, run=run, question=Question.of(record.question.text)))
    counts["taken"] = add(log, taken)
    return counts


def add(log: Log, records: Sequence[Record]) -> int:
    """Add records, and look for answers at once: the next process finds the index ready."""
    count = log.add(records) if records else 0
    Answers(log.root)
    return count


def _counting(entries: Iterable[tuple[int, Record]]) -> list[tuple[int, Record]]:
    return [entry for entry in entries if entry[1].state in _COUNTING]


def concerns(record: Record, only: str) -> bool:
    """Whether a record has this in its region, in text or in words, in its schedule, or where its name begins."""
    text, schedule = record.question.text, record.answer.schedule
    return record.question.digest.startswith(only) or only in text or only in schedule or only in title_of(text)


def title_of(region: str) -> str:
    """A region in a few words: what is computed, and the results."""
    results = [f"{kind}[{shape}]" for kind, shape in re.findall(r"(?m)^output \S+ (\S+) \[([^\]]*)\]", region)]
    lines = re.findall(r"(?m)^(%\d+): \S+ = (?!load|const|index|cast)(\w+)(.*)$", region)
    product, words = re.search(r"(?m)^role y (%\d+)$", region), list[str]()
    for name, operation, rest in lines:
        reduced = re.match(r" %\d+ (\w+) over (.*)$", rest)
        if product is not None and name == product[1]:
            words = ["matmul"]  # the products before it are part of it
        else:
            words.append(_REDUCED.get(reduced[1], reduced[1]) if operation == "reduce" and reduced else operation)
    return f"{' '.join(dict.fromkeys(words)) or 'copy'} -> {', '.join(results)}"


def _identity(record: Record) -> tuple[object, ...]:
    """What stays the same when a record is carried from one log to another."""
    return record.question.digest, record.place, record.answer, record.evidence


def _parses(record: Record) -> bool:
    try:
        (parse_choices if record.question.is_graph else parse_schedule)(record.answer.schedule)
    except (ParseError, Illegal):
        return False
    return True

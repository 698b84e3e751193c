"""One thing that was found out about a region, as a record and as a line of text.

A line is JSON with sorted keys, a space, and the beginning of its SHA-256. Whatever else a line may hold, reading it
raises nothing: it is damaged, or newer than this code, or foreign, and says so.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import re
from typing import Any, Final, NamedTuple, NoReturn, get_args, get_origin, get_type_hints

from smelt.compiler import question_of
from smelt.search.place import Place, digest

VERSION: Final = 1  # of the form of lines
METHOD: Final = 1  # of how times are taken: figures of another method are hints
LINE: Final = 64 << 10  # bytes, at most
STATES: Final = ("timed", "confirmed", "refused", "wrong", "hung", "crashed", "imported", "forgotten")
BITS: Final = ("same", "sums", "regrouped")  # how far results are those of the default

_CHECK: Final = 16  # digits
_SCHEDULE: Final = 4096  # characters, at most
_WORD: Final = 64
_DIGEST: Final = re.compile(r"[0-9a-f]{32}")
_LONG_NUMBER: Final = re.compile(r"\d{8}")  # no loop that a schedule cuts is that long
_AXIS: Final = re.compile(r"^axis \S+ in 0 \.\. (\d+)$", re.MULTILINE)
_SIZE: Final = re.compile(r"(?<![\w.%])(?:[2-9]|\d\d+)(?![\w.])")
_CONSTANT: Final = re.compile(r"^%\d+: \w+ = const .*$", re.MULTILINE)


class Question(NamedTuple):
    """A region, by its name and its text. Regions that differ in sizes only have the same form."""

    digest: str
    text: str
    form: str
    sizes: tuple[int, ...]  # of the axes whose size is known

    @classmethod
    def of(cls, text: str) -> Question:
        """The question that a region asks."""
        constants = iter(_CONSTANT.findall(text))
        form = _CONSTANT.sub(lambda _: next(constants), _SIZE.sub("s", text))
        return cls(question_of(text), text, digest(form), tuple(int(last) + 1 for last in _AXIS.findall(text)))


class Answer(NamedTuple):
    """A schedule, how far it keeps the bits of the default, and the digest of the source that it was rendered to."""

    schedule: str
    bits: str
    source: str


class Evidence(NamedTuple):
    """What was measured: how many times faster than the default, at least `low`; seconds of both."""

    ratio: float = 0.0
    low: float = 0.0
    default_seconds: float = 0.0
    chosen_seconds: float = 0.0
    turns: int = 0
    processes: int = 0
    method: int = METHOD


class Record(NamedTuple):
    """An answer to a question, at a place, and what became of it. All of a `run` is found and forgotten together."""

    question: Question
    place: Place
    answer: Answer
    evidence: Evidence
    state: str
    reason: str  # of states that are no success
    seed: int
    date: str
    smelt: str
    run: str
    version: int = VERSION

    @property
    def is_sound(self) -> bool:
        """Whether it is something that this code could have written."""
        schedule, bits, source = self.answer
        words = (self.place.device, self.place.family, self.place.toolchain, self.date, self.smelt, self.run)
        return (
            self.state in STATES
            and bits in BITS
            and self.question.digest == question_of(self.question.text)
            and _DIGEST.fullmatch(source) is not None
            and len(schedule) <= _SCHEDULE
            and _LONG_NUMBER.search(schedule) is None
            and max(map(len, words)) <= _WORD
        )


def new_run() -> str:
    """A name for all that is found out together."""
    return os.urandom(8).hex()


def write(record: Record) -> bytes:
    """The line of a record, with its end."""
    fields = {name: value._asdict() if hasattr(value, "_asdict") else value for name, value in record._asdict().items()}
    body = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    return body + b" " + checksum(body) + b"\n"


def read(line: bytes) -> Record | str:
    """The record of a line without its end; or why there is none: it is damaged, newer or foreign."""
    body, _, check = line.rpartition(b" ")
    if len(line) >= LINE or check != checksum(body):
        return "damaged"
    try:
        data = json.loads(body, parse_constant=_refuse)
        if type(data) is dict and type(data.get("version")) is int and data["version"] > VERSION:
            return "newer"
        record: Record = _typed(Record, data)
        return record if record.is_sound else "foreign"
    except (ValueError, RecursionError):
        return "foreign"


def checksum(body: bytes) -> bytes:
    """What stands behind the text of a record."""
    return hashlib.sha256(body).hexdigest()[:_CHECK].encode()


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no figure")


_hints = functools.cache(get_type_hints)


def _typed(kind: Any, data: Any) -> Any:
    """A value of a type of what JSON gives. Texts are such that a terminal can show them, figures are finite."""
    if kind in _LEGAL:
        if type(data) is not kind or not _LEGAL[kind](data):
            raise ValueError(f"{data!r:.40} in a record, where there should be {kind.__name__}")
        return data
    if get_origin(kind) is tuple:
        return tuple([_typed(get_args(kind)[0], item) for item in _as(list, data)])
    fields = _hints(kind)
    if _as(dict, data).keys() != fields.keys():
        raise ValueError("a record has other fields")
    return kind(*[_typed(field, data[name]) for name, field in fields.items()])


_LEGAL: Final[dict[Any, Any]] = {
    str: lambda text: text.isascii() and text.replace("\n", "").isprintable(),
    int: lambda number: 0 <= number < 1 << 53,
    float: lambda number: number >= 0 and math.isfinite(number),
}


def _as(kind: type, data: Any) -> Any:
    if type(data) is not kind:
        raise ValueError(f"{data!r:.40} in a record, where there should be a {kind.__name__}")
    return data

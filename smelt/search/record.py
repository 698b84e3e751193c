"""One thing that was found out about a region, as a record and as a line of text.

A line is JSON with sorted keys, a space, and the beginning of its SHA-256. Whatever else a line may hold, reading it
raises nothing: it is damaged, or newer than this code, or foreign, and says so.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn

from smelt.compiler import question_of
from smelt.device import Device
from smelt.search.file import METHOD, VERSION, body_of, signed
from smelt.search.place import digest, place_of

STATES: Final = ("timed", "confirmed", "refused", "wrong", "hung", "crashed", "imported", "forgotten")
BITS: Final = ("same", "sums", "regrouped")  # how far results are those of the default

_SCHEDULE: Final = 4096  # characters, at most
_WORD: Final = 64
# Patterns that only few processes need are compiled when they are.
_DIGEST: Final = "[0-9a-f]{32}"
_LONG_NUMBER: Final = r"\d{8}"  # no loop that a schedule cuts is that long
_AXIS: Final = r"(?m)^axis \S+ in 0 \.\. (\d+)$"
_SIZE: Final = r"(?<![\w.%])(?:[2-9]|\d\d+)(?![\w.])"
_CONSTANT: Final = r"(?m)^%\d+: \w+ = const .*$"


class Place(NamedTuple):
    """Where a figure holds: see `place_of`."""

    device: str
    family: str
    cores: int
    threads: int
    toolchain: str

    @classmethod
    def of(cls, device: Device) -> Place:
        """Where a device is, and how this process uses it."""
        return cls(**place_of(device))


class Question(NamedTuple):
    """A region or graph, by its name and its text. Regions that differ in sizes only have the same form."""

    digest: str
    text: str
    form: str
    sizes: tuple[int, ...]  # of the axes whose size is known

    @property
    def is_graph(self) -> bool:
        """Whether it is about a whole graph and how that is cut into kernels: choices stand for a schedule then."""
        return self.text.startswith("graph ")

    @classmethod
    def of(cls, text: str) -> Question:
        """The question that a region asks."""
        constants = iter(re.findall(_CONSTANT, text))
        form = re.sub(_CONSTANT, lambda _: next(constants), re.sub(_SIZE, "s", text))
        return cls(question_of(text), text, digest(form), tuple(int(last) + 1 for last in re.findall(_AXIS, text)))


class Answer(NamedTuple):
    """A schedule, how far it keeps the bits of the default, and the digest of the source that it was rendered to; and
    its template and knobs in words, if it is one.
    """

    schedule: str
    bits: str
    source: str
    knobs: str = ""


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
    reason: str  # of states that are no success; of choices for a graph, what they do in words
    seed: int
    date: str
    smelt: str
    run: str
    version: int = VERSION

    @property
    def is_sound(self) -> bool:
        """Whether it is something that this code could have written."""
        schedule, bits, source, knobs = self.answer
        words = (self.place.device, self.place.family, self.place.toolchain, self.date, self.smelt, self.run)
        return (
            self.state in STATES
            and bits in BITS
            and self.question.digest == question_of(self.question.text)
            and re.fullmatch(_DIGEST, source) is not None
            and max(len(schedule), len(knobs)) <= _SCHEDULE
            and re.search(_LONG_NUMBER, f"{schedule}\n{knobs}") is None
            and max(map(len, words)) <= _WORD
        )


def new_run() -> str:
    """A name for all that is found out together."""
    return os.urandom(8).hex()


def write(record: Record) -> bytes:
    """The line of a record, with its end."""
    fields = {name: value._asdict() if hasattr(value, "_asdict") else value for name, value in record._asdict().items()}
    return signed(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()) + b"\n"


def read(line: bytes) -> Record | str:
    """The record of a line without its end; or why there is none: it is damaged, newer or foreign."""
    body = body_of(line)
    if body is None:
        return "damaged"
    try:
        data = _JSON.decode(body.decode())
        if type(data) is dict and type(data.get("version")) is int and data["version"] > VERSION:
            return "newer"
        record: Record = _like(_EXAMPLE, data)
        return record if record.is_sound else "foreign"
    except (ValueError, KeyError, RecursionError):
        return "foreign"


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no figure")


_JSON: Final = json.JSONDecoder(parse_constant=_refuse)

# A record's fields by their types, which are those of an example: texts that a terminal can show, finite figures.
_LEGAL: Final[dict[type, Callable[[Any], bool]]] = {
    str: lambda text: text.isascii() and text.replace("\n", "").isprintable(),
    int: lambda number: 0 <= number < 1 << 53,
    float: lambda number: number >= 0 and math.isfinite(number),
}
# Fields that the first lines did not have.
_LATER: Final[dict[type, dict[str, Any]]] = {Answer: {"knobs": ""}}
_EXAMPLE: Final = Record(
    Question("", "", "", (0,)), Place("", "", 0, 0, ""), Answer("", "", ""), Evidence(), "", "", 0, "", "", ""
)


def _like(example: Any, data: Any) -> Any:
    """A value like an example, of what JSON gives."""
    kind = type(example)
    if kind in _LEGAL:
        if type(data) is kind and _LEGAL[kind](data):
            return data
    elif kind is tuple:
        if type(data) is list:
            return tuple([_like(example[0], item) for item in data])
    elif type(data) is dict and len(data := _LATER.get(kind, {}) | data) == len(example):
        return kind(*[_like(part, data[name]) for name, part in zip(example._fields, example, strict=True)])
    raise ValueError(f"{data!r:.40} in a record, where there should be {kind.__name__}")

"""Records like those that a search leaves behind, and lines that nobody wrote."""

from __future__ import annotations

import json
import random
import re
from typing import Any, Final

from smelt.device import HOST
from smelt.search.file import LINE, signed
from smelt.search.place import digest
from smelt.search.record import Answer, Evidence, Place, Question, Record, write

PLACE: Final = Place(HOST, digest("family"), 2, 2, digest("compiler"))
_REGION: Final = """region
axis i0 in 0 .. {0}
buffer b0 float32 [{1}] strides [1] offset 0
%0: float32 = load b0[i0]
%1: float32 = exp %0
output o float32 [{1}] strides [1] offset 0
store o[i0] = %1
"""
_SCHEDULE: Final = "split i0 (4 loop, 2 reg, 16 lane) tail mask\norder i0.0 i0.1\nbind i0.0 grid"


def sample(number: int, state: str = "confirmed") -> Record:
    """A record like those that a search leaves behind."""
    question = Question.of(_REGION.format(number + 1, number + 2))
    answer = Answer(_SCHEDULE, "same", digest(f"source {number}"))
    evidence = Evidence(1.25, 1.2, 2e-3, 1.6e-3, 30, 2)
    return Record(question, PLACE, answer, evidence, state, "", 0, "2026-01-01T00:00:00Z", "0.1.0", "run")


SCHEDULES: Final = (
    *("split i0 (1000000000 reg)", "split i0 (1000000000 loop, 1000000000 reg)", "unroll i0.0 999999999"),
    *("split i0 (2 reg); " * 300, 'stage "int main(){" at i0.0', 'prefetch 1 1 "); system(\\"x\\")"'),
    *("split i0 (9999999 reg)", "split i0 (64 reg, 64 reg, 64 reg, 64 lane)", "split i0 (3 loop, 5 reg, 4 lane)"),
    *("split i0 (4 lane)\nunroll i0.0 9999999", "grain 9999999", "split i0 (0 reg)", "split i0 (-1 reg)"),
    *("split i0 (8 reg)\nsplit i0 (8 reg)", "order i0.9", "bind i0 grid\n" * 40, "#include </etc/passwd>"),
)
_NAMES: Final = (
    *(
        '"b0; system(\\"x\\")"',
        "int main(void){}",
        "1000000000",
        "999999999999999999999",
        "-1",
        "../b0",
        "%0",
        "%99",
        "",
    ),
    *("float32[", "(" * 2000, "exp " * 500, "reduce", "load", "i0 * 1000000000", "bfloat16", "1e308", "nan", "\n"),
)
_PARTS: Final = (r"b0", r"i0", r"\bo\b", r"\d+", r"exp", r"float32", r"%1", r"\n", r"\[.*?\]")
_WORDS: Final[list[Any]] = [
    *(None, True, -1, 0, 1 << 53, 10**400, 1e308, "", "../../../etc/passwd", "\x1b[2J", "a\nb", "\ud800", "é", [], {}),
    *("x" * 70_000, [[[[]]]], {"version": 2}, "confirmed", "forgotten", 2, 1.5, *SCHEDULES),
]


def hostile(draw: random.Random) -> bytes:
    """A line that nobody wrote."""
    kind, line = draw.random(), write(sample(draw.randrange(50)))[:-1]
    if kind < 0.05:
        return draw.choice([b"[" * 40_000, b'{"a":' * 9_000, b"\0" * LINE, b"x" * (3 * LINE), draw.randbytes(100), b""])
    if kind < 0.4:
        damaged = bytearray(line)
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(damaged))
            damaged[at : at + draw.randint(0, 3)] = draw.randbytes(draw.randint(0, 3))
        return bytes(damaged[: draw.randrange(len(damaged))] if draw.random() < 0.3 else damaged)
    data = json.loads(line.rpartition(b" ")[0])
    change = _scheduled if kind < 0.5 else _asked if kind < 0.65 else _changed
    return _signed(change(data, draw))


def _asked(data: Any, draw: random.Random) -> Any:
    """JSON with another region, whose name is right."""
    text = data["question"]["text"]
    for _ in range(draw.randint(1, 3)):
        if draw.random() < 0.5:
            text = re.sub(draw.choice(_PARTS), lambda _: draw.choice(_NAMES), text, count=draw.randint(0, 2))
        else:
            words = text.split(" ")
            words[draw.randrange(len(words))] = draw.choice((*words, *_NAMES))
            text = " ".join(words)
    return data | {"question": Question.of(text)._asdict()}


def _scheduled(data: Any, draw: random.Random) -> Any:
    """JSON with another schedule, or several in one."""
    chosen = "\n".join(draw.choices(SCHEDULES, k=draw.randint(1, 3)))
    return data | {"answer": data["answer"] | {"schedule": chosen}}


def _changed(data: Any, draw: random.Random) -> Any:
    """JSON with another value somewhere, a field more, or one less."""
    while True:
        name = draw.choice(list(data))
        if isinstance(data[name], dict) and draw.random() < 0.8:
            return data | {name: _changed(data[name], draw)}
        if draw.random() < 0.1:
            return {key: value for key, value in data.items() if key != name}
        return data | {name if draw.random() < 0.9 else str(draw.choice(_WORDS)): draw.choice(_WORDS)}


def _signed(data: Any) -> bytes:
    return signed(json.dumps(data, sort_keys=True, separators=(",", ":")).encode())

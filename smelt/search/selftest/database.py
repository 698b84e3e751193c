"""Attacks on the log: writers that are killed, writers side by side, and files that nobody wrote.

Each gives the failures that it met, in words, and works in a folder of its own.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from smelt.device import HOST, open_device
from smelt.diskcache import TEMPORARY
from smelt.errors import SmeltError
from smelt.kernel import parse_schedule
from smelt.search.answers import Answers
from smelt.search.exchange import known, take
from smelt.search.file import LINE, signed
from smelt.search.log import Log
from smelt.search.place import digest
from smelt.search.record import Answer, Evidence, Place, Question, Record, read, write

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


def kill(count: int, seed: int = 0) -> list[str]:
    """Kill a process that adds records and makes the log shorter, at `count` random moments; then cut the log off at
    every byte of its last record. What a writer was told is kept must be there.
    """
    draw, failures, promised = random.Random(seed), [], 0
    with TemporaryDirectory() as folder:
        log = Log(Path(folder) / "tuned")
        for turn in range(count):
            with _writer(log, promised) as writer:
                assert writer.stdout is not None
                said = writer.stdout.readline()
                time.sleep(draw.uniform(0, 0.03))
                writer.kill()
                promised += len((said + writer.stdout.read()).splitlines())
            failures += [f"kill {turn}: {what}" for what in _lost(log, range(promised))]
        log.add([sample(promised)])  # which takes away what the last one has left
        failures += [f"{name} was left" for name in os.listdir(log.root) if name.endswith(TEMPORARY)]
        return failures + list(_torn(Log(Path(folder) / "torn")))


def writers(count: int, records: int = 100) -> list[str]:
    """Several processes write to one log: all of their records must be there, and no torn line."""
    with TemporaryDirectory() as folder:
        log = Log(Path(folder) / "tuned")
        started = [_writer(log, k * records, records) for k in range(count)]
        failures = [f"a writer ended with {one.returncode}" for one in started if one.communicate() and one.returncode]
        skipped = log.load().skipped
        return failures + [f"{n} {what}" for what, n in skipped.items()] + _lost(log, range(count * records))


def fuzz(count: int, seed: int = 0) -> list[str]:
    """Read `count` lines that are damaged, or sound and hostile; every thousand of them as a log and as a file to
    import. Nothing but smelt's own errors may come of it, and no other file.
    """
    draw, failures, batch = random.Random(seed), list[str](), list[bytes]()

    def safely(what: str, run: Callable[..., None], *arguments: object) -> None:
        try:
            run(*arguments)
        except SmeltError:
            pass
        except Exception as error:
            failures.append(f"{what}: {type(error).__name__}: {error}"[:300])

    with TemporaryDirectory() as folder:
        for turn in range(count):
            line = _hostile(draw)
            batch.append(line)
            safely(f"line {turn}", _use, line)
            if len(batch) == 1000 or turn == count - 1:
                safely(f"log before {turn}", _use_log, Path(folder) / "tuned", b"\n".join(batch))
                batch.clear()
        strange = {path.name for path in Path(folder).rglob("*")} - {"tuned", "lock", "records.log", "index", "0" * 32}
        return failures + [f"{name} was written" for name in strange]


def _writer(log: Log, first: int, records: int = sys.maxsize) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", __name__, str(log.root), str(first), str(records)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def _write(root: str, first: str, records: str) -> None:
    """What a writer does: it says how far it is once that is kept."""
    log = Log(Path(root))
    for number in range(int(first), int(first) + int(records)):
        log.add([sample(number), sample(number, "timed")._replace(answer=Answer("", "same", digest("")))])
        print(number, flush=True)
        if number % 5 == 0:
            log.compact()


def _lost(log: Log, numbers: range) -> list[str]:
    there = {one.record.question.digest for one in known(log.load().records) if one.record.state == "confirmed"}
    return [f"record {number} is lost" for number in numbers if sample(number).question.digest not in there]


def _torn(log: Log) -> Iterator[str]:
    """Whether all but the last record survive a cut anywhere in it, and the next one is added well."""
    log.add([sample(0), sample(1)])
    whole = log.path.read_bytes()
    for cut in range(len(write(sample(0))), len(whole)):
        log.path.write_bytes(whole[:cut])
        log.add([sample(2)])
        yield from (f"cut at {cut}: {what}" for what in _lost(log, range(0, 3, 2)))


def _use(line: bytes) -> None:
    record = read(line)
    if isinstance(record, Record):
        parse_schedule(record.answer.schedule)
        if read(write(record)[:-1]) != record:
            raise AssertionError("a record is read as it is not written")


def _use_log(root: Path, data: bytes) -> None:
    log = Log(root)
    log.add([sample(0)])
    log.path.write_bytes(data)
    answers, device = Answers(log.root), open_device(HOST, "selftest")
    for one in known(log.load().records):
        answers.find("on", device, one.record.question.digest)
    other = Log(root)
    for trust in (False, True):
        take(other, log.path, "run", trust)
    other.compact()


_WORDS: Final[list[Any]] = [
    *(None, True, -1, 0, 1 << 53, 10**400, 1e308, "", "../../../etc/passwd", "\x1b[2J", "a\nb", "\ud800", "é", [], {}),
    *("split i0 (1000000000 reg)", "unroll i0.0 999999999", "split i0 (2 reg); " * 300, 'stage "int main(){" at i0.0'),
    *('prefetch 1 1 "); system(\\"x\\")"', "x" * 70_000, [[[[]]]], {"version": 2}, "confirmed", "forgotten", 2, 1.5),
]


def _hostile(draw: random.Random) -> bytes:
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
    return _signed(_changed(json.loads(line.rpartition(b" ")[0]), draw))


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


if __name__ == "__main__":
    _write(*sys.argv[1:])

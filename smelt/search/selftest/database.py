"""Attacks on the log: tuners that are killed, writers side by side, and files that nobody wrote.

Each gives the failures that it met, in words, and works in a folder of its own.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from smelt.compiler import measured_as
from smelt.device import HOST, open_device
from smelt.errors import SmeltError
from smelt.kernel import Illegal, parse_region, parse_schedule
from smelt.schedule import Candidate, lowered
from smelt.search.answers import Answers
from smelt.search.exchange import known, take
from smelt.search.log import LIMIT, Log, lines
from smelt.search.record import Record, read, write
from smelt.search.selftest.children import start, timings
from smelt.search.selftest.samples import hostile, sample

_PATIENCE: Final = 5.0  # seconds after which nothing may be left of a process that was killed
_SETTLED: Final = 3.0  # seconds after which nobody takes what is left for something new
_TRIES: Final = 3  # of taking away what is left
_MOMENTS: Final = {"writer": 0.03, "tuner": 1.5}  # seconds within which a process is killed
_LONGEST: Final = 5.0  # seconds that a line may keep anybody busy
_OWN: Final = {"tuned", "lock", "records.log", "index", "0" * 32, "1" * 32, "smelt-timing.lock"}  # of a log
_BATCH: Final = 1000  # lines of a log

Say = Callable[[int], None]  # told how far an attack is


def _nobody(_: int) -> None:
    """Nobody is told."""


def kill(count: int, seed: int = 0, say: Say = _nobody, kinds: Sequence[str] = ("writer", "tuner")) -> list[str]:
    """Kill a process that adds records, makes the log shorter and, every other time, races kernels, at `count` random
    moments; then cut the log off at every byte of its last record. What a writer was told is kept must be there, and no
    process be left. Files that one left who was killed are taken away by the next, so none are there in the end.
    """
    draw, failures, promised = random.Random(seed), list[str](), 0
    with TemporaryDirectory() as name:
        folder, mark = Path(name), f"SMELT_SELFTEST_{os.urandom(8).hex()}"
        log, temporary = Log(folder / "tuned"), folder / "temporary"
        temporary.mkdir()
        variables = {"TMPDIR": str(temporary), "SMELT_CACHE_DIR": str(folder / "cache"), mark: "1"}
        for turn in range(count):
            kind = kinds[turn % len(kinds)]
            with start(kind, log, promised, variables=variables) as child:
                assert child.stdout is not None
                said = child.stdout.readline()
                time.sleep(draw.uniform(0, _MOMENTS[kind]))
                child.kill()
                promised += len((said + child.stdout.read()).splitlines())
            failures += [f"kill {turn}: {what}" for what in (*_lost(log, range(promised)), *_left(mark.encode()))]
            say(turn + 1)
        for _ in range(_TRIES):  # compilers of those who were killed may still be writing
            time.sleep(_SETTLED if "tuner" in kinds else 0)
            start(kinds[-1], log, promised, 1, variables).communicate()
            promised += 1
            left = [path for path in (*temporary.iterdir(), *log.root.iterdir()) if path.name not in _OWN]
            if not left:
                break
        failures += _lost(log, range(promised))
        return failures + [f"{path.name} was left" for path in left] + list(_torn(Log(folder / "torn")))


def writers(count: int, records: int = 100, races: int = 5) -> list[str]:
    """Several processes write to one log, and then several race kernels, too: all of their records must be there, no
    torn line, and no two may have timed at once.
    """
    with TemporaryDirectory() as folder:
        log, failures, stamps = Log(Path(folder) / "tuned"), list[str](), list[tuple[float, float]]()
        first = 0
        for kind, each in (("writer", records), ("tuner", races)):
            started = [start(kind, log, first + k * each, each) for k in range(count if each else 0)]
            first += count * each
            for child in started:
                said, _ = child.communicate()
                stamps += timings(said)
                failures += [f"a {kind} ended with {child.returncode}"] if child.returncode else []
        if len(stamps) < count * races:
            failures.append(f"only {len(stamps)} timings were seen")
        overlaps = sum(after[0] < before[1] for before, after in pairwise(sorted(stamps)))
        failures += [f"{overlaps} timings overlap"] if overlaps else []
        skipped = log.load().skipped
        return failures + [f"{n} {what}" for what, n in skipped.items()] + _lost(log, range(first))


def fuzz(count: int, seed: int = 0, say: Say = _nobody) -> list[str]:
    """Read `count` lines that are damaged, or sound and hostile; every thousand of them as a log and as a file to
    import. Nothing but smelt's own errors may come of it, and no other file.
    """
    draw, failures, batch = random.Random(seed), list[str](), list[bytes]()

    def safely(what: str, run: Callable[..., None], *arguments: object) -> None:
        began = time.process_time()
        try:
            run(*arguments)
        except (SmeltError, Illegal):
            pass
        except Exception as error:
            failures.append(f"{what}: {type(error).__name__}: {error}"[:300])
        if time.process_time() - began > _LONGEST and len(batch) > 1:
            failures.append(f"{what} took {time.process_time() - began:.1f} s")

    with TemporaryDirectory() as folder:
        for turn in range(count):
            line = hostile(draw)
            batch.append(line)
            safely(f"line {turn}", _use, line)
            if len(batch) == _BATCH or turn == count - 1:
                safely(f"log before {turn}", _use_log, Path(folder) / "tuned", b"\n".join(batch))
                batch.clear()
                say(turn + 1)
        strange = {path.name for path in Path(folder).rglob("*")} - _OWN
        safely("a large file", _use_large, Path(folder) / "large")
        return failures + [f"{name} was written" for name in strange]


def _lost(log: Log, numbers: range) -> list[str]:
    there = {one.record.question.digest for one in known(log.load().records) if one.record.state == "confirmed"}
    return [f"record {number} is lost" for number in numbers if sample(number).question.digest not in there]


def _left(mark: bytes) -> list[str]:
    """Processes that are left of one that was killed, after some patience: they have a mark in their environment, where
    the system shows that.
    """
    until, found = time.monotonic() + _PATIENCE, [""]
    while found and time.monotonic() < until:
        time.sleep(0.02)
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (process / "environ").read_bytes():
                    found.append(f"process {process.name} is left")
    return found


def _torn(log: Log) -> Iterator[str]:
    """Whether all but the last record survive a cut anywhere in it, and the next one is added well."""
    log.add([sample(0), sample(1)])
    whole = log.path.read_bytes()
    for cut in range(len(write(sample(0))), len(whole)):
        log.path.write_bytes(whole[:cut])
        log.add([sample(2)])
        yield from (f"cut at {cut}: {what}" for what in _lost(log, range(0, 3, 2)))


def _use(line: bytes) -> None:
    """What becomes of a line: if it is sound, a kernel may be made of it."""
    record = read(line)
    if isinstance(record, Record):
        if read(write(record)[:-1]) != record:
            raise AssertionError("a record is read as it is not written")
        device, region = open_device(HOST, "selftest"), parse_region(record.question.text)
        candidate = Candidate("chosen", region, parse_schedule(record.answer.schedule))
        source = measured_as(device, lowered(candidate, region, device.profile)[1])
        assert len(source) == len(record.answer.source)


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


def _use_large(root: Path) -> None:
    """A log that is far larger than what is read of it, all in one line."""
    log = Log(root)
    log.add([sample(0)])
    os.truncate(log.path, 4 * LIMIT)
    with log.path.open("rb") as file:
        states = Counter(bool(line) for _, line in lines(file))
        if file.tell() > LIMIT + (64 << 10):
            raise AssertionError(f"{file.tell()} bytes were read")
    if states[True] != 1:
        raise AssertionError("what is before the long line is lost")

"""The processes that attacks are made on: one that only writes, and one that races for real, too.

Each says how far it is once that is kept, and between which moments it has timed something.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from unittest import mock

from smelt.device import HOST, Device, open_device
from smelt.kernel import parse_region, parse_schedule
from smelt.schedule import Candidate
from smelt.search.contender import Contender
from smelt.search.log import Log
from smelt.search.measure import Racer
from smelt.search.place import digest
from smelt.search.processes import Worker
from smelt.search.record import Answer
from smelt.search.selftest.samples import sample

OTHER: Final = "split i0 (2 reg)"  # a schedule that fits all samples
_SECONDS: Final = 0.02  # of a race
_COMPACTED: Final = 5  # records after which the log is made shorter


def start(
    kind: str, log: Log, first: int, records: int = sys.maxsize, variables: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """A "writer" or "tuner" that adds so many records to a log, the first of which has this number."""
    command = [sys.executable, "-m", __name__, kind, str(log.root), str(first), str(records)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | dict(variables or {}))


def writer(number: int, device: Device) -> None:
    """Nothing more than what is written."""


def tuner(number: int, device: Device) -> None:
    """Two kernels, which are compiled, verified and timed."""
    region = parse_region(sample(number).question.text)
    other = Contender.of(Candidate("other", region, parse_schedule(OTHER)), region, device)
    with Racer(device) as racer:
        for outcome in racer.race(region, [Contender.default(region, device), other], _SECONDS):
            if outcome.state != "timed":
                raise AssertionError(f"{outcome.state}: {outcome.reason}")


KINDS: Final[dict[str, Callable[[int, Device], None]]] = {"writer": writer, "tuner": tuner}


def main(kind: str, root: str, first: str, records: str) -> None:
    """Add records, and say so: a line has the number of what is kept, and the moments of each timing before it."""
    log, device, stamps = Log(Path(root)), open_device(HOST, "selftest"), list[float]()
    with mock.patch.object(Worker, "ask", _stamped(Worker.ask, stamps)):
        for number in range(int(first), int(first) + int(records)):
            KINDS[kind](number, device)
            log.add([sample(number), sample(number, "timed")._replace(answer=Answer("", "same", digest("")))])
            print(number, *stamps, flush=True)
            stamps.clear()
            if number % _COMPACTED == 0:
                log.compact()


def _stamped(ask: Callable[..., Any], stamps: list[float]) -> Callable[..., Any]:
    """Note when a worker is asked to time something, and when it has answered: clocks of processes agree."""

    def asked(worker: Worker, limit: float, job: str, /, **arguments: Any) -> Any:
        began = time.monotonic()
        try:
            return ask(worker, limit, job, **arguments)
        finally:
            if job == "race":
                stamps.extend((began, time.monotonic()))

    return asked


def timings(said: bytes) -> Iterator[tuple[float, float]]:
    """When something was timed, from what a child said."""
    for line in said.splitlines():
        moments = [float(word) for word in line.split()[1:]]
        yield from zip(moments[::2], moments[1::2], strict=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

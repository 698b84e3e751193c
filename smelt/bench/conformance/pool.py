"""Jobs in processes of their own, which may hang, crash, or ask for too much memory: each costs its own answer only."""

from __future__ import annotations

import json
import os
import queue
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

_START_SECONDS: Final = 60.0


class Lost(Exception):
    """A process that gave no answer: it was too slow, or it ended."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


class Worker:
    """One process, which answers one job after the other with a line of JSON."""

    def __init__(self, memory: int) -> None:
        mine, theirs = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "smelt.bench.conformance.worker", str(theirs), str(memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs],
        )
        os.close(theirs)
        self._answers, self._said = mine, b""

    def ask(self, job: dict[str, Any], seconds: float) -> Any:
        """What a job gives. Whoever is lost has ended."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()
        end = time.monotonic() + seconds
        while b"\n" not in self._said:
            ready = select.select([self._answers], [], [], max(end - time.monotonic(), 0))[0]
            if not ready:
                self.end()
                raise Lost("slow", f"no answer within {seconds:g} s")
            read = os.read(self._answers, 1 << 16)
            if not read:
                self.end()
                status = self._process.returncode
                raise Lost("crashed", f"the process ended with {status}" if status >= 0 else f"signal {-status}")
            self._said += read
        line, _, self._said = self._said.partition(b"\n")
        return json.loads(line)

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        with suppress(OSError):
            os.close(self._answers)
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()


def answers(
    jobs: Sequence[dict[str, Any]], count: int, seconds: float, memory: int, lost: Callable[[Any, Lost], Any]
) -> Iterator[Any]:
    """What jobs give, in the order in which they end; for who is lost, what `lost` says."""
    waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    stop = threading.Event()

    def work() -> None:
        worker: Worker | None = None
        while not stop.is_set():
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                break
            try:
                if worker is None:
                    worker = Worker(memory)
                    worker.ask({}, _START_SECONDS)
                done.put(worker.ask(job, seconds))
            except Lost as error:
                worker = None
                done.put(lost(job, error))
        if worker is not None:
            worker.end()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(count, len(jobs)))]
    for thread in threads:
        thread.start()
    try:
        for _ in jobs:
            yield done.get()
    finally:
        stop.set()
        for thread in threads:
            thread.join(seconds)

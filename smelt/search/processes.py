"""The parent's side of workers: processes that may hang or crash, and are replaced then."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from smelt.config import settings
from smelt.device import Device
from smelt.errors import InternalError
from smelt.kernel import Region, print_region
from smelt.search.contender import Verdict
from smelt.search.worker import SETTINGS

START_SECONDS: Final = 60.0  # that a worker may take to start, and to make ready for a region


class Lost(Exception):
    """A worker that did not answer: it hung or crashed."""

    def __init__(self, state: str, reason: str) -> None:
        super().__init__(reason)
        self.state, self.reason = state, reason


class Worker:
    """A process, which begins at once: nobody waits for it until something is asked. It ends with this object."""

    def __init__(self, device: Device) -> None:
        here = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "smelt.search.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": path},
            start_new_session=True,
        )
        self._said = b""  # of the next answer
        self._owed: list[str] = []  # jobs whose answers nobody has waited for yet
        self.stop = weakref.finalize(self, _end, self._process)
        given = {name: getattr(settings(), name) for name in SETTINGS}
        given["cache_dir"] = os.fspath(given["cache_dir"])
        self.tell("begin", settings=given, device=device.name)

    def tell(self, job: str, /, **arguments: Any) -> None:
        """Have a job done, without waiting for what it gives."""
        pipe = self._process.stdin
        assert pipe is not None
        try:
            pipe.write(json.dumps({"job": job, **arguments}).encode() + b"\n")
            pipe.flush()
        except (BrokenPipeError, ValueError):
            raise self._lost() from None
        self._owed.append(job)

    def ready(self, limit: float = START_SECONDS) -> None:
        """Return when all that it was told is done."""
        deadline = time.monotonic() + limit
        while self._owed:
            self._answer(deadline - time.monotonic())

    def ask(self, limit: float, job: str, /, **arguments: Any) -> Any:
        """What a job gives; `Lost` if there is no answer within so many seconds."""
        self.ready()
        self.tell(job, **arguments)
        return self._answer(limit)

    def _answer(self, limit: float) -> Any:
        answers, deadline = self._process.stdout, time.monotonic() + limit
        assert answers is not None
        while b"\n" not in self._said:
            ready, _, _ = select.select([answers], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self.stop()
                raise Lost("hung", f"no answer within {limit:.1f} s")
            part = os.read(answers.fileno(), 1 << 16)
            if not part:
                raise self._lost()
            self._said += part
        said, _, self._said = self._said.partition(b"\n")
        job, answer = self._owed.pop(0), json.loads(said)
        if "error" in answer:
            raise InternalError(f"a worker of the search could not {job}: {answer['error']}")
        return answer["answer"]

    def _lost(self) -> Lost:
        status = self._process.wait()
        self.stop()
        return Lost("crashed", signal.strsignal(-status) or "a signal" if status < 0 else f"it ended with {status}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process, by its number."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


class Session:
    """A region in a worker, which is started anew whenever it is lost. What was found right stays known."""

    def __init__(
        self,
        device: Device,
        region: Region,
        sizes: Mapping[str, int],
        seed: int,
        is_checked: bool,
        worker: Worker | None,
    ) -> None:
        self._device, self._worker = device, worker
        self._region = {"text": print_region(region), "sizes": dict(sizes), "seed": seed, "is_checked": is_checked}
        self.right: dict[str, Verdict] = {}  # by digest
        self.limit = START_SECONDS  # of a verification
        if worker is not None:
            worker.tell("region", **self._region)

    def ask(self, limit: float, job: str, /, **arguments: Any) -> Any:
        """What a job of the worker gives; `Lost` if the worker is."""
        try:
            return self.worker().ask(limit, job, **arguments)
        except BaseException:
            self.stop()
            raise

    def ready(self, limit: float) -> None:
        """Return when the worker knows the region; `Lost` if that takes longer than so many seconds."""
        try:
            self.worker().ready(limit)
        except BaseException:
            self.stop()
            raise

    def worker(self) -> Worker:
        """The worker, which was told the region."""
        if self._worker is None:
            self._worker = Worker(self._device)
            self._worker.tell("region", **self._region)
        return self._worker

    def is_for(self, region: Region) -> bool:
        """Whether it is about a region."""
        return self._region["text"] == print_region(region)

    def release(self) -> Worker | None:
        """Its worker, if there is one, for another region."""
        worker, self._worker = self._worker, None
        return worker

    def stop(self) -> None:
        """End the worker."""
        worker = self.release()
        if worker is not None:
            worker.stop()

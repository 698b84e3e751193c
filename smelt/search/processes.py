"""The parent's side of workers: processes that may hang or crash, and are replaced then."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from smelt.config import settings
from smelt.device import Device
from smelt.errors import InternalError
from smelt.kernel import Region, print_region
from smelt.locks import new_lock
from smelt.search.contender import Verdict
from smelt.search.worker import NUMBER_BYTES, SETTINGS

START_SECONDS: Final = 60.0  # that a worker may take to start, and to make ready for a region
FIRST_FREE: Final = 3  # number of a file that is none of the three that every process has
END_SECONDS: Final = 1.0  # that one may take to be gone, once it is killed
_lock = new_lock()


class Lost(Exception):
    """A worker that did not answer: it hung or crashed."""

    def __init__(self, state: str, reason: str) -> None:
        super().__init__(reason)
        self.state, self.reason = state, reason


class Nursery:
    """A process that starts workers (see `worker.Nursery`). It ends when nobody holds it any more."""

    def __init__(self) -> None:
        here = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
        self._channel, theirs = socket.socketpair()
        # Where this process has closed stdin and its like, a new socket takes their numbers.
        with theirs, socket.socket(fileno=fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE)) as given:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "smelt.search.worker", str(given.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # what kernels or libraries may print is no answer
                stderr=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": path},
                pass_fds=[given.fileno()],
                start_new_session=True,
            )
        self._numbers = itertools.count(1)
        self.owner = os.getpid()
        self._end = weakref.finalize(self, _end, self._process, self._channel)

    @property
    def is_alive(self) -> bool:
        """Whether it can start anybody."""
        return self._process.poll() is None

    def start(self) -> tuple[int, BinaryIO, BinaryIO]:
        """A new worker's number, and the pipes to it and from it; nobody waits for it."""
        (theirs_in, mine_out), (mine_in, theirs_out) = os.pipe(), os.pipe()
        number = next(self._numbers)
        try:
            with contextlib.suppress(OSError):  # who does not live does not answer
                socket.send_fds(self._channel, [number.to_bytes(NUMBER_BYTES, "little")], [theirs_in, theirs_out])
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        return number, os.fdopen(mine_out, "wb"), os.fdopen(mine_in, "rb", buffering=0)

    def end(self, number: int) -> None:
        """End a worker."""
        with contextlib.suppress(OSError):
            self._channel.sendall(number.to_bytes(NUMBER_BYTES, "little"))


def _end(process: subprocess.Popen[bytes], channel: socket.socket) -> None:
    channel.close()
    process.kill()
    process.wait()


_nursery: weakref.ref[Nursery] | None = None


def nursery() -> Nursery:
    """The one of this process, replaced if it dies: it lives as long as somebody holds it, or one of its workers."""
    global _nursery
    with _lock:
        found = _nursery() if _nursery else None
        if found is None or not found.is_alive:
            found = Nursery()
            _nursery = weakref.ref(found)
        return found


def _after_fork() -> None:
    """The parent's workers answer to the parent."""
    global _nursery
    _nursery = None


os.register_at_fork(after_in_child=_after_fork)


class Worker:
    """A process, which begins at once: nobody waits for it until something is asked. It ends with this object."""

    def __init__(self, device: Device) -> None:
        mother = nursery()
        number, self._asked, self._answers = mother.start()
        self._said = b""  # of the next answer
        self._owed: list[str] = []  # jobs whose answers nobody has waited for yet
        self.stop = weakref.finalize(self, _stop, mother, number, self._asked, self._answers)
        given = {name: getattr(settings(), name) for name in SETTINGS}
        given["cache_dir"] = os.fspath(given["cache_dir"])
        self.tell("begin", settings=given, device=device.name)

    def tell(self, job: str, /, **arguments: Any) -> None:
        """Have a job done, without waiting for what it gives. If it has ended, who waits for that gets to know."""
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._asked.write(json.dumps({"job": job, **arguments}).encode() + b"\n")
            self._asked.flush()
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
        if self._answers.closed:
            raise Lost("crashed", "it was ended")
        deadline, part = time.monotonic() + limit, b" "
        while b"\n" not in self._said and part:
            if not _is_ready(self._answers, deadline - time.monotonic()):
                self.stop()
                raise Lost("hung", f"no answer within {limit:.1f} s")
            part = self._answers.read(1 << 16)
            self._said += part
        said, _, self._said = self._said.partition(b"\n")
        try:
            answer = json.loads(said)
        except ValueError:  # it ended in the middle of an answer, or nobody could say how
            answer = {"ended": 0}
        if "ended" in answer:
            self.stop()
            status = answer["ended"]
            name = signal.strsignal(-status) or "a signal" if status < 0 else f"it ended with {status}"
            raise Lost("crashed", name)
        job = self._owed.pop(0)
        if "error" in answer:
            raise InternalError(f"a worker of the search could not {job}: {answer['error']}")
        return answer["answer"]


def _stop(mother: Nursery, number: int, asked: BinaryIO, answers: BinaryIO) -> None:
    """End a worker, and wait until it is gone: it would disturb whoever is timed next."""
    if mother.owner != os.getpid():  # a copy of the process whose worker it is
        return
    mother.end(number)
    with contextlib.suppress(OSError, ValueError):
        asked.close()
    with contextlib.suppress(OSError, ValueError), answers:
        while _is_ready(answers, END_SECONDS) and answers.read(1 << 16):
            continue


def _is_ready(pipe: BinaryIO, seconds: float) -> bool:
    return bool(select.select([pipe], [], [], max(0.0, seconds))[0])


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

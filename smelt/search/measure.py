"""Contenders built, verified and raced: a `Measurer` over workers, processes that may crash or hang.

Verified before timed: a contender that is wrong never meets the clock, and what was right is looked at once more after
the race, since a kernel may be right only the first times.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from smelt.config import settings
from smelt.device import Device, Library
from smelt.errors import InternalError
from smelt.kernel import Region, Skip, parse_region, print_region, verify
from smelt.search.build import built
from smelt.search.contender import Contender, Outcome, Timed, Verdict
from smelt.search.inputs import usual_sizes
from smelt.search.race import worse
from smelt.search.worker import SETTINGS

START_SECONDS: Final = 60.0  # that a worker may take to start, and to make ready for a region
VERIFY_SECONDS: Final = 2.0  # and ten times as long as the default took
RACE_SECONDS: Final = 20.0  # besides those that it was given
PATIENCE: Final = 10.0

# What says how fast the machine is at the moment.
MARK: Final = """region
axis i in 0 .. 8191
buffer x float32 [8192] strides [1] offset 0
%0: float32 = load x[i]
%1: float32 = exp %0
output o float32 [8192] strides [1] offset 0
store o[i] = %1
"""

Kernel = dict[str, Any]  # what a worker has to know of one


class Lost(Exception):
    """A worker that did not answer: it hung or crashed."""

    def __init__(self, state: str, reason: str) -> None:
        super().__init__(reason)
        self.state, self.reason = state, reason


class Worker:
    """The parent's side of a worker."""

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
        given = {name: getattr(settings(), name) for name in SETTINGS}
        given["cache_dir"] = os.fspath(given["cache_dir"])
        self.ask(START_SECONDS, "begin", settings=given, device=device.name)

    def ask(self, limit: float, job: str, /, **arguments: Any) -> Any:
        """What a job gives; `Lost` if there is no answer within so many seconds."""
        pipe, answers = self._process.stdin, self._process.stdout
        assert pipe is not None and answers is not None
        said, deadline = b"", time.monotonic() + limit
        try:
            pipe.write(json.dumps({"job": job, **arguments}).encode() + b"\n")
            pipe.flush()
        except BrokenPipeError:
            raise self._lost() from None
        while not said.endswith(b"\n"):
            ready, _, _ = select.select([answers], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self.stop()
                raise Lost("hung", f"no answer within {limit:.1f} s")
            part = os.read(answers.fileno(), 1 << 16)
            if not part:
                raise self._lost()
            said += part
        answer = json.loads(said)
        if "error" in answer:
            raise InternalError(f"a worker of the search could not {job}: {answer['error']}")
        return answer["answer"]

    def _lost(self) -> Lost:
        status = self._process.wait()
        self.stop()
        return Lost("crashed", signal.strsignal(-status) or "a signal" if status < 0 else f"it ended with {status}")

    def stop(self) -> None:
        """End the process, by its number."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class Session:
    """A region in a worker, which is started anew whenever it is lost."""

    def __init__(self, device: Device, region: Region, sizes: Mapping[str, int], seed: int, is_checked: bool) -> None:
        self._device = device
        self._region = {"text": print_region(region), "sizes": dict(sizes), "seed": seed, "is_checked": is_checked}
        self._worker: Worker | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def ask(self, limit: float, job: str, /, **arguments: Any) -> Any:
        """What a job of the worker gives; `Lost` if the worker is."""
        try:
            return self.worker().ask(limit, job, **arguments)
        except BaseException:
            self._stop()
            raise

    def worker(self) -> Worker:
        """The worker, which knows the region."""
        if self._worker is None:
            self._worker = Worker(self._device)
            self._worker.ask(START_SECONDS, "region", **self._region)
        return self._worker

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.stop()
        self._worker = None


class Racer:
    """Races contenders for real. `sizes` are those of symbolic dims; cold buffers come from memory, not from caches."""

    def __init__(
        self, device: Device, sizes: Mapping[str, int] | None = None, seed: int = 0, is_cold: bool = True
    ) -> None:
        self.device, self.sizes, self.seed, self.is_cold = device, sizes, seed, is_cold
        self.planted: list[float] = []  # what times are multiplied by, for those who test races
        self._sessions = 0

    def race(self, region: Region, contenders: Sequence[Contender], seconds: float) -> list[Outcome]:
        """What became of each contender. The first is the incumbent, the default."""
        found: dict[int, Outcome] = {}
        kernels = self._built(contenders, found)
        digests, why = [contender.digest for contender in contenders], "the default is not right"
        try:
            with self._session(region, is_checked=True) as session:
                right = self._verified(session, kernels, digests, found)
                times = self._raced(session, {at: kernels[at] for at in right}, seconds) if right else {}
                timed = {at: one for at, one in times.items() if isinstance(one, Timed)}
                for at, one in times.items():
                    if isinstance(one, Lost):
                        found[at] = Outcome(digests[at], one.state, one.reason, right[at], None)
                for at in self._verified(session, {at: kernels[at] for at in timed}, digests, found, ("normal",)):
                    found[at] = Outcome(digests[at], "timed", "", right[at], timed[at])
        except InternalError as error:  # the region has no reference, say
            why = str(error)
        return [found.get(at) or Outcome(digest, "refused", why, None, None) for at, digest in enumerate(digests)]

    def confirm(self, region: Region, best: Contender, default: Contender, seconds: float) -> Timed:
        """Both against each other in two fresh processes, which see other values; the worse of the two results."""
        found: dict[int, Outcome] = {}
        kernels = self._built([default, best], found)
        results: list[Timed] = []
        for _ in range(2):
            with self._session(region, is_checked=False) as session:
                timed = None if found else self._raced(session, kernels, seconds / 2)[1]
            results.append(timed if isinstance(timed, Timed) else NOTHING)
        return worse(*results)

    def _session(self, region: Region, is_checked: bool) -> Session:
        self._sessions += 1
        sizes = usual_sizes(region) if self.sizes is None else self.sizes
        return Session(self.device, region, sizes, self.seed + self._sessions, is_checked)

    def _built(self, contenders: Sequence[Contender], found: dict[int, Outcome]) -> dict[int, Kernel]:
        """What workers have to know of each contender; outcomes of those that cannot be built."""
        kernels: dict[int, Kernel] = {}
        libraries = built([contender.source for contender in contenders], self.device)
        for at, (contender, library) in enumerate(zip(contenders, libraries, strict=True)):
            if isinstance(library, str):
                found[at] = Outcome(contender.digest, "refused", library, None, None)
                continue
            try:
                verify(contender.kernel)
            except InternalError as error:  # no proof that it keeps to its memory
                found[at] = Outcome(contender.digest, "wrong", str(error), Verdict(False, str(error), ""), None)
            else:
                kernels[at] = described(contender, library, self.device)
        return kernels

    def _verified(
        self,
        session: Session,
        kernels: Mapping[int, Kernel],
        digests: Sequence[str],
        found: dict[int, Outcome],
        kinds: Sequence[str] = (),
    ) -> dict[int, Verdict]:
        """The verdicts of those that are right; outcomes of the others."""
        right: dict[int, Verdict] = {}
        limit = START_SECONDS
        for at, kernel in kernels.items() if 0 in kernels else ():
            digest = digests[at]
            try:
                session.worker()
                start = time.monotonic()
                answer = session.ask(limit, "verify", kernel=kernel, default=kernels[0], kinds=list(kinds))
                verdict = Verdict(*answer)
            except Lost as lost:
                found[at] = Outcome(digest, lost.state, lost.reason, None, None)
            else:
                if verdict.right:
                    right[at] = verdict
                else:
                    found[at] = Outcome(digest, "wrong", verdict.reason, verdict, None)
            if 0 not in right:
                break
            if at == 0:
                limit = VERIFY_SECONDS + PATIENCE * (time.monotonic() - start)
        return right

    def _raced(self, session: Session, kernels: Mapping[int, Kernel], seconds: float) -> dict[int, Timed | Lost]:
        """Race kernels, the default among them. Who makes the worker crash or hang is found by halving."""
        others = [at for at in kernels if at != 0]
        numbers = [0, *others]
        planted = [self.planted[at] for at in numbers] if self.planted else []
        arguments = {"kernels": [kernels[at] for at in numbers], "mark": self._mark, "planted": planted}
        try:
            with timing_turn():
                times = session.ask(seconds + RACE_SECONDS, "race", seconds=seconds, is_cold=self.is_cold, **arguments)
            return {at: Timed(*timed) for at, timed in zip(numbers, times, strict=True)}
        except Lost as lost:
            if not others:
                return {0: lost}
            if len(others) == 1:
                return {others[0]: lost} | self._raced(session, {0: kernels[0]}, seconds)
        half, found = len(others) // 2, dict[int, Timed | Lost]()
        for part in (others[:half], others[half:]):
            found |= self._raced(session, {at: kernels[at] for at in (0, *part)}, seconds / 2)
        return found

    @cached_property
    def _mark(self) -> Kernel:
        mark = Contender.default(parse_region(MARK), self.device)
        (library,) = built([mark.source], self.device)
        if isinstance(library, str):
            raise InternalError(library)
        return described(mark, library, self.device) | {"region": MARK}


NOTHING: Final = Timed(0.0, 0.0, 0.0, 0.0, 0)  # what is known of what could not be timed


def described(contender: Contender, library: Library, device: Device) -> Kernel:
    """What a worker has to know of a kernel that was built."""
    kernel, tasks = contender.kernel, contender.kernel.tasks.value
    return {
        "key": library.key,
        "name": kernel.name,
        "task_count": device.count(kernel) if tasks is None else "",
        "tasks": tasks or 0,
        "grain": contender.choice.grain,
        "threads": kernel.threads,
        "workspace": device.workspace_bytes(kernel),
        "skips": any(isinstance(action, Skip) for action in contender.choice.actions),
    }


@contextlib.contextmanager
def timing_turn() -> Iterator[None]:
    """Only one process of the machine times at a time: others wait for their turn."""
    path = Path(tempfile.gettempdir()) / "smelt-timing.lock"
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)  # another user's file may be locked, but not made
    except FileNotFoundError:
        descriptor = os.open(path, flags | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

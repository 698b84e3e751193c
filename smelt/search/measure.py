"""Contenders built, verified and raced: a `Measurer` over workers, processes that may crash or hang.

Verified before timed: a contender that is wrong never meets the clock, and what was right is looked at once more after
the race, since a kernel may be right only the first times. One worker serves a region for as long as it is searched,
and then the next; those that confirm are fresh, and start when there may be something to confirm.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from smelt.cost import rates
from smelt.device import Device, Library
from smelt.errors import InternalError
from smelt.kernel import Region, Skip, parse_region, verify
from smelt.search.build import LIMIT, built
from smelt.search.contender import Contender, Outcome, Timed, Verdict
from smelt.search.inputs import usual_sizes
from smelt.search.processes import START_SECONDS, Lost, Nursery, Session, Worker, nursery
from smelt.search.race import ADOPTED, LOST, MOST_TURNS, SEARCH_TURNS, is_adopted, worse

VERIFY_SECONDS: Final = 2.0  # and ten times as long as the default took
RACE_SECONDS: Final = 5.0  # besides those that it was given, and ten times as long as it took to verify the default
PATIENCE: Final = 10.0
STAGE: Final = 0.5  # of the time that is left may go to building, and then to verifying
GRACE: Final = 0.2  # seconds that what was begun may take when time is up
PROCESSES: Final = 2  # that confirm
NOISE_SECONDS: Final = 20.0  # with more disturbed turns than others, after which nobody times until it is quiet
NOISE_TURNS: Final = 8  # that were disturbed at least
LOOK_SECONDS: Final = 1.0  # between looks at whether it is quiet
LOCK_SECONDS: Final = 0.01  # between looks at whether others have timed
SPARE: Final = 2.0  # times as fast as it was measured to be, no machine is
SEARCHING: Final = {"most": SEARCH_TURNS, "worth": LOST}
DECIDING: Final = {"most": MOST_TURNS, "worth": ADOPTED}

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


class Racer:
    """Races contenders for real. `sizes` are those of symbolic dims; cold buffers come from memory, not from caches.

    What could not be done until `until`, by `time.monotonic`, is "late"; races end so many seconds before it as are
    reserved for confirming.
    """

    def __init__(
        self, device: Device, sizes: Mapping[str, int] | None = None, seed: int = 0, is_cold: bool = True
    ) -> None:
        self.device, self.sizes, self.seed, self.is_cold = device, sizes, seed, is_cold
        self.planted: list[float] = []  # what times are multiplied by, for those who test races
        self.until, self.reserved = math.inf, 0.0
        self.say: Callable[[str], None] = _nobody
        self._sessions = 0
        self._session: Session | None = None  # of the region that is searched
        self._spares: list[Worker] = []  # that nobody has asked anything
        self._nursery: Nursery | None = None  # held, so that those to come are there at once
        self._turns: deque[tuple[float, int, int]] = deque()  # when a race ended, its turns that count, and the others

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all workers."""
        for one in (self._session, *self._spares):
            if one is not None:
                one.stop()
        self._session, self._spares, self._nursery = None, [], None

    def expect(self, region: Region) -> Session:
        """Have the worker make ready for a region; nobody waits for it."""
        self._nursery = self._nursery or nursery()
        if self._session is None or not self._session.is_for(region):
            worker = None if self._session is None else self._session.release()
            self._session = self._begun(region, worker or Worker(self.device), is_checked=True)
        return self._session

    def race(self, region: Region, contenders: Sequence[Contender], seconds: float) -> list[Outcome]:
        """What became of each contender. The first is the incumbent, the default."""
        found: dict[int, Outcome] = {}
        why, until = "the default is not right", self.until
        self.until -= self.reserved
        try:
            self._find_out(self.expect(region), region, contenders, seconds, found)
        except InternalError as error:  # the region has no reference, say
            why = str(error)
        finally:
            is_late, self.until = self._left() <= 0, until
        missing = ("late", "there was no time for it") if is_late else ("refused", why)
        return [found.get(at) or Outcome(one.digest, *missing, None, None) for at, one in enumerate(contenders)]

    def confirm(self, region: Region, best: Contender, default: Contender, seconds: float) -> Timed:
        """Both against each other in two fresh processes, which see other values; the worse of the two results."""
        found: dict[int, Outcome] = {}
        kernels = self._built([default, best], found)
        results: list[Timed] = []
        self._start_spares()
        self._wait_for_spares()
        until, self.until = self.until, max(self.until, min(time.monotonic(), self.until + 2 * GRACE) + seconds)
        while len(results) < PROCESSES and not found and all(map(is_adopted, results)):
            worker = self._spares.pop() if self._spares else Worker(self.device)
            session = self._begun(region, worker, is_checked=False)
            try:
                timed = self._raced(session, kernels, seconds / PROCESSES, DECIDING).get(1)
            finally:
                session.stop()
            results.append(timed if isinstance(timed, Timed) else NOTHING)
        self.until = until
        return worse(results[0], results[-1]) if results else NOTHING

    def _start_spares(self) -> None:
        self._spares += [Worker(self.device) for _ in range(PROCESSES - len(self._spares))]

    def _wait_for_spares(self) -> None:
        """Whoever starts would disturb a race."""
        waiting, self._spares = self._spares, []
        for worker in waiting:
            with contextlib.suppress(Lost, InternalError):
                worker.ready()
                self._spares.append(worker)

    def _left(self) -> float:
        return self.until - time.monotonic()

    def _begun(self, region: Region, worker: Worker, is_checked: bool) -> Session:
        self._sessions += 1
        sizes = usual_sizes(region) if self.sizes is None else self.sizes
        return Session(self.device, region, sizes, self.seed + self._sessions, is_checked, worker)

    def _find_out(
        self,
        session: Session,
        region: Region,
        contenders: Sequence[Contender],
        seconds: float,
        found: dict[int, Outcome],
    ) -> None:
        """Build, verify, race, and verify what was raced."""
        digests = [contender.digest for contender in contenders]
        kernels = self._built(contenders, found)
        right = self._verified(session, kernels, digests, found)
        times = self._raced(session, {at: kernels[at] for at in right}, seconds, SEARCHING) if right else {}
        timed: dict[int, Timed] = {}
        least, default = self._least_seconds(region, contenders[0]), times.get(0)
        for at, one in times.items():
            if isinstance(one, Lost):
                found[at] = Outcome(digests[at], one.state, one.reason, right[at], None)
            elif (
                one.seconds < least
                and isinstance(default, Timed)
                and default.seconds >= least
                and not _skips(contenders[at])
            ):
                found[at] = Outcome(digests[at], "wrong", "it is faster than the machine", right[at], None)
            elif one.turns:
                timed[at] = one
        if any(one.ratio >= ADOPTED for one in timed.values()):
            self._start_spares()
        for at in self._verified(session, {at: kernels[at] for at in timed}, digests, found, ("normal",)):
            found[at] = Outcome(digests[at], "timed", "", right[at], timed[at])

    def _built(self, contenders: Sequence[Contender], found: dict[int, Outcome]) -> dict[int, Kernel]:
        """What workers have to know of each contender; outcomes of those that cannot be built."""
        kernels: dict[int, Kernel] = {}
        limit = max(1.0, min(LIMIT, self._left() / 4))
        until = time.monotonic() + STAGE * self._left()
        libraries = built([contender.source for contender in contenders], self.device, limit, until)
        for at, (contender, library) in enumerate(zip(contenders, libraries, strict=True)):
            if library is None:
                found[at] = _late(contender.digest)
                continue
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
        """The verdicts of those that are right; outcomes of the others. What was raced is looked at once more, by these
        kinds of inputs, however late it is.
        """
        right: dict[int, Verdict] = {}
        until = math.inf if kinds else time.monotonic() + STAGE * self._left()
        for at, kernel in kernels.items() if 0 in kernels else ():
            digest = digests[at]
            if not kinds and digest in session.right:
                right[at] = session.right[digest]
                continue
            if at and time.monotonic() > until:
                found[at] = _late(digest)
                continue
            try:
                left = math.inf if kinds else self._left()
                session.ready(max(GRACE, min(START_SECONDS, left)))
                start = time.monotonic()
                limit = max(GRACE, min(session.limit, left))
                answer = session.ask(limit, "verify", kernel=kernel, default=kernels[0], kinds=list(kinds))
            except Lost as lost:
                is_late = lost.state == "hung" and self._left() <= 0 and not kinds
                found[at] = _late(digest) if is_late else Outcome(digest, lost.state, lost.reason, None, None)
            else:
                verdict = Verdict(*answer)
                if verdict.right:
                    right[at] = session.right[digest] = session.right.get(digest, verdict)
                else:
                    session.right.pop(digest, None)
                    found[at] = Outcome(digest, "wrong", verdict.reason, verdict, None)
            if 0 not in right:
                break
            if at == 0 and not kinds:
                session.limit = VERIFY_SECONDS + PATIENCE * (time.monotonic() - start)
        return right

    def _raced(
        self, session: Session, kernels: Mapping[int, Kernel], seconds: float, rules: Mapping[str, Any]
    ) -> dict[int, Timed | Lost]:
        """Race kernels, the default among them. Who makes the worker crash or hang is found by halving."""
        self._pause(session)
        seconds = min(seconds, self._left())
        if seconds <= 0:
            return {}
        others = [at for at in kernels if at != 0]
        numbers = [0, *others]
        arguments = {
            "kernels": [kernels[at] for at in numbers],
            "mark": self._mark,
            "planted": [self.planted[at] for at in numbers] if self.planted else [],
            "rules": dict(rules),
        }
        limit = seconds + RACE_SECONDS + session.limit
        try:
            self._wait_for_spares()
            session.ready(START_SECONDS)
            with timing_turn(self.until):
                found = session.ask(limit, "race", seconds=seconds, is_cold=self.is_cold, **arguments)
            self._turns.append((time.monotonic(), found["counted"], found["thrown"]))
            return {at: Timed(*timed) for at, timed in zip(numbers, found["timed"], strict=True)}
        except TimeoutError:  # others time all the while
            return {}
        except Lost as lost:
            lost.__traceback__ = None  # it would keep all this alive, and the workers
            if not others:
                return {0: lost}
            if len(others) == 1:
                return {others[0]: lost} | self._raced(session, {0: kernels[0]}, seconds, rules)
        half, both = len(others) // 2, dict[int, Timed | Lost]()
        for part in (others[:half], others[half:]):
            both |= self._raced(session, {at: kernels[at] for at in (0, *part)}, seconds / 2, rules)
        return both

    def _pause(self, session: Session) -> None:
        """Wait until the machine is quiet, where most of what was timed lately was disturbed."""
        while self._turns and self._turns[0][0] < time.monotonic() - NOISE_SECONDS:
            self._turns.popleft()
        counted, thrown = (sum(turns[k] for turns in self._turns) for k in (1, 2))
        if thrown < max(NOISE_TURNS, counted):
            return
        self.say(
            f"The machine is busy: {thrown} of {counted + thrown} turns were disturbed. Waiting until it is quiet."
        )
        self._turns.clear()
        with contextlib.suppress(Lost, TimeoutError):
            while self._left() > 0 and not self._is_quiet(session):
                time.sleep(min(LOOK_SECONDS, max(0.0, self._left())))

    def _is_quiet(self, session: Session) -> bool:
        with timing_turn(self.until):
            return bool(session.ask(START_SECONDS, "quiet", mark=self._mark))

    def _least_seconds(self, region: Region, default: Contender) -> float:
        """What the operations of a region, or its bytes if no cache holds them, take at the rates that were measured
        here: nothing right is faster, so what seems to be has cheated the clock. 0 where nobody has measured, and for
        sizes that are not known: work is counted at the largest ones, races are run at others.
        """
        profile, work = self.device.profile, default.choice.work
        known = rates.stored(profile)
        if known is None or self.planted or region.parameters:
            return 0.0
        narrowest = min(e.dtype.itemsize for e in region.order())
        peak = max(known.multiply_add, known.words) * profile.cores * max(1, 4 // narrowest)
        moved = work.bytes if self.is_cold and work.bytes > profile.l3_bytes else 0
        memory = max(known.memory, known.memory_all, known.copy, known.copy_all)
        return 1e-9 / SPARE * max(work.flops / peak, moved / memory)

    @cached_property
    def _mark(self) -> Kernel:
        mark = Contender.default(parse_region(MARK), self.device)
        (library,) = built([mark.source], self.device)
        if library is None or isinstance(library, str):
            raise InternalError(library or "the mark could not be built")
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
        "skips": _skips(contender),
    }


def _nobody(text: str) -> None:
    """Tells nobody."""


def _skips(contender: Contender) -> bool:
    """Whether it leaves out what would be multiplied by zero."""
    return any(isinstance(action, Skip) for action in contender.choice.actions)


def _late(digest: str) -> Outcome:
    return Outcome(digest, "late", "there was no time for it", None, None)


@contextlib.contextmanager
def timing_turn(until: float = math.inf) -> Iterator[None]:
    """Only one process of the machine times at a time: others wait for their turn, at most until some moment by
    `time.monotonic`, when they get a `TimeoutError`.
    """
    path = Path(tempfile.gettempdir()) / "smelt-timing.lock"
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)  # another user's file may be locked, but not made
    except FileNotFoundError:
        descriptor = os.open(path, flags | os.O_CREAT, 0o644)
    try:
        _lock(descriptor, until)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, until: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise TimeoutError from None
        time.sleep(LOCK_SECONDS)

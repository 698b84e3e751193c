"""The processes that run contenders. Whatever these do to a process, nobody else is hurt.

`python -m smelt.search.worker CHANNEL PARENT` imports all that workers need, runs nothing, and makes workers as copies
of itself: a fresh one is there at once. It is told through a socket, whose number it is given with its parent's.

Jobs come as lines of JSON and are answered by lines of JSON. Libraries are named by the keys under which the cache on
disk keeps them; nothing is compiled here, and no code comes through the pipe.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import random
import resource
import select
import signal
import socket
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smelt.config import change
from smelt.device import ALIGNMENT, HOST, Device, Launch, Library, Listing, machine_bytes, open_device
from smelt.kernel import parse_region
from smelt.search.inputs import KINDS, inputs, length
from smelt.search.race import INCUMBENT, MARK, SLOW, Marks, race
from smelt.search.verify import Runnable, Trial

SETTINGS = ("cache_dir", "disk_cache", "threads", "compiler", "without_features")  # that a worker takes over
SHORTEST = 30e-6  # seconds that are timed at a time: shorter kernels run several times
MOST_REPEATS = 64
LOOKS, MARKS = 8, 16  # how often it is looked whether the machine is quiet, and the marks of a look
MOST_BYTES = 1 << 30  # of all sets of buffers
NUMBER_BYTES = 8
PARENT_SECONDS = 1.0  # until it is seen that the parent was killed, if its channel is still open in copies of it
_BYTE = np.dtype(np.uint8)
_APART = 4096 + 3 * ALIGNMENT  # between sets: each begins at another place of its page
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_CPU_SECONDS = 3600
_LEAST_SPACE = 8 << 30


class Sets:
    """Copies of a region's buffers, more than the caches hold where they are to be cold: runs take turns with them."""

    def __init__(self, trial: Trial, nbytes: int) -> None:
        arrays = inputs(trial.region, trial.sizes, "normal", trial.seed)
        self.trial, self.offsets, size = trial, list[int](), 0
        self.is_changed = any(output.buffer.name in arrays for output in trial.region.outputs)
        for buffer in trial.region.buffers():
            self.offsets.append(size)
            size += -(-length(buffer, trial.sizes) * buffer.dtype.itemsize // ALIGNMENT) * ALIGNMENT
        self.step = -(-size // 4096) * 4096 + _APART
        self.count = max(1, -(-min(nbytes, MOST_BYTES) // self.step))
        self.memory = trial.device.allocate(self.count * self.step)
        whole = self.memory.view(_BYTE, (self.count, self.step), writeable=True)
        whole[0] = 0
        for buffer, offset in zip(trial.region.buffers(), self.offsets, strict=True):
            if buffer.name in arrays:
                data = arrays[buffer.name].view(_BYTE)
                whole[0, offset : offset + data.size] = data
        whole[1:] = whole[0]
        self.next = 0

    def take(self) -> list[int]:
        """Where the buffers of the next set lie."""
        self.next = (self.next + 1) % self.count
        return [self.next * self.step + offset for offset in self.offsets]


class Stopwatch:
    """Times lists of contenders: each list is one native call, which says how long each launch took."""

    def __init__(self, trial: Trial, kernels: Sequence[Runnable], sets: Sets, mark: Runnable, mark_sets: Sets) -> None:
        self.device, self.integers, self.parameters = trial.device, trial.integers, len(trial.region.parameters)
        self.kernels = [*kernels, mark]  # so that `MARK` is the last
        self.libraries = [kernel.library for kernel in self.kernels]
        self.sets, self.mark_sets = sets, mark_sets
        self.scratch = max(kernel.workspace for kernel in self.kernels)
        self.repeats = 1
        once = self([INCUMBENT, INCUMBENT, INCUMBENT])
        self.repeats = max(1, min(MOST_REPEATS, round(SHORTEST / max(1e-9, min(once)))))

    def __call__(self, order: Sequence[int]) -> list[float]:
        """Seconds of each run, in this order."""
        slots: dict[tuple[int, int], int] = {}
        steps: list[Launch] = []
        for number in order:
            base, sets, parameters = (2, self.mark_sets, 0) if number == MARK else (1, self.sets, self.parameters)
            for _ in range(self._times(number)):
                taken = [slots.setdefault((base, offset), len(slots)) for offset in sets.take()]
                steps.append(self.kernels[number].launch(number % len(self.kernels), taken, parameters))
        program = self.device.load(Listing(steps, list(slots), self.scratch), self.libraries)
        program.is_timed = True
        arena = self.device.allocate(max(1, program.arena_bytes))
        program.run(arena.pointer + self.sets.memory.pointer + self.mark_sets.memory.pointer, self.integers)
        seconds = iter(program.launch_seconds() or ())
        return [sum(itertools.islice(seconds, self._times(number))) / self._times(number) for number in order]

    def _times(self, number: int) -> int:
        return 1 if number == MARK else self.repeats


class Jobs:
    """What a worker can do, by name. It remembers the region that it was last told about."""

    def __init__(self) -> None:
        self.device: Device = open_device(HOST, HOST)
        self.libraries: dict[str, Library] = {}  # kept: one that is loaded anew has forgotten what it did before
        self.marks = Marks()
        self.sets: Sets | None = None
        self.mark_sets: Sets | None = None

    def begin(self, settings: dict[str, Any], device: str) -> None:
        change(**(settings | {"without_features": tuple(settings["without_features"])}))
        self.device = open_device(device, device)

    def region(self, text: str, sizes: Mapping[str, int], seed: int, is_checked: bool) -> None:
        """Make inputs for a region, and what is expected of them if kernels are to be verified."""
        self.libraries.clear()
        self.sets = None
        self.trial = Trial(parse_region(text), sizes, seed, self.device)
        if is_checked:
            self.trial.prepare()

    def verify(self, kernel: dict[str, Any], default: dict[str, Any], kinds: Sequence[str]) -> tuple[bool, str, str]:
        """Whether a kernel is right, and how its bits differ from the default's."""
        return self.trial.verify(self._found(kernel), self._found(default), kinds or KINDS)

    def race(
        self,
        kernels: list[dict[str, Any]],
        mark: dict[str, Any],
        seconds: float,
        is_cold: bool,
        planted: list[float],
        rules: dict[str, Any],
    ) -> dict[str, Any]:
        """Race kernels, the incumbent first. What the clock says is multiplied by `planted`, for those who test it."""
        marked, mark_sets = self._marked(mark)
        runnables = [self._found(kernel) for kernel in kernels]
        watch = Stopwatch(self.trial, runnables, self._sets(is_cold), marked, mark_sets)
        factors = [*(planted or [1.0] * len(kernels)), 1.0]  # the last is the mark's

        def clock(order: Sequence[int]) -> list[float]:
            return [factors[number] * taken for number, taken in zip(order, watch(order), strict=True)]

        for number in range(len(kernels)):
            watch([number])
        rng, marks = random.Random(self.trial.seed), self.marks
        timed = race(clock, len(kernels), seconds, time.perf_counter, rng, marks, **rules)
        return {"timed": timed, "counted": marks.counted, "thrown": marks.thrown}

    def quiet(self, mark: dict[str, Any]) -> bool:
        """Whether the mark takes no longer than usual at the moment."""
        marked, mark_sets = self._marked(mark)
        watch = Stopwatch(mark_sets.trial, [marked], mark_sets, marked, mark_sets)
        return all(statistics.median(watch([MARK] * MARKS)) <= SLOW * self.marks.usual for _ in range(LOOKS))

    def _sets(self, is_cold: bool) -> Sets:
        """Buffers of the region, kept for the next race unless kernels change what they read."""
        nbytes = 2 * self.device.profile.l3_bytes if is_cold else 0
        sets = self.sets or Sets(self.trial, nbytes)
        self.sets = None if sets.is_changed else sets
        return sets

    def _marked(self, mark: dict[str, Any]) -> tuple[Runnable, Sets]:
        """The mark, and its buffers."""
        text = mark.pop("region")
        self.mark_sets = self.mark_sets or Sets(Trial(parse_region(text), {}, 0, self.device), 0)
        return self._found(mark), self.mark_sets

    def _found(self, kernel: dict[str, Any]) -> Runnable:
        key = kernel["key"]
        if key not in self.libraries:
            found = self.device.stored([key])
            if found is None:
                raise LookupError("the cache on disk does not hold what was built")
            self.libraries[key] = found[0]
        return Runnable(self.libraries[key], **{name: value for name, value in kernel.items() if name != "key"})


def limit() -> None:
    """No more memory and time than can be spared, no core dumps, and no life after the parent's."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    space = max(_LEAST_SPACE, machine_bytes() * 3 // 4)
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    end_with_parent()


def end_with_parent() -> None:
    """Whoever started this process may be killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def work(asked: int, answers: int) -> None:
    """Do what each line of a pipe asks for, until there are no more."""
    limit()
    jobs = Jobs()
    with os.fdopen(asked, encoding="utf-8") as lines, os.fdopen(answers, "w", encoding="utf-8") as answered:
        for line in lines:
            job = json.loads(line)
            try:
                answer: dict[str, Any] = {"answer": getattr(jobs, job.pop("job"))(**job)}
            except Exception as error:  # said to whoever asked
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=answered, flush=True)


class Nursery:
    """Starts workers and ends them, as it is told: a number with two pipes is a new one, a number alone is to end. How
    one ended is the last line that its pipe says.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._alive: dict[int, tuple[int, int]] = {}  # by the number of the process, who it is and where it answers
        # A handler would run in the middle of anything, and to block the signal keeps it from one thread only, while
        # libraries have others. So whoever ends only wakes us.
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self, parent: int) -> None:
        """Until nobody can ask any more: `end_with_parent` would end it with the thread that started it."""
        while os.getppid() == parent:
            ready = select.select([self._channel.fileno(), self._woken], [], [], PARENT_SECONDS)[0]
            if self._woken in ready:
                os.read(self._woken, 1 << 16)
                self._reap()
            if self._channel.fileno() not in ready:
                continue
            said, pipes, _, _ = socket.recv_fds(self._channel, NUMBER_BYTES, 2)
            number = int.from_bytes(said, "little")
            if not said:
                return
            if pipes:
                self._start(number, *pipes)
                continue
            for process, (known, _) in self._alive.items():
                if known == number:
                    os.kill(process, signal.SIGKILL)  # it is ours until it is reaped: its number is no other's

    def _start(self, number: int, asked: int, answers: int) -> None:
        process = os.fork()
        if not process:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._channel.close()
            for other in (self._woken, self._wake, *(other for _, other in self._alive.values())):
                os.close(other)
            try:
                work(asked, answers)
            finally:
                os._exit(0)
        self._alive[process] = number, answers
        os.close(asked)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                answers = self._alive.pop(ended[0])[1]
                with contextlib.suppress(OSError), os.fdopen(answers, "w", encoding="utf-8") as pipe:
                    print(json.dumps({"ended": os.waitstatus_to_exitcode(ended[1])}), file=pipe, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    Nursery(socket.socket(fileno=int(sys.argv[1]))).serve(int(sys.argv[2]))

"""Programs that smelt starts: each within a time limit, and stopped with everything that it started itself."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Final, Literal

_LOOK: Final = 0.001  # seconds between looks at whether a program has ended


class Child:
    """A running program, in a session of its own. What it says on one of its streams is read."""

    def __init__(
        self, command: Sequence[str], limit: float, stream: Literal["stdout", "stderr"], variables: Mapping[str, str]
    ) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if stream == "stdout" else subprocess.DEVNULL,
            stderr=subprocess.PIPE if stream == "stderr" else subprocess.DEVNULL,
            env=os.environ | variables | {"LC_ALL": "C"},
            start_new_session=True,
        )
        pipe = self._process.stdout or self._process.stderr
        assert pipe is not None
        self._pipe, self._said, self._is_closed = pipe, b"", False
        os.set_blocking(pipe.fileno(), False)
        self._deadline = time.monotonic() + limit

    @property
    def has_ended(self) -> bool:
        """Whether it is over: its own end counts, children that live on are not waited for."""
        has_ended = self._process.poll() is not None
        self._read()  # or it would wait for us
        return has_ended

    @property
    def is_due(self) -> bool:
        """Whether it has ended, or should have."""
        return self.has_ended or time.monotonic() >= self._deadline

    def finish(self) -> tuple[int, bytes]:
        """Wait for the end: the exit status, and what was said. `TimeoutError` if that takes too long."""
        wait_for_one([self])
        if not self.has_ended:
            raise TimeoutError
        return self._process.returncode, self._said

    def stop(self) -> None:
        """Kill what still runs, the children that it may have left behind included."""
        if not self.has_ended or not self._is_closed:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._pipe.close()

    def _read(self) -> None:
        """Take what has been said so far."""
        with contextlib.suppress(BlockingIOError):
            while not self._is_closed and not self._pipe.closed:
                part = os.read(self._pipe.fileno(), 1 << 16)
                self._said += part
                self._is_closed = not part


def wait_for_one(children: Sequence[Child]) -> None:
    """Return when one of them has ended, or should have."""
    while not any(child.is_due for child in children):
        time.sleep(_LOOK)

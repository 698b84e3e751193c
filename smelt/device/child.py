"""Programs that smelt starts: each within a time limit, and stopped with everything that it started itself."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Final, Literal

_LOOK: Final = 0.05  # seconds between looks at whether a program has ended whose children keep its pipe open


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

    def fileno(self) -> int:
        """The descriptor on which it speaks."""
        return self._pipe.fileno()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def finish(self) -> tuple[int, bytes]:
        """Wait for the end: the exit status, and what was said. `TimeoutError` if that takes too long.

        Its own end counts: children that live on, and hold its pipe, are not waited for.
        """
        while not self.has_ended and not self._is_closed:
            if not self.seconds_left:
                raise TimeoutError
            first_to_speak([self])
            self._read()
        try:
            # One that has ended was in time, however late we come to look.
            status = self._process.wait(None if self.has_ended else self.seconds_left)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        self._read()
        return status, self._said

    def stop(self) -> None:
        """Kill what still runs, the children that it may have left behind included."""
        self._read()
        if not self.has_ended or not self._is_closed:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._pipe.close()

    def _read(self) -> None:
        """Take what has been said so far."""
        while not self._is_closed and not self._pipe.closed:
            try:
                part = os.read(self.fileno(), 1 << 16)
            except BlockingIOError:
                return
            self._said += part
            self._is_closed = not part


def first_to_speak(children: Sequence[Child]) -> Child:
    """The one that ends or says something first; at the deadline of one of them, that one."""
    with selectors.DefaultSelector() as selector:
        for child in children:
            selector.register(child, selectors.EVENT_READ)
        while True:
            ready = selector.select(min(_LOOK, *(child.seconds_left for child in children)))
            if ready:
                return ready[0][0].fileobj  # type: ignore[return-value]
            for child in children:
                if child.has_ended or not child.seconds_left:
                    return child

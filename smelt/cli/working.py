"""Long work that is told on stderr: a line that moves on a terminal, and one every few seconds where there is none."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, Final, Self

_TERMINAL_EVERY: Final = 0.5  # seconds
_EVERY: Final = 5.0


class Working:
    """What is done at present, how far it is, and for how long: `with Working("loading x") as at: at.report(1, 2)`.

    Work that is over before the first line would be due is not mentioned.
    """

    def __init__(self, label: str, *, quiet: bool = False, every: float | None = None) -> None:
        self._terminal = sys.stderr.isatty()
        self._every = every or (_TERMINAL_EVERY if self._terminal else _EVERY)
        self._label, self._quiet = label, quiet
        self._far = ""
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        if not self._quiet and self._thread is None:
            self._thread = threading.Thread(target=self._tell, name="smelt-working", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def report(self, done: int, total: int) -> None:
        """That so much is done of so much."""
        self._far = f" {done / total:.0%}" if total else ""

    def say(self, label: str) -> None:
        """What is done from now on."""
        self._label, self._far = label, ""

    def close(self) -> None:
        """The work is over: from now on nothing is written."""
        self._over.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def _tell(self) -> None:
        told = False
        while not self._over.wait(self._every):
            line = f"smelt: {self._label}{self._far}, {time.monotonic() - self._began:.0f} s"
            told = True
            self._write(f"\r\033[K{line}" if self._terminal else f"{line}\n")
        if told and self._terminal:
            self._write("\r\033[K")

    def _write(self, text: str) -> None:
        stream: Any = sys.stderr
        try:
            stream.write(text)
            stream.flush()
        except (OSError, ValueError):  # nobody listens
            self._over.set()

"""A line on the terminal while compiling takes long: how many kernels there are, and how far they have come."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final, Self, TextIO

from smelt.config import settings

PATIENCE: Final = 2.0  # seconds before anything is said
_INTERVAL: Final = 0.1  # seconds between two texts
_PLANNED: Final = 0.3  # the share of the work that choosing and writing kernels has; the C compiler has the rest


class Progress:
    """The line, which is gone when the block ends. Without a terminal there is none."""

    def __init__(self, launches: int, stream: TextIO | None = None) -> None:
        self._launches, self._made = max(1, launches), 0
        self._stream = sys.stderr if stream is None else stream
        is_terminal = self._stream is not None and self._stream.isatty() and not settings().debug
        self._next = time.monotonic() + PATIENCE if is_terminal else float("inf")
        self._share, self._width = 0.0, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._width:
            self._write("")

    def launch(self) -> None:
        """One more launch has its kernel."""
        self._made += 1

    def tell(self, kernels: int, sources: int, waiting: int) -> None:
        """Show how far it is: so many kernels are known, in so many sources, of which some wait to be compiled."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _INTERVAL
        made = min(1.0, self._made / self._launches)
        compiled = 1 - min(waiting, sources) / sources if sources else 0.0
        self._share = max(self._share, made * (_PLANNED + (1 - _PLANNED) * compiled))
        self._write(f"smelt: compiling {kernels} kernels … {self._share:.0%}".replace("%", " %"))

    def _write(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._width) + ("" if text else "\r"))
        self._stream.flush()
        self._width = len(text)

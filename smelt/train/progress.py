"""A progress bar on stderr: rate, time left, and the latest metrics. Nothing is written where there is no terminal."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from types import TracebackType
from typing import Any, Final, Generic, Self, TextIO, TypeVar

from smelt.errors import ArgumentError

T = TypeVar("T")

_EVERY: Final = 0.1  # seconds between two pictures
_BLOCKS: Final = " ▏▎▍▌▋▊▉█"
_SHORTEST, _LONGEST = 8, 30  # characters of the bar itself


class Progress(Generic[T]):
    """A bar for a loop, or one that is moved by hand.

    Metrics may be tensors. They are read only when the bar is drawn, at most ten times a second, so that most steps
    need not wait for their numbers.

    >>> import smelt as sm
    >>> with sm.train.Progress(total=3, label="training") as bar:
    ...     for step in range(3):
    ...         bar.advance(loss=1 / (step + 1))
    """

    def __init__(
        self,
        iterable: Iterable[T] | None = None,
        total: int | None = None,
        label: str = "",
        *,
        start: int = 0,
        stream: TextIO | None = None,
        enabled: bool | None = None,
    ) -> None:
        if total is None and isinstance(iterable, Sized):
            total = len(iterable)
        if total is not None and total < 0:
            raise ArgumentError(f"Progress: the total is {total}", rule="it must not be negative.")
        self.iterable, self.total, self.label = iterable, total, label
        self.stream = sys.stderr if stream is None else stream
        self.enabled = _is_terminal(self.stream) if enabled is None else enabled
        self.done = self.start = start
        self.metrics: dict[str, Any] = {}
        self._began = self._drawn = time.monotonic()
        self._closed = not self.enabled

    def advance(self, steps: int = 1, **metrics: Any) -> None:
        """Count steps as done, and take new metrics."""
        self.done += steps
        self.show(**metrics)
        if self.enabled and time.monotonic() - self._drawn >= _EVERY:
            self._draw()

    def show(self, **metrics: Any) -> None:
        """Take new metrics for the next picture."""
        if self.enabled:
            self.metrics.update(metrics)

    def close(self) -> None:
        """Draw the bar a last time, and leave its line."""
        if not self._closed:
            self._closed = True
            self._draw()
            self.stream.write("\n")
            self.stream.flush()

    def __repr__(self) -> str:
        total = "" if self.total is None else f" of {self.total}"
        return f"Progress({self.label!r}, {self.done}{total})"

    def __iter__(self) -> Iterator[T]:
        if self.iterable is None:
            raise ArgumentError("Progress: there is nothing to go through", hint="Give it an iterable, or use advance.")
        self._began = time.monotonic()
        with self:
            for item in self.iterable:
                yield item
                self.advance()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: Any, traceback: TracebackType | None) -> None:
        self.close()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        width = shutil.get_terminal_size().columns - 1
        self.stream.write("\r" + self.line(self._drawn - self._began, width)[:width].ljust(width))
        self.stream.flush()

    def line(self, seconds: float, width: int = 120) -> str:
        """The bar after so many seconds; it gets shorter where the rest would not fit into the width."""
        here = self.done - self.start  # what was done before is no measure of the speed
        rate = here / seconds if seconds > 0 else 0.0
        before = [self.label] if self.label else []
        parts = [f"{self.done}/{self.total}" if self.total else str(self.done)]
        times = _clock(seconds)
        if self.total and rate > 0:
            times += f" < {_clock(max(self.total - self.done, 0) / rate)}"
        parts += [f"{_rate(rate)}", f"[{times}]"]
        parts += [f"{name} {_number(value)}" for name, value in self.metrics.items()]
        if self.total:
            share = min(self.done / self.total, 1.0)
            before.append(f"{share:4.0%}")
            room = width - len("  ".join([*before, "||", *parts]))
            before.append(f"|{_bar(share, max(_SHORTEST, min(_LONGEST, room)))}|")
        return "  ".join([*before, *parts])


def progress(iterable: Iterable[T], total: int | None = None, label: str = "") -> Progress[T]:
    """Go through an iterable with a bar on stderr.

    >>> import smelt as sm
    >>> sum(sm.train.progress(range(10), label="adding"))
    45
    """
    return Progress(iterable, total, label)


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # none, or closed
        return False


def _bar(share: float, length: int) -> str:
    full, rest = divmod(round(share * length * 8), 8)
    return ("█" * full + (_BLOCKS[rest] if rest else "")).ljust(length)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def _rate(rate: float) -> str:
    return f"{rate:.0f}/s" if rate >= 100 else f"{rate:.1f}/s" if rate >= 1 or rate == 0 else f"{1 / rate:.1f} s each"


def _number(value: Any) -> str:
    if isinstance(value, str | int):
        return str(value)
    try:
        return f"{float(value):.4g}"
    except (TypeError, ValueError):
        return str(value)

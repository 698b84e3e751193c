"""How far tuning is: one line that is written anew on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, TextIO

Say = Callable[[str], None]
_BLOCKS: Final = 10  # of the bar
_LEAST_ROOM: Final = 8  # characters of what is done
_ERASE: Final = "\r\x1b[K"


class Progress:
    """Tells about a tuning as it goes on. `say` takes lines; on a terminal, the last one shows how far it is."""

    def __init__(self, say: Say, terminal: TextIO | None = None) -> None:
        self._say, self._terminal = say, terminal
        self._began, self._seconds, self._best = time.monotonic(), 1.0, 1.0
        self._doing, self._counts = "", Counter[str]()

    @classmethod
    def on(cls, stream: TextIO | None) -> Progress:
        """On a stream, which may be a terminal; a process without one tells nobody."""
        if stream is None:
            return cls(lambda _: None)
        return cls(lambda text: print(text, file=stream), stream if stream.isatty() else None)

    def begin(self, began: float, seconds: float) -> None:
        """From some moment on, by `time.monotonic`, all of it may take so many seconds."""
        self._began, self._seconds = began, seconds

    def doing(self, what: str) -> None:
        """Something else is done from now on."""
        self._doing, self._best = what, 1.0
        if self._terminal is None:
            self._say(what)
        else:
            self._draw()

    def found(self, counts: Counter[str], best: float) -> None:
        """So many contenders were timed, wrong or refused in all, and the best of what is done is so fast."""
        self._counts, self._best = counts, best
        if self._terminal is not None:
            self._draw()

    def say(self, text: str) -> None:
        """Tell something in a line of its own."""
        self.end()
        self._say(text)

    def end(self) -> None:
        """Take the line away that shows how far it is."""
        if self._terminal is not None:
            print(_ERASE, end="", file=self._terminal, flush=True)

    def line(self, width: int = 200) -> str:
        """How far it is, in one line: names are cut where it would be too long."""
        gone = time.monotonic() - self._began
        share = max(0.0, min(1.0, gone / self._seconds))
        full = round(_BLOCKS * share)
        bar = "■" * full + "□" * (_BLOCKS - full)
        counts = self._counts
        built = sum(counts.values()) - counts["refused"]
        told = f"{built} built  {counts['refused']} refused  {counts['wrong']} wrong  best {self._best:.2f}×"
        head = f"[{bar}] {share:>4.0%}  {_clock(gone)} of {_clock(self._seconds)}"
        room = max(_LEAST_ROOM, width - len(head) - len(told) - 4)
        doing = self._doing if len(self._doing) <= room else self._doing[: room - 1] + "…"
        return f"{head}  {doing}  {told}"[:width]

    def _draw(self) -> None:
        line = self.line(shutil.get_terminal_size().columns - 1)
        print(_ERASE + line, end="", file=self._terminal, flush=True)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"

"""What is told while tuning goes on."""

from __future__ import annotations

import io
import time
from collections import Counter

from smelt.tuning import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_one_line_that_is_written_anew() -> None:
    terminal = Terminal()
    progress = Progress.on(terminal)
    progress.begin(time.monotonic(), 1e6)
    progress.doing("3 of 8: softmax")
    progress.found(Counter(timed=27, refused=4), 1.084)
    progress.say("The machine is busy.")
    progress.end()
    drawn = terminal.getvalue()
    assert drawn.count("\n") == 1 and "\r\x1b[KThe machine is busy.\n" in drawn and drawn.endswith("\r\x1b[K")
    assert "[□□□□□□□□□□]   0%  0:00 of 16666:40  3 of 8:" in drawn
    assert progress.line().endswith("  3 of 8: softmax  27 built  4 refused  0 wrong  best 1.08×")
    assert progress.line(88).endswith("  3 of 8: …  27 built  4 refused  0 wrong  best 1.08×")


def test_others_get_plain_lines() -> None:
    stream = io.StringIO()
    progress = Progress.on(stream)
    progress.doing("1 of 2: softmax")
    progress.found(Counter(timed=3), 1.0)
    progress.end()
    assert stream.getvalue() == "1 of 2: softmax\n"


def test_a_process_without_a_stream_tells_nobody() -> None:
    progress = Progress.on(None)
    progress.doing("1 of 2: softmax")
    progress.say("The machine is busy.")
    progress.end()

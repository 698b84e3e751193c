"""Long work is told: on a terminal by a line that moves, elsewhere by a line now and then."""

from __future__ import annotations

import io
import threading

import pytest

from smelt.cli.working import Working


class Watched(io.StringIO):
    """A stream that says when so many lines have come."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal, self.lines = terminal, threading.Semaphore(0)

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        self.lines.release()
        return super().write(text)


def told(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> str:
    stream = Watched(terminal)
    monkeypatch.setattr("sys.stderr", stream)
    with Working("loading x", every=0.001) as at:
        assert stream.lines.acquire(timeout=10)
        at.report(1, 4)
        for _ in range(2):
            assert stream.lines.acquire(timeout=10)
        at.say("compiling")
        for _ in range(2):
            assert stream.lines.acquire(timeout=10)
    over = stream.getvalue()
    at.close()
    assert stream.getvalue() == over
    return over


def test_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = told(monkeypatch, False).splitlines()
    assert lines[0] == "smelt: loading x, 0 s"
    assert "smelt: loading x 25%, 0 s" in lines
    assert lines[-1] == "smelt: compiling, 0 s"


def test_a_line_that_moves_on_a_terminal_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    said = told(monkeypatch, True)
    assert "\n" not in said
    assert said.endswith("\r\033[K")


def test_short_work_and_quiet_work_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Watched(False)
    monkeypatch.setattr("sys.stderr", stream)
    with Working("short"):
        pass
    with Working("quiet", every=0.001, quiet=True):
        assert not stream.lines.acquire(timeout=0.05)
    assert stream.getvalue() == ""

"""The line that says how far compiling is, if it takes long and somebody looks."""

from __future__ import annotations

import io
from itertools import count

import pytest

import smelt as sm
from smelt.compiler import progress
from smelt.config import configure

_sizes = count(101)  # of graphs that nobody has compiled before


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def compile_something() -> None:
    x = sm.ones((7, next(_sizes)))
    with configure(disk_cache=False):
        sm.jit(lambda x: [(x @ x.T).softmax(-1), x.sort(axis=1), x.cumsum(0)])(x)


def test_a_terminal_shows_how_far_it_is_and_the_line_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_INTERVAL", 0.0)
    compile_something()
    texts = terminal.getvalue().split("\r")
    assert any(text.startswith("smelt: compiling ") and text.rstrip().endswith(" %") for text in texts)
    assert texts[-1] == "" and not texts[-2].strip()
    assert "\n" not in terminal.getvalue()


def test_nothing_is_said_within_two_seconds_or_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, patience in ((Terminal(), 3600.0), (io.StringIO(), 0.0)):
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setattr(progress, "PATIENCE", patience)
        compile_something()
        assert stream.getvalue() == ""


def test_the_share_never_falls_and_ends_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_INTERVAL", 0.0)
    terminal = Terminal()
    with progress.Progress(4, terminal) as line:
        line.tell(0, 0, 0)
        for made, (sources, waiting) in enumerate([(1, 1), (1, 0), (2, 1), (3, 3)], 1):
            line.launch()
            line.tell(made, sources, waiting)
        for waiting in (2, 1, 0):
            line.tell(4, 3, waiting)
    shares = [int(text.split("…")[1].strip(" %")) for text in terminal.getvalue().split("\r") if "…" in text]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 100

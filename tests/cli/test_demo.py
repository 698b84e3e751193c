"""The demonstration runs, and shows what it promises."""

from __future__ import annotations

import re

import pytest

from smelt import cli
from smelt.cli import demo


def test_the_demo_trains_and_shows_what_was_fused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo"]) == 0
    captured = capsys.readouterr()
    text = captured.out
    assert captured.err == ""  # no terminal, no bar
    accuracy = re.search(r"test accuracy: ([\d.]+)%", text)
    assert accuracy is not None
    assert float(accuracy[1]) >= 97
    assert "6 of 6 parameters" in text
    assert text.count("gradient, update") == 6
    assert re.search(
        r"first step, with compiling: [\d.]+ s; the 659 steps after it, with feeding: \d+ per second", text
    )
    assert len(text.splitlines()) <= 60
    assert max(len(line) for line in text.splitlines()) <= 120


def test_a_network_that_learned_nothing_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = demo.train(1)._replace(model=demo.Net(256))
    monkeypatch.setattr(demo, "train", lambda: trained)
    assert demo.main() == 1
    assert "test accuracy" in capsys.readouterr().out


def test_what_is_free_is_left_out_and_ops_are_counted() -> None:
    assert demo.fused(("exp", "mul", "reshape", "expand", "mul", "mul", "exp")) == "exp×2 mul×3"
    assert demo.fused(()) == ""
    assert demo.fused(("exp", "mul", "add", "sub"), 12) == "exp mul …"

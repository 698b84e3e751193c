"""The demonstration runs, and shows what it promises."""

from __future__ import annotations

import numpy as np
import pytest

from smelt import cli
from smelt.cli import demo
from smelt.errors import InternalError


def test_the_demo_shows_kernels_memory_and_times(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo"]) == 0
    captured = capsys.readouterr()
    text = captured.out
    assert captured.err == ""
    for program in demo.programs():
        assert program.title in text
    assert "contract" in text
    assert text.count("fused, in order") == text.count("peak, with results") == text.count("equal to NumPy") == 2
    assert len(text.splitlines()) <= 50
    assert max(len(line) for line in text.splitlines()) <= 120


def test_a_wrong_result_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "block_numpy", lambda x, w, b: np.zeros((512, 512), np.float32))
    with pytest.raises(InternalError, match="wrong"):
        demo.main()


def test_what_is_free_is_left_out_and_the_same_op_is_counted() -> None:
    assert demo.fused(("exp", "mul", "reshape", "expand", "mul", "mul", "exp")) == ["exp", "mul×3", "exp"]
    assert demo.fused(()) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<binary 'max' float32[256, 512]>", "max float32[256, 512]"),
        ("<contract Contraction(left=(0, 1), out=(0, 2)) float32[7, 10]>", "contract float32[7, 10]"),
        ("<reduce float32[]>", "reduce float32[]"),
        ("something else", "something else"),
    ],
)
def test_intermediates_have_short_names(text: str, expected: str) -> None:
    assert demo.short(text) == expected

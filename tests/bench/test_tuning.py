"""Tuning as part of benchmarks: with a database of its own, in processes of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import smelt as sm
from smelt.bench import tuning
from smelt.config import configure
from smelt.search import climb, measure
from smelt.search.contender import Contender, Outcome, Timed, Verdict


class Faster:
    """A measurer by which whatever comes first after the default is twice as fast."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def race(self, region: Any, contenders: list[Contender], seconds: float) -> list[Outcome]:
        right = Verdict(True, "", "same")
        speeds = [1.0, 2.0, *(0.5 for _ in contenders[2:])]
        return [
            Outcome(one.digest, "timed", "", right, Timed(speed, speed, speed, 1e-3, 20))
            for one, speed in zip(contenders, speeds, strict=False)
        ]

    def expect(self, region: Any) -> None:
        pass

    def close(self) -> None:
        pass

    def confirm(self, region: Any, best: Contender, default: Contender, seconds: float) -> Timed:
        return Timed(2.0, 2.0, 2.0, 1e-3, 20)


def test_versions_are_compared_and_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tuning, "_MOST_PAIRS", 15)  # not as many as there is time for
    prepared = ("a @ b", (11, 320, 1090), "float32")  # its weight is packed after some calls
    for kernel in (("relu(x + y)", (4001,), "float32"), prepared):
        with configure(data_dir=tmp_path):
            same = tuning.compare_drawn(kernel, 5.0)
        assert same["same"] and same["pairs"] >= 15 and max(same["errors"]) < 1
        assert 0 < same["low"] <= same["ratio"] <= same["high"]


def test_what_calls_run_is_tuned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(measure, "Racer", Faster)
    monkeypatch.setattr(climb, "STALE", 1)
    function, x = sm.jit(lambda x: sm.softmax(x, axis=-1)), sm.ones((64, 300))
    with configure(data_dir=tmp_path):
        found = tuning.tune_calls(lambda: function(x), "3")
    assert [row.question.name for row in found.rows] == ["max sub exp sum reciprocal mul -> float32[64, 300]"]
    assert found.rows[0].gain == 2.0


def test_tvm_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from smelt.bench.cpu import in_tvm

    monkeypatch.setattr(in_tvm, "_STEPS", {"is not installed": "import no_such_module_as_this"})
    assert in_tvm.why_not() == (
        "the wheel of TVM is not installed (ModuleNotFoundError: No module named 'no_such_module_as_this')"
    )
    with pytest.raises(sm.errors.SmeltError, match="this bar is void"):
        library = in_tvm.library("tvm", 1)
        library.compiled(library.operations["matmul"])
    monkeypatch.setattr(in_tvm, "_STEPS", {"cannot begin": "import os, signal; os.kill(os.getpid(), signal.SIGBUS)"})
    assert in_tvm.why_not() == "the wheel of TVM cannot begin (ended by SIGBUS)"
    monkeypatch.setattr(in_tvm, "_STEPS", {"cannot count": "1 + 1"})
    assert in_tvm.why_not() == ""

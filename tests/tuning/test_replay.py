"""A search that is played back: the same log, byte for byte, without any measurement."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import cli, runtime
from smelt.config import configure
from smelt.errors import ArgumentError
from smelt.kernel import Region
from smelt.search.contender import Contender, Outcome, Timed, Verdict
from smelt.transform.jit import Jit
from smelt.tuning import Budget, Recording, Replay, Watched, programs, tune_programs, watching
from smelt.tuning.comparing import Compared, Gain

X = np.linspace(-2, 2, 48 * 64, dtype=np.float32).reshape(48, 64)


class Noisy:
    """Every race says something else, and some contenders are wrong."""

    def __init__(self) -> None:
        self.draw = random.SystemRandom()

    def race(self, region: Region, contenders: Sequence[Contender], seconds: float) -> list[Outcome]:
        return [self.outcome(contender.digest) for contender in contenders]

    def outcome(self, digest: str) -> Outcome:
        if self.draw.random() < 0.2:
            return Outcome(digest, "wrong", "an element is", Verdict(False, "an element is", ""), None)
        return Outcome(digest, "timed", "", Verdict(True, "", "same"), self.timed())

    def timed(self) -> Timed:
        ratio = self.draw.uniform(0.8, 1.4)
        return Timed(ratio, ratio - 0.01, ratio + 0.01, 1e-3 / ratio, 20)

    def confirm(self, region: Region, best: Contender, default: Contender, seconds: float) -> Timed:
        return Timed(1.2, 1.1, 1.3, self.draw.uniform(1e-4, 1e-3), 30)


def network(x: sm.Tensor) -> sm.Tensor:
    return (x.softmax(-1) @ x.T).relu()


def run(watched: Watched, until: Callable[[], bool]) -> None:
    function = Jit(network)
    with watching(watched):
        while not until():
            np.asarray(function(sm.asarray(X)))


def tuned(folder: Path, outside: Any, measurer: Any = None, seed: int = 3, threads: int = 2) -> bytes:
    """The log that tuning leaves behind in an empty folder."""
    with configure(data_dir=folder, threads=threads), runtime.using(runtime.Runtime()):
        tune_programs(run, Budget.of(2), seed, "", lambda _: None, 2, measurer, outside)
    return (folder / "tuned" / "records.log").read_bytes()


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def compared(_: object, answers: Mapping[str, str], *__: object) -> Compared:
        return Compared(1.2, [Gain([*answers], random.SystemRandom().uniform(0.6, 1.2), 1.2, 1.1, 15)])

    monkeypatch.setattr(programs, "compare", compared)
    yield


def test_a_recording_gives_the_same_log_on_one_thread_and_on_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, file = Recording(), tmp_path / "run.json"
    expected = tuned(tmp_path / "a", recording, Noisy())
    recording.save(file)
    assert b'"state":"confirmed"' in expected and b'"state":"wrong"' in expected
    assert tuned(tmp_path / "b", Recording(), Noisy()) != expected
    monkeypatch.setattr(programs.measure, "Racer", None)  # nobody measures
    monkeypatch.setattr(programs, "compare", lambda *_: pytest.fail("nobody measures"))
    for name, threads in (("c", 1), ("d", 2)):
        assert tuned(tmp_path / name, Replay(file), threads=threads) == expected
    with pytest.raises(ArgumentError, match="where this run asks for 2 s, seed 4"):
        tuned(tmp_path / "e", Replay(file), seed=4)


@pytest.mark.parametrize("text", ["", "{}", "[" * 9000, '{"version": 2, "facts": []}', '{"version": 1, "facts": [1]}'])
def test_what_is_no_recording_is_told(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, file = tmp_path / "script.py", tmp_path / "run.json"
    script.write_text("", encoding="utf-8")
    file.write_text(text, encoding="utf-8")
    assert cli.main(["tune", str(script), "--replay", str(file)]) == 1
    assert "is no recording of smelt tune" in capsys.readouterr().err
    assert cli.main(["tune", str(script), "--replay", str(tmp_path / "missing")]) == 1
    assert "No such file" in capsys.readouterr().err

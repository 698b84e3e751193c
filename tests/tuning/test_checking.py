"""What no longer holds gives way, and hints that hold become answers: with a simulated race."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import cli, runtime
from smelt.config import configure
from smelt.device.cpu import CPU
from smelt.kernel import Region, parse_region, parse_schedule
from smelt.render import c
from smelt.runtime import Runtime
from smelt.schedule import Candidate
from smelt.search.contender import Contender, Outcome, Timed, Verdict
from smelt.search.record import Answer, Place, Question, Record
from smelt.search.selftest.samples import sample
from smelt.tuning.checking import Checked, check, keep
from tests.search.databases import log

pytestmark = pytest.mark.usefixtures("own_database")

X = np.linspace(-1, 1, 6 * 10, dtype=np.float32).reshape(6, 10)
SCHEDULE, OTHER = "split i0 (2 reg)", "split i0 (3 reg)"


class Simulated:
    """A machine on which whatever is not the default has one speed, and is what it is said to be."""

    def __init__(self, ratio: float, state: str = "timed", bits: str = "same", turns: int = 30) -> None:
        self.timed = Timed(ratio, ratio - 0.005, ratio + 0.005, 1e-3, turns)
        self.state, self.bits, self.raced = state, bits, 0

    def race(self, region: Region, contenders: Sequence[Contender], seconds: float) -> list[Outcome]:
        self.raced += 1
        first, second = (one.digest for one in contenders)
        verdict, timed = (Verdict(True, "", self.bits), self.timed) if self.state == "timed" else (None, None)
        return [
            Outcome(first, "timed", "", Verdict(True, "", "same"), self.timed),
            Outcome(second, self.state, "" if timed else "because", verdict, timed),
        ]

    def confirm(self, region: Region, best: Contender, default: Contender, seconds: float) -> Timed:
        return self.timed

    def close(self) -> None:
        pass


def explained() -> tuple[str, str, tuple[str, ...]]:
    """The region of a graph of one kernel, its schedule, and what was refused, in a process that knows the disk."""
    with runtime.using(Runtime()) as fresh:
        key, device = sm.jit(lambda x: x * 3 + x.exp()).graph_key(sm.asarray(X))
        [kernel] = fresh.compiler.compile(key, device, explain=True).kernels
    return kernel.region, kernel.schedule, tuple(kernel.refused)


def answer(schedule: str = SCHEDULE, **changes: Any) -> Record:
    text = explained()[0]
    region = parse_region(text)
    made = Contender.of(Candidate("chosen", region, parse_schedule(schedule)), region, CPU())
    record = sample(0)._replace(question=Question.of(text), place=Place.of(CPU()))
    return record._replace(answer=Answer(schedule, "same", made.digest))._replace(**changes)


def checked(measurer: Simulated) -> list[Checked]:
    return list(keep(check(CPU(), log().load().records, 60.0, measurer=measurer), log()))


def test_what_holds_stays_as_it_is() -> None:
    log().add([answer()])
    [found] = checked(fast := Simulated(1.2))
    assert (found.was, found.verdict, found.written, fast.raced) == ("answer", "holds", None, 0)
    assert explained()[1] == SCHEDULE and len(log().load().records) == 1


def test_what_no_longer_holds_gives_way_to_what_was_confirmed_before() -> None:
    log().add([answer(OTHER), answer()])
    found = checked(Simulated(0.97))
    assert [(one.verdict, one.record.answer.schedule) for one in found] == [("refused", SCHEDULE), ("refused", OTHER)]
    assert explained()[1] not in (SCHEDULE, OTHER)
    assert "0.970 times as fast" in found[0].reason
    assert checked(Simulated(1.2)) == []


@pytest.mark.parametrize("measurer", [Simulated(1.021), Simulated(1.2, turns=5)])
def test_what_is_not_sure_stays(measurer: Simulated) -> None:
    log().add([answer()])
    [found] = checked(measurer)
    assert (found.verdict, found.written) == ("unsure", None)
    assert explained()[1] == SCHEDULE


def test_comments_of_the_renderer_change_nothing_and_code_does(monkeypatch: pytest.MonkeyPatch) -> None:
    default = explained()[1]
    log().add([answer()])
    # A comment in the renderer itself: what it renders is the same, in a process that knows nothing else.
    with configure(disk_cache=False):
        assert explained()[1] == SCHEDULE
    true_render = c.render

    def render(kernels: Any, *arguments: Any, **named: Any) -> str:
        return true_render(kernels, *arguments, **named) + "static int later;\n"

    with monkeypatch.context() as patch, configure(disk_cache=False):
        patch.setattr("smelt.render.render", render)
        _, schedule, refused = explained()
        assert schedule == default and "chosen: it is not what was measured" in refused
        [found] = checked(fast := Simulated(1.2, bits="sums"))
        assert (found.was, found.verdict, fast.raced) == ("stale", "holds", 1)
        assert explained()[1] == SCHEDULE
        assert log().load().records[-1].answer.bits == "sums"
        assert [one.was for one in checked(Simulated(1.2))] == ["answer"]


@pytest.mark.parametrize("state", ["wrong", "hung", "crashed", "refused"])
def test_other_code_is_verified_first(state: str) -> None:
    stale = answer()
    log().add([stale._replace(answer=stale.answer._replace(source="0" * 32))])
    [found] = checked(Simulated(1.2, state))
    assert found.verdict == "refused" and found.reason == f"{state}: because"
    assert log().load().records[-1].state == state and explained()[1] != SCHEDULE


def test_a_hint_from_elsewhere_becomes_an_answer_here() -> None:
    far = answer(state="imported", place=Place.of(CPU())._replace(cores=99, family="0" * 32))
    log().add([far])
    assert explained()[1] != SCHEDULE
    [found] = checked(Simulated(1.2))
    assert (found.was, found.verdict) == ("hint", "holds")
    assert explained()[1] == SCHEDULE
    assert [one.was for one in checked(Simulated(1.2))] == ["answer"]  # and is not tried again
    assert cli.main(["tune", "forget", "--last"]) == 0
    assert explained()[1] != SCHEDULE


def test_no_hint_takes_the_place_of_an_answer_that_holds() -> None:
    sums = answer()
    log().add([sums._replace(answer=sums.answer._replace(bits="sums")), answer(OTHER, state="imported")])
    assert [(one.was, one.verdict) for one in checked(Simulated(1.2))] == [("answer", "holds")]
    assert [(one.was, one.verdict) for one in checked(Simulated(1.021))] == [("answer", "unsure")]
    found = checked(Simulated(1.0))
    assert [(one.was, one.verdict) for one in found] == [("answer", "refused"), ("hint", "refused")]


def test_a_hint_that_does_not_hold_is_not_tried_again() -> None:
    log().add([answer(state="imported")])
    assert [one.verdict for one in checked(Simulated(1.0))] == ["refused"]
    assert checked(Simulated(1.5)) == []


@pytest.mark.parametrize("schedule", ["no action", "split nowhere (2 reg)", ""])
def test_what_does_not_fit_or_is_the_default_is_refused(schedule: str) -> None:
    record = answer()
    chosen = schedule or explained()[1]
    log().add([record._replace(answer=record.answer._replace(schedule=chosen))])
    [found] = checked(Simulated(1.5))
    assert found.verdict == "refused" and ("does not fit" in found.reason or "is the default" in found.reason)


def test_time_is_bounded() -> None:
    log().add([answer()])
    said: list[str] = []
    assert list(check(CPU(), log().load().records, -1.0, say=said.append, measurer=Simulated(1.2))) == []
    assert said == ["time is up: 1 of 1 regions were not measured"]


def test_the_command_tells_what_it_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("smelt.search.measure.Racer", lambda device, seed: Simulated(1.2))
    log().add([answer(), sample(1)])
    assert cli.main(["tune", "check", "--json", "--only", "exp"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert {"name", "ratio", "low", "seconds", "verdict"} <= row.keys() and row["verdict"] == "holds"
    assert cli.main(["tune", "check"]) == 0
    said = capsys.readouterr().out
    assert "1 hold, 0 of them as new answers" in said and "exp add -> float32[60]" in said
    assert cli.main(["tune", "check", "--budget", "soon"]) == 1

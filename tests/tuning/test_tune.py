"""Tuning of whole programs, with a simulated race: what makes a program faster is kept, and used from then on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.cli import main
from smelt.compiler import Compiler
from smelt.config import configure
from smelt.errors import ArgumentError
from smelt.kernel import Region
from smelt.search import measure
from smelt.search.climb import Climb
from smelt.search.contender import Contender, Outcome, Timed, Verdict
from smelt.search.log import user_log
from smelt.search.space import starts
from smelt.transform.jit import Jit
from smelt.tuning import programs as module
from smelt.tuning.comparing import Compared, Gain, Mixed, Whole, calls_needed, compare
from smelt.tuning.programs import Budget, Pace, Question, questions, tune
from smelt.tuning.report import Tuning
from smelt.tuning.watching import Overlay, Run, Watched, watching

X = np.linspace(-2, 2, 48 * 64, dtype=np.float32).reshape(48, 64)


class Simulated:
    """Whatever is not the default is faster, the last one most."""

    def __init__(self, gain: float = 1.5) -> None:
        self.gain = gain

    def expect(self, region: Region) -> None:
        """It is always ready."""

    def close(self) -> None:
        """There is nothing to end."""

    def race(self, region: Region, contenders: Sequence[Contender], seconds: float) -> list[Outcome]:
        found = []
        for number, contender in enumerate(contenders):
            ratio = 1.0 + (self.gain - 1) * number / len(contenders)
            timed = Timed(ratio, ratio, ratio, 1e-3 / ratio, 9)
            found.append(Outcome(contender.digest, "timed", "", Verdict(True, "", "same"), timed))
        return found

    def confirm(self, region: Region, best: Contender, default: Contender, seconds: float) -> Timed:
        return Timed(self.gain, self.gain, self.gain, 1e-3, 30)


def network(x: sm.Tensor) -> sm.Tensor:
    return (x.softmax(-1) @ x.T).relu()


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(measure, "Racer", lambda device, sizes=None, seed=0: Simulated())
    with configure(data_dir=tmp_path / "data"), runtime.using(runtime.Runtime()):
        yield


def settled(monkeypatch: pytest.MonkeyPatch, low: float) -> None:
    monkeypatch.setattr(module, "compare", lambda _, answers, *__: Compared(1.2, [Gain([*answers], 1.2, 1.2, low, 15)]))


def tuned(budget: float = 2.0) -> Tuning:
    return tune(network, sm.asarray(X), budget=budget)


def test_what_makes_the_program_faster_is_used_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    settled(monkeypatch, 1.1)
    expected = np.asarray(network(sm.asarray(X)))
    found = tuned()
    assert found.stored and repr(found).startswith("Tuning(")
    log = user_log()
    assert log is not None
    states = [record.state for record in log.load().records]
    assert states.count("confirmed") == len(found.stored) and "timed" in states
    with runtime.using(runtime.Runtime()):
        compiled = runtime.current().compiler.compile(*Jit(network).graph_key(sm.asarray(X)), explain=True)
        assert [record.form for record in compiled.kernels].count("chosen") == len(found.stored)
        np.testing.assert_allclose(np.asarray(sm.jit(network)(sm.asarray(X))), expected, rtol=1e-5, atol=1e-6)
    assert main(["tune", "forget", "--last"]) == 0
    with runtime.using(runtime.Runtime()):
        compiled = runtime.current().compiler.compile(*Jit(network).graph_key(sm.asarray(X)), explain=True)
        assert "chosen" not in [record.form for record in compiled.kernels]


def test_what_wins_alone_and_loses_in_its_program_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    settled(monkeypatch, 0.99)
    found = tuned()
    assert any(row.found.adopted for row in found.rows) and not found.stored
    assert "faster alone" in str(found) and "what changed" not in str(found), "a table of nothing"
    page = found.html()
    assert "Nothing was kept" in page and "0 wrong" in page and "faster alone" in page and "<td>1.50" not in page
    log = user_log()
    assert log is not None and {record.state for record in log.load().records} == {"timed"}
    assert "faster alone, but not in the program" in str(found)


def test_a_function_that_was_compiled_before_is_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    settled(monkeypatch, 1.1)
    f, x = sm.jit(network), sm.asarray(X)
    before = np.asarray(f(x))
    found = tune(f, x, budget=2.0)
    np.testing.assert_allclose(np.asarray(f(x)), before, rtol=1e-5, atol=1e-6)
    assert repr(f).endswith("traces=1)")
    compiled = runtime.current().compiler.compile(*f.graph_key(x), explain=True)
    assert [record.form for record in compiled.kernels].count("chosen") == len(found.stored) > 0


def test_versions_take_turns_and_compute_the_same() -> None:
    f, x = Jit(network), sm.asarray(X)
    expected = np.asarray(f(x))
    with watching(Watched()) as watched:
        f(x)
    (program,) = watched.programs.values()
    assert program.calls == 1 and len(program.launches) == len(program.compiled.kernels)
    program.other = runtime.current().compiler.compile(program.key, program.device)
    assert program.can_run(program.other)
    with watching(watched):
        for _ in range(8):
            np.testing.assert_array_equal(np.asarray(f(x)), expected)
    assert len(program.taken[1]) == 4 and len(program.ratios()) == 3


def test_kernels_of_a_program_come_with_their_time() -> None:
    f, x = Jit(network), sm.asarray(X)
    with watching(Watched()) as watched:
        for _ in range(3):
            f(x)
    found = list(questions(watched.programs.values()))
    assert len(found) == 2 and all(one.launches == 3 for one in found)
    assert found[0].seconds >= found[1].seconds > 0


def test_a_page_needs_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    settled(monkeypatch, 1.1)
    found = tuned()
    page = found.html()
    assert page.startswith("<!doctype html>") and page.count("<svg") == 1 + 2 * len(found.rows)
    assert "http" not in page and "<script" not in page
    data = found.json()
    assert {"name", "ratio", "low", "seconds"} <= data["kernels"][0].keys()


def test_a_script_is_tuned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nimport smelt as sm\n"
        "x = sm.ones((32, 64))\nprint('sum', sys.argv[1:], float(x.softmax(-1).sum()))\n",
        encoding="utf-8",
    )
    page = tmp_path / "page.html"
    assert main(["tune", str(script), "--budget", "2s", "--json", "-", "--html", str(page), "--", "word"]) == 0
    said = capsys.readouterr()
    assert (
        "sum ['word'] 32.0" in said.err and said.out.startswith("{") and page.read_text("utf-8").startswith("<!doctype")
    )


def test_ctrl_c_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    settled(monkeypatch, 1.1)
    confirm, confirmed = Simulated.confirm, list[Contender]()

    def interrupted(self: Simulated, region: Region, best: Contender, default: Contender, seconds: float) -> Timed:
        if confirmed:
            raise KeyboardInterrupt
        confirmed.append(best)
        return confirm(self, region, best, default, seconds)

    monkeypatch.setattr(Simulated, "confirm", interrupted)
    found = tuned()
    assert len(found.stored) == 1 and "Interrupted" in str(found)
    assert len(found.rows) == 2 and found.rows[1].found.tried, "what was timed is lost"


def test_of_what_nobody_tried_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    settled(monkeypatch, 1.1)
    found = tuned()
    found.rows = [replace(row, found=Climb(row.found.default), stored=False) for row in found.rows[:1]]
    assert "1 kernel stays as it is: nothing new could be tried" in str(found) and "2 %" not in str(found)


def test_a_program_that_cannot_be_compared_in_time_is_left_alone() -> None:
    pace = Pace(Budget.of(10), 6, time.monotonic)
    pace.count, pace.once = 2, 1.0
    assert [pace.comparing(calls_needed(launches), []) for launches in (1, 2, 3, 12)] == [11.0, 11.0, 7.0, 3.0]
    pace.count = 1  # the only run compiled everything
    assert pace.comparing(11, []) == pytest.approx(1.1)


def another(chosen: Question) -> dict[str, str]:
    """Another schedule for a kernel, as an answer."""
    other = starts(chosen.region, chosen.device.profile)[-1].candidate
    made = Contender.of(other, chosen.region, chosen.device)
    return {chosen.digest: f"{made.schedule}{module.MEASURED_AS}{made.digest}"}


def at_most(count: int, f: Jit[..., object], x: sm.Tensor) -> Run:
    """Calls a function so many times, or until it is told to stop."""
    calls = iter(range(count))

    def run(watched: Watched, until: Callable[[], bool]) -> None:
        with watching(watched):
            while not until() and next(calls, None) is not None:
                f(x)

    return run


def test_few_pairs_say_nothing() -> None:
    f, x = Jit(network), sm.asarray(X)
    with watching(Watched()) as watched:
        f(x)
    programs = list(watched.programs.values())
    answers = another(next(questions(programs)))
    compared = compare(programs, answers, at_most(9, f, x), 1.0)
    assert [(list(gain.questions), gain.pairs, gain.low) for gain in compared.gains] == [(list(answers), 4, 0.0)]
    whole, won = Whole.of(compared)
    assert not won and whole.ratio == 1.0 and whole.low == 0.0 and compared.seconds > 0


def test_what_there_was_no_time_to_compare_is_told_as_unchanged() -> None:
    f, x = Jit(network), sm.asarray(X)
    with watching(Watched()) as watched:
        f(x)
    programs = list(watched.programs.values())
    tuning = Tuning("quick", 0, None, programs, 1.0)
    tuning.whole, won = Whole.of(compare(programs, another(next(questions(programs))), lambda *_: None, 1.0))
    assert not won and tuning.json()["whole"]["ratio"] == 1.0


def deep(x: sm.Tensor) -> sm.Tensor:
    for _ in range(5):
        x = (x @ x.T).softmax(-1) @ x
    return x


@pytest.mark.by_turns(3)
def test_launches_take_turns_and_compute_the_same() -> None:
    f, x = Jit(deep), sm.asarray(X)
    expected = np.asarray(f(x))
    with watching(Watched()) as watched:
        f(x)
    (program,) = watched.programs.values()
    chosen = max(questions([program]), key=lambda one: one.launches)
    assert chosen.launches >= 3
    other = Compiler(Overlay(another(chosen), None)).compile(program.key, program.device, explain=True)
    mixed = Mixed.of(program, other, {chosen.digest})
    assert mixed is not None and mixed.sites.keys() == {chosen.digest}
    watched.programs[id(program.compiled)] = mixed
    with watching(watched):
        for _ in range(9):
            np.testing.assert_allclose(np.asarray(f(x)), expected, rtol=1e-4, atol=1e-5)
    # Whatever the machine does: the first version takes 3 s a launch in slow calls and 1 s in others, the second 2/3.
    numbers = mixed.sites[chosen.digest]
    for which, runs in enumerate(mixed.runs):
        assert len(runs) == 4
        for call, run in enumerate(runs):
            run[:] = [0.0] * len(run)
            for at, number in enumerate(numbers):
                run[number] = (3.0 if (call + which) % 2 else 1.0) * (1.0 if at % 2 == which else 2 / 3)
    pairs = mixed.ratios_at(numbers)
    assert len(pairs) == 4 * -(-len(numbers) // 2)
    assert [round(ratio, 6) for ratio in pairs if ratio not in (4.5, 0.5)].count(1.5) == 4 * (len(numbers) // 2)


def test_programs_with_loops_take_turns_call_by_call() -> None:
    def looped(x: sm.Tensor) -> sm.Tensor:
        return sm.scan(lambda s, _: ((s @ s.T).softmax(-1) @ s, None), x, None, length=3)[0]

    f, x = Jit(looped), sm.asarray(X)
    with watching(Watched()) as watched:
        f(x)
    programs = list(watched.programs.values())
    answers = another(next(questions(programs)))
    (gain,) = compare(programs, answers, at_most(20, f, x), 0.0).gains
    assert gain.pairs == 9 and gain.before > 0


def test_kernels_are_judged_one_by_one() -> None:
    gains = [Gain(["a"], 4.0, 2.0, 1.6, 9), Gain(["b"], 2.0, 1.1, 0.9, 9), Gain(["a", "c"], 1.0, 0.9, 0.8, 9)]
    whole, won = Whole.of(Compared(10.0, gains))
    assert won == {"a"}, "what is lost in one program is less than what is gained in the other"
    assert whole.before == 10.0 and whole.after == 8.0 and whole.low == pytest.approx(10 / 8.5)


def test_time_begins_when_everything_has_run_once() -> None:
    pace, watched = Pace(Budget.of(10), 6, time.monotonic), Watched()
    began = pace.began
    assert [pace.is_settled(watched) for _ in range(7)] == [False] * 6 + [True]
    assert pace.count == 6 and pace.began > began
    late = Pace(Budget.of(10), 6, time.monotonic)
    assert not any(late.is_settled(watched) for _ in range(4))
    late.began -= 2.0
    assert late.is_settled(watched) and late.count == 4


def test_what_ran_before_inputs_were_prepared_is_no_question() -> None:
    f, g, x = Jit(network), Jit(lambda x: x.exp()), sm.asarray(X)
    pace, watched = Pace(Budget.of(10), 2, time.monotonic), Watched()
    for function in (f, g):
        assert not pace.is_settled(watched)
        with watching(watched):
            function(x)
    assert pace.is_settled(watched)
    (program,) = pace.latest(watched)
    assert [one.name for one in questions([program])] == ["exp -> float32[48, 64]"]


def test_a_script_without_kernels_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plain.py").write_text("print(1 + 1)")
    assert main(["tune", str(tmp_path / "plain.py"), "--budget", "1"]) == 0
    assert "Nothing was computed with smelt" in capsys.readouterr().out


def test_mistakes_in_words_are_told_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "script.py").write_text("raise AssertionError")
    script = str(tmp_path / "script.py")
    assert main(["tune", script, "--html", str(tmp_path / "none" / "page.html")]) == 1
    said = capsys.readouterr().err
    assert "there is no folder" in said and "  at " not in said, "a line that is not the user's"
    with pytest.raises(SystemExit):
        main(["tune", script, "64"])
    assert "behind --" in capsys.readouterr().err


def test_mistakes_are_told() -> None:
    with pytest.raises(ArgumentError, match="is no budget"):
        Budget.of("soon")
    assert Budget.of("90s").seconds == 90.0 == Budget.of(90).seconds and Budget.of("quick").seconds == 10.0
    with pytest.raises(ArgumentError, match="is not a function"):
        tune(3)  # type: ignore[arg-type]
    assert main(["tune", "nowhere.py"]) == 1


def test_a_tuning_inside_of_another_only_runs_the_function() -> None:
    watched = Watched()
    with watching(watched):
        found = tune(network, sm.ones((8, 8)), budget=1000)
    assert not found.rows and "under way" in str(found)
    assert watched.programs

"""Fusion as a choice that whole programs are raced for: what is tried, verified, kept and used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.cli import main
from smelt.compiler import MEASURED_AS, CompiledGraph
from smelt.config import configure
from smelt.device import Device
from smelt.fuse import Choices
from smelt.search.log import user_log
from smelt.transform.jit import Jit
from smelt.tuning import sites
from smelt.tuning.keeping import Keeper
from smelt.tuning.outside import Live
from smelt.tuning.sites import Duel, Found, agreement, search
from smelt.tuning.watching import Program, Watched, watching

X = np.linspace(-2, 2, 48 * 64, dtype=np.float32).reshape(48, 64)


def network(x: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
    hidden = (x @ x.T).tanh()
    return hidden.sum(0), hidden.softmax(-1) @ x


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("smelt.fuse.sites.LEAST_BYTES", 1)
    with configure(data_dir=tmp_path / "data"), runtime.using(runtime.Runtime()):
        yield


def running(f: Jit[..., object], x: sm.Tensor) -> tuple[list[Program], sites.Run]:
    def run(watched: Watched, until: Callable[[], bool]) -> None:
        with watching(watched):
            while not until():
                f(x)

    watched, turns = Watched(), iter(range(3))
    run(watched, lambda: next(turns, None) is None)
    return list(watched.programs.values()), run


def raced(monkeypatch: pytest.MonkeyPatch, ratio: Callable[[CompiledGraph, CompiledGraph], float]) -> None:
    """Let versions run once each, and say how long that took."""

    def duel(own: sites._Search, first: CompiledGraph, other: CompiledGraph) -> Duel:
        program = own.program
        found = Duel(program.key, program.device, program.compiled, other=other, first=first)
        watched, turns = Watched(timed=False), iter(range(3))
        watched.programs[id(program.compiled)] = found
        own.run(watched, lambda: next(turns, None) is None)
        times = [1.0] * 12
        found.taken = (times, [1.0 / ratio(first, other)] * 12)
        return found

    monkeypatch.setattr(sites._Search, "duel", duel)


def test_what_wins_is_stored_used_and_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raced(monkeypatch, lambda first, other: 1.1 if len(other.kernels) > len(first.kernels) else 0.9)
    f, x = Jit(network), sm.asarray(X)
    expected = [np.asarray(part) for part in f(x)]
    programs, run = running(f, x)
    found = search(programs, run, 60.0, lambda _: None)
    [kept] = [one for one in found if one.stored]
    assert {one.state for one in found} <= {"timed", "confirmed", "refused"} and kept.low >= 1.01
    for one in found:
        Keeper(0, Live()).keep_fusion(one)
    log = user_log()
    assert log is not None and [r.state for r in log.load().records].count("confirmed") == 1
    with runtime.using(runtime.Runtime()):
        key, device = Jit(network).graph_key(x)
        compiled = runtime.current().compiler.compile(key, device, explain=True)
        assert len(compiled.kernels) > len(programs[0].compiled.kernels)
        for a, b in zip(sm.jit(network)(x), expected, strict=True):
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-5, atol=1e-5)
        with configure(tuned="off"):
            assert len(runtime.current().compiler.compile(key, device).kernels) == len(programs[0].compiled.kernels)
        # It is the incumbent from now on: what it has is not tried again.
        again, rerun = running(Jit(network), x)
        assert all(one.choices != kept.choices for one in search(again, rerun, 60.0, lambda _: None))
    with runtime.using(runtime.Runtime(Stale())):  # an answer that is not taken is not built upon
        again, rerun = running(Jit(network), x)
        assert search(again, rerun, 60.0, lambda _: None)[0].choices != Choices(frozenset({9999}))
    assert main(["tune", "list"]) == 0
    assert "fusion: stores the" in capsys.readouterr().out
    assert main(["tune", "show", kept_name(kept)]) == 0
    assert str(kept.choices) in capsys.readouterr().out
    assert main(["tune", "forget", "--all"]) == 0
    assert "fusion: stores the" in capsys.readouterr().out
    with runtime.using(runtime.Runtime()):
        compiled = runtime.current().compiler.compile(key, device)
        assert len(compiled.kernels) == len(programs[0].compiled.kernels)


class Stale:
    """Says what cannot be to every question."""

    def ask(self, device: Device, question: str, text: str = "") -> str | None:
        return f"store 9999{MEASURED_AS}{'0' * 32}"


def kept_name(found: Found) -> str:
    return sites.question_of(sites.graph_text(found.program.key))


def test_what_is_not_faster_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    raced(monkeypatch, lambda first, other: 1.005)
    found = search(*running(Jit(network), sm.asarray(X)), 60.0, lambda _: None)
    assert found and not any(one.stored for one in found)


def test_a_sum_is_cut_in_one_number_of_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    raced(monkeypatch, lambda first, other: 1.1)
    f, x = Jit(lambda x: x.exp().sum()), sm.ones((512, 1024))
    found = search(*running(f, x), 60.0, lambda _: None)
    assert [len(one.choices.pieces) for one in found if one.choices.pieces] == [1]
    assert found[0].stored and found[0].bits in ("same", "sums")


def test_what_needs_more_memory_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    raced(monkeypatch, lambda first, other: 1.1)
    monkeypatch.setattr(sites, "MEMORY", 0.5)
    found = search(*running(Jit(network), sm.asarray(X)), 60.0, lambda _: None)
    assert found and all(one.state == "refused" and "bytes" in one.reason for one in found)


def test_versions_take_turns_once_they_agree() -> None:
    f, x = Jit(network), sm.asarray(X)
    expected = [np.asarray(part) for part in f(x)]
    (program,), _ = running(f, x)
    other = runtime.current().compiler.compile(program.key, program.device, explain=True)
    duel = Duel(program.key, program.device, program.compiled, other=other, first=program.compiled)
    watched = Watched(timed=False)
    watched.programs[id(program.compiled)] = duel
    with watching(watched):
        for _ in range(8):
            for a, b in zip(f(x), expected, strict=True):
                np.testing.assert_array_equal(np.asarray(a), b)
    assert duel.verdict == "same" and len(duel.taken[1]) == 4


def test_what_both_versions_do_is_not_compared() -> None:
    f, x = Jit(network), sm.asarray(X)
    (program,), _ = running(f, x)
    compiler = runtime.current().compiler
    mine = compiler.compile(program.key, program.device, explain=True)
    assert sites.differing(mine, mine) == []
    other = compiler.compile(*Jit(lambda x: network(x)[0]).graph_key(x), explain=True)
    assert 0 < len(sites.differing(mine, other)) <= len(mine.kernels)
    duel = Duel(program.key, program.device, mine, other=mine, first=mine)
    duel.common, duel.taken = [8.0, 8.2, 30.0], ([2.0, 2.0], [1.0, 1.0])
    assert duel.ratios() == pytest.approx([10.2 / 9.2] * 2) and duel.before == pytest.approx(10.2)


def test_a_version_that_computes_something_else_never_runs() -> None:
    f, x = Jit(lambda x: (x * 2).sum(0)), sm.asarray(X)
    (program,), _ = running(f, x)
    wrong = runtime.current().compiler.compile(*Jit(lambda x: (x * 2).exp().sum(0)).graph_key(x))
    duel = Duel(program.key, program.device, program.compiled, other=wrong, first=program.compiled)
    watched = Watched(timed=False)
    watched.programs[id(program.compiled)] = duel
    with watching(watched):
        for _ in range(4):
            np.testing.assert_allclose(np.asarray(f(x)), 2 * X.sum(0), rtol=1e-5, atol=1e-4)
    assert duel.verdict.startswith("result 0 differs by") and not duel.taken[1]


def test_what_agrees() -> None:
    a = np.array([1.0, -3.0, np.nan, np.inf], np.float32)
    assert agreement([a], [a.copy()]) == "same"
    assert agreement([a], [a * np.float32(1 + 1e-6)]) == "sums"
    assert "differs by" in agreement([a], [a * np.float32(1.01)])
    assert "finite elsewhere" in agreement([a], [np.array([1.0, -3.0, np.nan, -np.inf], np.float32)])
    assert "other integers" in agreement([np.arange(3)], [np.arange(3) + 1])
    assert agreement([np.zeros((0, 3), np.float32)], [np.zeros((0, 3), np.float32)]) == "same"


def test_tuning_cuts_a_program_before_its_kernels_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    raced(monkeypatch, lambda first, other: 1.1 if len(other.kernels) > len(first.kernels) else 0.9)
    monkeypatch.setattr(sites, "LEAST_BUDGET", 1.0)
    monkeypatch.setattr(sites, "SHARE", 30.0)
    f, x = sm.jit(network), sm.asarray(X)
    before = runtime.current().compiler.compile(*f.graph_key(x))
    f(x)
    found = sm.tune(f, x, budget=1, only="fusion")
    assert found.kept == 1 and " fusion: stores the" in str(found) and "1 choices stored" in str(found)
    assert found.json()["fusion"][-1].keys() >= {"name", "ratio", "low", "seconds"}
    assert [program.compiled.choices for program in found.programs] != [before.choices]
    assert len(runtime.current().compiler.compile(*f.graph_key(x)).kernels) > len(before.kernels)
    assert not sm.tune(f, x, budget=1, only="matmul").cuts


def test_ctrl_c_ends_the_search_for_cuts_with_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sites, "search", interrupted)
    found = sm.tune(network, sm.asarray(X), budget=sites.LEAST_BUDGET)
    assert "Interrupted" in str(found) and not found.rows

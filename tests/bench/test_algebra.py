"""The algebra suite: programs that fit together, contenders that answer, and rows."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import smelt as sm
from smelt.bench import command
from smelt.bench.algebra import by_hand, in_numpy, in_smelt, suite
from smelt.bench.algebra.contender import Programs, errors_of
from smelt.bench.algebra.programs import PROGRAMS
from smelt.bench.algebra.suite import measure_algebra
from smelt.bench.contest import Contest
from smelt.bench.cpu.suite import Asked, Ring
from smelt.bench.report import Report, Verdict, table
from smelt.bench.timing import ChildError
from smelt.compiler.planning import chosen
from smelt.errors import ArgumentError, InternalError
from smelt.rewrite import Contract
from tests.profiles import BY_NAME

EXACT = [name for name, program in PROGRAMS.items() if program.needs is Contract.EXACT]
FAST = [name for name, program in PROGRAMS.items() if program.needs is Contract.FAST]


def test_programs_of_every_contract_take_part() -> None:
    assert {program.needs for program in PROGRAMS.values()} == set(Contract)
    assert len(PROGRAMS) >= 42


@pytest.mark.parametrize("name", PROGRAMS)
def test_small_inputs_fit_together(name: str) -> None:
    program = PROGRAMS[name]
    found = program.expected(program.inputs(quick=True))
    assert np.isfinite(found).all()
    assert found.dtype in (np.float64, np.int64)
    assert [len(given.shape) for given in program.given] == [array.ndim for array in program.inputs(quick=True)]


def test_a_reference_of_its_own_is_the_same() -> None:
    program = PROGRAMS["pairwise"]
    inputs = program.inputs(quick=True)
    assert np.allclose(program.expected(inputs), program.run(in_numpy, *inputs), rtol=1e-4)


def test_words_are_those_of_everybody() -> None:
    assert set(in_numpy.__all__) <= set(vars(in_smelt))


@pytest.mark.slow
@pytest.mark.parametrize("library", ["torch", "jax"])
def test_peers_have_all_words(library: str) -> None:
    pytest.importorskip(library)
    module = import_module(f"smelt.bench.algebra.in_{library}")
    assert set(in_numpy.__all__) <= set(vars(module))


@pytest.mark.parametrize("name", ["lora", "onehot_matmul", "argmax_softmax"])
def test_a_contender_holds_both_versions(name: str, tmp_path: Path) -> None:
    server = Programs("smelt", 1, str(tmp_path), quick=True)
    facts = server.answer(f"case {name} fast")
    assert facts["rules"]
    assert facts["errors"]["max"] < 1e-5
    assert facts["errors_off"]["max"] < 1e-5
    assert facts["seconds"] > 0
    assert len(server.answer("pair")["times"]) == 5
    assert server.answer("2")["seconds"] > 0


@pytest.mark.parametrize("machine", BY_NAME)
@pytest.mark.parametrize("name", ["lora", "argmax_softmax", "max_of_tanh", "log_likelihood"])
def test_these_pay_on_every_processor(name: str, machine: str) -> None:
    program = PROGRAMS[name]
    inputs = [sm.asarray(array) for array in program.inputs(quick=False)]
    key, _ = sm.jit(lambda *args: program.run(in_smelt, *args), contracts="fast").graph_key(*inputs)
    assert any(weighed.rules for weighed in chosen(key, BY_NAME[machine]))


@pytest.mark.parametrize("machine", ["avx2", "avx512", "amx"])  # those that compute exp faster than memory writes
@pytest.mark.parametrize("name", ["nll_by_hand", "picked_probability"])
def test_what_is_picked_from_is_not_stored_where_that_is_dear(name: str, machine: str) -> None:
    program = PROGRAMS[name]
    inputs = [sm.asarray(array) for array in program.inputs(quick=False)]
    key, _ = sm.jit(lambda *args: program.run(in_smelt, *args)).graph_key(*inputs)
    assert any(weighed.rules for weighed in chosen(key, BY_NAME[machine]))


def test_a_contender_of_others_is_compared_too(tmp_path: Path) -> None:
    facts = Programs("numpy", 1, str(tmp_path), quick=True).answer("case scaled_embedding exact")
    assert facts["errors"]["max"] < 1e-5
    assert (tmp_path / "scaled_embedding.npy").exists()


def test_wrong_results_are_refused() -> None:
    assert errors_of(np.array([1, 2]), np.array([1, 2])) == {"max": 0.0}
    with pytest.raises(InternalError, match="wrong"):
        errors_of(np.array([1, 3]), np.array([1, 2]))
    with pytest.raises(InternalError, match="wrong"):
        errors_of(np.array([1.0, 3.0]), np.array([1.0, 2.0]))


class FakeRing(Ring):
    """Contenders that take as long as they are told: smelt half a second for each of the seconds without."""

    times: ClassVar[dict[str, float]] = {}
    different: ClassVar[set[str]] = set()

    def prepare(self, library: str, case: str) -> dict[str, Any]:
        name = case.partition(" ")[0]
        if library not in self.times:
            raise ChildError(f"{library} has no idea")
        errors = {"max": 1e-7, "mean": 1e-8, "l2": 1e-8}
        known = {"rules": ["a_rule"], "same": name not in self.different, "errors": errors, "errors_off": errors}
        return known | {"seconds": self.times[library], "first": 0.1}

    def pair(self) -> Contest:
        return Contest([(self.times["smelt"], 2.0)] * 5)

    def contest(self, first: str, second: str) -> Contest:
        return Contest([(self.times[first], self.times[second])] * 5)


def measured(
    monkeypatch: pytest.MonkeyPatch, times: dict[str, float], contracts: str, *names: str, quick: bool = False
) -> Report:
    monkeypatch.setattr(suite, "ProgramRing", FakeRing)
    monkeypatch.setattr(suite, "installed", lambda name: True)
    monkeypatch.setattr(FakeRing, "times", times)
    return measure_algebra(names, contracts, Asked([1], suite.PEERS, quick=quick))


def test_rows_say_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"smelt": 0.5, "torch": 0.6, "torch.compile": 1.5, "jax": 2.0}
    report = measured(monkeypatch, times, "regroups", "lora", "pairwise")
    row, mean, compilers = report.rows
    assert (row.name, row.figure, row.bar, row.verdict) == ("lora, 1 thread", 4.0, 1.2, Verdict.PASS)
    assert row.columns["to a peer"] == "1.20 × torch"
    assert row.columns["needs"] == "regroups"
    assert row.detail.startswith("a_rule; ")
    assert (mean.figure, mean.bar) == (4.0, None)  # of a part of the programs
    assert compilers.name == "against compilers: geometric mean, 1 thread"
    assert compilers.figure == pytest.approx(3.0)
    assert "--contracts fast: pairwise" in report.text
    heading = table(report.rows).splitlines()[0]
    assert all(name in heading for name in ("at least", "at most", "time", "without", "needs", "to a peer"))
    assert "GFLOP/s" not in heading


def test_bars_hold_for_all_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = measured(monkeypatch, {"smelt": 1.0, "jax": 3.0}, "fast").rows
    assert [row.verdict for row in rows[-2:]] == [Verdict.MISS, Verdict.PASS]
    assert [row.bar for row in rows[-2:]] == [3.0, 2.0]
    assert "torch failed: torch has no idea" in rows[0].detail
    assert len(rows) == len(PROGRAMS) + 2
    quick = measured(monkeypatch, {"smelt": 1.0, "jax": 3.0}, "fast", quick=True).rows
    assert {row.verdict for row in quick} == {Verdict.NONE}


def test_bits_of_all_programs_are_checked_where_results_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = measured(monkeypatch, {"smelt": 1.0}, "exact").rows
    assert [row.name for row in rows[: len(EXACT)]] == [f"{name}, 1 thread" for name in EXACT]
    assert (rows[-1].name, rows[-1].verdict) == ("the same bits as off, 1 thread", Verdict.PASS)
    monkeypatch.setattr(FakeRing, "different", {FAST[0]})
    bits = measured(monkeypatch, {"smelt": 1.0}, "exact").rows[-1]
    assert bits.verdict is Verdict.MISS
    assert bits.detail == f"{len(PROGRAMS) - 1} of {len(PROGRAMS)} programs; different: {FAST[0]}"


def test_a_program_that_smelt_cannot_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    [row, *_] = measured(monkeypatch, {"jax": 1.0}, "regroups", "lora").rows
    assert (row.verdict, row.detail) == (Verdict.FAILED, "smelt: smelt has no idea")


def test_what_was_found_before_an_interrupt_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def pair(self: FakeRing) -> Contest:
        pairs.append(self)
        if len(pairs) > 1:
            raise KeyboardInterrupt
        return Contest([(1.0, 2.0)] * 5)

    pairs: list[FakeRing] = []
    monkeypatch.setattr(FakeRing, "pair", pair)
    report = measured(monkeypatch, {"smelt": 1.0}, "regroups")
    assert [row.figure for row in report.rows] == [2.0, pytest.approx(2.0)]
    assert report.text.endswith("interrupted")
    assert report.failed


def test_programs_that_need_more_alone_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match="no rule for these programs is exact"):
        measured(monkeypatch, {"smelt": 1.0}, "exact", "pairwise")


@pytest.mark.slow
def test_one_program_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["algebra", "--quick", "--only", "lora", "--threads", "1", "--peers", "numpy", "--json", "-"]
    assert command.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert [result["name"] for result in found["results"]] == ["lora, 1 thread", "geometric mean, 1 thread"]
    [program] = found["programs"]["1"]
    assert program["rules"] == ["product_regrouped"]
    assert program["ratio"]["low"] > 0


@pytest.mark.parametrize("words", [["--contracts", "off"], ["--only", "lara"]])
def test_unknown_words_are_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        command.main(["algebra", *words])
    assert stop.value.code == 2
    assert capsys.readouterr().out == ""


def test_help_lists_the_programs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        command.main(["algebra", "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert all(name in text for name in PROGRAMS)
    assert "examples:" in text


@pytest.mark.parametrize("name", by_hand.PAIRS)
def test_what_is_written_by_hand_gives_the_same(name: str) -> None:
    (row,) = by_hand.measure_pair(name, quick=True)
    assert row.figure is not None and row.bar is None

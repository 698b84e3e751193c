"""Which rule wins on which program: what a contender answers, rows, and what is said of rules that do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import smelt as sm
from smelt.bench import command, suites
from smelt.bench.algebra import each_rule
from smelt.bench.algebra.contender import Programs, rules_used, weighed
from smelt.bench.algebra.each_rule import Met, losers, measure_rules
from smelt.bench.contest import Contest
from smelt.bench.cpu.suite import Asked, Ring
from smelt.bench.report import Report, Verdict
from smelt.bench.timing import ChildError
from smelt.egraph import RULES, rules_for
from smelt.rewrite import Contract
from smelt.stated import stated, without


def test_a_rule_is_left_out_of_what_is_traced_meanwhile() -> None:
    before = stated()
    with without("product_regrouped"):
        left = rules_for(Contract.FAST, stated())
        assert {rule.name for rule in RULES} - {rule.name for rule in left} == {"product_regrouped"}
        with without("common_factor"):
            assert len(rules_for(Contract.FAST, stated())) == len(RULES) - 2
    assert stated() == before
    assert rules_for(Contract.FAST, before) == RULES


def test_the_same_function_has_another_plan_without_a_rule() -> None:
    held = [sm.ones((8, 256)), sm.ones((256, 2)), sm.ones((2, 256))]

    def used() -> list[str]:
        return rules_used(weighed(sm.jit(lambda x, a, b: x @ (a @ b), contracts="regroups"), held))

    assert used() == ["product_regrouped"]
    with without("product_regrouped"):
        assert used() == []


def test_a_contender_says_what_a_plan_depends_on(tmp_path: Path) -> None:
    server = Programs("smelt", 1, str(tmp_path), quick=True)
    server.answer("case pooled_head regroups")
    assert set(server.answer("needed")["needed"]) == {"sum_terms", "sum_factors_first"}
    facts = server.answer("without sum_terms")
    assert facts["rules"] == []
    assert facts["errors"]["max"] < 1e-5
    assert len(server.answer("pair")["times"]) == 5


class FakeRing(Ring):
    """Programs that are twice as fast with the first rule, and as fast with the second."""

    def prepare(self, library: str, case: str) -> dict[str, Any]:
        if case.startswith("adapter"):
            raise ChildError("no memory\nat all")
        return {"rules": ["common_factor", "product_regrouped", "sum_terms"], "errors": {"max": 0.0}}

    def ask(self, library: str, text: str) -> dict[str, Any]:
        self.last = text
        return {"needed": ["product_regrouped", "common_factor"]} if text == "needed" else {"rules": []}

    def pair(self) -> Contest:
        return Contest([(1.0, 2.0 if self.last == "without product_regrouped" else 1.0)] * 5)


def measured(monkeypatch: pytest.MonkeyPatch, *names: str) -> tuple[Report, list[str]]:
    progress: list[str] = []
    monkeypatch.setattr(each_rule, "ProgramRing", FakeRing)
    return measure_rules(names, "regroups", Asked([1], progress=progress.append)), progress


def test_rows_and_what_wins_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    report, progress = measured(monkeypatch, "lora")
    assert [(row.name, row.figure) for row in report.rows] == [
        ("common_factor: lora, 1 thread", 1.0),
        ("product_regrouped: lora, 1 thread", 2.0),
    ]
    assert report.rows[0].detail == "without it: as it is written"
    assert "1 thread: 1 rules win on some program" in report.text
    nowhere = report.extra["rules"]["1"]["nowhere"]
    assert nowhere["common_factor"] == "at most 1.00 times as fast with it, lora"
    assert nowhere["sum_terms"] == "others lead to the same program: lora"
    assert nowhere["multiply_out"] == "no program has another plan without it"
    assert "product_regrouped" not in nowhere
    assert "one_exponential" not in nowhere  # which the contract does not allow
    assert [one["wins"] for one in report.extra["rules"]["1"]["met"]] == [False, True]
    assert progress[0].startswith("[1/1] lora: ")
    json.dumps(report.extra)


def test_a_program_that_cannot_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    report, _ = measured(monkeypatch, "adapter", "lora")
    assert len(report.rows) == 3
    assert (report.rows[0].verdict, report.rows[0].detail) == (Verdict.FAILED, "no memory")


def test_the_best_program_speaks_for_a_rule() -> None:
    met = [Met("sum_terms", name, {}, pair=Contest([(1.0, ratio)] * 5)) for name, ratio in (("a", 0.9), ("b", 1.06))]
    assert "sum_terms" not in losers(RULES, met, {})
    assert losers(RULES, met[:1], {})["sum_terms"] == "at most 0.90 times as fast with it, a"


def test_the_command_says_at_once_what_it_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(names: Any, contracts: str, asked: Asked) -> Report:
        captured = capsys.readouterr()
        assert captured.err.startswith("algebra: ")
        assert captured.out == ""
        return Report([], text=f"{list(names)} {contracts}")

    monkeypatch.setattr(suites, "measure_rules", measure)
    assert command.main(["algebra", "--rules", "--contracts", "fast", "--only", "lora"]) == 0
    assert "['lora'] fast" in capsys.readouterr().out

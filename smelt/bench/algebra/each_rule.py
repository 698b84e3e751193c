"""Which rule wins on which program: each with all rules of a contract, and with all but one."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from smelt.bench.algebra.programs import PROGRAMS
from smelt.bench.algebra.suite import ProgramRing, first_line
from smelt.bench.contest import Contest
from smelt.bench.cpu.suite import Asked
from smelt.bench.report import Report, Row, threads_text, time_text
from smelt.bench.timing import ChildError
from smelt.egraph import rules_for
from smelt.rewrite import Contract, Rule

WINS: Final = 1.05  # times as fast with a rule as without it


@dataclass
class Met:
    """A program with a rule, and with all others; without a pair it failed."""

    rule: str
    program: str
    facts: Mapping[str, Any]  # of the program with all rules
    others: Sequence[str] = ()  # the rules that take its place
    pair: Contest | None = None
    failed: str = ""

    @property
    def ratio(self) -> float:
        """How many times as fast the program is with the rule; 0 if that is not known."""
        return 0.0 if self.pair is None else self.pair.ratio.median

    @property
    def wins(self) -> bool:
        """Whether the rule makes the program clearly faster, and that is no chance."""
        return self.pair is not None and self.ratio >= WINS and self.pair.ratio.low > 1

    def row(self, threads: int) -> Row:
        """For the table."""
        title = f"{self.rule}: {self.program}, {threads_text(threads)}"
        if self.pair is None:
            return Row(title, None, "×", detail=self.failed)
        known = self.pair.measured(threads=threads, against="all others", errors=self.facts["errors"])
        columns = {"at most": f"{self.pair.ratio.high:.2f}", "without": time_text(self.pair.second.median)}
        instead = f"without it: {', '.join(self.others) or 'as it is written'}"
        return Row(title, self.ratio, "×", detail=instead, measured=known, columns=columns)

    def json(self) -> dict[str, Any]:
        """As plain data."""
        known: dict[str, Any] = {"rule": self.rule, "program": self.program, "others": list(self.others)}
        if self.pair is not None:
            known |= {"with": self.pair.first._asdict(), "without": self.pair.second._asdict()}
            known |= {"ratio": self.pair.ratio._asdict(), "wins": self.wins}
        return known | {"failed": self.failed or None}


def measure_rules(names: Sequence[str], contracts: str, asked: Asked) -> Report:
    """A row for each rule and each program that would be another one without it. Ctrl-C ends it early."""
    found, extra, texts = Report([]), dict[str, Any](), list[str]()
    with tempfile.TemporaryDirectory(prefix="smelt-bench-", ignore_cleanup_errors=True) as folder:
        for threads in asked.threads:
            met: list[Met] = []
            named: dict[str, list[str]] = {}
            try:
                with ProgramRing(threads, folder, asked.quick) as ring:
                    for number, name in enumerate(names or PROGRAMS, 1):
                        asked.progress(f"[{number}/{len(names or PROGRAMS)}] {name}: {PROGRAMS[name].summary}")
                        met += _program(ring, name, contracts, named, asked)
            except KeyboardInterrupt:
                found.failed = True
            met.sort(key=lambda one: (one.rule, -one.ratio))
            found.rows += [one.row(threads) for one in met]
            idle = losers(rules_for(Contract(contracts)), met, named)
            extra[str(threads)] = {"met": [one.json() for one in met], "nowhere": idle}
            winners = {one.rule for one in met if one.wins}
            texts.append(f"{threads_text(threads)}: {len(winners)} rules win on some program ({WINS} or more)")
            texts += [f"  nowhere: {rule}: {why}" for rule, why in idle.items()]
            if found.failed:
                texts.append("interrupted")
                break
    found.extra = {"contracts": contracts, "rules": extra}
    found.text = "\n".join(texts)
    return found


def _program(ring: ProgramRing, name: str, contracts: str, named: dict[str, list[str]], asked: Asked) -> list[Met]:
    """A program against itself without each of the rules that it depends on."""
    facts: Mapping[str, Any] = {}
    try:
        facts = ring.prepare("smelt", f"{name} {contracts}")
        needed: list[str] = ring.ask("smelt", "needed")["needed"]
    except ChildError as error:
        return [Met("all rules", name, facts, failed=first_line(error))]
    for rule in facts["rules"]:
        named.setdefault(rule, []).append(name)
    met = []
    for rule in needed:
        asked.progress(f"  without {rule}")
        try:
            others = ring.ask("smelt", f"without {rule}")["rules"]
            met.append(Met(rule, name, facts, others, ring.pair()))
        except ChildError as error:
            return [*met, Met(rule, name, facts, failed=first_line(error))]  # the contender is gone
    return met


def losers(rules: Sequence[Rule], met: Sequence[Met], named: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The rules that win on no program, and what can be said of them."""
    found: dict[str, str] = {}
    for rule in rules:
        own = [one for one in met if one.rule == rule.name]
        best = max(own, key=lambda one: one.ratio, default=None)
        if any(one.wins for one in own):
            continue
        if best is not None:
            found[rule.name] = f"at most {best.ratio:.2f} times as fast with it, {best.program}"
        elif rule.name in named:
            found[rule.name] = f"others lead to the same program: {', '.join(named[rule.name])}"
        else:
            found[rule.name] = "no program has another plan without it"
    return found

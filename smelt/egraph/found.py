"""What was found for an island, and how later processes find it again.

A file may have been written by anybody: graphs are parsed and have to fit the island, and what is no plan is ignored.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any, Final, NamedTuple

from smelt.diskcache import disk_cache
from smelt.egraph.islands import Frozen
from smelt.egraph.saturate import Report, Spent
from smelt.errors import SmeltError
from smelt.graph import Op, topological
from smelt.graph.text import parse_graph, print_graph
from smelt.kernel import Illegal

PAYS: Final = 0.85  # of the price of a program as it was written: without a measurement, only clear gains are taken
_KIND: Final = "plans"  # in the disk cache


class Alternative(NamedTuple):
    """A program that is equal to an island, the rules that led to it, and what it costs."""

    outputs: Frozen
    rules: tuple[str, ...]
    seconds: float


class Plan(NamedTuple):
    """What was found for an island: all candidates, cheapest first; among them, as it was written."""

    before: float
    alternatives: tuple[Alternative, ...]
    report: Report

    @property
    def chosen(self) -> Alternative | None:
        """The best one, if it is clearly better than what was written."""
        best = min(self.alternatives, key=lambda one: one.seconds, default=None)
        return best if best is not None and best.seconds <= PAYS * self.before else None

    def numbered(self, answer: int) -> Alternative | None:
        """The program with a number: 1 is as it is written, then come the alternatives."""
        if not 1 <= answer <= 1 + len(self.alternatives):
            raise Illegal(f"equal: an island has {1 + len(self.alternatives)} programs")
        return self.alternatives[answer - 2] if answer > 1 else None


def name_of(*parts: object) -> str:
    """The name of a plan on disk."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def store(name: str, island: Frozen, plan: Plan) -> None:
    """Keep a plan on disk."""
    cache = disk_cache()
    if cache is None:
        return
    given = island.leaves()
    entries = []
    for one in plan.alternatives:
        outputs = one.outputs.over(given)
        read = [given.index(node) for node in topological(outputs) if node.op is Op.LEAF]
        entries.append({"graph": print_graph(outputs), "inputs": read, "rules": one.rules, "seconds": one.seconds})
    report = plan.report
    spent = {rule: [x.matches, x.unions, x.seconds] for rule, x in report.rules.items()}
    end = [report.end, report.turns, report.forms]
    whole = {"before": plan.before, "found": entries, "end": end, "rules": spent}
    cache.store_bytes(_KIND, name, json.dumps(whole).encode())


def load(name: str, island: Frozen) -> Plan | None:
    """The plan of an island that was kept under a name."""
    cache = disk_cache()
    data = None if cache is None else cache.load_bytes(_KIND, name)
    if data is None:
        return None
    try:
        whole = json.loads(data)
        report = Report()
        report.end, report.turns, report.forms = str(whole["end"][0]), int(whole["end"][1]), int(whole["end"][2])
        for rule, (matches, unions, seconds) in whole["rules"].items():
            spent = report.rules[rule] = Spent()
            spent.matches, spent.unions, spent.seconds = int(matches), int(unions), float(seconds)
        return Plan(_seconds(whole["before"]), tuple(_alternative(one, island) for one in whole["found"]), report)
    except (SmeltError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return None


def _alternative(entry: Any, island: Frozen) -> Alternative:
    given = island.leaves()
    outputs = parse_graph(entry["graph"], [given[number] for number in entry["inputs"]])
    types = [*island.inputs, *((dtype, shape) for _, dtype, shape, *_ in island.nodes)]
    if [(node.dtype, node.shape) for node in outputs] != [types[number] for number in island.outputs]:
        raise ValueError("another graph")
    nodes = [node for node in topological(outputs) if node not in given]
    rules = tuple(str(rule) for rule in entry["rules"])
    return Alternative(Frozen.of(nodes, given, outputs), rules, _seconds(entry["seconds"]))


def _seconds(value: Any) -> float:
    seconds = float(value)
    if not 0 <= seconds < math.inf:
        raise ValueError("no time")
    return seconds

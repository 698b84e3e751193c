"""Saturation: rules are applied to all forms of all classes, again and again, until nothing is new or the fuel is used.

What rules find is added, nothing is replaced, so their order does not matter and none can spoil what another needs. In
each turn they only look at what has changed since the last one. Fuel is counted in matches and forms, never in
seconds: the same graph gives the same classes on every machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from smelt.egraph.classes import EGraph
from smelt.graph import Node, with_sources
from smelt.rewrite import Key, Pattern, Rule, key_of, keys_of, rewrite

COMMUTATIVE: Final = frozenset({"add", "mul", "max", "min"})


class Fuel(NamedTuple):
    """How much saturation may do."""

    turns: int = 10
    forms: int = 2_000  # in all classes
    matches: int = 300  # of one rule in one turn


FUEL: Final = Fuel()


class Spent:
    """What one rule has done: nodes that it was shown and made something of, and classes that it made one."""

    __slots__ = ("matches", "seconds", "unions")

    def __init__(self) -> None:
        self.matches, self.unions, self.seconds = 0, 0, 0.0


class Report:
    """Why saturation ended (`saturated`, or which fuel was used up), after how many turns, and what each rule did."""

    def __init__(self) -> None:
        self.end, self.turns, self.forms = "turns", 0, 0
        self.left_out = False  # some rule had more matches in a turn than it may have
        self.rules: dict[str, Spent] = {}

    def __str__(self) -> str:
        end = "nothing new" if self.end == "saturated" else f"no fuel left ({self.end})"
        lines = [f"{end} after {self.turns} turns, with {self.forms} forms"]
        used = {name: spent for name, spent in self.rules.items() if spent.matches}
        rows = sorted(used.items(), key=lambda row: -row[1].matches)
        lines += [f"  {name}: {x.matches} matches, {x.unions} unions, {1e3 * x.seconds:.2f} ms" for name, x in rows]
        return "\n".join(lines)


def saturate(graph: EGraph, rules: Sequence[Rule], fuel: Fuel = FUEL) -> Report:
    """Apply rules to a graph; says what they have done."""
    table: dict[Key, list[Rule]] = {}
    for rule in rules:
        for key in keys_of(rule):
            table.setdefault(key, []).append(rule)
    depth = 1 + max((pattern.depth for rule in rules for pattern in rule.over if pattern is not None), default=0)
    report, since = Report(), 0
    tried: Tried = {}
    for _ in range(fuel.turns):
        report.turns += 1
        places = graph.changed(since, depth)
        graph.turn = since = graph.turn + 1
        before = len(graph), graph.unions
        learned = graph.learned
        found = _found(graph, [node for node in graph.classes if node in places], table, tried, fuel, report)
        report.end = _applied(graph, found, fuel, report)
        report.forms = len(graph)
        if report.end:
            return report
        if before == (len(graph), graph.unions):
            report.end = "matches" if report.left_out else "saturated"
            return report
        if graph.learned != learned:
            tried = {shown: made for shown, made in tried.items() if made}  # rules that know more may find more there
    report.end = "turns"
    return report


Tried = dict[tuple[Rule, Node, Node], bool]  # whether a rule has made something of a form, as it was shown
Found = list[tuple[Rule, Node, Node]]  # a rule, what stands for the class that it looked at, and what that equals


def _found(
    graph: EGraph,
    places: Sequence[Node],
    table: dict[Key, list[Rule]],
    tried: Tried,
    fuel: Fuel,
    report: Report,
) -> Found:
    """What rules make of the classes at these places."""
    found: Found = []
    matched: dict[Rule, int] = {}
    for place in places:
        for form in graph.classes[place].forms:
            for rule in table.get(key_of(form), ()):
                start = time.perf_counter()
                spent = report.rules.setdefault(rule.name, Spent())
                for node in _instances(graph, form, rule.over):
                    if (rule, form, node) in tried:
                        continue
                    if matched.get(rule, 0) >= fuel.matches:
                        report.left_out = True
                        break
                    after = rule.function(node)
                    tried[rule, form, node] = after is not None
                    if after is not None:
                        matched[rule] = matched.get(rule, 0) + 1
                        spent.matches += 1
                        found.append((rule, place, after))
                spent.seconds += time.perf_counter() - start
    return found


def _applied(graph: EGraph, found: Found, fuel: Fuel, report: Report) -> str:
    """Enter what was found; says which fuel was used up, if one was."""
    end = ""
    for rule, place, after in found:
        start = time.perf_counter()
        spent = report.rules[rule.name]
        graph.reason = rule.name
        spent.unions += graph.union(place, graph.add(*rewrite([after])), rule.name)
        spent.seconds += time.perf_counter() - start
        if len(graph) > fuel.forms:
            end = "forms"
            break
    graph.reason = ""
    graph.rebuild()
    return end


def _instances(graph: EGraph, form: Node, over: Sequence[Pattern | None]) -> Iterator[Node]:
    """A form with its sources in all forms that a pattern asks for."""
    if not any(over):
        yield form
        return
    orders = [form.sources]
    if key_of(form) in COMMUTATIVE and (len(over) < 2 or over[0] != over[1]):
        orders.append(form.sources[::-1])
    for sources in dict.fromkeys(orders):
        for chosen in _choices(graph, sources, over):
            yield with_sources(form, chosen)


def _choices(graph: EGraph, sources: Sequence[Node], over: Sequence[Pattern | None]) -> Iterator[tuple[Node, ...]]:
    """Forms of some sources, those that patterns ask for."""
    if not sources:
        yield ()
        return
    pattern = over[0] if over else None
    firsts = [sources[0]] if pattern is None else list(_forms(graph, sources[0], pattern))
    for first in firsts:
        for rest in _choices(graph, sources[1:], over[1:]):
            yield (first, *rest)


def _forms(graph: EGraph, node: Node, pattern: Pattern) -> Iterator[Node]:
    for form in list(graph.class_of(node).forms):
        if key_of(form) == pattern.key:
            yield from _instances(graph, form, pattern.sources)

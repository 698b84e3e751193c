"""Saturation: rules are applied to all forms of all classes, again and again, until nothing is new or the fuel is used.

What rules find is added, nothing is replaced, so their order does not matter and none can spoil what another needs. In
each turn they only look at what has changed since the last one. Fuel is counted in matches and forms, never in
seconds: the same graph gives the same classes on every machine.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from smelt.egraph.classes import COMMUTATIVE, EGraph
from smelt.graph import Node, with_sources
from smelt.rewrite import Key, Pattern, Rule, Sources, keys_of, rewrite

REMEMBERED: Final = 4096  # keys of forms and their sources

T = TypeVar("T")


def orders_of(key: Key, sources: tuple[T, ...]) -> tuple[tuple[T, ...], ...]:
    """The orders of the sources of a node in which rules may see them."""
    return (sources, sources[::-1]) if key in COMMUTATIVE else (sources,)


class Fuel(NamedTuple):
    """How much saturation may do."""

    turns: int = 6
    forms: int = 2_000  # in all classes
    matches: int = 300  # of one rule in one turn
    more: int = 4  # turns of a graph that is still small then: a pick goes one operation deeper in each
    small: int = 200  # forms of such a graph


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
    table = _table(tuple(rules))
    report, since = Report(), 0
    tried: Tried = {}
    entered: dict[Node, Node] = {}  # what rules gave, by what stood for its class
    while report.turns < fuel.turns + (fuel.more if len(graph) <= fuel.small else 0):
        report.turns += 1
        steps = graph.changed(since, table.depth)
        graph.turn = since = graph.turn + 1
        before = len(graph), graph.unions
        learned = graph.learned
        found = _found(graph, steps, table, tried, fuel, report)
        report.end = _applied(graph, found, entered, fuel, report)
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


_Row = tuple[Rule, int, Sources]  # how deep it looks, and what the sources have to be


class Table:
    """Rules by what they are looked up by, each with how deep it looks: through the forms of its patterns, and at what
    is known of the sources of these.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules: dict[Key, list[_Row]] = {}
        for rule in rules:
            depth = max((pattern.depth for pattern in rule.patterns), default=1)
            for key in keys_of(rule):
                self.rules.setdefault(key, []).extend((rule, depth, over) for over in rule.below(key))
        self.depth = max((depth for found in self.rules.values() for _, depth, _ in found), default=0)
        self._likely: dict[tuple[Key, tuple[frozenset[Key], ...]], list[_Row]] = {}

    def likely(self, key: Key, below: tuple[frozenset[Key], ...]) -> list[_Row]:
        """Those that may match where sources have forms with these keys: few of all, and often asked for."""
        found = self._likely.get((key, below))
        if found is None:
            orders = orders_of(key, below)
            found = [row for row in self.rules.get(key, ()) if any(_may_match(row[2], keys) for keys in orders)]
            if len(self._likely) >= REMEMBERED:
                self._likely.clear()
            self._likely[key, below] = found
        return found


def _may_match(over: Sources, below: Sequence[frozenset[Key]]) -> bool:
    return not any(pattern and pattern.keys.isdisjoint(keys) for pattern, keys in zip(over, below, strict=False))


_table = functools.lru_cache(maxsize=64)(Table)


Tried = dict[tuple[Rule, Node, tuple[Node, ...]], bool]  # whether a rule has made something of a form over such sources
Found = list[tuple[Rule, Node, Node]]  # a rule, what stands for the class that it looked at, and what that equals


def _found(graph: EGraph, steps: Mapping[Node, int], table: Table, tried: Tried, fuel: Fuel, report: Report) -> Found:
    """What rules make of the classes at these places, each so many steps above one that has changed."""
    found: Found = []
    matched: dict[Rule, int] = {}
    for place in filter(steps.__contains__, graph.classes):
        for form, key in graph.classes[place].forms.items():
            for rule, depth, over in table.likely(key, tuple([graph.classes[source].keys for source in form.sources])):
                if steps[place] > depth:
                    continue
                start = time.perf_counter()
                spent = report.rules.setdefault(rule.name, Spent())
                for sources in _instances(graph, key, form.sources, over):
                    if (rule, form, sources) in tried:
                        continue
                    if matched.get(rule, 0) >= fuel.matches:
                        report.left_out = True
                        break
                    after = rule.function(with_sources(form, sources))
                    tried[rule, form, sources] = after is not None
                    if after is not None:
                        matched[rule] = matched.get(rule, 0) + 1
                        spent.matches += 1
                        found.append((rule, place, after))
                spent.seconds += time.perf_counter() - start
    return found


def _applied(graph: EGraph, found: Found, entered: dict[Node, Node], fuel: Fuel, report: Report) -> str:
    """Enter what was found; says which fuel was used up, if one was."""
    end = ""
    for rule, place, after in found:
        start = time.perf_counter()
        spent = report.rules[rule.name]
        graph.reason = rule.name
        if after not in entered:
            entered[after] = graph.add(*rewrite([after]))
        spent.unions += graph.union(place, entered[after], rule.name)
        spent.seconds += time.perf_counter() - start
        if len(graph) > fuel.forms:
            end = "forms"
            break
    graph.reason = ""
    graph.rebuild()
    return end


def _instances(graph: EGraph, key: Key, sources: tuple[Node, ...], over: Sources) -> Iterator[tuple[Node, ...]]:
    """The sources of a form, in all forms that patterns ask for."""
    if not any(over):
        yield sources
        return
    orders = (sources,) if len(over) > 1 and over[0] == over[1] else orders_of(key, sources)
    for order in dict.fromkeys(orders):
        choices: list[Sequence[Node]] = []
        for source, pattern in itertools.zip_longest(order, over[: len(order)]):
            choices.append((source,) if pattern is None else list(_forms(graph, source, pattern)))
            if not choices[-1]:
                break
        else:
            yield from itertools.product(*choices)


def _forms(graph: EGraph, node: Node, pattern: Pattern) -> Iterator[Node]:
    for key, forms in graph.classes[node].keyed.items():
        for form in forms if key in pattern.keys else ():
            for sources in _instances(graph, key, form.sources, pattern.sources):
                yield with_sources(form, sources)

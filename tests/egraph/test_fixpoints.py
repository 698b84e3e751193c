"""Congruence and saturation against egglog: on random terms both decide the same equalities."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any

import pytest

from smelt import dtypes
from smelt.config import configure
from smelt.egraph import Fuel
from smelt.egraph.classes import EGraph
from smelt.egraph.saturate import saturate
from smelt.graph import Node, Op, build, topological
from smelt.rewrite import FAMILIES, Contract, Family
from tests.rewrite.growing import leaf

# Functions that stand for any: none of the greedy rules knows them, as all are switched off.
UNARY = {"sin": "F", "cos": "K"}
BINARY = {"sub": "H", "atan2": "G"}
LEAVES = 3
TERMS = 7

family = Family("tests")


@family.rule(("sin", "sin"))
def twice(node: Node, x: Node) -> Node | None:
    """F(F(x)) → x."""
    return x.sources[0]


@family.rule("sub")
def turned(node: Node) -> Node | None:
    """H(x, y) → H(y, x)."""
    return build.sub(*node.sources[::-1])


@family.rule(("sin", "sub"))
def moved_in(node: Node, x: Node) -> Node | None:
    """F(H(x, y)) → H(F(x), y)."""
    a, b = x.sources
    return build.sub(build.unary("sin", a), b)


@family.rule("atan2")
def same(node: Node) -> Node | None:
    """G(x, x) → x."""
    a, b = node.sources
    return a if a is b else None


@family.rule(("atan2", "atan2", None))
def to_the_right(node: Node, x: Node, z: Node) -> Node | None:
    """G(G(x, y), z) → G(x, G(y, z))."""
    a, b = x.sources
    return build.binary("atan2", a, build.binary("atan2", b, z))


@family.rule(("sub", ("cos",), ("cos",)))
def together(node: Node, x: Node, y: Node) -> Node | None:
    """H(K(x), K(y)) → K(H(x, y))."""
    return build.unary("cos", build.sub(x.sources[0], y.sources[0]))


RULES = {
    "twice": "(rewrite (F (F x)) x)",
    "turned": "(rewrite (H x y) (H y x))",
    "moved_in": "(rewrite (F (H x y)) (H (F x) y))",
    "same": "(rewrite (G x x) x)",
    "to_the_right": "(rewrite (G (G x y) z) (G x (G y z)))",
    "together": "(rewrite (H (K x) (K y)) (K (H x y)))",
}


class Terms:
    """Random terms over a few inputs, as nodes and as egglog writes them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.pool = [leaf(dtypes.float32) for _ in range(LEAVES)]
        self.names = {node: f"(V {number})" for number, node in enumerate(self.pool)}
        for _ in range(TERMS):
            self.grow()

    def grow(self) -> None:
        a, b = (self.random.choice(self.pool[-4:] + self.pool[:LEAVES]) for _ in range(2))
        if self.random.random() < 0.5:
            name = self.random.choice(list(UNARY))
            node = build.unary(name, a)
            self.names[node] = f"({UNARY[name]} {self.names[a]})"
        else:
            name = self.random.choice(list(BINARY))
            node = build.binary(name, a, b)
            self.names[node] = f"({BINARY[name]} {self.names[a]} {self.names[b]})"
        self.pool.append(node)

    def pairs(self, count: int) -> list[tuple[Node, Node]]:
        return [(self.random.choice(self.pool), self.random.choice(self.pool)) for _ in range(count)]


def egglog() -> Any:
    return pytest.importorskip("egglog.bindings", reason="needs egglog: pip install egglog")


def decided(terms: Terms, unions: list[tuple[Node, Node]], rules: list[str]) -> set[tuple[Node, Node]]:
    """The pairs of terms that egglog finds equal."""
    bindings = egglog()
    graph = bindings.EGraph()
    lines = ["(datatype T (V i64) (F T) (K T) (H T T) (G T T))", *(RULES[name] for name in rules)]
    lines += [f"(let $t{number} {terms.names[node]})" for number, node in enumerate(terms.pool)]
    lines += [f"(union {terms.names[a]} {terms.names[b]})" for a, b in unions]
    lines += ["(run 30)"]
    graph.run_program(*graph.parse_program("\n".join(lines)))
    found = set()
    for (i, a), (j, b) in combinations(enumerate(terms.pool), 2):
        try:
            graph.run_program(*graph.parse_program(f"(check (= $t{i} $t{j}))"))
        except bindings.EggSmolError:
            continue
        found.add((a, b))
    return found


def equal(graph: EGraph, places: dict[Node, Node], terms: Terms) -> set[tuple[Node, Node]]:
    found = {node: graph.find(places[node]) for node in terms.pool}
    return {(a, b) for a, b in combinations(terms.pool, 2) if found[a] is found[b]}


def entered(terms: Terms, unions: list[tuple[Node, Node]]) -> tuple[EGraph, dict[Node, Node]]:
    graph = EGraph()
    places = {node: graph.add(node) for node in terms.pool}
    for a, b in unions:
        graph.union(places[a], places[b], "a test")
    graph.rebuild()
    return graph, places


@pytest.mark.parametrize("seed", range(20))
def test_congruence_is_what_egglog_finds(seed: int) -> None:
    egglog()
    terms = Terms(seed)
    unions = terms.pairs(1 + seed % 3)
    graph, places = entered(terms, unions)
    assert equal(graph, places, terms) == decided(terms, unions, [])


@pytest.mark.parametrize("seed", range(40))
def test_saturation_is_what_egglog_finds(seed: int) -> None:
    egglog()
    terms = Terms(1000 + seed)
    unions = terms.pairs(seed % 2)
    names = terms.random.sample(list(RULES), terms.random.choice((1, 2, 2, 3)))
    rules = [rule for rule in family.rules if rule.name in names]
    assert {rule.contract for rule in rules} == {Contract.EXACT}
    graph, places = entered(terms, unions)
    with configure(disabled_rules=frozenset(FAMILIES)):
        report = saturate(graph, rules, Fuel(turns=30, forms=4000, matches=4000))
    if report.end != "saturated":
        pytest.skip("has no end")
    assert equal(graph, places, terms) == decided(terms, unions, names)


def test_the_rules_are_in_both_languages() -> None:
    assert {rule.name for rule in family.rules} == set(RULES)
    assert all(node.op in (Op.LEAF, Op.UNARY, Op.BINARY) for node in topological(Terms(0).pool))

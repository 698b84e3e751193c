"""Extraction against exact answers: all choices, and an integer program. Never a cycle, never worse than before."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise, product
from random import Random
from typing import NamedTuple

import pytest

from smelt import dtypes
from smelt.egraph import Fuel, Planner, rules_for
from smelt.egraph.classes import EGraph
from smelt.egraph.extract import Chosen, Priced, Table, Term, built, extract, keeps_extremes, priced, used
from smelt.egraph.saturate import saturate
from smelt.graph import Node, build
from smelt.rewrite import Contract
from tests.egraph.examples import argmax, matmul
from tests.egraph.flops import FLOPS, flops, total
from tests.egraph.programs import random_choice
from tests.rewrite.growing import leaf
from tests.rewrite.sampling import inputs, run

f32 = dtypes.float32
DRAWS = 80
pytestmark = pytest.mark.usefixtures("nothing_on_disk")


class Puzzle(NamedTuple):
    """Classes with forms; the first form of each class reads only classes before it."""

    table: Table
    roots: list[Node]
    first: dict[Node, Node]

    def price(self) -> float:
        """As it was."""
        chosen = {place: rows[0] for place, rows in self.table.items()}
        return cost(chosen, self.roots)


def puzzle(seed: int, classes: int) -> Puzzle:
    """Random classes that read one another, also around in circles."""
    random = Random(seed)
    places = [leaf(f32) for _ in range(classes)]
    table: Table = {}
    for number, place in enumerate(places):
        rows = []
        for form in range(random.choice((1, 2, 2, 3))):
            below = places[:number] if form == 0 or random.random() < 0.6 else places
            others = [x for x in below if x is not place]
            reads = tuple(random.sample(others, min(len(others), random.choice((0, 1, 2, 2, 3)) if number > 1 else 1)))
            rows.append(Priced(leaf(f32), float(random.choice((0, 1, 2, 3, 5, 8, 13))), reads))
        table[place] = rows
    roots = places[-random.choice((1, 2)) :]
    return Puzzle(table, roots, {place: rows[0].form for place, rows in table.items()})


def is_acyclic(chosen: Chosen, roots: Sequence[Node]) -> bool:
    """By peeling off what reads nothing that is left."""
    left = set()
    stack = list(roots)
    while stack:
        place = stack.pop()
        if place not in left:
            left.add(place)
            stack += chosen[place].reads
    while left:
        ready = {place for place in left if not left.intersection(chosen[place].reads)}
        if not ready:
            return False
        left -= ready
    return True


def cost(chosen: Chosen, roots: Sequence[Node]) -> float:
    return sum(chosen[place].price for place in used(chosen, roots))


@cache
def tried(seed: int, classes: int) -> float:
    """The least cost of all choices."""
    table, roots, _ = puzzle(seed, classes)
    best = float("inf")
    for rows in product(*table.values()):
        chosen = dict(zip(table, rows, strict=True))
        if is_acyclic(chosen, roots):
            best = min(best, cost(chosen, roots))
    return best


def solved(drawn: Puzzle) -> float:
    """The least cost by an integer program: forms are chosen or not, and chosen ones come after what they read."""
    highspy = pytest.importorskip("highspy", reason="needs HiGHS, the solver: pip install highspy")
    table, roots, _ = drawn
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    places = {place: solver.addBinary() for place in table}
    levels = {place: solver.addVariable(0, len(table)) for place in table}
    objective = 0
    for place, rows in table.items():
        forms = [solver.addBinary() for _ in rows]
        solver.addConstr(sum(forms) == places[place])
        for row, form in zip(rows, forms, strict=True):
            objective = objective + row.price * form
            for read in row.reads:
                solver.addConstr(form <= places[read])
                solver.addConstr(levels[read] + 1 <= levels[place] + (len(table) + 1) * (1 - form))
    for root in roots:
        solver.addConstr(places[root] == 1)
    solver.minimize(objective)
    return float(solver.getInfo().objective_function_value)


def extracted(drawn: Puzzle, most: int = 6) -> list[Term]:
    terms = extract(drawn.table, drawn.roots, drawn.first, most)
    for term in terms:
        assert is_acyclic(term.chosen, drawn.roots)
        assert term.cost == pytest.approx(cost(term.chosen, drawn.roots))
    return terms


def test_terms_are_nearly_always_the_cheapest_of_all() -> None:
    best = 0
    for seed in range(DRAWS):
        drawn = puzzle(seed, 7)
        found = extracted(drawn)[0].cost
        assert tried(seed, 7) - 1e-6 <= found <= drawn.price() + 1e-6
        best += found <= tried(seed, 7) + 1e-6
    assert best >= 0.9 * DRAWS


def test_the_integer_program_finds_what_trying_all_finds() -> None:
    for seed in range(12):
        assert solved(puzzle(seed, 7)) == pytest.approx(tried(seed, 7), abs=1e-6)


def test_larger_terms_are_nearly_always_those_of_an_integer_program() -> None:
    count, best = 24, 0
    for seed in range(100, 100 + count):
        drawn = puzzle(seed, 20)
        found, least = extracted(drawn)[0].cost, solved(drawn)
        assert least - 1e-6 <= found <= drawn.price() + 1e-6
        best += found <= least + 1e-6
    assert best >= 0.9 * count


def test_terms_are_sorted_distinct_and_no_more_than_asked_for() -> None:
    for seed in range(10):
        terms = extracted(puzzle(seed, 9), most=3)
        assert 1 <= len(terms) <= 3
        assert [term.cost for term in terms] == sorted(term.cost for term in terms)


def test_what_is_shared_is_paid_once() -> None:
    """Two classes that are cheapest alone by forms of their own share a dear one."""
    shared, a, b, root = (leaf(f32) for _ in range(4))
    table: Table = {
        shared: [Priced(leaf(f32), 3.0, ())],
        a: [Priced(leaf(f32), 2.0, ()), Priced(leaf(f32), 0.0, (shared,))],
        b: [Priced(leaf(f32), 2.0, ()), Priced(leaf(f32), 0.0, (shared,))],
        root: [Priced(leaf(f32), 1.0, (a, b))],
    }
    first = {place: rows[0].form for place, rows in table.items()}
    assert extract(table, [root], first, 1)[0].cost == 4.0


def test_a_class_that_only_reads_itself_around_a_circle_is_computed_otherwise() -> None:
    a, b = leaf(f32), leaf(f32)
    table: Table = {
        a: [Priced(leaf(f32), 9.0, ()), Priced(leaf(f32), 0.0, (b,))],
        b: [Priced(leaf(f32), 9.0, ()), Priced(leaf(f32), 0.0, (a,))],
    }
    first = {place: rows[0].form for place, rows in table.items()}
    terms = extract(table, [a, b], first, 4)
    assert terms[0].cost == 9.0 and all(is_acyclic(term.chosen, [a, b]) for term in terms)


def test_forms_that_become_cheaper_again_and_again_take_no_more_steps_than_there_are() -> None:
    """Found in a bad order, each class would be found to be cheaper twice as often as the one before it."""
    places = [leaf(f32) for _ in range(48)]
    table: Table = {places[0]: [Priced(leaf(f32), 1.0, ())]}
    for number, (below, place) in enumerate(pairwise(places)):
        table[place] = [Priced(leaf(f32), price, (below,)) for price in (1.0, 1.0 + 2.0 ** (40 - number))]
    first = {place: rows[-1].form for place, rows in table.items()}
    (term, *_) = extract(table, [places[-1]], first, 1)
    assert cost(term.chosen, [places[-1]]) == len(places)


# --- of saturated graphs


def test_forms_that_read_their_own_class_are_not_priced() -> None:
    x = leaf(f32, 3)
    graph = EGraph()
    root = graph.add(build.neg(x))
    graph.union(root, graph.add(x), "a test")
    graph.rebuild()
    (rows,) = priced(graph, [root], flops).values()
    assert [row.form for row in rows] == [x]


def test_a_chain_of_matrices_has_the_order_of_the_textbook() -> None:
    """Against dynamic programming."""
    for seed in range(8):
        random = Random(seed)
        sizes = [random.choice((1, 2, 3, 5, 8)) for _ in range(6)]
        factors = [leaf(f32, m, n) for m, n in pairwise(sizes)]
        root = factors[0]
        for factor in factors[1:]:
            root = matmul(root, factor)
        graph = EGraph()
        place = graph.add(root)
        saturate(graph, rules_for(Contract.REGROUPS), Fuel(turns=5, forms=3000, matches=2000))
        table = priced(graph, [place], flops)
        best = extract(table, [graph.find(place)], {}, 1)[0]
        assert best.cost <= _textbook(sizes)
        (found,) = built(best.chosen, [graph.find(place)])
        leaves = inputs([root], seed, special=False)
        (a,), (b,) = run([root], leaves), run([found], leaves)
        assert abs(a - b).max() < 1e-3


def _textbook(sizes: list[int]) -> float:
    """The fewest multiplications of a chain of matrices."""

    @cache
    def least(i: int, j: int) -> float:
        if j - i == 1:
            return 0.0
        return min(least(i, k) + least(k, j) + sizes[i] * sizes[k] * sizes[j] for k in range(i + 1, j))

    return least(0, len(sizes) - 1)


def test_what_is_compared_with_its_largest_value_is_compared_with_one_of_its_values() -> None:
    """By rounding, exp(max(a + b)) is none of exp(a) * exp(b): argmax would give a place that there is not."""
    a, b = leaf(f32, 9, 9), leaf(f32, 9, 9)
    root = argmax(build.mul(build.exp(a), build.exp(b)), 1)
    graph = EGraph()
    place = graph.add(root)
    saturate(graph, rules_for(Contract.FAST))
    place = graph.find(place)
    table = priced(graph, [place], flops)
    leaves = inputs([root], 0, special=False)
    random, kept, lost = Random(0), 0, 0
    for _ in range(100):
        chosen = random_choice(table, [place], random)
        (found,) = run(built(chosen, [place]), leaves)
        if keeps_extremes(graph, chosen, [place]):
            assert found.max() < 9
            kept += 1
        else:
            lost += found.max() >= 9
    assert kept and lost  # or the test would show nothing

    free = FLOPS._replace(graph=lambda roots: random.random())
    (planned,) = Planner(rules_for(Contract.FAST)).planned([root], free)
    assert run([planned], leaves)[0].max() < 9


def test_the_largest_of_what_others_read_is_one_of_its_values() -> None:
    """Whoever reads both may compare them, outside of what is planned together."""
    z = build.mul(build.exp(leaf(f32, 9, 9)), build.exp(leaf(f32, 9, 9)))
    roots = [z, build.reduce("max", z, (1,))]
    graph = EGraph()
    places = [graph.add(root) for root in roots]
    saturate(graph, rules_for(Contract.FAST))
    places = [graph.find(place) for place in places]
    table = priced(graph, places, flops)
    leaves = inputs(roots, 0, special=False)
    kept, lost = 0, 0
    for seed in range(60):
        chosen = random_choice(table, places, Random(seed))
        whole, largest = run(built(chosen, places), leaves)
        is_there = bool((whole == largest[:, None]).any(1).all())
        if keeps_extremes(graph, chosen, places):
            assert is_there
            kept += 1
        lost += not is_there
    assert kept and lost


def test_plans_are_never_dearer_than_what_was_written() -> None:
    x = leaf(f32, 5, 5)
    root = matmul(matmul(x, matmul(x, x)), leaf(f32, 5, 1))
    (after,) = Planner(rules_for(Contract.FAST)).planned([root], FLOPS)
    assert total([after]) < total([root])

"""Islands: what belongs together, what is planned once, and that no island needs what it gives."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from smelt import dtypes
from smelt.egraph import COMMUTATIVE, RULES, Fuel, Island, Planner, rules_for
from smelt.egraph.islands import LARGEST, Frozen, Starts, islands
from smelt.graph import Node, build, topological
from smelt.rewrite import Contract, Family, Rule, key_of, keys_of, match
from tests.egraph.examples import matmul, rows
from tests.egraph.flops import FLOPS, total
from tests.rewrite.growing import leaf
from tests.rewrite.sampling import close, inputs, run

f32 = dtypes.float32
STARTS = Starts(RULES)
pytestmark = pytest.mark.usefixtures("nothing_on_disk")


def square(size: int = 9) -> Node:
    return leaf(f32, size, size)


def column(size: int = 9) -> Node:
    return leaf(f32, size, 1)


def planned(roots: list[Node], contract: Contract = Contract.FAST) -> list[Node]:
    """The roots as planned, which give the same values."""
    after = Planner(rules_for(contract)).planned(roots, FLOPS)
    leaves = inputs(roots, 0, special=False)
    for expected, found in zip(run(roots, leaves), run(after, leaves), strict=True):
        assert close(expected / 100, found / 100)
    return after


def test_where_no_rule_can_begin_the_roots_are_returned() -> None:
    roots = [build.tanh(build.add(square(), square())), matmul(square(), square())]
    planner = Planner(RULES)
    after = planner.planned(roots, FLOPS)
    assert [a is b for a, b in zip(after, roots, strict=True)] == [True, True]
    assert islands(roots, STARTS) == [] and not len(planner.plans)
    assert Planner(()).planned(roots, FLOPS) == roots


def test_what_does_not_pay_is_left_as_it_is() -> None:
    root = matmul(matmul(leaf(f32, 1, 9), square()), square())
    assert Planner(RULES).planned([root], FLOPS) == [root]


def test_a_chain_becomes_the_cheapest_one() -> None:
    root = matmul(matmul(square(), square()), column())
    (after,) = planned([root])
    assert total([after]) < 3 * 81


def test_computed_values_are_read_and_not_taken_apart() -> None:
    inner = matmul(square(), square())
    root = matmul(inner, column())
    inner.leaf = square()
    assert Planner(RULES).planned([root], FLOPS) == [root]
    inner.leaf = None
    root.leaf = column()
    assert Planner(RULES).planned([root], FLOPS) == [root]


def test_equal_layers_are_planned_once() -> None:
    x = column()
    for _ in range(12):
        x = build.sort(matmul(matmul(square(), square()), x), 0)  # nothing that a rule looks into
    planner, seen = Planner(RULES), []
    (after,) = planner.planned([x], FLOPS, lambda island, plan: seen.append(plan))
    assert len(seen) == 12 and len(planner.plans) == 1
    assert total([after]) < total([x]) / 3


def test_a_plan_is_remembered_for_its_machine() -> None:
    root = matmul(matmul(square(), square()), column())
    planner = Planner(RULES)
    for name in ("one", "one", "another"):
        planner.planned([root], FLOPS._replace(name=name))
    assert len(planner.plans) == 2


# --- outputs and inputs


def test_an_output_does_not_wait_for_what_another_one_reads() -> None:
    first = matmul(matmul(square(), square()), column())
    second = matmul(matmul(first, leaf(f32, 1, 9)), column())
    for roots in ([first, second], [second, first], [build.add(second, first), first]):
        assert total(planned(roots)) < total(roots) / 3


def test_what_leaves_an_island_does_not_come_back_to_it() -> None:
    first = matmul(matmul(square(), square()), column())
    outside = build.sort(first, 0)
    second = matmul(matmul(first, build.permute(outside, (1, 0))), column())
    assert total(planned([second])) < total([second]) / 3


def test_exact_islands_do_not_read_themselves_either() -> None:
    first = rows(build.exp(build.add(leaf(f32, 99, 5), leaf(f32, 99, 5))), 3)
    outside = build.sort(first, 0)
    again = build.concat([build.add(first, outside)] * 33, 0)
    planned([rows(build.exp(again), 3), first], Contract.EXACT)


def drawn(seed: int, count: int) -> list[Node]:
    """A graph with many islands, which read one another in many ways."""
    random = Random(seed)
    pool = [square(3), square(3), square(3)]
    steps: list[Callable[[Node, Node], Node]] = [
        matmul,
        matmul,
        matmul,
        build.add,
        lambda a, b: build.sort(a, 0),
        lambda a, b: build.tanh(a),
    ]
    while len(pool) < count:
        pool.append(random.choice(steps)(random.choice(pool[-6:]), random.choice(pool)))
    return pool[-2:]


def are_in_order(found: list[Island]) -> bool:
    """Whether no island needs what it gives, or a later one does, by whatever way."""
    given = {node: number for number, island in enumerate(found) for node in island.outputs}
    for number, island in enumerate(found):
        below = topological(island.inputs)
        if any(given.get(node, -1) >= number for node in below):
            return False
    return True


@pytest.mark.parametrize("seed", range(12))
def test_no_island_needs_what_it_gives(seed: int) -> None:
    found = islands(drawn(seed, 200), STARTS)
    nodes = [node for island in found for node in island.nodes if node.sources]
    assert len(set(nodes)) == len(nodes)
    assert found and are_in_order(found)
    assert max(len([node for node in island.nodes if node.sources]) for island in found) <= LARGEST
    for island in found:
        below = topological(island.outputs, known=set(island.inputs))
        assert set(below) <= set(island.nodes)


def test_islands_that_would_grow_too_large_are_cut_and_stay_in_order() -> None:
    x, y = square(3), square(3)
    for _ in range(3 * LARGEST):
        x, y = matmul(x, y), build.add(x, y)
    found = islands([x, y], STARTS)
    assert len(found) > 3 and are_in_order(found)


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs_are_planned_whatever_is_chosen(seed: int) -> None:
    roots = drawn(seed, 60)
    random = Random(seed)

    def price(nodes: object) -> float:  # so that some program is taken that is not the one that was written
        return random.random()

    planner = Planner(rules_for(Contract.REGROUPS), Fuel(turns=3, forms=200))
    after = planner.planned(roots, FLOPS._replace(graph=price))
    wide = inputs(roots, seed, special=False)
    small = {node: value / 2 for node, value in wide.items()}
    for expected, found in zip(run(roots, small), run(after, small), strict=True):
        scale = max(1.0, float(abs(expected).max()))
        assert abs(expected / scale - found / scale).max() < 1e-2


def test_frozen_graphs_are_equal_if_only_their_inputs_differ() -> None:
    def frozen(size: int) -> Frozen:
        inputs = [square(size), square(size)]
        root = matmul(*inputs)
        return Frozen.of([root], inputs, [root])

    assert frozen(3) == frozen(3) != frozen(5)
    a, b = square(3), square(3)
    assert frozen(3).over([a, b]) == [matmul(a, b)]


def test_what_is_remembered_of_keys_finds_what_matching_finds() -> None:
    nodes = [node for seed in range(3) for node in topological(drawn(seed, 500))]
    found = [node for node in nodes if STARTS.begin_at(node)]
    assert found == [node for node in nodes if any(_begins_there(node, rule) for rule in RULES if not rule.helps)]
    assert 0 < len(found) < len(nodes)


def _begins_there(node: Node, rule: Rule) -> bool:
    orders = (node.sources, node.sources[::-1]) if key_of(node) in COMMUTATIVE else (node.sources,)
    return key_of(node) in keys_of(rule) and any(
        match(sources, over) for over in rule.below(key_of(node)) for sources in orders
    )


# --- work


def looks(count: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often nodes are looked at to plan a graph of so many nodes."""
    calls = 0
    original = Starts.begin_at

    def counted(starts: Starts, node: Node) -> bool:
        nonlocal calls
        calls += 1
        return original(starts, node)

    monkeypatch.setattr(Starts, "begin_at", counted)
    islands(drawn(0, count), STARTS)
    monkeypatch.setattr(Starts, "begin_at", original)
    return calls


def test_each_node_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for count in (1_000, 2_000, 4_000):
        assert looks(count, monkeypatch) <= count


def test_long_chains_are_planned_without_recursion() -> None:
    x = column(3)
    for _ in range(3_000):
        x = build.sort(matmul(matmul(square(3), square(3)), build.sort(x, 0)), 0)
    planner = Planner(RULES)
    planner.planned([x], FLOPS)
    assert len(planner.plans) == 1


def test_numbers_that_others_read_as_well_belong_to_the_island() -> None:
    x = leaf(dtypes.float32, 5, 7)
    zeros = build.const(0.0, dtypes.float32, (5, 7))
    root = build.maximum(build.exp(build.add(x, zeros)), zeros)
    family = Family("test")
    family.rule(("exp", "add"), name="exp_of_sum")(lambda node, total: None)
    [island] = islands([root], Starts(family.rules))
    assert island.inputs == [x]

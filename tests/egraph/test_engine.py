"""The engine: classes, congruence, rebuilding, facts, saturation with fuel, and the same plan every time."""

from __future__ import annotations

from functools import reduce
from random import Random

import numpy as np
import pytest

from smelt import dtypes
from smelt.config import configure
from smelt.dtypes import DType
from smelt.egraph import RULES, Fuel, Planner, Report, rules_for
from smelt.egraph.classes import EGraph, StandIn, known
from smelt.egraph.facts import NOTHING, Facts
from smelt.egraph.islands import Starts, islands
from smelt.egraph.saturate import saturate
from smelt.errors import InternalError
from smelt.graph import Node, Op, build
from smelt.graph.text import print_graph
from smelt.rewrite import FAMILIES, Contract, Family, Rule, any_of, rewrite
from tests.egraph.examples import EXAMPLES, matmul
from tests.egraph.flops import FLOPS
from tests.egraph.programs import random_program
from tests.rewrite.growing import leaf
from tests.rewrite.sampling import inputs, run

f32 = dtypes.float32
PLENTY = Fuel(turns=12, forms=1500, matches=1500)
pytestmark = pytest.mark.usefixtures("nothing_on_disk")


def sin(x: Node) -> Node:
    return build.unary("sin", x)


def is_whole(graph: EGraph) -> bool:
    """Whether every form is in the one class where it is looked for, and read by what it reads."""
    for place, own in graph.classes.items():
        for form in own.forms:
            if any(graph.find(source) is not source for source in form.sources):
                return False
            if graph.find(graph._homes[form]) is not place:
                return False
            if any(form not in graph.classes[source].readers for source in form.sources):
                return False
    return sum(len(own.forms) for own in graph.classes.values()) == len(graph)


# --- classes


def test_equal_terms_are_one_class() -> None:
    x = leaf(f32, 3)
    graph = EGraph()
    assert graph.add(sin(sin(x))) is graph.add(sin(sin(x)))
    assert len(graph) == len(graph.classes) == 3
    assert graph.add(sin(x)) in graph.classes and is_whole(graph)


def test_terms_over_what_stands_for_classes_are_found() -> None:
    x = leaf(f32, 3)
    graph = EGraph()
    inner = graph.add(sin(x))
    assert graph.add(sin(inner)) is graph.add(sin(sin(x)))


def test_what_is_united_is_found_by_either() -> None:
    graph = EGraph()
    places = [graph.add(sin(leaf(f32, 3))) for _ in range(40)]
    random = Random(0)
    groups = {place: {place} for place in places}
    for _ in range(30):
        a, b = random.choice(places), random.choice(places)
        assert graph.union(a, b, "a test") == (groups[a] is not groups[b])
        if groups[a] is not groups[b]:
            joined = groups[a] | groups[b]
            groups |= dict.fromkeys(joined, joined)
        graph.rebuild()
        assert is_whole(graph)
    for a in places:
        assert {b for b in places if graph.find(b) is graph.find(a)} == groups[a]
        assert graph.class_of(a) is graph.classes[graph.find(a)]


def test_functions_of_what_is_equal_are_equal() -> None:
    a, b = leaf(f32, 3), leaf(f32, 3)
    graph = EGraph()
    of_a, of_b = graph.add(sin(a)), graph.add(sin(b))
    assert of_a is not of_b
    graph.union(graph.add(a), graph.add(b), "a test")
    graph.rebuild()
    assert graph.find(of_a) is graph.find(of_b) and is_whole(graph)


def test_one_union_makes_many_through_all_that_reads_it() -> None:
    a, b = leaf(f32, 3), leaf(f32, 3)
    x, y = a, b
    graph = EGraph()
    for _ in range(50):
        x, y = build.add(sin(x), x), build.add(sin(y), y)
    tops = graph.add(x), graph.add(y)
    graph.union(graph.add(a), graph.add(b), "a test")
    graph.rebuild()
    assert graph.find(tops[0]) is graph.find(tops[1])
    assert len(graph.classes) == 1 + 2 * 50 and is_whole(graph)


def test_a_value_may_be_a_function_of_itself() -> None:
    x = leaf(f32, 3)
    graph = EGraph()
    top = graph.add(sin(sin(x)))
    graph.union(graph.add(sin(x)), graph.add(x), "a test")
    graph.rebuild()
    assert graph.find(top) is x and len(graph.classes) == 1 and is_whole(graph)


def test_a_class_never_loses_a_form() -> None:
    a, b = leaf(f32, 3), leaf(f32, 3)
    graph = EGraph()
    first, second = graph.add(sin(a)), graph.add(build.exp(b))
    graph.union(first, second, "a test")
    graph.rebuild()
    assert {form.attribute for form in graph.class_of(first).forms} == {"sin", "exp"}


def test_different_types_are_not_united() -> None:
    graph = EGraph()
    with pytest.raises(InternalError, match="rule wrong"):
        graph.union(graph.add(leaf(f32, 3)), graph.add(leaf(f32, 5)), "wrong")
    with pytest.raises(InternalError, match="rule wrong"):
        graph.union(graph.add(leaf(f32, 3)), graph.add(leaf(dtypes.int32, 3)), "wrong")


# --- what stands for classes


def test_inputs_and_constants_stand_for_themselves() -> None:
    x = leaf(f32, 3)
    graph = EGraph()
    one = build.const(1.0, f32, (3,))
    assert graph.add(x) is x
    assert graph.add(one) is one
    assert graph.add(build.iota(5, f32)) is build.iota(5, f32)
    assert isinstance(graph.add(build.add(x, one)).attribute, StandIn)


def test_constants_stand_for_what_is_equal_to_them() -> None:
    graph = EGraph()
    x, one = graph.add(build.exp(leaf(f32, 3))), graph.add(build.const(1.0, f32, (3,)))
    y = graph.add(leaf(f32, 3))
    graph.union(x, one, "a test")
    assert graph.find(x) is one
    graph.union(y, one, "a test")
    assert graph.find(y) is one
    graph.rebuild()
    assert is_whole(graph)


def test_an_input_stands_for_what_is_equal_to_it() -> None:
    x = leaf(f32, 3)
    graph = EGraph()
    doubled = graph.add(build.neg(build.neg(x)))
    graph.union(doubled, x, "a test")
    assert graph.find(doubled) is x


# --- facts


def test_facts_of_constants_and_functions() -> None:
    x = leaf(f32, 3)
    assert known(x) == NOTHING
    assert known(build.const(-3.0, f32)) == Facts(False, 3.0)
    assert known(build.const(2.0, f32, (3,))) == Facts(True, 2.0)
    assert known(build.tanh(x)) == Facts(False, 1.0)
    assert known(build.exp(x)).positive and known(build.mul(x, x)).positive
    assert known(build.scale(build.tanh(x), -7.0)) == Facts(False, 7.0)
    assert known(build.sub(build.tanh(x), build.tanh(x))).bound == 2.0
    assert known(build.composite("softmax", x)) == Facts(True, 1.0)
    assert known(build.reduce("max", build.tanh(x), (0,))).bound == 1.0
    assert known(build.reduce("add", build.tanh(x), (0,))).bound == float("inf")
    assert not known(build.sub(build.exp(x), build.exp(x))).positive


def test_a_class_is_known_by_all_of_its_forms() -> None:
    x = leaf(f32, 3)
    graph = EGraph()
    a, b = graph.add(build.exp(x)), graph.add(build.tanh(x))
    assert (known(a), known(b)) == (Facts(True), Facts(False, 1.0))
    learned = graph.learned
    graph.union(a, b, "a test")
    assert known(graph.find(a)) == Facts(True, 1.0) and graph.learned > learned


@pytest.mark.parametrize("seed", range(30))
def test_facts_hold(seed: int) -> None:
    """Of random functions of random values."""
    random = Random(seed)
    pool: list[Node] = [leaf(f32, 3, 5), build.const(random.choice((-2.0, 0.5, 3.0)), f32, (3, 5))]
    unary = ("exp", "abs", "sqrt", "tanh", "neg", "sin", "reciprocal", "log1p", "expm1", "cbrt", "cosh", "sign", "erf")
    binary = ("add", "sub", "mul", "div", "max", "min", "hypot")
    for _ in range(12):
        a, b = random.choice(pool), random.choice(pool)
        pool.append(
            build.unary(random.choice(unary), a) if random.random() < 0.5 else build.binary(random.choice(binary), a, b)
        )
    leaves = inputs(pool, seed, special=False)
    for node, value in zip(pool, run(pool, leaves), strict=True):
        facts = known(node)
        real = value[~np.isnan(value)]
        assert not facts.positive or np.all(real >= 0), node
        assert np.all(np.abs(real) <= facts.bound * (1 + 1e-6)), node


# --- saturation

made = Family("tests")


@made.rule(("sin", "cos"))
def off(node: Node, x: Node) -> Node | None:
    """sin(cos(x)) → x."""
    return x.sources[0]


@made.rule("add")
def turned(node: Node) -> Node | None:
    """a + b → b + a."""
    return build.add(*node.sources[::-1])


@made.rule(("add", "add", None))
def to_the_right(node: Node, x: Node, z: Node) -> Node | None:
    """(a + b) + c → a + (b + c)."""
    return build.add(x.sources[0], build.add(x.sources[1], z))


@made.rule("tanh")
def ever_more(node: Node) -> Node | None:
    """tanh(x) → tanh(abs(x)) of another one."""
    return build.tanh(build.unary("floor", node.sources[0]))


def saturated(root: Node, rules: list[str], fuel: Fuel = PLENTY) -> tuple[EGraph, Node, Report]:
    graph = EGraph()
    place = graph.add(root)
    with configure(disabled_rules=frozenset(FAMILIES)):
        report = saturate(graph, [rule for rule in made.rules if rule.name in rules], fuel)
    assert is_whole(graph)
    return graph, graph.find(place), report


def test_a_rule_finds_what_is_equal_and_saturation_ends() -> None:
    x = leaf(f32, 3)
    _, place, report = saturated(sin(build.unary("cos", sin(build.unary("cos", x)))), ["off"])
    assert place is x and report.end == "saturated"
    assert report.rules["off"].unions >= 1


def test_a_rule_matches_forms_that_another_one_has_found() -> None:
    a, b, c = (leaf(f32, 3) for _ in range(3))
    graph, place, report = saturated(build.add(a, build.add(b, c)), ["turned", "to_the_right"])
    others = (build.add(build.add(c, a), b), build.add(build.add(b, a), c))
    assert all(graph.find(graph.add(other)) is place for other in others)
    assert report.end == "saturated"


def test_a_reshape_of_a_reshape_is_one() -> None:
    x = leaf(f32, 6)
    graph = EGraph()
    place = graph.add(build.reshape(x, (2, 3)))
    again = graph.add(build.reshape(place, (3, 2)))
    assert [form.sources for form in graph.class_of(again).forms] == [(x,)]
    assert graph.add(build.reshape(again, (2, 3))) is place
    assert graph.add(build.reshape(again, (6,))) is x
    row = graph.add(build.expand(build.reshape(x, (1, 6)), (2, 6)))
    assert graph.add(build.expand(row, (2, 6))) is row


def test_products_are_the_same_either_way_round() -> None:
    x, y = leaf(f32, 3, 5), leaf(f32, 5, 7)
    product, other = matmul(x, y), build.contract(y, x, (1, 2), (0, 1), (0, 2))
    graph = EGraph()
    place = graph.add(product)
    assert graph.add(other) is not place  # as it is written, in whatever order its sums are taken
    graph = EGraph()
    place = graph.add(product)
    graph.reason = "a rule"
    assert graph.add(other) is place
    a, b = leaf(f32, 3), leaf(f32, 3)
    assert graph.add(build.mul(a, b)) is graph.add(build.mul(b, a))
    assert graph.add(build.maximum(a, b)) is not graph.add(build.maximum(b, a))  # of 0.0 and -0.0


def test_sums_of_four_have_as_many_classes_as_there_are_sums_of_some() -> None:
    terms = [leaf(f32, 3) for _ in range(4)]
    root = build.add(build.add(build.add(terms[0], terms[1]), terms[2]), terms[3])
    graph, _, report = saturated(root, ["turned", "to_the_right"], Fuel(20, 3000, 3000))
    assert report.end == "saturated"
    assert len(graph.classes) == 2**4 - 1


@pytest.mark.parametrize(("fuel", "end"), [(Fuel(turns=3), "turns"), (Fuel(turns=500, forms=30), "forms")])
def test_fuel_ends_what_has_no_end(fuel: Fuel, end: str) -> None:
    _, _, report = saturated(build.tanh(leaf(f32, 3)), ["ever_more"], fuel)
    assert report.end == end and end in str(report)
    assert report.turns <= fuel.turns + fuel.more and report.forms <= fuel.forms + 8


def test_matches_that_were_left_out_are_told() -> None:
    x = leaf(f32, 3)
    root = build.concat([sin(build.unary("cos", build.add(x, leaf(f32, 3)))) for _ in range(9)], 0)
    _, _, report = saturated(root, ["off"], Fuel(matches=4))
    assert report.end == "matches" and report.rules["off"].unions == 4
    _, _, report = saturated(root, ["off"], Fuel(matches=9))
    assert report.end == "saturated" and report.rules["off"].unions == 9


def _programs(dtype: DType, count: int) -> list[list[Node]]:
    drawn = [rewrite(random_program(seed, 3 + seed % 7, dtype)) for seed in range(count)]
    return [*drawn, *([example.make(dtype)] for examples in EXAMPLES.values() for example in examples)]


def test_what_has_not_changed_need_not_be_matched_again() -> None:
    """A second saturation looks at everything, and finds nothing that the first one has not."""
    ended = 0
    for roots in _programs(f32, 40):
        graph = EGraph()
        for root in roots:
            graph.add(root)
        if saturate(graph, RULES, PLENTY).end != "saturated":
            continue
        ended += 1
        before = len(graph), len(graph.classes), graph.unions
        saturate(graph, RULES, PLENTY)
        assert before == (len(graph), len(graph.classes), graph.unions)
        assert is_whole(graph)
    assert ended > 80


def test_sums_that_are_shown_in_the_other_order_are_seen_to_be_equal() -> None:
    """a + b and b + a look alike to a rule that asks for one of them to be a cosine."""
    a, b = build.unary("cos", leaf(f32, 3)), sin(leaf(f32, 3))
    family = Family("tests")

    @family.rule(("add", "cos", None))
    def alike(node: Node, x: Node, y: Node) -> Node | None:
        """cos(x) + y → y - x."""
        return build.sub(y, x.sources[0])

    graph = EGraph()
    places = [graph.add(build.add(a, b)), graph.add(build.add(b, a))]
    saturate(graph, family.rules)
    assert graph.find(places[0]) is graph.find(places[1])


def test_one_rule_has_several_keys_and_patterns() -> None:
    family = Family("tests")
    x, y = leaf(f32, 3), leaf(f32, 3)

    @family.rule((any_of("sin", "cos"), any_of("floor", "ceil")), ("sub", "sin", None), ("sub", None, "sin"))
    def one(node: Node, *sources: Node) -> Node | None:
        """All to what is inside."""
        return next(source for source in sources if source.op is Op.UNARY).sources[0]

    [rule] = family.rules
    assert rule.below("sin") == rule.below("cos") and len(rule.below("sub")) == 2
    roots = [build.unary(outer, build.unary(inner, x)) for outer in ("sin", "cos") for inner in ("floor", "ceil")]
    for root in [*roots, build.sub(sin(x), y), build.sub(y, sin(x))]:
        graph = EGraph()
        place = graph.add(root)
        assert saturate(graph, family.rules).rules["one"].matches == 1
        assert graph.find(place) is x
        assert islands([root], Starts(family.rules)) and rule.function(root) is x
    for root in (sin(build.exp(x)), build.exp(build.unary("floor", x)), build.sub(x, y)):
        assert not islands([root], Starts(family.rules)) and rule.function(root) is None


def test_more_that_is_known_of_a_class_is_used_by_rules_that_have_seen_it() -> None:
    """softmax(y), once y is known to be small: by then the rule has looked at it."""
    x = leaf(f32, 3, 5)
    graph = EGraph()
    inner = build.add(x, leaf(f32, 3, 5))
    softmax = graph.add(build.composite("softmax", inner))
    small = graph.add(build.tanh(x))

    def tell(node: Node) -> Node | None:
        return small if graph.find(graph._homes[node]) is graph.find(graph.add(inner)) else None

    telling = Rule("tell", "tests", ("add",), Contract.EXACT, tell, "y is tanh(x)")
    saturate(graph, [telling, *rules_for(Contract.FAST)], Fuel(turns=4, forms=300))
    assert any(form.op is Op.BINARY for form in graph.class_of(softmax).forms)
    assert "softmax_unshifted" in graph.reasons.values()


def test_the_same_graph_gives_the_same_plan_twice() -> None:
    def texts() -> list[str]:
        found = []
        for seed in range(12):
            roots = rewrite(random_program(seed, 9, f32))
            planner = Planner(rules_for(Contract.FAST), fuel=Fuel(turns=4, forms=300))
            found.append(print_graph(planner.planned(roots, FLOPS)))
        return found

    assert texts() == texts()


def test_reports_name_the_rules_that_did_something() -> None:
    root = matmul(matmul(leaf(f32, 3, 5), leaf(f32, 5, 7)), leaf(f32, 7, 1))
    graph = EGraph()
    graph.add(root)
    report = saturate(graph, RULES)
    assert report.rules["product_regrouped"].matches >= 1
    assert "product_regrouped: " in str(report) and str(report).startswith("nothing new")
    assert set(graph.reasons.values()) <= {rule.name for rule in RULES}


def test_regrouped_products_lie_as_the_next_one_reads_them() -> None:
    """Rows of the result first: the other way round each chain would have many more forms, and slower ones."""
    factors = [leaf(f32, *shape) for shape in ((3, 5), (5, 7), (7, 2), (2, 11), (11, 4))]
    graph = EGraph()
    graph.add(reduce(matmul, factors))
    assert saturate(graph, RULES).forms <= 25
    for form in (form for one in graph.classes.values() for form in one.forms if form.op is Op.CONTRACT):
        left, right, out = form.attribute
        assert (left[1], (left[0], right[1])) == (right[0], out)

"""Every rule of the e-graph, on its examples: it fires, it keeps its contract, and what is broken does not pass."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from smelt import dtypes
from smelt.dtypes import DType
from smelt.egraph import RULES, rules_for
from smelt.egraph.classes import EGraph
from smelt.egraph.saturate import Fuel, saturate
from smelt.errors import DTypeError
from smelt.graph import Node, Op, build
from smelt.graph.index import Dim
from smelt.rewrite import Contract, Rule, keys_of, rule_table
from tests.egraph.checks import differs, is_wrong, mutants
from tests.egraph.examples import EXAMPLES, argmax, contract, matmul, one_hot
from tests.rewrite.growing import leaf
from tests.rewrite.sampling import close, identical, inputs, run

f32, i64 = dtypes.float32, dtypes.int64
each_rule = pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])


def named(name: str) -> Rule:
    return next(rule for rule in RULES if rule.name == name)


def test_every_rule_has_an_example_and_a_name_of_its_own() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert set(names) == set(EXAMPLES)


def test_contracts_choose_rules() -> None:
    chosen = [rules_for(contract) for contract in Contract]
    assert all(set(fewer) < set(more) for fewer, more in itertools.pairwise(chosen))
    assert chosen[-1] == RULES and {rule.contract for rule in chosen[0]} == {Contract.EXACT}


@each_rule
def test_the_rule_is_described_and_indexed(rule: Rule) -> None:
    assert rule.summary and list(keys_of(rule))


@each_rule
def test_the_rule_fires_and_keeps_its_contract(rule: Rule) -> None:
    for example in EXAMPLES[rule.name]:
        before = example.make(f32)
        after = rule.function(before)
        assert after is not None and after is not before
        assert differs(rule, example, before, after) == ""


@each_rule
def test_the_rule_fires_in_a_graph_with_all_others(rule: Rule) -> None:
    for example in EXAMPLES[rule.name]:
        graph = EGraph()
        graph.add(example.make(f32))
        report = saturate(graph, rules_for(rule.contract), Fuel(turns=2, forms=300))
        assert report.rules[rule.name].matches


@pytest.mark.parametrize("dtype", [dtypes.float64, dtypes.float16, dtypes.bfloat16], ids=str)
@each_rule
def test_other_floats_are_kept_as_well(rule: Rule, dtype: DType) -> None:
    narrow = dtype.itemsize < 4
    for example in EXAMPLES[rule.name]:
        before = example.make(dtype)
        after = rule.function(before)
        assert (after is None) == (narrow and rule.name == "softmax_unshifted")
        assert after is None or differs(rule, example, before, after) == ""


@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.uint8], ids=str)
@each_rule
def test_integers_are_left_alone_or_kept_to_the_bit(rule: Rule, dtype: DType) -> None:
    """Integers wrap: sums of products may be taken in any order, but nothing grows with them."""
    for seed, example in enumerate(EXAMPLES[rule.name]):
        try:
            before = example.make(dtype)
        except DTypeError:
            assert rule.family in ("functions", "gathers", "joins", "quotients")
            continue
        after = rule.function(before)
        assert after is None or rule.contract is not Contract.FAST
        if after is not None:
            leaves = inputs([before], seed, special=True)
            assert identical(*run([before, after], leaves))


@each_rule
def test_broken_results_do_not_pass(rule: Rule) -> None:
    killed = 0
    for example in EXAMPLES[rule.name]:
        before = example.make(f32)
        after = rule.function(before)
        assert after is not None
        for words, broken in mutants(after):
            if (broken.dtype, broken.shape) == (before.dtype, before.shape) and is_wrong(example, before, broken):
                assert differs(rule, example, before, broken) != "", words
                killed += 1
    assert killed >= 3


def _unknown_sizes() -> dict[str, Node]:
    """Programs with a size that is only known when they run."""
    n = Dim("n", 1, 9)
    a, b, c = leaf(f32, n, 5), leaf(f32, 5, 7), leaf(f32, 7, n)
    joined = build.concat([leaf(f32, 3, n), leaf(f32, 3, 2)], 1)
    number = build.broadcast_to(build.reshape(leaf(i64, n), (n, 1)), (n, 5))
    picked = build.gather(build.composite("softmax", leaf(f32, 7, 5), axis=0), [number], (-1, 1), (n, 5))
    given = build.expand(leaf(i64, 5, 1), (5, n))
    hot = build.cast(build.eq(given, build.broadcast_to(build.iota(n, i64), (5, n))), f32)
    pairs = build.sub(build.reshape(a, (n, 1, 5)), build.reshape(leaf(f32, 3, 5), (1, 3, 5)))
    return {
        "product_regrouped": matmul(matmul(a, b), c),
        "common_factor": build.add(matmul(a, b), matmul(a, leaf(f32, 5, 7))),
        "sum_factors_first": build.reduce("add", matmul(a, b), (0,)),
        "squares_of_differences": build.reduce("add", build.mul(pairs, pairs), (2,)),
        "product_of_joined": matmul(joined, leaf(f32, n + 2, 5)),
        "reduction_of_joined": build.reduce("max", joined, (1,)),
        "gather_of_softmax": picked,
        "one_hot_product": matmul(hot, leaf(f32, n, 7)),
        "argmax_of_increasing": argmax(build.tanh(a), 1),
        "extreme_before_increasing": build.reduce("max", build.tanh(a), (0,)),
    }


@pytest.mark.parametrize("name", list(_unknown_sizes()))
def test_sizes_may_be_unknown(name: str) -> None:
    before = _unknown_sizes()[name]
    after = makes(name, before)
    assert after is not None and (after.dtype, after.shape) == (before.dtype, before.shape)
    for size in (1, 2, 9):
        expected, found = run([before, after], inputs([before], size, special=False, dim=size), size)
        assert close(expected, found)


# --- what rules must leave alone


def makes(name: str, node: Node) -> Node | None:
    return named(name).function(node)


@pytest.mark.parametrize("other", ["largest", "unknown", "none"])
def test_where_one_tensor_has_the_largest_value_of_another_is_no_argmax(other: str) -> None:
    x, y = build.exp(leaf(f32, 3, 5)), build.exp(leaf(f32, 3, 5))
    largest = build.reduce("max", y if other == "largest" else x, (1,), keep_axes=True)
    found = build.binary("or", build.eq(x, largest), build.unary("isnan", y if other == "unknown" else x))
    places = build.broadcast_to(build.iota(5, i64), (3, 5))
    node = build.reduce("min", build.where(found, places, build.const(9, i64)), (1,))
    assert (makes("argmax_of_increasing", node) is None) == (other != "none")


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_a_number_that_is_no_integer_is_no_row(dtype: DType) -> None:
    hot = one_hot(leaf(dtype, 3), 5, f32)
    assert makes("one_hot_product", matmul(hot, leaf(f32, 5, 7))) is None


def test_a_count_that_begins_again_is_no_count() -> None:
    again = build.reshape(build.broadcast_to(build.iota(3, i64), (2, 3)), (1, 6))
    given = build.expand(leaf(i64, 5, 1), (5, 6))
    hot = build.cast(build.eq(given, build.expand(again, (5, 6))), f32)
    assert makes("one_hot_product", matmul(hot, leaf(f32, 6, 7))) is None


@pytest.mark.parametrize(("dtype", "size", "fires"), [(dtypes.int8, 128, True), (dtypes.int8, 129, False)])
def test_a_count_that_wraps_is_no_count(dtype: DType, size: int, fires: bool) -> None:
    node = matmul(one_hot(leaf(dtype, 3), size, f32), leaf(f32, size, 7))
    assert (makes("one_hot_product", node) is not None) == fires


def test_what_one_product_sums_and_the_other_keeps_is_not_factored() -> None:
    a, b, c = leaf(f32, 5, 3), leaf(f32, 3, 5), leaf(f32, 3, 5)
    node = build.add(contract(a, b, "mk,km->m"), contract(a, c, "mk,kn->n"))
    assert makes("common_factor", node) is None


def _repeated_sums() -> list[Node]:
    """Sums over what nothing varies along."""
    p, q = build.expand(leaf(f32, 3, 1), (3, 7)), leaf(f32, 3, 5)
    inner = contract(p, q, "ab,ac->abc")
    narrow = contract(leaf(f32, 3, 1), q, "ab,ac->abc")
    wide = build.expand(leaf(f32, 1, 5), (7, 5))
    both = build.mul(build.expand(leaf(f32, 3, 1), (3, 5)), build.expand(leaf(f32, 1, 1), (3, 5)))
    return [
        contract(inner, leaf(f32, 5, 3), "abc,cd->ad"),
        contract(narrow, wide, "abc,ec->ab"),
        contract(both, leaf(f32, 3, 7), "ab,ac->c"),
        contract(leaf(f32, 3, 7), both, "ac,ab->c"),
    ]


@pytest.mark.parametrize("number", range(4))
def test_what_is_summed_though_it_is_only_repeated_counts_as_often(number: int) -> None:
    node = _repeated_sums()[number]
    for rule in RULES:
        after = rule.function(node) if node.op in rule.ops else None
        if after is not None:
            (expected,), (found,) = (run([x], inputs([node], 0, special=False)) for x in (node, after))
            assert abs(expected - found).max() < 1e-4, rule.name


def test_a_checked_index_stays_checked_once() -> None:
    x, y, number = leaf(f32, 7, 5), leaf(f32, 7, 5), leaf(i64, 3, 5)
    after = makes("gather_inside", build.gather(build.add(x, y), [number], (-1, 1), (3, 5), checked=True))
    assert after is not None and [source.attribute.checked for source in after.sources] == [True, False]


def test_what_is_repeated_is_still_picked_from_where_that_is_checked() -> None:
    rows, number = build.expand(leaf(f32, 3, 1), (3, 5)), leaf(i64, 3, 7)
    assert makes("gather_of_repeated", build.gather(rows, [number], (0, -1), (3, 7), checked=True)) is None
    assert makes("gather_of_repeated", build.gather(rows, [number], (0, -1), (3, 7))) is not None


def test_only_the_largest_of_all_along_its_axis_is_found_before_functions() -> None:
    x = leaf(f32, 5, 7)
    assert makes("argmax_of_increasing", argmax(build.composite("softmax", x, axis=0), 1)) is None
    assert makes("extreme_before_increasing", build.reduce("add", build.exp(x), (1,))) is None


@pytest.mark.parametrize("name", ["mul", "div"])
def test_what_may_be_negative_does_not_scale_an_argmax(name: str) -> None:
    node = argmax(build.binary(name, leaf(f32, 5, 7), build.expand(leaf(f32, 5, 1), (5, 7))), 1)
    assert makes("argmax_of_scaled", node) is None


@pytest.mark.parametrize("name", ["mul", "add", "div", "sub"])
def test_what_varies_along_the_axis_changes_an_argmax(name: str) -> None:
    other = build.expand(build.exp(leaf(f32, 1, 7)), (5, 7))
    assert makes("argmax_of_scaled", argmax(build.binary(name, leaf(f32, 5, 7), other), 1)) is None


def test_values_of_any_size_are_shifted_before_a_softmax() -> None:
    assert makes("softmax_unshifted", build.composite("softmax", leaf(f32, 3, 5))) is None
    large = build.scale(build.tanh(leaf(f32, 3, 5)), 100.0)
    assert makes("softmax_unshifted", build.composite("softmax", large)) is None


@pytest.mark.parametrize("count", [1, 2, 4, 5, 12])
def test_any_number_of_products_may_be_joined(count: int) -> None:
    """Patterns are for four of them; what lies behind those stands for classes."""
    x = leaf(f32, 3, 5)
    whole = [contract(x, leaf(f32, 5, 2), "mk,kn->mn") for _ in range(count)]
    columns = [build.reshape(contract(x, leaf(f32, 5), "mk,k->m"), (3, 1)) for _ in range(count)]
    for parts in (whole, columns):
        graph = EGraph()
        graph.add(build.concat(parts, 1))
        saturate(graph, RULES, Fuel(turns=3, forms=400))


def test_products_that_are_rounded_in_between_are_left_alone() -> None:
    half = dtypes.float16
    wide = build.contract(leaf(half, 3, 5), leaf(half, 5, 7), (0, 1), (1, 2), (0, 2), f32)
    node = build.matmul(build.cast(wide, half), leaf(half, 7, 3), f32)
    for rule in RULES:
        if Op.CONTRACT in rule.ops:
            assert rule.function(node) is None, rule.name


def test_the_design_page_lists_the_rules_as_they_are() -> None:
    page = (Path(__file__).parents[2] / "docs/design/egraph.md").read_text(encoding="utf-8")
    listed = page.partition("<!-- rules: begin -->\n")[2].partition("<!-- rules: end -->")[0].strip()
    assert listed == rule_table(RULES).strip(), "put smelt.rewrite.rule_table(smelt.egraph.RULES) between the markers"

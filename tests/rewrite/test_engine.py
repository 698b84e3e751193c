"""The engine: fixpoints, sharing, computed values, sole readers, termination, long graphs."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial

import pytest

from smelt import dtypes
from smelt.config import configure
from smelt.errors import InternalError
from smelt.graph import build
from smelt.graph.index import Dim
from smelt.graph.node import Node, topological
from smelt.graph.ops import Op, Span
from smelt.rewrite import FAMILIES, RULES, Contract, Rule, enabled_rules, rewrite
from smelt.rewrite.rule import Function
from smelt.rewrite.rules.movement import MAXIMUM_PIECES
from tests.rewrite.growing import leaf
from tests.turns import TEST_ALL

f32 = dtypes.float32


def made_rule(name: str, function: Function, *ops: Op, sole: bool = False) -> Rule:
    return Rule(name, "test", ops, Contract.EXACT, function, name, sole=sole)


def test_an_unchanged_graph_stays_the_same_object() -> None:
    x = build.unary("exp", build.binary("add", leaf(f32, 3), leaf(f32, 3)))
    assert rewrite([x]) == [x]


def test_users_of_changed_nodes_are_made_again_and_sharing_is_kept() -> None:
    x = leaf(f32, 3)
    doubled = build.unary("exp", build.unary("neg", build.unary("neg", x)))
    a, b = rewrite([build.unary("sin", doubled), build.unary("cos", doubled)])
    assert a is build.unary("sin", build.unary("exp", x))
    assert a.sources[0] is b.sources[0]


def test_the_same_root_twice_and_no_root_at_all() -> None:
    x = leaf(f32, 3)
    root = build.unary("neg", build.unary("neg", x))
    assert rewrite([root, x, root]) == [x, x, x]
    assert rewrite([]) == []


def test_computed_values_are_sources() -> None:
    x = leaf(f32, 3)
    inner = build.unary("neg", build.unary("neg", x))
    outer = build.unary("exp", inner)
    inner.leaf = leaf(f32, 3)
    assert rewrite([outer]) == [outer]
    assert rewrite([inner]) == [inner]


def test_composites_are_kept_but_their_sources_are_rewritten() -> None:
    x = leaf(f32, 3, 4)
    (after,) = rewrite([build.composite("softmax", build.unary("neg", build.unary("neg", x)), axis=-1)])
    assert after is build.composite("softmax", x, axis=-1)


def test_families_can_be_switched_off() -> None:
    before = build.unary("neg", build.unary("neg", leaf(f32, 3)))
    with configure(disabled_rules=frozenset({"identity"})):
        assert rewrite([before]) == [before]
        assert {rule.family for rule in enabled_rules()} == set(FAMILIES) - {"identity"}


# --- what graphs come to


def test_matmul_written_out_becomes_a_contraction() -> None:
    a, b = leaf(f32, 3, 4), leaf(f32, 4, 5)
    product = build.binary("mul", build.reshape(a, (3, 4, 1)), build.reshape(b, (1, 4, 5)))
    assert rewrite([build.reduce("add", product, (1,))]) == [build.matmul(a, b)]


def test_transposed_and_batched_matmul_written_out_becomes_a_contraction() -> None:
    n = Dim("n", 1, 64)
    a, b = leaf(f32, n, 4, 3), leaf(f32, 5, 4)
    left = build.reshape(build.permute(a, (0, 2, 1)), (n, 3, 4, 1))
    right = build.reshape(build.permute(b, (1, 0)), (1, 1, 4, 5))
    (after,) = rewrite([build.reduce("add", build.binary("mul", left, right), (2,))])
    assert after.op is Op.CONTRACT
    assert set(after.sources) == {a, b}
    assert after.shape == (n, 3, 5)


def test_a_row_reduction_stays_one() -> None:
    x = leaf(f32, 3, 4)
    squares = build.reduce("add", build.binary("mul", x, x), (1,))
    weighted = build.reduce("add", build.binary("mul", x, leaf(f32, 4)), (1,))
    assert [node.op for node in rewrite([squares, weighted])] == [Op.REDUCE, Op.REDUCE]


def test_repeated_indexing_is_one_slice() -> None:
    x = leaf(f32, 5, 6, 7)

    def first(y: Node, at: int) -> Node:
        spans = [Span(at, 1, 1), *(Span(0, size, 1) for size in y.shape[1:])]
        return build.reshape(build.slice_(y, spans), y.shape[1:])

    (after,) = rewrite([first(first(first(x, 4), 3), 2)])
    assert [node.op for node in topological([after])] == [Op.LEAF, Op.SLICE, Op.RESHAPE]


def test_work_is_done_before_it_is_repeated() -> None:
    x = leaf(f32, 1, 5)
    rows = build.expand(x, (4, 5))
    before = build.unary("exp", build.binary("add", rows, build.const(1.0, f32, (4, 5))))
    (after,) = rewrite([before])
    small = build.unary("exp", build.binary("add", x, build.const(1.0, f32, (1, 5))))
    assert after is build.expand(small, (4, 5))


def test_a_repeated_axis_stays_apart_from_symbolic_ones_that_merge() -> None:
    n = Dim("n", 1, 64)
    x = leaf(f32, 2, n, 1)
    (after,) = rewrite([build.reshape(build.expand(x, (2, n, 4)), (n * 2, 4))])
    assert after is build.expand(build.reshape(x, (n * 2, 1)), (n * 2, 4))


def test_a_sum_that_keeps_axes_merges_with_the_next() -> None:
    x = leaf(f32, 3, 4, 5)
    before = build.reduce("add", build.reduce("add", x, (2,), keep_axes=True), (0, 1, 2))
    assert rewrite([before]) == [build.reduce("add", x, (0, 1, 2))]


def test_a_count_of_elements_is_folded() -> None:
    count = build.reduce("add", build.const(1, dtypes.int32, (6, 5)), (0, 1))
    assert rewrite([build.binary("sub", count, build.const(30, dtypes.int32))]) == [build.const(0, dtypes.int32)]


# --- rules that must not repeat work


def test_a_shared_contraction_is_not_computed_twice() -> None:
    product = build.matmul(leaf(f32, 3, 4), leaf(f32, 4, 5))
    transposed = build.permute(product, (1, 0))
    assert rewrite([transposed, product]) == [transposed, product]
    assert rewrite([build.unary("exp", product), transposed])[1] is transposed
    (alone,) = rewrite([transposed])
    assert alone.op is Op.CONTRACT


def test_sharing_that_rewriting_uncovers_counts() -> None:
    product = build.matmul(leaf(f32, 3, 4), leaf(f32, 4, 5))
    twice = build.unary("neg", build.unary("neg", product))
    roots = rewrite([build.permute(twice, (1, 0)), build.unary("exp", product)])
    assert roots == [build.permute(product, (1, 0)), build.unary("exp", product)]


def test_a_shared_reduction_is_not_computed_twice() -> None:
    rows = build.reduce("add", leaf(f32, 3, 4), (1,))
    total = build.reduce("add", rows, (0,))
    assert rewrite([total, rows]) == [total, rows]
    assert rewrite([total]) == [build.reduce("add", rows.sources[0], (0, 1))]


def test_sole_rules_reach_all_layers_of_a_deep_graph_at_once() -> None:
    x = leaf(f32, 8, 8)
    for _ in range(50):
        x = build.permute(build.matmul(x, leaf(f32, 8, 8)), (1, 0))
    (after,) = rewrite([x])
    assert {node.op for node in topological([after])} == {Op.LEAF, Op.CONTRACT}


# --- termination


def _swap(name: str, node: Node) -> Node | None:
    return build.unary(name, node.sources[0])


def _ping_pong() -> list[Rule]:
    to_cos = made_rule("to_cos", lambda n: _swap("cos", n) if n.attribute == "sin" else None, Op.UNARY)
    to_sin = made_rule("to_sin", lambda n: _swap("sin", n) if n.attribute == "cos" else None, Op.UNARY)
    return [to_cos, to_sin]


def test_rules_that_undo_each_other_are_named() -> None:
    x = build.unary("exp", build.unary("sin", leaf(f32, 3)))
    with configure(verify=True), pytest.raises(InternalError, match="to_cos, to_sin"):
        rewrite([x], _ping_pong())


def test_rules_that_undo_each_other_leave_a_right_graph_without_verification() -> None:
    x = build.unary("exp", build.unary("sin", leaf(f32, 3)))
    with configure(verify=False):
        (after,) = rewrite([x], _ping_pong())
    assert after.attribute == "exp" and after.sources[0].attribute in ("sin", "cos")


@pytest.mark.parametrize("outside", [True, False])
def test_a_rule_that_grows_without_end_is_stopped(outside: bool) -> None:
    def grow(node: Node) -> Node:
        if outside:
            return build.unary("abs", build.unary("neg", node))
        return build.unary("abs", build.unary("neg", node.sources[0]))

    x = build.unary("abs", leaf(f32, 3))
    rules = [made_rule("grow", grow, Op.UNARY)]
    with configure(verify=True), pytest.raises(InternalError, match="grow"):
        rewrite([x], rules)
    with configure(verify=False):
        assert rewrite([x], rules)[0].shape == (3,)


def test_rules_that_go_on_for_ever_are_named() -> None:
    """Two that take turns, and never come back to where they were."""

    numbers = itertools.count()

    def larger(node: Node, name: str) -> Node:
        return build.binary(name, node.sources[0], build.const(float(next(numbers)), f32, (3,)))

    even = made_rule("even", lambda node: larger(node, "sub") if node.attribute == "add" else None, Op.BINARY)
    odd = made_rule("odd", lambda node: larger(node, "add") if node.attribute == "sub" else None, Op.BINARY)
    x = build.binary("add", leaf(f32, 3), build.const(-1.0, f32, (3,)))
    with configure(verify=True), pytest.raises(InternalError, match=r"do not come to an end: .*even") as raised:
        rewrite([x], [even, odd])
    assert "odd" in str(raised.value)
    with configure(verify=False):
        assert rewrite([x], [even, odd])[0].shape == (3,)


def test_joins_are_flat_up_to_a_number_of_pieces() -> None:
    pieces = [leaf(f32, 1) for _ in range(MAXIMUM_PIECES + 1)]
    for count in (MAXIMUM_PIECES, MAXIMUM_PIECES + 1):
        (after,) = rewrite([build.concat([build.concat(pieces[: count - 1], 0), pieces[-1]], 0)])
        assert len(after.sources) == (count if count == MAXIMUM_PIECES else 2)


def test_a_rule_that_gives_its_own_input_is_named() -> None:
    rules = [made_rule("idle", lambda node: node, Op.UNARY)]
    with configure(verify=True), pytest.raises(InternalError, match="idle"):
        rewrite([build.unary("abs", leaf(f32, 3))], rules)


@pytest.mark.parametrize("change", [partial(build.cast, dtype=dtypes.float64), lambda x: build.reshape(x, (1, 3))])
def test_a_rule_that_changes_shape_or_dtype_is_named(change: Function) -> None:
    rules = [made_rule("wrong", lambda node: change(node.sources[0]), Op.UNARY)]
    with configure(verify=True), pytest.raises(InternalError, match="wrong"):
        rewrite([build.unary("abs", leaf(f32, 3))], rules)


# --- long graphs


@pytest.mark.parametrize("links", ["neg", "exp", "reshape", "slice", "concat", "cast"])
@pytest.mark.by_turns(3)
def test_long_chains_do_not_recurse(links: str) -> None:
    length = (100_000 if TEST_ALL else 20_000) if links in ("neg", "exp") else 5_000
    x = leaf(f32, 6)
    node = x
    one = leaf(f32, 1)
    with configure(verify=False):
        for i in range(length):
            match links:
                case "reshape":
                    node = build.reshape(node, (2, 3) if i % 2 else (3, 2))
                case "slice":
                    node = build.slice_(node, (Span(5, 6, -1),))
                case "concat":
                    node = build.concat([node, one], 0)
                case "cast":
                    node = build.cast(node, dtypes.float64 if i % 2 else f32)
                case _:
                    node = build.unary(links, node)
        (after,) = rewrite([node])
    depth = len(topological([after]))
    if links in ("neg", "slice"):
        assert after is x
    elif links == "exp":
        assert after is node
    else:
        assert depth <= length


def test_a_wide_graph_with_much_sharing_is_walked_once() -> None:
    node = leaf(f32, 3)
    for _ in range(200):  # 2**200 paths
        node = build.binary("add", build.unary("neg", build.unary("neg", node)), node)
    (rule,) = (rule for rule in RULES if rule.name == "nested_unary")
    applied: list[Node] = []

    def counted(node: Node) -> Node | None:
        after = rule.function(node)
        applied.extend([node] if after is not None else [])
        return after

    rewrite([node], [replace(rule, function=counted)])
    assert len(applied) == 200

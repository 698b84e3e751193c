"""Every rule, on what is found to match it: it fires, it keeps its float contract, and rewriting comes to an end."""

from __future__ import annotations

from pathlib import Path

import pytest

from smelt.graph.node import topological
from smelt.graph.ops import Op
from smelt.rewrite import FAMILIES, RULES, Contract, Rule, rewrite, rule_table
from tests.rewrite.growing import examples, leaf
from tests.rewrite.sampling import any_order, close, identical, inputs, run

DESIGN_PAGE = Path(__file__).resolve().parents[2] / "docs" / "design" / "rewrite.md"

each_rule = pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])


def test_names_are_unique() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert {rule.family for rule in RULES} == set(FAMILIES)


@each_rule
def test_the_rule_is_described_and_indexed(rule: Rule) -> None:
    assert rule.summary
    assert examples()[rule.name]
    assert not rule.functions or set(rule.ops) <= {Op.UNARY, Op.BINARY}


@each_rule
def test_the_rule_fires_and_keeps_its_contract(rule: Rule) -> None:
    for seed, before in enumerate(examples()[rule.name]):
        after = rule.function(before)
        assert after is not None and after is not before
        assert (after.dtype, after.shape) == (before.dtype, before.shape)
        exactly = rule.contract is Contract.EXACT or any_order(before)
        for special, dim in ((False, 0), (False, 5), (True, 1), (True, 5)):
            if special and not exactly:
                continue
            leaves = inputs([before], seed, special, dim)
            (expected,), (found,) = run([before], leaves, dim), run([after], leaves, dim)
            same = identical if exactly else close
            assert same(expected, found), f"example {seed}: {expected} became {found}"


@each_rule
def test_rewriting_the_examples_ends_at_a_fixpoint(rule: Rule) -> None:
    for seed, before in enumerate(examples()[rule.name]):
        (after,) = rewrite([before])
        assert rewrite([after]) == [after]
        leaves = inputs([before], seed, special=False)
        assert close(run([before], leaves)[0], run([after], leaves)[0])


@each_rule
def test_the_rule_alone_comes_to_an_end(rule: Rule) -> None:
    for before in examples()[rule.name]:
        (after,) = rewrite([before], [rule])
        assert after is not before


@each_rule
def test_computed_sources_are_read_and_not_taken_apart(rule: Rule) -> None:
    for before in examples()[rule.name]:
        computed = [source for source in set(before.sources) if source.op not in (Op.LEAF, Op.CONST)]
        hidden = {node for source in computed for node in topological([source]) if node.op is Op.LEAF}
        for source in computed:
            source.leaf = leaf(source.dtype, *source.shape)
        try:
            after = rule.function(before)
            reached = set() if after is None else set(topological([after]))
        finally:
            for source in computed:
                source.leaf = None
        assert not reached & (hidden - set(before.sources))


def test_the_design_page_lists_the_rules_as_they_are() -> None:
    page = DESIGN_PAGE.read_text(encoding="utf-8")
    begin, end = "<!-- rules: begin -->\n", "<!-- rules: end -->"
    listed = page.partition(begin)[2].partition(end)[0].strip()
    assert listed == rule_table().strip(), "replace the part between the markers by smelt.rewrite.rule_table()"

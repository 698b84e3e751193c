"""Random graphs give the same results before and after rewriting, with any family switched off."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from smelt import dtypes
from smelt.config import configure
from smelt.dtypes import DType
from smelt.graph.node import Node, topological
from smelt.graph.ops import Op
from smelt.rewrite import FAMILIES, RULES, Contract, Rule, rewrite
from tests.rewrite.growing import Grower
from tests.rewrite.sampling import any_order, identical, inputs, run, sizes


def _exactly(rule: Rule) -> Rule:
    """A rule, only where it must keep every bit."""
    if rule.contract is Contract.EXACT:
        return rule
    return replace(rule, function=lambda node: rule.function(node) if any_order(node) else None)


EXACT_RULES = [_exactly(rule) for rule in RULES]


@st.composite
def graphs(draw: st.DrawFn, *options: DType) -> list[Node]:
    # One seed for all choices: drawn one by one, they would mostly be the simplest.
    grower = Grower(Random(draw(st.integers(0, 1 << 32))), draw(st.sampled_from(options)))
    for _ in range(draw(st.sampled_from((1, 2, 4, 8, 12, 16)))):
        grower.grow()
    return grower.pool[-2:] if draw(st.booleans()) else grower.pool[-1:]


seeds = st.integers(0, 1 << 20)
dims = st.sampled_from((0, 1, 2, 7))  # what n is when the graph runs


@given(graphs(dtypes.int32, dtypes.uint8, dtypes.int64, dtypes.bool_), seeds, dims)
def test_integer_graphs_are_unchanged_by_all_rules(roots: list[Node], seed: int, dim: int) -> None:
    # Integers wrap, so that sums and products in any order agree.
    leaves = inputs(roots, seed, special=True, dim=dim)
    for expected, found in zip(run(roots, leaves, dim), run(rewrite(roots), leaves, dim), strict=True):
        assert identical(expected, found)


@given(graphs(dtypes.float32, dtypes.bfloat16), seeds, dims)
def test_float_graphs_are_unchanged_by_exact_rules(roots: list[Node], seed: int, dim: int) -> None:
    leaves = inputs(roots, seed, special=True, dim=dim)
    for expected, found in zip(run(roots, leaves, dim), run(rewrite(roots, EXACT_RULES), leaves, dim), strict=True):
        assert identical(expected, found)


def _whole_numbers(roots: list[Node], seed: int, dim: int) -> dict[Node, np.ndarray]:
    """Small whole numbers, for graphs in which all values stay exact in float64."""
    rng = np.random.default_rng(seed)
    order = topological(roots)
    leaves = {x: rng.integers(-2, 3, sizes(x, dim)).astype(np.float64) for x in order if x.op is Op.LEAF}
    assume(all(np.all(np.abs(value) < 2.0**50) for value in run(order, leaves, dim)))
    return leaves


@given(graphs(dtypes.float64), seeds, dims)
def test_float_graphs_are_unchanged_by_all_rules_where_sums_are_exact(roots: list[Node], seed: int, dim: int) -> None:
    leaves = _whole_numbers(roots, seed, dim)
    for expected, found in zip(run(roots, leaves, dim), run(rewrite(roots), leaves, dim), strict=True):
        assert np.array_equal(expected, found)


@pytest.mark.parametrize("family", FAMILIES)
@given(roots=graphs(dtypes.float64), seed=seeds, dim=dims)
def test_a_family_switched_off_changes_nothing(family: str, roots: list[Node], seed: int, dim: int) -> None:
    leaves = _whole_numbers(roots, seed, dim)
    with configure(disabled_rules=frozenset({family})):
        after = rewrite(roots)
    for expected, found in zip(run(roots, leaves, dim), run(after, leaves, dim), strict=True):
        assert np.array_equal(expected, found)


@given(graphs(dtypes.float32, dtypes.int32))
def test_rewriting_twice_changes_nothing_more(roots: list[Node]) -> None:
    once = rewrite(roots)
    assert rewrite(once) == once

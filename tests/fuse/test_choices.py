"""What is stored and what is computed inside of kernels are choices: any that are legal give the same values."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from smelt.compiler import simplify
from smelt.dtypes import float32
from smelt.fuse import Choices, parse_choices, partition, storable
from smelt.graph import build
from smelt.graph.interpret import interpret
from smelt.graph.node import Node, topological
from smelt.kernel import Illegal
from tests.fuse.running import run_fused
from tests.fuse.test_fuse import check_close, jumps, smooth_leaves
from tests.graph.random_graphs import leaf, random_program


def legal_part(roots: list[Node], wanted: Choices) -> Choices:
    """Choices without those that are refused, one after the other."""
    while True:
        try:
            partition(roots, choices=wanted)
            return wanted
        except Illegal as refusal:
            found = re.match(r"inside (\d+): ", str(refusal))
            assert found
            wanted = wanted._replace(inside=wanted.inside - {int(found[1])})


@given(seed=st.integers(0, 10**9))
def test_any_choices_that_are_legal_give_the_same_values(seed: int) -> None:
    program = random_program(seed)
    assume(not any(jumps(node) for node in topological(program.roots)))
    leaves = smooth_leaves(program, seed)
    roots = simplify(program.roots)
    stored = [storable(root) for root in dict.fromkeys(map(storable, roots))]
    order = topological(stored)
    decided = [order.index(decision.node) for decision in partition(stored).decisions]
    rng = random.Random(seed)
    numbers = {kind: frozenset(n for n in decided if rng.random() < 0.3) for kind in ("stored", "inside")}
    choices = legal_part(stored, Choices(numbers["stored"], numbers["inside"] - numbers["stored"]))
    assert parse_choices(str(choices)) == choices
    expected = interpret(program.roots, leaves, program.dims)
    found = run_fused(roots, leaves, program.dims, True, choices)
    for a, b, root in zip(found, expected, program.roots, strict=True):
        check_close(a, b, root)


def test_a_choice_is_followed() -> None:
    x = leaf(float32, (8, 9))
    inner = build.unary("exp", x)
    root = build.unary("log", inner)
    number = topological([root]).index(inner)
    assert len(partition([root]).groups) == 1
    groups, decisions = partition([root], choices=Choices(frozenset({number})))
    assert [group.sink for group in groups] == [inner, root]
    assert [(d.node, d.reason) for d in decisions if d.kind == "stored"][-1] == (inner, "it was chosen")


def test_a_choice_against_the_limits_is_followed() -> None:
    x = leaf(float32, (8, 9))
    dear = build.unary("exp", x)
    roots = [build.unary("neg", dear), build.reduce("add", dear, (0,))]
    stored = {decision.node: decision.reason for decision in partition(roots).decisions if decision.kind == "stored"}
    assert stored[dear] == "several kernels ask for it, and it is dear to compute again"
    inside = Choices(inside=frozenset({topological(roots).index(dear)}))
    assert [group.sink for group in partition(roots, choices=inside).groups] != [dear, *roots]
    assert dear not in [group.sink for group in partition(roots, choices=inside).groups]


def test_a_choice_that_cannot_be_is_refused() -> None:
    x = leaf(float32, (8, 9))
    total = build.reduce("add", x, (0,))
    root = build.reduce("add", build.unary("exp", total), (0,))
    wide = build.contract(x, build.permute(x, (1, 0)), (0, 1), (1, 2), (0, 2))
    root = build.reduce("add", wide, (0,))
    with pytest.raises(Illegal, match=r"inside \d+: its kernel has"):
        partition([root], choices=Choices(inside=frozenset({topological([root]).index(wide)})))


@pytest.mark.parametrize("text", ["keep 3", "store", "inside x", "store 1 -2"])
def test_texts_that_are_no_choices(text: str) -> None:
    with pytest.raises(Illegal, match="is no choice"):
        parse_choices(text)


def test_the_text_of_choices() -> None:
    assert str(parse_choices(" store 17 3 ;inside 4")) == "store 3 17; inside 4"
    assert str(Choices()) == "" and parse_choices("") == Choices()

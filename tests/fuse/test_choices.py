"""What is stored and what is computed inside of kernels are choices: any that are legal give the same values."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from smelt.compiler.simplifying import simplify
from smelt.dtypes import float32
from smelt.fuse import Choices, late_sites, parse_choices, partition, storable
from smelt.fuse.split import split_reductions
from smelt.graph import build
from smelt.graph.interpret import interpret
from smelt.graph.node import Node, topological
from smelt.graph.ops import Op
from smelt.kernel import Illegal
from tests.fuse.running import run_fused
from tests.fuse.test_fuse import check_close, jumps, smooth_leaves
from tests.graph.random_graphs import leaf, random_program
from tests.profiles import NEON


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


@given(seed=st.integers(0, 10**9))
def test_choices_of_all_kinds_give_the_same_values_or_are_refused(seed: int) -> None:
    program = random_program(seed)
    assume(not any(jumps(node) for node in topological(program.roots)))
    roots = [storable(root) for root in dict.fromkeys(map(storable, simplify(program.roots)))]
    order, rng = topological(roots), random.Random(seed)
    folds = [k for k, node in enumerate(order) if node.op in (Op.REDUCE, Op.CONTRACT)]
    pieces = frozenset((k, rng.choice((1, 2, 3, 4))) for k in folds if rng.random() < 0.7)
    drawn = [frozenset(k for k in range(len(order)) if rng.random() < 0.1) for _ in range(4)]
    choices = Choices(drawn[0], drawn[1] - drawn[0], drawn[2], drawn[3], pieces)
    assert parse_choices(str(choices)) == choices
    leaves = smooth_leaves(program, seed)
    try:
        found = run_fused(roots, leaves, program.dims, True, choices, NEON)
    except Illegal:
        return
    for a, b, root in zip(found, interpret(roots, leaves, program.dims), roots, strict=True):
        check_close(a, b, root)


def test_pieces_are_as_many_as_was_chosen() -> None:
    x = leaf(float32, (6, 50))
    total = build.reduce("add", x, (0, 1))
    number = topological([total]).index(total)
    for count, sizes in ((1, []), (7, [7]), (2, [2])):
        _, pieces = split_reductions([total], [(number, count)])
        assert [node.shape for node in pieces] == [(size,) for size in sizes]
    product = build.contract(x, x, (0, 1), (2, 1), (0, 2))
    _, pieces = split_reductions([product], [(topological([product]).index(product), 5)])
    assert [node.shape for node in pieces] == [(5, 6, 6)]
    with pytest.raises(Illegal, match="7 pieces of"):
        split_reductions([product], [(topological([product]).index(product), 7)])
    with pytest.raises(Illegal, match="no reduction"):
        split_reductions([product], [(0, 2)])


def test_sites_that_are_alike_are_one() -> None:
    x = leaf(float32, (512, 64))
    sums = []
    for _ in range(3):
        x = build.unary("exp", x)  # several kernels ask for it, and it is dear
        sums.append(build.reduce("add", build.unary("sin", x), (1,)))
    sites = late_sites([*sums, x], *partition([*sums, x]))
    inside = [site for site in sites if site.choices.inside]
    assert sorted(len(site.choices.inside) for site in inside) == [1, 1]  # the first reads a leaf, the last is a result
    assert all(site.words.startswith("computes the exp float32[512, 64]") for site in inside)
    for site in sites:
        assert partition([*sums, x], choices=site.choices).groups


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


HOSTILE = [
    "keep 3",
    "store",
    "inside x",
    "store 1 -2",
    "store ٣",
    "pieces 3",
    "equal 3",
    "equal 3/0",
    "pieces 3/0",
    "pieces 3/4/5",
    "store 3/4",
]
HOSTILE += ["store 123456789", "pieces 1/1000", "store 1,2", "store 0x3", "store 1\u2028inside", "pieces /3"]


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_that_are_no_choices(text: str) -> None:
    with pytest.raises(Illegal, match="is no choice"):
        parse_choices(text)


@pytest.mark.parametrize("text", ["store 3; inside 3", "pieces 3/2 3/4", "equal 0/1 0/2"])
def test_choices_that_contradict_themselves(text: str) -> None:
    with pytest.raises(Illegal, match="two things"):
        parse_choices(text)


@pytest.mark.parametrize("choices", [Choices(**{word: frozenset({9})}) for word in ("store", "inside", "alone")])
def test_nodes_that_are_not_there(choices: Choices) -> None:
    with pytest.raises(Illegal, match="the graph has 2 nodes"):
        partition([build.unary("exp", leaf(float32, (8, 9)))], choices=choices)


def test_a_kernel_does_not_grow_without_end() -> None:
    x = leaf(float32, (64,))
    for _ in range(1200):
        x = build.unary("sin", x)
    inside = Choices(inside=frozenset(range(1, 1200)))
    with pytest.raises(Illegal, match="far too many nodes"):
        partition([x], choices=inside)


def test_the_text_of_choices() -> None:
    assert str(parse_choices(" store 17 3 ;inside 4")) == "store 3 17; inside 4"
    text = "store 3; alone 2; apart 7 8; pieces 5/1 6/16; equal 0/2"
    assert str(parse_choices(text)) == text
    assert str(Choices()) == "" and parse_choices("") == Choices()

"""Random programs: any term of a saturated graph is equal to what was written, and so is what is compiled of it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smelt as sm
from smelt import dtypes, runtime
from smelt.config import configure
from smelt.egraph import Alternative, Fuel, Island, Plan, Planner, Pricing, rules_for
from smelt.egraph.classes import EGraph
from smelt.egraph.extract import Table, Term
from smelt.egraph.saturate import saturate
from smelt.errors import DTypeError, InternalError
from smelt.graph import Node, Op, build, rewritten, substituted
from smelt.graph.node import constant_value, made
from smelt.rewrite import Contract, rewrite
from smelt.runtime import Runtime
from smelt.tensor.handle import wrap
from tests.egraph.checks import EPSILON
from tests.egraph.programs import random_choice, random_program, random_term
from tests.rewrite.growing import leaf
from tests.rewrite.sampling import Array, identical, inputs, run

LITTLE = Fuel(turns=4, forms=400)
TERMS = 4  # of each graph
seeds = st.integers(0, 1 << 32)
steps = st.integers(3, 14)


def size(root: Node) -> Node:
    """A graph whose values, for inputs without their signs, no rounding in a program is larger than, in proportion."""

    def change(old: Node, same: Node) -> Node:
        if not old.dtype.is_float:
            return same
        if old.op is Op.COMPOSITE or (old.op is Op.UNARY and old.attribute != "exp"):
            axes = range(old.rank) if old.op is Op.COMPOSITE else ()  # of a softmax, any may be the largest
            wide = build.reduce("add", same.sources[0], axes, keep_axes=True)
            return build.shift(build.scale(build.broadcast_to(wide, old.shape), 2.0), 1.0)  # none changes faster
        if old.op is Op.UNARY:
            return build.scale(build.shift(same.sources[0], 1.0), 8.0)  # powers are of numbers up to 2
        if old.op is Op.BINARY:
            return build.binary(
                {"sub": "add", "max": "add", "min": "add", "div": "mul"}.get(old.attribute, old.attribute),
                *same.sources,
            )
        if old.op is Op.REDUCE:
            return build.reduce("add", same.sources[0], old.attribute.axes)
        return build.const(abs(constant_value(old)), old.dtype) if old.op is Op.CONST else same

    return rewritten([root], change)[0]


def near(roots: Sequence[Node], others: Sequence[Node], leaves: dict[Node, Array], found: Sequence[Array]) -> bool:
    """Whether results are what roots give, up to the rounding of all terms of either program."""
    plain = {node: np.abs(value) for node, value in leaves.items()}
    for root, other, expected, got in zip(roots, others, run(roots, leaves), found, strict=True):
        if not root.dtype.is_float:
            if not identical(expected, got):
                return False
            continue
        terms = sum(value.astype(np.float64) for value in run([size(root), size(other)], plain))
        distance = np.abs(expected.astype(np.float64) - got.astype(np.float64))
        if not np.all(distance <= 200 * EPSILON[root.dtype.numpy.name] * (1 + terms)):
            return False
    return True


@pytest.mark.parametrize("contract", list(Contract), ids=[contract.value for contract in Contract])
@given(seed=seeds, count=steps, rewriting=st.booleans())
def test_any_term_is_equal_to_what_was_written(contract: Contract, seed: int, count: int, rewriting: bool) -> None:
    exactly = contract is Contract.EXACT
    roots = random_program(seed, count, dtypes.float64, exact=exactly)
    roots = rewrite(roots) if rewriting else roots
    graph = EGraph()
    places = [graph.add(root) for root in roots]
    saturate(graph, rules_for(contract), LITTLE)
    leaves = inputs(roots, seed % 1000, special=exactly)
    for number in range(TERMS):
        term = random_term(graph, [graph.find(place) for place in places], Random(number))
        if term is None:
            continue
        assert [(node.dtype, node.shape) for node in term] == [(node.dtype, node.shape) for node in roots]
        found = run(term, leaves)
        if exactly:
            assert all(identical(a, b) for a, b in zip(run(roots, leaves), found, strict=True))
        else:
            assert near(roots, term, leaves, found)


@given(seed=seeds, count=steps)
def test_integers_are_kept_to_the_bit(seed: int, count: int) -> None:
    """All rules but those that only lose digits: integers have none to lose, and wrap."""
    roots = [as_integers(root) for root in random_program(seed, count, dtypes.float64, exact=True)]
    roots = [root for root in roots if root is not None]
    graph = EGraph()
    places = [graph.add(root) for root in roots]
    saturate(graph, rules_for(Contract.FAST), LITTLE)
    leaves = inputs(roots, seed % 1000, special=True)
    term = random_term(graph, [graph.find(place) for place in places], Random(seed))
    if term is not None:
        assert all(identical(a, b) for a, b in zip(run(roots, leaves), run(term, leaves), strict=True))


def as_integers(root: Node) -> Node | None:
    """The same program of integers, where there is one."""
    new: dict[Node, Node] = {}

    def change(old: Node, same: Node) -> Node:
        if not old.dtype.is_float:
            return same
        if old.op is Op.LEAF:
            return new.setdefault(old, leaf(dtypes.int32, *old.shape))
        return made(old.op, dtypes.int32, old.shape, same.sources, old.attribute)

    try:
        return rewritten([root], change)[0]
    except (DTypeError, InternalError):  # of a function that integers have not
        return None


# --- through the whole compiler


def compiled(roots: Sequence[Node], leaves: dict[Node, Array], contracts: str) -> list[Array]:
    tensors = {node: sm.tensor(value)._node for node, value in leaves.items()}
    results = [wrap(node) for node in substituted(roots, tensors)]
    with runtime.using(Runtime()), configure(contracts=contracts):
        sm.realize(*results)
    return [result.numpy() for result in results]


class Forgetful(Planner):
    """Plans anew each time."""

    def plan(self, island: Island, pricing: Pricing) -> Plan:
        return self._plan(island.frozen(), pricing)


@pytest.fixture
def takes_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are any terms, whatever they cost."""

    def drawn(table: Table, roots: Sequence[Node], *_: object) -> list[Term]:
        return [Term(0.0, random_choice(table, roots, Random(number))) for number in range(2)]

    def chosen(plan: Plan) -> Alternative | None:
        return plan.alternatives[0] if plan.alternatives else None

    monkeypatch.setattr("smelt.compiler.record.disk_cache", lambda: None)  # what others compile has other plans
    monkeypatch.setattr(
        "smelt.compiler.planning._planner", lambda name, *_: Forgetful(rules_for(Contract(name)), fuel=LITTLE)
    )
    monkeypatch.setattr("smelt.egraph.plan.extract", drawn)
    monkeypatch.setattr(Plan, "chosen", property(chosen))


several = st.lists(st.tuples(seeds, steps), min_size=1, max_size=3)


@pytest.mark.by_turns(3)
@pytest.mark.usefixtures("takes_anything")
@given(chosen=several)
def test_an_exact_contract_gives_the_same_bits_as_none(chosen: list[tuple[int, int]]) -> None:
    roots = [root for seed, count in chosen for root in random_program(seed, count, dtypes.float32, exact=True)]
    leaves = inputs(roots, chosen[0][0] % 1000, special=True)
    for a, b in zip(compiled(roots, leaves, "off"), compiled(roots, leaves, "exact"), strict=True):
        assert identical(a, b)


@pytest.mark.by_turns(3)
@pytest.mark.usefixtures("takes_anything")
@pytest.mark.parametrize("contracts", ["regroups", "fast"])
@given(chosen=several)
def test_other_contracts_give_what_they_promise(contracts: str, chosen: list[tuple[int, int]]) -> None:
    roots = [root for seed, count in chosen for root in random_program(seed, count, dtypes.float32)]
    roots = [root for root in roots if root.dtype.is_float]  # two nearly equal values may change places in an argmax
    leaves = inputs(roots, chosen[0][0] % 1000, special=False)
    assert near(roots, roots, leaves, compiled(roots, leaves, contracts))

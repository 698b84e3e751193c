"""Rules of users on random programs: whatever is found and taken, results stay the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import dtypes
from smelt.egraph import Planner, Pricing
from smelt.graph.node import private_nodes
from smelt.rewrite import rewrite
from tests.rewrite.growing import Grower
from tests.rewrite.sampling import identical, inputs, run

Both = tuple[sm.Tensor, sm.Tensor]


def doubled(x: sm.Tensor) -> Both:
    return x + x, x << 1


def factored(a: sm.Tensor, b: sm.Tensor, c: sm.Tensor) -> Both:
    return a * b + a * c, a * (b + c)


def multiplied_out(a: sm.Tensor, b: sm.Tensor, c: sm.Tensor) -> Both:
    return a * (b + c), a * b + a * c


def moved(a: sm.Tensor, b: sm.Tensor, c: sm.Tensor) -> Both:
    return (a + b) + c, a + (b + c)


def negated(a: sm.Tensor, b: sm.Tensor) -> Both:
    return a - b, -(b - a)


def distributed(a: sm.Tensor, b: sm.Tensor, c: sm.Tensor) -> Both:
    return a & (b | c), (a & b) | (a & c)


def largest(a: sm.Tensor, b: sm.Tensor) -> Both:
    return sm.maximum(a, b), -sm.minimum(~a, ~b) - 1


def summed(a: sm.Tensor, b: sm.Tensor) -> Both:
    return (a + b).sum(axis=0), a.sum(axis=0) + b.sum(axis=0)


def spread(a: sm.Tensor, b: sm.Tensor) -> Both:
    return sm.where(a < b, a, b), sm.minimum(a, b)


RULES = (doubled, factored, multiplied_out, moved, negated, distributed, largest, summed, spread)


def examples(count: int, least: int) -> Iterator[Any]:
    for rank in range(least, 4):
        yield tuple(sm.ones((2, 3, 4)[:rank], dtype=sm.int64) for _ in range(count))


@pytest.fixture(scope="module")
def rules() -> Iterator[list[Any]]:
    with ExitStack() as stack:
        found = []
        for one in RULES:
            count = one.__code__.co_argcount
            made = sm.rule(one, examples=list(examples(count, 1 if one is summed else 0)))
            found.append(stack.enter_context(made))
        yield [rule for one in found for rule in one._statement.rules]


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_keep_their_results(rules: list[Any], seed: int) -> None:
    chance, used, seen = Random(seed), set[str](), list[Any]()
    planner = Planner(rules)
    for _ in range(5):
        with private_nodes():
            grower = Grower(Random(chance.random()), dtypes.int64)
            for _ in range(14):
                grower.grow()
            roots = rewrite(grower.pool[-2:])
            # Any form may be the cheapest, and whatever is found is taken.
            prices = Pricing(str(chance.random()), lambda node: chance.random() + 0.01, lambda roots: chance.random())
            seen.clear()
            planned = planner.planned(roots, prices, lambda island, plan: seen.append(plan))
            leaves = inputs(roots + planned, chance.randrange(1 << 20), special=True)
            for before, after in zip(run(roots, leaves), run(planned, leaves), strict=True):
                assert identical(before, after)
        used |= {name for plan in seen for name, spent in plan.report.rules.items() if spent.matches}
    assert used or seed  # the first graphs have something for them


def test_all_of_them_are_found(rules: list[Any]) -> None:
    x, y, z = (sm.asarray(np.arange(6, dtype=np.int64).reshape(2, 3)) for _ in range(3))
    for one in RULES:
        left, right = one(*(x, y, z)[: one.__code__.co_argcount])
        assert left.tolist() == right.tolist()

"""Ranges of integers that a graph shows, and the checks of indices that they save."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.dtypes import bool_, float32, int8, int64, uint8
from smelt.errors import IndexRangeError
from smelt.graph import build
from smelt.graph.checks import FINE, checks_of, wrapped
from smelt.graph.interpret import interpret
from smelt.graph.node import Node, topological
from smelt.graph.ranges import Ranges, full
from tests.graph.random_graphs import leaf

FUNCTIONS = ("add", "sub", "mul", "floordiv", "mod", "max", "min", "and", "shr", "or")


def random_integers(rng: random.Random, depth: int) -> Node:
    """A vector of four integers, made of small constants, positions and an input."""
    kind = rng.random()
    if depth == 0 or kind < 0.2:
        dtype = rng.choice((int8, uint8, int64))
        number = rng.randint(0 if dtype is uint8 else -9, 9)
        return rng.choice([build.const(number, dtype, (4,)), build.iota(4, dtype), leaf(dtype, (4,))])
    a, b = random_integers(rng, depth - 1), random_integers(rng, depth - 1)
    if kind < 0.3:
        return build.cast(a, rng.choice((int8, uint8, int64)))
    if kind < 0.4:
        functions = [build.unary("neg", a), build.unary("abs", a)]
        return rng.choice([*functions, *(build.scan(op, a, 0) for op in ("max", "min", "add"))])
    b = build.cast(b, a.dtype)
    if kind < 0.5:
        return build.where(build.lt(a, b), a, b)
    if kind < 0.6:
        return build.slice_(build.concat([a, b], 0), [build_span(rng)])
    return build.binary(rng.choice(FUNCTIONS), a, b)


def build_span(rng: random.Random) -> tuple[int, int, int]:
    return rng.randint(0, 4), 4, 1


@given(seed=st.integers(0, 2**40))
def test_values_lie_in_their_range(seed: int) -> None:
    rng = random.Random(seed)
    node = random_integers(rng, 4)
    generator = np.random.default_rng(seed)
    leaves = {
        x: generator.integers(*full(x.dtype), 4, endpoint=True, dtype=x.dtype.numpy)
        for x in topological([node])
        if x.op.value == "leaf"
    }
    (value,) = interpret([node], leaves)
    low, high = Ranges()(node)
    assert low <= int(value.min())
    assert int(value.max()) <= high


def test_what_is_known_about_indices() -> None:
    ranges, x = Ranges(), leaf(int64, (6,))
    seven = build.const(7, int64, (6,))
    assert ranges(x) == full(int64)
    assert ranges(build.iota(6, int64)) == (0, 5)
    assert ranges(build.binary("mod", x, seven)) == (0, 6)
    assert ranges(build.cast(leaf(bool_, (6,)), int64)) == (0, 1)
    assert ranges(build.sort(leaf(float32, (6,)), 0, indices=True)) == (0, 5)
    assert ranges(build.cast(leaf(uint8, (6,)), int64)) == (0, 255)
    assert ranges(build.cast(leaf(float32, (6,)), int8)) == full(int8)
    assert ranges(build.nonzero(leaf(bool_, (6,)), 3)) == (0, 6)
    assert ranges(build.scan("max", build.iota(6, int64), 0)) == (0, 5)
    assert ranges.inside(build.iota(6, int64), 6) and not ranges.inside(build.iota(6, int64), 5)


def test_only_indices_that_may_lie_outside_are_checked() -> None:
    x = leaf(float32, (6,))
    inside = build.binary("mod", leaf(int64, (4,)), build.const(6, int64, (4,)))
    assert checks_of(topological([build.gather(x, [inside], (-1,), checked=True)])) == {}
    unchecked = build.gather(x, [leaf(int64, (4,))], (-1,))
    assert checks_of(topological([unchecked])) == {}


@pytest.mark.parametrize(("given_index", "found"), [([0, 5, -6], FINE), ([0, 6, 2], 6), ([-7, 0, 1], -7)])
def test_a_check_finds_the_index_as_it_was_given(given_index: list[int], found: int) -> None:
    x, index = leaf(float32, (6, 2)), leaf(int64, (3,))
    wide = build.broadcast_to(build.reshape(wrapped(index, 6, Ranges()), (3, 1)), (3, 2))
    ((node, check),) = checks_of(topological([build.gather(x, [wide], (-1, 1), checked=True)])).items()
    (value,) = interpret([node], {index: np.array(given_index)})
    assert int(value) == found
    if found == FINE:
        check.report(found)
        return
    with pytest.raises(IndexRangeError, match=f"index {found} is out of range for axis 0 of size 6"):
        check.report(int(value))

"""Random graphs give the same results before and after rewriting, with any family switched off."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from smelt import dtypes
from smelt.config import configure
from smelt.dtypes import DType
from smelt.graph import build
from smelt.graph.index import Dim, IndexLike, upper
from smelt.graph.node import Node, topological
from smelt.graph.ops import Op, Span
from smelt.rewrite import FAMILIES, RULES, Contract, rewrite
from smelt.rewrite.rules.pattern import leaf
from tests.rewrite.sampling import identical, inputs, run, sizes

T = TypeVar("T")
N = Dim("n", 0, 9)
SIZES: tuple[IndexLike, ...] = (*(1, 1, 1, 2, 2, 3, 3, 5, N) * 3, 0)
EXACT_RULES = [rule for rule in RULES if rule.contract is Contract.EXACT]


class Grower:
    """Grows a random graph, one node at a time, from leaves, constants and what is there already."""

    def __init__(self, random: Random, dtype: DType) -> None:
        self.random, self.dtype = random, dtype
        self.pool = [self.leaf(self.number(0, 4)), self.leaf(self.number(1, 3))]

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def coin(self) -> bool:
        return self.random.random() < 0.5

    def pick(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def leaf(self, rank: int) -> Node:
        return leaf(self.dtype, *(self.pick(SIZES) for _ in range(rank)))

    def grow(self) -> None:
        node = self.pick(STEPS)(self, self.pool[-1] if self.random.random() < 0.8 else self.pick(self.pool))
        if node is not None and np.prod([upper(size) for size in node.shape]) < 4_000:
            self.pool.append(node)


def _reshape(g: Grower, x: Node) -> Node:
    shape = list(x.shape)
    for _ in range(g.number(1, 3)):
        at = g.number(0, len(shape))
        kind = g.number(0, 2)
        if kind == 0 and len(shape) < 5:
            shape.insert(at, 1)
        elif kind == 1 and 1 in shape:
            shape.remove(1)
        elif at + 1 < len(shape) and all(isinstance(size, int) for size in shape[at : at + 2]):
            shape[at : at + 2] = [shape[at] * shape[at + 1]]
    return build.reshape(x, tuple(shape))


def _permute(g: Grower, x: Node) -> Node:
    return build.permute(x, g.random.sample(range(x.rank), x.rank))


def _expand(g: Grower, x: Node) -> Node:
    return build.expand(x, tuple(g.pick((*SIZES, 1, 4)) if size == 1 else size for size in x.shape))


def _slice(g: Grower, x: Node) -> Node:
    spans = []
    for size in x.shape:
        if not isinstance(size, int):
            spans.append(g.pick((Span(0, size, 1), Span(size - 1, size, -1))))
            continue
        start, stop, step = g.number(0, size), g.number(0, size), g.number(1, 3)
        positions = range(start, stop, step) if start <= stop else range(start - 1, stop - 1, -step)
        spans.append(Span(positions.start, len(positions), positions.step) if positions else Span(0, 0, 1))
    return build.slice_(x, spans)


def _pad(g: Grower, x: Node) -> Node:
    fill = build.const(g.number(0, 1), g.dtype)
    return build.pad(x, [(g.number(0, 2), g.number(0, 1)) for _ in x.shape], fill)


def _concat(g: Grower, x: Node) -> Node | None:
    if not x.rank:
        return None
    axis = g.number(0, x.rank - 1)
    fits = [y for y in g.pool if y.rank == x.rank and all(y.shape[i] == x.shape[i] for i in range(x.rank) if i != axis)]
    return build.concat([x, *(g.pick(fits) for _ in range(g.number(0, 2)))], axis)


def _unary(g: Grower, x: Node) -> Node:
    names = ("neg", "abs", "sign") if not g.dtype.is_bool else ("not",)
    return build.unary(g.pick(names), x)


def _binary(g: Grower, x: Node) -> Node:
    names = ("add", "sub", "mul", "max", "min") if not g.dtype.is_bool else ("and", "or", "xor", "max", "eq")
    name = g.pick(names)
    if g.coin():
        return build.binary(name, x, build.const(g.pick((0, 1, -1, -0.0)), g.dtype, x.shape))
    fits = [y for y in g.pool if y.shape == x.shape] + [leaf(g.dtype, *((1,) * x.rank)), leaf(g.dtype)]
    return build.binary(name, x, g.pick(fits))


def _split(g: Grower, x: Node) -> Node | None:
    """A tensor cut in two and joined again."""
    axes = [axis for axis, size in enumerate(x.shape) if isinstance(size, int) and size > 1]
    if not axes:
        return None
    axis = g.pick(axes)
    size = x.shape[axis]
    assert isinstance(size, int)
    at = g.number(0, size)

    def part(start: int, stop: int) -> Node:
        whole = [Span(0, other, 1) for other in x.shape]
        return build.slice_(x, [*whole[:axis], Span(start, stop - start, 1), *whole[axis + 1 :]])

    pieces = [part(0, at), part(at, size)]
    return build.concat(pieces[:: g.pick((1, 1, -1))], axis)


def _written_out(g: Grower, x: Node) -> Node | None:
    """A matrix product as a sum of products."""
    if not x.rank or g.dtype.is_bool:
        return None
    y = leaf(g.dtype, x.shape[-1], g.number(1, 3))
    return build.reduce("add", build.binary("mul", build.reshape(x, (*x.shape, 1)), y), (x.rank - 1,))


def _outer(g: Grower, x: Node) -> Node:
    y = g.leaf(1)
    return build.binary("max" if g.dtype.is_bool else "mul", build.reshape(x, (*x.shape, 1)), y)


def _where(g: Grower, x: Node) -> Node:
    y = g.pick([y for y in g.pool if y.shape == x.shape])
    return build.where(build.binary("le", x, y), y, build.unary("not" if g.dtype.is_bool else "neg", x))


def _cast(g: Grower, x: Node) -> Node:
    return build.cast(build.cast(x, g.pick((dtypes.int64, dtypes.float64, dtypes.int8))), g.dtype)


def _reduce(g: Grower, x: Node) -> Node | None:
    axes = [axis for axis in range(x.rank) if g.coin()]
    names = ("add", "add", "max", "min") if not g.dtype.is_bool else ("max", "min")
    name = g.pick(names)
    if any(x.shape[axis] in (0, N) for axis in axes) and name != "add":
        return None  # infinities would spread
    return build.reduce(name, x, axes, keep_axes=g.coin())


def _contract(g: Grower, x: Node) -> Node | None:
    if g.dtype.is_bool:
        return None
    labels = range(x.rank)
    known_sizes = dict(zip(labels, x.shape, strict=True)) | {x.rank: g.number(1, 3)}
    right = g.random.sample(list(known_sizes), g.number(0, min(3, len(known_sizes))))
    y = leaf(g.dtype, *(known_sizes[label] for label in right))
    known = sorted({*labels, *right})
    out = g.random.sample(known, g.number(0, len(known)))
    return build.contract(x, y, labels, right, out)


STEPS = (
    *(_reshape, _reshape, _permute, _permute, _expand, _expand, _slice, _slice, _pad, _pad, _concat),
    *(
        _unary,
        _unary,
        _binary,
        _binary,
        _binary,
        _split,
        _written_out,
        _outer,
        _where,
        _cast,
        _reduce,
        _reduce,
        _contract,
        _contract,
    ),
)


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

"""Random programs of what the e-graph's rules look for, and random terms of a saturated graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType
from smelt.egraph.classes import EGraph
from smelt.egraph.extract import Chosen, Table, built, keeps_extremes, priced
from smelt.graph import Node, build
from tests.egraph.examples import argmax, matmul, one_hot, rows
from tests.rewrite.growing import leaf
from tests.rewrite.sampling import sizes

T = TypeVar("T")
SIZES = (1, 2, 3, 3, 5)
i64 = dtypes.int64


class Growing:
    """A program that grows, one step at a time; matrices of few sizes, so that they fit together."""

    def __init__(self, random: Random, dtype: DType, *, exact: bool = False) -> None:
        self.random, self.dtype, self.exact = random, dtype, exact
        self.pool = [self.leaf(), self.leaf(), self.leaf()]
        self.results: list[Node] = []

    def pick(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def leaf(self, *shape: int) -> Node:
        return leaf(self.dtype, *(shape or (self.pick(SIZES), self.pick(SIZES))))

    def like(self, shape: tuple[int | None, int | None]) -> Node:
        """A matrix of these sizes, any where there is None: one that is there, or a new one."""
        fits = [x for x in self.pool if all(want in (None, size) for want, size in zip(shape, x.shape, strict=True))]
        if fits and self.random.random() < 0.7:
            return self.pick(fits)
        return self.leaf(*(self.pick(SIZES) if size is None else size for size in shape))

    def grow(self) -> None:
        x = self.pool[-1] if self.random.random() < 0.6 else self.pick(self.pool)
        node = self.pick(STEPS if self.exact else STEPS + LOOSE)(self, x)
        if node is None or np.prod(sizes(node)) > 200:
            return
        (self.pool if node.rank == 2 and node.dtype is self.dtype else self.results).append(node)

    def roots(self) -> list[Node]:
        """What a program gives."""
        return [*self.results[-2:], *self.pool[-2:]]


Step = Callable[[Growing, Node], Node | None]


def _matmul(g: Growing, x: Node) -> Node:
    m, n = sizes(x)
    kind = g.random.randrange(4)
    if kind == 0:
        return matmul(x, g.like((n, None)))
    if kind == 1:
        return matmul(g.like((None, m)), x)
    if kind == 2:
        return build.inner_products(x, g.like((None, n)), g.dtype)
    return build.contract(x, g.like((m, None)), (0, 1), (0, 2), g.pick([(1, 2), (2, 1)]), g.dtype)


def _add(g: Growing, x: Node) -> Node:
    m, n = sizes(x)
    a, b = x, g.like((m, n))
    return build.binary(g.pick(("add", "add", "sub")), *g.pick([(a, b), (b, a)]))


def _scale(g: Growing, x: Node) -> Node:
    m, n = sizes(x)
    small = g.like(g.pick([(m, 1), (1, n), (1, 1)]))
    return build.mul(*g.pick([(x, small), (small, x)]))


def _outer(g: Growing, x: Node) -> Node:
    m, n = sizes(x)
    return build.mul(g.like((m, 1)), g.like((1, n)))


def _total(g: Growing, x: Node) -> Node:
    keep = g.random.random() < 0.7
    return build.reduce(g.pick(("add", "add", "max")), x, g.pick([(0,), (1,), (0, 1)]), keep_axes=keep)


def _product_total(g: Growing, x: Node) -> Node:
    m, n = sizes(x)
    return build.reduce("add", build.mul(x, g.like((m, n))), g.pick([(0,), (1,), (0, 1)]), keep_axes=True)


def _terms_total(g: Growing, x: Node) -> Node:
    m, n = sizes(x)
    total = matmul(g.like((m, 3)), g.like((3, n)))
    for term in [x, g.like((m, n))][: g.pick((1, 2))]:
        total = build.add(total, term)
    return build.reduce("add", total, g.pick([(0,), (1,), (0, 1)]), keep_axes=True)


def _with_common(g: Growing, x: Node) -> Node:
    m, n = sizes(x)
    k = g.pick(SIZES)
    a, b = matmul(x, g.like((n, k))), matmul(x, g.like((n, k)))
    if g.random.random() < 0.3:
        a = build.add(a, g.like((m, k)))
    return build.binary(g.pick(("add", "sub")), a, b)


def _concat(g: Growing, x: Node) -> Node:
    m, n = sizes(x)
    axis = g.random.randrange(2)
    return build.concat([x, g.like((None, n) if axis == 0 else (m, None))], axis)


def _rows(g: Growing, x: Node) -> Node:
    return rows(x, g.pick(SIZES))


def _one_hot(g: Growing, x: Node) -> Node:
    numbers = leaf(g.pick((i64, dtypes.int8)), g.pick(SIZES))
    return matmul(one_hot(numbers, sizes(x)[0], g.dtype, turned=g.random.random() < 0.5), x)


def _turned(g: Growing, x: Node) -> Node:
    return build.permute(x, (1, 0))


def _function(g: Growing, x: Node) -> Node:
    m, n = sizes(x)
    if g.random.random() < 0.3:
        return build.binary(g.pick(("max", "min")), x, g.like((m, n)))
    return build.unary(g.pick(("tanh", "neg", "abs", "sin")), x)


def _softmax(g: Growing, x: Node) -> Node:
    return build.composite(g.pick(("softmax", "log_softmax")), x, axis=g.random.randrange(2))


STEPS: tuple[Step, ...] = (_matmul, _matmul, _matmul, _add, _add, _scale, _outer, _total, _product_total, _concat)
STEPS += (_terms_total, _with_common, _rows, _rows, _one_hot, _turned, _function, _softmax)


def _argmax(g: Growing, x: Node) -> Node:
    m, _ = sizes(x)
    kind = g.random.randrange(4)
    if kind == 0:
        x = build.composite("softmax", x, axis=1)
    elif kind == 1:
        x = build.unary(g.pick(("cbrt", "atan")), x)  # of which few values are equal by rounding
    elif kind == 2:
        x = build.binary(g.pick(("add", "sub")), x, g.like((m, 1)))
    else:
        x = build.binary(g.pick(("mul", "div")), x, build.exp(build.tanh(g.like((m, 1)))))
    return argmax(x, 1)


def _distances(g: Growing, x: Node) -> Node:
    m, n = sizes(x)
    y = g.like((None, n))
    difference = build.sub(build.reshape(x, (m, 1, n)), build.reshape(y, (1, *y.shape)))
    return build.reduce("add", build.mul(difference, difference), (2,))


def _powers(g: Growing, x: Node) -> Node:
    m, n = sizes(x)
    return build.mul(build.exp(build.tanh(x)), build.exp(build.tanh(g.like((m, n)))))


def _divided(g: Growing, x: Node) -> Node:
    return build.div(x, build.exp(build.tanh(g.like((sizes(x)[0], 1)))))


def _extreme(g: Growing, x: Node) -> Node:
    axes = g.pick([(0,), (1,)])
    return build.reduce(g.pick(("max", "min")), build.unary(g.pick(("tanh", "atan")), x), axes, keep_axes=True)


LOOSE: tuple[Step, ...] = (_argmax, _argmax, _distances, _powers, _divided, _extreme)


def random_program(seed: int, steps: int, dtype: DType, *, exact: bool = False) -> list[Node]:
    """The roots of a program; `exact`: without what only rules with a weaker contract look for."""
    growing = Growing(Random(seed), dtype, exact=exact)
    for _ in range(steps):
        growing.grow()
    return growing.roots()


def random_choice(table: Table, roots: Sequence[Node], random: Random) -> Chosen:
    """Any form of each class, whatever it costs, but never around in a circle."""
    chosen: Chosen = {}
    waiting = [(place, row) for place, rows in table.items() for row in rows]
    while any(root not in chosen for root in roots):
        random.shuffle(waiting)
        left = []
        for place, row in waiting:
            if place not in chosen and all(read in chosen for read in row.reads):
                chosen[place] = row
            elif place not in chosen:
                left.append((place, row))
        assert len(left) < len(waiting)
        waiting = left
    return chosen


def random_term(graph: EGraph, roots: Sequence[Node], random: Random) -> list[Node] | None:
    """The roots with any form of each class; None, if plans must not have these."""
    chosen = random_choice(priced(graph, roots, lambda form: 1.0), roots, random)
    return built(chosen, roots) if keeps_extremes(graph, chosen, roots) else None

"""Masks that compare what went into a clamp read what came out of it, and are the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import smelt as sm
from smelt.compiler.simplifying import simplify
from smelt.graph import Node, Op, topological
from smelt.transform.explain import examine

COMPARISONS: dict[str, Callable[[sm.Tensor, sm.Tensor], sm.Tensor]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
CLAMPS: dict[str, Callable[[sm.Tensor, sm.Tensor], sm.Tensor]] = {"max": sm.maximum, "min": sm.minimum}
NUMPY = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "max": np.maximum,
    "min": np.minimum,
}


def comparisons(roots: list[Node]) -> list[Node]:
    return [node for node in topological(roots) if node.op is Op.BINARY and node.attribute in ("lt", "le")]


def is_clamp(node: Node) -> bool:
    return node.op is Op.BINARY and node.attribute in ("max", "min")


@pytest.mark.parametrize("bound", [0.0, -0.0, 1.0, np.nan, np.inf])
def test_the_masks_are_the_same(bound: float) -> None:
    values = np.array([-np.inf, -2, -1, -0.0, 0.0, 0.5, 1, 3, np.inf, np.nan], np.float32)
    cases = list(itertools.product(CLAMPS, COMPARISONS, (False, True)))

    def f(*xs: sm.Tensor) -> list[tuple[sm.Tensor, sm.Tensor]]:
        found = []
        for x, (clamp, comparison, swapped) in zip(xs, cases, strict=True):
            y, limit = -x, sm.full(x.shape, bound)
            a, b = (limit, y) if swapped else (y, limit)
            found.append((CLAMPS[clamp](b, a), COMPARISONS[comparison](a, b)))
        return found

    results = sm.jit(f)(*[sm.asarray(values) for _ in cases])
    for (clamped, mask), (clamp, comparison, swapped) in zip(results, cases, strict=True):
        a, b = (np.float32(bound), -values) if swapped else (-values, np.float32(bound))
        np.testing.assert_array_equal(mask.numpy(), NUMPY[comparison](a, b))
        np.testing.assert_array_equal(clamped.numpy(), NUMPY[clamp](a, b))


@pytest.mark.parametrize(
    ("clamp", "comparison", "read"),
    [("max", ">", True), ("max", "<=", True), ("max", "<", False), ("min", "<", True), ("min", ">=", True)],
)
def test_what_the_clamp_tells_is_read_off_it(clamp: str, comparison: str, read: bool) -> None:
    y, zero = sm.asarray([-1, 0, 2]) * 3, sm.zeros(3, dtype=sm.int64)
    roots = simplify([CLAMPS[clamp](y, zero)._node, COMPARISONS[comparison](y, zero)._node])
    [mask] = comparisons(roots)
    assert any(map(is_clamp, mask.sources)) is read


def test_what_is_read_otherwise_stays_what_is_compared() -> None:
    y = sm.asarray([-1.0, 0.0, 2.0]) * 3
    clamped, mask = sm.maximum(y, 0), y > 0
    for roots in ([clamped, mask, y], [clamped, mask, sm.exp(y)], [mask, y + 1]):
        [found] = comparisons(simplify([root._node for root in roots]))
        assert not any(map(is_clamp, found.sources))


def test_a_relu_with_its_gradient_stores_only_what_comes_out() -> None:
    def f(x: sm.Tensor, w: sm.Tensor, v: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        before = x @ w
        after = sm.maximum(before, 0)
        return after @ v, sm.where(before > 0, x @ v, 0)

    parts = [sm.random.normal((48, 48)) for _ in range(3)]
    assert len(examine(f, *parts).kernels) == 3  # one for each product

"""How far a rule may go: results compared within its contract, and broken results that must not pass."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smelt.dtypes import DType, float64
from smelt.graph import Node, Op, build, rewritten, topological
from smelt.graph.node import constant_value, make
from smelt.rewrite import Contract, Rule
from tests.egraph.examples import Example, values
from tests.rewrite.sampling import Array, identical, run, sizes

EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
ROUNDINGS = 24  # of the sum of all terms, that a program of an example may differ by
SEEDS = range(4)


def largest(node: Node) -> Node:
    """A graph whose values, for inputs without their signs, are the sums of all terms of a node without theirs."""

    def change(old: Node, same: Node) -> Node:
        if old.op is Op.BINARY and old.attribute == "sub":
            return build.add(*same.sources)
        if old.op is Op.CONST and old.dtype.is_float:
            return build.const(abs(constant_value(old)), old.dtype)
        return build.unary("abs", same) if old.dtype.is_float and old.op is Op.UNARY else same

    return rewritten([node], change)[0]


def bound(rule: Rule, before: Node, leaves: dict[Node, Array], dtype: DType) -> Array:
    """How far each element of a result may be from what it was: functions lose what their arguments do."""
    (terms,) = run([largest(before)], {x: np.abs(y) for x, y in leaves.items()})
    wide = np.abs(terms.astype(np.float64))
    return ROUNDINGS * EPSILON[dtype.numpy.name] * (wide + (rule.family == "functions") * (1 + wide))


def differs(rule: Rule, example: Example, before: Node, after: Node) -> str:
    """What is wrong with the result of a rule; nothing, if it keeps its contract."""
    if (after.dtype, after.shape) != (before.dtype, before.shape):
        return f"{before!r} became {after!r}"
    for seed in SEEDS:
        leaves = values(example, before, seed)
        (expected,), (found,) = run([before], leaves), run([after], leaves)
        if rule.contract is Contract.EXACT or not before.dtype.is_float:
            if not identical(expected, found):
                return f"{expected} became {found}"
        else:
            distance = np.abs(expected.astype(np.float64) - found.astype(np.float64))
            if not np.all(distance <= bound(rule, before, leaves, before.dtype)):
                return f"{expected} became {found}"
    return differs_in_bits(example, before, after) if rule.contract is Contract.EXACT else ""


def differs_in_bits(example: Example, before: Node, after: Node) -> str:
    """What is wrong, for NaN, infinities, zeros of both signs and the ends of the range among the inputs."""
    for seed in SEEDS:
        leaves = values(example, before, seed, special=True)
        (expected,), (found,) = run([before], leaves), run([after], leaves)
        if not identical(expected, found):
            return f"{expected} became {found}"
    return ""


# --- broken results


def mutants(node: Node) -> Iterator[tuple[str, Node]]:
    """Results with one mistake each; some of them may be equal to what was right."""
    if node.dtype.is_float:
        yield "twice as much", build.scale(node, 2.0)
        yield "a little more", build.add(node, build.scale(build.add(node, build.const(1.0, node.dtype)), 1e-3))
    else:
        yield "one more", build.add(node, build.const(1, node.dtype))
    for axis, size in enumerate(sizes(node)):
        if size > 1:
            yield f"axis {axis} turned around", _flipped(node, axis)
            for other in range(axis):
                if node.shape[other] == size:
                    yield f"axes {other} and {axis} exchanged", build.permute(node, _exchanged(node.rank, other, axis))
    for number, below in enumerate(topological([node])):
        for words, broken in _broken(below):
            yield f"{words} at {number}", _with(node, below, broken)
    leaves = [x for x in topological([node]) if x.op is Op.LEAF]
    for k, a in enumerate(leaves):
        for b in leaves[:k]:
            if (a.dtype, a.shape) == (b.dtype, b.shape):
                yield f"inputs {k} and another exchanged", _with_both(node, a, b)


def _broken(node: Node) -> Iterator[tuple[str, Node]]:
    if node.op is Op.LEAF:
        for axis, size in enumerate(sizes(node)):
            if size > 1:
                yield f"an input turned around along axis {axis}", _flipped(node, axis)
    if node.op is Op.BINARY and node.dtype is node.sources[0].dtype:
        yield "the first operand alone", node.sources[0]
        yield "the second operand alone", node.sources[1]
    if node.op is Op.REDUCE:
        op, axes = node.attribute
        (x,) = node.sources
        for axis in range(x.rank):
            if axis not in axes and x.shape[axis] == x.shape[axes[0]]:
                yield f"axis {axis} reduced instead", build.reduce(op, x, (axis, *axes[1:]))
        if op in ("max", "min"):
            yield "the other end", build.reduce("min" if op == "max" else "max", x, axes)
    if node.op is Op.CONTRACT:
        yield from _relabelled(node)


def _relabelled(node: Node) -> Iterator[tuple[str, Node]]:
    left, right, out = node.attribute
    a, _ = node.sources
    for i in range(len(left)):
        for j in range(i):
            if a.shape[i] == a.shape[j]:
                labels = list(left)
                labels[i], labels[j] = labels[j], labels[i]
                yield "labels exchanged", build.contract(*node.sources, labels, right, out, node.dtype)


def _exchanged(rank: int, i: int, j: int) -> list[int]:
    order = list(range(rank))
    order[i], order[j] = j, i
    return order


def _flipped(node: Node, axis: int) -> Node:
    spans = [(size - 1, size, -1) if k == axis else (0, size, 1) for k, size in enumerate(sizes(node))]
    return build.slice_(node, spans)


def _with(root: Node, old: Node, new: Node) -> Node:
    """The root with another node in the place of one, which may itself read that."""
    return rewritten([root], lambda node, same: new if node is old else same)[0]


def _with_both(root: Node, a: Node, b: Node) -> Node:
    return rewritten([root], {a: b, b: a}.get)[0]


def doubled(node: Node) -> Node:
    """The same program in float64, over the same inputs."""

    def change(old: Node, same: Node) -> Node:
        if old.op is Op.LEAF:
            return build.cast(old, float64) if old.dtype.is_float else old
        if old.op is Op.CONST and old.dtype.is_float:
            return build.const(constant_value(old), float64)
        return make(old.op, float64 if old.dtype.is_float else old.dtype, old.shape, same.sources, old.attribute)

    return rewritten([node], change)[0]


def is_wrong(example: Example, before: Node, after: Node) -> bool:
    """Whether a result is wrong beyond rounding: far from the right one in a type with many more digits."""
    for seed in SEEDS:
        leaves = values(example, before, seed)
        expected, found = run([doubled(before), doubled(after)], leaves)
        if not np.allclose(expected, found, rtol=1e-9, atol=1e-9):
            return True
    return False

"""Contractions: written-out ones are recognized, and labels that do no work are dropped.

A contraction may sum in any order, so every rule that changes its labels is `reassociates`.
"""

from __future__ import annotations

from collections.abc import Sequence

from smelt.graph import Contraction, Node, Op, build, label_sizes
from smelt.rewrite.rule import Contract, Family
from smelt.rewrite.rules.pattern import expanded_axes, is_function, is_op, narrowed, proper_axes

family = Family("contraction")
_REASSOCIATES = Contract.REASSOCIATES


# --- recognition


@family.rule(Op.REDUCE, contract=_REASSOCIATES)
def recognize_contraction(node: Node) -> Node | None:
    """sum(expand(a) * expand(b)) → contract(a, b), where each operand has an axis that the other lacks."""
    (product,) = node.sources
    if node.attribute.op != "add" or not is_function(product, Op.BINARY, "mul") or 0 in product.shape:
        return None
    a, b = product.sources
    left_repeats, right_repeats = expanded_axes(a), expanded_axes(b)
    # Otherwise the product is no larger than an operand: a row reduction, which fuses with what is around it.
    if not left_repeats or not right_repeats:
        return None
    axes = proper_axes(product.shape)
    left = [axis for axis in axes if axis not in left_repeats]
    right = [axis for axis in axes if axis not in right_repeats]
    summed = [axis for axis in axes if axis in node.attribute.axes]
    out = [axis for axis in axes if axis not in node.attribute.axes]
    shared = set(left).intersection(right)
    if not summed or not shared.issuperset(summed):
        return None
    free_left, free_right = set(left) - shared, set(right) - shared
    if not free_left or not free_right or set(out) - shared - free_left - free_right:
        return None
    a, b = (
        build.reshape(x.sources[0], tuple(product.shape[axis] for axis in labels))
        for x, labels in ((a, left), (b, right))
    )
    return build.reshape(build.contract(a, b, left, right, out, node.dtype), node.shape)


# --- labels


@family.rule(Op.CONTRACT, contract=_REASSOCIATES)
def contract_permuted(node: Node) -> Node | None:
    """contract(permute(a), b) → contract(a, b) with the labels in another order."""
    if not any(is_op(source, Op.PERMUTE) for source in node.sources):
        return None
    attribute: Contraction = node.attribute
    (a, left), (b, right) = (
        _unpermuted(x, labels) for x, labels in zip(node.sources, (attribute.left, attribute.right), strict=True)
    )
    return build.contract(a, b, left, right, attribute.out, node.dtype)


def _unpermuted(x: Node, labels: tuple[int, ...]) -> tuple[Node, tuple[int, ...]]:
    if not is_op(x, Op.PERMUTE):
        return x, labels
    return x.sources[0], tuple(labels[x.attribute.index(axis)] for axis in range(x.rank))


@family.rule(Op.PERMUTE, of=Op.CONTRACT, contract=_REASSOCIATES, sole=True)
def permute_contracted(node: Node, inner: Node, a: Node, b: Node) -> Node | None:
    """permute(contract(a, b)) → contract(a, b) with the labels of the result in another order."""
    left, right, out = inner.attribute
    return build.contract(a, b, left, right, tuple(out[axis] for axis in node.attribute), node.dtype)


@family.rule(Op.CONTRACT, contract=_REASSOCIATES)
def drop_unit_labels(node: Node) -> Node | None:
    """Labels of size 1 → gone."""
    units = {label for label, size in label_sizes(node).items() if size == 1}
    return _without_labels(node, units, units) if units else None


@family.rule(Op.CONTRACT, contract=_REASSOCIATES)
def drop_repeated_labels(node: Node) -> Node | None:
    """contract(expand(a), b) → without the repeated label on that side."""
    a, b = node.sources
    left, right, out = node.attribute
    from_left = {left[axis] for axis in expanded_axes(a)}
    from_right = {right[axis] for axis in expanded_axes(b)}
    # A label that is summed must stay on one side, or the sum would be lost.
    from_left -= {label for label in from_left if label not in out and label not in right}
    from_right -= {label for label in from_right if label not in out and (label not in left or label in from_left)}
    return _without_labels(node, from_left, from_right) if from_left or from_right else None


def _without_labels(node: Node, from_left: set[int], from_right: set[int]) -> Node:
    """The contraction with labels taken away that are of size 1, or repeat their operand."""
    left, right, out = node.attribute
    a, b = node.sources
    a, left = _cut(a, left, from_left)
    b, right = _cut(b, right, from_right)
    rest = [label for label in out if label in left or label in right]
    result = build.contract(a, b, left, right, rest, node.dtype)
    sizes = tuple(size if label in rest else 1 for label, size in zip(out, node.shape, strict=True))
    return build.expand(build.reshape(result, sizes), node.shape)


def _cut(x: Node, labels: tuple[int, ...], gone: set[int]) -> tuple[Node, tuple[int, ...]]:
    cut = [axis for axis, label in enumerate(labels) if label in gone]
    # What is cut is of size 1, in the node itself or in what it expands.
    small = narrowed(x, cut) if any(x.shape[axis] != 1 for axis in cut) else x
    shape = tuple(size for axis, size in enumerate(x.shape) if axis not in cut)
    return build.reshape(small, shape), tuple(label for label in labels if label not in gone)


@family.rule(Op.CONTRACT, contract=_REASSOCIATES)
def contract_is_product(node: Node) -> Node | None:
    """A contraction that sums nothing → a product."""
    left, right, out = node.attribute
    if not set(out).issuperset(left) or not set(out).issuperset(right):
        return None
    a, b = (
        _aligned(build.cast(x, node.dtype), labels, out) for x, labels in zip(node.sources, (left, right), strict=True)
    )
    product = build.binary("mul", a, b)
    return build.expand(product, node.shape)


def _aligned(x: Node, labels: Sequence[int], out: Sequence[int]) -> Node:
    """x with one axis for each label of the result: its own, or one of size 1."""
    kept = [label for label in out if label in labels]
    x = build.permute(x, tuple(labels.index(label) for label in kept))
    sizes = iter(x.shape)
    return build.reshape(x, tuple(next(sizes) if label in labels else 1 for label in out))


@family.rule(Op.REDUCE, of=Op.CONTRACT, contract=_REASSOCIATES, sole=True)
def sum_batch(node: Node, inner: Node, a: Node, b: Node) -> Node | None:
    """A sum over labels that both operands of a contraction have → part of the contraction."""
    if node.attribute.op != "add":
        return None
    left, right, out = inner.attribute
    gone = [out[axis] for axis in node.attribute.axes]
    if not set(gone) <= set(left).intersection(right):
        return None
    return build.contract(a, b, left, right, [label for label in out if label not in gone], node.dtype)

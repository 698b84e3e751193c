"""Products of three factors: which two are multiplied first.

A contraction, a product by something that is repeated, and the sum of a product are one thing: two factors with a label
for each of their axes, and the labels that are kept. So one idea covers chains of matrices, attention without a
softmax, factors of low rank, scales of rows, columns and whole matrices on either side of a product, and quadratic
forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from smelt.graph import IndexLike, Node, Op, build, product_of, upper
from smelt.rewrite import Contract, Family, expanded_axes, key_of

family = Family("products")

Labels = tuple[int, ...]
LARGER: Final = 4  # than any factor a product may be that is then summed


class Factor(NamedTuple):
    """A tensor with a label for each of its axes."""

    node: Node
    labels: Labels

    @property
    def size(self) -> int:
        return self.node.elements


class Product(NamedTuple):
    """Two factors, multiplied, and summed over all labels that are not kept."""

    factors: tuple[Factor, Factor]
    out: Labels


def product_of_two(node: Node) -> Product | None:
    """A node as a product of floats that are not rounded in between: a contraction, a product, or a sum of one."""
    if not node.dtype.is_float:
        return None
    if node.op is Op.CONTRACT:
        left, right, out = node.attribute
        same = node.sources[0].dtype is node.dtype
        return _summed_in(node.sources, (left, right), out) if same else None
    inner = node.sources[0] if node.op is Op.REDUCE else node
    axes = tuple(range(inner.rank))
    gone = node.attribute.axes if node.op is Op.REDUCE else ()
    if node.op is Op.REDUCE and node.attribute.op != "add":
        return None
    return _summed_in(inner.sources, (axes, axes), tuple(axis for axis in axes if axis not in gone))


def _summed_in(sources: Sequence[Node], labels: Sequence[Labels], out: Labels) -> Product | None:
    """The product of two tensors, unless it is a sum of what is only repeated: no factor tells how often."""
    a, b = (factor_of(source, own) for source, own in zip(sources, labels, strict=True))
    return Product((a, b), out) if {*labels[0], *labels[1]} <= {*a.labels, *b.labels, *out} else None


def factor_of(node: Node, labels: Labels) -> Factor:
    """A tensor without the axes along which it is repeated."""
    gone = expanded_axes(node)
    if not gone:
        return Factor(node, labels)
    kept = [axis for axis in range(node.rank) if axis not in gone]
    small = build.reshape(node.sources[0], tuple(node.shape[axis] for axis in kept))
    return Factor(small, tuple(labels[axis] for axis in kept))


def multiplied(a: Factor, b: Factor, out: Labels) -> Factor:
    """The product of two factors, with those labels that are kept."""
    return Factor(build.contract(a.node, b.node, a.labels, b.labels, out, a.node.dtype), out)


_SCALED: Final = ("mul", None, Op.EXPAND)
_OUTER: Final = ("mul", Op.EXPAND, Op.EXPAND)
_THREE: Final = (  # factors, two of which are multiplied
    *((Op.CONTRACT, inner, None) for inner in (Op.CONTRACT, _SCALED, _OUTER)),
    *((Op.CONTRACT, None, inner) for inner in (Op.CONTRACT, _SCALED, _OUTER)),
    (Op.REDUCE, ("mul", Op.CONTRACT, None)),
    (Op.REDUCE, ("mul", None, Op.CONTRACT)),
    ("mul", Op.CONTRACT, Op.EXPAND),
)


@family.rule(*_THREE, contract=Contract.REGROUPS)
def product_regrouped(node: Node, *_: Node) -> Node | None:
    """(a b) c → a (b c), and back: the middle one of three factors is multiplied with the other neighbour first."""
    return _reordered(node, ((1, 2), (0, 1)))


@family.rule(*_THREE, contract=Contract.REGROUPS)
def outer_factors_first(node: Node, *_: Node) -> Node | None:
    """(a b) c → (a c) b, and so for a (b c): the outer two of three factors are multiplied first."""
    return _reordered(node, ((0, 2), (0, 2)))


def _reordered(node: Node, pairs: Sequence[tuple[int, int]]) -> Node | None:
    """Three factors with one of two pairs of them first: that for a product on the left, or on the right."""
    sources = (node.sources[0] if node.op is Op.REDUCE else node).sources
    which = 0 if key_of(sources[0]) in (Op.CONTRACT, "mul") else 1
    found = _three(node, sources[which], which)
    return None if found is None else _paired(*found, pairs[which])


def _three(node: Node, read: Node, which: int) -> tuple[list[Factor], Labels] | None:
    """A product one of whose factors is a product, as three factors: those of the inner one in its place."""
    outer, inner = product_of_two(node), product_of_two(read)
    if outer is None or inner is None:
        return None
    names = dict(zip(inner.out, outer.factors[which].labels, strict=True))
    taken = [label for factor in outer.factors for label in factor.labels]
    for label in (label for factor in inner.factors for label in factor.labels):
        names.setdefault(label, 1 + max([0, *outer.out, *taken, *names.values()]))
    opened = [Factor(x, tuple(names[label] for label in labels)) for x, labels in inner.factors]
    other = outer.factors[1 - which]
    if not {*outer.factors[which].labels} <= {*outer.out, *other.labels, *opened[0].labels, *opened[1].labels}:
        return None  # the inner product is only repeated along what is summed
    return ([*opened, other] if which == 0 else [other, *opened]), outer.out


def _paired(factors: Sequence[Factor], out: Labels, pair: tuple[int, int]) -> Node | None:
    """Three factors, two of them multiplied first, if that sums something, or if one only scales the other."""
    (a, b), third = (factors[k] for k in pair), factors[3 - sum(pair)]
    later = {*third.labels, *out}
    ends = set(a.labels) & set(b.labels) - later
    if not ends and not set(a.labels) <= set(b.labels) and not set(b.labels) <= set(a.labels):
        return None
    sizes: dict[int, IndexLike] = {k: size for x in factors for k, size in zip(x.labels, x.node.shape, strict=True)}
    kept = _in_order([label for label in dict.fromkeys((*a.labels, *b.labels)) if label in later], third, out)
    if upper(product_of(sizes[label] for label in kept)) > LARGER * max(factor.size for factor in factors):
        return None
    if not sizes.keys() >= set(out):
        return None  # what the node is repeated along, no factor has
    return _as_rows(_as_rows(a, b, kept), third, out).node


def _in_order(kept: Sequence[int], third: Factor, out: Labels) -> Labels:
    """The labels of a product in the order in which a product by the third factor reads it as it lies: what is summed
    then is last in the factor whose rows are those of the result, and first in the other.
    """
    places = {label: place for place, label in enumerate(out)}
    first = [
        min((places[label] for label in labels if label in places), default=len(out)) for labels in (kept, third.labels)
    ]
    ahead = sorted((label for label in kept if label in places), key=lambda label: places[label])
    summed = [label for label in kept if label not in places]
    return (*ahead, *summed) if first[0] <= first[1] else (*summed, *ahead)


def _as_rows(a: Factor, b: Factor, out: Labels) -> Factor:
    """The product of two factors, that with the rows of the result first."""
    return multiplied(a, b, out) if not out or out[0] in a.labels else multiplied(b, a, out)

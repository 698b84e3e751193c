"""The left side of a rule as a pattern: where it is found in a graph, and what its variables stand for there.

A pattern is found by the ops of its nodes. What else they say (axes, spans, shapes) depends on sizes: so the side is
written anew for the sizes that its variables have there, and has to be the very graph that was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from smelt.egraph import COMMUTATIVE
from smelt.graph import Contraction, Node, Op, build, product_of, topological, users
from smelt.rewrite import Pattern, Sources, any_of, key_of

Bound = dict[int, Node]
MOST_VARIANTS: Final = 8  # orders of the sources of sums and products, below the first


class LeftSide:
    """A side with variables, which are leaves, by their number."""

    def __init__(self, root: Node, variables: Sequence[Node]) -> None:
        self.root = root
        self.variables = {node: number for number, node in enumerate(variables)}
        self.reading: set[Node] = set()  # the nodes that depend on a variable
        for node in topological([root]):
            if node in self.variables or any(source in self.reading for source in node.sources):
                self.reading.add(node)
        self.places = {self._top(node): node for node in self.variables}  # where each variable is found

    def _top(self, node: Node) -> Node:
        """The view of a variable that a pattern takes for the variable: graphs do not show views of their inputs."""
        readers = users(topological([self.root]))
        while len(readers[node]) == 1 and _is_seen_through(readers[node][0]):
            [node] = readers[node]
        return node

    @property
    def missing(self) -> list[int]:
        """The variables that are not there any more."""
        return [number for node, number in self.variables.items() if node not in set(topological([self.root]))]

    def patterns(self) -> tuple[Pattern, ...]:
        """What a node has to be: one for each order of sources of sums and products below it."""
        rows: list[Sources] = [()]
        for source in self.root.sources:
            rows = [(*row, one) for row in rows for one in self._patterns(source)]
        return tuple([Pattern(any_of(key_of(self.root)), row) for row in rows[:MOST_VARIANTS]])

    def _patterns(self, node: Node) -> Sequence[Pattern | None]:
        if node in self.places or _is_constant(node):
            return [None]
        rows: list[Sources] = [()]
        for source in node.sources:
            rows = [(*row, one) for row in rows for one in self._patterns(source)]
        if key_of(node) in COMMUTATIVE:
            rows += [row[::-1] for row in rows]
        return [Pattern(any_of(key_of(node)), row) for row in dict.fromkeys(rows)][:MOST_VARIANTS]

    def bindings(self, node: Node) -> Iterator[list[Node]]:
        """What the variables may stand for, if a node is to be this side."""
        for bound in self._bound(self.root, node, {}):
            yield [bound[number] for number in range(len(self.variables))]

    def _bound(self, here: Node, node: Node, bound: Bound) -> Iterator[Bound]:
        variable = self.places.get(here)
        if variable is not None:
            number = self.variables[variable]
            value = _below(here, node, variable) if node.dtype is here.dtype else None
            if value is not None and bound.get(number, value) is value:
                yield bound | {number: value}
            return
        if _is_constant(here):
            yield bound  # it is compared with the whole
            return
        if key_of(here) != key_of(node) or node.leaf is not None or len(here.sources) != len(node.sources):
            return
        rows: list[Sequence[Node]] = [node.sources]
        if here.op is Op.CONTRACT:
            aligned = self._aligned(here, node)
            rows = [] if aligned is None else [aligned]
        elif key_of(here) in COMMUTATIVE:
            rows.append(node.sources[::-1])
        for sources in rows:
            yield from self._all_bound(here.sources, sources, bound)

    def _all_bound(self, here: Sequence[Node], nodes: Sequence[Node], bound: Bound) -> Iterator[Bound]:
        if not here:
            yield bound
            return
        for more in self._bound(here[0], nodes[0], bound):
            yield from self._all_bound(here[1:], nodes[1:], more)

    def _aligned(self, here: Node, node: Node) -> list[Node] | None:
        """The factors of a contraction with their axes in the order that the pattern has: a variable may stand for a
        matrix that was transposed, which rewriting has made part of the contraction.
        """
        mine, other = here.attribute, node.attribute
        if any(len(a) != len(b) for a, b in zip(mine, other, strict=True)):
            return None
        meant: dict[int, int] = {}
        fixed = [(mine.out, other.out)]
        factors = (mine.left, mine.right), (other.left, other.right)
        fixed += [(a, b) for x, a, b in zip(here.sources, *factors, strict=True) if x not in self.places]
        for label, its in (pair for a, b in fixed for pair in zip(a, b, strict=True)):
            if meant.setdefault(label, its) != its:
                return None
        for label in dict.fromkeys((*mine.left, *mine.right)):
            if label not in meant:
                free = [x for x in (*other.left, *other.right) if x not in meant.values()]
                meant[label] = next((x for x in free if _role(x, other) == _role(label, mine)), -1)
        orders = [[meant[label] for label in labels] for labels in factors[0]]
        if any(sorted(order) != sorted(labels) for order, labels in zip(orders, factors[1], strict=True)):
            return None
        places = [[labels.index(x) for x in order] for order, labels in zip(orders, factors[1], strict=True)]
        return [_permuted(x, axes) for x, axes in zip(node.sources, places, strict=True)]


_REPEATING: Final = (Op.EXPAND, Op.RESHAPE, Op.PERMUTE, Op.CAST)


def _is_constant(node: Node) -> bool:
    """Whether a node stands for itself in classes of equal values, as constants do that are not computed."""
    return node.op in (Op.CONST, Op.IOTA) or (node.op in _REPEATING and _is_constant(node.sources[0]))


def _is_seen_through(node: Node) -> bool:
    """Whether a view can be undone: another order of axes, axes of size 1, or one axis that is split."""
    if node.op is Op.RESHAPE:
        below = node.sources[0].shape
        return len(below) == 1 or [x for x in below if x != 1] == [x for x in node.shape if x != 1]
    return node.op is Op.PERMUTE


def _below(here: Node, node: Node, variable: Node) -> Node | None:
    """What a variable stands for if a view of it is a node."""
    if node.rank != here.rank:
        return None
    while here is not variable:
        below = here.sources[0]
        if here.op is Op.PERMUTE:
            node = _permuted(node, [here.attribute.index(axis) for axis in range(here.rank)])
        elif below.rank == 1:
            node = build.reshape(node, (product_of(node.shape),))
        else:
            sizes = iter([size for size, mine in zip(node.shape, here.shape, strict=True) if mine != 1])
            if any(size != 1 for size, mine in zip(node.shape, here.shape, strict=True) if mine == 1):
                return None
            node = build.reshape(node, tuple(1 if mine == 1 else next(sizes) for mine in below.shape))
        here = below
    return node


def _role(label: int, contraction: Contraction) -> tuple[bool, ...]:
    return tuple(label in labels for labels in contraction)


def _permuted(node: Node, axes: Sequence[int]) -> Node:
    return node if list(axes) == list(range(node.rank)) else build.permute(node, axes)


def same(first: Node, second: Node) -> bool:
    """Whether two nodes are one, but for the order of what is added or multiplied."""
    if first is second:
        return True
    if _fields(first) != _fields(second) or len(first.sources) != len(second.sources) or not first.sources:
        return False
    if all(map(same, first.sources, second.sources)):
        return True
    return key_of(first) in COMMUTATIVE and all(map(same, first.sources, second.sources[::-1]))


def _fields(node: Node) -> tuple[Any, ...]:
    return node.op, node.dtype, node.shape, node.attribute

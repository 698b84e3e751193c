"""Attention as one kernel: softmax(x) @ v, where x comes from a contraction.

Written out, it is three kernels with all scores in memory between them. Here its nodes are found, and the division by
the sums moves behind the second contraction: contract(e / z, v) is contract(e, v) / z. Then one loop over the keys can
make scores, maximum, sums and result, which is up to the schedule (`online`); `partition` keeps the nodes together.

Bounds: 4 * queries * keys * features operations; queries, keys, values and result are read or written once.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from smelt.fuse.movement import Place, source_place
from smelt.graph import build
from smelt.graph.index import ZERO, IndexLike, product_of, upper, variable
from smelt.graph.node import Node, make, topological, users, with_sources
from smelt.graph.ops import ELEMENTWISE, VIEWS, Op

LEAST_QUERIES = 8  # rows that are worth transposing the keys for
MOST_FEATURES = 256  # elements of a result's row, which one loop accumulates
MOST_STAGED = 1 << 21  # keys times features, which lie in local memory
_RENAMING = frozenset({Op.RESHAPE, Op.PERMUTE})
_SEARCHED = 16  # nodes between the scores and their maximum, at most


class Attention(NamedTuple):
    """One attention: `result` is the division, and the members are computed in its kernel.

    The contraction, the maximum and the sum (`folds`) walk the same axis, of `keys` elements.
    """

    result: Node
    folds: tuple[Node, Node, Node]
    members: frozenset[Node]
    keys: IndexLike


class Weighed(NamedTuple):
    """A graph whose attentions divide last, and what became of the nodes that must be stored."""

    roots: list[Node]
    pieces: set[Node]
    attentions: list[Attention]


class _Match(NamedTuple):
    """softmax(x) @ v in a graph: the contraction, which of its sources holds the weights, and along which axis."""

    contraction: Node
    side: int
    axis: int
    division: Node
    exponential: Node
    total: Node
    maximum: Node
    scores: tuple[Node, ...]  # from what the maximum is of down to the contraction that makes it


def weigh_last(roots: Sequence[Node], pieces: Set[Node]) -> Weighed:
    """Find every attention, and move its division to the end. The `pieces` are stored, like the roots."""
    order = topological(roots)
    if sum(node.op is Op.CONTRACT for node in order) < 2:
        return Weighed(list(roots), set(pieces), [])
    search = _Search(order, {*roots, *pieces})
    new: dict[Node, Node] = {}
    found: list[tuple[_Match, Node, Node]] = []
    for node in order:
        sources = tuple([new[source] for source in node.sources])
        new[node] = with_sources(node, sources)
        match = search.match(node)
        if match is not None:
            contraction = _with_weights(match, new, new[match.exponential])
            result = build.binary("div", contraction, _sums(match, new))
            found.append((match, contraction, result))
            new[node] = result
    attentions = [_attention(*item, new) for item in found]
    return Weighed([new[root] for root in roots], {new[piece] for piece in pieces}, attentions)


def _attention(match: _Match, contraction: Node, result: Node, new: Mapping[Node, Node]) -> Attention:
    folds = (contraction, new[match.maximum], new[match.total])
    inside = (new[match.exponential], new[match.exponential.sources[0]], *(new[node] for node in match.scores))
    keys = match.contraction.sources[match.side].shape[match.axis]
    return Attention(result, folds, frozenset((*folds, *inside)), keys)


# --- what the graph becomes


def _with_weights(match: _Match, new: Mapping[Node, Node], weights: Node) -> Node:
    node = match.contraction
    sources = [new[source] for source in node.sources]
    sources[match.side] = _renamed(match, weights)
    return with_sources(node, tuple(sources))


def _renamed(match: _Match, node: Node) -> Node:
    """A node in the place of the division, as the contraction sees it."""
    chain: list[Node] = []
    at = match.contraction.sources[match.side]
    while at is not match.division:
        chain.append(at)
        at = at.sources[0]
    return functools.reduce(lambda source, view: _seen(view, source), reversed(chain), node)


def _rebuilt(node: Node, new: Mapping[Node, Node]) -> Node:
    """Views of a node of the new graph in the place of views of the old one."""
    return new[node] if node in new else _seen(node, _rebuilt(node.sources[0], new))


def _sums(match: _Match, new: Mapping[Node, Node]) -> Node:
    """The sums, as large as the result."""
    left, right, out = match.contraction.attribute
    labels = (left, right)[match.side]
    sums = _divisor(match.division)
    assert sums is not None
    repeated = _renamed(match, _rebuilt(sums, new))
    spans: list[tuple[IndexLike, IndexLike, int]] = [(0, size, 1) for size in repeated.shape]
    spans[match.axis] = (0, 1, 1)
    once = build.slice_(repeated, spans)
    kept = [label for label in out if label in labels]
    ordered = build.permute(once, (*(labels.index(label) for label in kept), match.axis))
    sizes = dict(zip(labels, repeated.shape, strict=True))
    beside = build.reshape(ordered, tuple(sizes[label] if label in kept else 1 for label in out))
    return build.expand(beside, match.contraction.shape)


# --- where an attention is


class _Search:
    def __init__(self, order: Sequence[Node], stored: Set[Node]) -> None:
        self.readers, self.stored = users(order), stored

    def match(self, node: Node) -> _Match | None:
        if node.op is not Op.CONTRACT or not node.dtype.is_float:
            return None
        left, right, out = node.attribute
        summed = [label for label in dict.fromkeys(left + right) if label not in out]
        if len(summed) != 1 or summed[0] not in left or summed[0] not in right:
            return None
        for side, labels, others in ((0, left, right), (1, right, left)):
            shape, other = node.sources[side].shape, node.sources[1 - side].shape
            queries = product_of(size for label, size in zip(labels, shape, strict=True) if label not in others)
            features = product_of(size for label, size in zip(others, other, strict=True) if label not in labels)
            axis = labels.index(summed[0])
            staged = upper(shape[axis]) * upper(features)
            if upper(queries) >= LEAST_QUERIES and upper(features) <= MOST_FEATURES and staged <= MOST_STAGED:
                found = self._softmax(node, side, axis)
                if found is not None:
                    return found
        return None

    def _softmax(self, node: Node, side: int, position: int) -> _Match | None:
        """exp(x - max(x)) / sum(exp(x - max(x))), if that is what a source of a contraction is.

        A multiplication by the reciprocal of the sums will do as well.
        """
        division, place = node.sources[side], _whole(node.sources[side])
        walked = place.indices[position]
        user = node
        while division.op in _RENAMING and self._only(division, {user}):
            user, place, division = division, source_place(division, place), division.sources[0]
        axis = next((k for k, i in enumerate(place.indices) if i == walked), None)
        divides = self._is(division, "div", {user}) or self._is(division, "mul", {user})
        if axis is None or walked == ZERO or not divides or division.dtype is not node.dtype:
            return None
        others = Place(tuple(i for k, i in enumerate(place.indices) if k != axis))
        if any(v in i.variables() for v in walked.variables() for i in others.indices):
            return None
        e, sums = division.sources[0], _divisor(division)
        total = None if sums is None else _fold(sums, place, "add", axis, others)
        if total is None or total.sources[0] is not e or not self._is(e, "exp", {division, total}):
            return None
        difference = e.sources[0]
        if not self._is(difference, "sub", {e}):
            return None
        x, maximum = difference.sources[0], _fold(difference.sources[1], place, "max", axis, others)
        if maximum is None or maximum.sources[0] is not x or total in self.stored or maximum in self.stored:
            return None
        scores = self._scores(x, {difference, maximum}, _SEARCHED)
        # The sums and the maximum reach the rest only through the nodes that are taken in.
        if scores is None or not self._leads_only(total, division) or not self._leads_only(maximum, difference):
            return None
        return _Match(node, side, position, division, e, total, maximum, tuple(scores))

    def _scores(self, x: Node, readers: set[Node], left: int) -> list[Node] | None:
        """The way from x down to a contraction: elementwise nodes and new names that nobody else reads."""
        if left == 0 or not self._only(x, readers):
            return None
        if x.op is Op.CONTRACT:
            return [x]
        if x.op not in ELEMENTWISE and x.op not in _RENAMING:
            return None
        ways = [self._scores(source, {x}, left - 1) for source in dict.fromkeys(x.sources)]
        found = [way for way in ways if way is not None]
        return [x, *found[0]] if len(found) == 1 else None

    def _is(self, node: Node, function: str, readers: set[Node]) -> bool:
        return node.op in ELEMENTWISE and node.attribute == function and self._only(node, readers)

    def _only(self, node: Node, readers: set[Node]) -> bool:
        """Whether a node is computed for these readers alone."""
        return node.leaf is None and node not in self.stored and set(self.readers[node]) <= readers

    def _leads_only(self, node: Node, reader: Node) -> bool:
        """Whether a node reaches only one reader, through views."""
        return all(
            user is reader
            or ((user.op in VIEWS or _inverts(user)) and user not in self.stored and self._leads_only(user, reader))
            for user in self.readers[node]
        )


def _inverts(node: Node) -> bool:
    return node.op in ELEMENTWISE and node.attribute == "reciprocal"


def _divisor(division: Node) -> Node | None:
    """What a node divides by: its second source, or for a product what that is the reciprocal of, seen the same way."""
    divisor = division.sources[1]
    if division.attribute == "div":
        return divisor
    chain: list[Node] = []
    at = divisor
    while at.op in _RENAMING or at.op is Op.EXPAND:
        chain.append(at)
        at = at.sources[0]
    if not _inverts(at):
        return None
    return functools.reduce(lambda source, view: _seen(view, source), reversed(chain), at.sources[0])


def _seen(view: Node, source: Node) -> Node:
    """A view, of something else."""
    return make(view.op, source.dtype, view.shape, (source,), view.attribute)


def _whole(node: Node) -> Place:
    """Any element of a node."""
    return Place(tuple(ZERO if size == 1 else variable(f"a{k}", 0, size - 1) for k, size in enumerate(node.shape)))


def _fold(node: Node, place: Place, op: str, axis: int, wanted: Place) -> Node | None:
    """The reduction over one axis that a node repeats along that axis."""
    while node.op in _RENAMING or node.op is Op.EXPAND:
        place, node = source_place(node, place), node.sources[0]
    folds = node.op is Op.REDUCE and node.leaf is None and node.attribute == (op, (axis,))
    return node if folds and place == wanted else None

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

from smelt.fuse.chains import (
    MOST_STAGED,
    RENAMING,
    Chain,
    anywhere,
    exponentials,
    find_chain,
    fold_below,
    scores_below,
    sides,
    undisturbed,
)
from smelt.fuse.movement import Place, source_place
from smelt.graph import (
    ELEMENTWISE,
    ZERO,
    IndexLike,
    Node,
    Op,
    build,
    constant_value,
    make,
    topological,
    users,
    with_sources,
)


class Weighed(NamedTuple):
    """A graph whose attentions divide last, what became of the nodes that must be stored, and its chains."""

    roots: list[Node]
    pieces: set[Node]
    chains: list[Chain]


class _Match(NamedTuple):
    """softmax(x) @ v in a graph: the contraction, which of its sources holds the weights, and along which axis."""

    contraction: Node
    side: int
    axis: int
    division: Node
    sums: Node  # that it divides by, as large as it is
    exponential: Node
    total: Node
    maximum: Node
    inside: frozenset[Node]  # everything that is computed between the scores and the contraction

    def chain(self) -> Chain:
        keys = self.contraction.sources[self.side].shape[self.axis]
        return Chain(self.contraction, (self.contraction, self.maximum, self.total), self.inside, keys)


def weigh_last(roots: Sequence[Node], pieces: Set[Node]) -> Weighed:
    """Find every attention and every other chain, and move the division of attentions to the end.

    The `pieces` are stored, like the roots.
    """
    order = topological(roots)
    if not any(node.op is Op.CONTRACT for node in order):
        return Weighed(list(roots), set(pieces), [])
    matches = {node: match for node in order if (match := _match(node)) is not None}
    found = [match.chain() for match in matches.values()]
    found += [chain for node in order if node not in matches and (chain := find_chain(node)) is not None]
    kept = undisturbed(found, users(order), {*roots, *pieces})
    return _rewritten(order, kept, matches, roots, pieces)


def _rewritten(
    order: Sequence[Node], chains: list[Chain], matches: Mapping[Node, _Match], roots: Sequence[Node], pieces: Set[Node]
) -> Weighed:
    attentions = {chain.result: matches[chain.result] for chain in chains if chain.result in matches}
    new: dict[Node, Node] = {}
    weighed: list[Chain] = []
    for node in order:
        new[node] = with_sources(node, tuple([new[source] for source in node.sources]))
        match = attentions.get(node)
        if match is not None:
            contraction = _with_weights(match, new, new[match.exponential])
            new[node] = build.binary("div", contraction, _sums(match, new))
            folds = (contraction, new[match.maximum], new[match.total])
            members = {contraction, *(new[inner] for inner in match.inside)}
            weighed.append(Chain(new[node], folds, frozenset(members), match.chain().keys))
    weighed += [chain.renamed(new) for chain in chains if chain.result not in attentions]
    return Weighed([new[root] for root in roots], {new[piece] for piece in pieces}, weighed)


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
    repeated = _renamed(match, _rebuilt(match.sums, new))
    spans: list[tuple[IndexLike, IndexLike, int]] = [(0, size, 1) for size in repeated.shape]
    spans[match.axis] = (0, 1, 1)
    once = build.slice_(repeated, spans)
    kept = [label for label in out if label in labels]
    ordered = build.permute(once, (*(labels.index(label) for label in kept), match.axis))
    sizes = dict(zip(labels, repeated.shape, strict=True))
    beside = build.reshape(ordered, tuple(sizes[label] if label in kept else 1 for label in out))
    return build.expand(beside, match.contraction.shape)


# --- where an attention is


def _match(node: Node) -> _Match | None:
    """softmax(x) @ v, if that is what a node is, whoever else reads what it is made of."""
    if node.op is not Op.CONTRACT or _summed(node) != 1:
        return None
    ways = (_softmax(node, side.number, side.axis) for side in sides(node))
    return next((way for way in ways if way is not None), None)


def _softmax(node: Node, side: int, position: int) -> _Match | None:
    """exp(x - max(x)) / sum(exp(x - max(x))), if that is what a source of a contraction is.

    A multiplication by the reciprocal of the sums will do as well, from either side.
    """
    division, place = node.sources[side], anywhere(node.sources[side])
    walked = place.indices[position]
    inside: list[Node] = []
    while division.op in RENAMING and division.leaf is None:
        inside.append(division)
        place, division = source_place(division, place), division.sources[0]
    axis = next((k for k, i in enumerate(place.indices) if i == walked), None)
    divides = division.op in ELEMENTWISE and division.attribute in ("div", "mul") and division.leaf is None
    if axis is None or walked == ZERO or not divides or division.dtype is not node.dtype:
        return None
    others = Place(tuple(i for k, i in enumerate(place.indices) if k != axis))
    if any(v in i.variables() for v in walked.variables() for i in others.indices):
        return None
    for e, divisor in (division.sources, division.sources[::-1])[: 2 if division.attribute == "mul" else 1]:
        sums = divisor if division.attribute == "div" else _inverse(divisor)
        folds = None if sums is None else fold_below(sums, place, "add", axis, others)
        found = exponentials(e, place, axis)
        if sums is None or folds is None or found is None or folds[-1].sources[0] is not e:
            continue
        below = scores_below(found.x, place, axis, MOST_STAGED)
        if below is not None:
            inside += [division, *_down(divisor, folds[-1]), e, found.maximum, *found.between, *below.members]
            return _Match(node, side, position, division, sums, e, folds[-1], found.maximum, frozenset(inside))
    return None


def _summed(node: Node) -> int:
    left, right, out = node.attribute
    return len({*left, *right} - {*out})


def _down(node: Node, end: Node) -> list[Node]:
    """The nodes along first sources, and through what is divided by."""
    chain = [node]
    while chain[-1] is not end:
        chain.append(chain[-1].sources[-1 if chain[-1].op is Op.BINARY else 0])
    return chain


def _inverse(factor: Node) -> Node | None:
    """What a node is the reciprocal of, seen the same way."""
    chain = _views(factor)
    inverse = chain.pop()
    if inverse.op not in ELEMENTWISE or inverse.leaf is not None:
        return None
    one = _views(inverse.sources[0])[-1]
    divides_one = inverse.attribute == "div" and one.op is Op.CONST and constant_value(one) == 1
    if inverse.attribute != "reciprocal" and not divides_one:
        return None
    return functools.reduce(lambda source, view: _seen(view, source), reversed(chain), inverse.sources[-1])


def _views(node: Node) -> list[Node]:
    """The nodes down to what a node repeats or renames, that last."""
    chain = [node]
    while chain[-1].op in RENAMING or chain[-1].op is Op.EXPAND:
        chain.append(chain[-1].sources[0])
    return chain


def _seen(view: Node, source: Node) -> Node:
    """A view, of something else."""
    return make(view.op, source.dtype, view.shape, (source,), view.attribute)

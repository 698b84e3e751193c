"""A reduction that is consumed block by block by another one over the same axis: kernels that never store scores.

Scores are what is computed from contractions, element by element. A chain is a kernel around them:

- contract(e, w), a product with scores e (back-to-back contractions: the gradients of attention are three such);
- contract(e / z, v), where e are weights of scores and z their sum, which follow a maximum by a law (`kernel.laws`):
  attention. The division moves behind the product: contract(e / z, v) is contract(e, v) / z;
- a number for each row of scores, from a maximum and what follows it: the logarithm of a sum of exponentials, or the
  place of the maximum.

A chain's kernel computes its scores itself, for one block of the summed axis at a time. Several chains may share
members; each computes them again, which saves memory and takes little time as long as the inner sums are short. Chains
are found as if nobody else were there. Then those are dropped of whose members somebody outside all chains reads, until
all that are left have their members for themselves.

Bounds: inner sums and results of at most `MOST_FEATURES`, so a chain computes at most that many products per element of
e for each of its inner contractions, and no kernel stores more than a block of e.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from smelt.fuse.choices import chosen_nodes, operation
from smelt.fuse.facts import is_plain
from smelt.fuse.movement import RENAMING, REPEATING, Place, source_place
from smelt.graph import (
    ELEMENTWISE,
    SOURCES,
    ZERO,
    Index,
    IndexLike,
    Node,
    Op,
    build,
    constant_value,
    label_sizes,
    make,
    product_of,
    rewritten,
    shown,
    topological,
    upper,
    users,
    variable,
    with_sources,
)
from smelt.kernel import Follower, followers

LEAST_ROWS = 8  # rows that are worth transposing an operand for
FEWEST_ROWS = 2  # of attention to as many keys as data say: what is left out is worth more
MOST_FEATURES = 256  # elements of a result's row, which one loop accumulates, and of an inner sum
MOST_STAGED = 1 << 21  # elements of an operand that lies in local memory
MOST_MEMBERS = 48  # nodes that a chain computes inside
LEAST_SHARE = 2  # how many times larger than all that is read and written scores without a batch must be
FEW_FEATURES = 128  # elements of a result's row up to which that is not asked of scores with a batch


class Chain(NamedTuple):
    """A kernel around the scores that it computes: it takes in `result` and all the `members`.

    If there are `folds` among those, they walk one common axis, of `keys` elements.
    """

    result: Node
    folds: tuple[Node, ...]
    members: frozenset[Node]
    keys: IndexLike
    division: Division | None = None  # that is still to move behind the product

    def renamed(self, new: Mapping[Node, Node]) -> Chain:
        """The chain in a graph whose nodes have become others."""
        folds = tuple(new[node] for node in self.folds)
        return Chain(new[self.result], folds, frozenset(new[node] for node in self.members), self.keys)


class Division(NamedTuple):
    """What the weights of a product are divided by, or multiplied with: the same along the summed axis."""

    op: str
    weights: Node
    factor: Node
    views: tuple[Node, ...]  # of the quotient, the one that is multiplied first
    side: Side

    def seen(self, node: Node) -> Node:
        """A node in the place of the quotient, as the product sees it."""
        for view in reversed(self.views):
            node = make(view.op, node.dtype, view.shape, (node,), view.attribute)
        return node

    def behind(self, product: Node, factor: Node) -> Node:
        """The product's own elements divided."""
        labels, out = product.attribute[self.side.number], product.attribute.out
        repeated = self.seen(factor)
        spans: list[tuple[IndexLike, IndexLike, int]] = [(0, size, 1) for size in repeated.shape]
        spans[self.side.axis] = (0, 1, 1)
        once = build.slice_(repeated, spans)
        kept = [label for label in out if label in labels]
        ordered = build.permute(once, (*(labels.index(label) for label in kept), self.side.axis))
        sizes = dict(zip(labels, repeated.shape, strict=True))
        beside = build.reshape(ordered, tuple(sizes[label] if label in kept else 1 for label in out))
        return build.binary(self.op, product, build.expand(beside, product.shape))


def with_chains(
    roots: Sequence[Node], pieces: Set[Node], apart: Collection[int] = ()
) -> tuple[list[Node], set[Node], list[Chain]]:
    """Find all chains, and let those divide last that divide. The `pieces` are stored, like the roots.

    Those of results that are to be `apart`, by their numbers in the order of the graph, are left out.
    """
    chains = chains_of(roots, pieces, apart)
    if not chains:
        return list(roots), set(pieces), []
    divisions = {chain.result: chain for chain in chains if chain.division is not None}
    new: dict[Node, Node] = {}
    divided: list[Chain] = []

    def change(node: Node, same: Node) -> Node:
        if node not in divisions:
            return same
        divided.append(_divided(divisions[node], same, new))
        return divided[-1].result

    results = rewritten(roots, change, new)
    divided += [chain.renamed(new) for chain in chains if chain.division is None]
    return results, {new[piece] for piece in pieces}, divided


def chains_of(roots: Sequence[Node], pieces: Set[Node], apart: Collection[int] = ()) -> list[Chain]:
    """All chains that can be together, but for those of some results."""
    order = topological(roots)
    without = set(chosen_nodes(order, apart, "apart"))
    following = {node: found for node in order if (found := led(node)) is not None}
    if not following and not any(node.op is Op.CONTRACT for node in order):
        return []
    chains = [chain for node in order if node not in without and (chain := _find(node, following)) is not None]
    return _undisturbed(chains, users(order), {*roots, *pieces})


def _divided(chain: Chain, result: Node, new: Mapping[Node, Node]) -> Chain:
    """The chain whose product takes the weights as they are, in a graph whose nodes have become others."""
    division = chain.division
    assert division is not None
    sources = list(result.sources)
    sources[division.side.number] = division.seen(new[division.weights])
    product = with_sources(chain.result, tuple(sources))
    members = {product, *(new[node] for node in chain.members)}
    folds = (product, *(new[node] for node in chain.folds[1:]))
    return Chain(division.behind(product, new[division.factor]), folds, frozenset(members), chain.keys)


# --- which chains there are


def _find(node: Node, following: Mapping[Node, Led]) -> Chain | None:
    """The chain that ends in this node, whoever else reads what it is made of."""
    if node.op is Op.CONTRACT and node.leaf is None:
        ways = [*sides(node)]
        tries = (*(_attention(node, side) for side in ways), *(_product(node, side) for side in ways))
        return next((chain for chain in tries if chain is not None), None)
    if node in following or (node.op is Op.BINARY and following and node.leaf is None):
        return _row(node, following)
    return None


def _undisturbed(chains: Sequence[Chain], readers: Mapping[Node, Sequence[Node]], stored: Set[Node]) -> list[Chain]:
    """The chains of whose members nobody else reads any: neither a kernel without them, nor the caller."""
    # Loops that carry most gain most, so they come first.
    left = sorted(chains, key=lambda chain: (-len(chain.folds), -len(chain.members) if chain.folds else 0))
    while True:
        inside = {node for chain in left for node in (chain.result, *chain.members)}
        alone = {node for node in inside - stored if all(user in inside for user in readers[node])}
        kept = [chain for chain in left if chain.members <= alone]
        if len(kept) == len(left):
            kept = []
            for chain in left:
                # What one chain stores another cannot compute inside.
                if all(chain.result not in other.members and other.result not in chain.members for other in kept):
                    kept.append(chain)
            if len(kept) == len(left):
                return kept
        left = kept


# --- a product with scores


class Side(NamedTuple):
    """The operand of a contraction that may hold scores, with the longest axis along which it is summed."""

    number: int
    axis: int
    rows: IndexLike
    features: IndexLike
    batch: IndexLike


def sides(node: Node) -> Iterator[Side]:
    """Both ways to look at a contraction over axes of both operands, if the sizes allow a chain."""
    left, right, out = node.attribute
    summed = [label for label in dict.fromkeys(left + right) if label not in out]
    if not summed or not node.dtype.is_float or any(label not in left or label not in right for label in summed):
        return
    for number, labels, others in ((0, left, right), (1, right, left)):
        sizes = dict(zip(labels, node.sources[number].shape, strict=True))
        other = dict(zip(others, node.sources[1 - number].shape, strict=True))
        rows = product_of(size for label, size in sizes.items() if label not in others)
        features = product_of(size for label, size in other.items() if label not in labels)
        batch = product_of(size for label, size in sizes.items() if label in others and label in out)
        walked = max(summed, key=lambda label: upper(sizes[label]))
        staged = upper(product_of((features, *(sizes[label] for label in summed))))
        if upper(rows) >= FEWEST_ROWS and upper(features) <= MOST_FEATURES and staged <= MOST_STAGED:
            yield Side(number, labels.index(walked), rows, features, batch)


def _product(node: Node, side: Side) -> Chain | None:
    e, w = node.sources[side.number], node.sources[1 - side.number]
    keys = e.shape[side.axis]
    if side.features == 1 or e.dtype is not node.dtype or upper(side.rows) < LEAST_ROWS:
        return None
    many = upper(side.batch) > 1 and upper(side.features) <= min(upper(keys), FEW_FEATURES)
    # Most products are told here, before what is below them is walked through.
    if not many and not _is_large(e, (), (node, w)):
        return None
    found = _scores(e, anywhere(e), side.axis, _most(keys))
    if found is None or not (many or _is_large(e, found.contractions, (node, w))):
        return None
    return Chain(node, (), frozenset(found.members), keys)


def _attention(node: Node, side: Side) -> Chain | None:
    """A product with weights of scores that are divided by their sum, or multiplied with something made of that."""
    left, right, out = node.attribute
    operand = node.sources[side.number]
    walked = anywhere(operand).indices[side.axis]
    (*views, quotient), place = down(operand, anywhere(operand), RENAMING)
    axis = next((k for k, i in enumerate(place.indices) if i == walked), None)
    if axis is None or walked == ZERO or len({*left, *right} - {*out}) > 1 or quotient.dtype is not node.dtype:
        return None
    if any(v in i.variables() for v in walked.variables() for k, i in enumerate(place.indices) if k != axis):
        return None
    op = operation(quotient) if quotient.leaf is None else ""
    pairs = {"div": (quotient.sources,), "mul": (quotient.sources, quotient.sources[::-1])}
    for e, factor in pairs.get(op, ()):
        (*between, total), _ = down(factor, place, REPEATING | ELEMENTWISE)
        follower = led(total)
        if follower is None or total.sources[0] is not e or total.attribute.axes != (axis,):
            continue
        if upper(side.rows) < LEAST_ROWS and not _ends_by_data(follower.by.x):
            continue
        below = _scores(follower.by.x, place, axis, MOST_STAGED)
        if below is not None:
            members = {*views, quotient, *between, total, *follower.members, *below.members}
            division = Division(op, e, factor, tuple(views), side)
            return Chain(node, (node, follower.lead, total), frozenset(members), operand.shape[side.axis], division)
    return None


def _ends_by_data(scores: Node) -> bool:
    """Whether scores are masked by a comparison of places with an integer that data decide."""
    condition = shown(scores.sources[0], REPEATING) if scores.op is Op.WHERE and scores.leaf is None else scores
    compared = operation(condition) in ("le", "lt") and condition.sources[0].dtype.is_integer
    return compared and any(node.op is Op.LEAF for node in topological(condition.sources))


# --- numbers of rows of scores


class Led(NamedTuple):
    """How a reduction follows another one, that one, and what is between both and what they are made of."""

    by: Follower
    lead: Node
    members: frozenset[Node]


def _look(node: Node) -> tuple[str, tuple[Node, ...], Any]:
    below = shown(node, REPEATING)
    if below.op is Op.CONST:
        return "const", (), constant_value(below)
    return (operation(node), node.sources, None) if node.leaf is None else ("", (), None)


def led(total: Node) -> Led | None:
    """How a reduction over one axis follows another one by a law, if it does."""
    if total.op is not Op.REDUCE or total.leaf is not None or len(total.attribute.axes) != 1:
        return None
    op, (axis,) = total.attribute
    (e,) = total.sources
    place = anywhere(e)
    for found in followers(op, e, _look) if e.leaf is None else ():
        (*views, lead), at = down(found.m, place, REPEATING)
        if lead.op is not Op.REDUCE or len(lead.attribute.axes) != 1 or lead.attribute.op not in found.law.leads:
            continue
        # Both fold the same elements along the same axis, whatever names these have on the way.
        (first,) = lead.attribute.axes
        folded = Place((*at.indices[:first], place.indices[axis], *at.indices[first:]))
        (*own, x), read = down(lead.sources[0], folded, RENAMING)
        (*named, y), also_read = down(found.x, place, RENAMING)
        if x is y and read == also_read:
            between = topological([e], known={found.x, found.m, found.rest})
            inside = (node for node in between if node.op in ELEMENTWISE)
            return Led(found, lead, frozenset([*inside, *views, *own, *named, lead]))
    return None


def _row(node: Node, following: Mapping[Node, Led]) -> Chain | None:
    """What follows a maximum of scores, or is made of both: the logarithm of a sum, the place of the maximum."""
    steps = RENAMING | ELEMENTWISE
    paths = [down(source, anywhere(node), steps) for source in (node.sources if node.op is Op.BINARY else ())]
    totals = [node] if node.op is Op.REDUCE else [path[-1] for path, _ in paths]
    for total in totals:
        follower = following.get(total)
        if follower is None or any(path[-1] not in (total, follower.lead) for path, _ in paths):
            continue
        if len({place for _, place in paths}) > 1 or {path[-1] for path, _ in paths} == {total}:
            continue
        e, (axis,) = total.sources[0], total.attribute.axes
        if follower.by.x.op is Op.REDUCE and follower.by.law.name == "places":
            # Extreme values of blocks: one loop makes each of them once, and needs no memory for them.
            members = {follower.by.x, *follower.members, *(inner for path, _ in paths for inner in path)}
            return Chain(node, (follower.lead, total), frozenset(members), e.shape[axis])
        below = _scores(follower.by.x, anywhere(e), axis, _most(e.shape[axis]))
        rows = product_of(size for k, size in enumerate(e.shape) if k != axis)
        if below is None or upper(rows) < LEAST_ROWS:
            continue
        if _has_batch(below) or _is_large(e, below.contractions, (node,)):
            members = {*below.members, *follower.members, *(inner for path, _ in paths for inner in path)}
            return Chain(node, (follower.lead, total), frozenset(members), e.shape[axis])
    return None


def down(node: Node, place: Place, steps: Set[Op]) -> tuple[list[Node], Place]:
    """The nodes down to one that is no such step, that last, and the element of it; beside constants."""
    path = [node]
    while node.op in steps and node.leaf is None:
        moving = node.op not in ELEMENTWISE
        inner = [source for source in node.sources if _look(source)[0] != "const"]
        if len(inner) != 1:
            break
        place, node = source_place(node, place) if moving else place, inner[0]
        path.append(node)
    return path, place


# --- scores


def _scores(root: Node, place: Place, axis: int, most: int) -> _Below | None:
    """The nodes between scores, at some place, and the contractions that make them; None if there is no contraction
    of at most so many elements each.
    """
    below = _Below(place.indices[axis], most)
    found = below.leads(root, place) and len(below.members) <= MOST_MEMBERS and below.once
    return below if found else None


def _most(keys: IndexLike) -> int:
    """How long inner sums may be."""
    return min(MOST_FEATURES, MOST_STAGED // max(1, upper(keys)))


class _Below:
    """What scores are computed from: all the nodes down to the contractions that make them, and those."""

    def __init__(self, walked: Index, most: int) -> None:
        self.walked, self.most = walked, most
        self.places: dict[Node, Place] = {}
        self.members: dict[Node, None] = {}
        self.contractions: list[Node] = []
        self.once = True  # every member is needed at one place only

    def leads(self, node: Node, place: Place) -> bool:
        """Whether a node is computed from a contraction, element by element."""
        if node.op in SOURCES or node.leaf is not None or len(self.places) > 4 * MOST_MEMBERS:
            return False
        if node in self.places:
            self.once = self.once and (self.places[node] == place or node not in self.members)
            return node in self.members
        self.places[node] = place
        if node.op is Op.CONTRACT:
            found = self._makes_scores(node, place)
            self.contractions += [node] if found else []
        elif node.op in ELEMENTWISE:
            found = any([self.leads(source, place) for source in node.sources])
        elif node.op in REPEATING:
            found = self.leads(node.sources[0], source_place(node, place))
        else:
            found = False
        if found:
            self.members[node] = None
        return found

    def _makes_scores(self, node: Node, place: Place) -> bool:
        axes = [i for i in place.indices if i != ZERO]
        plain = all(map(is_plain, axes)) and len(set(axes)) == len(axes)
        features = upper(
            product_of(size for label, size in label_sizes(node).items() if label not in node.attribute.out)
        )
        return plain and self.walked in axes and len(axes) > 1 and node.dtype.is_float and features <= self.most


def anywhere(node: Node) -> Place:
    """Any element of a node."""
    return Place(tuple(ZERO if size == 1 else variable(f"a{k}", 0, size - 1) for k, size in enumerate(node.shape)))


def _is_large(scores: Node, contractions: Sequence[Node], others: Iterable[Node]) -> bool:
    """Whether storing the scores would take much more memory than all else that the kernel touches: what goes into the
    contractions that make them, and the others.
    """
    operands = dict.fromkeys(source for node in contractions for source in node.sources)
    touched = sum(node.elements for node in (*operands, *others))
    return scores.elements >= LEAST_SHARE * touched


def _has_batch(below: _Below) -> bool:
    left, right, out = below.contractions[0].attribute
    sizes = zip(out, below.contractions[0].shape, strict=True)
    return upper(product_of(size for label, size in sizes if label in left and label in right)) > 1

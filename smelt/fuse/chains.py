"""Contractions of what was computed from contractions: kernels that make scores block by block and never store them.

A chain is a contraction y = contract(e, w) where e comes by elementwise steps from contractions of the same elements
(the gradients of attention are three such products), or the logarithm of a sum of exponentials of such an e. Its kernel
computes e itself, for one block of the summed axis at a time. Several chains may share members; each computes them
again, which saves memory and takes little time as long as the inner sums are short.

Chains are found as if nobody else were there. Then those are dropped of whose members somebody outside all chains
reads, until all that are left have their members for themselves. Attention takes part in this (`attention`).

Bounds: inner sums and results of at most `MOST_FEATURES`, so a chain computes at most that many products per element of
e for each of its inner contractions, and no kernel stores more than a block of e.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from smelt.fuse.movement import Place, source_place
from smelt.graph import ELEMENTWISE, SOURCES, ZERO, Index, IndexLike, Node, Op, Variable, product_of, upper, variable

LEAST_ROWS = 8  # rows that are worth transposing an operand for
MOST_FEATURES = 256  # elements of a result's row, which one loop accumulates, and of an inner sum
MOST_STAGED = 1 << 21  # elements of an operand that lies in local memory
MOST_MEMBERS = 48  # nodes that a chain computes inside
LEAST_SHARE = 2  # how many times larger than all that is read and written scores without a batch must be
FEW_FEATURES = 128  # elements of a result's row up to which that is not asked of scores with a batch
RENAMING = frozenset({Op.RESHAPE, Op.PERMUTE})


class Chain(NamedTuple):
    """A kernel around the scores that it computes: it takes in `result` and all the `members`.

    If there are `folds` among those, they walk one common axis, of `keys` elements.
    """

    result: Node
    folds: tuple[Node, ...]
    members: frozenset[Node]
    keys: IndexLike

    def renamed(self, new: Mapping[Node, Node]) -> Chain:
        """The chain in a graph whose nodes have become others."""
        folds = tuple(new[node] for node in self.folds)
        return Chain(new[self.result], folds, frozenset(new[node] for node in self.members), self.keys)


class Below(NamedTuple):
    """What scores are computed from: all the nodes down to the contractions that make them, and those."""

    members: frozenset[Node]
    contractions: tuple[Node, ...]


# --- which chains there are


def find_chain(node: Node) -> Chain | None:
    """The chain that ends in this node, whoever else reads what it is made of."""
    if node.op is Op.CONTRACT:
        return _contraction(node)
    if node.op is Op.BINARY and node.attribute == "add":
        return _log_sum(node, *node.sources) or _log_sum(node, *reversed(node.sources))
    return None


def undisturbed(chains: Sequence[Chain], readers: Mapping[Node, Sequence[Node]], stored: Set[Node]) -> list[Chain]:
    """The chains of whose members nobody else reads any: neither a kernel without them, nor the caller."""
    left = _private(chains, readers, stored)
    # What one chain stores another cannot compute inside. Loops that rescale gain most, so they come first.
    kept: list[Chain] = []
    for chain in sorted(left, key=lambda chain: -len(chain.folds)):
        results = {other.result for other in kept}
        inside = {node for other in kept for node in other.members}
        if not results & chain.members and chain.result not in inside:
            kept.append(chain)
    return kept if len(kept) == len(left) else undisturbed(kept, readers, stored)


def _private(chains: Sequence[Chain], readers: Mapping[Node, Sequence[Node]], stored: Set[Node]) -> list[Chain]:
    left = list(chains)
    while True:
        inside = {node for chain in left for node in (chain.result, *chain.members)}
        alone = {node: node not in stored and all(user in inside for user in readers[node]) for node in inside}
        kept = [chain for chain in left if all(alone[node] for node in chain.members)]
        if len(kept) == len(left):
            return kept
        left = kept


# --- a contraction of scores


class Side(NamedTuple):
    """The operand of a contraction that may hold scores, with the longest axis along which it is summed."""

    number: int
    axis: int
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
        if upper(rows) >= LEAST_ROWS and upper(features) <= MOST_FEATURES and staged <= MOST_STAGED:
            yield Side(number, labels.index(walked), features, batch)


def _contraction(node: Node) -> Chain | None:
    for number, axis, features, batch in sides(node):
        e, w = node.sources[number], node.sources[1 - number]
        if features == 1 or e.dtype is not node.dtype:
            continue
        many = upper(batch) > 1 and upper(features) <= min(upper(e.shape[axis]), FEW_FEATURES)
        # Most products are told here, before what is below them is walked through.
        if not many and not _is_large(e, (), (node, w)):
            continue
        found = scores_below(e, anywhere(e), axis, _most(e.shape[axis]))
        if found is not None and (many or _is_large(e, found.contractions, (node, w))):
            return Chain(node, (), found.members, e.shape[axis])
    return None


def scores_below(root: Node, place: Place, axis: int, most: int) -> Below | None:
    """The nodes between scores, at some place, and the contractions that make them; None if there is no contraction
    of at most so many elements each.
    """
    walk = _Walk(place.indices[axis], most)
    if not walk.leads(root, place) or not walk.contractions or len(walk.members) > MOST_MEMBERS:
        return None
    return Below(frozenset(walk.members), tuple(walk.contractions)) if walk.once else None


def _most(keys: IndexLike) -> int:
    """How long inner sums may be."""
    return min(MOST_FEATURES, MOST_STAGED // max(1, upper(keys)))


class _Walk:
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
        elif node.op in RENAMING or node.op is Op.EXPAND:
            found = self.leads(node.sources[0], source_place(node, place))
        else:
            found = False
        if found:
            self.members[node] = None
        return found

    def _makes_scores(self, node: Node, place: Place) -> bool:
        left, right, out = node.attribute
        sizes = dict(zip(left + right, node.sources[0].shape + node.sources[1].shape, strict=True))
        axes = [i for i in place.indices if i != ZERO]
        plain = all(len(i.terms) == 1 and i.constant == 0 for i in axes) and len(set(axes)) == len(axes)
        plain = plain and all(isinstance(atom, Variable) for i in axes for atom in i.atoms())
        features = upper(product_of(size for label, size in sizes.items() if label not in out))
        return plain and self.walked in axes and len(axes) > 1 and node.dtype.is_float and features <= self.most


def anywhere(node: Node) -> Place:
    """Any element of a node."""
    return Place(tuple(ZERO if size == 1 else variable(f"a{k}", 0, size - 1) for k, size in enumerate(node.shape)))


def _is_large(scores: Node, contractions: Sequence[Node], others: Iterable[Node]) -> bool:
    """Whether storing the scores would take much more memory than all else that the kernel touches: what goes into the
    contractions that make them, and the others.
    """
    operands = dict.fromkeys(source for node in contractions for source in node.sources)
    touched = sum(upper(product_of(node.shape)) for node in (*operands, *others))
    return upper(product_of(scores.shape)) >= LEAST_SHARE * touched


# --- the logarithm of a sum of exponentials


class Exponentials(NamedTuple):
    """exp(x - max(x)) along an axis."""

    x: Node
    maximum: Node
    between: tuple[Node, ...]  # the difference, and how it sees the maximum


def exponentials(e: Node, place: Place, axis: int) -> Exponentials | None:
    """What a node is the exponential of, if the maximum along an axis is subtracted."""
    if not _is(e, "exp") or not _is(e.sources[0], "sub"):
        return None
    difference = e.sources[0]
    x, repeated = difference.sources
    others = Place(tuple(i for k, i in enumerate(place.indices) if k != axis))
    seen = fold_below(repeated, place, "max", axis, others)
    if seen is None or seen[-1].sources[0] is not x:
        return None
    return Exponentials(x, seen[-1], (difference, *seen[:-1]))


def fold_below(node: Node, place: Place, op: str, axis: int, wanted: Place) -> tuple[Node, ...] | None:
    """The nodes down to the reduction over one axis that a node repeats along that axis, the reduction last."""
    chain = [node]
    while node.op in RENAMING or node.op is Op.EXPAND:
        place, node = source_place(node, place), node.sources[0]
        chain.append(node)
    folds = node.op is Op.REDUCE and node.leaf is None and node.attribute == (op, (axis,))
    return tuple(chain) if folds and place == wanted else None


def _log_sum(node: Node, largest: Node, logarithm: Node) -> Chain | None:
    """max(x) + log(sum(exp(x - max(x)))) along one axis of x."""
    if not _is(logarithm, "log") or not node.dtype.is_float:
        return None
    maxima, row = _renamed(largest, anywhere(node))
    sums, same = _renamed(logarithm.sources[0], anywhere(node))
    total = sums[-1]
    if total.op is not Op.REDUCE or total.leaf is not None or total.attribute.op != "add" or row != same:
        return None
    e, axes = total.sources[0], total.attribute.axes
    if len(axes) != 1:
        return None
    (axis,), place = axes, anywhere(e)
    found = exponentials(e, place, axis)
    if found is None or maxima[-1] is not found.maximum:
        return None
    below = scores_below(found.x, place, axis, _most(e.shape[axis]))
    rows = product_of(size for k, size in enumerate(e.shape) if k != axis)
    if (
        below is None
        or upper(rows) < LEAST_ROWS
        or not (_has_batch(below) or _is_large(e, below.contractions, (node,)))
    ):
        return None
    members = {*below.members, found.maximum, *found.between, *maxima, e, *sums, logarithm}
    return Chain(node, (found.maximum, total), frozenset(members), e.shape[axis])


def _renamed(node: Node, place: Place) -> tuple[list[Node], Place]:
    """The nodes down to what a node renames, that last, and the element of it."""
    chain = [node]
    while chain[-1].op in RENAMING and chain[-1].leaf is None:
        place = source_place(chain[-1], place)
        chain.append(chain[-1].sources[0])
    return chain, place


def _has_batch(below: Below) -> bool:
    left, right, out = below.contractions[0].attribute
    sizes = zip(out, below.contractions[0].shape, strict=True)
    return upper(product_of(size for label, size in sizes if label in left and label in right)) > 1


def _is(node: Node, function: str) -> bool:
    return node.op in ELEMENTWISE and node.leaf is None and node.attribute == function

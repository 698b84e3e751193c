"""Store or recompute: what pays, where both may be.

Takes what a walk has found out about a node: which kernels ask for it, and at which elements. Gives a decision with its
reason, by a few limits that stand at the top of this file, or by `Choices` that somebody has made before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from typing import Final, Literal, NamedTuple

from smelt.cost.operations import COSTLY, again_pays, instructions
from smelt.fuse.facts import is_stored
from smelt.fuse.group import Group
from smelt.fuse.launched import ROUTINES, only_renames
from smelt.fuse.movement import REPEATING
from smelt.graph import ELEMENTWISE, VIEWS, IndexLike, Node, Op, label_sizes, product_of, shown, upper, users
from smelt.kernel import Illegal, extent

NODE_LIMIT = 250  # elementwise nodes in one kernel: beyond that the C compiler becomes slow and nothing is gained
BUFFER_LIMIT = 40  # distinct values that one kernel asks for
CONTRACTION_LIMIT = 80  # the same beside a contraction, where each of many registers has its own copy of them
CUT_MINIMUM = 32  # nodes that a kernel must be spared by storing a value only because it has too many
PLACE_LIMIT = 4  # elements of one node that one element of a kernel may need
PROLOGUE_LIMIT = 16  # nodes computed inside the operands of a contraction
MANY_COLUMNS, MANY_PRODUCTS = 64, 1 << 21  # of a contraction that would rather find its rows finished
SLICE = 256  # elements that one index chooses, so that it costs nothing
RECOMPUTE_DEPTH = 8  # cheap nodes in a row that may be computed in several kernels
PIECES_LIMIT = 4  # parts of a concat that are selected between element by element
PARALLEL_ROWS = 64  # rows that make it worth keeping a reduction and its users in one kernel
SMALL = 1 << 15  # elements below which one thread is enough anyway
MOST_CHOSEN = 1000  # nodes of a kernel to which somebody adds one against these limits

Kind = Literal["inside", "stored"]


class Decision(NamedTuple):
    """Whether a node is computed inside of the kernels that ask for it, or stored by one of its own; and why."""

    node: Node
    kind: Kind
    reason: str
    kernels: int = 1  # that ask for it
    either: bool = False  # whether it might have been the other way, too

    def __str__(self) -> str:
        work = f"{self.node.nbytes} bytes"
        if self.kernels > 1 and self.node.op in ELEMENTWISE:
            again = instructions([operation(self.node)])
            work += f", or {again} instructions a vector in each of {self.kernels} kernels"
        return f"{self.node!r}: {self.reason} ({work})"


class Choices(NamedTuple):
    """What is done whatever the limits say, by the numbers of nodes in the order of the graph that is looked at then.

    As text: `store 3 17; inside 4; alone 9; apart 5; pieces 8/1 12/4; equal 0/2`.
    """

    store: frozenset[int] = frozenset()  # nodes that are stored
    inside: frozenset[int] = frozenset()  # nodes that are computed inside of all kernels that ask for them
    alone: frozenset[int] = frozenset()  # nodes that are stored by kernels which are joined with no other
    apart: frozenset[int] = frozenset()  # results of chains that are several kernels, as if they were none
    pieces: frozenset[tuple[int, int]] = frozenset()  # reductions and contractions, and in how many pieces they are cut
    equal: frozenset[tuple[int, int]] = frozenset()  # islands, and which of their equal programs; 1: as it is written

    def __str__(self) -> str:
        parts = [(word, [_printed(one) for one in sorted(numbers)]) for word, numbers in self._asdict().items()]
        return "; ".join(" ".join([word, *numbers]) for word, numbers in parts if numbers)


def _printed(one: int | tuple[int, int]) -> str:
    return str(one) if isinstance(one, int) else f"{one[0]}/{one[1]}"


def parse_choices(text: str) -> Choices:
    """The choices that were printed."""
    found = NO_CHOICES._asdict()
    for part in filter(None, map(str.strip, text.split(";"))):
        word, *numbers = part.split()
        form = _FRACTIONS if word in _PAIRS else _NUMBERS
        if word not in found or not numbers or not all(form.fullmatch(number) for number in numbers):
            raise Illegal(f"{part[:40]!r} is no choice; write store 3 17; inside 4; pieces 8/2")
        read = [tuple(map(int, number.split("/"))) for number in numbers]
        found[word] |= {one if word in _PAIRS else one[0] for one in read}
    if found["store"] & found["inside"] or any(len(dict(found[word])) < len(found[word]) for word in _PAIRS):
        raise Illegal("choices that say two things about one node")
    return Choices(**found)


def chosen_nodes(order: Sequence[Node], numbers: Iterable[int], word: str) -> list[Node]:
    """The nodes with these numbers."""
    missing = next((number for number in numbers if number >= len(order)), None)
    if missing is not None:
        raise Illegal(f"{word} {missing}: the graph has {len(order)} nodes")
    return [order[number] for number in numbers]


_PAIRS: Final = ("pieces", "equal")
_NUMBERS: Final = re.compile(r"[0-9]{1,7}")
_FRACTIONS: Final = re.compile(r"[0-9]{1,7}/[1-9][0-9]{0,2}")
NO_CHOICES: Final = Choices()


class Policy:
    """What is known about a graph before any of it is placed, and what the limits make of it."""

    def __init__(self, order: Sequence[Node], roots: Sequence[Node]) -> None:
        self.light, self.epilogues, self.cones = _light(order), _epilogues(order), _cones(order, roots)
        self.depth: dict[Node, int] = {}  # how many nodes in a row above each are computed in several kernels

    def against(self, node: Node, asking: Sequence[Group], pieces: Set[Node]) -> str:
        """Why it does not pay to compute a node inside of all kernels that ask for it."""
        if len(asking) > 1 and not _recomputable(node, self.depth.get(node, 0), len(asking)):
            return "several kernels ask for it, and it is dear to compute again"
        if node in self.epilogues and any(group.reductions for group in asking):
            return "it is the epilogue of a contraction, and a kernel of reductions asks for it"
        # The tasks of a long reduction are its pieces; what they need of another reduction is made before.
        if node.op is Op.REDUCE and any(group.sink in pieces and group.sink.op is Op.REDUCE for group in asking):
            return "pieces of a long reduction need it"
        if len(asking) == 1 and _cut(asking[0], self.cones[node]):
            return "its kernel would have too many nodes, and this is a good place to cut"
        return next((reason for group in asking if (reason := self._against(group, node))), "")

    def _against(self, group: Group, node: Node) -> str:
        if node.op in VIEWS:
            return ""
        places = group.places[node]
        if group.work >= _limit(group, node) or len(group.waiting) + len(node.sources) > BUFFER_LIMIT:
            return "its kernel has enough nodes, or reads enough"
        if node in group.operands:
            if not group.members and _packed_again(group, node):
                return "a contraction would compute it again for every block of columns"
            own = (inner for inner in group.inside if inner.op not in VIEWS and inner not in group.members)
            prologue = sum(inner in group.operands for inner in own)
            simple = node in self.light and len(places) == 1 and prologue < PROLOGUE_LIMIT
            return "" if simple else "a contraction needs it, which reads what is finished"
        if node.op is Op.CONCAT:
            few = len(node.sources) <= PIECES_LIMIT and len(places) == 1
            return "" if few else "it has many parts, or is asked for at several places"
        if node.op is Op.REDUCE:
            rows = product_of(extent(v) for v in group.free_axes(places[0]))
            enough = upper(rows) >= PARALLEL_ROWS or node.sources[0].elements <= SMALL
            return "" if enough else "it has too few rows to share out"
        if node.op is Op.CONTRACT or node.op is Op.SCAN:
            return ""
        few = len(places) <= (1 if node.attribute in COSTLY else PLACE_LIMIT)
        return "" if few else "its kernel asks for it at several places"

    def shared(self, node: Node) -> None:
        """Note that a node is computed in several kernels."""
        if node.op not in VIEWS:
            for source in node.sources:
                self.depth[source] = max(self.depth.get(source, 0), self.depth.get(node, 0) + 1)


def _packed_again(group: Group, node: Node) -> bool:
    """Whether a node is what the rows of a contraction are computed from, which packs them once for each block of
    columns: so many products are faster if it finds the rows finished. Casts cost nothing on the way.
    """
    contraction = group.contraction
    if contraction is None or node.op is Op.CAST or node.op not in ELEMENTWISE:
        return False
    left, right, out = contraction.attribute
    first = int(out[-1:] != () and out[-1] in left)  # the columns are the other one's
    rows = contraction.sources[first]
    while rows is not node and rows.op in VIEWS:
        rows = rows.sources[0]
    own, other = set((left, right)[first]), set((left, right)[1 - first])
    sizes = label_sizes(contraction)
    products = upper(product_of(sizes.values()))
    again = upper(product_of(sizes[label] for label in other - own)) >= MANY_COLUMNS
    return rows is node and len((own | other) - set(out)) == 1 and again and products >= MANY_PRODUCTS


def _light(order: Sequence[Node]) -> set[Node]:
    """Nodes made of inputs by a few cheap operations (a cast, a scale): worth computing inside a contraction's
    operands.

    Anything else a contraction reads is better finished by the kernel that makes it.
    """
    found: set[Node] = set()
    for node in order:
        if is_stored(node) or node.op in ROUTINES:
            found.add(node)
            continue
        cheap = node.op in VIEWS or node.op is Op.PAD or (node.op in ELEMENTWISE and node.attribute not in COSTLY)
        cheap = cheap or (node.op is Op.GATHER and _picks_slices(node))
        if cheap and all(source in found for source in node.sources):
            found.add(node)
    return found


def _picks_slices(gather: Node) -> bool:
    """Whether each index chooses many elements: then reading by it costs no more than reading a copy."""
    size = gather.elements
    chosen = sum(upper(product_of(shown(index, REPEATING).shape)) for index in gather.sources[1:])
    return chosen * SLICE <= size


def _epilogues(order: Sequence[Node]) -> set[Node]:
    """Elementwise nodes that lead back to a contraction of the same elements that nobody else reads.

    A kernel of reductions cannot take the contraction in, so it leaves these to the contraction's kernel.
    """
    readers = users(order)
    found: set[Node] = set()
    for node in order:
        if node.op in ELEMENTWISE:
            for source in node.sources:
                while only_renames(source) and len(readers[source]) == 1:
                    source = source.sources[0]
                if len(readers[source]) == 1 and (source.op is Op.CONTRACT or source in found):
                    found.add(node)
    return found


def _cones(order: Sequence[Node], roots: Sequence[Node]) -> dict[Node, int]:
    """For each node, how many elementwise nodes are needed for it alone, itself included.

    Those are the nodes of its subtree in the tree of immediate dominators, seen from the results.
    """
    above: dict[Node, Node | None] = dict.fromkeys(roots)
    depth: dict[Node, int] = dict.fromkeys(roots, 0)

    def meet(a: Node | None, b: Node | None) -> Node | None:
        # What many far apart nodes share is part of no small cone: giving up keeps long graphs linear.
        for _ in range(2 * NODE_LIMIT):
            if a is b:
                return a
            if a is not None and (b is None or depth[a] >= depth[b]):
                a = above[a]
            else:
                assert b is not None
                b = above[b]
        return None

    for node in reversed(order):
        # All users have been seen, so what dominates this node is known.
        dominator = above[node]
        depth[node] = 0 if dominator is None else depth[dominator] + 1
        for source in () if node.leaf is not None else node.sources:
            above[source] = meet(above[source], node) if source in above else node
    sizes: dict[Node, int] = dict.fromkeys(order, 0)
    for node in order:
        if node.leaf is None and (node.op in ELEMENTWISE or node.op in VIEWS):
            sizes[node] += node.op in ELEMENTWISE
            dominator = above[node]
            if dominator is not None:
                sizes[dominator] += sizes[node]
    return sizes


def _cut(group: Group, cone: int) -> bool:
    """Whether to store a value because its kernel would have too many nodes.

    Without this, the limit on nodes would fall somewhere in the middle, where many values are alive.
    """
    return group.expected > _limit(group, group.sink) and CUT_MINIMUM <= cone <= NODE_LIMIT


def _limit(group: Group, node: Node) -> int:
    """How many nodes a kernel may have before it takes in this one."""
    return NODE_LIMIT if group.contraction is None and node.op is not Op.CONTRACT else CONTRACTION_LIMIT


def _recomputable(node: Node, depth: int, kernels: int) -> bool:
    """Whether computing a node in several kernels costs no more than storing it once and reading it back."""
    if node.op in VIEWS:
        return True
    if node.op is Op.PAD:
        return depth < RECOMPUTE_DEPTH
    size = product_of(node.shape)
    return depth < RECOMPUTE_DEPTH and _is_again(node, size, kernels) and _reads_one(node, size, kernels)


def operation(node: Node) -> str:
    """What a node is called where kernels compute it."""
    return str(node.attribute) if node.op in (Op.UNARY, Op.BINARY) else node.op.value


def _reads_one(node: Node, size: IndexLike, kernels: int) -> bool:
    """Whether a kernel that computes a node again reads one input for it at most, perhaps below others that it computes
    again, too: x * x reads one, and so does x + x * x * x.
    """
    read, again = dict.fromkeys(_read_whole(node, size)), {node}
    while len(read) > 1:
        inner = next((source for source in reversed(read) if _is_again(source, size, kernels)), None)
        if inner is None or len(again) > RECOMPUTE_DEPTH:
            return False
        again.add(inner)
        del read[inner]
        read |= dict.fromkeys(source for source in _read_whole(inner, size) if source not in again)
    return True


def _is_again(node: Node, size: IndexLike, kernels: int) -> bool:
    """Whether computing a node in several kernels costs no more than what storing it does."""
    return node.op in ELEMENTWISE and again_pays(operation(node), upper(size), kernels)


def _read_whole(node: Node, size: IndexLike) -> Iterable[Node]:
    """The sources that have as many distinct elements as their user."""
    for source in node.sources:
        whole = shown(source, REPEATING)
        if whole.op is not Op.CONST and product_of(whole.shape) == size:
            yield source

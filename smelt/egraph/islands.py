"""Islands: the parts of a graph in which some rule can begin, with what lies below.

A graph in which no rule can begin costs one look at each node. Else each node where one does takes those below it
along, as far as nobody else reads them, for rules find more to do in what other rules have made. Islands that touch
are one. Equal layers give equal islands, which are planned once.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence
from typing import Final, NamedTuple

from smelt.dtypes import DType
from smelt.egraph.saturate import REMEMBERED, orders_of
from smelt.graph import ELEMENTWISE, VIEWS, Node, Op, Shape, make, make_leaf, shown, topological, users
from smelt.rewrite import Key, Rule, Sources, key_of, keys_of, match

DEPTH: Final = 8  # nodes one below the other, from one where a rule begins
LARGEST: Final = 64  # nodes of an island
_SMALL: Final = (Op.CONST, Op.IOTA)  # what belongs to every island that reads it, also repeated
_LAND: Final = frozenset(
    {*ELEMENTWISE, *VIEWS, *_SMALL, Op.PAD, Op.CONCAT, Op.REDUCE, Op.SCAN, Op.CONTRACT, Op.GATHER, Op.COMPOSITE}
)


class Island(NamedTuple):
    """Nodes, sources before users; what they read of others, by first use; and those that others read."""

    nodes: list[Node]
    inputs: list[Node]
    outputs: list[Node]

    def frozen(self) -> Frozen:
        """What tells islands apart that are not planned alike."""
        return Frozen.of(self.nodes, self.inputs, self.outputs)


class Starts:
    """Where rules begin: for each key, what the sources have to be."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.overs: dict[Key, dict[Sources, None]] = {}
        for rule in rules:
            for key in () if rule.helps else keys_of(rule):
                self.overs.setdefault(key, {}).update(dict.fromkeys(rule.below(key)))
        # By the keys of a node and its sources, what is left to be matched: mostly nothing.
        self._likely: dict[tuple[Key | None, ...], list[Sources]] = {}

    def begin_at(self, node: Node) -> bool:
        """Whether a rule does."""
        key = key_of(node)
        if key not in self.overs or node.leaf is not None:
            return False
        keys = tuple([key_of(source) if source.leaf is None else None for source in node.sources])
        likely = self._likely.get((key, *keys))
        if likely is None:
            orders = orders_of(key, keys)
            likely = [over for over in self.overs[key] if any(_may_match(order, over) for order in orders)]
            if len(self._likely) >= REMEMBERED:
                self._likely.clear()
            self._likely[key, *keys] = likely
        return any(match(sources, over) for over in likely for sources in orders_of(key, node.sources))


def _may_match(keys: Sequence[Key | None], over: Sources) -> bool:
    return all(pattern is None or key in pattern.keys for key, pattern in zip(keys, over, strict=False))


def islands(roots: Sequence[Node], starts: Starts) -> list[Island]:
    """All islands of a graph, in an order in which none reads what a later one gives."""
    order = topological(roots)
    heads = set(filter(starts.begin_at, order))
    if not heads:
        return []
    readers = users(order)
    depths = dict.fromkeys(heads, 0)  # of the nodes that belong to islands
    outside = set(roots)
    for node in reversed(order):
        if node in heads or node in outside or node.leaf is not None or node.op not in _LAND:
            continue
        above = [depths.get(reader, DEPTH) for reader in readers[node]]
        if above and max(above) < DEPTH:
            depths[node] = 1 + min(above)
    found = _gathered(order, depths, readers, outside)
    return [island for island in found if not heads.isdisjoint(island.nodes)]


def _gathered(
    order: Sequence[Node], members: Container[Node], readers: dict[Node, list[Node]], outside: set[Node]
) -> list[Island]:
    """Members that read one another, together, up to a number of them.

    What leaves an island must not come back to it by way of others, or neither could be computed first. So nodes have
    stages, counted from the roots: what a member reads and is none is one stage before, as is a member with which an
    island would grow too large; and only members of one stage are together.
    """
    home: dict[Node, list[Node]] = {}
    stages: dict[Node, int] = {}
    for node in reversed(order):
        above = [reader for reader in readers[node] if reader.leaf is None]
        if node not in members or is_small(node):
            stages[node] = max((stages[reader] + (reader in home) for reader in above), default=0)
            continue
        stage = max((stages[reader] for reader in above), default=0)
        near = {id(home[reader]): home[reader] for reader in above if reader in home and stages[reader] == stage}
        if sum(map(len, near.values())) >= LARGEST:
            stage, near = stage + 1, {}
        stages[node] = stage
        own = max(near.values(), key=len, default=[])
        for moved in [node, *(moved for other in near.values() if other is not own for moved in other)]:
            own.append(moved)
            home[moved] = own
    found: dict[int, list[Node]] = {}
    for node in order:
        if node in home:
            found.setdefault(id(home[node]), []).append(node)
    ordered = sorted(found.values(), key=lambda own: -stages[own[0]])
    return [_island(own, readers, outside) for own in ordered]


def _island(own: list[Node], readers: dict[Node, list[Node]], outside: set[Node]) -> Island:
    inside = set(own)
    for node in own:
        inside.update(x for source in node.sources if is_small(source) for x in topological([source]))
    nodes = topological(own, known={source for node in inside for source in node.sources} - inside)
    inputs = dict.fromkeys([source for node in nodes for source in node.sources if source not in inside])
    outputs = [node for node in own if node in outside or any(reader not in inside for reader in readers[node])]
    return Island(nodes, list(inputs), outputs)


def is_small(node: Node) -> bool:
    """Whether a node is a number or a count, perhaps repeated."""
    return shown(node, {Op.RESHAPE, Op.EXPAND}).op in _SMALL


class Frozen(NamedTuple):
    """A graph as plain values, whose inputs are told by their numbers alone: nodes are an op, dtype, shape, attribute,
    and the numbers of sources, the inputs counted first.
    """

    inputs: tuple[tuple[DType, Shape], ...]
    nodes: tuple[tuple[Op, DType, Shape, Hashable, tuple[int, ...]], ...]
    outputs: tuple[int, ...]

    @classmethod
    def of(cls, nodes: Sequence[Node], inputs: Sequence[Node], outputs: Sequence[Node]) -> Frozen:
        """The graph of these nodes, sources before users."""
        numbers = {node: number for number, node in enumerate((*inputs, *nodes))}
        kept = tuple(
            [(x.op, x.dtype, x.shape, x.attribute, tuple([numbers[source] for source in x.sources])) for x in nodes]
        )
        given = tuple([(node.dtype, node.shape) for node in inputs])
        return cls(given, kept, tuple([numbers[node] for node in outputs]))

    def leaves(self) -> list[Node]:
        """New leaves for the inputs."""
        return [make_leaf(dtype, shape, object()) for dtype, shape in self.inputs]

    def over(self, inputs: Sequence[Node]) -> list[Node]:
        """The outputs of the graph over other inputs."""
        nodes = list(inputs)
        for op, dtype, shape, attribute, sources in self.nodes:
            nodes.append(make(op, dtype, shape, tuple([nodes[k] for k in sources]), attribute))
        return [nodes[number] for number in self.outputs]

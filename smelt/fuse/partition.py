"""Store or recompute: one decision per node, which cuts the graph into kernels.

Every kernel has a sink, the node whose result it stores, and computes other nodes inside. Nodes are visited from the
results backwards, so that when a node's turn comes all its users have been placed, and it is known at which elements
each kernel asks for it. A node is computed inside the kernel that asks for it if that is legal and costs no work
twice. It is recomputed in several kernels only where reading its one input costs no more than reading its result.
Otherwise it is stored: the sink of a kernel of its own.

Bounds: a kernel reads each of its inputs and writes its result once; its arithmetic is that of its nodes, once each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from smelt.fuse.chains import Chain
from smelt.fuse.choices import MOST_CHOSEN, NO_CHOICES, Choices, Decision, Kind, Policy, chosen_nodes
from smelt.fuse.facts import impossible, is_beside, is_same, is_stored
from smelt.fuse.group import Group, Piece, Result, demands
from smelt.fuse.join import joined
from smelt.fuse.launched import ROUTINES, bases
from smelt.fuse.movement import Place
from smelt.graph import (
    CONTROL,
    ELEMENTWISE,
    SOURCES,
    ZERO,
    Node,
    Op,
    Variable,
    as_index,
    make,
    reshape_strides,
    row_major,
    shown,
    size_of,
    topological,
    variable,
)
from smelt.kernel import Illegal


class Partition(NamedTuple):
    """Kernels, in an order in which they can run, and what was decided about each node on the way."""

    groups: list[Group]
    decisions: list[Decision]


def storable(root: Node) -> Node:
    """A root as a node that a kernel can store: sources are copied."""
    return make(Op.CAST, root.dtype, root.shape, (root,)) if root.op in SOURCES else root


def partition(
    roots: Sequence[Node],
    pieces: Collection[Node] = (),
    chains: Sequence[Chain] = (),
    choices: Choices = NO_CHOICES,
) -> Partition:
    """Cut a graph into kernels. The roots must be `storable`; they and the `pieces` are stored.

    Members of a chain are computed in its kernel; what several chains share, in each of theirs. Choices go before
    what the policy says; one that cannot be is `Illegal`.
    """
    return _Walk(roots, pieces, chains, choices).run()


class _Walk:
    """The way from the results backwards."""

    def __init__(
        self, roots: Sequence[Node], pieces: Collection[Node], chains: Sequence[Chain], choices: Choices
    ) -> None:
        self.order = topological(roots)
        self.policy = Policy(self.order, roots)
        self.pieces = set(pieces)
        self.stored = {*roots, *pieces}
        self.chains = {chain.result: chain for chain in chains}
        self.read_whole: set[Node] = set()  # by routines, which ask no kernel
        self.askers: dict[Node, list[Group]] = {}
        self.groups: list[Group] = []
        self.decisions: list[Decision] = []
        self.chosen: dict[Node, Kind] = dict.fromkeys(chosen_nodes(self.order, choices.store, "store"), "stored")
        self.chosen |= dict.fromkeys(chosen_nodes(self.order, choices.inside, "inside"), "inside")
        self.alone = set(chosen_nodes(self.order, choices.alone, "alone"))

    def run(self) -> Partition:
        for node in reversed(self.order):
            if is_stored(node):
                continue
            if node.op in ROUTINES or node.op in CONTROL:
                self.groups.append(Group(node, (), Place(()), node, inside=[node]))
                self.stored.update(bases(node))
                self.read_whole.update(bases(node))
                continue
            self.place(node)
        self.groups.reverse()
        return Partition(joined(self.groups, self.order, self.alone), self.decisions)

    def place(self, node: Node) -> None:
        """Compute a node inside of the kernels that ask for it, or give it one of its own."""
        asking = self.askers.get(node, [])
        taken = bool(asking) and all(node in group.members for group in asking)
        reason, may = ("", False) if taken else self.reason(node, asking)
        if node not in self.stored and not reason:
            for group in asking:
                self.absorb(group, node)
            if len(asking) > 1 and not taken:
                self.policy.shared(node)
            self.decisions.append(Decision(node, "inside", "a chain has it" if taken else "", len(asking), not taken))
            return
        only_reader = len(asking) == 1 and node not in self.read_whole
        if node in self.stored and only_reader and not reason and is_beside(asking[0], node):
            # Nobody else reads it inside the graph: it is stored by the way.
            asking[0].also.append(Result(node, asking[0].places[node][0], node))
            self.absorb(asking[0], node)
            self.decisions.append(Decision(node, "stored", "it is a result, by the kernel that computes it anyway"))
            return
        whole = "a pass before has it stored" if node in self.pieces else "it is a result, or has to be read as a whole"
        why = reason or whole
        either = may and bool(asking) and node not in self.stored
        self.decisions.append(Decision(node, "stored", why, len(asking), either))
        self.store(node, asking)

    def reason(self, node: Node, asking: Sequence[Group]) -> tuple[str, bool]:
        """What stands against computing a node inside of kernels, and whether it could be nevertheless."""
        chosen = self.chosen.get(node)
        cannot = next((why for group in asking if (why := impossible(group, node))), "")
        if chosen == "inside" and any(group.work > MOST_CHOSEN for group in asking):
            cannot = cannot or "its kernel has far too many nodes"
        if chosen == "inside" and cannot:
            raise Illegal(f"inside {self.order.index(node)}: {cannot}")
        if chosen is not None:
            return "it was chosen" if chosen == "stored" else "", False
        return cannot or self.policy.against(node, asking, self.pieces), not cannot

    def store(self, node: Node, asking: Sequence[Group]) -> None:
        """Kernels that store a node."""
        cones = self.policy.cones
        for group in asking:
            group.expected -= cones[node]
        for group in _sinks(node):
            self.groups.append(group)
            group.expected = cones[group.result]
            self.ask(group, group.result, group.place, False)
            if group.result is node:
                self.askers[node].remove(group)
                self.absorb(group, node)

    def ask(self, group: Group, node: Node, place: Place, operand: bool) -> None:
        if group.ask(node, place):
            self.askers.setdefault(node, []).append(group)
            # No kernel needs memory for constants, or to count.
            if shown(node).op not in (Op.CONST, Op.IOTA):
                group.waiting.add(node)
        if operand:
            group.operands.add(node)

    def absorb(self, group: Group, node: Node) -> None:
        group.waiting.discard(node)
        group.inside.append(node)
        group.work += len(group.places[node]) if node.op in ELEMENTWISE else 0
        chain = self.chains.get(node)
        if chain is not None and not group.members and _takes(group, chain):
            group.members = chain.members
            if chain.folds:
                group.keys = dict.fromkeys(chain.folds, group.fresh(chain.keys))
        if node.op is Op.CONTRACT and group.contraction is None:
            group.contraction = node
        if node.op is Op.SCAN:
            group.scanned = group.places[node][0].indices[node.attribute.axis]
        operand = node.op is Op.CONTRACT or node.attribute in ("dot4", "dot4_ss") or node in group.operands
        for place in group.places[node]:
            if node.op is Op.REDUCE:
                group.reductions.append(group.free_axes(place))
            for source, at in demands(group, node, place):
                self.ask(group, source, at, operand)


def _takes(group: Group, chain: Chain) -> bool:
    """Whether a kernel can compute a whole chain: its result at the very elements that the kernel stores."""
    scores = any(node.op is Op.CONTRACT for node in (chain.result, *chain.members))
    plain = group.contraction is None and group.scanned is None and not (scores and group.reductions)
    return plain and is_same(group, group.places[chain.result])


def _sinks(node: Node) -> Iterator[Group]:
    """The kernel that stores a node; one for each piece of a concat, which so needs no copy of its sources.

    A reshape is the memory of its source: its kernel walks the axes of that, which index nothing by remainders.
    """
    if node.op is Op.RESHAPE:
        source = shown(node.sources[0], {Op.RESHAPE})
        axes, place = _axes(source)
        yield Group(node, axes, place, source)
        return
    if node.op is not Op.CONCAT:
        axes, place = _axes(node)
        yield Group(node, axes, place, node)
        return
    whole, start = row_major(node.shape), as_index(0)
    for source in node.sources:
        result, strides = source, whole
        # A piece that merges axes, as attention's heads, is stored in the axes that its own kernel has.
        while result.op is Op.RESHAPE and result.leaf is None:
            finer = reshape_strides(result.shape, strides, result.sources[0].shape)
            if finer is None:
                break
            result, strides = result.sources[0], finer
        axes, place = _axes(result)
        yield Group(node, axes, place, result, Piece(size_of(start * whole[node.attribute]), strides))
        start = start + source.shape[node.attribute]


def _axes(node: Node) -> tuple[tuple[Variable, ...], Place]:
    index = tuple(ZERO if size == 1 else variable(f"i{k}", 0, as_index(size) - 1) for k, size in enumerate(node.shape))
    return tuple(v for i in index for v in i.variables()), Place(index)

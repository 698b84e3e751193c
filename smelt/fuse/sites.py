"""Sites: where a graph could be cut into kernels otherwise than the limits say, and how that is told.

A site is listed if both ways can be and either may be faster: what is stored and could be computed inside, what is
computed again in several kernels, reductions and contractions beside their users, chains, joins, pieces. Nodes that
play the same part in kernels of the same kind, as those of equal layers do, are one site.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from smelt.cost import Profile
from smelt.fuse.chains import chains_of
from smelt.fuse.choices import Choices, Decision, operation, parse_choices
from smelt.fuse.group import Group
from smelt.fuse.layout import LayoutOf
from smelt.fuse.passes import PASSES, Ready
from smelt.fuse.split import COLUMNS, LONG, ROWS, cut_in, cut_of
from smelt.graph import ELEMENTWISE, VIEWS, Node, Op, topological
from smelt.kernel import Illegal

# What is decided first: choices of one step are numbers in a graph that depends on the choices of those before it.
STEPS: Final = (("equal",), ("pieces",), ("apart",), ("alone", "store", "inside"))
LEAST_BYTES: Final = 1 << 16  # a site is about: less takes no time
COUNTS: Final = (1, 2, 4, 8, 16, 32)  # of pieces that are tried
_BESIDE: Final = (Op.REDUCE, Op.CONTRACT, Op.SCAN, Op.GATHER)  # what may be better off in a kernel of its own


class Site(NamedTuple):
    """Another way at one place, or at several that are alike: the choices that say so, and the bytes that it is about.

    As text: `stores the exp float32[64, 10]`.
    """

    words: str
    choices: Choices
    nbytes: int

    def __str__(self) -> str:
        count = sum(map(len, self.choices))
        return self.words if count == 1 else f"{self.words} ({count} times)"


def together(first: Choices, second: Choices) -> Choices:
    """Both choices."""
    return parse_choices(f"{first}; {second}")


def early_sites(
    roots: Sequence[Node], layout: LayoutOf, profile: Profile, choices: Choices, step: Sequence[str]
) -> list[Site]:
    """Where passes before the cut could have done otherwise, those of one of the `STEPS`."""
    graph = Ready(list(roots), set(), [])
    for one in PASSES:
        if one.kind in step:
            order = topological(graph.roots)
            found = _pieces(order) if one.kind == "pieces" else _apart(graph, order, choices)
            return _ranked(found)
        if one.anywhere or not profile.group_threads:
            graph = one.run(graph, layout, profile, choices)
    return []


def late_sites(stored: Sequence[Node], groups: Sequence[Group], decisions: Sequence[Decision]) -> list[Site]:
    """Where a graph that is cut could be cut otherwise."""
    numbers = {node: number for number, node in enumerate(topological(stored))}
    parts = _parts(groups)
    found: list[tuple[Hashable, Site]] = []
    key: Hashable
    operands = {node for group in groups for node in group.inside if node in group.operands}
    for decision in decisions:
        node = decision.node
        if decision.kind == "stored" and decision.either:
            words = f"computes {_named(node)} in each kernel that needs it"
            choice = Choices(inside=frozenset({numbers[node]}))
        elif decision.kind == "inside" and decision.either and _may_pay(decision, operands):
            words, choice = f"stores {_named(node)}", Choices(store=frozenset({numbers[node]}))
        else:
            continue
        key = (words, parts.get(node, node), decision.kernels)
        found.append((key, Site(words, choice, decision.kernels * max(x.nbytes for x in (node, *node.sources)))))
    for group in groups:
        if group.members and group.also:
            key = ("alone", parts.get(group.sink, group.sink))
            words = f"makes {_named(group.sink)} in a kernel without other results"
            found.append((key, Site(words, Choices(alone=frozenset({numbers[group.sink]})), group.sink.nbytes)))
    return _ranked(found)


def _may_pay(decision: Decision, operands: set[Node]) -> bool:
    """Whether a node that is computed inside is worth a kernel of its own, perhaps."""
    node = decision.node
    if node.op in VIEWS or (node.op not in ELEMENTWISE and node.op not in _BESIDE and node not in operands):
        return False
    return decision.kernels > 1 or node.op in _BESIDE or node in operands


def _pieces(order: Sequence[Node]) -> Iterator[tuple[Hashable, Site]]:
    """Reductions and contractions that are long, or cut already, in other numbers of pieces."""
    for number, node in enumerate(order):
        if (node.op is not Op.REDUCE and node.op is not Op.CONTRACT) or node.leaf is not None:
            continue
        cut, work = cut_of(node), node.sources[0].elements
        if cut is None and (work < LONG // 2 or node.elements > _most_results(node)):
            continue
        shapes = tuple(source.shape for source in node.sources)
        for count in COUNTS:
            try:
                if count != (1 if cut is None else cut[1]):
                    cut_in(node, count)
                    words = f"{_named(node)} in {count} pieces" if count > 1 else f"{_named(node)} in one piece"
                    choice = Choices(pieces=frozenset({(number, count)}))
                    key = (count, node.op, node.attribute, node.dtype, shapes)
                    yield key, Site(words, choice, work * node.dtype.itemsize)
            except Illegal:
                continue


def _most_results(node: Node) -> int:
    """Results that are tasks enough, and no pieces need be tried."""
    is_row = node.op is Op.REDUCE and node.sources[0].rank - 1 in node.attribute.axes
    return 4 * (ROWS if is_row else COLUMNS)


def _apart(graph: Ready, order: Sequence[Node], choices: Choices) -> Iterator[tuple[Hashable, Site]]:
    """Chains that could be several kernels."""
    numbers = {node: number for number, node in enumerate(order)}
    for chain in chains_of(graph.roots, graph.pieces, choices.apart):
        key = (chain.result.attribute, chain.result.shape, len(chain.folds), len(chain.members), chain.keys)
        scores = sum(node.nbytes for node in chain.members if node.op is Op.CONTRACT)
        words = f"stores the scores of {_named(chain.result)}"
        yield key, Site(words, Choices(apart=frozenset({numbers[chain.result]})), scores)


def _ranked(found: Iterable[tuple[Hashable, Site]]) -> list[Site]:
    """Sites that are alike as one, and those about most bytes first."""
    merged: dict[Hashable, Site] = {}
    for key, site in found:
        known = merged.get(key)
        if known is not None:
            site = Site(site.words, together(known.choices, site.choices), known.nbytes + site.nbytes)
        merged[key] = site
    return sorted((site for site in merged.values() if site.nbytes >= LEAST_BYTES), key=lambda site: -site.nbytes)


def _parts(groups: Sequence[Group]) -> dict[Node, Hashable]:
    """For each node, the parts that it plays in kernels, less exactly than `signature` tells kernels apart: there, what
    layers share (a mask) makes them differ in order, and the first and the last of them have other neighbours.
    """
    found: dict[Node, set[Hashable]] = {}
    for group in groups:
        result = group.result
        kind = group.sink.op, result.op, result.shape, bool(group.members), group.contraction is None, len(group.also)
        for node in dict.fromkeys((group.sink, *group.inside, *group.places)):
            found.setdefault(node, set()).add((kind, node in group.operands, node is group.sink))
    return {node: (_looks(node), frozenset(parts)) for node, parts in found.items()}


def _looks(node: Node) -> Hashable:
    return node.op, node.attribute, node.shape, tuple((source.op, source.shape) for source in node.sources)


def _named(node: Node) -> str:
    """A node in words."""
    name = {Op.CONTRACT: "product", Op.REDUCE: getattr(node.attribute, "op", "")}.get(node.op) or operation(node)
    return f"the {name} {node.dtype}{list(node.shape)}"

"""Which of all equal programs is compiled, and what one will cost once it is cut into kernels.

Each kernel takes the longer of what it computes and what it moves, and a part of the other. Elementwise work that fuses
costs its instructions alone; a value that is stored costs its bytes twice. Rates are those that are assumed of a
processor, so that plans do not depend on whether somebody has measured.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from smelt.compiler.record import own_version
from smelt.compiler.simplifying import Plans, simplify
from smelt.compiler.trace import GraphKey, rebuild
from smelt.cost import EXPONENTIALS, Profile, assumed, instructions
from smelt.egraph import PAYS, Island, Plan, Planner, Pricing, Weighed, rules_for, stands_in
from smelt.fuse import Group, contiguous, partition, ready, storable
from smelt.graph import (
    ELEMENTWISE,
    SOURCES,
    VIEWS,
    Node,
    Op,
    expand,
    label_sizes,
    product_of,
    shown,
    topological,
    upper,
)
from smelt.rewrite import Contract, rewrite

_HIDDEN: Final = 0.75  # of the shorter of computing and moving, about, behind the longer
_ROUTINE: Final = 8  # times that a sort or a scatter moves what it reads, about
_RENAMING: Final = frozenset({Op.EXPAND, Op.RESHAPE, Op.PERMUTE})  # what takes no memory


def plans(
    contracts: str,
    profile: Profile,
    noted: Callable[[Weighed], None] | None = None,
    stated: str = "",
    answers: Iterable[tuple[int, int]] = (),
) -> Plans:
    """How graphs become the cheapest of all that are equal under a contract, by rules that users have `stated` as well.
    `noted` is told what was weighed, and what contracts beyond that would have gained. `answers` are about the first
    graph, in which bodies are others.
    """
    if contracts == "off":
        return list
    prices = _pricing(profile)
    if noted is None or answers:
        planner, each = _planner(contracts, stated), iter([dict(answers)])
        return lambda roots: planner.planned(roots, prices, answers=next(each, {}))
    beyond = [one.value for one in Contract if not Contract(contracts).allows(one)]

    def planned(roots: Sequence[Node]) -> list[Node]:
        result, weighed = _weighed(contracts, True, roots, prices, stated)
        taken = {one.written: one for one in weighed}
        for one in taken.values():
            noted(one)
        for contract in beyond:
            hints = [
                hint
                for hint in _weighed(contract, False, roots, prices, stated)[1]
                if hint.written not in taken or hint.chosen_seconds <= PAYS * taken[hint.written].chosen_seconds
            ]
            for hint in hints:
                noted(hint)
            if hints:
                break
        return result

    return planned


def alternatives(roots: Sequence[Node], contracts: str, profile: Profile, stated: str) -> list[Plan]:
    """What was found for each island of a graph that is not simplified yet, by their numbers."""
    found: list[Plan] = []
    if contracts != "off":
        _planner(contracts, stated).planned(rewrite(roots), _pricing(profile), lambda _, plan: found.append(plan))
    return found


def chosen(key: GraphKey, profile: Profile) -> list[Weighed]:
    """The islands of a graph, and which of all equal programs is compiled for each."""
    found: list[Weighed] = []
    simplify(rebuild(key), plans(key.contracts, profile, found.append, key.rules))
    return [one for one in found if one.accepted]


def _weighed(
    contract: str, accepted: bool, roots: Sequence[Node], prices: Pricing, stated: str
) -> tuple[list[Node], list[Weighed]]:
    """The plan under a contract, and what was weighed, or beyond what is accepted what would have been chosen."""
    found: list[Weighed] = []

    def seen(island: Island, plan: Plan) -> None:
        if accepted or plan.chosen is not None:
            found.append(Weighed.of(contract, accepted, island, plan))

    return _planner(contract, stated).planned(roots, prices, seen), found


@functools.lru_cache(maxsize=32)
def _planner(contracts: str, stated: str) -> Planner:
    return Planner(rules_for(Contract(contracts), stated), stated)


@functools.lru_cache(maxsize=32)
def _pricing(profile: Profile) -> Pricing:
    plain = profile._replace(features=frozenset())
    return Pricing(
        f"{own_version()} {plain} {sorted(profile.features)}",
        functools.partial(form_seconds, profile=profile),
        lambda roots: graph_seconds(simplify(roots), profile),
    )


def form_seconds(node: Node, profile: Profile) -> float:
    """What a node costs by itself: what is elementwise will be part of another kernel."""
    if node.op in SOURCES:
        return 0.0
    if node.op in VIEWS:
        return 1e-9
    if node.op is Op.COMPOSITE:
        parts = topological([expand(node)], known=set(node.sources))
        return sum(form_seconds(part, profile) for part in parts)
    computing = _nanoseconds(node, profile) / profile.cores
    if node.op in ELEMENTWISE or node.op is Op.PAD:
        return 1e-9 * (1 + computing)
    read = sum(min(_nbytes(x), _most_read(node) * x.dtype.itemsize) for x in node.sources)
    if node.op is Op.GATHER and (node.sources[0].op not in SOURCES or stands_in(node.sources[0])):
        read += _nbytes(node.sources[0])  # what is picked from has to be stored first
    return 1e-9 * (assumed(profile).launch + _together(computing, _moving(_nbytes(node) + read, profile)))


def _most_read(node: Node) -> float:
    """Elements of each source that a node reads at most."""
    return node.elements if node.op is Op.GATHER else math.inf


def graph_seconds(roots: Sequence[Node], profile: Profile) -> float:
    """What a graph costs, cut into kernels."""
    graph = ready(list(dict.fromkeys(map(storable, roots))), contiguous, profile)
    stored = list(dict.fromkeys(map(storable, graph.roots)))
    return sum(_kernel_seconds(group, profile) for group in partition(stored, graph.pieces, graph.chains).groups)


def _kernel_seconds(group: Group, profile: Profile) -> float:
    inside = set(group.inside)
    turns = math.prod(upper(axis.last + 1) for axis in group.walked)
    nbytes = sum(_nbytes(result.result) for result in group.results)
    for node, places in group.places.items():
        if node not in inside:
            nbytes += min(_nbytes(node), len(places) * turns * node.dtype.itemsize)
    computing = sum(len(group.places.get(node, (0,))) * _nanoseconds(node, profile) for node in group.inside)
    moving = _moving(nbytes, profile) * (_ROUTINE if group.sink.op in (Op.SORT, Op.SCATTER) else 1)
    return 1e-9 * (assumed(profile).launch + _together(computing / profile.cores, moving))


def _together(computing: float, moving: float) -> float:
    return max(computing, moving) + min(computing, moving) * (1 - _HIDDEN)


def moving_seconds(nbytes: float, profile: Profile) -> float:
    """What it takes to move so many bytes."""
    return 1e-9 * _moving(nbytes, profile)


def _moving(nbytes: float, profile: Profile) -> float:
    rates = assumed(profile)
    return nbytes / (rates.third * profile.cores if nbytes <= profile.l3_bytes else rates.memory_all)


def _nanoseconds(node: Node, profile: Profile) -> float:
    """What a node computes, on one core."""
    lanes = max(1, profile.vector_bytes // node.dtype.itemsize)
    vectors = assumed(profile).multiply_add / 2 / max(1, profile.vector_bytes // 4)
    if node.op is Op.CONTRACT:
        return upper(product_of(label_sizes(node).values())) / lanes / vectors
    if node.op in (Op.REDUCE, Op.SCAN):
        return node.sources[0].elements / lanes / vectors
    if node.op is Op.GATHER:
        return node.elements / vectors
    if node.op in ELEMENTWISE:
        name = node.attribute if isinstance(node.attribute, str) else "add"
        count = node.elements
        if name in EXPONENTIALS:
            return count * EXPONENTIALS[name] / assumed(profile).function
        return count * instructions([name]) / lanes / vectors
    return 0.0


def _nbytes(node: Node) -> int:
    node = shown(node, _RENAMING)
    return 0 if node.op in (Op.CONST, Op.IOTA) else node.nbytes

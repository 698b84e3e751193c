"""Kernels of chains that compute the same scores become one kernel with several results.

The gradients by keys and by values need the same weights, block by block; the forward pass of attention computes on its
way the logarithms of sums that its gradient starts from. Where neither kernel waits for the other, their axes are
matched by the scores that both compute, and one takes in the nodes and the result of the other.

Bounds: what both kernels compute is computed once; nothing else changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace

from smelt.fuse.group import Group, demands
from smelt.fuse.launched import ROUTINES, bases
from smelt.fuse.movement import Place
from smelt.graph import CONTROL, ZERO, Index, Node, Op, Variable, of
from smelt.kernel import extent

Values = dict[Variable, Index]  # what the axes of one kernel are in another


def joined(groups: Sequence[Group], order: Sequence[Node], alone: Set[Node] = frozenset()) -> list[Group]:
    """The kernels, in an order in which they can run; `order` has the nodes of the graph, sources first. Those that
    store nodes which are to be `alone` are joined with none.
    """
    found = list(groups)
    chains = [group for group in groups if group.members and group.sink not in alone]
    position = {node: at for at, node in enumerate(order)} if len(chains) > 1 else {}
    for at, one in enumerate(chains):
        for later, other in enumerate(chains[at + 1 :], at + 1):
            both = _join(one, other, found, position) or _join(other, one, found, position)
            if both is not None:
                chains[later] = both  # three may be one
                break
    return found


def _join(main: Group, other: Group, groups: list[Group], position: dict[Node, int]) -> Group | None:
    """One kernel in the place of two, and behind all that the later of them waits for."""
    values = _matched(main, other)
    if values is None:
        return None
    start, end = sorted((groups.index(main), groups.index(other)))
    awaited = _awaited(groups[end], groups[start:end])
    if groups[start] in awaited:
        return None
    both = _both(main, other, values, position)
    groups[start : end + 1] = [*awaited, both, *(group for group in groups[start + 1 : end] if group not in awaited)]
    return both


def _awaited(last: Group, groups: Sequence[Group]) -> list[Group]:
    """Those of the kernels before one that make what it reads, or what those read."""
    found: list[Group] = []
    read = set(_read(last))
    for group in reversed(groups):
        if not read.isdisjoint(result.sink for result in group.results):
            found.insert(0, group)
            read.update(_read(group))
    return found


def _read(group: Group) -> Iterator[Node]:
    if group.sink.op in ROUTINES or group.sink.op in CONTROL:
        found = list(bases(group.sink))
    else:
        inside = set(group.inside)
        found = [node for node in group.places if node not in inside]
    # The values of a loop or branch are stored by the node that they are items of.
    yield from (node.sources[0] if node.op is Op.ITEM else node for node in found)


def _matched(main: Group, other: Group) -> Values | None:
    """What the axes of a kernel are in another one that can take it in: one that has all of them, makes the same scores
    and sums them along the same axes.
    """
    alike = set(other.keys) < set(main.keys) if other.keys else not main.keys
    # A kernel whose own result is empty does not run at all.
    if not alike or main.picks or other.picks or 0 in main.result.shape:
        return None
    members = main.members & other.members
    scores = (node for node in other.inside if node.op is Op.CONTRACT and node in members)
    shared = next((x for x in scores if len(main.places.get(x, ())) == len(other.places[x]) == 1), None)
    if shared is None:
        return None
    values: Values = {}
    for theirs, ours in zip(other.places[shared][0].indices, main.places[shared][0].indices, strict=True):
        if (theirs == ZERO) != (ours == ZERO):
            return None
        values.update(dict.fromkeys(theirs.variables(), ours))
    if not other.keys:
        left = [axis for axis in other.axes if axis not in values]
        ours_left = [axis for axis in main.axes if of(axis) not in values.values()]
        if len(left) != 1 or [*map(extent, left)] != [*map(extent, ours_left)]:
            return None
        values[left[0]] = of(ours_left[0])
        if main.contraction is None or other.contraction is None or _summed(other, values) != _summed(main, {}):
            return None
    parallel = {of(axis) for axis in main.axes}
    return values if all(values.get(axis) in parallel for axis in other.axes) else None


def _summed(group: Group, values: Values) -> tuple[Index, ...]:
    """The axes that the contraction of a kernel sums, in terms of another one."""
    assert group.contraction is not None
    axes = group.reduced[group.contraction, group.places[group.contraction][0]]
    return tuple(i.substitute(values) for i in axes)


def _both(main: Group, other: Group, values: Values, position: dict[Node, int]) -> Group:
    """A kernel that takes in what another one computes, all of whose axes it has."""
    both = replace(main, members=main.members | other.members)

    def moved(place: Place) -> Place:
        return Place(tuple(i.substitute(values) for i in place.indices))

    if not other.keys and other.contraction is not None:
        place = other.places[other.contraction][0]
        both.reduced[other.contraction, moved(place)] = _summed(other, values)
    both.also += [result._replace(place=moved(result.place)) for result in other.results]
    for result in both.also:
        both.ask(result.result, result.place)
    for node in other.inside:  # users before sources
        for place in both.places[node]:
            for source, at in demands(both, node, place):
                both.ask(source, at)
    both.inside = sorted({*main.inside, *other.inside}, key=lambda node: -position[node])
    return both

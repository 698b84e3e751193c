"""Kernels of chains that compute the same scores become one kernel with several results.

The gradients by keys and by values need the same weights, block by block; the forward pass of attention computes on its
way the logarithms of sums that its gradient starts from. Where neither kernel waits for the other, their axes are
matched by the scores that both compute, and one takes in the nodes and the result of the other.

Bounds: what both kernels compute is computed once; nothing else changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from smelt.fuse.group import Group, Result
from smelt.fuse.movement import Place
from smelt.fuse.routine_nodes import ROUTINES, bases
from smelt.graph import CONTROL, ZERO, Index, Node, Op, Variable, of
from smelt.kernel import Less, extent

Values = dict[Variable, Index]  # what the axes of one kernel are in another


def joined(groups: Sequence[Group], order: Sequence[Node]) -> list[Group]:
    """The kernels, in an order in which they can run; `order` has the nodes of the graph, sources first."""
    chains = [group for group in groups if group.members]
    if len(chains) < 2:
        return list(groups)
    position = {node: at for at, node in enumerate(order)}
    flow = _Flow(groups)
    changed = False
    for at, one in enumerate(chains):
        for later, other in enumerate(chains[at + 1 :], at + 1):
            both = _join(one, other, flow, position) or _join(other, one, flow, position)
            if both is not None:
                flow.put(both, (one, other))
                chains[later] = both  # three may be one
                changed = True
                break
    return flow.sorted() if changed else list(groups)


class _Flow:
    """Which kernel reads what another one stores."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = list(groups)
        self.reads: dict[Group, list[Node]] = {}
        self.makers: dict[Node, list[Group]] = {}
        for group in groups:
            for node in _stored(group):
                self.makers.setdefault(node, []).append(group)

    def put(self, new: Group, old: tuple[Group, ...]) -> None:
        """One kernel in the place of others."""
        self.groups[self.groups.index(old[0])] = new
        self.groups = [group for group in self.groups if group not in old]
        for group in old:
            for node in _stored(group):
                self.makers[node] = [new if maker in old else maker for maker in self.makers[node]]

    def before(self, group: Group) -> Iterator[Group]:
        """The kernels that make what a kernel reads."""
        if group not in self.reads:
            self.reads[group] = list(_read(group))
        for node in self.reads[group]:
            yield from self.makers.get(node, ())

    def waits(self, group: Group, other: Group) -> bool:
        """Whether a kernel needs another one, itself or by way of others."""
        stack, seen = [group], {group}
        while stack:
            for maker in self.before(stack.pop()):
                if maker is other:
                    return True
                if maker not in seen:
                    seen.add(maker)
                    stack.append(maker)
        return False

    def sorted(self) -> list[Group]:
        done: dict[Group, None] = {}
        stack = list(reversed(self.groups))
        while stack:
            group = stack[-1]
            missing = [maker for maker in self.before(group) if maker not in done]
            if missing and group not in done:
                stack.extend(missing)
            else:
                done.setdefault(stack.pop())
        return list(done)


def _stored(group: Group) -> list[Node]:
    return [group.sink, *(result.sink for result in group.also)]


def _read(group: Group) -> Iterator[Node]:
    if group.sink.op in ROUTINES or group.sink.op in CONTROL:
        found = list(bases(group.sink))
    else:
        inside = set(group.inside)
        found = [node for node in group.places if node not in inside]
    # The values of a loop or branch are stored by the node that they are items of.
    yield from (node.sources[0] if node.op is Op.ITEM else node for node in found)


# --- two kernels


def _join(main: Group, other: Group, flow: _Flow, position: dict[Node, int]) -> Group | None:
    """A kernel that takes in what another one computes, all of whose axes it has."""
    alike = set(other.keys) < set(main.keys) if other.keys else not main.keys
    # A kernel whose own result is empty does not run at all.
    if not alike or main.picks or other.picks or 0 in main.result.shape:
        return None
    values = _matched(main, other)
    if values is None or flow.waits(main, other) or flow.waits(other, main):
        return None
    both = replace(main, reduced=dict(main.reduced), members=main.members | other.members)
    if not _adopt_axes(both, other, values):
        return None
    both.places = {node: list(places) for node, places in main.places.items()}
    for node, places in other.places.items():
        known = both.places.setdefault(node, [])
        known += [place for place in (_moved(place, values) for place in places) if place not in known]
    both.inside = sorted({*main.inside, *other.inside}, key=lambda node: -position[node])
    theirs = (Result(other.sink, other.place, other.result, other.piece), *other.also)
    both.also = [*main.also, *(result._replace(place=_moved(result.place, values)) for result in theirs)]
    return both


def _matched(main: Group, other: Group) -> Values | None:
    """What the axes of a kernel are in another one, if both make the same scores and sum them along the same axes."""
    shared = [node for node in other.inside if node.op is Op.CONTRACT and node in other.members & main.members]
    shared = [node for node in shared if len(main.places.get(node, ())) == len(other.places[node]) == 1]
    if not shared:
        return None
    values: Values = {}
    for theirs, ours in zip(other.places[shared[0]][0].indices, main.places[shared[0]][0].indices, strict=True):
        if (theirs == ZERO) != (ours == ZERO):
            return None
        values.update(dict.fromkeys(theirs.variables(), ours))
    left = [axis for axis in other.axes if axis not in values]
    ours_left = [axis for axis in main.axes if of(axis) not in values.values()]
    if not other.keys:
        if len(left) != 1 or len(ours_left) != 1 or extent(left[0]) != extent(ours_left[0]):
            return None
        values[left[0]] = of(ours_left[0])
        if not _sums_alike(main, other, values):
            return None
    parallel = {of(axis) for axis in main.axes}
    return values if all(values.get(axis) in parallel for axis in other.axes) else None


def _sums_alike(main: Group, other: Group, values: Values) -> bool:
    """Whether two contractions sum along the same axes."""
    if main.contraction is None or other.contraction is None:
        return False
    theirs = other.reduced[other.contraction, other.places[other.contraction][0]]
    ours = main.reduced[main.contraction, main.places[main.contraction][0]]
    return tuple(i.substitute(values) for i in theirs) == ours


def _adopt_axes(both: Group, other: Group, values: Values) -> bool:
    """Give every reduction of the other kernel axes here: those that it has already, or new ones."""
    for (node, place), axes in other.reduced.items():
        if any(v not in values for i in place.indices for v in i.variables() if v in other.walked):
            return False
        key = (node, _moved(place, values))
        if key not in both.reduced:
            both.reduced[key] = tuple(_own(i, both, values) for i in axes)
        for theirs, ours in zip(axes, both.reduced[key], strict=True):
            if any(values.setdefault(v, ours) != ours for v in theirs.variables()):
                return False
    return True


def _own(i: Index, group: Group, values: Values) -> Index:
    """An axis of this kernel for one of another."""
    found = list(i.variables())
    return ZERO if not found else values.get(found[0]) or group.fresh(extent(found[0]))


def _moved(place: Place, values: Values) -> Place:
    mask = tuple(Less(c.a.substitute(values), c.b.substitute(values)) for c in place.mask)
    return Place(tuple(i.substitute(values) for i in place.indices), mask)

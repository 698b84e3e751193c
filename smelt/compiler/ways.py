"""Other ways to cut a graph into kernels, and what the cost model makes of each: what a search may measure."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from smelt.compiler.fusion import Cut, fused, layout_of
from smelt.compiler.planning import alternatives, plans
from smelt.compiler.prepare import prepare
from smelt.compiler.simplifying import simplify
from smelt.compiler.trace import GraphKey, rebuild
from smelt.cost import Profile, rates
from smelt.egraph import Plan
from smelt.fuse import (
    ROUTINES,
    STEPS,
    Choices,
    Group,
    Site,
    build_region,
    early_sites,
    late_sites,
    merge_axes,
    name_slots,
    signature,
    together,
)
from smelt.graph import CONTROL, Node, private_nodes
from smelt.kernel import Illegal
from smelt.schedule import choose

LEAST_SHARE = 0.02  # of the time of a graph, in kernels that would be others: less cannot be seen


class Way(NamedTuple):
    """A site, and how many times faster the graph would be by the cost model."""

    site: Site
    modelled: float


@private_nodes()
def other_ways(
    key: GraphKey, profile: Profile, choices: Choices, step: int, goes_on: Callable[[], bool] = lambda: True
) -> list[Way]:
    """The sites of one of the `STEPS` in a graph that is cut by these choices, best first, as far as there is time."""

    @functools.cache
    def graph(equal: frozenset[tuple[int, int]]) -> list[Node]:
        planner = plans(key.contracts, profile, stated=key.rules, answers=equal)
        return prepare(simplify(rebuild(key), planner), key.inputs, profile)[0]

    def cut(choices: Choices) -> Cut:
        return fused(graph(choices.equal), profile, choices)

    model, now = Model(profile), cut(choices)
    own = model.kernels(now)
    seen = {own}
    if STEPS[step] == ("equal",):
        found = list(_equal_sites(alternatives(rebuild(key), key.contracts, profile, key.rules)))
    elif step < len(STEPS) - 1:
        found = early_sites(graph(choices.equal), layout_of, profile, choices, STEPS[step])
    else:
        found = late_sites(now.stored, now.groups, now.decisions)
    ways: list[Way] = []
    for site in found:
        if not goes_on():
            break
        with suppress(Illegal):
            kernels = model.kernels(cut(together(choices, site.choices)))
            gone = Counter(dict(own)) - Counter(dict(kernels))
            if kernels not in seen and model.seconds(gone.items()) >= LEAST_SHARE * model.seconds(own):
                ways.append(Way(site, model.seconds(own) / model.seconds(kernels)))
            seen.add(kernels)
    return sorted(ways, key=lambda way: -way.modelled)


def _equal_sites(plans: Sequence[Plan]) -> Iterator[Site]:
    """For islands that are alike, each of the other programs that are equal to them."""
    alike: dict[int, list[int]] = {}
    for number, plan in enumerate(plans):
        alike.setdefault(id(plan), []).append(number)
    for numbers in alike.values():
        plan = plans[numbers[0]]
        for answer, other in enumerate((None, *plan.alternatives), 1):
            if other is not plan.chosen:
                words = "as it is written" if other is None else f"by {', '.join(other.rules)}"
                yield Site(f"an equal program: {words}", Choices(equal=frozenset((k, answer) for k in numbers)), 0)


class Model:
    """What kernels take by the cost model. Kernels that are alike are lowered once."""

    def __init__(self, profile: Profile) -> None:
        self.profile, self.rates, self.known = profile, rates.known(profile), dict[Hashable, float]()

    def kernels(self, cut: Cut) -> frozenset[tuple[Hashable, int]]:
        """How many kernels of each kind there are, but for those that are the same in all ways."""
        plain = [group for group in cut.groups if group.sink.op not in ROUTINES and group.sink.op not in CONTROL]
        return frozenset(Counter(self.kind(group) for group in plain if 0 not in group.result.shape).items())

    def seconds(self, kernels: Iterable[tuple[Hashable, int]]) -> float:
        """Of so many kernels of each kind."""
        return sum((count * self.known[kind] for kind, count in kernels), 1e-9)

    def kind(self, group: Group) -> Hashable:
        """What a kernel has in common with those that are alike."""
        kind = signature(group, layout_of).mark
        if kind not in self.known:
            region, _ = name_slots(merge_axes(build_region(group, layout_of)[0]))
            self.known[kind] = choose(region, self.profile)[0].work.seconds(self.profile, self.rates)
        return kind

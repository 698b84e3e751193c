"""Other ways to cut a graph into kernels, and what the cost model makes of each: what a search may measure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from smelt.compiler.driver import simplify
from smelt.compiler.fusion import Cut, fused, layout_of
from smelt.compiler.prepare import prepare
from smelt.compiler.trace import GraphKey, rebuild
from smelt.cost import Profile
from smelt.cost.rates import known
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
from smelt.graph import CONTROL, private_nodes
from smelt.kernel import Illegal
from smelt.schedule import choose


class Way(NamedTuple):
    """A site, and how many times faster the graph would be by the cost model."""

    site: Site
    modelled: float


@private_nodes()
def other_ways(
    key: GraphKey, profile: Profile, choices: Choices, step: int, goes_on: Callable[[], bool] = lambda: True
) -> list[Way]:
    """The sites of one of the `STEPS` in a graph that is cut by these choices, best first, as far as there is time."""
    roots, _ = prepare(simplify(rebuild(key)), key.inputs, profile)
    model, now = Model(profile), fused(roots, profile, choices)
    before = model.seconds(now)
    early = step < len(STEPS) - 1
    found = early_sites(roots, layout_of, profile, choices, STEPS[step]) if early else _late(now)
    ways: list[Way] = []
    for site in found:
        if not goes_on():
            break
        try:
            ways.append(Way(site, before / model.seconds(fused(roots, profile, together(choices, site.choices)))))
        except Illegal:
            continue
    return sorted(ways, key=lambda way: -way.modelled)


def _late(now: Cut) -> Sequence[Site]:
    return late_sites(now.stored, now.groups, now.decisions, layout_of)


class Model:
    """What kernels take by the cost model. Kernels that are alike are lowered once."""

    def __init__(self, profile: Profile) -> None:
        self.profile, self.rates, self.known = profile, known(profile), dict[Hashable, float]()

    def seconds(self, cut: Cut) -> float:
        """Of all kernels that are made of regions: what else runs is the same in all ways."""
        return sum(map(self.of_group, cut.groups), 1e-9)

    def of_group(self, group: Group) -> float:
        """Of one kernel."""
        if group.sink.op in CONTROL or group.sink.op in ROUTINES or 0 in group.result.shape:
            return 0.0
        mark = signature(group, layout_of)
        if mark is None or mark[0] not in self.known:
            region, _ = name_slots(merge_axes(build_region(group, layout_of)[0]))
            seconds = choose(region, self.profile)[0].work.seconds(self.profile, self.rates)
            if mark is None:
                return seconds
            self.known[mark[0]] = seconds
        return self.known[mark[0]]

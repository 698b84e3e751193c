"""`group`: reductions in one loop."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.kernel.actions.action import Action
from smelt.kernel.lowering.hooks import Handler, Phase
from smelt.kernel.lowering.plan import Illegal, Planner
from smelt.kernel.lowering.reduce import reduce
from smelt.kernel.lowering.values import available
from smelt.kernel.region import Expression, walk


@dataclass(frozen=True, slots=True)
class Group(Action):
    """Run reductions over the same axes together: they share the outermost loop of each axis, and what is staged there.

    Inside it, each walks the loops that are left by itself.
    """

    form = "group {reductions:names}"
    reductions: tuple[str, ...]

    def apply(self, planner: Planner) -> None:
        plan, members = planner.plan, tuple(planner.node(name) for name in self.reductions)
        if len(set(members)) < max(2, len(members)) or any(node.op != "reduce" for node in members):
            raise Illegal("group: it takes two different reductions or more")
        axes = members[0].attribute.axes
        if any(node.attribute.axes != axes for node in members):
            raise Illegal("group: the reductions are over different axes")
        if any(node in plan.groups for node in members):
            raise Illegal("group: a reduction is in a group already")
        if any((node, axis) in plan.subs for node in members for axis in axes):
            raise Illegal("group: a reduction cuts its axis its own way")
        if any(e in members for node in members for e in walk(node.arguments)):
            raise Illegal("group: one reduction needs another")
        plan.groups.update(dict.fromkeys(members, members))

    @classmethod
    def settle(cls, planner: Planner) -> None:
        plan = planner.plan
        if any(axis in plan.online for node in plan.groups for axis in node.attribute.axes):
            raise Illegal("group: the axis is online")


class Groups(Handler):
    """Makes those of a group together that are wanted in one place."""

    def phase(self, reduction: Expression) -> Phase | None:
        state = self.state
        group, bindings = state.plan.groups.get(reduction, ()), state.top.bindings
        wanted = [e for e in group if e in state.wanted and not available(state, e)]
        members = tuple(e for e in wanted if all(axis in bindings for axis in state.facts.axes(e)))
        if len(members) < 2 or state.copying:
            return None

        def make(depth: int) -> None:
            reduce(state, members, depth)
            state.used.add(group)

        return Phase(members, make)

    def finished(self) -> None:
        if any(group not in self.state.used for group in self.state.plan.groups.values()):
            raise Illegal("group: the reductions cannot be made in one loop")

"""`group`: reductions in one loop."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.kernel.actions.action import Action
from smelt.kernel.lowering.hooks import Handler, Phase
from smelt.kernel.lowering.plan import Plan
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

    def apply(self, plan: Plan) -> None:
        members = tuple(plan.node(name) for name in self.reductions)
        several = len(set(members)) == len(members) > 1 and all(node.op == "reduce" for node in members)
        self.refuse(not several, "it takes two different reductions or more")
        axes = members[0].attribute.axes
        self.refuse(any(node.attribute.axes != axes for node in members), "the reductions are over different axes")
        self.refuse(any(node in plan.groups for node in members), "a reduction is in a group already")
        own = any((node, axis) in plan.subs for node in members for axis in axes)
        self.refuse(own, "a reduction cuts its axis its own way")
        self.refuse(any(e in members for node in members for e in walk(node.arguments)), "one reduction needs another")
        plan.groups.update(dict.fromkeys(members, members))
        plan.expected[members] = "group: the reductions cannot be made in one loop"

    @classmethod
    def settle(cls, plan: Plan) -> None:
        online = any(axis in plan.online for node in plan.groups for axis in node.attribute.axes)
        cls.refuse(online, "the axis is online")


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

"""How outputs are stored: `stream`, `together` and `apart`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from smelt.graph import Variable, of
from smelt.kernel.actions.action import Action
from smelt.kernel.ir import For, Statement
from smelt.kernel.lowering.hooks import Handler, Phase
from smelt.kernel.lowering.memory import held, in_vectors, room_of
from smelt.kernel.lowering.plan import Plan
from smelt.kernel.lowering.reduce import prepare, reduce
from smelt.kernel.lowering.state import Binding, Reload
from smelt.kernel.lowering.values import available, reload_index, store, value_of
from smelt.kernel.region import Expression, Less, Output


@dataclass(frozen=True, slots=True)
class Stream(Action):
    """Store outputs past the caches."""

    form = "stream"

    def apply(self, plan: Plan) -> None:
        plan.stream = True


@dataclass(frozen=True, slots=True)
class Together(Action):
    """Store all outputs in one nest of loops, that of the first, which has the axes of all others.

    Reductions over the same axes run together where none needs another: they share the outermost loop of each axis, and
    what is staged there. Inside it, each walks the loops that are left by itself.
    """

    form = "together"

    def apply(self, plan: Plan) -> None:
        first, *others = (set(plan.region.parallel_axes(output)) for output in plan.region.outputs)
        fit = others and all(axes <= first for axes in others)
        self.refuse(not fit, "there must be several outputs, and the first must have the axes of all")
        self.refuse(plan.has_scans, "scans are made in the nest of one output")
        plan.together = True


class SharedLoops(Handler):
    """Makes reductions together that are wanted in one place."""

    def phase(self, reduction: Expression) -> Phase | None:
        state, below = self.state, self.state.facts.below
        axes, bindings = reduction.attribute.axes, state.top.bindings
        if state.copying or state.plan.keeps or not set(axes).isdisjoint(state.plan.online):
            return None
        members: list[Expression] = []
        for e in state.region.order():
            alike = e.op == "reduce" and e.attribute.axes == axes and e in state.wanted and not available(state, e)
            there = alike and all(axis in bindings for axis in state.facts.axes(e))
            others = {*members, reduction} - {e}
            if there and others.isdisjoint(below(e)) and all(e not in below(other) for other in others):
                members.append(e)
        return Phase(tuple(members), partial(reduce, state, tuple(members))) if len(members) > 1 else None


@dataclass(frozen=True, slots=True)
class Apart(Action):
    """Finish tiles of sums one register of an axis at a time. The sums wait in local memory, and what is made of them
    is written once instead of once for each register.
    """

    form = "apart {axis:axis}"
    axis: str

    def apply(self, plan: Plan) -> None:
        axis, region = plan.axis(self.axis), plan.region
        self.refuse(plan.apart is not None, "one axis at most is finished register by register")
        kinds = [piece.kind for piece in plan.cuts[axis].inner]
        self.refuse(kinds != ["reg"], f"{self.axis} must have registers, and neither threads nor lanes")
        lacking = any(axis not in region.parallel_axes(output) for output in region.outputs)
        self.refuse(lacking, f"{self.axis} must be an axis of every output")
        self.refuse(plan.has_scans, "the values of a scan do not wait")
        plan.apart = axis

    @classmethod
    def settle(cls, plan: Plan) -> None:
        groups = plan.apart is not None and plan.threads > 1
        cls.refuse(groups, "the sums of a group's threads do not wait")


class WaitingSums(Handler):
    """Puts sums into memory, and stores outputs in a loop over the registers of the axis."""

    def storing(self, outputs: tuple[Output, ...], put: Callable[[], None]) -> bool:
        state, axis = self.state, self.state.plan.apart
        if axis is None or state.top.bindings[axis].parts[0].extent == 1:
            return False
        for output in outputs:
            prepare(state, output.value)
        found = dict.fromkeys(e for output in outputs for e in state.facts.reductions(output.value) if axis in e.axes)
        # One that only nodes in memory need has not been made.
        reloads = {e: self._wait(e, axis) for e in found if available(state, e)}
        tile = state.top.bindings[axis]
        count = tile.parts[0].extent - tile.seen
        variable = Variable(state.fresh("i"), 0, count - 1)
        body: list[Statement] = []
        with state.scope(body) as scope:
            at = tile.start + tile.seen + of(variable)
            condition = None if tile.condition is None else Less(at, tile.condition.b)
            scope.bind(axis, Binding(at, at, (), condition, len(state.scopes) - 1, tile.origin))
            scope.reloads.update(reloads)
            put()
        state.emit(For(variable, count, body))
        return True

    def _wait(self, reduction: Expression, axis: Variable) -> Reload:
        """Put the present tile of a sum into local memory, from where it is read for single registers of the axis."""
        state, bindings = self.state, self.state.top.bindings
        rooms = {a: room_of(state, a) for a in in_vectors(state, state.facts.axes(reduction))}
        rooms[axis] = rooms[axis]._replace(opener=bindings[axis].origin)
        reload = held(state, "w", reduction, reduction, rooms)
        store(state, reload.buffer, reload_index(state, reload), value_of(state, reduction))
        return reload

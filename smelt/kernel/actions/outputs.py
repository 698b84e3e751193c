"""How outputs are stored: `stream`, `together` and `apart`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from smelt.graph import ZERO, Variable, of
from smelt.kernel.actions.action import Action
from smelt.kernel.ir import For, Statement
from smelt.kernel.lowering.hooks import Handler
from smelt.kernel.lowering.memory import held, in_vectors, room_of
from smelt.kernel.lowering.plan import Illegal, Planner
from smelt.kernel.lowering.reduce import prepare
from smelt.kernel.lowering.state import Binding, Reload
from smelt.kernel.lowering.values import available, reload_index, store, value_of
from smelt.kernel.region import Expression, Output


@dataclass(frozen=True, slots=True)
class Stream(Action):
    """Store outputs past the caches."""

    form = "stream"

    def apply(self, planner: Planner) -> None:
        planner.plan.stream = True


@dataclass(frozen=True, slots=True)
class Together(Action):
    """Store all outputs in one nest of loops, that of the first, which has the axes of all others."""

    form = "together"

    def apply(self, planner: Planner) -> None:
        first, *others = (set(planner.region.parallel_axes(output)) for output in planner.region.outputs)
        if not others or not all(axes <= first for axes in others):
            raise Illegal("together: there must be several outputs, and the first must have the axes of all")
        if planner.has_scans:
            raise Illegal("together: scans are made in the nest of one output")
        planner.plan.together = True

    @classmethod
    def settle(cls, planner: Planner) -> None:
        if planner.plan.together and "out" in planner.plan.keeps.values():
            raise Illegal("keep: where outputs are stored together, none of them can hold a node meanwhile")


@dataclass(frozen=True, slots=True)
class Apart(Action):
    """Finish tiles of sums one register of an axis at a time. The sums wait in local memory, and what is made of them
    is written once instead of once for each register.
    """

    form = "apart {axis:axis}"
    axis: str

    def apply(self, planner: Planner) -> None:
        plan, axis, region = planner.plan, planner.axis(self.axis), planner.region
        if plan.apart is not None:
            raise Illegal("apart: one axis at most is finished register by register")
        if [piece.kind for piece in plan.cuts[axis].inner] != ["reg"]:
            raise Illegal(f"apart: {self.axis} must have registers, and neither threads nor lanes")
        if any(axis not in region.parallel_axes(output) for output in region.outputs):
            raise Illegal(f"apart: {self.axis} must be an axis of every output")
        if planner.has_scans:
            raise Illegal("apart: the values of a scan do not wait")
        plan.apart = axis

    @classmethod
    def settle(cls, planner: Planner) -> None:
        plan = planner.plan
        if plan.apart is not None and plan.threads > 1:
            raise Illegal("apart: the sums of a group's threads do not wait")
        overlapping = [axis for axis, cut in plan.cuts.items() if cut.tail == "overlap"]
        if any(axis != plan.apart for axis in overlapping):
            raise Illegal("split: tail overlap is for the axis that is apart, or elements would be finished twice")
        reduced = {axis for e in planner.region.order() if e.op == "reduce" for axis in e.attribute.axes}
        if any(axis in reduced for axis in overlapping):
            raise Illegal("split: tail overlap is not for an axis that is reduced, or elements would be added twice")
        if overlapping and "out" in plan.keeps.values():
            raise Illegal("split: tail overlap would keep a node where elements are finished already")
        if overlapping and sum(loop.axis == plan.apart for loop in plan.grid) > 1:
            raise Illegal("split: tail overlap needs its tiles inside of tasks, if those are blocks of tiles")


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
        scope = state.push(body)
        limit = None if tile.condition is None else tile.condition.b
        at = tile.start + tile.seen + of(variable)
        scope.bind(axis, Binding(at, ZERO, (), limit, len(state.scopes) - 1, tile.origin))
        scope.reloads.update(reloads)
        put()
        state.scopes.pop()
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

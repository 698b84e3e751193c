"""`online`: one loop for a maximum and the sums that are taken relative to it.

A group is a maximum m over an axis and sums over it of exp(x - m) * g, where x is what m is the maximum of and g is
free of m. The loop keeps a running maximum; when it grows, the sums so far are scaled by exp(old - new). The maximum
that is subtracted never is -inf, so that no difference of infinities appears while it is still unknown; rows whose true
maximum is -inf give NaN, as they do without the action.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from smelt.dtypes import bool_
from smelt.graph import Index, Variable, as_index, identity, minimum
from smelt.kernel.actions.action import Action
from smelt.kernel.actions.skip import leave_out
from smelt.kernel.ir import Update, Value
from smelt.kernel.lowering.hooks import Handler, Phase
from smelt.kernel.lowering.memory import Room, held, room_of
from smelt.kernel.lowering.nest import begin, nest
from smelt.kernel.lowering.plan import Illegal, Loop, Planner, SkipPlan
from smelt.kernel.lowering.reduce import accumulator, finished_value, folded, update
from smelt.kernel.lowering.state import Partial, Reload, State
from smelt.kernel.lowering.values import available, computed, constant, guarded, reload_index, spread, store, value_of
from smelt.kernel.region import Expression, extent
from smelt.kernel.segments import reach


@dataclass(frozen=True, slots=True)
class Online(Action):
    """Run a maximum over an axis and the sums of exp(x - maximum) in one loop that rescales as the maximum grows."""

    form = "online {axis:axis}"
    axis: str

    def apply(self, planner: Planner) -> None:
        plan, axis = planner.plan, planner.axis(self.axis)
        if axis in plan.online:
            raise Illegal(f"online: {self.axis} is online already")
        if plan.cuts[axis].levels > 1:
            raise Illegal(f"online: {self.axis} is cut into more than one loop")
        plan.online.append(axis)


class Relative(NamedTuple):
    """A maximum, and the sums that need it: each with its exponential."""

    maximum: Expression
    sums: dict[Expression, Expression]


class OnlineLoops(Handler):
    """`online`, with `sub` and `skip` inside it."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._active: list[Expression] = []  # the maxima that are still running
        self._blocks: list[Reload] = []  # memory of the present blocks, relative to them
        found = [group for axis in state.plan.online for group in self._find(axis)]
        self._groups = {e: group for group in found for e in (group.maximum, *group.sums)}

    def _find(self, axis: Variable) -> list[Relative]:
        groups: dict[Expression, Relative] = {}
        for e in self.state.region.order():
            if e.op != "reduce" or e.attribute.axes != (axis,) or e.attribute.op != "add":
                continue
            exponential = self._exponential(e, axis)
            if exponential is not None:
                m = exponential.arguments[0].arguments[1]
                groups.setdefault(m, Relative(m, {})).sums[e] = exponential
        if not groups:
            raise Illegal(f"online: there is no sum of exp(x - max(x)) over {axis.name}")
        if as_index(extent(axis)).low < 1:
            raise Illegal(f"online: {axis.name} may be empty")
        if any((group.maximum, axis) in self.state.plan.subs for group in groups.values()):
            raise Illegal(f"online: the maximum must cut {axis.name} as its loop does")
        return list(groups.values())

    def _exponential(self, total: Expression, axis: Variable) -> Expression | None:
        """The factor exp(x - max(x)) of a summand, if there is one and the rest does not depend on the maximum."""
        (summand,) = total.arguments
        factors = summand.arguments if summand.op == "mul" else (summand,)
        for e in factors:
            if e.op != "exp" or e.arguments[0].op != "sub":
                continue
            x, m = e.arguments[0].arguments
            if m.op != "reduce" or m.attribute.op != "max" or m.attribute.axes != (axis,) or m.arguments[0] is not x:
                continue
            others = [factor for factor in factors if factor is not e]
            if len(others) == len(factors) - 1 and all(m not in self.state.facts.below(other) for other in others):
                return e
        return None

    # --- when

    def phase(self, reduction: Expression) -> Phase | None:
        state, group = self.state, self._groups.get(reduction)
        if group is None or available(state, group.maximum) or state.copying:
            return None
        bindings = state.top.bindings
        wanted = [s for s in group.sums if s in state.wanted and all(axis in bindings for axis in state.facts.axes(s))]
        return Phase((group.maximum, *wanted), partial(self._run, group, wanted)) if wanted else None

    def finished(self) -> None:
        used = {m.attribute.axes for m in self.state.used if isinstance(m, Expression) and m.op == "reduce"}
        for axis in self.state.plan.online:
            if (axis,) not in used:
                raise Illegal(f"online: no group over {axis.name} can be made in one loop")

    # --- the loop

    def _run(self, group: Relative, sums: list[Expression], depth: int) -> None:
        state, m = self.state, group.maximum
        (axis,) = m.attribute.axes
        running = accumulator(state, m, ())
        again = {s: (s, axis) in state.plan.subs for s in sums}
        # Without registers: those of a block are added up before, since each sum is rescaled with every block.
        totals = {s: accumulator(state, s, (axis,), whole=sub, registers=sub) for s, sub in again.items()}
        self._active.append(m)
        state.push(state.top.body)
        start = state.whole(axis, state.plan.cuts[axis])
        begin(state, [start])
        if axis in state.plan.skips:
            fill = self._fill(m, state.plan.skips[axis])
            leave_out(state, start, None if fill is None else partial(self._matters, fill, running))
        nest(state, [Loop(axis, 0)], lambda: self._step(group, totals, running))
        state.scopes.pop()
        self._active.pop()
        state.top.memo[m] = (running, depth)
        state.used.add(m)
        # Without a single finite element the reference divides infinities: the sums are NaN.
        lowest = constant(state, running, identity("max", m.dtype))
        empty = state.compute("eq", bool_, state.joined((running, lowest)), (running, lowest))
        undefined = constant(state, running, math.nan)
        for s, total in totals.items():
            state.top.memo[s] = (computed(state, "where", empty, undefined, folded(state, total, s)), depth)

    def _step(self, group: Relative, totals: dict[Expression, Value], running: Value) -> None:
        """One block of the axis: the new maximum, the scale of what has been summed, and the block's own share."""
        state, m = self.state, group.maximum
        (axis,), (x,) = m.attribute.axes, m.arguments
        depth = len(state.scopes) - 1
        scores = guarded(state, finished_value(state, x), (axis,), identity("max", m.dtype))
        block = state.fold("max", scores, tuple(part for part in scores.parts if part.axis == axis.name))
        lowest = constant(state, running, m.dtype.minimum)
        old = computed(state, "max", running, lowest)
        state.emit(Update(running, "max", (block,)))
        new = computed(state, "max", running, lowest)
        scale = computed(state, "exp", computed(state, "sub", old, new))
        state.top.memo[m] = (new, depth)
        state.top.memo[x] = (scores, depth)
        for s, total in totals.items():
            state.emit(Update(total, "mul", (scale,)))
            if (s, axis) in state.plan.subs:
                self._again(s, group.sums[s], total, axis)
            else:
                self._add_block(s, total, axis)

    def _add_block(self, s: Expression, total: Value, axis: Variable) -> None:
        """The block's own share of a sum, its registers first."""
        state = self.state
        block = guarded(state, finished_value(state, s.arguments[0]), (axis,), identity("add", s.dtype))
        block = spread(state, block, state.parts((axis,)))
        over = tuple(part for part in block.parts if part.axis == axis.name and part.kind == "reg")
        state.emit(Update(total, "add", (state.fold("add", block, over),)))

    def _again(self, s: Expression, e: Expression, total: Value, axis: Variable) -> None:
        """The block once more, cut as this sum wants it: the exponentials go through local memory."""
        state, bindings = self.state, self.state.top.bindings
        cut, binding = state.plan.subs[s, axis], bindings[axis]
        axes = state.facts.axes(e)
        width = math.prod(part.extent for part in binding.parts)
        left: Index = as_index(width)
        if binding.condition is not None:
            left = minimum(width, binding.condition.b - binding.start)
        inner = Partial(axis, binding.start, left, cut, 0, binding.origin)
        tile = binding.origin.cut.tile
        rooms = {a: room_of(state, a) for a in axes if a != axis and bindings[a].parts}
        rooms[axis] = Room(max(tile, reach(tile, cut), reach(left, cut)), binding.start, inner)
        reload = held(state, "e", (e, s), e, rooms)
        varies = axis in axes
        if varies:
            store(state, reload.buffer, reload_index(state, reload), value_of(state, e))
        state.push(state.top.body)
        begin(state, [inner])
        if varies:
            state.top.reloads[e] = reload
        self._blocks.append(reload)
        nest(state, [Loop(axis, level) for level in range(cut.levels)], partial(update, state, total, s))
        self._blocks.pop()
        state.scopes.pop()

    # --- what would be wrong

    def reading(self, e: Expression, reload: Reload) -> None:
        if not any(block is reload for block in self._blocks):
            self.staging(e)

    def staging(self, node: Expression) -> None:
        """What is in memory was computed with the final maximum."""
        if any(m in self.state.facts.below(node) for m in self._active):
            raise Illegal("online: what depends on the maximum cannot be staged or kept around its loop")

    def _fill(self, m: Expression, skip: SkipPlan) -> Expression | None:
        """What masked scores are; None if it is -inf, which matters nowhere."""
        (x,) = m.arguments
        if x.op != "where" or x.arguments[0] is not skip.condition or not self._is_number(x.arguments[2]):
            raise Illegal("skip: the maximum must be over where(condition, x, a number)")
        fill = x.arguments[2]
        return None if fill.op == "const" and fill.attribute == -math.inf else fill

    def _is_number(self, e: Expression) -> bool:
        """Whether it is the same everywhere, and at hand."""
        facts = self.state.facts
        return not facts.axes(e) and all(below.op not in ("reduce", "scan") for below in facts.below(e))

    def _matters(self, fill: Expression, running: Value) -> Value:
        """Whether masked scores weigh anything in some row, given the maxima so far.

        Where none does, exp(fill - maximum) is exactly zero, as it is for any larger maximum: then the fill is below
        the maximum, and adds nothing to any sum. A row that has seen no finite score, or a NaN, is one where they do.
        """
        state = self.state
        if state.plan.threads > 1:
            raise Illegal("skip: the threads of a group would have to agree on what is left out")
        largest = computed(state, "max", running, constant(state, running, running.dtype.minimum))
        weight = computed(state, "exp", computed(state, "sub", value_of(state, fill), largest))
        weight = state.fold("max", weight, weight.parts)
        return state.compute("ne", bool_, (), (weight, constant(state, weight, 0.0)))

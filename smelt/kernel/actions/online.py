"""`online`: one loop for a reduction and those that follow it by a law, as sums of exponentials follow a maximum.

The loop keeps what leads for the elements so far; when that changes, what follows is carried over as the law says. The
maximum that exponentials subtract never is -inf, so that no difference of infinities appears while it is still unknown;
rows whose true maximum is -inf give NaN, as they do without the action.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from smelt.dtypes import bool_
from smelt.graph import BINARY, UNARY, Index, Variable, as_index, identity, minimum
from smelt.kernel.actions.action import Action
from smelt.kernel.actions.skip import Held, Skip, end_early, leave_out
from smelt.kernel.ir import Update, Value
from smelt.kernel.laws import Follower, Formula, follows
from smelt.kernel.lowering.hooks import Handler, Phase
from smelt.kernel.lowering.memory import held, room_of
from smelt.kernel.lowering.nest import nest
from smelt.kernel.lowering.plan import Loop, Plan, SkipPlan
from smelt.kernel.lowering.reduce import accumulator, finished_value, folded, update
from smelt.kernel.lowering.state import Partial, Reload, Room, State
from smelt.kernel.lowering.values import available, computed, constant, guarded, reload_index, spread, store, value_of
from smelt.kernel.region import Expression, extent
from smelt.kernel.segments import Cut


@dataclass(frozen=True, slots=True)
class Online(Action):
    """Run a reduction over an axis and those that follow it in one loop that carries them over as it changes."""

    form = "online {axis:axis}"
    axis: str

    def apply(self, plan: Plan) -> None:
        axis = plan.axis(self.axis)
        self.refuse(axis in plan.online, f"{self.axis} is online already")
        self.refuse(plan.cuts[axis].levels > 1, f"{self.axis} is cut into more than one loop")
        plan.online.append(axis)


class Led(NamedTuple):
    """A reduction that leads, how others follow it, and those."""

    lead: Expression
    by: Follower
    followers: dict[Expression, Follower]


class OnlineLoops(Handler):
    """`online`, with `skip` inside it."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._active: list[Expression] = []  # what leads and is still running
        self._blocks: list[Reload] = []  # memory of the present blocks, relative to that
        found = [group for axis in state.plan.online for group in self._find(axis)]
        self._groups = {e: group for group in found for e in (group.lead, *group.followers)}

    def _find(self, axis: Variable) -> list[Led]:
        groups: dict[Expression, Led] = {}
        for e in self.state.region.order():
            follower = follows(e)
            if follower is not None and e.attribute.axes == (axis,):
                group = groups.setdefault(follower.m, Led(follower.m, follower, {}))
                # What follows in another way waits until that loop is done.
                if follower[:2] == group.by[:2]:
                    group.followers[e] = follower
        Online.refuse(not groups, f"no reduction over {axis.name} follows another one by a law")
        Online.refuse(as_index(extent(axis)).low < 1, f"{axis.name} may be empty")
        return list(groups.values())

    # --- when

    def phase(self, reduction: Expression) -> Phase | None:
        state, group = self.state, self._groups.get(reduction)
        if group is None or available(state, group.lead) or state.copying:
            return None
        bindings = state.top.bindings
        wanted = [
            s for s in group.followers if s in state.wanted and all(axis in bindings for axis in state.facts.axes(s))
        ]
        return Phase((group.lead, *wanted), partial(self._run, group, wanted)) if wanted else None

    def finished(self) -> None:
        used = {m.attribute.axes for m in self.state.used if isinstance(m, Expression) and m.op == "reduce"}
        for axis in self.state.plan.online:
            Online.refuse((axis,) not in used, f"no group over {axis.name} can be made in one loop")

    # --- the loop

    def _run(self, group: Led, wanted: list[Expression], depth: int) -> None:
        state, m = self.state, group.lead
        (axis,) = m.attribute.axes
        running = accumulator(state, m, ())
        # Without registers: those of a block are folded before, since all that follows is carried over at every block.
        totals = {s: accumulator(state, s, () if self._is_wider(s, m) else (axis,), registers=False) for s in wanted}
        self._active.append(m)
        start = state.whole(axis, state.plan.cuts[axis])
        held: Held | None = None
        with state.scope(state.top.body, [start]):
            if axis in state.plan.skips:
                fill = self._fill(group, state.plan.skips[axis])
                matter = None if fill is None else partial(self._matters, group.by, fill, running)
                held = leave_out(state, start, matter)
            nest(state, [Loop(axis, 0)], lambda: self._step(group, totals, running, held))
        self._active.pop()
        state.top.memo[m] = (running, depth)
        state.used.add(m)
        finite = group.by.law.finite
        if finite:
            # Without a single finite element the reference divides infinities: the sums are NaN.
            lowest = constant(state, running, identity(m.attribute.op, m.dtype))
            empty = state.compute("eq", bool_, state.joined((running, lowest)), (running, lowest))
            undefined = constant(state, running, math.nan)
        for s, total in totals.items():
            whole = folded(state, total, s)
            state.top.memo[s] = (computed(state, "where", empty, undefined, whole) if finite else whole, depth)

    def _step(self, group: Led, totals: dict[Expression, Value], running: Value, held: Held | None) -> None:
        """One block of the axis: what leads now, what that makes of all before, and the block's own share."""
        state, (m, by, followers) = self.state, group
        (axis,), (x,), op = m.attribute.axes, m.arguments, m.attribute.op
        depth = len(state.scopes) - 1
        scores = guarded(state, finished_value(state, x), (axis,), identity(op, m.dtype))
        block = state.fold(op, scores, tuple(part for part in scores.parts if part.axis == axis.name))
        lowest = constant(state, running, m.dtype.minimum if by.law.finite else identity(op, m.dtype))
        old = computed(state, op, running, lowest)
        state.emit(Update(running, op, (block,)))
        new = computed(state, op, running, lowest)
        changed = self._made(by.form, new, {"x": old, "m": new})
        state.top.memo[m] = (new, depth)
        state.top.memo[x] = (scores, depth)
        carries, carry = by.law.carry
        for s, total in totals.items():
            state.emit(Update(total, carries, (self._made(carry, total, {"w": changed}),)))
            if self._is_wider(s, m):
                self._again(s, followers[s].weights, total, axis, held)
            else:
                self._add_block(s, total, axis)

    def _made(self, formula: Formula, like: Value, values: dict[str, Value]) -> Value:
        """What a formula gives, with numbers of the same type as a value."""
        if isinstance(formula, str):
            return values[formula]
        op, *arguments = formula
        if op == "identity":
            return constant(self.state, like, identity(arguments[0], like.dtype))
        made = [self._made(argument, like, values) for argument in arguments]
        truth = op != "where" and (UNARY.get(op) or BINARY[op]).boolean
        dtype = bool_ if truth else made[-1].dtype
        return self.state.compute(op, dtype, self.state.joined(tuple(made)), tuple(made))

    def _add_block(self, s: Expression, total: Value, axis: Variable) -> None:
        """The block's own share of what follows, its registers first."""
        state, op = self.state, s.attribute.op
        block = guarded(state, finished_value(state, s.arguments[0]), (axis,), identity(op, s.dtype))
        block = spread(state, block, state.parts((axis,)))
        over = tuple(part for part in block.parts if part.axis == axis.name and part.kind == "reg")
        state.emit(Update(total, op, (state.fold(op, block, over),)))

    def _is_wider(self, s: Expression, lead: Expression) -> bool:
        """Whether what follows varies over axes that what leads does not: products with weights have lanes there."""
        return len(self.state.facts.axes(s)) > len(self.state.facts.axes(lead))

    def _again(self, s: Expression, e: Expression, total: Value, axis: Variable, known: Held | None) -> None:
        """The block once more, element by element: the weights go through local memory. Those of scores that are
        masked everywhere are zero.
        """
        state, bindings = self.state, self.state.top.bindings
        binding, axes = bindings[axis], state.facts.axes(e)
        width = math.prod(part.extent for part in binding.parts)
        left: Index = as_index(width)
        if binding.condition is not None:
            left = minimum(width, binding.condition.b - binding.start)
        inner = Partial(axis, binding.start, left, Cut(), 0, binding.origin)
        rooms = {a: room_of(state, a) for a in axes if a != axis and bindings[a].parts}
        rooms[axis] = Room(binding.origin.cut.tile, binding.start, inner)
        reload = held(state, "e", (e, s), e, rooms)
        varies = axis in axes
        if varies:
            store(state, reload.buffer, reload_index(state, reload), value_of(state, e))
        with state.scope(state.top.body, [inner]) as scope:
            if varies:
                scope.reloads[e] = reload
            self._blocks.append(reload)
            if known is not None:
                end_early(state, inner, known)
            nest(state, [Loop(axis, 0)], partial(update, state, total, s))
            self._blocks.pop()

    # --- what would be wrong

    def held(self, node: Expression, reload: Reload | None = None) -> None:
        """What is in memory was computed with what leads in the end, but for the present blocks."""
        own = any(block is reload for block in self._blocks)
        depends = not own and any(m in self.state.facts.below(node) for m in self._active)
        Online.refuse(depends, "what depends on the reduction that leads cannot be staged or kept around its loop")

    def _fill(self, group: Led, skip: SkipPlan) -> Expression | None:
        """What masked scores are; None if it is -inf, which matters nowhere."""
        (x,) = group.lead.arguments
        masked = x.op == "where" and x.arguments[0] is skip.condition and self._is_number(x.arguments[2])
        other = not masked or not group.by.law.finite
        Skip.refuse(other, "the maximum must be over where(condition, x, a number), and sums follow it")
        fill = x.arguments[2]
        return None if fill.op == "const" and fill.attribute == -math.inf else fill

    def _is_number(self, e: Expression) -> bool:
        """Whether it is the same everywhere, and at hand."""
        facts = self.state.facts
        return not facts.axes(e) and all(below.op not in ("reduce", "scan") for below in facts.below(e))

    def _matters(self, by: Follower, fill: Expression, running: Value) -> Value:
        """Whether masked scores weigh anything in some row, given the maxima so far.

        Where none does, the weight of the fill is exactly zero, as it is for any larger maximum: then the fill is below
        the maximum, and adds nothing to any sum. A row that has seen no finite score, or a NaN, is one where they do.
        """
        state = self.state
        Skip.refuse(state.plan.threads > 1, "the threads of a group would have to agree on what is left out")
        largest = computed(state, "max", running, constant(state, running, running.dtype.minimum))
        found = self._made(by.form, largest, {"x": value_of(state, fill), "m": largest})
        found = state.fold("max", found, found.parts)
        return state.compute("ne", bool_, (), (found, constant(state, found, 0.0)))

"""One loop for a maximum and the sums that are taken relative to it.

A group is a maximum m over an axis and sums over it of exp(x - m) * g, where x is what m is the maximum of and g is
free of m. The loop keeps a running maximum; when it grows, the sums so far are scaled by exp(old - new). The maximum
that is subtracted never is -inf, so that no difference of infinities appears while it is still unknown; rows whose true
maximum is -inf give NaN, as they do without the action.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from smelt.graph.index import Index, Variable, as_index, minimum, of
from smelt.graph.ops import identity
from smelt.kernel.actions import Illegal
from smelt.kernel.ir import Accumulator, Reduce, Update, Value
from smelt.kernel.lower_scope import Partial, Reload, parts_of
from smelt.kernel.lower_skip import Skips
from smelt.kernel.plan import Loop, Plan, SkipPlan, StagePlan
from smelt.kernel.region import Expression, Region, extent
from smelt.kernel.segments import largest_tile, reach


class Group(NamedTuple):
    """A maximum, and the sums that need it: each with its exponential."""

    maximum: Expression
    sums: dict[Expression, Expression]


class Online(Skips):
    """`online`, with `sub` and `skip` inside it."""

    def __init__(self, region: Region, plan: Plan) -> None:
        super().__init__(region, plan)
        self._active: list[Expression] = []  # the maxima that are still running
        self._blocks: list[Reload] = []  # memory of the present blocks, relative to them
        self._groups = {e: g for axis in plan.online for g in self._find(axis) for e in (g.maximum, *g.sums)}

    def _find(self, axis: Variable) -> list[Group]:
        groups: dict[Expression, Group] = {}
        for e in self.region.order():
            if e.op != "reduce" or e.attribute.axes != (axis,) or e.attribute.op != "add":
                continue
            exponential = self._exponential(e, axis)
            if exponential is not None:
                m = exponential.arguments[0].arguments[1]
                groups.setdefault(m, Group(m, {})).sums[e] = exponential
        if not groups:
            raise Illegal(f"online: there is no sum of exp(x - max(x)) over {axis.name}")
        if as_index(extent(axis)).low < 1:
            raise Illegal(f"online: {axis.name} may be empty")
        if any((group.maximum, axis) in self.plan.subs for group in groups.values()):
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
            if len(others) == len(factors) - 1 and all(m not in self.facts.below(other) for other in others):
                return e
        return None

    # --- when

    def finish(self, reduction: Expression) -> None:
        group = self._groups.get(reduction)
        if group is None or self.available(reduction) or self.available(group.maximum):
            super().finish(reduction)
            return
        bindings = self.top.bindings
        sums = [s for s in group.sums if s in self.wanted and all(axis in bindings for axis in self.facts.axes(s))]
        if not sums or self.copying:
            super().finish(reduction)
            return
        members = [group.maximum, *sums]
        for member in members:
            for needed in self.external(member):
                if needed not in members:
                    self.finish(needed)
        depth = max(self.reduction_depth(member) for member in members)
        with self.moved_out(depth):
            self._run(group, sums, depth)
        self.used.add(group.maximum)
        if reduction not in members:
            super().finish(reduction)

    def check_online(self) -> None:
        """After lowering: every action has come to something."""
        for axis in self.plan.online:
            if not any(
                group.maximum in self.used for group in self._groups.values() if group.maximum.attribute.axes == (axis,)
            ):
                raise Illegal(f"online: no group over {axis.name} can be made in one loop")
        for axis, skip in self.plan.skips.items():
            if skip not in self.used:
                raise Illegal(f"skip: no loop over {axis.name} can leave anything out")

    # --- the loop

    def _run(self, group: Group, sums: list[Expression], depth: int) -> None:
        m = group.maximum
        (axis,) = m.attribute.axes
        running = Value(self.fresh("a"), m.dtype, self.parts(self.facts.axes(m)))
        self.emit(Accumulator(running, identity("max", m.dtype)))
        totals = {s: self._total(s, axis) for s in sums}
        outer, self.consumers = self.consumers, tuple(s.arguments[0] for s in sums)
        self._active.append(m)
        self.push(self.top.body)
        partial = self.whole(axis, self.plan.cuts[axis])
        self.begin([partial])
        skip = self.plan.skips.get(axis)
        if skip is None:
            self.nest([Loop(axis, 0)], lambda: self._step(group, totals, running))
        else:
            fill = self._fill(m, skip)
            self.used.add(skip)
            matter = None if fill is None else lambda: self._matters(fill, running)
            self.skipping(partial, skip, lambda: self._step(group, totals, running), matter)
        self.scopes.pop()
        self._active.pop()
        self.consumers = outer
        self.top.memo[m] = (running, depth)
        # Without a single finite element the reference divides infinities: the sums are NaN.
        lowest = self.scalar("const", running, identity("max", m.dtype))
        empty = self.compared("eq", running, lowest)
        undefined = self.scalar("const", running, math.nan)
        for s, total in totals.items():
            folded = self.folded(total, "add", (axis,))
            self.top.memo[s] = (self.computed("where", empty, undefined, folded, like=folded), depth)

    def _total(self, s: Expression, axis: Variable) -> Value:
        if (s, axis) in self.plan.subs:
            return self.accumulator(s, (axis,), whole=True)
        # Without registers: those of a block are added up before, since each sum is rescaled with every block.
        outer = self.parts(self.facts.axes(s))
        cut = self.plan.cut(s, axis)
        sizes = largest_tile(extent(axis), cut)
        own = [part for part in parts_of(axis, cut.inner, sizes) if part.kind != "reg"]
        parts = self.sorted_parts(sorted([*outer, *own], key=self.part_order))
        value = Value(self.fresh("a"), s.dtype, parts)
        self.emit(Accumulator(value, identity("add", s.dtype)))
        return value

    def _step(self, group: Group, totals: dict[Expression, Value], running: Value) -> None:
        """One block of the axis: the new maximum, the scale of what has been summed, and the block's own share."""
        m = group.maximum
        (axis,), (x,) = m.attribute.axes, m.arguments
        depth = len(self.scopes) - 1
        self.prepare(x)
        scores = self.guarded(self.value(x), (axis,), identity("max", m.dtype))
        over = tuple(part for part in scores.parts if part.axis == axis.name)
        block = Value(self.fresh("v"), m.dtype, tuple(part for part in scores.parts if part not in over))
        if over:
            self.emit(Reduce(block, "max", scores, over))
        else:
            block = scores
        lowest = self.scalar("const", running, m.dtype.minimum)
        old = self.computed("max", running, lowest)
        self.emit(Update(running, "max", (block,)))
        new = self.computed("max", running, lowest)
        scale = self.computed("exp", self.computed("sub", old, new))
        self.top.memo[m] = (new, depth)
        self.top.memo[x] = (scores, depth)
        for s, total in totals.items():
            self.emit(Update(total, "mul", (scale,)))
            if (s, axis) in self.plan.subs:
                self._again(s, group.sums[s], total, axis)
            else:
                self._add_block(s, total, axis)

    def _add_block(self, s: Expression, total: Value, axis: Variable) -> None:
        """The block's own share of a sum, its registers first."""
        (summand,) = s.arguments
        self.prepare(summand)
        block = self.guarded(self.value(summand), (axis,), identity("add", s.dtype))
        block = self.spread(block, self.parts((axis,)))
        over = tuple(part for part in block.parts if part.axis == axis.name and part.kind == "reg")
        if over:
            folded = Value(self.fresh("v"), block.dtype, tuple(part for part in block.parts if part not in over))
            self.emit(Reduce(folded, "add", block, over))
            block = folded
        self.emit(Update(total, "add", (block,)))

    def _again(self, s: Expression, e: Expression, total: Value, axis: Variable) -> None:
        """The block once more, cut as this sum wants it: the exponentials go through local memory."""
        cut, binding = self.plan.subs[s, axis], self.top.bindings[axis]
        axes = self.facts.axes(e)
        rows = [a for a in axes if a != axis and self.top.bindings[a].parts]
        width = math.prod(part.extent for part in binding.parts)
        left: Index = as_index(width)
        if binding.condition is not None:
            left = minimum(width, binding.condition.b - binding.start)
        inner = Partial(axis, binding.start, left, cut, 0, binding.origin)
        sizes = [self.top.bindings[a].origin.cut.tile for a in rows]
        room = max(binding.origin.cut.tile, reach(binding.origin.cut.tile, cut), reach(left, cut))
        buffer = self.shared("e", (e, s), e.dtype, (*sizes, room))
        bases = {a: self.top.bindings[a].start for a in axes}
        tokens = tuple((a, inner if a == axis else self.top.bindings[a]) for a in axes)
        reload = Reload(buffer, tuple(of(a) for a in (*rows, axis)), bases, tokens)
        varies = axis in axes
        if varies:
            self.store(buffer, self.reload_index(reload), self.value(e), ())
        self.push(self.top.body)
        self.begin([inner])
        if varies:
            self.top.reloads[e] = reload
        self._blocks.append(reload)
        self.nest([Loop(axis, level) for level in range(cut.levels)], lambda: self.update(total, s))
        self._blocks.pop()
        self.scopes.pop()

    def check_reload(self, e: Expression, reload: Reload) -> None:
        super().check_reload(e, reload)
        if not any(block is reload for block in self._blocks):
            self._check_relative(e)

    def check_stage(self, stage: StagePlan) -> None:
        super().check_stage(stage)
        self._check_relative(stage.node)

    def _check_relative(self, e: Expression) -> None:
        """What is in memory was computed with the final maximum."""
        if any(m in self.facts.below(e) for m in self._active):
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
        return not self.facts.axes(e) and all(below.op not in ("reduce", "scan") for below in self.facts.below(e))

    def _matters(self, fill: Expression, running: Value) -> Value:
        """Whether masked scores weigh anything in some row, given the maxima so far.

        Where none does, exp(fill - maximum) is exactly zero, as it is for any larger maximum: then the fill is below
        the maximum, and adds nothing to any sum. A row that has seen no finite score, or a NaN, is one where they do.
        """
        if self.plan.threads > 1:
            raise Illegal("skip: the threads of a group would have to agree on what is left out")
        largest = self.computed("max", running, self.scalar("const", running, running.dtype.minimum))
        weight = self.computed("exp", self.computed("sub", self.value(fill), largest))
        if weight.parts:
            most = Value(self.fresh("v"), weight.dtype)
            self.emit(Reduce(most, "max", weight, weight.parts))
            weight = most
        return self.compared("ne", weight, self.scalar("const", weight, 0.0))

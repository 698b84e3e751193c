"""Reductions: finished before the body that needs them, in accumulators that keep their tile parts until the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from smelt.graph.index import Variable
from smelt.graph.ops import identity
from smelt.kernel.actions import Illegal
from smelt.kernel.ir import DOTS, Accumulator, Part, Reduce, Update, Value
from smelt.kernel.lower_nest import Nest
from smelt.kernel.lower_scope import parts_of
from smelt.kernel.plan import Loop, Plan
from smelt.kernel.region import Expression, Region, extent
from smelt.kernel.segments import largest_tile


class Reductions(Nest):
    """Phases of reductions."""

    def __init__(self, region: Region, plan: Plan) -> None:
        super().__init__(region, plan)
        self.consumers: tuple[Expression, ...] = ()  # whose loops are being opened
        self.wanted: frozenset[Expression] = frozenset()  # what the outputs that are being stored are made of
        self.used: set[object] = set()  # what came to something: stages, kept nodes, groups
        self.copying = False  # the loops are those of a copy into memory

    def prepare(self, e: Expression) -> None:
        """Finish every reduction that an expression needs, those that others need first."""
        if not self.plan.uses_memory:
            for reduction in self.facts.reductions(e):
                self.finish(reduction)
            return
        # What lies in memory needs no reductions any more.
        stack, seen = [e], set[Expression]()
        while stack:
            at = stack.pop()
            if at in seen or not self.facts.reductions(at) or self.available(at):
                continue
            seen.add(at)
            if at.op == "reduce":
                self.finish(at)
            else:
                stack.extend(reversed(at.arguments))

    def external(self, reduction: Expression) -> list[Expression]:
        """The reductions to finish before this one: without those that only nodes in memory need."""
        static = self.facts.external(reduction)
        if not static or not self.plan.uses_memory:
            return list(static)
        stack, reached = list(reduction.arguments), set[Expression]()
        while stack:
            at = stack.pop()
            if at not in reached and not self.is_stored(at):
                reached.add(at)
                stack.extend(at.arguments)
        return [needed for needed in static if needed in reached]

    def finish(self, reduction: Expression) -> None:
        """Make a reduction, in the outermost scope where its axes are open and what it needs has been made."""
        if self.available(reduction):
            return
        members = self._members(reduction)
        for member in members:
            for needed in self.external(member):
                self.finish(needed)
        depth = max(self.reduction_depth(member) for member in members)
        outer, self.consumers = self.consumers, tuple(member.arguments[0] for member in members)
        with self.moved_out(depth):
            if len(members) == 1:
                self.reduce(reduction, depth)
            else:
                self._reduce_together(members, depth)
        self.consumers = outer

    def _members(self, reduction: Expression) -> tuple[Expression, ...]:
        """The reductions to make together with this one, and itself: those of its group that are wanted here."""
        group, open_axes = self.plan.groups.get(reduction, ()), self.top.bindings.keys()
        found = [e for e in group if e in self.wanted and not self.available(e) and {*self.facts.axes(e)} <= open_axes]
        return tuple(found) if len(found) > 1 and not self.copying else (reduction,)

    def _reduce_together(self, members: tuple[Expression, ...], depth: int) -> None:
        axes = members[0].attribute.axes
        made = [(member, self.accumulator(member, axes)) for member in members]
        self.push(self.top.body)
        self.begin([self.whole(axis, self.plan.cuts[axis]) for axis in axes])
        self.walk(members, [partial(self.update, accumulator, member) for member, accumulator in made])
        self.scopes.pop()
        for member, accumulator in made:
            self.top.memo[member] = (self.folded(accumulator, member.attribute.op, axes), depth)
        self.used.add(self.plan.groups[members[0]])

    def reduction_depth(self, reduction: Expression) -> int:
        """The depth of the scope in which a reduction is made."""
        depth = max(self.depth(reduction), self.floor())
        for needed in self.external(reduction):
            found = self.find(needed)
            depth = max(depth, found[1] if found is not None else 0)
        return depth

    def reduce(self, reduction: Expression, depth: int) -> None:
        """Make a reduction in the present scope, which is the one at `depth`."""
        self.top.memo[reduction] = (self.accumulated(reduction, lambda: None), depth)

    def accumulated(self, reduction: Expression, also: Callable[[], None]) -> Value:
        """The loops of a reduction; `also` adds to each step."""
        fold = reduction.attribute

        def leaf() -> None:
            self.update(accumulator, reduction)
            also()

        accumulator = self.accumulator(reduction, fold.axes)
        self.push(self.top.body)
        self.begin([self.whole(axis, self.plan.cut(reduction, axis)) for axis in fold.axes])
        self.walk((reduction,), [leaf])
        self.scopes.pop()
        return self.folded(accumulator, fold.op, fold.axes)

    def walk(self, members: tuple[Expression, ...], steps: Sequence[Callable[[], None]]) -> None:
        """All the loops of reductions, whose axes have just begun, with a step of each in the innermost bodies."""
        shared, own = self.divided_loops(members)
        self.nest(shared, lambda: self.each(own, steps))

    def divided_loops(self, members: tuple[Expression, ...]) -> tuple[list[Loop], list[Loop]]:
        """The loops that reductions share, and those that each walks by itself."""
        loops = self.reduction_loops(members[0])
        shared = len(loops) if len(members) == 1 else 1 + max(at for at, loop in enumerate(loops) if loop.level == 0)
        return loops[:shared], loops[shared:]

    def each(self, loops: list[Loop], steps: Sequence[Callable[[], None]]) -> None:
        for step in steps:
            self.nest(loops, step)

    def reduction_loops(self, reduction: Expression) -> list[Loop]:
        """The loops of a reduction: as `order` has them, or axis by axis."""
        axes = reduction.attribute.axes
        loops = [Loop(a, level) for a in axes for level in range(self.plan.cut(reduction, a).levels)]
        place = {loop: at for at, loop in enumerate(self.plan.order)}
        return sorted(loops, key=lambda loop: place.get(loop, len(place)))

    def accumulator(self, reduction: Expression, axes: tuple[Variable, ...], whole: bool = False) -> Value:
        """An accumulator with the tile parts of the axes that the reduction varies over, and of the reduced `axes`.

        Those are as large as a tile of the axis can be, or as the cut says if `whole`.
        """
        own: list[Part] = []
        for axis in axes:
            cut = self.plan.cut(reduction, axis)
            sizes = cut.tiles if whole else largest_tile(extent(axis), cut)
            own += [part for part in parts_of(axis, cut.inner, sizes) if self.is_kept(reduction, part.kind)]
        outer = self.parts(self.facts.axes(reduction))
        parts = self.sorted_parts(sorted([*outer, *own], key=self.part_order))
        value = Value(self.fresh("a"), reduction.dtype, parts)
        self.emit(Accumulator(value, identity(reduction.attribute.op, reduction.dtype)))
        return value

    def is_kept(self, reduction: Expression, kind: str) -> bool:
        """Whether the accumulator has parts of a kind along a reduced axis.

        Registers of words are summed at every step, as matrix instructions do it.
        """
        return kind != "reg" or reduction.arguments[0].op not in DOTS

    def update(self, accumulator: Value, reduction: Expression) -> None:
        """One step: fold the present tile of the summand into the accumulator."""
        fold, (summand,) = reduction.attribute, reduction.arguments
        self.prepare(summand)
        needed = self.parts(fold.axes)
        if self._is_product(reduction) and not self.conditions(fold.axes) and not self.available(summand):
            factors = (self.value(summand.arguments[0]), self.value(summand.arguments[1]))
            have = {part.name for factor in factors for part in factor.parts}
            if all(part.name in have for part in needed):
                op, row = summand.op if summand.op in DOTS else "fma", self.plan.matrix.get(reduction)
                self.emit(Update(accumulator, op, factors, "" if row is None else row.name))
                return
        if reduction in self.plan.matrix:
            raise Illegal("matrix: the products are not summed as they are made")
        value = self.guarded(self.value(summand), fold.axes, identity(fold.op, reduction.dtype))
        # Without all parts of the tile, the value would be folded into elements beyond a short tile as well.
        value = self.spread(value, needed)
        kept = {part.name for part in accumulator.parts}
        lacking = tuple(part for part in needed if part.name not in kept)
        if lacking:
            left = Value(self.fresh("v"), value.dtype, tuple(part for part in value.parts if part not in lacking))
            self.emit(Reduce(left, fold.op, value, lacking))
            value = left
        self.emit(Update(accumulator, fold.op, (value,)))

    def _is_product(self, reduction: Expression) -> bool:
        (summand,) = reduction.arguments
        kept = summand in self.plan.keeps
        product = summand.op in DOTS or (summand.op == "mul" and summand.dtype.is_float)
        return reduction.attribute.op == "add" and product and not kept

    def folded(self, accumulator: Value, op: str, axes: tuple[Variable, ...]) -> Value:
        """The accumulator folded over its parts of the reduced axes."""
        names = {axis.name for axis in axes}
        over = tuple(part for part in accumulator.parts if part.axis in names)
        if not over:
            return accumulator
        value = Value(self.fresh("v"), accumulator.dtype, tuple(part for part in accumulator.parts if part not in over))
        self.emit(Reduce(value, op, accumulator, over))
        return value

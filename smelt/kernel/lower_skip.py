"""Loops that leave out the blocks of an axis where a condition rules everything out.

The condition compares the axis with another one, which is open: axis <= bound + c or axis >= bound + c. So the blocks
of a row where it never holds are the first or the last ones, and do not run. A sum may leave them out if its summand is
zero there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from smelt.graph.index import Index, Variable, as_index, maximum, minimum, of
from smelt.kernel.actions import Illegal
from smelt.kernel.ir import Let
from smelt.kernel.lower_scope import Partial
from smelt.kernel.lower_stage import Stages
from smelt.kernel.plan import Loop, SkipPlan
from smelt.kernel.region import Expression
from smelt.kernel.segments import Segment, segments


class Limit(NamedTuple):
    """Where a condition holds: up to bound + offset, or from there on."""

    offset: Index
    is_upper: bool


class Skips(Stages):
    """`skip` in the loops of sums; `online` has its own."""

    def walk(self, members: tuple[Expression, ...], steps: Sequence[Callable[[], None]]) -> None:
        axes = members[0].attribute.axes
        axis = next((axis for axis in axes if all(self._is_skipped(member, axis) for member in members)), None)
        if axis is None:
            super().walk(members, steps)
            return
        if any(self.to_keep(member) for member in members):
            raise Illegal("skip: what a sum keeps would be missing where blocks are left out")
        skip = self.plan.skips[axis]
        self.used.add(skip)
        shared, own = self.divided_loops(members)
        at = shared.index(Loop(axis, 0))

        def inside() -> None:
            self.nest(shared[at + 1 :], lambda: self.each(own, steps))

        self.nest(shared[:at], lambda: self.skipping(self.top.partials[axis], skip, inside))

    def _is_skipped(self, reduction: Expression, axis: Variable) -> bool:
        """Whether a sum has something to add only where the condition for one of its axes holds."""
        skip = self.plan.skips.get(axis)
        if skip is None or reduction.attribute.op != "add" or axis in self.plan.online:
            return False
        return skip.bound in self.facts.axes(reduction) and vanishes(reduction.arguments[0], skip.condition)

    def skipping(self, partial: Partial, skip: SkipPlan, inside: Callable[[], None]) -> None:
        """The outermost loop of an axis, without the blocks where the condition never holds."""
        limit = self.limit(partial.axis, skip)
        for segment in segments(partial.total, partial.cut, 0):
            part = segment
            if segment.start == 0 and not segment.masked:
                first, count = self._held_blocks(segment, skip, limit)
                part = replace(segment, start=first * segment.width, count=count)
            if part.count != 0:
                self.enter(Loop(partial.axis, 0), partial, part, inside)

    def _held_blocks(self, segment: Segment, skip: SkipPlan, limit: Limit) -> tuple[Index, Index]:
        """The blocks where the condition may hold: the first, and how many. It is asked in all of them: beside the
        products that follow, this costs less than a second body without it costs the C compiler.
        """
        row, width, count = self.top.bindings[skip.bound], segment.width, segment.count
        first = row.start + limit.offset
        if limit.is_upper:
            last = first + (math.prod(part.extent for part in row.parts) - 1)
            return as_index(0), self._clamped(last // width + 1, count)
        none = self._clamped(first // width, count)
        return none, count - none

    def _clamped(self, value: Index, count: Index) -> Index:
        """A number of blocks, as a variable from 0 to `count`."""
        clamped = minimum(count, maximum(0, value))
        if clamped.value is not None:
            return clamped
        variable = Variable(self.fresh("q"), 0, count)
        self.emit(Let(variable, clamped))
        return of(variable)

    def limit(self, axis: Variable, skip: SkipPlan) -> Limit:
        """Where the condition holds."""
        condition = skip.condition
        match condition.op:
            case "mask" if len(condition.attribute) == 1:
                slack = condition.attribute[0].b - condition.attribute[0].a - 1
            case "le" | "lt" if all(argument.op == "index" for argument in condition.arguments):
                a, b = (argument.attribute for argument in condition.arguments)
                slack = b - a - (1 if condition.op == "lt" else 0)
            case _:
                raise Illegal("skip: the condition must compare two indices")
        is_upper = slack.coefficient(axis) == -1
        offset: Index = slack + of(axis) - of(skip.bound) if is_upper else of(axis) - of(skip.bound) - slack
        if any(variable in self.facts.position for variable in offset.variables()):
            raise Illegal(f"skip: the condition must be {axis.name} <= or >= {skip.bound.name} + constant")
        return Limit(offset, is_upper)


def vanishes(e: Expression, condition: Expression) -> bool:
    """Whether a value is zero wherever a condition does not hold, unless it is multiplied by something infinite."""
    match e.op:
        case "where":
            inside = e.arguments[0] is condition or vanishes(e.arguments[1], condition)
            return inside and e.arguments[2].op == "const" and e.arguments[2].attribute == 0
        case "mul":
            return any(vanishes(factor, condition) for factor in e.arguments)
        case "div" | "neg" | "round16":
            return vanishes(e.arguments[0], condition)
    return False

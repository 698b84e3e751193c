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
from smelt.kernel.ir import Ask, For, Let, Statement, Value
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

    def skipping(
        self, partial: Partial, skip: SkipPlan, inside: Callable[[], None], matter: Callable[[], Value] | None = None
    ) -> None:
        """The outermost loop of an axis, without the blocks where the condition never holds.

        If there is `matter`, those follow after all wherever the flag that it makes is true by then.
        """
        limit = self.limit(partial.axis, skip)
        for segment in segments(partial.total, partial.cut, 0):
            if segment.start != 0 or segment.masked:
                self.enter(Loop(partial.axis, 0), partial, segment, inside)
                continue
            first, count = self._held_blocks(segment, skip, limit)
            if matter is not None:
                self._twice(partial, segment, (first, count), inside, matter)
            elif count != 0:
                self.enter(Loop(partial.axis, 0), partial, _blocks(segment, first, count), inside)

    def _twice(
        self,
        partial: Partial,
        segment: Segment,
        held: tuple[Index, Index],
        inside: Callable[[], None],
        matter: Callable[[], Value],
    ) -> None:
        """First the held blocks, then the others if they matter: one body serves both rounds."""
        first, count = held
        others = segment.count - count
        turn = Variable(self.fresh("i"), 0, 1)
        body: list[Statement] = []
        self.push(body)
        asked = Variable(self.fresh("q"), 0, 1)
        self.emit(Ask(asked, matter()))
        # The held blocks are the last or the first ones, so the others begin at the start or behind them.
        behind = count if first == 0 else as_index(0)
        start = self._clamped(first + of(turn) * (behind - first), segment.count)
        blocks = self._clamped(count + of(turn) * (of(asked) * others - count), segment.count - start)
        self.enter(Loop(partial.axis, 0), partial, _blocks(segment, start, blocks), inside)
        self.scopes.pop()
        self.emit(For(turn, as_index(2), body))

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
            case "le" | "lt":
                a, b = map(_place, condition.arguments)
                slack = b - a - (1 if condition.op == "lt" else 0)
            case _:
                raise Illegal("skip: the condition must compare two places")
        is_upper = slack.coefficient(axis) == -1
        offset: Index = slack + of(axis) - of(skip.bound) if is_upper else of(axis) - of(skip.bound) - slack
        if any(variable in self.facts.position for variable in offset.variables()):
            raise Illegal(f"skip: the condition must be {axis.name} <= or >= {skip.bound.name} + constant")
        return Limit(offset, is_upper)


def _blocks(segment: Segment, first: Index, count: Index) -> Segment:
    return replace(segment, start=first * segment.width, count=count)


def _place(e: Expression) -> Index:
    """An integer as an index: a place along an axis, which may be a number of elements further on."""
    match e.op:
        case "index":
            place: Index = e.attribute
            return place
        case "const" if e.dtype.is_integer:
            return as_index(int(e.attribute))
        case "add" | "sub" if e.dtype.is_integer:
            a, b = map(_place, e.arguments)
            found = a + b if e.op == "add" else a - b
            if e.dtype.minimum <= found.low and found.high <= e.dtype.maximum:  # so it does not wrap around
                return found
    raise Illegal("skip: the condition must compare places along axes, or some elements further on")


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

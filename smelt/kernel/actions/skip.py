"""`skip`: loops that leave out the blocks of an axis where a condition rules everything out.

The condition compares the axis with another one, which is open: axis <= bound + c or axis >= bound + c, or with an
integer that data decide: axis <= n, axis <= bound + n. So the blocks of a row where it never holds are the first or the
last ones, and do not run. A sum may leave them out if its summand is zero there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from smelt.graph import Index, Variable, as_index, maximum, minimum, of
from smelt.kernel.actions.action import Action
from smelt.kernel.actions.keep import to_keep
from smelt.kernel.ir import Ask, For, Statement, Value
from smelt.kernel.lowering.hooks import Handler
from smelt.kernel.lowering.plan import Illegal, Plan, SkipPlan
from smelt.kernel.lowering.state import Partial, State
from smelt.kernel.lowering.values import value_of
from smelt.kernel.region import Expression
from smelt.kernel.segments import Segment


@dataclass(frozen=True, slots=True)
class Skip(Action):
    """In the loops over an axis, leave out the blocks where a condition is false throughout.

    The condition is axis <= bound + constant or axis >= bound + constant, or has an integer that data decide in the
    place of one of these. This concerns the `online` loop, and sums whose summands are zero where the condition does
    not hold.
    """

    form = "skip {axis:axis} {bound:axis} {condition:name}"
    axis: str
    bound: str
    condition: str

    def apply(self, plan: Plan) -> None:
        skips, axis = plan.skips, plan.axis(self.axis)
        self.refuse(axis in skips, f"{self.axis} has a condition already")
        skips[axis] = SkipPlan(plan.axis(self.bound), plan.node(self.condition))
        plan.expected[skips[axis]] = f"skip: no loop over {axis.name} can leave anything out"


class Skips(Handler):
    """`skip` in the loops of sums; `online` leaves blocks out itself."""

    def walking(self, members: tuple[Expression, ...]) -> None:
        state = self.state
        for axis in members[0].attribute.axes:
            if all(self._is_skipped(member, axis) for member in members):
                kept = any(to_keep(state, member) for member in members)
                Skip.refuse(kept, "what a sum keeps would be missing where blocks are left out")
                leave_out(state, state.top.partials[axis])
                return

    def _is_skipped(self, reduction: Expression, axis: Variable) -> bool:
        """Whether a sum has something to add only where the condition for one of its axes holds."""
        plan = self.state.plan
        skip = plan.skips.get(axis)
        if skip is None or reduction.attribute.op != "add" or axis in plan.online:
            return False
        return skip.bound in self.state.facts.axes(reduction) and vanishes(reduction.arguments[0], skip.condition)


@dataclass
class Held:
    """Where along its axis the condition of a `skip` holds, in some rows at least: known once its loop is open."""

    bound: Variable
    last: Index | None = None  # none: it holds up to the end


def leave_out(state: State, partial: Partial, matter: Callable[[], Value] | None = None) -> Held:
    """Open the outermost loop of an axis without the blocks where the axis's condition never holds.

    If there is `matter`, those follow after all wherever the flag that it makes is true by then.
    """
    skip = state.plan.skips[partial.axis]
    held = Held(skip.bound)

    def visit(segment: Segment, enter: Callable[[Segment], None]) -> None:
        limit, is_upper = _limit(state, partial.axis, skip)
        if is_upper and matter is None:
            held.last = limit
        if segment.start != 0 or segment.masked:
            enter(segment)
            return
        first, count = _held_blocks(state, segment, skip.bound, limit, is_upper)
        if matter is not None:
            _twice(state, segment, first, count, enter, matter)
        elif count != 0:
            enter(_blocks(segment, first, count))

    state.visits[partial] = visit
    state.used.add(skip)
    return held


def end_early(state: State, partial: Partial, held: Held) -> None:
    """Open a loop over the elements of a block, one by one, without those behind the last where a condition holds."""

    def visit(segment: Segment, enter: Callable[[Segment], None]) -> None:
        if held.last is None or segment.start != 0 or segment.masked or segment.uneven or segment.width != 1:
            enter(segment)
            return
        last = held.last.substitute({held.bound: _last_row(state, held.bound)})
        enter(replace(segment, count=_clamped(state, last - partial.start + 1, as_index(segment.count))))

    if state.plan.threads == 1:  # those of a group would have to agree
        state.visits[partial] = visit


def _twice(
    state: State,
    segment: Segment,
    first: Index,
    count: Index,
    enter: Callable[[Segment], None],
    matter: Callable[[], Value],
) -> None:
    """First the blocks where the condition may hold, then the others if they matter: one body serves both rounds."""
    others = segment.count - count
    turn = Variable(state.fresh("i"), 0, 1)
    body: list[Statement] = []
    with state.scope(body):
        asked = Variable(state.fresh("q"), 0, 1)
        state.emit(Ask(asked, matter()))
        # The held blocks are the last or the first ones, so the others begin at the start or behind them.
        behind = count if first == 0 else as_index(0)
        start = _clamped(state, first + of(turn) * (behind - first), segment.count)
        blocks = _clamped(state, count + of(turn) * (of(asked) * others - count), segment.count - start)
        enter(_blocks(segment, start, blocks))
    state.emit(For(turn, as_index(2), body))


def _blocks(segment: Segment, first: Index, count: Index) -> Segment:
    return replace(segment, start=first * segment.width, count=count)


def _held_blocks(state: State, segment: Segment, bound: Variable, limit: Index, is_upper: bool) -> tuple[Index, Index]:
    """The blocks where the condition may hold: the first, and how many. It is asked in all of them: beside the products
    that follow, this costs less than a second body without it costs the C compiler.
    """
    width, count = segment.width, segment.count
    if is_upper:
        last = _last_row(state, bound)
        return as_index(0), _clamped(state, limit.substitute({bound: last}) // width + 1, count)
    none = _clamped(state, limit.substitute({bound: state.top.bindings[bound].start}) // width, count)
    return none, count - none


def _last_row(state: State, bound: Variable) -> Index:
    row = state.top.bindings[bound]
    return row.start + (math.prod(part.extent for part in row.parts) - 1)


def _clamped(state: State, value: Index, count: Index) -> Index:
    """A number of blocks, as a variable from 0 to `count`."""
    clamped = minimum(count, maximum(0, value))
    if clamped.value is not None:
        return clamped
    return state.named(clamped, 0, count)


def _limit(state: State, axis: Variable, skip: SkipPlan) -> tuple[Index, bool]:
    """Where the condition holds: an index over the bound, and whether up to there (True) or from there on."""
    condition = skip.condition
    values: dict[Variable, Expression] = {}
    match condition.op:
        case "mask" if len(condition.attribute) == 1:
            slack = condition.attribute[0].b - condition.attribute[0].a - 1
        case "le" | "lt":
            a, b = (_place(e, axis, values) for e in condition.arguments)
            slack = b - a - (1 if condition.op == "lt" else 0)
        case _:
            raise Illegal("skip: the condition must compare two places")
    is_upper = slack.coefficient(axis) == -1
    # What is added to a value may wrap around: below, that would leave out too much.
    alone = is_upper or any(e in values.values() for e in condition.arguments)
    Skip.refuse(len(values) > 1 or (bool(values) and not alone), "the condition must compare with one value")
    for variable, value in values.items():
        slack = slack.substitute({variable: _asked(state, variable, value, slack, is_upper)})
    limit: Index = slack + of(axis) if is_upper else of(axis) - slack
    offset = limit - of(skip.bound) if not values or skip.bound in limit.variables() else limit
    varies = any(variable in state.facts.position for variable in offset.variables())
    Skip.refuse(varies, f"the condition must be {axis.name} <= or >= {skip.bound.name} + constant")
    return limit, is_upper


def _asked(state: State, variable: Variable, value: Expression, slack: Index, is_upper: bool) -> Index:
    """The integer behind a value, as far as it matters for a comparison, which holds where `slack` is not negative. Of
    several rows, that of the one where most blocks hold.
    """
    rest = slack - of(variable) if slack.coefficient(variable) == 1 else slack + of(variable)
    grows = slack.coefficient(variable) == 1
    low, high = (-rest.high - 1, -rest.low) if grows else (rest.low, rest.high + 1)
    found = value_of(state, value)
    Skip.refuse(state.plan.threads > 1 and bool(found.parts), "the threads of a group would have to agree on a value")
    found = state.fold("max" if is_upper else "min", found, found.parts)
    asked = Variable(state.fresh("q"), low, high)
    state.emit(Ask(asked, found))
    return of(asked)


def _place(e: Expression, axis: Variable, values: dict[Variable, Expression]) -> Index:
    """An integer as an index: a place along an axis, which may be a number of elements further on, or as many as data
    say, for which a new variable stands.
    """
    match e.op:
        case "index":
            place: Index = e.attribute
            return place
        case "const" if e.dtype.is_integer:
            return as_index(int(e.attribute))
        case "cast" if e.dtype.is_integer and e.arguments[0].dtype.is_integer:
            found = _place(e.arguments[0], axis, values)
            if _fits(found, e):
                return found
        case "add" | "sub" if e.dtype.is_integer:
            a, b = (_place(x, axis, values) for x in e.arguments)
            found = a + b if e.op == "add" else a - b
            # A value to which a place is added wraps around to below all places, where nothing need be computed.
            data = [x for x in (a, b) if x.variables() & values.keys()]
            others = [x for x in (a, b) if not x.variables() & values.keys()]
            if _fits(found, e) or (e.op == "add" and len(data) == 1 and others[0].low >= 0):
                return found
        case "load" if e.dtype.is_integer and e.dtype.is_signed and axis not in e.axes:
            variable = Variable(f"value{len(values)}", int(e.dtype.minimum), int(e.dtype.maximum))
            values[variable] = e
            return of(variable)
    raise Illegal("skip: the condition must compare places along axes, or some elements further on")


def _fits(place: Index, e: Expression) -> bool:
    """Whether an integer does not wrap around."""
    return bool(e.dtype.minimum <= place.low and place.high <= e.dtype.maximum)


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

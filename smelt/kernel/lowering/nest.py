"""Opening loops: from partly open axes to bound ones, one body for each segment."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smelt.graph import ZERO, Index, Variable, as_index, maximum, minimum, of
from smelt.kernel.ir import For, Let, Statement
from smelt.kernel.lowering.plan import Loop
from smelt.kernel.lowering.state import Binding, Partial, State, tile_of
from smelt.kernel.region import Less
from smelt.kernel.segments import Segment, segments


def nest(state: State, loops: Sequence[Loop], leaf: Callable[[], None]) -> None:
    """Open loops one inside the other, and run `leaf` in the innermost body of each combination of segments."""
    if not loops:
        leaf()
        return
    loop, rest = loops[0], loops[1:]
    partial = state.top.partials[loop.axis]
    visit = state.visits.get(partial)

    def enter(segment: Segment) -> None:
        _enter(state, partial, segment, lambda: nest(state, rest, leaf))

    even = visit is None and _is_even(state, partial)
    for segment in segments(partial.total, partial.cut, partial.level, even):
        if visit is None:
            enter(segment)
        else:
            visit(segment, enter)


def _is_even(state: State, partial: Partial) -> bool:
    """Whether each block needs a size that is known: the threads of a group share out copies of it, or vectors that do
    not divide its tiles do.
    """
    copies = state.plan.copies_along(partial.axis)
    return state.plan.threads > 1 or any(partial.cut.tile % copy.tile for copy in copies)


def _enter(state: State, partial: Partial, segment: Segment, inside: Callable[[], None]) -> None:
    """One segment of one loop."""
    if segment.count == 1:
        _step(state, partial, segment, ZERO, state.top.body, inside)
        return
    variable = Variable(state.fresh("i"), 0, segment.count - 1)
    body: list[Statement] = []
    _step(state, partial, segment, of(variable), body, inside)
    # Copies wait for memory: unrolled they gain nothing, and whole transposes would be written out many times.
    factor = 1 if state.copying else state.plan.unroll.get(partial.loop, 1)
    state.emit(For(variable, segment.count, body, "loop", factor))


def _step(
    state: State, partial: Partial, segment: Segment, at: Index, body: list[Statement], inside: Callable[[], None]
) -> None:
    """Iteration `at` of a segment, as a scope of its own."""
    axis, depth = partial.axis, len(state.scopes)
    with state.scope(body) as scope:
        place = segment.start + at * segment.width
        if partial.level == partial.cut.levels - 1:
            tile, parts = tile_of(axis, partial.cut.inner, segment.tiles)
            seen = state.named(maximum(place + segment.width - partial.total, 0)) if segment.uneven else ZERO
            start = partial.start + place - seen
            inside_axis = Less(start + tile, partial.start + partial.total) if segment.masked else None
            scope.bind(axis, Binding(start, start + tile, parts, inside_axis, depth, partial, seen))
        else:
            left, start = segment.inner, partial.start + place
            if segment.uneven:
                unit = partial.cut.tile if as_index(partial.total) % partial.cut.tile == 0 else 1
                left = unit * state.named(minimum((partial.total - place) // unit, segment.width // unit))
            scope.partials[axis] = Partial(axis, start, left, partial.cut, partial.level + 1, partial)
        for handler in state.handlers:
            handler.opened(partial.loop)
        inside()


# --- the grid


def grid(state: State, loops: Sequence[Loop], inside: Callable[[], None]) -> None:
    """Open several loops as one: every combination of their segments is a grid loop of its own."""
    for choice in _choices(state, list(loops), dict(state.top.partials)):
        count = as_index(1)
        for segment in choice:
            count = count * segment.count
        variable = Variable(state.fresh("g"), 0, count - 1)
        body: list[Statement] = []
        positions = _components(state, variable, count, choice, body)
        _descend(state, list(zip(loops, choice, positions, strict=True)), body, inside)
        state.emit(For(variable, count, body, "grid"))


def _choices(state: State, loops: list[Loop], partials: dict[Variable, Partial]) -> list[list[Segment]]:
    """All combinations of segments.

    The segments of an inner loop depend on the segment of the outer one, never on its iteration.
    """
    if not loops:
        return [[]]
    axis = loops[0].axis
    partial = partials[axis]
    found: list[list[Segment]] = []
    even = _is_even(state, partial) or any(inner.axis == axis for inner in loops[1:])
    for segment in segments(partial.total, partial.cut, partial.level, even):
        inner = Partial(axis, ZERO, segment.inner, partial.cut, partial.level + 1, partial)
        found += [[segment, *rest] for rest in _choices(state, loops[1:], {**partials, axis: inner})]
    return found


def _components(
    state: State, variable: Variable, count: Index, chosen: list[Segment], body: list[Statement]
) -> list[Index]:
    """The iteration of each loop, recovered from the number of the task."""
    moving = [segment for segment in chosen if segment.count != 1]
    if len(moving) == 1 and count == moving[0].count:
        return [of(variable) if segment is moving[0] else ZERO for segment in chosen]
    positions: list[Index] = []
    inner = as_index(1)
    for segment in reversed(chosen):
        position = ZERO
        if segment.count != 1:
            # Inside the grid loop no count is zero, but the algebra does not know.
            quotient = of(variable) // maximum(inner, 1)
            component = Variable(state.fresh("i"), 0, segment.count - 1)
            whole = segment is chosen[0]
            body.append(Let(component, quotient if whole else quotient % maximum(segment.count, 1)))
            position = of(component)
        positions.insert(0, position)
        inner = inner * segment.count
    return positions


def _descend(
    state: State, steps: list[tuple[Loop, Segment, Index]], body: list[Statement], inside: Callable[[], None]
) -> None:
    if not steps:
        inside()
        return
    loop, segment, at = steps[0]
    _step(state, state.top.partials[loop.axis], segment, at, body, lambda: _descend(state, steps[1:], body, inside))

"""Opening loops: from partly open axes to bound ones, one body for each segment."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smelt.graph.index import ZERO, Index, Variable, as_index, maximum, minimum, of
from smelt.kernel.ir import For, Let, Statement
from smelt.kernel.lower_scope import Binding, Partial, tile_of
from smelt.kernel.lower_values import Values
from smelt.kernel.plan import Loop
from smelt.kernel.segments import Segment, segments


class Nest(Values):
    """Loops around leaves."""

    copying = False  # whether a stage is being filled

    def opened(self, loop: Loop) -> None:
        """A hook: the loop has just been entered."""

    def begin(self, partials: Sequence[Partial]) -> None:
        """In the present scope, axes start anew from here (whole axes, or blocks of them)."""
        for partial in partials:
            self.top.unbind(partial.axis)
            self.top.partials[partial.axis] = partial

    def nest(self, loops: Sequence[Loop], leaf: Callable[[], None]) -> None:
        """Open loops one inside the other, and run `leaf` in the innermost body of each combination of segments."""
        if not loops:
            leaf()
            return
        loop, rest = loops[0], loops[1:]
        partial = self.top.partials[loop.axis]
        for segment in segments(partial.total, partial.cut, partial.level, self._is_even(partial)):
            self.enter(loop, partial, segment, lambda: self.nest(rest, leaf))

    def _is_even(self, partial: Partial) -> bool:
        """Whether each block needs a size that is known: the threads of a group share out copies of it, or vectors
        that do not divide its tiles do.
        """
        copies = [self.plan.copy_cut(stage, partial.axis) for stage in self.plan.stages if partial.axis in stage.axes]
        return self.plan.threads > 1 or any(partial.cut.tile % copy.tile for copy in copies)

    def enter(self, loop: Loop, partial: Partial, segment: Segment, inside: Callable[[], None]) -> None:
        """One segment of one loop."""
        if segment.count == 1:
            self.step(loop, partial, segment, ZERO, self.top.body, inside)
            return
        variable = Variable(self.fresh("i"), 0, segment.count - 1)
        body: list[Statement] = []
        self.step(loop, partial, segment, of(variable), body, inside)
        # Copies wait for memory: unrolled they gain nothing, and whole transposes would be written out many times.
        factor = 1 if self.copying else self.plan.unroll.get(loop, 1)
        self.emit(For(variable, segment.count, body, "loop", factor))

    def step(
        self,
        loop: Loop,
        partial: Partial,
        segment: Segment,
        at: Index,
        body: list[Statement],
        inside: Callable[[], None],
    ) -> None:
        """Iteration `at` of a segment, as a scope of its own."""
        scope = self.push(body)
        place = segment.start + at * segment.width
        if partial.level == partial.cut.levels - 1:
            tile, parts = tile_of(loop.axis, partial.cut.inner, segment.tiles)
            limit = partial.start + partial.total if segment.masked else None
            seen = self._named(maximum(place + segment.width - partial.total, 0)) if segment.uneven else ZERO
            start = partial.start + place - seen
            scope.bind(loop.axis, Binding(start, tile, parts, limit, len(self.scopes) - 1, partial, seen))
        else:
            left, start = segment.inner, partial.start + place
            if segment.uneven:
                unit = partial.cut.tile if as_index(partial.total) % partial.cut.tile == 0 else 1
                left = unit * self._named(minimum((partial.total - place) // unit, segment.width // unit))
            scope.partials[loop.axis] = Partial(loop.axis, start, left, partial.cut, partial.level + 1, partial)
        self.opened(loop)
        inside()
        self.scopes.pop()

    def _named(self, value: Index) -> Index:
        """A number as a variable that is known to be just that."""
        variable = Variable(self.fresh("q"), value, value)
        self.emit(Let(variable, value))
        return of(variable)

    # --- the grid

    def grid(self, loops: Sequence[Loop], inside: Callable[[], None]) -> None:
        """Open several loops as one: every combination of their segments is a grid loop of its own."""
        for choice in self._choices(list(loops), dict(self.top.partials)):
            count = as_index(1)
            for _, segment in choice:
                count = count * segment.count
            variable = Variable(self.fresh("g"), 0, count - 1)
            body: list[Statement] = []
            positions = self._components(variable, count, [segment for _, segment in choice], body)
            self._descend(list(zip(loops, choice, positions, strict=True)), body, inside)
            self.emit(For(variable, count, body, "grid"))

    def _choices(self, loops: list[Loop], partials: dict[Variable, Partial]) -> list[list[tuple[Partial, Segment]]]:
        """All combinations of segments.

        The segments of an inner loop depend on the segment of the outer one, never on its iteration.
        """
        if not loops:
            return [[]]
        loop = loops[0]
        partial = partials[loop.axis]
        found: list[list[tuple[Partial, Segment]]] = []
        even = self._is_even(partial) or any(inner.axis == loop.axis for inner in loops[1:])
        for segment in segments(partial.total, partial.cut, partial.level, even):
            inner = Partial(loop.axis, ZERO, segment.inner, partial.cut, partial.level + 1, partial)
            for rest in self._choices(loops[1:], {**partials, loop.axis: inner}):
                found.append([(partial, segment), *rest])
        return found

    def _components(
        self, variable: Variable, count: Index, chosen: list[Segment], body: list[Statement]
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
                component = Variable(self.fresh("i"), 0, segment.count - 1)
                whole = segment is chosen[0]
                body.append(Let(component, quotient if whole else quotient % maximum(segment.count, 1)))
                position = of(component)
            positions.insert(0, position)
            inner = inner * segment.count
        return positions

    def _descend(
        self,
        steps: list[tuple[Loop, tuple[Partial, Segment], Index]],
        body: list[Statement],
        inside: Callable[[], None],
    ) -> None:
        if not steps:
            inside()
            return
        loop, (_, segment), at = steps[0]
        partial = self.top.partials[loop.axis]
        self.step(loop, partial, segment, at, body, lambda: self._descend(steps[1:], body, inside))

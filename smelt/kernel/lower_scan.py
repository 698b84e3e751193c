"""Scans: made step by step along with the loops of the output that they belong to.

Before the first loop of the scanned axis a carry is made: an accumulator for what the other axes say. The loops of the
axis then run in order, one right inside the other; in the innermost, the present tile of the argument is scanned from
the carry on, which takes the last element. Whatever stands further inside reads the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smelt.errors import InternalError
from smelt.graph.ops import scan_start
from smelt.kernel.actions import Illegal
from smelt.kernel.ir import Accumulator, Part, Scan, Value
from smelt.kernel.lower_online import Online
from smelt.kernel.plan import Loop
from smelt.kernel.region import Expression, Output


class Scans(Online):
    """The nest of an output with scans."""

    def check_scans(self) -> None:
        """Scans of one output walk one of its own axes, outside of all reductions."""
        for output in self.region.outputs:
            scans = self.facts.scans(output.value)
            if len({e.attribute.axis for e in scans}) > 1:
                raise InternalError("the scans of one output are over different axes")
            if scans and scans[0].attribute.axis not in self.region.parallel_axes(output):
                raise InternalError(f"{scans[0].attribute.axis.name} is scanned but is no axis of its output")
        if any(e.op == "reduce" and self.facts.scans(e) for e in self.region.order()):
            raise InternalError("a reduction reads a scan")

    def scanning_loops(self, loops: list[Loop], output: Output) -> list[Loop]:
        """Loops in an order that scans allow: those of the scanned axis last."""
        scanned = {e.attribute.axis for e in self.facts.scans(output.value)}
        return sorted(loops, key=lambda loop: loop.axis in scanned)

    def scanned_nest(self, output: Output, loops: Sequence[Loop], leaf: Callable[[], None]) -> None:
        """The loops of an output inside its grid, with its scans made on the way."""
        scans = self.facts.scans(output.value)
        if not scans:
            self.nest(loops, leaf)
            return
        before, own, inside = self._around(scans, loops)

        def step() -> None:
            for e in scans:
                self._scan(e, carries[e])
            self.nest(inside, leaf)

        def walk() -> None:
            carries.update((e, self._carry(e)) for e in scans)
            self.nest(own, step)

        carries: dict[Expression, Value] = {}
        self.nest(before, walk)

    def _around(
        self, scans: tuple[Expression, ...], loops: Sequence[Loop]
    ) -> tuple[Sequence[Loop], Sequence[Loop], Sequence[Loop]]:
        """The loops before those of the scanned axis, these, and the ones inside them."""
        axis = scans[0].attribute.axis
        if any(loop.axis == axis for loop in self.plan.grid):
            raise Illegal(f"bind: {axis.name} is scanned, so its loops run in order")
        first = loops.index(Loop(axis, 0))
        end = first + self.plan.cuts[axis].levels
        if any(loop.axis != axis for loop in loops[first:end]):
            raise Illegal(f"order: {axis.name} is scanned, so its loops stand one right inside the other")
        varied = frozenset[object]().union(*(e.axes for e in scans))
        for loop in loops[end:]:
            if loop.axis in varied:
                raise Illegal(f"order: {loop} stands inside the scan of {axis.name}, which varies over it")
        return loops[:first], loops[first:end], loops[end:]

    def _carry(self, e: Expression) -> Value:
        axes = tuple(axis for axis in self.facts.axes(e) if axis != e.attribute.axis)
        value = Value(self.fresh("a"), e.dtype, self.parts(axes))
        self.emit(Accumulator(value, scan_start(e.attribute.op, e.dtype)))
        return value

    def _scan(self, e: Expression, carry: Value) -> None:
        """One step: the present tile of the argument, scanned."""
        (op, axis), (argument,) = e.attribute, e.arguments
        self.prepare(argument)
        source = self.guarded(self.value(argument), (axis,), scan_start(op, e.dtype))
        source = self.spread(source, self.parts(self.facts.axes(e)))
        own: tuple[Part, ...] = self.parts((axis,))
        value = Value(self.fresh("v"), e.dtype, source.parts)
        self.emit(Scan(value, op, source, own, carry))
        self.top.memo[e] = (value, len(self.scopes) - 1)

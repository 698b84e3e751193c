"""Scans: made step by step along with the loops of the output that they belong to.

Before the innermost loops of the scanned axis a carry is made: an accumulator over the tiles of other axes. In these
loops, which run in order, the present tile of the argument is scanned from the carry on, which takes the last element.
Whatever stands further inside reads the result. Where loops of other axes stand between those of the scanned one, the
carry waits in local memory for its next turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smelt.errors import InternalError
from smelt.graph.index import Index, Variable, as_index, less
from smelt.graph.ops import scan_start
from smelt.kernel.actions import Illegal
from smelt.kernel.ir import Accumulator, If, Load, Scan, Statement, Store, Update, Value
from smelt.kernel.lower_online import Online
from smelt.kernel.plan import Loop
from smelt.kernel.region import Buffer, Expression, Less, Output


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
            memories = [self._resume(e, carries[e]) for e in scans]
            self.nest(own, step)
            for e, memory in zip(scans, memories, strict=True):
                if memory is not None:
                    self.emit(Store(*memory, carries[e]))

        carries: dict[Expression, Value] = {}
        self.nest(before, walk)

    def _around(
        self, scans: tuple[Expression, ...], loops: Sequence[Loop]
    ) -> tuple[Sequence[Loop], Sequence[Loop], Sequence[Loop]]:
        """The loops before the innermost ones of the scanned axis, these, and what stands inside them."""
        axis = scans[0].attribute.axis
        if any(loop.axis == axis for loop in self.plan.grid):
            raise Illegal(f"bind: {axis.name} is scanned, so its loops run in order")
        if self.plan.cuts[axis].has("thread"):
            raise Illegal(f"split: {axis.name} is scanned, so threads cannot share it")
        mine = [at for at, loop in enumerate(loops) if loop.axis == axis]
        first = end = mine[-1] + 1
        while first > 0 and loops[first - 1].axis == axis:
            first -= 1
        for loop in loops[end:]:
            if any(loop.axis in e.axes for e in scans):
                raise Illegal(f"order: {loop} stands inside the scan of {axis.name}, which varies over it")
        for loop in loops[mine[0] : first]:
            if any(loop.axis not in e.axes for e in scans):
                raise Illegal(f"order: {loop} repeats steps of the scan of {axis.name}, which does not vary over it")
        return loops[:first], loops[first:end], loops[end:]

    def _carry(self, e: Expression) -> Value:
        value = Value(self.fresh("a"), e.dtype, self.parts(self._others(e)))
        self.emit(Accumulator(value, scan_start(e.attribute.op, e.dtype)))
        return value

    def _others(self, e: Expression) -> tuple[Variable, ...]:
        return tuple(axis for axis in self.facts.axes(e) if axis != e.attribute.axis)

    def _resume(self, e: Expression, carry: Value) -> tuple[Buffer, tuple[Index, ...]] | None:
        """Where the carry waits while other loops run between those of the axis; it is taken up from there."""
        axis = e.attribute.axis
        partial = self.top.partials[axis]
        if partial.level == 0:
            return None
        memory = self.carried_memory(e, e.dtype, axis, self._others(e))
        before = Value(self.fresh("v"), carry.dtype, carry.parts)
        resumed = Less(as_index(0), partial.start)
        resume: list[Statement] = [Load(before, *memory), Update(carry, "set", (before,))]
        if less(*resumed):
            self.top.body.extend(resume)
        elif partial.start != 0:
            self.emit(If((resumed,), resume))
        return memory

    def _scan(self, e: Expression, carry: Value) -> None:
        """One step: the present tile of the argument, scanned."""
        (op, axis), (argument,) = e.attribute, e.arguments
        self.prepare(argument)
        source = self.guarded(self.value(argument), (axis,), scan_start(op, e.dtype))
        source = self.spread(source, self.parts(self.facts.axes(e)))
        value = Value(self.fresh("v"), e.dtype, source.parts)
        self.emit(Scan(value, op, source, self.parts((axis,)), carry))
        self.top.memo[e] = (value, len(self.scopes) - 1)

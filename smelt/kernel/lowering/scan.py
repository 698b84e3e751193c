"""Scans: made step by step along with the loops of the output that they belong to.

Before the innermost loops of the scanned axis a carry is made: an accumulator over the tiles of other axes. In these
loops, which run in order, the present tile of the argument is scanned from the carry on, which takes the last element.
Whatever stands further inside reads the result. Where loops of other axes stand between those of the scanned one, the
carry waits in local memory for its next turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smelt.graph import Variable, scan_start
from smelt.kernel.ir import Scan, Store, Value
from smelt.kernel.lowering.memory import Memory, carried_memory, take_up
from smelt.kernel.lowering.nest import nest
from smelt.kernel.lowering.plan import Loop, refuse
from smelt.kernel.lowering.reduce import finished_value
from smelt.kernel.lowering.state import State
from smelt.kernel.lowering.values import guarded, spread
from smelt.kernel.region import Expression, Output


def scanning_loops(state: State, loops: list[Loop], output: Output) -> list[Loop]:
    """Loops in an order that scans allow: those of the scanned axis last."""
    scanned = {e.attribute.axes[0] for e in state.facts.scans(output.value)}
    return sorted(loops, key=lambda loop: loop.axis in scanned)


def scanned_nest(state: State, output: Output, loops: Sequence[Loop], leaf: Callable[[], None]) -> None:
    """The loops of an output inside its grid, with its scans made on the way."""
    scans = state.facts.scans(output.value)
    if not scans:
        nest(state, loops, leaf)
        return
    before, own, inside = _around(state, scans, loops)

    def step() -> None:
        for e in scans:
            _scan(state, e, carries[e])
        nest(state, inside, leaf)

    def walk() -> None:
        for e in scans:
            carries[e] = state.accumulate(e.dtype, state.parts(_others(state, e)), scan_start(e.attribute.op, e.dtype))
        memories = [_resume(state, e, carries[e]) for e in scans]
        nest(state, own, step)
        for e, memory in zip(scans, memories, strict=True):
            if memory is not None:
                state.emit(Store(*memory, carries[e]))

    carries: dict[Expression, Value] = {}
    nest(state, before, walk)


def _around(
    state: State, scans: tuple[Expression, ...], loops: Sequence[Loop]
) -> tuple[Sequence[Loop], Sequence[Loop], Sequence[Loop]]:
    """The loops before the innermost ones of the scanned axis, these, and what stands inside them."""
    axis = scans[0].attribute.axes[0]
    bound = any(loop.axis == axis for loop in state.plan.grid)
    refuse(bound, f"bind: {axis.name} is scanned, so its loops run in order")
    refuse(state.plan.cuts[axis].has("thread"), f"split: {axis.name} is scanned, so threads cannot share it")
    mine = [at for at, loop in enumerate(loops) if loop.axis == axis]
    first = end = mine[-1] + 1
    while first > 0 and loops[first - 1].axis == axis:
        first -= 1
    for loop in loops[end:]:
        varies = any(loop.axis in e.axes for e in scans)
        refuse(varies, f"order: {loop} stands inside the scan of {axis.name}, which varies over it")
    for loop in loops[mine[0] : first]:
        repeats = any(loop.axis not in e.axes for e in scans)
        refuse(repeats, f"order: {loop} repeats steps of the scan of {axis.name}, which does not vary over it")
    return loops[:first], loops[first:end], loops[end:]


def _others(state: State, e: Expression) -> tuple[Variable, ...]:
    return tuple(axis for axis in state.facts.axes(e) if axis != e.attribute.axes[0])


def _resume(state: State, e: Expression, carry: Value) -> Memory | None:
    """Where the carry waits while other loops run between those of the axis; it is taken up from there."""
    axis = e.attribute.axes[0]
    partial = state.top.partials[axis]
    if partial.level == 0:
        return None
    memory = carried_memory(state, e, axis, _others(state, e))
    take_up(state, carry, memory, partial.start)
    return memory


def _scan(state: State, e: Expression, carry: Value) -> None:
    """One step: the present tile of the argument, scanned."""
    (op, (axis,)), (argument,) = e.attribute, e.arguments
    source = guarded(state, finished_value(state, argument), (axis,), scan_start(op, e.dtype))
    source = spread(state, source, state.parts(state.facts.axes(e)))
    value = Value(state.fresh("v"), e.dtype, source.parts)
    state.emit(Scan(value, op, source, state.parts((axis,)), carry))
    state.top.memo[e] = (value, len(state.scopes) - 1)

"""Lowering: a region and a schedule become a kernel.

Demand-driven. The loops of each output are opened in order; in the innermost body the stored expression is asked for,
and everything that it needs is made on the way: reductions first, each in the outermost scope that has its axes, then
values; scans as their axis is walked. A reduction whose outer loop is ordered outside a parallel loop keeps partial
results in local memory between its iterations.
"""

from __future__ import annotations

import math
from functools import partial

from smelt.graph import Index, Variable, as_index, less
from smelt.kernel.actions import ACTIONS, Schedule
from smelt.kernel.barriers import with_barriers
from smelt.kernel.ir import Accumulator, For, If, Kernel, Load, Local, Statement, Store, Update, Value, statements
from smelt.kernel.lowering.hooks import Handler
from smelt.kernel.lowering.memory import carried_memory, take_up
from smelt.kernel.lowering.nest import grid, nest
from smelt.kernel.lowering.plan import Illegal, Loop, Plan, refuse
from smelt.kernel.lowering.reduce import accumulator, folded, is_kept, prepare, reduction_loops, update
from smelt.kernel.lowering.scan import scanned_nest, scanning_loops
from smelt.kernel.lowering.state import State
from smelt.kernel.lowering.values import store, value_of
from smelt.kernel.region import Expression, Less, Output, Region, extent


def lower(region: Region, schedule: Schedule = (), name: str = "k") -> Kernel:
    """The kernel that computes a region as a schedule says. Raises `Illegal` for a schedule that does not fit."""
    state = State(_plan(region, schedule))
    given = {type(action) for action in schedule}
    state.handlers = tuple(
        handler(state) for kind, handler in ACTIONS.items() if kind in given and handler is not Handler
    )
    _check_reads(state)
    for outputs in [region.outputs] if state.plan.together else _nests(state):
        _store(state, outputs)
    for handler in state.handlers:
        handler.finished()
    for expected, refusal in state.plan.expected.items():
        refuse(expected not in state.used, refusal)
    counts = [s.count for s in state.body if isinstance(s, For) and s.kind == "grid"]
    tasks = sum(counts, as_index(0)) if counts else as_index(1)
    body = _grouped(state.body) if state.plan.threads > 1 else state.body
    local = [Local(buffer) for buffer in state.memory.values()]
    made = Kernel(name, tuple(region.buffers()), region.parameters, (*local, *body), tasks, state.plan.threads)
    for action in schedule:
        made = action.on(made)
    return made


def _plan(region: Region, schedule: Schedule) -> Plan:
    """The actions checked and gathered, those first that make the loops that others name."""
    plan = Plan(region)
    for action in sorted(schedule, key=lambda action: not action.cuts):
        action.apply(plan)
    for kind in ACTIONS:
        kind.settle(plan)
    return plan


def _grouped(body: list[Statement]) -> list[Statement]:
    """The statements as a group of threads runs them together."""
    extents: dict[str, int] = {}
    for statement in statements(body):
        if isinstance(statement, Load | Accumulator):
            for part in statement.value.parts:
                if part.stride and extents.setdefault(part.name, part.extent) != part.extent:
                    raise Illegal(f"{part.name} is shared out over more threads in one place than in another")
    return with_barriers(body)


def _check_reads(state: State) -> None:
    """Outputs are read after the last store to them, never by other tasks."""
    outputs = state.region.outputs
    for at, output in enumerate(outputs):
        later = {other.buffer.name for other in outputs[at:]}
        earlier = {other.buffer.name for other in outputs[:at]}
        for e in state.facts.below(output.value):
            if e.op != "load":
                continue
            name = e.attribute.buffer.name
            refuse(name in later, f"{name} is read before its last store")
            waits = not state.plan.grid or name not in earlier
            refuse(not waits, f"{name} is read by tasks that do not wait for those that store it")


# --- outputs


def _nests(state: State) -> list[tuple[Output, ...]]:
    """Outputs that are stored in one nest of loops: neighbors over the same axes, none of which reads another."""
    region = state.region
    written = {output.buffer.name for output in region.outputs}
    reads = any(e.op == "load" and e.attribute.buffer.name in written for e in region.order())
    nests: list[tuple[Output, ...]] = []
    for output in region.outputs:
        first = nests[-1][0] if nests and not reads else None
        alike = (
            first is not None
            and region.parallel_axes(first) == region.parallel_axes(output)
            and not (state.facts.scans(first.value) or state.facts.scans(output.value))
            and _loops(state, first) == _loops(state, output)
        )
        if alike:
            nests[-1] = (*nests[-1], output)
        else:
            nests.append((output,))
    return nests


def _store(state: State, outputs: tuple[Output, ...]) -> None:
    """The nest of an output, in whose innermost body others are stored as well."""
    output, plan, region = outputs[0], state.plan, state.region
    axes = region.parallel_axes(output)
    head, outer, reduction = _loops(state, output)
    refuse(reduction is not None and plan.together, "together: a loop of a reduction stands outside")
    tasks = [loop for loop in plan.grid if loop.axis in axes]
    shared = all(loop.axis in region.parallel_axes(stored) for stored in outputs for loop in tasks)
    within = plan.grid and (not tasks or head[: len(tasks)] != tasks or not shared)
    refuse(within, "bind: the grid must be the outermost loops of every output")
    state.output, state.consumers = output, tuple(stored.value for stored in outputs)
    state.wanted = frozenset().union(*(state.facts.below(stored.value) for stored in outputs))
    state.roots = {axis: state.whole(axis, plan.cuts[axis]) for axis in axes}
    reduced = reduction.attribute.axes if reduction is not None else ()
    begun = [*state.roots.values(), *(state.whole(axis, plan.cuts[axis]) for axis in reduced)]
    leaf = partial(_finish, state, outputs)
    if outer is not None and reduction is not None:
        leaf = partial(_continue, state, outputs, reduction, outer)

    def inside() -> None:
        state.grid_depth = len(state.scopes) - 1 if tasks else 0
        scanned_nest(state, output, head[len(tasks) :], leaf)

    state.grid_depth = 0
    with state.scope(state.body, begun):
        if tasks:
            grid(state, tasks, inside)
        else:
            inside()


def _loops(state: State, output: Output) -> tuple[list[Loop], Loop | None, Expression | None]:
    """The loops of an output's nest, the one of them that is a reduction's, and that reduction."""
    plan, axes = state.plan, state.region.parallel_axes(output)
    if not plan.order:
        loops = [Loop(a, level) for a in axes for level in range(plan.cuts[a].levels)]
        return scanning_loops(state, loops, output), None, None
    last = max((at for at, loop in enumerate(plan.order) if loop.axis in axes), default=-1)
    reduced = {a for e in state.facts.below(output.value) if e.op == "reduce" for a in e.attribute.axes}
    head = [loop for loop in plan.order[: last + 1] if loop.axis in axes or loop.axis in reduced]
    outside = [loop for loop in head if loop.axis not in axes]
    return (head, outside[0], _outer_reduction(state, output, outside)) if outside else (head, None, None)


def _outer_reduction(state: State, output: Output, outside: list[Loop]) -> Expression:
    """The one reduction that a loop ordered outside a parallel loop belongs to."""
    axes = set(state.region.parallel_axes(output))
    axis = outside[0].axis
    refuse(len(outside) > 1, "order: only one loop of a reduction may stand outside a parallel loop")
    found = [r for r in state.facts.reductions(output.value) if axis in r.attribute.axes]
    alone = len(found) == 1 and set(state.facts.axes(found[0])) == axes
    stands = f"order: {outside[0]} stands outside"
    refuse(not alone, f"{stands}, which needs one reduction over {axis.name} and the output's axes")
    (reduction,) = found
    refuse(state.facts.scans(output.value), f"{stands}, but the output needs a scan")
    refuse(as_index(extent(axis)).low < 1, f"{stands}, but {axis.name} may be empty")
    refuse(reduction.attribute.axes[0] in state.plan.online, f"{stands}, but {axis.name} is online")
    return reduction


def _finish(state: State, outputs: tuple[Output, ...]) -> None:
    """In the innermost body: what is stored there."""
    if not any(handler.storing(outputs, partial(_put, state, outputs)) for handler in state.handlers):
        _put(state, outputs)


def _put(state: State, outputs: tuple[Output, ...]) -> None:
    """The values, then their stores, so that one may lie where another was read."""
    found: list[tuple[Output, Value]] = []
    for output in outputs:
        prepare(state, output.value)
        found.append((output, value_of(state, _stored(output))))
    for output, value in found:
        index = tuple(i.substitute(state.top.substitution) for i in output.index)
        mask = state.conditions(state.region.parallel_axes(output))
        store(state, output.buffer, index, value, mask, state.plan.stream)


def _stored(output: Output) -> Expression:
    """What is handed to a store, which rounds to the type of the memory itself."""
    e = output.value
    return e.arguments[0] if e.op == "round16" and e.attribute is output.buffer.dtype else e


# --- a reduction whose outer loop is open already


def _continue(state: State, outputs: tuple[Output, ...], reduction: Expression, outer: Loop) -> None:
    """One iteration of the outer loop: take up the partial result, add to it, and finish or put it away."""
    start, end = _stretch(state, outer.axis)
    size = extent(outer.axis)
    total = accumulator(state, reduction, ())
    last = Less(as_index(size) - 1, end)
    always_last, never_last = less(*last), less(end, size)
    memory = None
    if start != 0 or not always_last:
        memory = carried_memory(state, reduction, outer.axis, state.facts.axes(reduction))
        take_up(state, total, memory, start)
    _add(state, reduction, outer, total)
    if never_last and memory is not None:
        state.emit(Store(*memory, total))
        return
    body = state.top.body if always_last else []
    with state.scope(body, floor=not always_last) as scope:
        scope.memo[reduction] = (total, len(state.scopes) - 1)
        _finish(state, outputs)
    if not always_last and memory is not None:
        state.emit(If((last,), body, [Store(*memory, total)]))


def _stretch(state: State, axis: Variable) -> tuple[Index, Index]:
    """What the present iteration of the outer loop covers: its first element of the axis, one past its last."""
    binding = state.top.bindings.get(axis)
    if binding is not None:
        return binding.start, binding.start + math.prod(part.extent for part in binding.parts)
    part = state.top.partials[axis]
    return part.start, part.start + part.total


def _add(state: State, reduction: Expression, outer: Loop, total: Value) -> None:
    """The loops of the reduction that are still closed, adding to its partial result."""
    fold = reduction.attribute
    pieces = [piece for axis in fold.axes for piece in state.plan.cuts[axis].inner]
    tiled = any(is_kept(reduction, piece.kind) for piece in pieces)
    own = accumulator(state, reduction, fold.axes) if tiled else total
    loops = [loop for loop in reduction_loops(state, reduction) if loop != outer]
    outside, state.consumers = state.consumers, reduction.arguments
    nest(state, loops, partial(update, state, own, reduction))
    state.consumers = outside
    if tiled:
        state.emit(Update(total, fold.op, (folded(state, own, reduction),)))

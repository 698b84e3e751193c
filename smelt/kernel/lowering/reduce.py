"""Reductions: finished before the body that needs them, in accumulators that keep their tile parts until the end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from smelt.graph import Variable, identity
from smelt.kernel.ir import DOTS, Part, Update, Value
from smelt.kernel.lowering.hooks import Phase
from smelt.kernel.lowering.nest import nest
from smelt.kernel.lowering.plan import Illegal, Loop
from smelt.kernel.lowering.state import State, parts_of
from smelt.kernel.lowering.values import available, find, guarded, is_stored, spread, value_of
from smelt.kernel.region import Expression, extent
from smelt.kernel.segments import largest_tile


def finished_value(state: State, e: Expression) -> Value:
    """The value of an expression, with every reduction that it needs."""
    prepare(state, e)
    return value_of(state, e)


def prepare(state: State, e: Expression) -> None:
    """Finish every reduction that an expression needs, those that others need first."""
    # What has been made, or lies in memory, needs no reductions any more.
    stack, seen = [e], set[Expression]()
    while stack:
        at = stack.pop()
        if at in seen or not state.facts.reductions(at) or available(state, at):
            continue
        seen.add(at)
        if at.op == "reduce":
            finish(state, at)
        else:
            stack.extend(reversed(at.arguments))


def external(state: State, reduction: Expression) -> list[Expression]:
    """The reductions to finish before this one: those below that do not vary over its axes, or over those of reductions
    in between; without those that only nodes in memory need.
    """
    found: dict[Expression, None] = {}
    seen: set[tuple[Expression, frozenset[Variable]]] = set()
    stack = [(reduction.arguments[0], frozenset(reduction.attribute.axes))]
    while stack:
        at, axes = stack.pop()
        if (at, axes) in seen or not state.facts.reductions(at) or is_stored(state, at):
            continue
        seen.add((at, axes))
        if at.op == "reduce" and not at.axes & axes:
            found[at] = None
        else:
            inner = axes.union(at.attribute.axes) if at.op == "reduce" else axes
            stack += [(argument, inner) for argument in reversed(at.arguments)]
    return list(found)


def finish(state: State, reduction: Expression) -> None:
    """Make a reduction, in the outermost scope where its axes are open and what it needs has been made."""
    if available(state, reduction):
        return
    phases = (handler.phase(reduction) for handler in state.handlers)
    alone = Phase((reduction,), partial(reduce, state, (reduction,)))
    members, make = next((phase for phase in phases if phase is not None), alone)
    for member in members:
        for needed in external(state, member):
            if needed not in members:
                finish(state, needed)
    depth = max(_depth(state, member) for member in members)
    outer, state.consumers = state.consumers, tuple(member.arguments[0] for member in members)
    with state.moved_out(depth):
        make(depth)
    state.consumers = outer
    if reduction not in members:
        finish(state, reduction)


def _depth(state: State, reduction: Expression) -> int:
    """The depth of the scope in which a reduction is made."""
    found = [find(state, needed) for needed in external(state, reduction)]
    return max(state.depth(reduction), state.floor(), *(pair[1] for pair in found if pair is not None))


def reduce(state: State, members: tuple[Expression, ...], depth: int) -> None:
    """Make reductions over the same axes in the present scope, which is the one at `depth`."""
    axes = members[0].attribute.axes
    extras = [extra for handler in state.handlers if (extra := handler.extra(members, depth)) is not None]
    made = {member: accumulator(state, member, axes) for member in members}
    steps: list[Callable[[], None]] = [partial(update, state, total, member) for member, total in made.items()]
    steps += [extra.each for extra in extras]
    loops = reduction_loops(state, members[0])
    # Several share the outermost loop of each axis, and walk what is left each by itself.
    shared = len(loops) if len(members) == 1 else 1 + max(at for at, loop in enumerate(loops) if loop.level == 0)

    def leaf() -> None:
        for step in steps:
            nest(state, loops[shared:], step)

    with state.scope(state.top.body, [state.whole(axis, state.plan.cuts[axis]) for axis in axes]):
        for handler in state.handlers:
            handler.walking(members)
        nest(state, loops[:shared], leaf)
    for member, total in made.items():
        state.top.memo[member] = (folded(state, total, member), depth)
    for extra in extras:
        extra.after()


def reduction_loops(state: State, reduction: Expression) -> list[Loop]:
    """The loops of a reduction: as `order` has them, or axis by axis."""
    axes = reduction.attribute.axes
    loops = [Loop(a, level) for a in axes for level in range(state.plan.cuts[a].levels)]
    place = {loop: at for at, loop in enumerate(state.plan.order)}
    return sorted(loops, key=lambda loop: place.get(loop, len(place)))


def accumulator(state: State, reduction: Expression, axes: tuple[Variable, ...], registers: bool = True) -> Value:
    """An accumulator with the tile parts of the axes that the reduction varies over, and of the reduced `axes`.

    Those are as large as a tile of the axis can be; maybe without registers.
    """
    own: list[Part] = []
    for axis in axes:
        cut = state.plan.cuts[axis]
        parts = parts_of(axis, cut.inner, largest_tile(extent(axis), cut))
        own += [p for p in parts if is_kept(reduction, p.kind) and (registers or p.kind != "reg")]
    outer = state.parts(state.facts.axes(reduction))
    together = state.sorted_parts(sorted([*outer, *own], key=state.part_order))
    return state.accumulate(reduction.dtype, together, identity(reduction.attribute.op, reduction.dtype))


def is_kept(reduction: Expression, kind: str) -> bool:
    """Whether the accumulator has parts of a kind along a reduced axis.

    Registers of words are summed at every step, as matrix instructions do it.
    """
    return kind != "reg" or reduction.arguments[0].op not in DOTS


def update(state: State, total: Value, reduction: Expression) -> None:
    """One step: fold the present tile of the summand into the accumulator."""
    fold, (summand,) = reduction.attribute, reduction.arguments
    prepare(state, summand)
    terms = _products(state, reduction)
    needed = state.parts(fold.axes)
    if terms and not state.conditions(fold.axes) and not any(available(state, e) for e in (summand, *terms)):
        found = [tuple(value_of(state, factor) for factor in term.arguments) for term in terms]
        names = [{part.name for factor in factors for part in factor.parts} for factors in found]
        if all(part.name in have for part in needed for have in names):
            for term, factors in zip(terms, found, strict=True):
                op = term.op if term.op in DOTS else "fma"
                state.emit(Update(total, op, factors, state.plan.matrix.get(reduction, "")))
            return
    if reduction in state.plan.matrix:
        raise Illegal("matrix: the products are not summed as they are made")
    value = guarded(state, value_of(state, summand), fold.axes, identity(fold.op, reduction.dtype))
    # Without all parts of the tile, the value would be folded into elements beyond a short tile as well.
    value = spread(state, value, needed)
    kept = {part.name for part in total.parts}
    value = state.fold(fold.op, value, tuple(part for part in needed if part.name not in kept))
    state.emit(Update(total, fold.op, (value,)))


def _products(state: State, reduction: Expression) -> list[Expression]:
    """The products that a sum adds, also as sums of some: each is added by itself."""
    found, stack = list[Expression](), [reduction.arguments[0]]
    while stack:
        e = stack.pop()
        if e in state.plan.keeps or reduction.attribute.op != "add":
            return []
        if e.op in DOTS or (e.op == "mul" and e.dtype.is_float):
            found.append(e)
        elif e.op == "add" and e.dtype.is_float:
            stack += reversed(e.arguments)
        else:
            return []
    return found


def folded(state: State, total: Value, reduction: Expression) -> Value:
    """The accumulator of a reduction folded over its parts of the reduced axes."""
    names = {axis.name for axis in reduction.attribute.axes}
    return state.fold(reduction.attribute.op, total, tuple(part for part in total.parts if part.axis in names))

"""Local memory: how much room an axis takes there, and who uses which piece.

What lies in the padding of local memory is never used: masks and identities are applied after loads.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from smelt.dtypes import DType
from smelt.errors import InternalError
from smelt.graph import ZERO, Index, IndexLike, Variable, as_index, less, of, row_major, upper
from smelt.kernel.ir import If, Load, Statement, Update, Value
from smelt.kernel.lowering.plan import Dimension
from smelt.kernel.lowering.state import Reload, Room, State
from smelt.kernel.region import Buffer, Expression, Less, Place, extent
from smelt.kernel.segments import reach

Memory = tuple[Buffer, tuple[Index, ...]]  # and where the present tile lies in it


def held(
    state: State,
    letter: str,
    owner: object,
    node: Expression,
    rooms: Mapping[Variable, Room],
    order: Sequence[Dimension] = (),
) -> Reload:
    """Memory for a node with room for some of its axes, laid out in an order; the other axes stay as they are bound."""
    order = order or tuple(Dimension(axis) for axis in rooms)
    shape = tuple(dimension.size(rooms[dimension.axis].size) for dimension in order)
    bound = {axis: Room(1, ZERO, state.top.bindings.get(axis)) for axis in state.facts.axes(node)}
    buffer = shared_memory(state, letter, owner, node.dtype, shape)
    return Reload(buffer, tuple(of(dimension.axis) for dimension in order), {**bound, **rooms}, order)


def room_of(state: State, axis: Variable) -> Room:
    """What is left of an axis here, as far as tiles can touch it."""
    binding = state.top.bindings.get(axis)
    if binding is not None:
        return Room(binding.origin.cut.tile, binding.start, binding)
    partial = state.top.partials.get(axis)
    if partial is None or partial.origin is None:
        return Room(whole_size(state, axis), ZERO, None)
    totals, ends = [partial.total], []
    if partial.level > 0:
        # As large as for a whole block, so that all blocks share one piece of memory.
        width = partial.cut.width(partial.level - 1)
        totals += [width] if upper(extent(axis)) >= width else []
        ends = [reach(n, partial.cut, partial.level) for n in totals]
    ends += [end for n in totals for end in (upper(n) + _slack(state, axis), _thread_room(state, n))]
    return Room(max(ends), partial.start, partial)


def whole_size(state: State, axis: Variable) -> int:
    """How many elements of a whole axis tiles can touch, however it is walked."""
    total, plan = extent(axis), state.plan
    ends = [reach(total, cut) for cut in (plan.cuts[axis], *plan.copies_along(axis))]
    return max(*ends, upper(total) + _slack(state, axis), _thread_room(state, total), 1)


def power(n: int) -> int:
    """The least power of two that is not below a number."""
    return 1 << max(0, n - 1).bit_length()


def _thread_room(state: State, total: IndexLike) -> int:
    """Room for a copy by the threads of a group, which walk a power of two of elements at a time."""
    return power(upper(total)) if state.plan.threads > 1 else 0


def _slack(state: State, axis: Variable) -> int:
    """How far a walk from the middle of an axis may overshoot. Copies start at blocks, other cuts at tiles."""
    plan, main = state.plan, state.plan.cuts[axis]
    blocks = [main.width(level) for level in range(main.levels)]
    found = [copy.tile for copy in plan.copies_along(axis) if any(width % copy.tile for width in blocks[:-1])]
    if plan.threads > 1 and _is_copied_from_memory(state, axis):
        found += [power(min(width, upper(extent(axis)))) for width in blocks[:-1]]
    return max(found, default=1) - 1


def _is_copied_from_memory(state: State, axis: Variable) -> bool:
    """Whether a copy along an axis reads what another one, or a phase, has left in memory."""
    plan = state.plan
    left = {*plan.keeps, *(stage.node for stage in plan.stages)}
    return any(axis in stage.axes and (state.facts.below(stage.node) - {stage.node}) & left for stage in plan.stages)


def shared_memory(state: State, letter: str, owner: object, dtype: DType, shape: tuple[int, ...]) -> Buffer:
    """Local memory that one owner uses again and again, but never while what it holds may still be read."""
    if shape:  # rows start at whole vectors
        shape = (*shape[:-1], -(-shape[-1] // state.plan.lane) * state.plan.lane)
    # Scopes that wait count too: loops that run once share the body around them, so their reads may come later.
    scopes = [scope for waiting in (state.scopes, *state.waiting) for scope in waiting]
    live = {reload.buffer.name for scope in scopes for reload in scope.reloads.values()}
    for number in itertools.count():
        key = (letter, owner, shape, number)
        if key not in state.memory:
            state.memory[key] = Buffer(state.fresh(letter), dtype, shape, row_major(shape), 0, Place.LOCAL)
        if state.memory[key].name not in live:
            return state.memory[key]
    raise InternalError("there is always new memory")


def in_vectors(state: State, axes: Sequence[Variable]) -> tuple[Variable, ...]:
    """The axes of local memory in an order in which vectors are stored whole: the one with lanes is the last."""
    return tuple(sorted(axes, key=lambda axis: state.plan.cuts[axis].has("lane")))


# --- what one iteration of a loop leaves to the next


def carried_memory(state: State, owner: Expression, axis: Variable, axes: tuple[Variable, ...]) -> Memory:
    """Memory for what one iteration of an axis's outermost loop leaves to the next, over all that other `axes` have
    inside that loop, and the present tile's place in it.
    """
    opened = next(
        at
        for at, scope in enumerate(state.scopes)
        if axis in scope.bindings or (axis in scope.partials and scope.partials[axis].level > 0)
    )
    axes = in_vectors(state, axes)
    with state.moved_out(opened):
        rooms = [room_of(state, a) for a in axes]
    shape, place = [], []
    for a, (size, base, opener) in zip(axes, rooms, strict=True):
        binding = state.top.bindings[a]
        # Tiles that overlap have places of their own, or what they share would be taken up by both.
        apart = binding.seen != 0 and opener is not binding
        shape.append(-(-size // binding.origin.cut.tile) * binding.origin.cut.tile if apart else size)
        place.append(binding.index - base + (binding.seen if apart else 0))
    return shared_memory(state, "p", owner, owner.dtype, tuple(shape)), tuple(place)


def take_up(state: State, total: Value, memory: Memory, start: Index) -> None:
    """Set an accumulator to what an earlier iteration left, unless this one, from `start` on, is the first."""
    if start == 0:
        return
    before = Value(state.fresh("v"), total.dtype, total.parts)
    resume: list[Statement] = [Load(before, *memory), Update(total, "set", (before,))]
    later = Less(as_index(0), start)
    if less(*later):
        state.top.body.extend(resume)
    else:
        state.emit(If((later,), resume))

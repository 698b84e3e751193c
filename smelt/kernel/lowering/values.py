"""Making values: each expression on demand, once per scope that needs it.

A value without tile parts is made in the outermost scope where its axes are open and its operands have been made. A
tile is made where it is used: holding it over a loop would cost registers. Reductions are made beforehand (see
`reduce`).
"""

from __future__ import annotations

from collections.abc import Callable

from smelt.dtypes import Scalar, bool_, compute_dtype
from smelt.errors import InternalError
from smelt.graph import Index, Variable, less, of
from smelt.kernel.ir import Compute, Load, Part, Statement, Store, Value
from smelt.kernel.lowering.state import Binding, Reload, State
from smelt.kernel.region import Buffer, Expression, Mask, variables_of


def find(state: State, e: Expression) -> tuple[Value, int] | None:
    """The value of an expression for the present bindings, and the depth of the scope that made it."""
    top = state.scopes[-1]
    found = top.memo.get(e)
    if found is not None:
        return found
    axes = state.facts.axes(e)
    for at in range(len(state.scopes) - 2, -1, -1):
        scope = state.scopes[at]
        found = scope.memo.get(e)
        if found is not None and all(scope.bindings.get(a) is top.bindings.get(a) for a in axes):
            top.memo[e] = found
            return found
    return None


def value_of(state: State, root: Expression) -> Value:
    """The value of an expression whose reductions are finished."""
    stack = [root]
    while stack:
        e = stack[-1]
        if find(state, e) is not None or _reload(state, e):
            stack.pop()
            continue
        if e.op in ("reduce", "scan"):
            raise InternalError(f"a {e.op} was not finished before its value was asked for")
        made = [find(state, a) for a in e.arguments]
        missing = [a for a, found in zip(e.arguments, made, strict=True) if found is None]
        if missing:
            stack.extend(reversed(missing))
            continue
        _make(state, e, [pair for pair in made if pair is not None])
        stack.pop()
    found = find(state, root)
    assert found is not None
    return found[0]


def available(state: State, e: Expression) -> bool:
    """True if a value need not be computed: it has been made, or lies in memory."""
    return find(state, e) is not None or find_reload(state, e) is not None


def _make(state: State, e: Expression, made: list[tuple[Value, int]]) -> None:
    """The value of an expression whose arguments have been made, with the depths of their scopes."""
    arguments, deepest = tuple([value for value, _ in made]), max([depth for _, depth in made], default=0)
    op, attribute = e.op, e.attribute
    match op:
        case "load":
            _load(state, e, arguments, deepest)
            return
        case "index":
            attribute = attribute.substitute(state.top.substitution)
            parts = state.parts(state.facts.axes(e), attribute.variables())
        case "mask":
            attribute = _mask(state, attribute)
            parts = state.parts(state.facts.axes(e), variables_of((), attribute))
            if not attribute:
                op, attribute = "const", True
        case _:
            parts = state.joined(arguments)
    _place(state, e, deepest, parts, lambda value: Compute(value, op, arguments, attribute))


def _load(state: State, e: Expression, chosen: tuple[Value, ...], deepest: int) -> None:
    access, axes = e.attribute, state.facts.axes(e)
    names = [Variable(state.fresh("h"), pick.first, pick.last) for pick in access.picks]
    values = {**state.top.substitution, **{old: of(new) for old, new in zip(access.picks, names, strict=True)}}
    index = tuple(i.substitute(values) for i in access.index)
    mask = _mask(state, access.mask) + state.conditions(axes)
    used = variables_of(index, mask) | {part.variable for value in chosen for part in value.parts}
    picks = tuple(zip(names, chosen, strict=True))
    _place(state, e, deepest, state.parts(axes, used), lambda value: Load(value, access.buffer, index, mask, picks))


def _place(
    state: State, e: Expression, deepest: int, parts: tuple[Part, ...], statement: Callable[[Value], Statement]
) -> None:
    """Make a value in the outermost scope that can; `deepest` is that of what it is made of."""
    bindings = state.top.bindings
    if e.op == "const":
        depth = 0
    elif any(bindings[axis].parts for axis in state.facts.axes(e)):
        depth = len(state.scopes) - 1
    else:
        depth = max(state.depth(e), deepest, state.floor())
    value = Value(state.fresh("v"), e.dtype, parts)
    state.emit(statement(value), depth)
    state.scopes[depth].memo[e] = state.top.memo[e] = (value, depth)


def _mask(state: State, mask: Mask) -> Mask:
    """The conditions for the present bindings, without those that always hold."""
    values = state.top.substitution
    return tuple(c for c in (condition.substitute(values) for condition in mask) if not less(*c))


# --- nodes that lie in memory


def find_reload(state: State, e: Expression) -> tuple[Reload, int] | None:
    """Where a node lies in memory for the present bindings."""
    if not state.plan.uses_memory:
        return None
    for at in range(len(state.scopes) - 1, -1, -1):
        reload = state.scopes[at].reloads.get(e)
        if reload is not None and _is_valid(state, reload):
            return reload, at
    return None


def is_stored(state: State, e: Expression) -> bool:
    """True if a node lies in memory, as far as the axes that are open now can tell."""
    reloads = [scope.reloads[e] for scope in state.scopes if e in scope.reloads]
    return any(_is_valid(state, reload, lenient=True) for reload in reloads)


def _is_valid(state: State, reload: Reload, lenient: bool = False) -> bool:
    for axis, (_, _, opener) in reload.rooms.items():
        binding = state.top.bindings.get(axis)
        if isinstance(opener, Binding):
            same = binding is opener or (lenient and binding is None)
        else:
            same = lenient or (binding is not None and (opener is None or binding.origin.within(opener)))
        if not same:
            return False
    return True


def _reload(state: State, e: Expression) -> bool:
    found = find_reload(state, e)
    if found is None:
        return False
    reload, depth = found
    for handler in state.handlers:
        handler.held(e, reload)
    index, axes = reload_index(state, reload), state.facts.axes(e)
    mask = state.conditions(axes) if reload.masked else ()
    parts = state.parts(axes, variables_of(index, mask))
    _place(state, e, depth, parts, lambda value: Load(value, reload.buffer, index, mask))
    return True


def reload_index(state: State, reload: Reload) -> tuple[Index, ...]:
    """Where the elements of the present tile lie."""
    bindings = state.top.bindings
    values = {axis: bindings[axis].index - room.base for axis, room in reload.rooms.items()}
    index = tuple(i.substitute(values) for i in reload.places)
    # Only now: a tile may reach past the end of its axis, so what is true of the axis may not be of the tile.
    return tuple(cut.place(i) for i, cut in zip(index, reload.order, strict=True)) if reload.order else index


# --- small values


def constant(state: State, like: Value, number: Scalar) -> Value:
    """A constant of a value's type, in the present scope."""
    return state.compute("const", like.dtype, (), (), number)


def computed(state: State, op: str, *arguments: Value) -> Value:
    """An elementwise operation in the present scope, with the type of the last argument."""
    return state.compute(op, arguments[-1].dtype, state.joined(arguments), arguments)


def guarded(state: State, value: Value, axes: tuple[Variable, ...], neutral: Scalar) -> Value:
    """The value, with a neutral element instead where its tile reaches past the end of these axes."""
    mask = state.conditions(axes)
    if not mask:
        return value
    inside = state.compute("mask", bool_, state.parts(axes, variables_of((), mask)), (), mask)
    return computed(state, "where", inside, value, constant(state, value, neutral))


def spread(state: State, value: Value, parts: tuple[Part, ...]) -> Value:
    """The value with at least these parts: repeated along those that it lacks."""
    have = {part.name for part in value.parts}
    lacking = [part for part in parts if part.name not in have]
    if not lacking:
        return value
    together = state.sorted_parts(sorted([*value.parts, *lacking], key=state.part_order))
    return state.compute("copy", value.dtype, together, (value,))


def store(
    state: State, buffer: Buffer, index: tuple[Index, ...], value: Value, mask: Mask = (), stream: bool = False
) -> None:
    """Store a tile, repeated along the parts that the index has and the value lacks."""
    if value.dtype is not compute_dtype(buffer.dtype):
        raise InternalError(f"{value.dtype} is stored to {buffer.name}, which holds {buffer.dtype}")
    used, bindings = variables_of(index, mask), state.top.bindings
    axes = [axis for axis in state.region.axes if axis in bindings]
    parts = tuple(part for axis in axes for part in bindings[axis].parts if part.variable in used)
    state.emit(Store(buffer, index, spread(state, value, parts), mask, stream))

"""Calls, branches, loops, and operations that are nothing on one device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from smelt.dtypes import DType, bool_, int32
from smelt.formats.stablehlo import loops
from smelt.formats.stablehlo.rows import Call, Row, Value, rows, stand_in
from smelt.formats.stablehlo.writing import own_composite
from smelt.graph import (
    Branch,
    Loop,
    Node,
    Op,
    Shape,
    build,
    closed,
    constant_value,
    pairs,
    private_nodes,
    substituted,
    values_of,
)


def _func_call(call: Call) -> list[Value]:
    return call.reading.function(call.symbol("callee"), call.operands, call.operation)


def _composite(call: Call) -> list[Value]:
    """A composite is what its decomposition says; ours are nodes, if that is what they compute."""
    own = own_composite(call)
    if own is not None:
        return own
    return call.reading.function(call.symbol("decomposition"), call.operands, call.operation)


def _same(call: Call) -> list[Value]:
    return list(call.operands)


def _tuple_element(call: Call) -> list[Value]:
    (parts,), index = call.operands, call.integer("index")
    if not isinstance(parts, tuple) or not 0 <= index < len(parts):
        call.wrong(f"there is no element {index}")
    return [parts[index]]


# --- branches


def _if(call: Call) -> list[Value]:
    (which,) = call.operands
    if which.shape or not which.dtype.is_bool:
        call.wrong("it is decided by one bool")
    return _branch(
        call,
        which,
        lambda: call.reading.region(call.region(0), [], call.scope),
        lambda: call.reading.region(call.region(1), [], call.scope),
    )


def _case(call: Call) -> list[Value]:
    """Branch `index`; an index outside chooses the last."""
    (index,) = call.operands
    count = len(call.operation.regions)
    if index.shape or index.dtype is not int32 or count == 0:
        call.wrong("it is decided by one int32, and has a branch")
    if index.op is Op.CONST:
        chosen = int(constant_value(index))
        return call.reading.region(call.region(chosen if 0 <= chosen < count else count - 1), [], call.scope)
    last = build.const(count - 1, int32)
    inside = build.bitwise_and(build.le(build.const(0, int32), index), build.le(index, last))
    return _tree(call, build.where(inside, index, last), 0, count)


def _tree(call: Call, index: Node, low: int, high: int) -> list[Value]:
    """One of the branches from low up to high, by halves."""
    if high - low == 1:
        return call.reading.region(call.region(low), [], call.scope)
    middle = (low + high) // 2
    which = build.lt(index, build.const(middle, int32))
    return _branch(call, which, lambda: _tree(call, index, low, middle), lambda: _tree(call, index, middle, high))


def _branch(call: Call, which: Node, yes: Callable[[], list[Value]], no: Callable[[], list[Value]]) -> list[Value]:
    """What one of two functions without arguments gives; only the chosen one is computed."""
    if which.op is Op.CONST:
        return (yes if constant_value(which) else no)()
    results: list[list[Node]] = []
    own = []
    for function in (yes, no):
        with private_nodes() as made:
            results.append(function())
            own.append(made)
    if _types(results[0]) != _types(results[1]) or None in _types(results[0]):
        call.wrong("its branches give different types")
    bodies = closed.close([pairs.all_parts(nodes) for nodes in results], [], own=own)
    if not results[0]:
        return []
    values = values_of(Branch(*bodies.bodies), [which, *bodies.hoisted])
    return list(pairs.in_pairs([x.dtype for x in results[0]], values))


def _types(values: Sequence[Value]) -> list[tuple[DType, Shape] | None]:
    """The types of tensors; None for other values."""
    return [(x.dtype, x.shape) if isinstance(x, Node) else None for x in values]


# --- loops


def _while(call: Call) -> list[Value]:
    """`while test: body`; a loop that counts gets a length, so that it can be differentiated in reverse."""
    states: list[Node] = list(call.operands)
    if not all(isinstance(state, Node) for state in states):
        call.refuse("a loop whose values are no tensors")
    stand_ins = [stand_in(state.dtype, state.shape) for state in states]
    tests = call.reading.region(call.region(0), stand_ins, call.scope)
    if _types(tests) != [(bool_, ())]:
        call.wrong("its test gives one bool")
    [asked] = tests
    if loops.never_runs(states, stand_ins, asked):  # its body may read rows of what has none
        return list(states)
    filled = call.reading.filled
    call.reading.filled = [*filled, *loops.filled(states, stand_ins, asked)]
    following = call.reading.region(call.region(1), stand_ins, call.scope)
    call.reading.filled = filled
    if _types(following) != _types(states):
        call.wrong("its values change their types")
    real, inner, next_ = map(pairs.all_parts, (states, stand_ins, following))
    found = _looped(real, inner, next_, asked)
    return list(pairs.in_pairs([state.dtype for state in states], found))


def _looped(states: list[Node], stand_ins: list[Node], following: list[Node], asked: Node) -> Sequence[Node]:
    """A loop whose states are real: the parts of complex ones are states of their own."""
    found = loops.counted(states, stand_ins, asked, following)
    if found is not None:
        return found
    if asked.op is Op.CONST and not constant_value(asked):
        return states
    # What is handed on unchanged is no state.
    kept = {old: state for old, new, state in zip(stand_ins, following, states, strict=True) if new is old}
    carried = [k for k, old in enumerate(stand_ins) if old not in kept]
    if not carried:  # it ends at once, or never
        return states
    *body, test = substituted([*(following[k] for k in carried), asked], kept)
    done = closed.close([body, [test]], [stand_ins[k] for k in carried])
    attribute = Loop(done.bodies[0], done.bodies[1], len(carried), len(done.hoisted), 0, None)
    values = values_of(attribute, [*(states[k] for k in carried), *done.hoisted])
    results: dict[int, Node] = dict(zip(carried, values, strict=True))
    return [results.get(k, state) for k, state in enumerate(states)]


ROWS: Final = {
    "func.call": Row(_func_call, ("callee",), tensors=False),
    "call": Row(_func_call, ("callee",), tensors=False),
    **rows(
        {
            "composite": Row(
                _composite,
                ("name", "decomposition", "composite_attributes"),
                None,
                "smelt's own become one node",
                False,
            ),
            "if": Row(_if, (), 1),
            "case": Row(_case, (), 1),
            "while": Row(_while, (), None, "a loop that counts becomes one of known length"),
            "optimization_barrier": Row(_same, tensors=False),
            "tuple": Row(lambda call: [tuple(call.operands)], tensors=False),
            "get_tuple_element": Row(_tuple_element, ("index",), 1, tensors=False),
            "after_all": Row(lambda call: [None], tensors=False),
            "create_token": Row(lambda call: [None], tensors=False),
        }
    ),
    "sdy.sharding_constraint": Row(_same, tensors=False),
    "sdy.mesh": Row(lambda call: []),
}

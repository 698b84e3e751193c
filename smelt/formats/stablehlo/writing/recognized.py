"""Composites `smelt.NAME` that are read: ours if their decompositions compute what ours would, or else not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from smelt.dtypes import int64
from smelt.errors import SmeltError
from smelt.formats.mlir import Array, Function, Operation, Ranked, Symbol, Typed
from smelt.formats.stablehlo.rows import Call, Value, stand_in
from smelt.formats.stablehlo.writing.program import decomposition
from smelt.graph import (
    BINARY,
    CONTROL,
    UNARY,
    Branch,
    Loop,
    Node,
    Op,
    bodies_of,
    build,
    parameter,
    substituted,
    topological,
    values_of,
    with_bodies,
)

_PREFIX: Final = "smelt."


class Own(NamedTuple):
    """What a composite stands for: values over stand-ins for its operands."""

    stand_ins: list[Node]
    values: list[Node]


def own_composite(call: Call) -> list[Value] | None:
    """The values of a composite of ours; None if it is another one, or says that it is ours and is not.

    Its decomposition and that which would be written for it are read by the same reader, and compared node by node: a
    file cannot lie about what it means.
    """
    name = call.attribute("name")
    if not isinstance(name, str) or not name.startswith(_PREFIX):
        return None
    if not all(isinstance(x, Node) and not x.dtype.is_complex for x in call.operands):
        return None
    told = _parameters(call.attribute("composite_attributes"))
    if told is None:
        return None
    types = tuple((x.dtype, x.shape) for x in call.operands)
    key = name, call.symbol("decomposition"), tuple(sorted(told.items())), types, call.operation.types
    known = call.reading.composites
    if key not in known:
        known[key] = _found(call, name.removeprefix(_PREFIX), told)
    own: Own | None = known[key]
    if own is None:
        return None
    return list(substituted(own.values, dict(zip(own.stand_ins, call.operands, strict=True))))


def _parameters(told: Any) -> dict[str, Any] | None:
    """Attributes as plain values; None if one of them is of a kind that is not ours."""
    found: dict[str, Any] = {}
    for name, value in (told or {}).items():
        if isinstance(value, Typed):
            found[name] = value.value
        elif isinstance(value, Array):
            found[name] = value.values
        elif value is None or isinstance(value, bool | str | int | float):
            found[name] = value
        else:
            return None
    return found


def _found(call: Call, name: str, told: dict[str, Any]) -> Own | None:
    stand_ins = [stand_in(x.dtype, x.shape) for x in call.operands]
    try:
        values = _made(call, name, told, stand_ins)
        if values is None or call.reading.trusted:
            return None if values is None else Own(stand_ins, values)
        module, function = decomposition(values[0].sources[0] if values[0].op is Op.ITEM else values[0])
    except (SmeltError, TypeError, ValueError, KeyError):  # parameters and types that do not fit together
        return None
    ours = call.reading.trusting(module).function(function, stand_ins)
    theirs = call.reading.function(call.symbol("decomposition"), stand_ins, call.operation)
    return Own(stand_ins, values) if alike(ours, theirs) else None


def alike(ours: Sequence[Value], theirs: Sequence[Value]) -> bool:
    """Whether two graphs are the same, node by node: those of branches are not shared."""
    if len(ours) != len(theirs) or not all(isinstance(x, Node) for x in (*ours, *theirs)):
        return False
    orders = topological(ours), topological(theirs)
    places = [{node: at for at, node in enumerate(order)} for order in orders]
    if len(orders[0]) != len(orders[1]):
        return False
    if [places[0][x] for x in ours] != [places[1][x] for x in theirs]:
        return False
    return all(_same(a, b, places) for a, b in zip(*orders, strict=True))


def _same(a: Node, b: Node, places: list[dict[Node, int]]) -> bool:
    if a is b:
        return True
    if (a.op, a.dtype, a.shape) != (b.op, b.dtype, b.shape) or a.op is Op.LEAF or a.leaf is not b.leaf:
        return False
    if [places[0][x] for x in a.sources] != [places[1][x] for x in b.sources]:
        return False
    if a.op not in CONTROL or a.op is Op.HOST:
        return bool(a.attribute == b.attribute)
    bodies = bodies_of(a), bodies_of(b)
    nothing: list[tuple[Node, ...]] = [()] * len(bodies[0])
    if len(bodies[0]) != len(bodies[1]) or with_bodies(a.attribute, nothing) != with_bodies(b.attribute, nothing):
        return False
    return all(alike(x, y) for x, y in zip(*bodies, strict=True))


# --- nodes by the names of their composites

Made = Callable[[Call, dict[str, Any], list[Node]], list[Node]]


def _made(call: Call, name: str, told: dict[str, Any], sources: list[Node]) -> list[Node] | None:
    """The values that a composite of this name should have."""
    if name in _MADE:
        return _MADE[name](call, told, sources)
    if name in UNARY and len(sources) == 1:
        return [build.unary(name, *sources)]
    if name in BINARY and len(sources) == 2:
        return [build.binary(name, *sources)]
    return [build.composite(name, *sources, **told)]


def _gather(call: Call, told: dict[str, Any], sources: list[Node]) -> list[Node]:
    x, *indices = sources
    return [build.gather(x, indices, told["axes"], checked=told["checked"])]


def _scatter(call: Call, told: dict[str, Any], sources: list[Node]) -> list[Node]:
    target, updates, *indices = sources
    return [build.scatter(told["op"], target, updates, indices, told["axes"], checked=told["checked"])]


def _sort(call: Call, told: dict[str, Any], sources: list[Node]) -> list[Node]:
    (x,), axis = sources, told["axis"]
    [kind] = call.operation.types
    declared = kind.sizes[axis] if isinstance(kind, Ranked) else None
    count = x.shape[axis] if declared is None else declared
    return [build.sort(x, axis, descending=told["descending"], indices=told["indices"], count=count)]


def _loop(call: Call, told: dict[str, Any], sources: list[Node]) -> list[Node]:
    states, constants = told["states"], told["constants"]
    first = states + constants
    xs = len(sources) - first
    test, body = (_called(call, k) for k in range(2))
    types = [(x.dtype, x.shape) for x in sources[:first]] + [(x.dtype, x.shape[1:]) for x in sources[first:]]
    parameters = [parameter(k, *type_) for k, type_ in enumerate(types)]
    parameters.append(parameter(len(types), int64, ()))
    roots = tuple(call.reading.function(body, parameters))
    asked = None if not test else tuple(call.reading.function(test, parameters[:first]))
    length = None if test else told["length"] if "length" in told else sources[first].shape[0]
    return values_of(Loop(roots, asked, states, constants, xs, length, told["reverse"]), sources)


def _branch(call: Call, told: dict[str, Any], sources: list[Node]) -> list[Node]:
    parameters = [parameter(k, x.dtype, x.shape) for k, x in enumerate(sources[1:])]
    bodies = [tuple(call.reading.function(_called(call, k), parameters)) for k in range(2)]
    return values_of(Branch(*bodies), sources)


def _called(call: Call, k: int) -> str:
    """The function that region k of the one operation with two regions in a decomposition calls; empty if none."""
    function: Function = call.reading.module.functions[call.symbol("decomposition")]
    operations: list[Operation] = [] if function.body is None else function.body.blocks[0].operations
    region = next((each.regions[k] for each in operations if len(each.regions) == 2), None)
    if region is None:
        raise ValueError("a decomposition that runs nothing")
    calls = [each.attributes.get("callee") for each in region.blocks[0].operations if each.name == "func.call"]
    return calls[0].name if calls and isinstance(calls[0], Symbol) else ""


_MADE: Final[dict[str, Made]] = {
    "gather": _gather,
    "scatter": _scatter,
    "sort": _sort,
    "scan": lambda call, told, sources: [build.scan(told["op"], sources[0], told["axis"])],
    "window": lambda call, told, sources: [build.window(sources[0], **told)],
    "nonzero": lambda call, told, sources: [build.nonzero(sources[0], call.shape[0])],
    "loop": _loop,
    "branch": _branch,
}

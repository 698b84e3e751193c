"""Forward mode: tangents of inputs pushed on to tangents of results.

A rule takes a node and the tangents of its sources (None: it does not change), and gives the node's tangent. Tangents
have the dtype and shape of the values that they belong to; only float nodes have one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from smelt.derive import control
from smelt.derive.composites import SLOPES, apply_slope
from smelt.derive.custom import Call, Custom, Stopped, stand_in
from smelt.derive.elementwise import applied
from smelt.derive.moves import filled
from smelt.derive.vjp import WAYS_BACK, depending, fresh, pull_back
from smelt.errors import ArgumentError
from smelt.graph import CONTROL, SOURCES, VIEWS, Node, Op, build, derived, expand, topological, with_sources

Tangents = list[Node | None]
Rule = Callable[[Node, Tangents], Node | None]


def push_forward(outputs: Sequence[Node], tangents: Mapping[Node, Node]) -> list[Node | None]:
    """The tangent of every output; None for those that depend on no input."""
    order = topological(outputs, through_leaves=True, known=fresh(tangents))
    moving = depending(order, tangents) & _asked(order, outputs)
    known: dict[Node, Node | None] = dict(tangents)
    several: dict[Node, dict[int, Node]] = {}  # the tangents of all values of loops and branches
    calls: dict[Call, dict[int, Node | None]] = {}  # those of all results of calls with a way forward of their own
    for node in order:
        if node not in moving or node in known or node.op in SOURCES:
            continue
        given = [known.get(source) for source in node.sources]
        if node.op in CONTROL:
            several[node] = control.FORWARD[node.op](node, given, push_forward)
        elif node.op is Op.ITEM:
            known[node] = several.get(node.sources[0], {}).get(node.attribute)
        elif _is_pushed(node):
            call, number = node.attribute.call, node.attribute.number
            if call not in calls:
                calls[call] = _custom(call, given[1:], node.sources[1:])
            known[node] = calls[call].get(number)
            derived(known[node], node, "tangent of ")
        else:
            known[node] = _RULES[node.op](node, given)
            derived(known[node], node, "tangent of ")
    return [known.get(node) for node in outputs]


def _asked(order: Sequence[Node], outputs: Sequence[Node]) -> set[Node]:
    """The nodes of an order (sources first) whose tangents are read: none of a value that counts as a constant, nor of
    what a function computes that says itself how it changes.
    """
    found = set(outputs)
    for node in reversed(order):
        if node in found and not (node.op is Op.ALIAS and isinstance(node.attribute, Stopped)):
            found.update(node.sources[1:] if _is_pushed(node) else node.sources)
    return found


def _is_pushed(node: Node) -> bool:
    """Whether a node is a result of a call whose way forward is not that of what it computes."""
    return node.op is Op.ALIAS and isinstance(node.attribute, Custom) and not node.attribute.call.changes_as_computed


def _custom(call: Call, tangents: Tangents, sources: Sequence[Node]) -> dict[int, Node | None]:
    """The tangents of all results of a call that have one, by its own rule."""
    if all(tangent is None for tangent in tangents):
        return {}
    if call.push_forward is None:
        raise ArgumentError(
            "jvp: a function with a gradient of its own (custom_vjp) has no forward derivative",
            hint="Say how it changes with defjvp, use vjp or grad, or call the plain function.",
        )
    return dict(enumerate(call.push_forward(tangents, sources)))


def _added(parts: Sequence[Node | None]) -> Node | None:
    result: Node | None = None
    for part in parts:
        if part is not None:
            result = part if result is None else build.add(result, part)
    return result


def _linear(node: Node, tangents: Tangents) -> Node | None:
    """The op itself: floats that do not change count as zeros, and what is no float stays."""
    if all(tangent is None for tangent in tangents):
        return None
    changes = [t if x.dtype.is_float else x for t, x in zip(tangents, node.sources, strict=True)]
    return with_sources(node, tuple(filled(changes, node.sources)))


def _elementwise(node: Node, tangents: Tangents) -> Node | None:
    result = _added([None if t is None else applied(node, k, t) for k, t in enumerate(tangents)])
    return None if result is None else build.cast(result, node.dtype)


def _folded(node: Node, tangents: Tangents) -> Node | None:
    """Sums, and what is put in the place of others, are linear; for products and extremes the way back knows how."""
    return (_linear if node.attribute.op in ("add", "set") else _transposed)(node, tangents)


def _transposed(node: Node, tangents: Tangents) -> Node | None:
    """What the rule of the way back does to a cotangent, which is linear, done to tangents the other way round."""
    given = {source: t for source, t in zip(node.sources, tangents, strict=True) if t is not None}
    cotangent = stand_in(node.dtype, node.shape)
    found = WAYS_BACK[node.op](node, cotangent, given.keys())
    back = [(part, given[source]) for source, part in found if source in given]
    parts, moved = zip(*back, strict=True) if back else ((), ())
    return pull_back(parts, moved, [cotangent], {node, *node.sources}, (node, "tangent of "))[0]


def _contract(node: Node, tangents: Tangents) -> Node | None:
    a, b = node.sources
    ta, tb = tangents
    parts = [None if ta is None else with_sources(node, (ta, b)), None if tb is None else with_sources(node, (a, tb))]
    return _added(parts)


def _composite(node: Node, tangents: Tangents) -> Node | None:
    if node.attribute.name in SLOPES:
        return None if tangents[0] is None else apply_slope(node, tangents[0])
    given = {source: t for source, t in zip(node.sources, tangents, strict=True) if t is not None}
    return push_forward([expand(node)], given)[0]


def _alias(node: Node, tangents: Tangents) -> Node | None:
    return None if isinstance(node.attribute, Stopped) else tangents[0]


_RULES: Final[dict[Op, Rule]] = {
    **dict.fromkeys((*VIEWS, Op.PAD, Op.CONCAT, Op.GATHER, Op.WHERE, Op.CAST), _linear),
    Op.UNARY: _elementwise,
    Op.BINARY: _elementwise,
    Op.BITCAST: lambda node, tangents: None,
    **dict.fromkeys((Op.REDUCE, Op.SCAN, Op.SCATTER), _folded),
    Op.CONTRACT: _contract,
    Op.SORT: _transposed,
    Op.COMPOSITE: _composite,
    Op.ALIAS: _alias,
}

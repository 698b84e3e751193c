"""Forward mode: tangents of inputs pushed on to tangents of results.

A rule takes a node and the tangents of its sources (None: it does not change), and gives the node's tangent. Tangents
have the dtype and shape of the values that they belong to; only float nodes have one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from smelt.derive import choices, control
from smelt.derive.composites import SLOPES, apply_slope
from smelt.derive.custom import Custom, Stopped
from smelt.derive.elementwise import applied
from smelt.derive.moves import filled, recurrence, total, wide, zeros
from smelt.derive.vjp import depending, fresh
from smelt.errors import ArgumentError
from smelt.graph import CONTROL, SOURCES, VIEWS, Node, Op, build, derived, expand, topological, with_sources

Tangents = list[Node | None]
Rule = Callable[[Node, Tangents], Node | None]


def push_forward(outputs: Sequence[Node], tangents: Mapping[Node, Node]) -> list[Node | None]:
    """The tangent of every output; None for those that depend on no input."""
    order = topological(outputs, through_leaves=True, known=fresh(tangents))
    moving = depending(order, tangents)
    known: dict[Node, Node | None] = dict(tangents)
    several: dict[Node, dict[int, Node]] = {}  # the tangents of all values of loops and branches
    for node in order:
        if node not in moving or node in known or node.op in SOURCES:
            continue
        given = [known.get(source) for source in node.sources]
        if node.op in CONTROL:
            several[node] = control.FORWARD[node.op](node, given, push_forward)
        elif node.op is Op.ITEM:
            known[node] = several.get(node.sources[0], {}).get(node.attribute)
        else:
            known[node] = _RULES[node.op](node, given)
            derived(known[node], node, "tangent of ")
    return [known.get(node) for node in outputs]


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


def _of_first(tangent: Callable[[Node, Node], Node | None]) -> Rule:
    """A rule of the tangent of the first source alone: without that one there is none."""
    return lambda node, tangents: None if tangents[0] is None else tangent(node, tangents[0])


def _elementwise(node: Node, tangents: Tangents) -> Node | None:
    result = _added([None if t is None else applied(node, k, t) for k, t in enumerate(tangents)])
    return None if result is None else build.cast(result, node.dtype)


def _reduce(node: Node, t: Node) -> Node | None:
    x, (op, axes) = node.sources[0], node.attribute
    if op == "add":
        return _linear(node, [t])
    if op == "mul":
        return total(choices.product_map(x, axes, t), axes)
    share, mask = choices.extreme_share(x, node, axes)
    chosen = build.reduce("add", wide(build.where(mask, t, zeros(x.shape, x))), axes)
    return build.cast(build.mul(chosen, share), node.dtype)


def _scan(node: Node, t: Node) -> Node | None:
    op, axis = node.attribute
    if op == "add":
        return _linear(node, [t])
    if op in ("max", "min"):
        return choices.picked(node, t)
    factors, entering = choices.scan_steps(node)
    return build.cast(recurrence(factors, build.mul(wide(t), entering), axis), node.dtype)


def _contract(node: Node, tangents: Tangents) -> Node | None:
    a, b = node.sources
    ta, tb = tangents
    parts = [None if ta is None else with_sources(node, (ta, b)), None if tb is None else with_sources(node, (a, tb))]
    return _added(parts)


def _scatter(node: Node, tangents: Tangents) -> Node | None:
    if node.attribute.op in ("set", "add"):
        return _linear(node, tangents)
    target, _, *indices = node.sources
    moved, changed = tangents[:2]
    for_target, for_updates = choices.slopes(node)
    sent = None
    if changed is not None:
        nothing = zeros(target.shape, target)
        sent = build.scatter("add", nothing, build.mul(changed, for_updates), indices, node.attribute.axes)
    return _added([None if moved is None else build.mul(moved, for_target), sent])


def _composite(node: Node, tangents: Tangents) -> Node | None:
    if node.attribute.name in SLOPES:
        return None if tangents[0] is None else apply_slope(node, tangents[0])
    given = {source: t for source, t in zip(node.sources, tangents, strict=True) if t is not None}
    return push_forward([expand(node)], given)[0]


def _alias(node: Node, tangents: Tangents) -> Node | None:
    if isinstance(node.attribute, Custom) and any(t is not None for t in tangents):
        raise ArgumentError(
            "jvp: a function with a gradient of its own (custom_vjp) has no forward derivative",
            hint="Use vjp or grad, or call the plain function.",
        )
    return None if isinstance(node.attribute, Stopped) else tangents[0]


_RULES: Final[dict[Op, Rule]] = {
    **dict.fromkeys((*VIEWS, Op.PAD, Op.CONCAT, Op.GATHER, Op.WHERE), _linear),
    Op.UNARY: _elementwise,
    Op.BINARY: _elementwise,
    Op.CAST: _of_first(lambda node, t: build.cast(t, node.dtype)),
    Op.BITCAST: lambda node, tangents: None,
    Op.REDUCE: _of_first(_reduce),
    Op.SCAN: _of_first(_scan),
    Op.CONTRACT: _contract,
    Op.SCATTER: _scatter,
    Op.SORT: _of_first(choices.picked),
    Op.COMPOSITE: _composite,
    Op.ALIAS: _alias,
}

"""Reverse mode: cotangents of results pulled back to cotangents of inputs.

A rule takes a node, the cotangent of its value, and which nodes matter; it gives pairs of a node and what it
contributes to that node's cotangent. Cotangents have the dtype and shape of the values that they belong to. Only float
nodes have one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Final

from smelt.derive import choices, control
from smelt.derive.composites import COMPOSITE_RULES
from smelt.derive.custom import Custom, Stopped, Variable
from smelt.derive.elementwise import applied
from smelt.derive.moves import Parts, Rule, added, broadcast_back, cut, inverse, narrowed, total, wide, zeros
from smelt.derive.windows import unpadded, unsliced, unwindowed
from smelt.graph import CONTROL, SOURCES, Node, Op, build, derived, expand, topological


def pull_back(
    outputs: Sequence[Node],
    cotangents: Sequence[Node],
    inputs: Sequence[Node],
    independent: Set[Node] = frozenset(),
    origin: tuple[Node, str] | None = None,
) -> list[Node | None]:
    """The cotangent of every input; None for those that no output depends on.

    What `independent` nodes depend on themselves does not count. `origin` is what all is made for, if not gradients.
    """
    order = topological(outputs, through_leaves=True, known=independent | fresh(inputs))
    wanted = depending(order, inputs)
    sums: dict[Node, Node] = {}

    def contribute(parts: Parts, of: Node | None = None) -> None:
        for node, part in parts:
            if node in wanted:
                if of is not None:
                    derived(part, *(origin or (of, "gradient of ")))
                known = sums.get(node)
                sums[node] = part if known is None else added(known, part)

    contribute(zip(outputs, cotangents, strict=True))
    items = _grouped((node.sources[0], node) for node in order if node.op is Op.ITEM)  # of each loop and branch
    results = _grouped((node.attribute.call, node) for node in order if _is_custom(node))
    for node in reversed(order):
        if _is_custom(node):
            # The cotangents of all results of a call are pulled back together, when the first of them is reached.
            if results[node.attribute.call][0] is node:
                contribute(_custom(results[node.attribute.call], sums, wanted), node)
        elif node.op in CONTROL:
            given = {item.attribute: sums[item] for item in items.get(node, ()) if item in sums}
            if given:
                contribute(control.BACK[node.op](node, given, wanted, pull_back), node)
        elif node in sums and node.op not in SOURCES:
            contribute(WAYS_BACK[node.op](node, sums[node], wanted), node)
    return [sums.get(node) for node in inputs]


def fresh(inputs: Iterable[Node]) -> set[Node]:
    """The inputs below which no other input can be: they were made for this derivative, however long the history is
    of what they stand for.
    """
    return {node for node in inputs if node.op is Op.ALIAS and isinstance(node.attribute, Variable)}


def depending(order: Sequence[Node], inputs: Iterable[Node]) -> set[Node]:
    """The float nodes of an order (sources first) that depend on an input through floats."""
    found = {node for node in inputs if node.dtype.is_float}
    for node in order:
        # A loop or branch has several values, and the type of the first.
        if (node.dtype.is_float or node.op in CONTROL) and any(source in found for source in node.sources):
            found.add(node)
    return found


def _grouped(pairs: Iterable[tuple[object, Node]]) -> dict[object, list[Node]]:
    found: dict[object, list[Node]] = {}
    for key, node in pairs:
        found.setdefault(key, []).append(node)
    return found


def _is_custom(node: Node) -> bool:
    return node.op is Op.ALIAS and isinstance(node.attribute, Custom)


def _custom(members: Sequence[Node], sums: Mapping[Node, Node], wanted: Set[Node]) -> Parts:
    given = {node.attribute.number: sums[node] for node in members if node in sums}
    if not given:
        return ()
    first = members[0]
    sources = first.sources[1:]
    found = first.attribute.call.pull_back(given, sources, [source in wanted for source in sources])
    return [(source, part) for source, part in zip(sources, found, strict=True) if part is not None]


# --- movement


def _to_first(cotangent: Callable[[Node, Node, Node], Node]) -> Rule:
    """A rule that gives its first source what a function says of the node, its cotangent and that source."""
    return lambda node, ct, wanted: [(node.sources[0], cotangent(node, ct, node.sources[0]))]


def _pad(node: Node, ct: Node, wanted: Set[Node]) -> Parts:
    x, fill = node.sources
    yield x, unpadded(ct, node.attribute)
    if fill in wanted:
        unit = build.const(1, ct.dtype)
        outside = build.pad(zeros(x.shape, ct), node.attribute, unit)
        yield fill, total(build.mul(ct, outside), range(ct.rank))


def _concat(node: Node, ct: Node, wanted: Set[Node]) -> Parts:
    axis = node.attribute
    start = 0
    for x in node.sources:
        yield x, cut(ct, axis, start, x.shape[axis])
        start = x.shape[axis] + start


# --- elementwise


def _elementwise(node: Node, ct: Node, wanted: Set[Node]) -> Parts:
    for k, source in enumerate(node.sources):
        part = applied(node, k, ct) if source in wanted else None
        if part is not None:
            yield source, build.cast(part, source.dtype)


def _where(node: Node, ct: Node, wanted: Set[Node]) -> Parts:
    condition, a, b = node.sources
    nothing = zeros(ct.shape, ct)
    if a in wanted:
        yield a, build.where(condition, ct, nothing)
    if b in wanted:
        yield b, build.where(condition, nothing, ct)


# --- reductions and contractions


def _reduce(node: Node, ct: Node, wanted: Set[Node]) -> Parts:
    x = node.sources[0]
    op, axes = node.attribute
    if op == "add":
        return [(x, broadcast_back(ct, axes, x.shape))]
    if op == "mul":
        return [(x, choices.product_map(x, axes, broadcast_back(ct, axes, x.shape)))]
    share, mask = choices.extreme_share(x, node, axes)
    spread = broadcast_back(build.cast(build.mul(wide(ct), share), ct.dtype), axes, x.shape)
    return [(x, build.where(mask, spread, zeros(x.shape, x)))]


def _contract(node: Node, ct: Node, wanted: Set[Node]) -> Parts:
    left, right, out = node.attribute
    a, b = node.sources
    for x, mine, other, labels in ((a, left, b, right), (b, right, a, left)):
        if x in wanted:  # the cotangent of one factor: the other one contracted with that of the product
            there = tuple(label for label in mine if label in out or label in labels)
            result = build.contract(ct, build.cast(other, ct.dtype), out, labels, there, ct.dtype)
            alone = [axis for axis, label in enumerate(mine) if label not in there]  # summed in this factor alone
            yield x, build.cast(broadcast_back(result, alone, x.shape) if alone else result, x.dtype)


# --- the rest


def _composite(node: Node, ct: Node, wanted: Set[Node]) -> Parts:
    rule = COMPOSITE_RULES.get(node.attribute.name)
    if rule is not None:
        return rule(node, ct, wanted)
    inputs = list(dict.fromkeys(source for source in node.sources if source in wanted))
    parts = pull_back([expand(node)], [ct], inputs, independent=set(node.sources))
    return [(source, part) for source, part in zip(inputs, parts, strict=True) if part is not None]


def _alias(node: Node, ct: Node, wanted: Set[Node]) -> Parts:
    return () if isinstance(node.attribute, Stopped) else [(node.sources[0], ct)]


def _flat(node: Node, ct: Node, wanted: Set[Node]) -> Parts:
    """Ops that have no derivative to speak of."""
    return ()


WAYS_BACK: Final[dict[Op, Rule]] = {
    Op.RESHAPE: _to_first(lambda node, ct, x: build.reshape(ct, x.shape)),
    Op.PERMUTE: _to_first(lambda node, ct, x: build.permute(ct, inverse(node.attribute))),
    Op.EXPAND: _to_first(lambda node, ct, x: narrowed(ct, x.shape)),
    Op.PAD: _pad,
    Op.SLICE: _to_first(lambda node, ct, x: unsliced(ct, node.attribute, x.shape)),
    Op.CONCAT: _concat,
    Op.WINDOW: _to_first(lambda node, ct, x: unwindowed(ct, node.attribute, x.shape[node.attribute.axis])),
    Op.UNARY: _elementwise,
    Op.BINARY: _elementwise,
    Op.WHERE: _where,
    Op.CAST: _to_first(lambda node, ct, x: build.cast(ct, x.dtype)),
    Op.BITCAST: _flat,
    Op.REDUCE: _reduce,
    Op.SCAN: choices.scan_back,
    Op.CONTRACT: _contract,
    Op.GATHER: choices.gather_back,
    Op.SCATTER: choices.scatter_back,
    Op.SORT: choices.put_back,
    Op.ITEM: _flat,  # its loop or branch takes the cotangents of all of them
    Op.COMPOSITE: _composite,
    Op.ALIAS: _alias,
}

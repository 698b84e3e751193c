"""Batching: what a graph computes for one element, for all elements of a batch at once.

Stand-ins are the inputs of one element; in their place come nodes with one axis more, in front. Nodes that depend on no
stand-in are the same for all elements, and are repeated only where an operation needs all its operands in one shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from smelt.derive import control
from smelt.derive.custom import Call, Custom, Stopped, stand_in
from smelt.derive.moves import filled
from smelt.dtypes import bool_, int64
from smelt.errors import InternalError
from smelt.graph import (
    CONTROL,
    ELEMENTWISE,
    IndexLike,
    Node,
    Op,
    Span,
    alias,
    build,
    composites,
    derived,
    made,
    topological,
)


def batch(roots: Iterable[Node], batched: Mapping[Node, Node], size: IndexLike) -> list[Node]:
    """Each root for a whole batch: with an axis of `size` in front.

    `batched` has a node with that axis for every stand-in. A root that depends on no stand-in is repeated.
    """
    under_way = _Batching(roots, batched, size)
    return [under_way.full(root) for root in under_way.roots]


def batch_dependent(roots: Iterable[Node], batched: Mapping[Node, Node], size: IndexLike) -> list[Node | None]:
    """`batch`, with None for roots that depend on no stand-in."""
    under_way = _Batching(roots, batched, size)
    return [under_way.known[root] for root in under_way.roots]


class _Batching:
    """One batching under way. `known` has what each node became: None if it is the same for all elements."""

    def __init__(self, roots: Iterable[Node], batched: Mapping[Node, Node], size: IndexLike) -> None:
        self.roots, self.size, self.stand_ins = list(roots), size, batched
        self.known: dict[Node, Node | None] = dict(batched)
        self._calls: dict[Call, Call] = {}
        self._several: dict[Node, dict[int, Node]] = {}  # the values of loops and branches that differ
        self.decide(self.roots)

    def decide(self, roots: Iterable[Node]) -> None:
        """Find out about all nodes below the roots."""
        # A stand-in may lie below a node that has a value: of the element that it was computed for.
        for node in topological(roots, through_leaves=True, known=self.known):
            if node.op is Op.ITEM:
                self.known[node] = self._several.get(node.sources[0], {}).get(node.attribute)
                continue
            dependent = any(self.known[source] is not None for source in node.sources)
            if dependent and node.op in CONTROL:
                given = [self.known[source] for source in node.sources]
                self._several[node] = control.BATCHED[node.op](node, given, self.size, batch_dependent)
                dependent = False  # its values are read one by one
            self.known[node] = self._batched(node) if dependent else None

    def _batched(self, node: Node) -> Node:
        rule = _RULES.get(node.op)
        if rule is None:
            raise InternalError(f"there is no rule that batches {node!r}")
        result = rule(node, self)
        if result.shape != (self.size, *node.shape) or result.dtype is not node.dtype:
            raise InternalError(f"{node!r} was batched to {result!r}, with {self.size} elements")
        derived(result, node)
        return result

    def call(self, node: Node) -> Call:
        """The ways of a custom function's results, for a batch: those of one element, batched."""
        single = node.attribute.call

        def pull_back(given: Mapping[int, Node], sources: Sequence[Node], wanted: Sequence[bool]) -> list[Node | None]:
            cotangents = {k: stand_in(ct.dtype, ct.shape[1:]) for k, ct in given.items()}
            elements = [stand_in(source.dtype, source.shape[1:]) for source in sources]
            found = filled(single.pull_back(cotangents, elements, wanted), elements)
            stand_ins = dict(zip([*cotangents.values(), *elements], [*given.values(), *sources], strict=True))
            return list(batch(found, {**self.stand_ins, **stand_ins}, self.size))

        def push_forward(given: Sequence[Node | None], sources: Sequence[Node]) -> list[Node | None]:
            tangents = [None if t is None else stand_in(t.dtype, t.shape[1:]) for t in given]
            elements = [stand_in(source.dtype, source.shape[1:]) for source in sources]
            assert single.push_forward is not None
            found = single.push_forward(tangents, elements)
            stand_ins = dict(zip(elements, sources, strict=True))
            stand_ins |= {
                t: whole for t, whole in zip(tangents, given, strict=True) if t is not None and whole is not None
            }
            moving = [k for k, t in enumerate(found) if t is not None]
            pushed = batch([t for t in found if t is not None], {**self.stand_ins, **stand_ins}, self.size)
            known = dict(zip(moving, pushed, strict=True))
            return [known.get(k) for k in range(len(found))]

        forward = None if single.push_forward is None else push_forward
        return self._calls.setdefault(single, Call(pull_back, forward, single.changes_as_computed))

    def has(self, node: Node) -> bool:
        """Whether a node differs from element to element."""
        return self.known[node] is not None

    def part(self, node: Node) -> Node:
        """A node for all elements; without the batch axis if it is the same for all."""
        return self.known[node] or node

    def full(self, node: Node) -> Node:
        """A node for all elements, with the batch axis."""
        return self.known[node] or build.broadcast_to(node, (self.size, *node.shape))


# --- one rule for each op


def _behind(node: Node, batch: _Batching) -> Node:
    """The same operation on all the axes behind that of the batch."""
    sources = tuple([batch.full(source) for source in node.sources])
    attribute = _BEHIND[node.op](node.attribute, batch.size)
    return made(node.op, node.dtype, (batch.size, *node.shape), sources, attribute)


def _further(axes: Sequence[int]) -> tuple[int, ...]:
    """Axes where the batch axis stands before the others; those of a gather or scatter below 0 are index tensors."""
    return tuple([axis + 1 if axis >= 0 else axis for axis in axes])


# What becomes of an attribute where an axis of some size stands before the others.
_BEHIND: Final[dict[Op, Callable[[Any, IndexLike], Any]]] = {
    **dict.fromkeys((Op.RESHAPE, Op.EXPAND, *ELEMENTWISE), lambda same, size: same),
    **dict.fromkeys((Op.WINDOW, Op.SCAN, Op.SORT), lambda old, size: old._replace(axis=old.axis + 1)),
    Op.PERMUTE: lambda axes, size: (0, *_further(axes)),
    Op.SLICE: lambda spans, size: (Span(0, size, 1), *spans),
    Op.CONCAT: lambda axis, size: axis + 1,
    Op.REDUCE: lambda old, size: old._replace(axes=_further(old.axes)),
}


def _pad(node: Node, batch: _Batching) -> Node:
    x, fill = node.sources
    widths = ((0, 0), *node.attribute) if batch.has(x) else node.attribute
    if not batch.has(fill):
        return build.pad(batch.part(x), widths, fill)
    # A PAD has one fill for everything: the elements' own ones are chosen where x is not.
    padded = build.pad(batch.part(x), widths, build.const(0, x.dtype))
    inside = build.pad(build.const(True, bool_, x.shape), node.attribute, build.const(False, bool_))
    fills = build.reshape(batch.full(fill), (batch.size, *(1 for _ in node.shape)))
    return build.where(inside, padded, fills)


def _contract(node: Node, batch: _Batching) -> Node:
    """The batch axis is one more label, which an operand that is the same for all elements does not have."""
    a, b = node.sources
    left, right, out = node.attribute
    label = max((*left, *right), default=-1) + 1
    left = (label, *left) if batch.has(a) else left
    right = (label, *right) if batch.has(b) else right
    return build.contract(batch.part(a), batch.part(b), left, right, (label, *out), node.dtype)


def _gather(node: Node, batch: _Batching) -> Node:
    x, *indices = node.sources
    axes, checked = node.attribute
    lead = (0,) if batch.has(x) else ()
    found = [batch.full(index) for index in indices]
    shape = (batch.size, *node.shape)
    return build.gather(batch.part(x), found, (*lead, *_further(axes)), shape, checked=checked)


def _scatter(node: Node, batch: _Batching) -> Node:
    """Row-major order over batch and updates is, within each element of the batch, the order of its updates."""
    target, updates, *indices = (batch.full(source) for source in node.sources)
    op, axes, checked = node.attribute
    return build.scatter(op, target, updates, indices, (0, *_further(axes)), checked=checked)


def _nonzero(node: Node, batch: _Batching) -> Node:
    """The node itself takes a vector only: each position is sent to where the number of those before it says."""
    (mask,) = (batch.full(source) for source in node.sources)
    (wanted,), (_, length) = node.shape, mask.shape
    before = build.shift(build.scan("add", build.cast(mask, int64), 1), -1)
    # What is sent outside is dropped.
    place = build.where(mask, before, build.size_node(wanted, int64))
    positions = build.broadcast_to(build.iota(length, int64), mask.shape)
    nothing = build.broadcast_to(build.size_node(length, int64), (batch.size, wanted))
    return build.scatter("set", nothing, positions, [place], (0, -1))


def _alias(node: Node, batch: _Batching) -> Node:
    """What counts as a constant, or has a gradient of its own, keeps that; variables of one element are done with."""
    x, *others = (batch.full(source) for source in node.sources)
    if isinstance(node.attribute, Stopped):
        return alias(x, node.attribute)
    if isinstance(node.attribute, Custom):
        return alias(x, Custom(batch.call(node), node.attribute.number), *others)
    return x


# --- composites that stay whole


Parameters = dict[str, Any]


def _same(node: Node, batch: _Batching, parameters: Parameters) -> Node:
    """Every source gets the batch axis in front, before the one that is worked along, and nothing else changes."""
    behind = {"axis": parameters["axis"] + 1} if "axis" in parameters else {}
    return build.composite(node.attribute.name, *map(batch.full, node.sources), **(parameters | behind))


def _norm(node: Node, batch: _Batching, parameters: Parameters) -> Node | None:
    """Norms of the last axes, as long as all elements share weight and bias."""
    x, *affine = node.sources
    if any(map(batch.has, affine)):
        return None
    return build.composite(node.attribute.name, batch.full(x), *affine, **parameters)


def _attention(operands: int, node: Node, batch: _Batching, parameters: Parameters) -> Node:
    """Operands broadcast from the last axes on: the batch axis stands before the axes of the one that has most."""
    # A mask, which comes after the operands, must not be larger than the scores: the queries lead with it.
    only_mask = not any(map(batch.has, node.sources[:operands]))
    sources = [
        _led(x, node.rank, batch) if batch.has(x) or (only_mask and k == 0) else x for k, x in enumerate(node.sources)
    ]
    return build.composite(node.attribute.name, *sources, **parameters)


def _led(source: Node, rank: int, batch: _Batching) -> Node:
    """A source for all elements, with axes of size 1 after the batch axis, up to a rank."""
    return build.reshape(batch.full(source), (batch.size, *(1,) * (rank - source.rank), *source.shape))


# What a composite becomes; None where it has to be written out.
_COMPOSITES: Final[dict[str, Callable[[Node, _Batching, Parameters], Node | None]]] = {
    **dict.fromkeys(("softmax", "log_softmax", "gelu", "silu", "cross_entropy"), _same),
    **dict.fromkeys(("layer_norm", "rms_norm"), _norm),
    "attention": partial(_attention, 3),
    "attention_log_sums": partial(_attention, 2),
}


def _composite(node: Node, batch: _Batching) -> Node:
    name, parameters = node.attribute
    rule = _COMPOSITES.get(name)
    whole = None if rule is None else rule(node, batch, dict(parameters))
    if whole is not None:
        return whole
    expansion = composites.expand(node)
    batch.decide([expansion])
    return batch.full(expansion)


_RULES: Final[dict[Op, Callable[[Node, _Batching], Node]]] = {
    **dict.fromkeys(_BEHIND, _behind),
    Op.PAD: _pad,
    Op.CONTRACT: _contract,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.NONZERO: _nonzero,
    Op.COMPOSITE: _composite,
    Op.ALIAS: _alias,
}

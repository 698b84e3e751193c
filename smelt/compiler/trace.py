"""From live nodes to a key: the whole graph, compacted, with everything that may change from call to call taken out.

What changes becomes an argument: the storage of leaves, float constants other than 0 and ±1, and where slices start,
also inside the bodies of loops and branches. Outside of `jit`, where every new number is a new graph, integer constants
do as well, unless their value decides what is generated.
Two graphs with equal keys are computed by the same compiled graph. Keys compare by equality over the whole graph.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

from smelt.dtypes import DType
from smelt.graph import (
    CONTROL,
    DONE,
    Check,
    Hosted,
    Index,
    IndexLike,
    Loop,
    Node,
    Op,
    Shape,
    Span,
    Variable,
    as_index,
    bodies_of,
    broadcast_to,
    checks_of,
    constant_bytes,
    make,
    of,
    product_of,
    row_major,
    scalar_of,
    take,
    topological,
    with_bodies,
    without_aliases,
)
from smelt.graph.checks import with_checks

Bases = dict[Node, "LeafView | Node | None"]  # a view of a leaf, a constant that is repeated, or neither


class LeafView(NamedTuple):
    """A leaf seen through movement that needs no kernel: element strides, and where it starts."""

    leaf: Node
    shape: Shape
    strides: tuple[IndexLike, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Argument:
    """The attribute of a leaf in a traced graph: the number of an input or of a scalar."""

    kind: str  # "input", "prepared", "scalar", or "parameter" of a body
    number: int
    strides: tuple[IndexLike, ...] = ()
    steady: bool = False  # the same in many calls


class GraphKey(NamedTuple):
    """A whole graph, by which it is found again, with the counts of what was taken out of it."""

    entries: tuple[Any, ...]  # sources before users: an op, dtype, shape, attribute, then the numbers of sources
    roots: tuple[int, ...]
    bounds: tuple[tuple[int, int], ...]  # of the dims
    inputs: int
    scalars: int
    starts: int
    calls_python: bool  # functions of this process, which no other one has


class Traced(NamedTuple):
    """A key with what was taken out of it, in the order in which the compiled graph takes its arguments."""

    key: GraphKey
    inputs: tuple[LeafView, ...]
    scalars: tuple[bytes, ...]
    starts: tuple[int, ...]
    dims: tuple[Variable, ...]
    checks: tuple[Check, ...] = ()  # about the last results, which are beyond the roots


def _permuted(node: Node, view: LeafView) -> LeafView:
    return view._replace(shape=node.shape, strides=tuple(view.strides[axis] for axis in node.attribute))


def _expanded(node: Node, view: LeafView) -> LeafView:
    strides = (
        0 if old == 1 and new != 1 else s for s, old, new in zip(view.strides, view.shape, node.shape, strict=True)
    )
    return view._replace(shape=node.shape, strides=tuple(strides))


def _sliced(node: Node, view: LeafView) -> LeafView | None:
    offset = view.offset
    strides: list[IndexLike] = []
    for span, stride in zip(node.attribute, view.strides, strict=True):
        step = as_index(stride)
        if span.start and (step.terms or not isinstance(span.start, int)):
            return None
        offset += span.start * step.constant if span.start else 0
        strides.append(step.constant * span.step if not step.terms else step * span.step)
    return LeafView(view.leaf, node.shape, tuple(strides), offset)


def _windowed(node: Node, view: LeafView) -> LeafView:
    axis, _, step, dilation = node.attribute
    stride = view.strides[axis]
    steps = (*view.strides[:axis], stride * step, *view.strides[axis + 1 :], stride * dilation)
    return view._replace(shape=node.shape, strides=steps)


def _reshaped(node: Node, view: LeafView) -> LeafView | None:
    strides = reshape_strides(view.shape, view.strides, node.shape)
    return None if strides is None else view._replace(shape=node.shape, strides=strides)


def reshape_strides(shape: Shape, strides: tuple[IndexLike, ...], target: Shape) -> tuple[IndexLike, ...] | None:
    """The strides of a reshaped view, or None if the elements do not lie evenly."""
    if 0 in target:
        return row_major(target)
    runs: list[tuple[IndexLike, IndexLike]] = []  # sizes and strides, of axes that lie like one
    for size, stride in zip(shape, strides, strict=True):
        if size != 1 and runs and size * stride == runs[-1][1]:
            runs[-1] = product_of((runs[-1][0], size)), stride
        elif size != 1:
            runs.append((size, stride))
    out: list[IndexLike] = []
    for whole, stride in runs:
        first = len(out)
        while product_of(target[first : len(out)]) != whole:
            if len(out) == len(target):
                return None
            out.append(0)
        inside = target[first : len(out)]
        out[first:] = [0 if size == 1 else step * stride for size, step in zip(inside, row_major(inside), strict=True)]
    rest = target[len(out) :]
    return (*out, *(0 for _ in rest)) if all(size == 1 for size in rest) else None


_VIEW_RULES: dict[Op, Any] = {
    Op.PERMUTE: _permuted,
    Op.EXPAND: _expanded,
    Op.SLICE: _sliced,
    Op.WINDOW: _windowed,
    Op.RESHAPE: _reshaped,
    Op.ALIAS: lambda node, view: view,
}


@cache
def _plain_numbers(dtype: DType) -> frozenset[bytes]:
    """The integers that rules look for: 0 and ±1, and where the range ends."""
    return frozenset([constant_bytes(value, dtype) for value in (0, 1, -1, *dtype.range)])


@lru_cache(maxsize=4096)
def _is_plain_float(dtype: DType, bits: bytes) -> bool:
    """Whether rules look for a number: 0 and ±1, and what is not finite."""
    value = scalar_of(bits, dtype)
    return not math.isfinite(value) or value in (0, 1, -1)


_CHECKED = frozenset({Op.GATHER, Op.SCATTER})  # where an index may lie outside its axis
_SPECIAL = _CHECKED | CONTROL
_BASED = frozenset({Op.LEAF, Op.CONST, *_VIEW_RULES})
_BY_SECOND = frozenset({"floordiv", "mod", "pow", "shl", "shr"})  # other code for another second operand


def _varying(order: Sequence[Node], bases: Bases) -> set[Node]:
    """The integer constants whose values do not decide what is generated: all but divisors, exponents, distances of
    shifts, and whatever an index is computed from, since its range decides about checks.
    """
    found = {base for base in bases.values() if type(base) is Node and base.dtype.is_integer}
    constants = {node for node in found if node.attribute not in _plain_numbers(node.dtype)}
    if not constants:
        return constants
    stack: list[Node] = []
    for node in order:
        if node.op is Op.BINARY and node.attribute in _BY_SECOND:
            stack.append(node.sources[1])
        elif node.op in _CHECKED:
            stack += node.sources[1 if node.op is Op.GATHER else 2 :]
    deciding: set[Node] = set()
    while stack:
        node = stack.pop()
        if node.dtype.is_integer and node.leaf is None and node not in deciding:
            deciding.add(node)
            stack += node.sources
    return constants - deciding


def trace(roots: Sequence[Node], integers: bool = False) -> Traced:
    """The key of the graph below the roots, and its arguments. Effects and checks of indices are further roots, after
    the given ones. With `integers`, integer constants are arguments as floats are.
    """
    effects = take()
    roots = [*roots, *effects]
    order, bases = _needed(roots)
    ops = {node.op for node in order}
    varying = _varying(order, bases) if integers else ()
    checks: dict[Node, Check] = {}
    if not ops.isdisjoint(_SPECIAL):
        roots, checks = with_checks(without_aliases(roots)) if ops & CONTROL else (roots, checks_of(order))
        roots = [*roots, *checks]
        order, bases = _needed(roots)
    writer = _Writer(integers)
    entries, numbers = writer.graph(order, roots, bases, varying, {})
    dims = writer.dims.found
    bounds = tuple([(v.low, v.high) for v in dims.values()])
    inputs, scalars, starts = tuple(writer.inputs), tuple(writer.scalars), tuple(writer.starts)
    key = GraphKey(entries, numbers, bounds, len(inputs), len(scalars), len(starts), writer.calls_python)
    return Traced(key, inputs, scalars, starts, tuple(dims), (*[DONE] * len(effects), *checks.values()))


def _needed(roots: Sequence[Node]) -> tuple[list[Node], Bases]:
    """What has to be computed or read for the roots, sources before users. What has a base needs nothing below it; of
    an alias, only derivatives read more than the first source.
    """
    bases: Bases = {}
    order: dict[Node, None] = {}
    seen: set[Node] = set()
    stack = list(reversed(roots))
    while stack:
        node = stack[-1]
        if node in seen:  # all of its sources are done, or it is itself
            order[stack.pop()] = None
            continue
        seen.add(node)
        sources = node.sources
        if node.op is Op.ALIAS and node.leaf is None:
            sources = sources[:1]
        elif (node.op in _BASED or node.leaf is not None) and base_of(node, bases) is not None:
            order[stack.pop()] = None
            continue
        stack += [source for source in reversed(sources) if source not in seen]
    return list(order), bases


def base_of(node: Node, known: Bases) -> LeafView | Node | None:
    """The leaf that a node shows, through which strides, or the constant that it repeats; None if it is neither."""
    chain: list[Node] = []
    while node.op in _VIEW_RULES and node.leaf is None and node not in known:
        chain.append(node)
        node = node.sources[0]
    found = known.get(node)
    if found is None:
        leaf = node.leaf or node
        whole = LeafView(leaf, leaf.shape, leaf.attribute.strides, 0) if leaf.op is Op.LEAF else None
        found = known[node] = node if node.op is Op.CONST else whole
    for node in reversed(chain):
        found = known[node] = _VIEW_RULES[node.op](node, found) if type(found) is LeafView else found
    return found


class _Start(NamedTuple):
    """The number of a slice start that was taken out of a graph."""

    number: int


class _Writer:
    """Writes graphs down, and collects what it takes out of them and out of the bodies inside."""

    def __init__(self, integers: bool) -> None:
        self.integers = integers
        self.inputs: dict[LeafView, int] = {}
        self.scalars: list[bytes] = []
        self.starts: list[int] = []
        # What was taken out of a node of a body is the same argument in another body that has the node: otherwise two
        # loops of which one repeats the other would not look alike.
        self.taken: dict[Node, tuple[int, ...]] = {}
        self.dims = _Dims()
        self.calls_python = False

    def graph(
        self,
        order: Sequence[Node],
        roots: Sequence[Node],
        bases: Bases,
        varying: Container[Node],
        taken: dict[Node, tuple[int, ...]],
    ) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """An entry for each node of the order, and the numbers of the roots. What shows a leaf is an input, and
        integers that are `varying` are taken out.

        Of a body, only constants have a base.
        """
        number: dict[Node, int] = {}
        entries: list[Any] = []
        dims, inputs = self.dims, self.inputs
        for node in order:
            op = node.op
            if op is Op.ALIAS and node.leaf is None:
                number[node] = number[node.sources[0]]
                continue
            base = bases.get(node)
            shape = dims.rename(node.shape)
            if isinstance(base, LeafView):
                strides = dims.rename(base.strides)
                entries.append((Op.LEAF, node.dtype, shape, strides, inputs.setdefault(base, len(inputs))))
            elif base is not None:
                if base in varying or (base.dtype.is_float and not _is_plain_float(base.dtype, base.attribute)):
                    if base not in taken:
                        taken[base] = (len(self.scalars),)
                        self.scalars.append(base.attribute)
                    entries.append((Op.CONST, node.dtype, shape, None, *taken[base]))
                else:
                    entries.append((Op.CONST, node.dtype, shape, base.attribute))
            elif op is Op.SLICE:
                spans: list[tuple[Any, ...]] = []
                places = iter(taken.get(node, ()))
                first = len(self.starts)
                for span, size in zip(node.attribute, node.sources[0].shape, strict=True):
                    start, count = dims.rename((span.start, span.size))
                    if span.size == size or not isinstance(start, int):
                        spans.append((start, count, span.step))
                        continue
                    place = next(places, len(self.starts))
                    if place == len(self.starts):
                        self.starts.append(start)
                    spans.append((_Start(place), count, span.step))
                taken.setdefault(node, tuple(range(first, len(self.starts))))
                entries.append((Op.SLICE, node.dtype, shape, tuple(spans), number[node.sources[0]]))
            else:
                sources = tuple([number[source] for source in node.sources])
                attribute = node.attribute
                if op is Op.PAD:
                    attribute = tuple(dims.rename(widths) for widths in attribute)
                elif op in CONTROL:
                    attribute = self.control(node)
                entries.append((op, node.dtype, shape, attribute, *sources))
            number[node] = len(entries) - 1
        return tuple(entries), tuple([number[root] for root in roots])

    def control(self, node: Node) -> tuple[Any, ...]:
        """The attribute of a loop or branch without its bodies, and those as graphs of entries."""
        bodies = [without_aliases(body) for body in bodies_of(node)]
        # A number that is computed in a body may have got a value elsewhere, which no body can read.
        written = tuple([self.body(topological(body, through_leaves=True), body) for body in bodies])
        facts = with_bodies(node.attribute, [()] * len(bodies))
        if isinstance(facts, Loop) and facts.length is not None:
            facts = facts._replace(length=self.dims.rename((facts.length,))[0])
        if isinstance(facts, Hosted):
            self.calls_python = True
            facts = facts._replace(types=tuple((dtype, self.dims.rename(shape)) for dtype, shape in facts.types))
        return facts, written

    def body(self, order: Sequence[Node], roots: Sequence[Node]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        bases: Bases = {node: node for node in order if node.op is Op.CONST}
        return self.graph(order, roots, bases, _varying(order, bases) if self.integers else (), self.taken)


class _Dims:
    """Dims renamed d0, d1, … in the order in which they are met, so that their names never matter."""

    def __init__(self) -> None:
        self.found: dict[Variable, Variable] = {}

    def rename(self, shape: tuple[IndexLike, ...]) -> tuple[IndexLike, ...]:
        for size in shape:  # asked of every node: a loop is faster than `all`
            if type(size) is not int:
                break
        else:
            return shape
        for size in shape:
            if not isinstance(size, int):
                for v in sorted(size.variables(), key=lambda v: v.name):
                    # A dim of 0 empties every loop over it, so whatever runs may take it to be at least 1.
                    self.found.setdefault(v, Variable(f"d{len(self.found)}", max(v.low, 1), v.high))
        renaming = {old: of(new) for old, new in self.found.items()}
        return tuple(size if isinstance(size, int) else size.substitute(renaming) for size in shape)


def with_steady(key: GraphKey, inputs: Container[int]) -> GraphKey:
    """The key of the same graph for inputs that stay the same from call to call: their entries say so."""
    steady = [(*entry, True) if entry[0] is Op.LEAF and entry[4] in inputs else entry for entry in key.entries]
    return key._replace(entries=tuple(steady))


def is_steady(entry: tuple[Any, ...]) -> bool:
    """Whether the entry of a leaf says that it stays the same from call to call."""
    return len(entry) > 5


def rebuild(key: GraphKey) -> list[Node]:
    """The graph of a key: leaves carry `Argument`, slice starts are variables s0, s1, …"""
    return _rebuilt(key.entries, key.roots)


def _rebuilt(entries: Sequence[Any], roots: Sequence[int]) -> list[Node]:
    nodes: list[Node] = []
    for entry in entries:
        op: Op = entry[0]
        dtype: DType = entry[1]
        if op is Op.LEAF:
            node = make(op, dtype, entry[2], (), Argument("input", entry[4], entry[3], is_steady(entry)))
        elif op is Op.CONST:
            scalar = entry[3] is None
            number = make(Op.LEAF, dtype, (), (), Argument("scalar", entry[4])) if scalar else None
            node = broadcast_to(number or make(op, dtype, (), (), entry[3]), entry[2])
        elif op is Op.SLICE:
            source = nodes[entry[4]]
            spans: list[Span] = []
            for span, size in zip(entry[3], source.shape, strict=True):
                if isinstance(span[0], _Start):
                    spans.append(_slot_span(f"s{span[0].number}", span[1], span[2], size))
                else:
                    spans.append(Span(*span))
            node = make(op, dtype, entry[2], (source,), tuple(spans))
        else:
            attribute = entry[3]
            if op in CONTROL:
                facts, bodies = attribute
                attribute = with_bodies(facts, [_rebuilt(body, found) for body, found in bodies])
            node = make(op, dtype, entry[2], tuple([nodes[k] for k in entry[4:]]), attribute)
        nodes.append(node)
    return [nodes[k] for k in roots]


def _slot_span(name: str, size: int, step: int, whole: IndexLike) -> Span:
    reach = (as_index(size) - 1) * abs(step)
    first: Index = as_index(0) if step > 0 else reach
    last: Index = as_index(whole) - 1 - reach if step > 0 else as_index(whole) - 1
    start = Index({(Variable(name, first, last),): 1}, 0)
    return Span(start, size, step)

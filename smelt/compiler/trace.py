"""From live nodes to a key: the whole graph, compacted, with everything that may change from call to call taken out.

What changes becomes an argument: the storage of leaves, float constants other than 0 and ±1, and where slices start,
also inside the bodies of loops and branches. Outside of `jit`, where every new number is a new graph, integer constants
do as well, unless their value decides what is generated.
Two graphs with equal keys are computed by the same compiled graph. Keys compare by equality over the whole graph.
"""

from __future__ import annotations

import math
from collections.abc import Container, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from smelt.config import settings
from smelt.dtypes import DType
from smelt.graph import (
    CONTROL,
    DONE,
    VIEWS,
    Check,
    Hosted,
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
    make,
    of,
    reshape_strides,
    scalar_of,
    topological,
    with_bodies,
    with_checks,
    without_aliases,
)
from smelt.stated import stated

_Taken = dict[Hashable, int]  # by node or axis of a slice, the number of the argument that it was taken out as
Bases = dict[Node, "LeafView | Node | None"]  # a view of a leaf, a constant that is repeated, or neither


class LeafView(NamedTuple):
    """A leaf seen through movement that needs no kernel: element strides, and where it starts."""

    leaf: Node
    shape: Shape
    strides: tuple[IndexLike, ...]
    offset: int


class Argument(NamedTuple):
    """The attribute of a leaf in a traced graph: the number of an input or of a scalar."""

    kind: str  # "input", "prepared", "scalar", or "parameter" of a body
    number: int
    strides: tuple[IndexLike, ...] = ()
    steady: bool = False  # the same in many calls
    held: bool = False  # by a module or a closure, rather than given


class GraphKey(NamedTuple):
    """A whole graph, by which it is found again, with the counts of what was taken out of it."""

    entries: tuple[Any, ...]  # sources before users: an op, dtype, shape, attribute, then the numbers of sources
    roots: tuple[int, ...]
    bounds: tuple[tuple[int, int], ...]  # of the dims
    inputs: int
    scalars: int
    starts: int
    calls_python: bool  # functions of this process, which no other one has
    contracts: str = "exact"  # how far results may differ from what is written: `config.CONTRACTS`
    rules: str = ""  # the name of those that users have stated


class Traced(NamedTuple):
    """A key with what was taken out of it, in the order in which the compiled graph takes its arguments."""

    key: GraphKey
    inputs: tuple[LeafView, ...]
    scalars: tuple[bytes, ...]
    starts: tuple[int, ...]
    dims: tuple[Variable, ...]
    checks: tuple[Check, ...] = ()  # about the last results, which are beyond the roots


def _shown(node: Node, view: LeafView) -> LeafView | None:
    """What a node shows of a leaf of which its source shows a view; None if the elements do not lie evenly."""
    op, attribute, offset = node.op, node.attribute, view.offset
    strides: tuple[IndexLike, ...] | None = view.strides
    if op is Op.PERMUTE:
        strides = tuple([view.strides[axis] for axis in attribute])
    elif op is Op.EXPAND:
        axes = zip(view.strides, view.shape, node.shape, strict=True)
        strides = tuple([0 if old == 1 and new != 1 else stride for stride, old, new in axes])
    elif op is Op.SLICE:
        for span, stride in zip(attribute, view.strides, strict=True):
            if span.start and not (isinstance(stride, int) and isinstance(span.start, int)):
                return None
            offset += span.start * stride if span.start else 0
        strides = tuple([stride * span.step for span, stride in zip(attribute, view.strides, strict=True)])
    elif op is Op.WINDOW:
        axis, _, step, dilation = attribute
        stride = view.strides[axis]
        strides = (*view.strides[:axis], stride * step, *view.strides[axis + 1 :], stride * dilation)
    elif op is Op.RESHAPE:
        strides = reshape_strides(view.shape, view.strides, node.shape)
    return None if strides is None else LeafView(view.leaf, node.shape, strides, offset)


@lru_cache(maxsize=4096)
def _is_plain(dtype: DType, bits: bytes) -> bool:
    """Whether rules look for a number: 0 and ±1, what is not finite, and where the range of integers ends."""
    value = scalar_of(bits, dtype)
    return value in (0, 1, -1) or (value in dtype.range if dtype.is_integer else not math.isfinite(value))


_CHECKED = frozenset({Op.GATHER, Op.SCATTER})  # where an index may lie outside its axis
_SPECIAL = _CHECKED | CONTROL
_SHOWING = VIEWS | {Op.ALIAS}
_BASED = _SHOWING | {Op.LEAF, Op.CONST}
_LOOKING = ("regroups", "fast")  # contracts with rules for bounded and positive values
_BY_SECOND = frozenset({"floordiv", "mod", "pow", "shl", "shr"})  # other code for another second operand


def _varying(order: Sequence[Node], bases: Bases) -> set[Node]:
    """The integer constants whose values do not decide what is generated: all but divisors, exponents, distances of
    shifts, and whatever an index is computed from, since its range decides about checks.
    """
    found = {base for base in bases.values() if type(base) is Node and base.dtype.is_integer}
    constants = {node for node in found if not _is_plain(node.dtype, node.attribute)}
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


def trace(
    roots: Sequence[Node],
    contracts: str | None = None,
    *,
    effects: Sequence[Node] = (),
    integers: bool = False,
    once: bool = False,
) -> Traced:
    """The key of the graph below the roots, and its arguments. Effects and checks of indices are further roots, after
    the given ones. With `integers`, integer constants are arguments as floats are. Contracts are those in force unless
    given. A graph that is traced `once` for many calls keeps its floats where rules may ask for their values.
    """
    contracts = contracts or settings().contracts
    roots = [*roots, *effects]
    order, bases = _needed(roots)
    ops = {node.op for node in order}
    if Op.CONCAT in ops and contracts not in ("off", "exact"):
        from smelt.compiler.together import together  # which few processes need

        joined = together(roots, order)
        if joined != roots:
            roots = joined
            order, bases = _needed(roots)
    varying = _varying(order, bases) if integers else ()
    checks: dict[Node, Check] = {}
    if not ops.isdisjoint(_SPECIAL):
        if ops & CONTROL:
            roots, checks = with_checks(without_aliases(roots))
            order, bases = _needed([*roots, *checks])
        else:
            checks = checks_of(order)
            order, bases = _needed(checks, order, bases)
        roots = [*roots, *checks]
    writer = _Writer(integers, once and contracts in _LOOKING)
    entries, numbers = writer.graph(order, roots, bases, varying, {})
    dims = writer.dims
    bounds = tuple([(v.low, v.high) for v in dims.values()])
    inputs, scalars, starts = tuple(writer.inputs), tuple(writer.scalars), tuple(writer.starts)
    key = GraphKey(
        entries,
        numbers,
        bounds,
        len(inputs),
        len(scalars),
        len(starts),
        writer.calls_python,
        contracts,
        stated(),
    )
    return Traced(key, inputs, scalars, starts, tuple(dims), (*[DONE] * len(effects), *checks.values()))


def _needed(roots: Iterable[Node], before: Sequence[Node] = (), bases: Bases | None = None) -> tuple[list[Node], Bases]:
    """What has to be computed or read for the roots, sources before users, behind what was found `before`. What has a
    base needs nothing below it; of an alias, only derivatives read more than the first source.
    """
    bases = {} if bases is None else bases

    def reads(node: Node) -> Sequence[Node]:
        if node.op is Op.ALIAS and node.leaf is None:
            return node.sources[:1]
        has_base = (node.op in _BASED or node.leaf is not None) and base_of(node, bases) is not None
        return () if has_base else node.sources

    return [*before, *topological(roots, known=set(before), reads=reads)], bases


def base_of(node: Node, known: Bases) -> LeafView | Node | None:
    """The leaf that a node shows, through which strides, or the constant that it repeats; None if it is neither."""
    chain: list[Node] = []
    while node.op in _SHOWING and node.leaf is None and node not in known:
        chain.append(node)
        node = node.sources[0]
    found = known.get(node)
    if found is None:
        leaf = node.leaf or node
        whole = LeafView(leaf, leaf.shape, leaf.attribute.strides, 0) if leaf.op is Op.LEAF else None
        found = known[node] = node if node.op is Op.CONST else whole
    for node in reversed(chain):
        found = known[node] = _shown(node, found) if type(found) is LeafView else found
    return found


class _Start(NamedTuple):
    """The number of a slice start that was taken out of a graph."""

    number: int


class _Writer:
    """Writes graphs down, and collects what it takes out of them and out of the bodies inside."""

    def __init__(self, integers: bool, keeps_floats: bool) -> None:
        self.integers, self.keeps_floats = integers, keeps_floats
        self.inputs: dict[LeafView, int] = {}
        self.scalars: list[bytes] = []
        self.starts: list[int] = []
        # What was taken out of a node of a body is the same argument in another body that has the node: otherwise two
        # loops of which one repeats the other would not look alike.
        self.taken: _Taken = {}
        self.dims: dict[Variable, Variable] = {}  # those of keys, d0, d1, … as they are met: names never matter
        self.calls_python = False

    def graph(
        self, order: Sequence[Node], roots: Sequence[Node], bases: Bases, varying: Container[Node], taken: _Taken
    ) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """An entry for each node of the order, and the numbers of the roots. What shows a leaf is an input, and
        integers that are `varying` are taken out.

        Of a body, only constants have a base.
        """
        number: dict[Node, int] = {}
        entries: list[Any] = []
        rename, inputs = self.rename, self.inputs
        for node in order:
            op = node.op
            if op is Op.ALIAS and node.leaf is None:
                number[node] = number[node.sources[0]]
                continue
            base, shape = bases.get(node), rename(node.shape)
            attribute: Any = node.attribute
            sources: list[int] = []
            if isinstance(base, LeafView):
                place = inputs.setdefault(base, len(inputs))
                op, attribute = Op.LEAF, Argument("input", place, rename(base.strides))
            elif base is not None:
                op, attribute = Op.CONST, base.attribute
                floats = base.dtype.is_float and not self.keeps_floats
                if base in varying or (floats and not _is_plain(base.dtype, attribute)):
                    attribute = Argument("scalar", _take(self.scalars, attribute, base, taken))
            else:
                sources = [number[source] for source in node.sources]
                if op is Op.SLICE:
                    attribute = self.spans(node, taken)
                elif op is Op.PAD:
                    attribute = tuple(rename(widths) for widths in attribute)
                elif op in CONTROL:
                    attribute = self.control(node)
            number[node] = len(entries)
            entries.append((op, node.dtype, shape, attribute, *sources))
        return tuple(entries), tuple([number[root] for root in roots])

    def spans(self, node: Node, taken: _Taken) -> tuple[Any, ...]:
        """What a slice shows of each axis, without where that starts."""
        spans: list[tuple[Any, ...]] = []
        for axis, (span, size) in enumerate(zip(node.attribute, node.sources[0].shape, strict=True)):
            start, count = self.rename((span.start, span.size))
            if span.size == size or not isinstance(start, int):
                spans.append((start, count, span.step))
            else:
                spans.append((_Start(_take(self.starts, start, (node, axis), taken)), count, span.step))
        return tuple(spans)

    def control(self, node: Node) -> tuple[Any, ...]:
        """The attribute of a loop or branch without its bodies, and those as graphs of entries."""
        written: list[Any] = []
        for body in map(without_aliases, bodies_of(node)):
            # A number that is computed in a body may have got a value elsewhere, which no body can read.
            order = topological(body, through_leaves=True)
            bases: Bases = {node: node for node in order if node.op is Op.CONST}
            varying = _varying(order, bases) if self.integers else ()
            written.append(self.graph(order, body, bases, varying, self.taken))
        facts = with_bodies(node.attribute, [()] * len(written))
        if isinstance(facts, Loop) and facts.length is not None:
            facts = facts._replace(length=self.rename((facts.length,))[0])
        if isinstance(facts, Hosted):
            self.calls_python = True
            facts = facts._replace(types=tuple((dtype, self.rename(shape)) for dtype, shape in facts.types))
        return facts, tuple(written)

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
                    self.dims.setdefault(v, Variable(f"d{len(self.dims)}", max(v.low, 1), v.high))
        renaming = {old: of(new) for old, new in self.dims.items()}
        return tuple(size if isinstance(size, int) else size.substitute(renaming) for size in shape)


def _take(arguments: list[Any], value: Any, what: Hashable, taken: _Taken) -> int:
    """The number of what is taken out of a graph among its arguments."""
    number = taken.setdefault(what, len(arguments))
    if number == len(arguments):
        arguments.append(value)
    return number


def marked(key: GraphKey, inputs: Container[int], **marks: bool) -> GraphKey:
    """The key of the same graph for inputs that are `steady` or `held`: the entries of their leaves say so."""
    entries = [
        (*entry[:3], entry[3]._replace(**marks)) if entry[0] is Op.LEAF and entry[3].number in inputs else entry
        for entry in key.entries
    ]
    return key._replace(entries=tuple(entries))


def rebuild(key: GraphKey) -> list[Node]:
    """The graph of a key: leaves carry `Argument`, slice starts are variables s0, s1, …"""
    return _rebuilt(key.entries, key.roots)


def _rebuilt(entries: Sequence[Any], roots: Sequence[int]) -> list[Node]:
    nodes: list[Node] = []
    for op, dtype, shape, attribute, *numbers in entries:
        sources = tuple([nodes[k] for k in numbers])
        if op is Op.CONST:  # a number that may be repeated
            number = make(Op.LEAF if isinstance(attribute, Argument) else op, dtype, (), (), attribute)
            nodes.append(broadcast_to(number, shape))
            continue
        if op is Op.LEAF and 0 in attribute.strides:  # what is repeated, rules should see
            once = tuple([1 if stride == 0 else size for size, stride in zip(shape, attribute.strides, strict=True)])
            nodes.append(broadcast_to(make(op, dtype, once, (), attribute), shape))
            continue
        if op is Op.SLICE:
            attribute = tuple([_span(size, *span) for span, size in zip(attribute, sources[0].shape, strict=True)])
        elif op in CONTROL:
            attribute = with_bodies(attribute[0], [_rebuilt(*body) for body in attribute[1]])
        nodes.append(make(op, dtype, shape, sources, attribute))
    return [nodes[k] for k in roots]


def _span(whole: IndexLike, start: _Start | IndexLike, size: IndexLike, step: int) -> Span:
    if isinstance(start, _Start):
        reach = (as_index(size) - 1) * abs(step)
        first, last = (0, whole - 1 - reach) if step > 0 else (reach, whole - 1)
        start = of(Variable(f"s{start.number}", first, last))
    return Span(start, size, step)

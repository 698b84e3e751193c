"""A graph as a function of linalg on tensors: the kernels that it is cut into, one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from smelt.compiler import Argument as Input
from smelt.compiler import simplify
from smelt.cost import Profile
from smelt.formats.linalg.code import Code, Value, scalar_type
from smelt.formats.linalg.operands import known_sizes
from smelt.formats.linalg.region import write_region
from smelt.formats.linalg.scalars import refused
from smelt.formats.mlir import (
    Argument,
    Array,
    Attribute,
    Block,
    Dense,
    Function,
    Module,
    Opaque,
    Ranked,
    Region,
    Type,
    Typed,
)
from smelt.fuse import ROUTINES, Group, build_region, contiguous, partition, ready, storable
from smelt.graph import CONTROL, Node, Op, host_name, make, row_major, substituted, topological
from smelt.tensor import wrap

# A processor without instructions of its own: no kernel is cut for the sake of some.
_PLAIN = Profile("", "", 16, 16, 1, 32 << 10, 1 << 20, 8 << 20, frozenset())


def write_graph(arguments: Sequence[Node], roots: Sequence[Node]) -> Module:
    """The module with a function of these leaves, whose results are the roots. Other leaves are constants."""
    new = {node: _input(k, node) for k, node in enumerate(arguments)}
    constants = [node for node in topological(roots) if node not in new and (node.op is Op.LEAF or node.leaf)]
    new.update((node, _input(len(new) + k, node)) for k, node in enumerate(constants))
    writer = _Writer()
    given = [writer.argument(k, new[node]) for k, node in enumerate(arguments)]
    for node in constants:
        writer.constant(new[node], node.leaf or node)
    results = writer.function(simplify(substituted(roots, new)))
    writer.code.several("func.return", results, ())
    types: list[tuple[Type, dict[str, Attribute]]] = [(value.type, {}) for value in results]
    body = Region([Block([], writer.code.operations)])
    return Module("", {"main": Function("main", given, types, body, {})}, [], {}, {})


def _input(number: int, node: Node) -> Node:
    """A leaf that the compiler knows as an input, whatever it stands for."""
    return make(Op.LEAF, node.dtype, node.shape, (), Input("input", number, row_major(node.shape)))


class _Writer:
    def __init__(self) -> None:
        self.code = Code()
        self.values: dict[Node, Value] = {}

    def argument(self, number: int, leaf: Node) -> Argument:
        """An argument of the function."""
        self.values[leaf] = Value(f"%arg{number}", _type(leaf))
        return Argument(f"%arg{number}", _type(leaf), {})

    def constant(self, leaf: Node, known: Node) -> None:
        """A tensor that is there when the function is written."""
        data = np.ascontiguousarray(wrap(known).numpy()).tobytes()
        dense = Dense(_type(leaf), not leaf.shape, data)
        self.values[leaf] = self.code.one("arith.constant", (), _type(leaf), value=dense)

    def function(self, roots: Sequence[Node]) -> list[Value]:
        """Write the kernels of a graph that has been simplified; its results."""
        computed = list(dict.fromkeys(root if root.op is Op.LEAF else storable(root) for root in roots))
        graph = ready([root for root in computed if root.op is not Op.LEAF], contiguous, _PLAIN)
        for group in partition(list(dict.fromkeys(graph.roots)), graph.pieces, graph.chains).groups:
            self.group(group)
        last = iter(graph.roots)
        found = {root: self.values[root if root.op is Op.LEAF else next(last)] for root in computed}
        return [found[root if root.op is Op.LEAF else storable(root)] for root in roots]

    def group(self, group: Group) -> None:
        """Write one kernel."""
        if group.sink.op is Op.HOST:
            name = host_name(group.sink.attribute.function)
            raise refused(name, "it is computed by Python.", "--level kernel of smelt emit-mlir shows the call.")
        if group.sink.op in ROUTINES or group.sink.op in CONTROL:
            raise refused(group.sink.op.value, "linalg has reductions and elementwise functions, and this is neither.")
        if 0 in group.result.shape:
            if group.sink not in self.values:
                self.values[group.sink] = self.code.one("tensor.empty", (), _type(group.sink))
            return
        region, nodes = build_region(group, contiguous)
        buffers = zip(region.buffers(), nodes, strict=True)
        values = {buffer.name: self.values[node] for buffer, node in buffers if node in self.values}
        for stored, value in zip(group.results, write_region(self.code, region, values), strict=True):
            if stored.piece is None:
                self.values[stored.sink] = self.reshaped(value, known_sizes(stored.sink.shape))
            else:
                self.insert(stored.sink, stored.piece.start, value)

    def insert(self, whole: Node, start: object, value: Value) -> None:
        """Put a piece of a concat where it belongs."""
        axis = whole.attribute
        into = self.values.get(whole) or self.code.one("tensor.empty", (), _type(whole))
        sizes = [known_sizes(source.shape)[axis] for source in whole.sources]
        starts = [0, *accumulate(sizes)]
        step = row_major(whole.shape)[axis]
        [place] = [k for k, at in enumerate(starts[:-1]) if at * step == start and sizes[k]]
        shape = known_sizes(whole.sources[place].shape)
        self.values[whole] = self.code.one(
            "tensor.insert_slice",
            (self.reshaped(value, shape), into),
            into.type,
            static_offsets=Array("i64", tuple(starts[place] if k == axis else 0 for k in range(len(shape)))),
            static_sizes=Array("i64", tuple(shape)),
            static_strides=Array("i64", (1,) * len(shape)),
            operandSegmentSizes=Array("i32", (1, 1, 0, 0, 0)),
        )

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        """The same elements in another shape."""
        kind = value.type
        assert isinstance(kind, Ranked)
        if kind.sizes == tuple(shape):
            return value
        flat = Ranked((math.prod(shape),), kind.element)
        if kind.sizes and kind != flat:
            value = self.code.one("tensor.collapse_shape", (value,), flat, reassociation=_together(len(kind.sizes)))
        if tuple(shape) == flat.sizes:
            return value if kind.sizes else self.expanded(value, flat)
        if kind.sizes and not shape:
            return self.code.one("tensor.collapse_shape", (value,), Ranked((), kind.element), reassociation=())
        return self.expanded(value, Ranked(tuple(shape), kind.element))

    def expanded(self, value: Value, kind: Ranked) -> Value:
        """A tensor with one axis or none, in a shape with more."""
        assert isinstance(value.type, Ranked)
        groups = _together(len(kind.sizes)) if value.type.sizes else ()
        shape = Array("i64", kind.sizes)  # type: ignore[arg-type]
        return self.code.one("tensor.expand_shape", (value,), kind, reassociation=groups, static_output_shape=shape)


def _together(rank: int) -> tuple[tuple[Typed, ...], ...]:
    """All axes as one, which `reassociation` says."""
    return (tuple(Typed(k, Opaque("i64")) for k in range(rank)),)


def _type(node: Node) -> Ranked:
    return Ranked(tuple(known_sizes(node.shape)), scalar_type(node.dtype).text)

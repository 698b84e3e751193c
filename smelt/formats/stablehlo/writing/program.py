"""A module that is being written: its functions, and which decompositions are there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smelt.dtypes import DType, int32, int64
from smelt.errors import InternalError
from smelt.formats.mlir import Argument, Array, Attribute, Block, Function, Module, Opaque, Region, Symbol, Typed
from smelt.formats.stablehlo.writing import elementwise
from smelt.formats.stablehlo.writing.body import I32, I64, Body, Value, number, refuse, variable_of
from smelt.formats.stablehlo.writing.table import RULES, name_of
from smelt.formats.stablehlo.writing.windows import found_again, standing_for
from smelt.graph import (
    CONTROL,
    Index,
    IndexLike,
    Node,
    Op,
    Shape,
    bodies_of,
    constant_of,
    constant_value,
    expand,
    make,
    make_leaf,
    parameter,
    private_nodes,
    topological,
    value_types,
    with_bodies,
    without_aliases,
)

Type = tuple[DType, Shape]


class Program:
    """Functions of a module, in the order in which they are met."""

    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}
        self._known: dict[Any, str] = {}  # private functions by what they compute
        self._prefix = ""

    def module(self) -> Module:
        return Module("", self.functions, [], {}, {})

    # --- functions

    def main(self, name: str, roots: Sequence[Node], arguments: Mapping[Node, dict[str, Attribute]]) -> None:
        """The function that others call: leaves that are no arguments are constants."""
        self.functions[name] = Function(name, [], [], None, {}, "public")  # which stands first
        body = Body(self)
        given = {node: body.argument(node.dtype, node.shape) for node in arguments}
        self._assert_sizes(body, list(given.values()))
        parts = {part: x for node, whole in given.items() for part, x in _parts(body, node, whole).items()}
        with private_nodes():
            results = Graph(body, given | parts).values(unified(roots))
        self._finish(name, body, list(given.values()), results, "public", list(arguments.values()))

    def _assert_sizes(self, body: Body, arguments: Sequence[Value]) -> None:
        """What must hold of the sizes of arguments: bounds of dims, and that equal ones are equal."""
        met: set[Any] = set()
        for x in arguments:
            for axis, size in enumerate(x.shape):
                if isinstance(size, int):
                    continue
                variable = variable_of(size)
                if variable is None or variable in met:
                    found = body.op("get_dimension_size", [x], int32, (), dimension=number(axis))
                    _assert(body, "EQ", body.convert(found, int64), size, f"axis {axis} of an argument is {size}")
                    continue
                met.add(variable)
                name = variable.text
                _assert(body, "GE", body.size(size), variable.low, f"{name} is at least {variable.low}")
                _assert(body, "LE", body.size(size), variable.high, f"{name} is at most {variable.high}")

    def function(self, name: str, roots: Sequence[Node], types: Sequence[Type]) -> str:
        """A private function of a closed graph; the one that is there already, if there is one."""
        key = tuple(roots), tuple(types)
        known = self._known.get(key)
        if known is None:
            known = self._new(f"{self._prefix}.{name}" if self._prefix else name)
            self._known[key] = known
            body = Body(self)
            arguments = [body.argument(*type_) for type_ in types]
            given = {parameter(k, *type_): x for k, (type_, x) in enumerate(zip(types, arguments, strict=True))}
            self._finish(known, body, arguments, Graph(body, given).values(roots))
        return known

    def decomposed(self, node: Node) -> str:
        """The private function of a composite."""
        types = [(x.dtype, x.shape) for x in node.sources]
        key = node.op, node.attribute, node.dtype, node.shape, tuple(types)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._new(name_of(node))
            body = Body(self)
            arguments = [body.argument(*type_) for type_ in types]
            around, self._prefix = self._prefix, known
            results = _written_out(body, node, arguments)
            self._prefix = around
            self._finish(known, body, arguments, results)
        return known

    def _new(self, name: str) -> str:
        """A name that no function has."""
        number, free = 0, name
        while free in self.functions:
            number += 1
            free = f"{name}_{number}"
        self.functions[free] = Function(free, [], [], None, {}, "private")
        return free

    def _finish(
        self,
        name: str,
        body: Body,
        arguments: Sequence[Value],
        results: Sequence[Value],
        visibility: str = "private",
        attributes: Sequence[dict[str, Attribute]] = (),
    ) -> None:
        body.ends("func.return", results)
        told = attributes or [{}] * len(arguments)
        given = [Argument(x.name, x.type, each) for x, each in zip(arguments, told, strict=True)]
        block = Block(given, body.operations)
        self.functions[name] = Function(name, given, [(x.type, {}) for x in results], Region([block]), {}, visibility)


def _parts(body: Body, node: Node, x: Value) -> dict[Node, Value]:
    """What an argument is made of: the parts of a complex one."""
    if node.op is not Op.COMPLEX:
        return {}
    names = zip(node.sources, ("real", "imag"), strict=True)
    return {part: body.op(name, [x], part.dtype, part.shape) for part, name in names}


def unified(roots: Sequence[Node]) -> list[Node]:
    """The same graph with one node for all that are equal, also in the bodies of loops and branches, and no aliases."""
    new: dict[Node, Node] = {}
    roots = without_aliases(roots)
    for node in topological(roots):
        if node.op is Op.LEAF or node.leaf is not None:
            new[node] = node.leaf or node
            continue
        attribute = node.attribute
        if node.op in CONTROL:
            attribute = with_bodies(attribute, [unified(body) for body in bodies_of(node)])
        new[node] = make(node.op, node.dtype, node.shape, tuple([new[x] for x in node.sources]), attribute)
    return [new[root] for root in roots]


def _assert(body: Body, direction: str, x: Value, bound: IndexLike, rule: str) -> None:
    attributes = {
        "call_target_name": "shape_assertion",
        "api_version": Typed(2, I32),
        "error_message": f"{rule}, and it is {{0}}",
        "has_side_effect": True,
    }
    body.ops("custom_call", [body.compare(direction, x, body.size(bound)), x], [], attributes)


class Graph:
    """A graph on its way into a body: values by the nodes that they are of."""

    def __init__(self, body: Body, given: Mapping[Node, Value]) -> None:
        self.body = body
        self.known: dict[Node, Value | list[Value]] = dict(given)

    def values(self, roots: Sequence[Node]) -> list[Value]:
        """The values of some nodes, after all that they need."""
        roots = found_again(roots)
        for node in topological(roots, known=self.known, reads=_reads):
            if not _is_number(node):  # which is written where it is first read
                self.known[node] = self._written(node)
        return [self.value(root) for root in roots]

    def value(self, node: Node) -> Value:
        constant = constant_of(node)
        if constant is not None:
            return self.body.bits(constant.attribute, node.dtype, node.shape)
        size = _size(node)
        if size is not None:
            return self.body.size(size, node.dtype)
        found = self.known[node]
        assert isinstance(found, Value)
        return found

    def _written(self, node: Node) -> Value | list[Value]:
        whole = standing_for(node)
        if whole is not None:
            return whole.write(self.body, node, [self.value(source) for source in whole.sources])
        if node.op is Op.LEAF or node.leaf is not None:
            leaf = node.leaf or node
            if not hasattr(leaf.attribute, "numpy"):
                raise refuse(node, "a stand-in that is no argument")
            return self.body.array(leaf.attribute.numpy(), node.dtype)
        if node.op is Op.ITEM:
            values = self.known[node.sources[0]]
            assert isinstance(values, list)
            item: Value = values[node.attribute]
            return item
        same = elementwise.unbounded(node)
        if same is not node:  # nothing is written for its bound
            return self.value(same)
        sources = [self.value(source) for source in node.sources]
        row = RULES.get(node.op)
        if row is not None and row.plain is not None:
            plain: Value | list[Value] | None = row.plain(self.body, node, *sources)
            if plain is not None:
                return plain
        return composite(self.body, node, sources)


def _size(node: Node) -> Index | None:
    """The size that a node counts, as `build.size_node` does, in any type of integers."""
    while node.op is Op.CAST and node.dtype in (int32, int64) and node.leaf is None:
        node = node.sources[0]
    if node.op is not Op.REDUCE or node.attribute.op != "add" or node.leaf is not None or node.shape:
        return None
    (x,) = node.sources
    constant, size = constant_of(x), x.shape[0]
    if x.rank != 1 or isinstance(size, int) or constant is None or constant_value(constant) != 1:
        return None
    return size


def _is_number(node: Node) -> bool:
    return constant_of(node) is not None or _size(node) is not None


def _reads(node: Node) -> Sequence[Node]:
    whole = standing_for(node)
    if whole is not None:
        return whole.sources
    return () if node.leaf is not None or _is_number(node) else node.sources


# --- composites


def composite(body: Body, node: Node, sources: Sequence[Value]) -> Value | list[Value]:
    """A node that StableHLO has no operation for."""
    if node.op is not Op.COMPOSITE and (node.op not in RULES or RULES[node.op].composite is None):
        raise refuse(node, "there is no form for it")
    attributes: dict[str, Attribute] = {"name": name_of(node), "decomposition": Symbol(body.program.decomposed(node))}
    parameters = parameters_of(node)
    if parameters:
        attributes["composite_attributes"] = {name: _attribute(value) for name, value in parameters.items()}
    types = value_types(node.attribute) if node.op in CONTROL else [(node.dtype, node.shape)]
    found = body.ops("composite", sources, types, attributes)
    return found if node.op in CONTROL else found[0]


def parameters_of(node: Node) -> dict[str, Any]:
    """What a composite says beside its types."""
    if node.op is Op.COMPOSITE:
        return dict(node.attribute.parameters)
    if node.op in (Op.GATHER, Op.SCATTER, Op.SORT, Op.SCAN, Op.WINDOW):
        return dict(node.attribute._asdict())
    if node.op is Op.LOOP:
        told = node.attribute
        length = {"length": told.length} if isinstance(told.length, int) else {}  # or else that of its xs
        return {"states": told.states, "constants": told.constants, **length, "reverse": told.reverse}
    return {}


def _attribute(value: Any) -> Attribute:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return Typed(value, I64)
    if isinstance(value, float):
        return Typed(value, Opaque("f64"))
    if isinstance(value, tuple) and all(isinstance(each, int) for each in value):
        return Array("i64", value)
    raise InternalError(f"a parameter has no form: {value!r}")


def _written_out(body: Body, node: Node, arguments: Sequence[Value]) -> list[Value]:
    """What a composite computes from its arguments."""
    if node.op is not Op.COMPOSITE:
        rule = RULES[node.op].composite
        assert rule is not None
        found = rule(body, node, *arguments)
        return list(found) if isinstance(found, list) else [found]
    stand_ins = [make_leaf(x.dtype, x.shape, f"argument {k}") for k, x in enumerate(node.sources)]
    same = make(node.op, node.dtype, node.shape, tuple(stand_ins), node.attribute)
    return Graph(body, dict(zip(stand_ins, arguments, strict=True))).values([expand(same)])


def decomposition(node: Node) -> tuple[Module, str]:
    """A module with the function of a composite, as it is written here."""
    program = Program()
    with private_nodes():
        name = program.decomposed(unified([node])[0])
    return program.module(), name

"""Graphs as text: one line per node, sources first; printing and parsing are inverse to each other.

    graph leaves(1) dims(n 1 4096)
    %0 = leaf 0 : float32[4, n]
    %1 = const 0x1.8000000000000p+0 : float32[]
    %2 = reshape %1 : float32[1, 1]
    %3 = expand %2 : float32[4, n]
    %4 = binary add %0 %3 : float32[4, n]
    return %4

The header counts the leaves and gives the bounds of the dims. A value that has been computed is printed as the leaf
where it lies. Floats are hexadecimal and so exact; a NaN is written with its bits. The bodies of a loop or branch
follow its line, indented, with numbers of their own:

    %2 = loop %0 %1 (states 1, constants 1, xs 0, length 10) : float32[4]
      body
        %0 = parameter 0 : float32[4]
        %1 = parameter 1 : float32[4]
        %2 = binary add %0 %1 : float32[4]
        return %2
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, Final

from smelt.dtypes import DType
from smelt.errors import InternalError, ParseError, SmeltError
from smelt.graph import forms
from smelt.graph.forms import COMMON, NUMBER, SIZE, Kind, Line, Text, formed, listed, making_sense, named
from smelt.graph.index import Dim, Variable
from smelt.graph.node import Node, Shape, constant_bytes, make, make_leaf, scalar_of, topological
from smelt.graph.ops import CONTROL, Op, Span
from smelt.graph.rewritten import bodies_of
from smelt.graph.shapes import dims_of
from smelt.graph.verify import FORMS, verify_node


def print_graph(roots: Iterable[Node]) -> str:
    """The text of the graph below the roots."""
    nodes: dict[Node, None] = {}  # with those of bodies
    lines = list(_lines(list(roots), nodes, {}))
    leaves = sum(node.op is Op.LEAF for node in nodes)
    header = SimpleNamespace(leaves=leaves, dims=dims_of(nodes).values())
    return "\n".join([_Graph().written(_HEADER, header), *lines]) + "\n"


def _order(roots: Iterable[Node]) -> list[Node]:
    return list(dict.fromkeys(_standing(node) for node in topological([_standing(root) for root in roots])))


def _lines(roots: Sequence[Node], nodes: dict[Node, None], leaves: dict[Node, int], indent: str = "") -> Iterator[str]:
    text = _Graph()
    order = _order(roots)
    text.numbers = {node: at for at, node in enumerate(order)}
    nodes |= dict.fromkeys(order)
    for at, node in enumerate(order):
        shown: Any = _value(node) if node.op is Op.CONST else node.attribute
        if node.op is Op.LEAF:
            shown = leaves.setdefault(node, len(leaves))
        fields: dict[str, Any] = shown._asdict() if hasattr(shown, "_asdict") else {"attribute": shown}
        said = text.written(_FORMS.get(node.op, _PLAIN), SimpleNamespace(sources=node.sources, **fields))
        yield f"{indent}%{at} = {node.op.value}{said} : {text.written(_TYPE, node)}"
        if node.op in CONTROL:
            for name, body in zip(_BODY_NAMES[node.op], bodies_of(node), strict=False):
                yield f"{indent}  {name}"
                yield from _lines(body, nodes, leaves, indent + "    ")
    yield f"{indent}return{text.write('nodes', roots)}"


def _standing(node: Node) -> Node:
    """The node that is printed for a node: its leaf, once it is computed."""
    return node if node.leaf is None else node.leaf


def parse_graph(text: str, leaves: Sequence[Node] | None = None) -> list[Node]:
    """The roots of a printed graph. Leaves have their names as storage, unless the nodes to use are given.

    Raises ParseError, with the number of the line, for anything that is not a well-formed graph.
    """
    lines = forms.text_lines(text)
    graph = _Graph(lines, leaves)
    graph.header()
    roots = graph.graph()
    for line in lines:
        line.fail("nothing after the return line")
    return list(roots)


class _Graph(Text):
    """The text of a graph, or of the body of a loop or branch, which numbers its nodes itself."""

    def __init__(self, lines: Iterable[Line] = (), given: Sequence[Node] | None = None) -> None:
        super().__init__()
        self.numbers: dict[Node, int] = {}
        self.nodes: list[Node] = []
        self.given, self.lines, self.depth = given, iter(lines), 0
        self.leaves: dict[int, Node] = {}
        self.leaf_count = 0

    def next_line(self) -> Line:
        line = next(self.lines, None)
        if line is None:
            raise ParseError("the graph has no return line")
        return line

    def header(self) -> None:
        line = self.next_line()
        self.leaf_count = self.read_form(_HEADER, line)["leaves"]
        line.end()

    def graph(self) -> tuple[Node, ...]:
        """The roots of a graph, from its first line on."""
        while True:
            line = self.next_line()
            if line.accept("return"):
                roots: tuple[Node, ...] = self.read("nodes", line)
                line.end()
                return roots
            with making_sense(line):
                self.nodes.append(self.node(line))

    def body(self, name: str) -> tuple[Node, ...]:
        """A closed graph under its name."""
        line = self.next_line()
        line.expect(name)
        line.end()
        inner = _Graph(self.lines, self.given)
        inner.depth, inner.leaves, inner.leaf_count = self.depth + 1, self.leaves, self.leaf_count
        inner.variables = self.variables
        return inner.graph() if inner.depth <= _MOST_DEPTH else line.fail(f"bodies at most {_MOST_DEPTH} deep")

    def node(self, line: Line) -> Node:
        line.expect("%")
        if line.integer() != len(self.nodes):
            line.fail(f"the name %{len(self.nodes)} before here")
        line.expect("=")
        op: Op = self.read("op", line)
        fields = self.read_form(_FORMS.get(op, _PLAIN), line)
        sources = fields.pop("sources", ())
        line.expect(":")
        dtype, shape = self.read_form(_TYPE, line).values()
        if op is Op.CONST:
            fields["attribute"] = _constant(fields["attribute"], dtype, line)
        line.end()
        if op is Op.LEAF:
            return self.leaf(fields["attribute"], dtype, shape, line)
        if op is Op.LOOP:
            endless = fields.setdefault("length", None) is None
            fields |= {"body": self.body("body"), "test": self.body("test") if endless else None}
        elif op is Op.BRANCH:
            fields = {"true": self.body("true"), "false": self.body("false")}
        kind: Any = FORMS[op].attribute
        attribute = kind(**fields) if fields and hasattr(kind, "_fields") else fields.get("attribute")
        node = make(op, dtype, shape, sources, attribute)
        verify_node(node)
        return node

    def leaf(self, number: int, dtype: DType, shape: Shape, line: Line) -> Node:
        if not 0 <= number < self.leaf_count:
            line.fail(f"a leaf below {self.leaf_count} before here")
        if self.given is not None and number >= len(self.given):
            line.fail(f"one of the {len(self.given)} leaves that were given")
        known = self.given[number] if self.given is not None else self.leaves.get(number)
        known = known or make_leaf(dtype, shape, f"leaf {number}")
        if known.dtype is not dtype or known.shape != shape:
            line.fail(f"the type of leaf {number}, {self.written(_TYPE, known)}, before here")
        self.leaves[number] = known
        return known


# --- numbers


def _value(node: Node) -> Any:
    """The scalar of a constant, or the bits of a NaN."""
    value = scalar_of(node.attribute, node.dtype)
    is_nan = isinstance(value, float) and math.isnan(value)
    return (int.from_bytes(node.attribute, "little"),) if is_nan else value


def _constant(value: Any, dtype: DType, line: Line) -> bytes:
    """The bits of a constant, which must be exactly what was written."""
    bits: bytes | None = None
    if isinstance(value, tuple) and 0 <= value[0] < 1 << dtype.bits:
        bits = value[0].to_bytes(dtype.itemsize, "little")
    elif type(value) is (bool if dtype.is_bool else float if dtype.is_float else int):
        bits = constant_bytes(value, dtype)
    if bits is None or _write_scalar(None, _value(make(Op.CONST, dtype, (), (), bits))) != _write_scalar(None, value):
        line.fail(f"a value that {dtype} holds exactly before here")
    return bits


def _write_scalar(_: object, value: Any) -> str:
    match value:
        case None | bool():
            return {None: "none", True: "true", False: "false"}[value]
        case (bits,):
            return f"nan {bits}"
        case float():
            return value.hex()
        case int():
            return str(value)
        case str():
            return json.dumps(value)
    raise InternalError(f"a parameter has no text form: {value!r}")


def _read_constant(text: _Graph, line: Line) -> Any:
    return (line.integer(),) if line.accept("nan") else _read_scalar(text, line)


def _read_scalar(_: _Graph, line: Line) -> Any:
    """A number, true, false, none, or a string."""
    if line.kind == "string":
        return line.string()
    negative = line.accept("-")
    if line.kind == "number" and line.token.isdigit():
        return -line.integer() if negative else line.integer()
    known = {"inf": math.inf} if negative else _NAMED
    if line.token not in known and not line.token.startswith("0x"):
        line.fail("a value")
    try:
        value = known[line.token] if line.token in known else float.fromhex(line.token)
    except (ValueError, OverflowError):
        line.fail("a hexadecimal float")
    line.take()
    return -value if negative else value


_NAMED: Final[dict[str, Any]] = {"true": True, "false": False, "none": None, "inf": math.inf}


# --- kinds of fields


def _read_dim(text: _Graph, line: Line) -> None:
    name, low, high = line.name(), line.integer(), line.integer()
    if name in text.variables:
        line.fail(f"one dim called {name!r}")
    try:
        text.variables[name] = Dim(name, low, high)
    except SmeltError:
        line.fail("bounds with 0 <= low <= high")


def _write_dim(_: _Graph, dim: Variable) -> str:
    if dim.first.value is None or dim.last.value is None:
        raise InternalError(f"the bounds of the dim {dim.name} are not numbers")
    return f"{dim.text} {dim.low} {dim.high}"


def _read_nodes(text: _Graph, line: Line) -> tuple[Node, ...]:
    found = []
    while line.accept("%"):
        number = line.integer()
        if not 0 <= number < len(text.nodes):
            line.fail(f"a node that is already there before here, not %{number!r:.20},")
        found.append(text.nodes[number])
    return tuple(found)


def _flag(*words: str) -> Kind:
    table = dict(zip(words, (False, True), strict=True))
    return named(" or ".join(words), lambda _: table, lambda _, value: words[value])


_OPS: Final = {op.value: op for op in Op}
_Graph.kinds = {
    **COMMON,
    "op": named("an op", lambda _: _OPS),
    "shape": listed(SIZE, "[", "]"),
    "dims": listed(Kind(_read_dim, _write_dim), "(", ")"),
    "nodes": Kind(_read_nodes, lambda text, nodes: "".join(f" %{text.numbers[_standing(node)]}" for node in nodes)),
    "constant": Kind(_read_constant, _write_scalar),
    "scalar": Kind(_read_scalar, _write_scalar),
    "axes": listed(NUMBER, "(", ")"),
    "widths": listed(formed(None, "{0:size}:{1:size}"), "(", ")"),
    "spans": listed(formed(Span, "{start:size}:{size:size}:{step:number}"), "(", ")"),
    "parameters": listed(formed(None, "{0:word}={1:scalar}"), "{", "}"),
    "checked": _flag("clamped", "checked"),
    "descending": _flag("ascending", "descending"),
    "indices": _flag("values", "indices"),
    "there": Kind(lambda text, line: True, lambda text, _: ""),
}

_MOST_DEPTH: Final = 50  # of bodies in bodies
_BODY_NAMES: Final = {Op.LOOP: ("body", "test"), Op.BRANCH: ("true", "false"), Op.HOST: ()}

_HEADER: Final = "graph leaves({leaves:number}) dims{dims:dims}"
_TYPE: Final = "{dtype:dtype}{shape:shape}"
_PLAIN: Final = "{sources:nodes}"
# What is written of each op: its attribute, or the parts of that. Of ops that are not listed only the sources are
# written; of aliases and calls of Python's there is more, which has no text. Bodies follow on lines of their own.
_FORMS: Final[dict[Op, str]] = {
    Op.LEAF: " {attribute:number}",
    Op.CONST: " {attribute:constant}",
    Op.PERMUTE: "{sources:nodes} {attribute:axes}",
    Op.PAD: "{sources:nodes} {attribute:widths}",
    Op.SLICE: "{sources:nodes} {attribute:spans}",
    Op.CONCAT: "{sources:nodes} ({attribute:number})",
    Op.WINDOW: "{sources:nodes} ({axis:number}, {size:number}, {step:number}, {dilation:number})",
    Op.UNARY: " {attribute:word}{sources:nodes}",
    Op.BINARY: " {attribute:word}{sources:nodes}",
    Op.REDUCE: " {op:word}{sources:nodes} {axes:axes}",
    Op.SCAN: " {op:word}{sources:nodes} ({axis:number})",
    Op.CONTRACT: "{sources:nodes} {left:axes} {right:axes} {out:axes}",
    Op.GATHER: " {checked:checked}{sources:nodes} {axes:axes}",
    Op.SCATTER: " {op:word} {checked:checked}{sources:nodes} {axes:axes}",
    Op.SORT: " {descending:descending} {indices:indices}{sources:nodes} ({axis:number})",
    Op.COMPOSITE: " {name:word}{sources:nodes} {parameters:parameters}",
    Op.PARAMETER: " {attribute:number}",
    Op.LOOP: (
        "{sources:nodes} (states {states:number}, constants {constants:number}, xs {xs:number}"
        "[, length {length:size}][, reverse{reverse:there}])"
    ),
    Op.ITEM: " {attribute:number}{sources:nodes}",
}

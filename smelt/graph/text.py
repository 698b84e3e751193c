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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from smelt.dtypes import ALL, DType
from smelt.errors import InternalError, ParseError, SmeltError
from smelt.graph.index import Dim, Index, Variable, size_of
from smelt.graph.index_text import TokenReader
from smelt.graph.node import Node, Shape, constant_bytes, constant_value, make, topological
from smelt.graph.ops import (
    CONTROL,
    Branch,
    Composition,
    Contraction,
    Gathering,
    Loop,
    Op,
    Reduction,
    Scanning,
    Scattering,
    Sorting,
    Span,
    Window,
)
from smelt.graph.rewritten import bodies_of
from smelt.graph.shapes import dims_of
from smelt.graph.verify import verify_node

T = TypeVar("T")


def print_graph(roots: Iterable[Node]) -> str:
    """The text of the graph below the roots."""
    wanted = list(roots)
    nodes = list(_all_nodes(wanted))
    leaves = {node: at for at, node in enumerate(node for node in nodes if node.op is Op.LEAF)}
    dims = dims_of(nodes)
    header = f"graph leaves({len(leaves)}) dims({', '.join(map(_dim_text, dims.values()))})"
    return "\n".join([header, *_lines(wanted, leaves)]) + "\n"


def _all_nodes(roots: Iterable[Node]) -> Iterator[Node]:
    """The nodes that are printed, once each, with those of bodies."""
    found: dict[Node, None] = {}
    stack = [list(roots)]
    while stack:
        for node in _order(stack.pop()):
            if node not in found:
                found[node] = None
                stack += [list(body) for body in (bodies_of(node) if node.op in CONTROL else ())]
    yield from found


def _order(roots: Iterable[Node]) -> list[Node]:
    wanted = [_standing(root) for root in roots]
    return list(dict.fromkeys(_standing(node) for node in topological(wanted)))


def _lines(roots: Iterable[Node], leaves: dict[Node, int], indent: str = "") -> Iterator[str]:
    wanted = [_standing(root) for root in roots]
    order = _order(wanted)
    number = {node: at for at, node in enumerate(order)}
    for node in order:
        form = _FORMS.get(node.op, _NO_FORM)
        words = [str(leaves[node])] if node.op is Op.LEAF else _part_texts(node, form.before)
        words = [_const_text(node)] if node.op is Op.CONST else words
        sources = [f"%{number[_standing(source)]}" for source in node.sources]
        parts = [node.op.value, *words, *sources, *_part_texts(node, form.after), ":", _type_text(node)]
        yield f"{indent}%{number[node]} = {' '.join(parts)}"
        if node.op in CONTROL:
            for name, body in zip(_BODY_NAMES[node.op], bodies_of(node), strict=False):
                yield f"{indent}  {name}"
                yield from _lines(body, leaves, indent + "    ")
    yield indent + " ".join(["return", *(f"%{number[root]}" for root in wanted)])


def _standing(node: Node) -> Node:
    """The node that is printed for a node: its leaf, once it is computed."""
    return node if node.leaf is None else node.leaf


def _type_text(node: Node) -> str:
    return f"{node.dtype}[{', '.join(map(str, node.shape))}]"


def _dim_text(dim: Variable) -> str:
    if dim.first.value is None or dim.last.value is None:
        raise InternalError(f"the bounds of the dim {dim.name} are not numbers")
    return f"{dim.text} {dim.low} {dim.high}"


def _const_text(node: Node) -> str:
    value = constant_value(node)
    is_nan = isinstance(value, float) and math.isnan(value)
    return f"nan {int.from_bytes(node.attribute, 'little')}" if is_nan else _scalar_text(value)


def _scalar_text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value)
    raise InternalError(f"a parameter has no text form: {value!r}")


def _part_texts(node: Node, fields: Mapping[str, Field]) -> list[str]:
    return [field.write(getattr(node.attribute, name) if name else node.attribute) for name, field in fields.items()]


# --- parsing


class Placeholder:
    """Stands for the storage of a leaf that was read from text."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"leaf {self.number}"


def parse_graph(text: str, leaves: Sequence[Node] | None = None) -> list[Node]:
    """The roots of a printed graph. Leaves get placeholders as storage, unless the nodes to use are given.

    Raises ParseError, with the number of the line, for anything that is not a well-formed graph.
    """
    lines = iter([TokenReader(line, number) for number, line in enumerate(text.splitlines(), 1) if line.strip()])
    parser = _Parser(leaves, lines)
    parser.header()
    roots = parser.graph()
    for reader in lines:
        reader.fail("nothing after the return line")
    return roots


class _Parser:
    def __init__(self, leaves: Sequence[Node] | None, lines: Iterator[TokenReader], depth: int = 0) -> None:
        self.given, self.lines, self.depth = leaves, lines, depth
        self.leaves: dict[int, Node] = {}
        self.leaf_count = 0
        self.dims: dict[str, Index] = {}
        self.nodes: list[Node] = []

    def next_line(self) -> TokenReader:
        reader = next(self.lines, None)
        if reader is None:
            raise ParseError("the graph has no return line")
        return reader

    def graph(self) -> list[Node]:
        """The roots of a graph, from its first line on."""
        while True:
            reader = self.next_line()
            if reader.accept("return"):
                roots = self.sources(reader)
                reader.end()
                return roots
            try:
                self.nodes.append(self.node(reader))
            except InternalError as error:
                raise ParseError(f"line {reader.line}: {str(error).splitlines()[0]}") from None

    def body(self, name: str) -> tuple[Node, ...]:
        """A closed graph under its name."""
        reader = self.next_line()
        reader.expect(name)
        reader.end()
        if self.depth == _MOST_DEPTH:
            reader.fail(f"bodies at most {_MOST_DEPTH} deep")
        inner = _Parser(self.given, self.lines, self.depth + 1)
        inner.leaves, inner.leaf_count, inner.dims = self.leaves, self.leaf_count, self.dims
        return tuple(inner.graph())

    def header(self) -> None:
        reader = self.next_line()
        reader.expect("graph", "leaves", "(")
        self.leaf_count = reader.integer()
        reader.expect(")", "dims")
        for name, low, high in _items(reader, lambda: (reader.name(), reader.integer(), reader.integer())):
            if name in self.dims:
                reader.fail(f"one dim called {name!r}")
            try:
                self.dims[name] = Dim(name, low, high)
            except SmeltError:
                reader.fail("bounds with 0 <= low <= high")
        reader.end()

    def node(self, reader: TokenReader) -> Node:
        reader.expect("%")
        if reader.integer() != len(self.nodes):
            reader.fail(f"the name %{len(self.nodes)} before here")
        reader.expect("=")
        word = reader.name("an op")
        if word not in _OPS:
            reader.fail(f"an op before here, not {word!r:.40},")
        op = _OPS[word]
        if op is Op.LEAF:
            leaf = self.leaf(reader)
            reader.end()
            return leaf
        form = _FORMS.get(op, _NO_FORM)
        found = {name: field.read(self, reader) for name, field in form.before.items()}
        sources = tuple(self.sources(reader))
        found |= {name: field.read(self, reader) for name, field in form.after.items()}
        attribute: Any = found.get("") if form.kind is None else form.kind(**found)
        dtype, shape = self.type(reader)
        if op is Op.CONST:
            attribute = _constant(attribute, dtype, reader)
        reader.end()
        if op is Op.LOOP:
            attribute = attribute._replace(body=self.body("body"))
            attribute = attribute if attribute.length is not None else attribute._replace(test=self.body("test"))
        elif op is Op.BRANCH:
            attribute = Branch(self.body("true"), self.body("false"))
        node = make(op, dtype, shape, sources, attribute)
        verify_node(node)
        return node

    def leaf(self, reader: TokenReader) -> Node:
        number = reader.integer()
        if not 0 <= number < self.leaf_count:
            reader.fail(f"a leaf below {self.leaf_count} before here")
        dtype, shape = self.type(reader)
        known = self.leaves.get(number)
        if known is None and self.given is not None:
            if number >= len(self.given):
                reader.fail(f"one of the {len(self.given)} leaves that were given")
            known = self.given[number]
        if known is None:
            known = make(Op.LEAF, dtype, shape, (), Placeholder(number))
        if known.dtype is not dtype or known.shape != shape:
            reader.fail(f"the type of leaf {number}, {known.dtype}[{', '.join(map(str, known.shape))}], before here")
        self.leaves[number] = known
        return known

    def sources(self, reader: TokenReader) -> list[Node]:
        found = []
        while reader.accept("%"):
            number = reader.integer()
            if not 0 <= number < len(self.nodes):
                reader.fail(f"a node that is already there before here, not %{number!r:.20},")
            found.append(self.nodes[number])
        return found

    def loop(self, reader: TokenReader) -> Loop:
        """What is said of a loop; its bodies follow."""
        reader.expect("(")
        counts = []
        for name in ("states", "constants", "xs"):
            reader.expect(name)
            counts.append(reader.integer())
            if name != "xs":
                reader.expect(",")
        length, reverse = None, False
        while not reader.accept(")"):
            reader.expect(",")
            if length is None and not reverse and reader.accept("length"):
                length = self.size(reader)
            else:
                reader.expect("reverse")
                reverse = True
        states, constants, xs = counts
        return Loop((), None, states, constants, xs, length, reverse)

    def size(self, reader: TokenReader, after: str = "") -> Any:
        if after:
            reader.expect(after)
        return size_of(reader.index(self.dims))

    def span(self, reader: TokenReader) -> Span:
        start, size = self.size(reader), self.size(reader, ":")
        reader.expect(":")
        return Span(start, size, reader.integer())

    def type(self, reader: TokenReader) -> tuple[DType, Shape]:
        reader.expect(":")
        name = reader.name("a dtype")
        if name not in _DTYPES:
            reader.fail(f"a dtype before here, not {name!r:.40},")
        return _DTYPES[name], tuple(_items(reader, lambda: self.size(reader), "[]"))


def _items(reader: TokenReader, read: Callable[[], T], brackets: str = "()") -> list[T]:
    """A list in brackets with commas in between."""
    reader.expect(brackets[0])
    found: list[T] = []
    while not reader.accept(brackets[1]):
        if found:
            reader.expect(",")
        found.append(read())
    return found


def _scalar(reader: TokenReader) -> Any:
    """A number, true, false, none, a string, or ("nan", bits)."""
    if reader.kind == "string":
        return reader.string()
    negative = reader.accept("-")
    if reader.kind == "name":
        word = reader.take()
        if word == "nan" and not negative:
            return ("nan", reader.integer())
        if word == "inf":
            return -math.inf if negative else math.inf
        if word in _NAMED and not negative:
            return _NAMED[word]
        reader.fail(f"a value before here, not {word!r:.40},")
    if reader.kind != "number":
        reader.fail("a value")
    if reader.token.isdigit():
        return -reader.integer() if negative else reader.integer()
    try:
        value = float.fromhex(reader.token)
    except (ValueError, OverflowError):
        reader.fail("a hexadecimal float")
    if not reader.take().startswith("0x"):
        reader.fail("a hexadecimal float before here")
    return -value if negative else value


def _parameter(reader: TokenReader) -> tuple[str, Any]:
    name = reader.name()
    reader.expect("=")
    value = _scalar(reader)
    return (name, value) if not isinstance(value, tuple) else reader.fail("a parameter before here")


def _constant(value: Any, dtype: DType, reader: TokenReader) -> bytes:
    """The bits of a constant, which must be exactly what was written."""
    if isinstance(value, tuple):
        bits = value[1]
        if dtype.is_float and 0 <= bits < 1 << dtype.bits:
            data: bytes = bits.to_bytes(dtype.itemsize, "little")
            if np.isnan(np.frombuffer(data, dtype.numpy)[0]):
                return data
        reader.fail(f"the bits of a NaN of {dtype} before here")
    wanted = bool if dtype.is_bool else float if dtype.is_float else int
    if type(value) is not wanted or (wanted is int and not dtype.minimum <= value <= dtype.maximum):
        reader.fail(f"a value of {dtype} before here")
    data = constant_bytes(value, dtype)
    if wanted is float and float(np.frombuffer(data, dtype.numpy)[0]) != value:
        reader.fail(f"a value that {dtype} holds exactly before here")
    return data


_MOST_DEPTH: Final = 50  # of bodies in bodies
_BODY_NAMES: Final = {Op.LOOP: ("body", "test"), Op.BRANCH: ("true", "false"), Op.HOST: ()}
_DTYPES: Final = {dtype.name: dtype for dtype in ALL}
_OPS: Final = {op.value: op for op in Op}


def _choice(reader: TokenReader, words: Sequence[str]) -> int:
    """Which of the words comes next."""
    word = reader.name()
    return words.index(word) if word in words else reader.fail(f"{' or '.join(words)} before here")


_NAMED: Final[dict[str, Any]] = {"true": True, "false": False, "none": None}


# --- what is written of the attribute of each op


class Field(NamedTuple):
    """A part of an attribute: how it is written, and read back."""

    write: Callable[[Any], str]
    read: Callable[[_Parser, TokenReader], Any]


class Form(NamedTuple):
    """What stands before the sources and after them, by the name of a part of the attribute; "" is all of it."""

    kind: type | None  # of an attribute with parts
    before: dict[str, Field]
    after: dict[str, Field]


def _tuple_text(values: Iterable[object]) -> str:
    return f"({', '.join(map(str, values))})"


def _flag(*words: str) -> Field:
    return Field(words.__getitem__, lambda parser, reader: bool(_choice(reader, words)))


def _axis(reader: TokenReader) -> int:
    axes = _items(reader, reader.integer)
    return axes[0] if len(axes) == 1 else reader.fail("one axis before here")


def _window(reader: TokenReader) -> Window:
    numbers = _items(reader, reader.integer)
    return Window(*numbers) if len(numbers) == 4 else reader.fail("four numbers before here")


def _parameters_text(parameters: Iterable[tuple[str, object]]) -> str:
    return "{" + ", ".join(f"{key}={_scalar_text(value)}" for key, value in parameters) + "}"


def _loop_text(loop: Loop) -> str:
    words = [f"states {loop.states}", f"constants {loop.constants}", f"xs {loop.xs}"]
    words += [f"length {loop.length}"] if loop.test is None else []
    return _tuple_text([*words, *(["reverse"] if loop.reverse else [])])


_NAME: Final = Field(str, lambda parser, reader: reader.name())
_NUMBER: Final = Field(str, lambda parser, reader: reader.integer())
_CHECKED: Final = _flag("clamped", "checked")
_AXIS: Final = Field(lambda axis: f"({axis})", lambda parser, reader: _axis(reader))
_AXES: Final = Field(_tuple_text, lambda parser, reader: tuple(_items(reader, reader.integer)))
_WIDTHS: Final = Field(
    lambda widths: _tuple_text(f"{before}:{after}" for before, after in widths),
    lambda parser, reader: tuple(_items(reader, lambda: (parser.size(reader), parser.size(reader, ":")))),
)
_SPANS: Final = Field(
    lambda spans: _tuple_text(f"{start}:{size}:{step}" for start, size, step in spans),
    lambda parser, reader: tuple(_items(reader, lambda: parser.span(reader))),
)
_PARAMETERS: Final = Field(
    _parameters_text, lambda parser, reader: tuple(_items(reader, lambda: _parameter(reader), "{}"))
)

_NO_FORM: Final = Form(None, {}, {})
# Of ops that are not listed nothing is written, or (aliases, calls of Python's) nothing can be.
_FORMS: Final[dict[Op, Form]] = {
    Op.CONST: Form(None, {"": Field(str, lambda parser, reader: _scalar(reader))}, {}),  # `text` writes it
    Op.PERMUTE: Form(None, {}, {"": _AXES}),
    Op.PAD: Form(None, {}, {"": _WIDTHS}),
    Op.SLICE: Form(None, {}, {"": _SPANS}),
    Op.CONCAT: Form(None, {}, {"": _AXIS}),
    Op.WINDOW: Form(None, {}, {"": Field(_tuple_text, lambda parser, reader: _window(reader))}),
    Op.UNARY: Form(None, {"": _NAME}, {}),
    Op.BINARY: Form(None, {"": _NAME}, {}),
    Op.REDUCE: Form(Reduction, {"op": _NAME}, {"axes": _AXES}),
    Op.SCAN: Form(Scanning, {"op": _NAME}, {"axis": _AXIS}),
    Op.CONTRACT: Form(Contraction, {}, {"left": _AXES, "right": _AXES, "out": _AXES}),
    Op.GATHER: Form(Gathering, {"checked": _CHECKED}, {"axes": _AXES}),
    Op.SCATTER: Form(Scattering, {"op": _NAME, "checked": _CHECKED}, {"axes": _AXES}),
    Op.SORT: Form(
        Sorting,
        {"descending": _flag("ascending", "descending"), "indices": _flag("values", "indices")},
        {"axis": _AXIS},
    ),
    Op.COMPOSITE: Form(Composition, {"name": _NAME}, {"parameters": _PARAMETERS}),
    Op.PARAMETER: Form(None, {"": _NUMBER}, {}),
    Op.LOOP: Form(None, {}, {"": Field(_loop_text, lambda parser, reader: parser.loop(reader))}),
    Op.ITEM: Form(None, {"": _NUMBER}, {}),
}

"""Parsing the text form of graphs: the inverse of `text.print_graph`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from smelt.dtypes import ALL, DType
from smelt.errors import InternalError, ParseError, SmeltError
from smelt.graph.index import Dim, Index, size_of
from smelt.graph.index_text import TokenReader
from smelt.graph.node import Node, Shape, constant_bytes, make
from smelt.graph.ops import (
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
from smelt.graph.verify import verify_node

T = TypeVar("T")


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
        raw = _WORDS[op](reader) if op in _WORDS else None
        sources = tuple(self.sources(reader))
        attribute = self.attribute(op, raw, reader)
        dtype, shape = self.type(reader)
        if op is Op.CONST:
            attribute = _constant(raw, dtype, reader)
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

    def attribute(self, op: Op, raw: Any, reader: TokenReader) -> Any:
        match op:
            case Op.PERMUTE:
                return tuple(_items(reader, reader.integer))
            case Op.CONCAT:
                axes = _items(reader, reader.integer)
                return axes[0] if len(axes) == 1 else reader.fail("one axis before here")
            case Op.PAD:
                return tuple(_items(reader, lambda: (self.size(reader), self.size(reader, ":"))))
            case Op.SLICE:
                return tuple(_items(reader, lambda: self.span(reader)))
            case Op.REDUCE:
                return Reduction(raw, tuple(_items(reader, reader.integer)))
            case Op.WINDOW:
                numbers = _items(reader, reader.integer)
                return Window(*numbers) if len(numbers) == 4 else reader.fail("four numbers before here")
            case Op.SCAN:
                axes = _items(reader, reader.integer)
                return Scanning(raw, axes[0]) if len(axes) == 1 else reader.fail("one axis before here")
            case Op.GATHER:
                return Gathering(tuple(_items(reader, reader.integer)), raw)
            case Op.SCATTER:
                return Scattering(raw[0], tuple(_items(reader, reader.integer)), raw[1])
            case Op.SORT:
                axes = _items(reader, reader.integer)
                return Sorting(axes[0], *raw) if len(axes) == 1 else reader.fail("one axis before here")
            case Op.CONTRACT:
                return Contraction(*(tuple(_items(reader, reader.integer)) for _ in range(3)))
            case Op.LOOP:
                return self.loop(reader)
            case Op.COMPOSITE:
                return Composition(raw, tuple(_items(reader, lambda: _parameter(reader), "{}")))
        return raw

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
BODY_NAMES: Final = {Op.LOOP: ("body", "test"), Op.BRANCH: ("true", "false"), Op.HOST: ()}
_DTYPES: Final = {dtype.name: dtype for dtype in ALL}
_OPS: Final = {op.value: op for op in Op}


def _choice(reader: TokenReader, words: Sequence[str]) -> int:
    """Which of the words comes next."""
    word = reader.name()
    return words.index(word) if word in words else reader.fail(f"{' or '.join(words)} before here")


_CHECKED: Final = ("clamped", "checked")
_NAMED: Final[dict[str, Any]] = {"true": True, "false": False, "none": None}
_WORDS: Final[dict[Op, Callable[[TokenReader], Any]]] = {
    Op.CONST: _scalar,
    Op.UNARY: TokenReader.name,
    Op.BINARY: TokenReader.name,
    Op.REDUCE: TokenReader.name,
    Op.SCAN: TokenReader.name,
    Op.GATHER: lambda reader: bool(_choice(reader, _CHECKED)),
    Op.SCATTER: lambda reader: (reader.name(), bool(_choice(reader, _CHECKED))),
    Op.SORT: lambda reader: (
        bool(_choice(reader, ("ascending", "descending"))),
        bool(_choice(reader, ("values", "indices"))),
    ),
    Op.COMPOSITE: TokenReader.name,
    Op.PARAMETER: TokenReader.integer,
    Op.ITEM: TokenReader.integer,
}

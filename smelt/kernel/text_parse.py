"""Reading the text of kernels and regions back. Whatever is wrong with a text raises `ParseError`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from smelt.dtypes import ALL, DType, Scalar, bool_
from smelt.errors import InternalError, ParseError
from smelt.graph.index import Index, IndexLike, Variable, of, size_of
from smelt.graph.index_text import TokenReader
from smelt.graph.ops import BINARY, REDUCTIONS, SCANS, UNARY
from smelt.kernel.ir import (
    DOTS,
    Accumulator,
    Ask,
    Barrier,
    Compute,
    For,
    If,
    Kernel,
    Let,
    Load,
    Local,
    Part,
    Reduce,
    Scan,
    Statement,
    Store,
    Update,
    Value,
    make_part,
)
from smelt.kernel.region import Access, Buffer, Expression, Fold, Less, Mask, Output, Place, Prefix, Region

_DTYPES = {dtype.name: dtype for dtype in ALL}
_PLAIN = frozenset({*UNARY, *BINARY, "where", "cast", "cast_odd", "copy", *DOTS})
_SCALAR = re.compile(r"(?P<head>.* = (?:acc|const)) (?P<value>[a-z0-9.+-]+)")
_PART = re.compile(r"(?P<axis>[A-Za-z_][A-Za-z0-9_]*)\.(?P<kind>reg|lane|thread(?=[1-9]))(?P<stride>[0-9]*)")
_MAXIMUM_EXTENT = 1 << 20

Result = TypeVar("Result")


def parse_kernel(text: str) -> Kernel:
    """The kernel that `print_kernel` printed."""
    return _guarded(lambda: _KernelReader().run(text))


def parse_region(text: str) -> Region:
    """The region that `print_region` printed."""
    return _guarded(lambda: _RegionReader().run(text))


def named_part(name: str, extent: int) -> Part | None:
    """The part with a name; None if it is not one of a part."""
    found = _PART.fullmatch(name)
    return found and make_part(found["axis"], found["kind"], extent, int(found["stride"] or 0))


def _guarded(read: Callable[[], Result]) -> Result:
    try:
        return read()
    except (InternalError, OverflowError) as error:
        # The algebra's own checks, met by an expression that nobody printed.
        raise ParseError(f"the text does not make sense: {str(error).splitlines()[0]}") from None


class _Reader:
    """What kernels and regions have in common: declarations, indices, masks, scalars."""

    def __init__(self) -> None:
        self.variables: dict[str, Index] = {}
        self.buffers: dict[str, Buffer] = {}

    def dtype(self, line: TokenReader) -> DType:
        name = line.name("a dtype")
        if name not in _DTYPES:
            line.fail(f"a dtype before here, not {name[:40]!r}")
        return _DTYPES[name]

    def declare(self, line: TokenReader) -> Variable:
        """`name in first .. last`"""
        name = line.name()
        line.expect("in")
        first = line.index(self.variables)
        line.expect("..")
        variable = Variable(name, first, line.index(self.variables))
        self.variables[name] = of(variable)
        return variable

    def buffer(self, line: TokenReader, place: Place) -> Buffer:
        name, dtype = line.name(), self.dtype(line)
        shape = self.indices(line)
        line.expect("strides")
        strides = self.indices(line)
        line.expect("offset")
        offset = line.index(self.variables)
        if len(strides) != len(shape):
            line.fail(f"{len(shape)} strides")
        buffer = Buffer(name, dtype, _sizes(shape), _sizes(strides), size_of(offset), place)
        self.buffers[name] = buffer
        return buffer

    def known_buffer(self, line: TokenReader) -> Buffer:
        name = line.name("a buffer")
        if name not in self.buffers:
            line.fail(f"a known buffer before here, not {name[:40]!r}")
        return self.buffers[name]

    def indices(self, line: TokenReader) -> tuple[Index, ...]:
        line.expect("[")
        found: list[Index] = []
        while not line.accept("]"):
            if found:
                line.expect(",")
            found.append(line.index(self.variables))
        return tuple(found)

    def place(self, line: TokenReader) -> tuple[Buffer, tuple[Index, ...]]:
        """`buffer[i, j]`, or `buffer:dtype[i, j]` for a view."""
        buffer = self.known_buffer(line)
        if line.accept(":"):
            view = buffer.viewed(self.dtype(line))
            if view is None:
                line.fail(f"a type before here that {buffer.name} can be read as")
            buffer = view
        index = self.indices(line)
        if len(index) != len(buffer.shape):
            line.fail(f"{len(buffer.shape)} indices for {buffer.name}")
        return buffer, index

    def picks(self, line: TokenReader, count: int) -> tuple[Variable, ...]:
        """`as g0 in 0 .. 7, g1 in 0 .. 3 of`, for as many indices that are values; nothing for none."""
        found: list[Variable] = []
        while len(found) < count:
            line.expect("," if found else "as")
            found.append(self.declare(line))
        if found:
            line.expect("of")
        return tuple(found)

    def mask(self, line: TokenReader) -> Mask:
        found: list[Less] = []
        while not found or line.accept("&"):
            a = line.index(self.variables)
            line.expect("<")
            found.append(Less(a, line.index(self.variables)))
        return tuple(found)

    def when(self, line: TokenReader) -> Mask:
        return self.mask(line) if line.accept("if") else ()

    def names(self, line: TokenReader) -> list[str]:
        """Names up to the end of the line or the next word that is no name."""
        found = [line.name()]
        while line.accept(","):
            found.append(line.name())
        return found


class _KernelReader(_Reader):
    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, Value] = {}

    def run(self, text: str) -> Kernel:
        lines = [line for line in text.splitlines() if line.strip()]
        header = TokenReader(lines[0] if lines else "", 1)
        header.expect("kernel")
        name = header.name()
        header.expect("tasks")
        parameters: list[Variable] = []
        buffers: list[Buffer] = []
        body: list[Statement] = []
        open_bodies: list[list[Statement]] = [body]
        for number, text_line in enumerate(lines[1:], 2):
            line = TokenReader(text_line, number)
            depth = (len(text_line) - len(text_line.lstrip(" "))) // 2
            if line.token == "parameter":
                line.take()
                parameters.append(self.declare(line))
            elif line.token == "argument":
                line.take()
                buffers.append(self.buffer(line, Place.ARGUMENT))
            else:
                if depth >= len(open_bodies):
                    line.fail("less indentation before here")
                del open_bodies[depth + 1 :]
                if line.accept("else"):
                    open_bodies.append(self.other(line, open_bodies[depth]))
                else:
                    statement = self.statement(line, text_line)
                    open_bodies[depth].append(statement)
                    if isinstance(statement, For | If):
                        open_bodies.append(statement.body)
            line.end()
        tasks = header.index(self.variables)
        threads = header.integer() if header.accept("threads") else 1
        header.end()
        return Kernel(name, tuple(buffers), tuple(parameters), tuple(body), tasks, threads)

    def other(self, line: TokenReader, body: list[Statement]) -> list[Statement]:
        if not body or not isinstance(body[-1], If) or body[-1].other:
            line.fail("an `if` before `else`")
        return body[-1].other

    def statement(self, line: TokenReader, text: str) -> Statement:
        scalar = _SCALAR.fullmatch(text.strip())
        if scalar is not None:
            return self.scalar(TokenReader(scalar["head"], line.line), line, scalar["value"])
        word = line.name()
        match word:
            case "loop" | "grid":
                return self.loop(line, word)
            case "if":
                return If(self.mask(line), [])
            case "let":
                variable = self.declare(line)
                line.expect("=")
                return Let(variable, line.index(self.variables))
            case "ask":
                flag = Variable(line.name(), 0, 1)
                self.variables[flag.name] = of(flag)
                line.expect("=")
                return Ask(flag, self.value(line))
            case "barrier":
                return Barrier()
            case "local":
                return Local(self.buffer(line, Place.LOCAL))
            case "store" | "store.stream":
                buffer, index = self.place(line)
                line.expect("=")
                return Store(buffer, index, self.value(line), self.when(line), word == "store.stream")
        if line.accept(":"):
            return self.definition(line, word)
        return self.update(line, word)

    def loop(self, line: TokenReader, kind: str) -> For:
        name = line.name()
        line.expect("<")
        count = line.index(self.variables)
        unroll = line.integer() if line.accept("unroll") else 1
        variable = Variable(name, 0, count - 1)
        self.variables[name] = of(variable)
        return For(variable, count, [], kind, unroll)

    def value(self, line: TokenReader) -> Value:
        name = line.name("a value")
        if name not in self.values:
            line.fail(f"a known value before here, not {name[:40]!r}")
        return self.values[name]

    def parts(self, line: TokenReader) -> tuple[Part, ...]:
        found: list[Part] = []
        if line.accept("<"):
            while not found or line.accept(","):
                name = line.name("a part")
                line.expect(":")
                extent = line.integer()
                if not 1 <= extent <= _MAXIMUM_EXTENT:
                    line.fail("an extent before here")
                found.append(named_part(name, extent) or line.fail("a part of an axis before here"))
            line.expect(">")
        return tuple(found)

    def typed(self, line: TokenReader, name: str) -> Value:
        value = Value(name, self.dtype(line), self.parts(line))
        line.expect("=")
        # A part's name stands for the part of the value at hand: tiles at an edge are smaller.
        self.variables.update({part.name: of(part.variable) for part in value.parts})
        return value

    def scalar(self, head: TokenReader, line: TokenReader, text: str) -> Statement:
        name = head.name()
        head.expect(":")
        value = self.typed(head, name)
        number = _scalar(head, text, value.dtype)
        self.values[name] = value
        while line.kind != "end":
            line.take()
        return Accumulator(value, number) if head.token == "acc" else Compute(value, "const", (), number)

    def definition(self, line: TokenReader, name: str) -> Statement:
        value = self.typed(line, name)
        statement = self.made(line, value)
        self.values[name] = value
        return statement

    def made(self, line: TokenReader, value: Value) -> Statement:
        op = line.name("an operation")
        match op:
            case "load":
                chosen: list[Value] = []
                while line.token in self.values:
                    chosen.append(self.value(line))
                picks = self.picks(line, len(chosen))
                buffer, index = self.place(line)
                return Load(value, buffer, index, self.when(line), tuple(zip(picks, chosen, strict=True)))
            case "fold":
                return self.fold(line, value)
            case "scan":
                return self.scan(line, value)
            case "index":
                return Compute(value, op, (), line.index(self.variables))
            case "mask":
                return Compute(value, op, (), self.mask(line))
            case "round16":
                argument = self.value(line)
                return Compute(value, op, (argument,), self.dtype(line))
            case "bitcast":
                argument = self.value(line)
                stored = (self.dtype(line), self.dtype(line)) if line.kind == "name" else None
                return Compute(value, op, (argument,), stored)
        if op not in _PLAIN:
            line.fail(f"an operation before here, not {op[:40]!r}")
        arguments: list[Value] = []
        while line.kind == "name":
            arguments.append(self.value(line))
        return Compute(value, op, tuple(arguments))

    def fold(self, line: TokenReader, value: Value) -> Reduce:
        op = line.name("a reduction")
        source = self.value(line)
        line.expect("over")
        parts = {part.name: part for part in source.parts}
        names = self.names(line)
        if op not in REDUCTIONS or any(name not in parts for name in names):
            line.fail(f"a reduction over parts of {source.name} before here")
        return Reduce(value, op, source, tuple(parts[name] for name in names))

    def scan(self, line: TokenReader, value: Value) -> Scan:
        op = line.name("a scan")
        source = self.value(line)
        parts = {part.name: part for part in source.parts}
        names = self.names(line) if line.accept("over") else []
        line.expect("from")
        if op not in SCANS or any(name not in parts for name in names):
            line.fail(f"a scan over parts of {source.name} before here")
        return Scan(value, op, source, tuple(parts[name] for name in names), self.value(line))

    def update(self, line: TokenReader, name: str) -> Update:
        if name not in self.values:
            line.fail(f"a statement before here, not {name[:40]!r}")
        op = line.name("an operation")
        line.expect("=")
        arguments = [self.value(line)]
        while line.kind == "name":
            arguments.append(self.value(line))
        instruction = line.name("an instruction") if line.accept(",") else ""
        return Update(self.values[name], op, tuple(arguments), instruction)


class _RegionReader(_Reader):
    def __init__(self) -> None:
        super().__init__()
        self.expressions: list[Expression] = []

    def run(self, text: str) -> Region:
        parameters: list[Variable] = []
        axes: list[Variable] = []
        roles: list[tuple[str, Expression]] = []
        outputs: list[Output] = []
        for number, text_line in enumerate(text.splitlines(), 1):
            line = TokenReader(text_line, number)
            if number == 1:
                line.expect("region")
            elif line.accept("parameter"):
                parameters.append(self.declare(line))
            elif line.accept("axis"):
                axes.append(self.declare(line))
            elif line.accept("buffer") or line.accept("output"):
                self.buffer(line, Place.ARGUMENT)
            elif line.accept("role"):
                roles.append((line.name(), self.expression(line)))
            elif line.accept("store"):
                buffer, index = self.place(line)
                line.expect("=")
                outputs.append(Output(buffer, index, self.expression(line)))
            else:
                self.define(line, text_line, axes)
            line.end()
        if not outputs:
            raise ParseError("a region stores something")
        return Region(tuple(outputs), tuple(axes), tuple(parameters), tuple(roles))

    def expression(self, line: TokenReader) -> Expression:
        line.expect("%")
        at = line.integer()
        if not 0 <= at < len(self.expressions):
            line.fail("a known expression before here")
        return self.expressions[at]

    def define(self, line: TokenReader, text: str, axes: list[Variable]) -> None:
        line.expect("%")
        if line.integer() != len(self.expressions):
            line.fail(f"expression {len(self.expressions)} before here")
        line.expect(":")
        dtype = self.dtype(line)
        line.expect("=")
        op = line.name("an operation")
        scalar = _SCALAR.fullmatch(text)
        if op == "const" and scalar is not None:
            while line.kind != "end":
                line.take()
            self.expressions.append(Expression(op, dtype, (), _scalar(line, scalar["value"], dtype)))
            return
        arguments: list[Expression] = []
        while line.token == "%":
            arguments.append(self.expression(line))
        self.expressions.append(self.made(line, op, dtype, tuple(arguments), axes))

    def made(
        self, line: TokenReader, op: str, dtype: DType, arguments: tuple[Expression, ...], axes: list[Variable]
    ) -> Expression:
        match op:
            case "load":
                picks = self.picks(line, len(arguments))
                buffer, index = self.place(line)
                return Expression(op, dtype, arguments, Access(buffer, index, self.when(line), picks))
            case "index":
                return Expression(op, dtype, arguments, line.index(self.variables))
            case "mask":
                return Expression(op, bool_, arguments, self.mask(line))
            case "round16":
                return Expression(op, dtype, arguments, self.dtype(line))
            case "bitcast":
                stored = (self.dtype(line), self.dtype(line)) if line.kind == "name" else None
                return Expression(op, dtype, arguments, stored)
            case "reduce":
                name = line.name("a reduction")
                line.expect("over")
                by_name = {axis.name: axis for axis in axes}
                names = self.names(line)
                if name not in REDUCTIONS or any(n not in by_name for n in names) or len(arguments) != 1:
                    line.fail("a reduction over axes before here")
                return Expression(op, dtype, arguments, Fold(name, tuple(by_name[n] for n in names)))
            case "scan":
                name = line.name("a scan")
                line.expect("over")
                found = [axis for axis in axes if axis.name == line.token]
                line.name("an axis")
                if name not in SCANS or not found or len(arguments) != 1:
                    line.fail("a scan over an axis before here")
                return Expression(op, dtype, arguments, Prefix(name, found[0]))
        if op not in _PLAIN or not arguments:
            line.fail(f"an operation before here, not {op[:40]!r}")
        return Expression(op, dtype, arguments)


def _sizes(index: tuple[Index, ...]) -> tuple[IndexLike, ...]:
    return tuple(size_of(i) for i in index)


def _scalar(line: TokenReader, text: str, dtype: DType) -> Scalar:
    if dtype.is_bool and text in ("true", "false"):
        return text == "true"
    try:
        if dtype.is_float:
            return float(text)
        if not dtype.is_bool and len(text) < 100:
            return int(text)
    except ValueError:
        pass
    return line.fail(f"a constant of {dtype} before here, not {text[:40]!r}")

"""Kernels and regions as text, printed and read by the same forms. Whatever is wrong with a text raises `ParseError`.

kernel k tasks 4
argument o float32 [4, 8] strides [8, 1] offset 0
argument x float32 [4, 8] strides [8, 1] offset 0
grid g0 < 4
  a1: float32<c.reg:2, c.lane:4> = acc 0.0
  v2: float32<c.reg:2, c.lane:4> = load x[g0, 4*c.reg + c.lane]
  a1 add= v2
  ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from smelt.dtypes import DType, Scalar, float32
from smelt.errors import InternalError, ParseError
from smelt.graph import BINARY, SCANS, UNARY, Index, Variable, forms, of
from smelt.kernel import ir
from smelt.kernel.ir import DOTS, Kernel, Part, Statement, Value
from smelt.kernel.region import Access, Buffer, Expression, Fold, Less, Output, Place, Region
from smelt.kernel.rules import verify_expression, verify_region

_PLAIN = frozenset({*UNARY, *BINARY, "where", "cast", "cast_odd", "copy", *DOTS})  # operations without an attribute
_STORES = {"store": False, "store.stream": True}
_WAYS = {op: op for op in SCANS}  # to reduce or to scan
_MAXIMUM_EXTENT = 1 << 20

_KERNEL = "kernel {name:word} tasks {tasks:index}[ threads {threads:number}]"
_KERNEL += "[ transposes {transposes:number}][ registers {registers:number}]"
_KERNEL += "[ fetches {fetched:names} ahead {ahead:number} {turns:number}]"
# Lines of records before, or instead of, statements: by their first word, the kind of what they declare.
_KERNEL_LINES = {"parameter": "declared", "argument": "argument"}
_REGION_LINES = {"parameter": "declared", "axis": "declared", "buffer": "argument", "output": "argument"}
_REGION_LINES |= {"role": "role", "store": "output"}

# Statements by their first word.
_STATEMENTS: dict[str, tuple[type[Any], str]] = {
    **dict.fromkeys(
        ("loop", "grid"), (ir.For, "{kind:word} {variable:count} < {count:index}[ unroll {unroll:number}]")
    ),
    "if": (ir.If, "if {condition:mask}"),
    "let": (ir.Let, "let {variable:declared} = {expression:index}"),
    "ask": (ir.Ask, "ask {variable:declared} = {value:value}"),
    "barrier": (ir.Barrier, "barrier"),
    "local": (ir.Local, "local {buffer:local}"),
    **dict.fromkeys(
        ("store", "store.stream"),
        (ir.Store, "{stream:store} {buffer:view}{index:indices} = {value:value}[ if {mask:mask}]"),
    ),
}
_UPDATE = (ir.Update, "{accumulator:value} {op:word}= {arguments:values}[, {instruction:word}]")
# Those that define a value, by the word after `name: type =`. What has another one there is an operation.
_DEFINITIONS: dict[str, tuple[type[Any], str]] = {
    "acc": (ir.Accumulator, "acc {initial:scalar}"),
    "fold": (ir.Reduce, "fold {op:word} {source:value} over {parts:parts}"),
    "scan": (ir.Scan, "scan {op:word} {source:value}[ over {parts:parts}] from {carry:value}"),
}
_FORMS = dict([*_STATEMENTS.values(), *_DEFINITIONS.values(), _UPDATE])

# The attributes of operations, in kernels and regions: kinds, by which records have forms, too.
_ATTRIBUTES = {
    **{"const": "scalar", "index": "index", "mask": "mask", "round16": "dtype", "bitcast": "stored"},
    **{"load": "access", "reduce": "reduce", "scan": "reduce"},
}


def print_kernel(kernel: Kernel) -> str:
    """A kernel as text, one statement a line."""
    text = _Text(kernel.buffers)
    lines = [text.written(_KERNEL, kernel)]
    lines += text.lines(_KERNEL_LINES, parameter=kernel.parameters, argument=kernel.buffers)
    # A stack instead of recursion: the text of a body is the text of its statements.
    stack: list[tuple[Statement | str, int]] = [(statement, 0) for statement in reversed(kernel.body)]
    while stack:
        statement, depth = stack.pop()
        lines.append("  " * depth + (statement if isinstance(statement, str) else text.statement(statement)))
        if isinstance(statement, ir.If) and statement.other:
            stack += [(inner, depth + 1) for inner in reversed(statement.other)]
            stack.append(("else", depth))
        if isinstance(statement, ir.For | ir.If):
            stack += [(inner, depth + 1) for inner in reversed(statement.body)]
    return "\n".join(lines) + "\n"


def print_region(region: Region) -> str:
    """A region as text: everything that distinguishes it from another."""
    text, stored = _Text(region.buffers()), {output.buffer.name for output in region.outputs}
    inputs = [buffer for name, buffer in text.buffers.items() if name not in stored]
    lines = ["region"]
    lines += text.lines(_REGION_LINES, parameter=region.parameters, axis=region.axes, buffer=inputs)
    text.numbers = {e: f"%{at}" for at, e in enumerate(region.order())}
    for e, name in text.numbers.items():
        text.dtype = e.dtype
        lines.append(text.operation(f"{name}: {e.dtype}", e.op, e.arguments, e.attribute))
    lines += text.lines(_REGION_LINES, role=[role for role in region.roles if role[1] in text.numbers])
    for output in region.outputs:
        # Outputs of one buffer may see it differently, so each store declares what it stores to.
        text.buffers[output.buffer.name] = output.buffer
        lines += text.lines(_REGION_LINES, output=[output.buffer], store=[output])
    return "\n".join(lines) + "\n"


def parse_kernel(written: str) -> Kernel:
    """The kernel that `print_kernel` printed."""
    body: list[Statement] = []
    bodies = [body]  # those that are open
    text = _Text()
    header, found = _read_lines(written, "kernel", _KERNEL_LINES, text, lambda line: _read_into(bodies, text, line))
    with forms.making_sense(header):
        fields = text.read_form(_KERNEL, header)  # last, since the tasks may depend on parameters
        header.end()
        return Kernel(buffers=found["argument"], parameters=found["parameter"], body=tuple(body), **fields)


def parse_region(written: str) -> Region:
    """The region that `print_region` printed."""
    text = _Text()
    header, found = _read_lines(written, "region", _REGION_LINES, text, text.read_expression)
    header.expect("region")
    header.end()
    if not found["store"]:
        raise ParseError("a region stores something")
    region = Region(found["store"], found["axis"], found["parameter"], found["role"])
    with forms.making_sense(header):
        verify_region(region)
    return region


def _read_lines(
    written: str, word: str, kinds: Mapping[str, str], text: _Text, other: Callable[[forms.Line], None]
) -> tuple[forms.Line, dict[str, tuple[Any, ...]]]:
    """The first line of a text, and what others declare, by their first words; those without one are given on."""
    lines, found = forms.text_lines(written), {first: list[Any]() for first in kinds}
    header = next(lines, forms.Line("", 1))
    if not header.starts(word):
        header.fail(repr(word))
    for line in lines:
        with forms.making_sense(line):
            if line.token in kinds:
                first = line.take()
                found[first].append(text.read(kinds[first], line))
            else:
                other(line)
            line.end()
    return header, {first: tuple(records) for first, records in found.items()}


def _read_into(bodies: list[list[Statement]], text: _Text, line: forms.Line) -> None:
    """Put the statement of a line into the body that its indentation says."""
    depth = line.indent // 2
    if depth >= len(bodies):
        line.fail("less indentation before here")
    del bodies[depth + 1 :]
    last = bodies[depth][-1] if bodies[depth] else None
    if line.accept("else"):
        if not isinstance(last, ir.If) or last.other:
            line.fail("an `if` before `else`")
        bodies.append(last.other)
        return
    statement = text.read_statement(line)
    bodies[depth].append(statement)
    bodies += [statement.body] if isinstance(statement, ir.For | ir.If) else []


class _Text(forms.Text):
    """The text of a kernel or region."""

    def __init__(self, buffers: Iterable[Buffer] = ()) -> None:
        super().__init__()
        self.declared: dict[str, Variable] = {}
        self.buffers = {buffer.name: buffer for buffer in buffers}
        self.values: dict[str, Any] = {}
        self.numbers: dict[Expression, str] = {}
        self.latest: Any = None  # the value or buffer that was read last
        self.dtype: DType = float32  # of what the present line defines

    # --- writing

    def lines(self, kinds: Mapping[str, str], **records: Iterable[Any]) -> list[str]:
        """A line for each record, by the first words of lines."""
        return [f"{word} {self.write(kinds[word], record)}" for word, found in records.items() for record in found]

    def statement(self, statement: Statement) -> str:
        match statement:
            case ir.Load(value, buffer, index, mask, picks):
                access = Access(buffer, index, mask, tuple(variable for variable, _ in picks))
                return self.operation(self.head(value), "load", tuple(value for _, value in picks), access)
            case ir.Compute(value, op, arguments, attribute):
                return self.operation(self.head(value), op, arguments, attribute)
            case ir.Accumulator() | ir.Reduce() | ir.Scan():
                return f"{self.head(statement.value)} = {self.written(_FORMS[type(statement)], statement)}"
        return self.written(_FORMS[type(statement)], statement)

    def head(self, value: Value) -> str:
        """A value where it is defined."""
        self.dtype = value.dtype
        return self.written(_VALUE, value)

    def operation(self, head: str, op: str, arguments: tuple[Any, ...], attribute: Any) -> str:
        """What a value is defined as."""
        text = f"{head} = {op}" + "".join([f" {_reference(self, a)}" for a in arguments])
        if attribute is None:
            return text
        if op not in _ATTRIBUTES:
            raise InternalError(f"{op} has an attribute without a text form")
        return f"{text} {self.write(_ATTRIBUTES[op], attribute)}"

    # --- reading

    def read_statement(self, line: forms.Line) -> Statement:
        if line.starts(line.token, ":"):
            return self.read_definition(line)
        if line.token not in _STATEMENTS and line.token not in self.values:
            line.fail("a statement")
        kind, form = _STATEMENTS.get(line.token, _UPDATE)
        fields = self.read_form(form, line)
        if kind is ir.For:
            fields["variable"] = Variable(fields["variable"], 0, fields["count"] - 1)
            self.variables[fields["variable"].name] = of(fields["variable"])
        if kind in (ir.For, ir.If):
            fields["body"] = []
        statement: Statement = kind(**fields)
        return statement

    def read_definition(self, line: forms.Line) -> Statement:
        value = Value(**self.read_form(_VALUE, line))
        self.dtype = value.dtype
        # A part's name stands for the part of the value at hand: tiles at an edge are smaller.
        self.variables.update({part.name: of(part.variable) for part in value.parts})
        line.expect("=")
        if line.token in _DEFINITIONS:
            kind, form = _DEFINITIONS[line.token]
            fields = self.read_form(form, line)
            if kind is ir.Scan:
                fields.setdefault("parts", ())
            self.values[value.name] = value
            statement: Statement = kind(value=value, **fields)
            return statement
        op, arguments, attribute = self.read_operation(line)
        self.values[value.name] = value
        if op != "load":
            return ir.Compute(value, op, arguments, attribute)
        picks = tuple(zip(attribute.picks, arguments, strict=True))
        return ir.Load(value, attribute.buffer, attribute.index, attribute.mask, picks)

    def read_expression(self, line: forms.Line) -> None:
        at = len(self.values)
        if line.kind == "name":
            line.unknown(f"{', '.join(_REGION_LINES)}, or %{at}", line.token, _REGION_LINES)
        line.expect("%")
        if line.integer() != at:
            line.fail(f"expression {at} before here")
        line.expect(":")
        self.dtype = dtype = self.read("dtype", line)
        line.expect("=")
        op, arguments, attribute = self.read_operation(line)
        self.values[f"%{at}"] = Expression(op, dtype, arguments, attribute)
        verify_expression(self.values[f"%{at}"])

    def read_operation(self, line: forms.Line) -> tuple[str, tuple[Any, ...], Any]:
        """An operation, its arguments, and its attribute."""
        op = line.name("an operation")
        if op not in _ATTRIBUTES:
            known = op if op in _PLAIN else line.unknown("an operation", op, (*_PLAIN, *_ATTRIBUTES))
            return known, self.read("values", line), None
        arguments: list[Any] = []
        while line.token == "%" or line.token in self.values:
            arguments.append(self.read("value", line))
        attribute = self.read(_ATTRIBUTES[op], line)
        if op == "load" and len(arguments) != len(attribute.picks):
            line.fail("other arguments of load before here")
        return op, tuple(arguments), attribute


# --- kinds of fields


def _read_part(text: _Text, line: forms.Line) -> Part:
    name, extent = text.read_form("{name:word}:{extent:number}", line).values()
    if not 1 <= extent <= _MAXIMUM_EXTENT:
        line.fail("an extent before here")
    return ir.named_part(name, extent) or line.fail("a part of an axis before here")


def _reference(text: _Text, value: Value | Expression) -> str:
    return value.name if isinstance(value, Value) else text.numbers[value]


def _read_reference(text: _Text, line: forms.Line) -> Any:
    name = f"%{line.integer()}" if line.accept("%") else line.name("a value")
    if name not in text.values:
        line.unknown("a known value", name, ())
    text.latest = text.values[name]
    return text.latest


def _read_references(text: _Text, line: forms.Line) -> tuple[Any, ...]:
    """Values up to the end of the line, or to a comma."""
    found = []
    while line.kind != "end" and line.token != ",":
        found.append(_read_reference(text, line))
    return tuple(found)


def _read_declared(text: _Text, line: forms.Line) -> Variable:
    name, first, last = text.read_form("{name:word} in {first:index} .. {last:index}", line).values()
    variable = text.declared[name] = Variable(name, first, last)
    text.variables[name] = of(variable)
    return variable


def _read_indices(text: _Text, line: forms.Line) -> tuple[Index, ...]:
    found: tuple[Index, ...] = _INDICES.read(text, line)
    rank = len(text.latest.shape)
    return found if len(found) == rank else line.fail(f"{rank} indices for {text.latest.name}")


def _read_buffer(text: _Text, line: forms.Line, place: Place) -> Buffer:
    buffer = Buffer(**text.read_form(_BUFFER, line), place=place)
    if len(buffer.strides) != len(buffer.shape):
        line.fail(f"{len(buffer.shape)} strides")
    text.buffers[buffer.name] = buffer
    return buffer


def _view(text: _Text, buffer: Buffer) -> str:
    """Where something is read or stored; a view of what was declared names its type."""
    declared = text.buffers.get(buffer.name, buffer)
    return buffer.name if declared.dtype is buffer.dtype else f"{buffer.name}:{buffer.dtype}"


def _read_view(text: _Text, line: forms.Line) -> Buffer:
    buffer: Buffer = _KNOWN_BUFFER.read(text, line)
    view = buffer.viewed(text.read("dtype", line)) if line.accept(":") else buffer
    text.latest = view
    return view or line.fail(f"a type before here that {buffer.name} can be read as")


def _scalar(text: _Text, value: Scalar) -> str:
    """A constant: exact, and in the form of its dtype."""
    if text.dtype.is_bool:
        return str(bool(value)).lower()
    return repr(float(value)) if text.dtype.is_float else str(int(value))


def _read_scalar(text: _Text, line: forms.Line) -> Scalar:
    """A constant is the last of its line."""
    number, dtype = "".join(line.rest()), text.dtype
    if dtype.is_bool and number in ("true", "false"):
        return number == "true"
    try:
        if dtype.is_float:
            return float(number)
        if not dtype.is_bool and len(number) < 100:
            return int(number)
    except ValueError:
        pass
    return line.fail(f"a constant of {dtype} before here, not {number[:40]!r},")


def _read_stored(text: _Text, line: forms.Line) -> tuple[DType, DType] | None:
    return (text.read("dtype", line), text.read("dtype", line)) if line.kind == "name" else None


_BUFFER = "{name:word} {dtype:dtype} {shape:sizes} strides {strides:sizes} offset {offset:size}"
_VALUE = "{name:word}: {dtype:dtype}[<{parts:tile}>]"
_INDICES = forms.listed(forms.INDEX, "[", "]")
_KNOWN_BUFFER = forms.named("a known buffer", lambda text: text.buffers)
_DECLARED = forms.Kind(_read_declared, lambda _, variable: f"{variable.text} in {variable.first} .. {variable.last}")
_AXIS = forms.named("an axis", lambda text: text.declared, lambda _, axis: axis.text)
_PART = forms.named(
    "a part of the value", lambda text: {part.name: part for part in text.latest.parts}, lambda _, part: part.name
)
_Text.kinds = {
    **forms.COMMON,
    "sizes": forms.listed(forms.SIZE, "[", "]"),
    "indices": forms.Kind(_read_indices, _INDICES.write),
    "mask": forms.listed(forms.formed(Less, "{a:index} < {b:index}"), comma=" & "),
    "stored": forms.Kind(_read_stored, lambda _, dtypes: " ".join(map(str, dtypes))),
    "scalar": forms.Kind(_read_scalar, _scalar),
    "names": forms.listed(forms.WORD, "(", ")"),
    "count": forms.Kind(forms.WORD.read, lambda _, variable: variable.text),
    "declared": _DECLARED,
    "declarations": forms.listed(_DECLARED),
    "axis": _AXIS,
    "axes": forms.listed(_AXIS),
    "parts": forms.listed(_PART),
    "tile": forms.listed(forms.Kind(_read_part, lambda _, part: f"{part.name}:{part.extent}")),
    "value": forms.Kind(_read_reference, _reference),
    "values": forms.Kind(_read_references, lambda text, values: " ".join([_reference(text, x) for x in values])),
    "argument": forms.Kind(partial(_read_buffer, place=Place.ARGUMENT), forms.formed(Buffer, _BUFFER).write),
    "local": forms.Kind(partial(_read_buffer, place=Place.LOCAL), forms.formed(Buffer, _BUFFER).write),
    "view": forms.Kind(_read_view, _view),
    "role": forms.formed(None, "{0:word} {1:value}"),
    "output": forms.formed(Output, "{buffer:view}{index:indices} = {value:value}"),
    "store": forms.named("a store", lambda _: _STORES, lambda _, stream: "store.stream" if stream else "store"),
    "access": forms.formed(Access, "[as {picks:declarations} of ]{buffer:view}{index:indices}[ if {mask:mask}]"),
    "reduction": forms.named("a reduction", lambda _: _WAYS, lambda _, op: op),
    "reduce": forms.formed(Fold, "{op:reduction} over {axes:axes}"),
}

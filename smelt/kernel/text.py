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

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from smelt.dtypes import ALL, DType, Scalar, float32
from smelt.errors import InternalError, ParseError
from smelt.graph import BINARY, REDUCTIONS, SCANS, UNARY, Index, Variable, of, size_of
from smelt.graph.index_text import TokenReader
from smelt.kernel import ir
from smelt.kernel.forms import runs, written
from smelt.kernel.ir import DOTS, Kernel, Part, Statement, Value
from smelt.kernel.region import Access, Buffer, Expression, Fold, Less, Mask, Output, Place, Prefix, Region

_DTYPES = {dtype.name: dtype for dtype in ALL}
_PLAIN = frozenset({*UNARY, *BINARY, "where", "cast", "cast_odd", "copy", *DOTS})  # operations without an attribute
_MAXIMUM_EXTENT = 1 << 20

Result = TypeVar("Result")
Fields = dict[str, Any]  # what has been read of a record

# Statements by their first word, or by the one that follows `name: type =`. What has another one is an operation.
_STATEMENTS: dict[str, tuple[type[Any], str]] = {
    **dict.fromkeys(
        ("loop", "grid"), (ir.For, "{kind:word} {variable:count} < {count:index}[ unroll {unroll:number}]")
    ),
    "if": (ir.If, "if {condition:mask}"),
    "let": (ir.Let, "let {variable:declared} = {expression:index}"),
    "ask": (ir.Ask, "ask {variable:asked} = {flag:value}"),
    "barrier": (ir.Barrier, "barrier"),
    "local": (ir.Local, "local {buffer:local}"),
    **dict.fromkeys(
        ("store", "store.stream"),
        (ir.Store, "{stream:store} {buffer:view}{index:indices} = {value:value}[ if {mask:mask}]"),
    ),
    "acc": (ir.Accumulator, "{value:typed} = acc {initial:scalar}"),
    "fold": (ir.Reduce, "{value:typed} = fold {op:reduction} {source:value} over {parts:parts}"),
    "scan": (ir.Scan, "{value:typed} = scan {op:scan} {source:value}{parts:over} from {carry:value}"),
    "": (ir.Update, "{accumulator:value} {op:word}= {arguments:values}[, {instruction:word}]"),
}
_FORMS = dict(_STATEMENTS.values())

# The attributes of operations, in kernels and regions: a kind, or a record with a form.
_ATTRIBUTES: dict[str, str | tuple[type[Any], str]] = {
    "const": "scalar",
    "index": "index",
    "mask": "mask",
    "round16": "dtype",
    "bitcast": "stored",
    "load": (Access, "[as {picks:declarations} of ]{buffer:view}{index:indices}[ if {mask:mask}]"),
    "reduce": (Fold, "{op:reduction} over {axes:axes}"),
    "scan": (Prefix, "{op:scan} over {axis:axis}"),
}


def print_kernel(kernel: Kernel) -> str:
    """A kernel as text, one statement a line."""
    text = _Text()
    threads = f" threads {kernel.threads}" if kernel.threads > 1 else ""
    transposes = f" transposes {kernel.transposes}" if kernel.transposes else ""
    ahead = f" ahead {kernel.ahead} {kernel.turns} {' '.join(kernel.fetched)}" if kernel.fetched else ""
    lines = [f"kernel {kernel.name} tasks {kernel.tasks}{threads}{transposes}{ahead}"]
    lines += [f"parameter {text.write('declared', variable)}" for variable in kernel.parameters]
    lines += [f"argument {text.write('argument', buffer)}" for buffer in kernel.buffers]
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
    text = _Text()
    lines = ["region"]
    lines += [f"parameter {text.write('declared', variable)}" for variable in region.parameters]
    lines += [f"axis {text.write('declared', variable)}" for variable in region.axes]
    outputs = {output.buffer.name for output in region.outputs}
    for buffer in region.buffers():
        line = f"buffer {text.write('argument', buffer)}"
        lines += [line] if buffer.name not in outputs else []
    text.numbers = {e: f"%{at}" for at, e in enumerate(region.order())}
    for e, name in text.numbers.items():
        lines.append(text.operation(f"{name}: {e.dtype}", e.dtype, e.op, e.arguments, e.attribute))
    lines += [f"role {name} {text.numbers[e]}" for name, e in region.roles if e in text.numbers]
    for output in region.outputs:
        # Outputs of one buffer may see it differently, so each store declares what it stores to.
        lines.append(f"output {text.write('argument', output.buffer)}")
        lines.append(written("store {buffer:view}{index:indices} = {value:value}", output, text.write))
    return "\n".join(lines) + "\n"


def parse_kernel(text: str) -> Kernel:
    """The kernel that `print_kernel` printed."""
    return _guarded(lambda: _parse_kernel([line for line in text.splitlines() if line.strip()]))


def parse_region(text: str) -> Region:
    """The region that `print_region` printed."""
    return _guarded(lambda: _parse_region(text))


def _guarded(read: Callable[[], Result]) -> Result:
    try:
        return read()
    except (InternalError, OverflowError) as error:
        # The algebra's own checks, met by an expression that nobody printed.
        raise ParseError(f"the text does not make sense: {str(error).splitlines()[0]}") from None


def _parse_kernel(lines: list[str]) -> Kernel:
    header, text = TokenReader(lines[0] if lines else "", 1), _Text()
    header.expect("kernel")
    name = header.name()
    header.expect("tasks")
    parameters: list[Variable] = []
    buffers: list[Buffer] = []
    body: list[Statement] = []
    bodies = [body]  # those that are open
    for number, written_line in enumerate(lines[1:], 2):
        line = TokenReader(written_line, number)
        depth = (len(written_line) - len(written_line.lstrip(" "))) // 2
        if line.accept("parameter"):
            parameters.append(text.read("declared", line))
        elif line.accept("argument"):
            buffers.append(text.read("argument", line))
        else:
            if depth >= len(bodies):
                line.fail("less indentation before here")
            del bodies[depth + 1 :]
            last = bodies[depth][-1] if bodies[depth] else None
            if line.accept("else"):
                if not isinstance(last, ir.If) or last.other:
                    line.fail("an `if` before `else`")
                bodies.append(last.other)
            else:
                statement = text.read_statement(line, written_line)
                bodies[depth].append(statement)
                bodies += [statement.body] if isinstance(statement, ir.For | ir.If) else []
        line.end()
    tasks = text.read("index", header)
    threads = header.integer() if header.accept("threads") else 1
    transposes = header.integer() if header.accept("transposes") else 0
    ahead, turns = (header.integer(), header.integer()) if header.accept("ahead") else (0, 0)
    fetched: list[str] = []
    while header.token:
        fetched.append(header.name())
    header.end()
    made = (name, tuple(buffers), tuple(parameters), tuple(body), tasks, threads)
    return Kernel(*made, transposes, ahead, turns, tuple(fetched))


def _parse_region(written_text: str) -> Region:
    text = _Text()
    parameters: list[Variable] = []
    roles: list[tuple[str, Expression]] = []
    outputs: list[Output] = []
    for number, written_line in enumerate(written_text.splitlines(), 1):
        line = TokenReader(written_line, number)
        if number == 1:
            line.expect("region")
        elif line.accept("parameter"):
            parameters.append(text.read("declared", line))
        elif line.accept("axis"):
            axis = text.read("declared", line)
            text.axes[axis.name] = axis
        elif line.accept("buffer") or line.accept("output"):
            text.read("argument", line)
        elif line.accept("role"):
            roles.append((line.name(), text.read("value", line)))
        elif line.accept("store"):
            outputs.append(Output(**text.read_form("{buffer:view}{index:indices} = {value:value}", line)))
        else:
            at = len(text.values)
            line.expect("%")
            if line.integer() != at:
                line.fail(f"expression {at} before here")
            line.expect(":")
            text.dtype = dtype = text.read("dtype", line)
            line.expect("=")
            op, arguments, attribute = text.read_operation(line)
            if not arguments and op in _PLAIN:
                line.fail("an argument")
            text.values[f"%{at}"] = Expression(op, dtype, arguments, attribute)
        line.end()
    if not outputs:
        raise ParseError("a region stores something")
    return Region(tuple(outputs), tuple(text.axes.values()), tuple(parameters), tuple(roles))


class _Text:
    """A text that is being written or read: what has been declared in it."""

    def __init__(self) -> None:
        self.variables: dict[str, Index] = {}
        self.axes: dict[str, Variable] = {}
        self.buffers: dict[str, Buffer] = {}
        self.values: dict[str, Any] = {}
        self.numbers: dict[Expression, str] = {}
        self.dtype: DType = float32  # of what the present line defines

    # --- writing

    def write(self, kind: str, value: Any) -> str:
        return _KINDS[kind].write(self, value)

    def statement(self, statement: Statement) -> str:
        match statement:
            case ir.Load(value, buffer, index, mask, picks):
                access = Access(buffer, index, mask, tuple(variable for variable, _ in picks))
                chosen = tuple(value for _, value in picks)
                return self.operation(_typed(self, value), value.dtype, "load", chosen, access)
            case ir.Compute(value, op, arguments, attribute):
                return self.operation(_typed(self, value), value.dtype, op, arguments, attribute)
        return written(_FORMS[type(statement)], statement, self.write)

    def operation(self, head: str, dtype: DType, op: str, arguments: tuple[Any, ...], attribute: Any) -> str:
        """What a value is defined as."""
        self.dtype = dtype
        text = f"{head} = {op}" + "".join(f" {_reference(self, a)}" for a in arguments)
        if attribute is None:
            return text
        form = _ATTRIBUTES.get(op)
        if form is None:
            raise InternalError(f"{op} has an attribute without a text form")
        shown = self.write(form, attribute) if isinstance(form, str) else written(form[1], attribute, self.write)
        return f"{text} {shown}"

    # --- reading

    def read(self, kind: str, line: TokenReader, fields: Fields | None = None) -> Any:
        return _KINDS[kind].read(self, line, fields or {})

    def read_form(self, form: str, line: TokenReader) -> Fields:
        """The fields of a record."""
        fields: Fields = {}
        for optional, holes in runs(form):
            if optional and line.token != _tokens(holes[0].before)[0]:
                continue
            for before, name, kind in holes:
                line.expect(*_tokens(before))
                if name:
                    fields[name] = self.read(kind, line, fields)
        return fields

    def read_statement(self, line: TokenReader, text: str) -> Statement:
        head, _, rest = text.partition(" = ")
        first, defined = (head.split() or [""])[0], (rest.split() or [""])[0]
        word = defined if first.endswith(":") else first if first in _STATEMENTS else ""
        if first.endswith(":") and word not in ("acc", "fold", "scan"):
            value = self.read("typed", line)
            line.expect("=")
            op, arguments, attribute = self.read_operation(line)
            self.values[value.name] = value
            if op != "load":
                return ir.Compute(value, op, arguments, attribute)
            picks = tuple(zip(attribute.picks, arguments, strict=True))
            return ir.Load(value, attribute.buffer, attribute.index, attribute.mask, picks)
        if not word and first not in self.values:
            line.fail(f"a statement before here, not {first[:40]!r}")
        kind, form = _STATEMENTS[word]
        fields = self.read_form(form, line)
        if kind is ir.For:
            fields["variable"] = Variable(fields["variable"], 0, fields["count"] - 1)
            self.variables[fields["variable"].name] = of(fields["variable"])
        if kind in (ir.For, ir.If):
            fields["body"] = []
        if "typed" in form:
            self.values[fields["value"].name] = fields["value"]
        statement: Statement = kind(**fields)
        return statement

    def read_operation(self, line: TokenReader) -> tuple[str, tuple[Any, ...], Any]:
        """An operation, its arguments, and its attribute."""
        op = line.name("an operation")
        form = _ATTRIBUTES.get(op)
        if form is None:
            known = op if op in _PLAIN else line.fail(f"an operation before here, not {op[:40]!r}")
            return known, self.read("values", line), None
        arguments: list[Any] = []
        while line.token == "%" or line.token in self.values:
            arguments.append(self.read("value", line))
        if isinstance(form, str):
            return op, tuple(arguments), self.read(form, line)
        attribute = form[0](**self.read_form(form[1], line))
        if len(arguments) != (len(attribute.picks) if op == "load" else 1):
            line.fail(f"other arguments of {op} before here")
        return op, tuple(arguments), attribute


@functools.cache
def _tokens(text: str) -> tuple[str, ...]:
    line, found = TokenReader(text), list[str]()
    while line.kind != "end":
        found.append(line.take())
    return tuple(found)


# --- kinds of fields


class _Kind(NamedTuple):
    """How a field is read and written."""

    read: Callable[[_Text, TokenReader, Fields], Any]
    write: Callable[[_Text, Any], str] = lambda text, value: str(value)


def _typed(text: _Text, value: Value) -> str:
    text.dtype = value.dtype
    parts = ", ".join(f"{part.name}:{part.extent}" for part in value.parts)
    return f"{value.name}: {value.dtype}<{parts}>" if parts else f"{value.name}: {value.dtype}"


def _read_typed(text: _Text, line: TokenReader, _: Fields) -> Value:
    name = line.name()
    line.expect(":")
    text.dtype = _read_dtype(text, line)
    parts: list[Part] = []
    if line.accept("<"):
        while not parts or line.accept(","):
            part = line.name("a part")
            line.expect(":")
            extent = line.integer()
            if not 1 <= extent <= _MAXIMUM_EXTENT:
                line.fail("an extent before here")
            parts.append(ir.named_part(part, extent) or line.fail("a part of an axis before here"))
        line.expect(">")
    # A part's name stands for the part of the value at hand: tiles at an edge are smaller.
    text.variables.update({part.name: of(part.variable) for part in parts})
    return Value(name, text.dtype, tuple(parts))


def _reference(text: _Text, value: Value | Expression) -> str:
    return value.name if isinstance(value, Value) else text.numbers[value]


def _read_reference(text: _Text, line: TokenReader, _: Fields) -> Any:
    name = f"%{line.integer()}" if line.accept("%") else line.name("a value")
    return text.values[name] if name in text.values else line.fail(f"a known value before here, not {name[:40]!r}")


def _read_references(text: _Text, line: TokenReader, fields: Fields) -> tuple[Any, ...]:
    """Values up to the end of the line, or to a comma."""
    found = []
    while line.kind != "end" and line.token != ",":
        found.append(_read_reference(text, line, fields))
    return tuple(found)


def _read_dtype(text: _Text, line: TokenReader, _: Fields | None = None) -> DType:
    name = line.name("a dtype")
    return _DTYPES[name] if name in _DTYPES else line.fail(f"a dtype before here, not {name[:40]!r}")


def _declared(text: _Text, variable: Variable) -> str:
    return f"{variable.text} in {variable.first} .. {variable.last}"


def _read_declared(text: _Text, line: TokenReader, _: Fields) -> Variable:
    name = line.name()
    line.expect("in")
    first = line.index(text.variables)
    line.expect("..")
    variable = Variable(name, first, line.index(text.variables))
    text.variables[name] = of(variable)
    return variable


def _read_indices(text: _Text, line: TokenReader, fields: Fields) -> tuple[Index, ...]:
    line.expect("[")
    found: list[Index] = []
    while not line.accept("]"):
        if found:
            line.expect(",")
        found.append(line.index(text.variables))
    buffer = fields.get("buffer")
    if buffer is not None and len(found) != len(buffer.shape):
        line.fail(f"{len(buffer.shape)} indices for {buffer.name}")
    return tuple(found)


def _read_mask(text: _Text, line: TokenReader, _: Fields) -> Mask:
    found: list[Less] = []
    while not found or line.accept("&"):
        a = line.index(text.variables)
        line.expect("<")
        found.append(Less(a, line.index(text.variables)))
    return tuple(found)


_BUFFER = "{name:word} {dtype:dtype} {shape:indices} strides {strides:indices} offset {offset:index}"


def _declaration(place: Place) -> _Kind:
    """Buffers where they are declared."""

    def write(text: _Text, buffer: Buffer) -> str:
        text.buffers[buffer.name] = buffer
        return written(_BUFFER, buffer, text.write)

    def read(text: _Text, line: TokenReader, _: Fields) -> Buffer:
        name, dtype, shape, strides, offset = text.read_form(_BUFFER, line).values()
        if len(strides) != len(shape):
            line.fail(f"{len(shape)} strides")
        sizes = (tuple(size_of(i) for i in shape), tuple(size_of(i) for i in strides), size_of(offset))
        text.buffers[name] = Buffer(name, dtype, *sizes, place)
        return text.buffers[name]

    return _Kind(read, write)


def _view(text: _Text, buffer: Buffer) -> str:
    """Where something is read or stored; a view of what was declared names its type."""
    declared = text.buffers.get(buffer.name, buffer)
    return buffer.name if declared.dtype is buffer.dtype else f"{buffer.name}:{buffer.dtype}"


def _read_view(text: _Text, line: TokenReader, fields: Fields) -> Buffer:
    name = line.name("a buffer")
    if name not in text.buffers:
        line.fail(f"a known buffer before here, not {name[:40]!r}")
    buffer = text.buffers[name]
    view = buffer.viewed(_read_dtype(text, line)) if line.accept(":") else buffer
    return view or line.fail(f"a type before here that {buffer.name} can be read as")


def _scalar(text: _Text, value: Scalar) -> str:
    """A constant: exact, and in the form of its dtype."""
    if text.dtype.is_bool:
        return str(bool(value)).lower()
    return repr(float(value)) if text.dtype.is_float else str(int(value))


def _read_scalar(text: _Text, line: TokenReader, _: Fields) -> Scalar:
    """A constant is the last of its line."""
    number, dtype = "", text.dtype
    while line.kind != "end":
        number += line.take()
    if dtype.is_bool and number in ("true", "false"):
        return number == "true"
    try:
        if dtype.is_float:
            return float(number)
        if not dtype.is_bool and len(number) < 100:
            return int(number)
    except ValueError:
        pass
    return line.fail(f"a constant of {dtype} before here, not {number[:40]!r}")


def _listed(one: _Kind) -> _Kind:
    """Some, with commas between them."""

    def read(text: _Text, line: TokenReader, fields: Fields) -> tuple[Any, ...]:
        found = [one.read(text, line, fields)]
        while line.accept(","):
            found.append(one.read(text, line, fields))
        return tuple(found)

    return _Kind(read, lambda text, values: ", ".join(one.write(text, value) for value in values))


def _one_of(what: str, known: Iterable[str]) -> _Kind:
    """A name of a table."""

    def read(text: _Text, line: TokenReader, _: Fields) -> str:
        name = line.name(what)
        return name if name in known else line.fail(f"{what} before here, not {name[:40]!r}")

    return _Kind(read)


def _read_part(text: _Text, line: TokenReader, fields: Fields) -> Part:
    source: Value = fields["source"]
    parts, name = {part.name: part for part in source.parts}, line.name("a part")
    return parts[name] if name in parts else line.fail(f"a part of {source.name} before here")


def _read_axis(text: _Text, line: TokenReader, _: Fields) -> Variable:
    name = line.name("an axis")
    return text.axes[name] if name in text.axes else line.fail("an axis before here")


def _read_stored(text: _Text, line: TokenReader, _: Fields) -> tuple[DType, DType] | None:
    return (_read_dtype(text, line), _read_dtype(text, line)) if line.kind == "name" else None


def _read_asked(text: _Text, line: TokenReader, _: Fields) -> Variable:
    asked = Variable(line.name(), 0, 1)
    text.variables[asked.name] = of(asked)
    return asked


_DECLARED = _Kind(_read_declared, _declared)
_PARTS = _listed(_Kind(_read_part, lambda _, part: part.name))
_AXIS = _Kind(_read_axis, lambda _, axis: axis.text)
_KINDS = {
    "word": _Kind(lambda text, line, _: line.name()),
    "number": _Kind(lambda text, line, _: line.integer()),
    "index": _Kind(lambda text, line, _: line.index(text.variables)),
    "indices": _Kind(_read_indices, lambda _, index: f"[{', '.join(map(str, index))}]"),
    "mask": _Kind(_read_mask, lambda _, mask: " & ".join(map(str, mask))),
    "dtype": _Kind(_read_dtype),
    "stored": _Kind(_read_stored, lambda _, dtypes: " ".join(map(str, dtypes))),
    "scalar": _Kind(_read_scalar, _scalar),
    "reduction": _one_of("a reduction", REDUCTIONS),
    "scan": _one_of("a scan", SCANS),
    "count": _Kind(lambda text, line, _: line.name(), lambda _, variable: variable.text),
    "asked": _Kind(_read_asked, lambda _, variable: variable.text),
    "declared": _DECLARED,
    "declarations": _listed(_DECLARED),
    "axis": _AXIS,
    "axes": _listed(_AXIS),
    "parts": _PARTS,
    "over": _Kind(
        lambda text, line, fields: _PARTS.read(text, line, fields) if line.accept("over") else (),
        lambda text, parts: f" over {_PARTS.write(text, parts)}" if parts else "",
    ),
    "typed": _Kind(_read_typed, _typed),
    "value": _Kind(_read_reference, _reference),
    "values": _Kind(_read_references, lambda text, values: " ".join(_reference(text, value) for value in values)),
    "argument": _declaration(Place.ARGUMENT),
    "local": _declaration(Place.LOCAL),
    "view": _Kind(_read_view, _view),
    "store": _Kind(
        lambda text, line, _: line.name() == "store.stream", lambda _, stream: "store.stream" if stream else "store"
    ),
}

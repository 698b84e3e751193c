"""Kernels and regions as text. What is printed here, `text_parse` reads back, exactly.

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

from collections.abc import Iterable, Mapping
from typing import Any

from smelt.dtypes import DType, Scalar
from smelt.errors import InternalError
from smelt.graph.index import Index, IndexLike, Variable
from smelt.kernel.ir import (
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
    Reduce,
    Scan,
    Statement,
    Store,
    Update,
    Value,
)
from smelt.kernel.region import Access, Buffer, Fold, Mask, Prefix, Region


def print_kernel(kernel: Kernel) -> str:
    """A kernel as text, one statement a line."""
    threads = f" threads {kernel.threads}" if kernel.threads > 1 else ""
    lines = [f"kernel {kernel.name} tasks {kernel.tasks}{threads}"]
    lines += [_declaration("parameter", variable) for variable in kernel.parameters]
    lines += [_buffer("argument", buffer) for buffer in kernel.buffers]
    # A stack instead of recursion: the text of a body is the text of its statements.
    declared = {buffer.name: buffer.dtype for buffer in kernel.buffers}
    stack: list[tuple[Statement | str, int]] = [(statement, 0) for statement in reversed(kernel.body)]
    while stack:
        statement, depth = stack.pop()
        indent = "  " * depth
        if isinstance(statement, str):
            lines.append(indent + statement)
            continue
        lines.append(indent + _statement(statement, declared))
        if isinstance(statement, If) and statement.other:
            stack += [(inner, depth + 1) for inner in reversed(statement.other)]
            stack.append(("else", depth))
        if isinstance(statement, For | If):
            stack += [(inner, depth + 1) for inner in reversed(statement.body)]
    return "\n".join(lines) + "\n"


def print_region(region: Region) -> str:
    """A region as text: everything that distinguishes it from another."""
    lines = ["region"]
    lines += [_declaration("parameter", variable) for variable in region.parameters]
    lines += [_declaration("axis", variable) for variable in region.axes]
    outputs = {output.buffer.name for output in region.outputs}
    buffers = region.buffers()
    declared = {buffer.name: buffer.dtype for buffer in buffers}
    lines += [_buffer("buffer", buffer) for buffer in buffers if buffer.name not in outputs]
    order = region.order()
    number = {e: at for at, e in enumerate(order)}
    for e in order:
        arguments = "".join(f" %{number[a]}" for a in e.arguments)
        lines.append(f"%{number[e]}: {e.dtype} = {e.op}{arguments}{_attribute(e.op, e.dtype, e.attribute, declared)}")
    lines += [f"role {name} %{number[e]}" for name, e in region.roles if e in number]
    for output in region.outputs:
        # Outputs of one buffer may see it differently, so each store declares what it stores to.
        lines.append(_buffer("output", output.buffer))
        lines.append(f"store {output.buffer.name}{_index(output.index)} = %{number[output.value]}")
    return "\n".join(lines) + "\n"


def _statement(statement: Statement, declared: Mapping[str, DType]) -> str:
    match statement:
        case For(variable, count, _, kind, unroll):
            return f"{kind} {variable.text} < {count}" + (f" unroll {unroll}" if unroll > 1 else "")
        case If(condition):
            return f"if {_mask(condition)}"
        case Let(variable, expression):
            return f"let {variable.text} in {variable.first} .. {variable.last} = {expression}"
        case Ask(variable, flag):
            return f"ask {variable.text} = {flag.name}"
        case Barrier():
            return "barrier"
        case Local(buffer):
            return _buffer("local", buffer)
        case Load(value, buffer, index, mask, picks):
            names = "".join(f" {chosen.name}" for _, chosen in picks)
            where = _picks(variable for variable, _ in picks)
            return f"{_typed(value)} = load{names}{where} {_place(buffer, index, declared)}{_when(mask)}"
        case Store(buffer, index, value, mask, stream):
            return f"{'store.stream' if stream else 'store'} {buffer.name}{_index(index)} = {value.name}{_when(mask)}"
        case Compute(value, op, arguments, attribute):
            names = "".join(f" {a.name}" for a in arguments)
            return f"{_typed(value)} = {op}{names}{_attribute(op, value.dtype, attribute, declared)}"
        case Accumulator(value, initial):
            return f"{_typed(value)} = acc {scalar_text(initial, value.dtype)}"
        case Update(accumulator, op, arguments, instruction):
            by = f", {instruction}" if instruction else ""
            return f"{accumulator.name} {op}= {' '.join(a.name for a in arguments)}{by}"
        case Reduce(value, op, source, parts):
            return f"{_typed(value)} = fold {op} {source.name} over {', '.join(part.name for part in parts)}"
        case Scan(value, op, source, parts, carry):
            over = f" over {', '.join(part.name for part in parts)}" if parts else ""
            return f"{_typed(value)} = scan {op} {source.name}{over} from {carry.name}"


def _attribute(op: str, dtype: DType, attribute: Any, declared: Mapping[str, DType]) -> str:
    """What follows the arguments of an operation."""
    match attribute:
        case None:
            return ""
        case Access(buffer, index, mask, picks):
            return f"{_picks(picks)} {_place(buffer, index, declared)}{_when(mask)}"
        case Fold(name, axes):
            return f" {name} over {', '.join(axis.text for axis in axes)}"
        case Prefix(name, axis):
            return f" {name} over {axis.text}"
        case Index():
            return f" {attribute}"
        case DType():
            return f" {attribute}"
        case bool() | int() | float():
            return f" {scalar_text(attribute, dtype)}"
    if op == "mask":
        return f" {_mask(attribute)}"
    if op == "bitcast":
        return " " + " ".join(str(stored) for stored in attribute)
    raise InternalError(f"{op} has an attribute without a text form")


def _typed(value: Value) -> str:
    if not value.parts:
        return f"{value.name}: {value.dtype}"
    return f"{value.name}: {value.dtype}<{', '.join(f'{part.name}:{part.extent}' for part in value.parts)}>"


def _declaration(word: str, variable: Variable) -> str:
    return f"{word} {variable.text} in {variable.first} .. {variable.last}"


def _buffer(word: str, buffer: Buffer) -> str:
    shape, strides = _index(buffer.shape), _index(buffer.strides)
    return f"{word} {buffer.name} {buffer.dtype} {shape} strides {strides} offset {buffer.offset}"


def _place(buffer: Buffer, index: tuple[Index, ...], declared: Mapping[str, DType]) -> str:
    """Where a load reads; a view of what was declared names its type."""
    view = "" if declared.get(buffer.name, buffer.dtype) is buffer.dtype else f":{buffer.dtype}"
    return f"{buffer.name}{view}{_index(index)}"


def _index(index: Iterable[IndexLike]) -> str:
    return f"[{', '.join(str(i) for i in index)}]"


def _picks(picks: Iterable[Variable]) -> str:
    """The names and bounds of indices that are values."""
    listed = ", ".join(f"{v.text} in {v.first} .. {v.last}" for v in picks)
    return f" as {listed} of" if listed else ""


def _mask(mask: Mask) -> str:
    return " & ".join(f"{condition.a} < {condition.b}" for condition in mask)


def _when(mask: Mask) -> str:
    return f" if {_mask(mask)}" if mask else ""


def scalar_text(value: Scalar, dtype: DType) -> str:
    """A constant: exact, and in the form of its dtype."""
    if dtype.is_bool:
        return str(bool(value)).lower()
    return repr(float(value)) if dtype.is_float else str(int(value))

"""Kernel IR to C with vector extensions: one function per kernel, one translation unit for many.

Values are written when they are needed, register by register: a load stands just before its first use, and a chain of
elementwise functions is finished for one register before the next is begun, which keeps few registers alive. What changes
memory or accumulators is written where it stands, after everything pending that must still see the old state.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from smelt.dtypes import bool_, compute_dtype
from smelt.errors import InternalError
from smelt.graph.index import Index, as_index, upper
from smelt.kernel.ir import (
    Accumulator,
    Compute,
    For,
    If,
    Kernel,
    Let,
    Load,
    Local,
    Reduce,
    Statement,
    Store,
    Update,
    Value,
)
from smelt.kernel.region import Buffer
from smelt.render import elementwise
from smelt.render.booleans import mask_bits
from smelt.render.library import Library, Type
from smelt.render.memory import Memory, access
from smelt.render.tiles import (
    Coordinates,
    IndexText,
    Register,
    along_lane,
    combinations,
    lane_part,
    lanes,
    place,
    place_mask,
    register,
    register_parts,
)

_ALIGNMENT = 64
_INLINE_LIMIT = 8  # a function of more registers than this is called, which compiles faster and loses little
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIGNATURE = "void {}(void *const *buffers, const long *integers, char *workspace, long begin, long end)"
_INDEX_HELPERS = {"//": "floor_divide", "%": "floor_remainder", "min": "least", "max": "greatest"}
_ZEROS = frozenset(
    {
        "0.0f",
        "0.0",
        *(f"({kind}{bits})0{end}" for kind in "iu" for bits in (8, 16, 32, 64) for end in ("", "u", "ll", "ull")),
    }
)
_OPERATOR_UPDATES = ("add", "mul", "fma")  # C broadcasts their scalar operands
_MASK_FOLDS = {"max": "fold_or", "min": "fold_and"}


def render(kernels: Sequence[Kernel]) -> str:
    """The C text of one translation unit that defines every kernel, and `NAME_tasks` where the task count is symbolic."""
    library = Library()
    functions = [_Writer(kernel, library).function() for kernel in kernels]
    return library.text + "".join(functions)


def workspace_bytes(kernel: Kernel) -> int:
    """How many bytes of workspace, aligned to 64, each thread needs."""
    return sum(_local_bytes(statement.buffer) for statement in _walk(kernel.body) if isinstance(statement, Local))


def _local_bytes(buffer: Buffer) -> int:
    last = as_index(buffer.offset).high
    for size, stride in zip(buffer.shape, buffer.strides, strict=True):
        if upper(size) == 0:
            return 0
        last += (upper(size) - 1) * upper(stride)
    return -(-(last + 1) * buffer.dtype.itemsize // _ALIGNMENT) * _ALIGNMENT


def _walk(body: Iterable[Statement]) -> Iterable[Statement]:
    for statement in body:
        yield statement
        if isinstance(statement, For):
            yield from _walk(statement.body)
        elif isinstance(statement, If):
            yield from _walk(statement.body)
            yield from _walk(statement.other)


class _Pending(NamedTuple):
    """A register that has not been written yet."""

    statement: Load | Compute | Reduce
    at: Coordinates
    needs: tuple[Register, ...]


class _Writer:
    """Writes one kernel."""

    def __init__(self, kernel: Kernel, library: Library) -> None:
        if not _NAME.fullmatch(kernel.name):
            raise InternalError("a kernel's name must be a C identifier")
        self.kernel, self.library = kernel, library
        self.text = IndexText(lambda symbol: library.function(_INDEX_HELPERS[symbol], Type("i64")))
        self.lines: list[str] = []
        self.memory = Memory(library, self.text, self.lines)
        self.pending: dict[Register, _Pending] = {}
        self.literals: dict[str, str] = {}  # constants by value name
        self.values: dict[str, str] = {}  # C names by value name
        self.masks = mask_bits(list(_walk(kernel.body)))
        self.workspace = 0
        self.loops = 0

    # --- the function

    def function(self) -> str:
        kernel = self.kernel
        for number, parameter in enumerate(kernel.parameters):
            self.text.names[parameter.name] = f"d{number}"
            self.lines.append(f"const long d{number} = integers[{number}];")
        counts = [s.count for s in kernel.body if isinstance(s, For) and s.kind == "grid"]
        text = ""
        if kernel.tasks.value is None:
            body = "".join(f"  {line}\n" for line in self.lines) + f"  return {self.text.spell(kernel.tasks)};\n"
            text = f"\nlong {kernel.name}_tasks(const long *integers) {{\n{body}}}\n"
        for number, buffer in enumerate(kernel.buffers):
            element = elementwise.memory_element(buffer.dtype)
            self.memory.buffers[buffer.name] = f"b{number}"
            self.lines.append(f"{element} *b{number} = buffers[{number}];")
        if counts:
            self._tasks(kernel.body)
        else:
            self._block(kernel.body)
        if any(isinstance(s, Store) and s.stream for s in _walk(kernel.body)):
            self.lines.append(f"{self.library.function('fence', Type('i64'))}();")
        return text + f"\n{_SIGNATURE.format(kernel.name)} {{\n{_indent(self.lines)}}}\n"

    def _tasks(self, body: Sequence[Statement]) -> None:
        """Top-level grid loops share the tasks: each takes its own stretch, cut to [begin, end)."""
        before: Index = as_index(0)
        for statement in body:
            if not (isinstance(statement, For) and statement.kind == "grid"):
                self._statement(statement)
                continue
            self._settle()
            offset = self.text.spell(before)
            after = before + statement.count
            least, most = self.text.helper("min"), self.text.helper("max")
            first = f"{most}(begin, {offset}) - ({offset})"
            last = f"{least}(end, {self.text.spell(after)}) - ({offset})"
            self._loop(statement, first, last)
            before = after
        self.pending.clear()

    def _loop(self, statement: For, first: str, last: str) -> None:
        name = f"i{self.loops}"
        self.loops += 1
        if statement.unroll > 1:
            self.lines += [
                "#ifdef __clang__",
                f"#pragma clang loop unroll_count({statement.unroll})",
                "#else",
                f"#pragma GCC unroll {statement.unroll}",
                "#endif",
            ]
        end = f"e{name}"
        self.lines.append(f"for (long {name} = {first}, {end} = {last}; {name} < {end}; {name}++) {{")
        hidden = self.text.names.get(statement.variable.name)
        self.text.names[statement.variable.name] = name
        self._block(statement.body)
        if hidden is None:
            del self.text.names[statement.variable.name]
        else:
            self.text.names[statement.variable.name] = hidden
        self.lines.append("}")

    def _block(self, body: Iterable[Statement]) -> None:
        self.memory.enter()
        for statement in body:
            self._statement(statement)
        self.pending.clear()  # nothing outside the block can ask for them
        self.memory.leave()

    def _statement(self, statement: Statement) -> None:
        match statement:
            case For():
                self._settle()
                self._loop(statement, "0", self.text.spell(statement.count))
            case If():
                self._settle()
                self.lines.append(f"if ({self.text.conditions(statement.condition)}) {{")
                self._block(statement.body)
                if statement.other:
                    self.lines.append("} else {")
                    self._block(statement.other)
                self.lines.append("}")
            case Let():
                name = self.memory.fresh("n")
                self.lines.append(f"const long {name} = {self.text.spell(statement.expression)};")
                self.text.names[statement.variable.name] = name
            case Local():
                self._local(statement.buffer)
            case Compute(op="const"):
                dtype = statement.value.dtype
                self.literals[statement.value.name] = elementwise.literal(statement.attribute, dtype)
            case Load() | Compute() | Reduce():
                self._postpone(statement)
            case Accumulator():
                self._accumulator(statement)
            case Update():
                self._update(statement)
            case Store():
                self._store(statement)

    # --- names and forms

    def _form(self, value: Value) -> Type:
        """The C type of a value's registers; a boolean scalar is an int, a boolean vector a mask."""
        count = lanes(value)
        if value.dtype is bool_:
            return Type("i32") if count == 1 else Type(f"i{self.masks.get(value.name, 32)}", count)
        return Type(elementwise.element(value.dtype), count)

    def _declare(self, value: Value) -> None:
        self.literals.pop(value.name, None)
        self.values[value.name] = self.memory.fresh("v")

    def _register_name(self, key: Register) -> str:
        return "_".join([self.values[key[0]], *map(str, key[1])])

    def _use(self, value: Value, at: Coordinates) -> str:
        """The text of a register, written first if it is pending."""
        if value.name in self.literals:
            return self.literals[value.name]
        key = register(value, at)
        self._write(key)
        return self._register_name(key)

    def _lanes(self, value: Value) -> int:
        return 1 if value.name in self.literals else lanes(value)

    def _operand(self, value: Value, at: Coordinates, wanted: Type) -> str:
        """A register as an operand of the given form: broadcast, or a mask of another width."""
        text, count = self._use(value, at), self._lanes(value)
        if wanted.lanes == 1 or (count > 1 and value.dtype is not bool_):
            return text
        if count == 1:
            return self._splat(f"-({text})" if value.dtype is bool_ else text, wanted)
        if self._form(value) == wanted:
            return text
        return f"__builtin_convertvector({text}, {self.library.type(wanted)})"

    def _operands(self, values: Sequence[Value], at: Coordinates, wanted: Type) -> list[str]:
        """Operands of an operator of C, which broadcasts scalars itself beside a vector."""
        if any(self._lanes(value) > 1 for value in values):
            return [self._use(value, at) for value in values]
        return [self._operand(value, at, wanted) for value in values]

    def _splat(self, text: str, form: Type) -> str:
        name = self.library.type(form)
        if form.lanes == 1:
            return text
        return f"({name}){{}}" if text in _ZEROS else f"({text} - ({name}){{}})"

    # --- pending registers

    def _postpone(self, statement: Load | Compute | Reduce) -> None:
        value = statement.value
        self._declare(value)
        for at in combinations(register_parts(value)):
            needs: list[Register] = []
            if isinstance(statement, Compute):
                needs = [register(a, at) for a in statement.arguments if a.name not in self.literals]
            elif isinstance(statement, Reduce):
                folded = [part for part in register_parts(statement.source) if part.name not in at]
                needs = [register(statement.source, {**at, **rest}) for rest in combinations(folded)]
            self.pending[register(value, at)] = _Pending(statement, at, tuple(needs))

    def _write(self, key: Register) -> None:
        """Write a pending register after all that it needs."""
        stack = [key]
        while stack:
            top = stack[-1]
            pending = self.pending.get(top)
            if pending is None:
                stack.pop()
                continue
            missing = [need for need in reversed(pending.needs) if need in self.pending]
            if missing:
                stack += missing
                continue
            stack.pop()
            del self.pending[top]
            self._define(top, pending)

    def _settle(self) -> None:
        """Write everything pending: a nested block may need it."""
        for key in reversed(list(self.pending)):
            self._write(key)

    def _settle_readers(self, accumulator: str) -> None:
        for key, pending in list(self.pending.items()):
            if any(name == accumulator for name, _ in pending.needs):
                self._write(key)

    def _settle_loads(self, buffer: str) -> None:
        for key, pending in list(self.pending.items()):
            if isinstance(pending.statement, Load) and pending.statement.buffer.name == buffer:
                self._write(key)

    def _define(self, key: Register, pending: _Pending) -> None:
        statement, at = pending.statement, pending.at
        match statement:
            case Load():
                text = self._load(statement, at)
            case Compute():
                text = self._compute(statement, at)
            case Reduce():
                text = self._reduce(statement, at)
        form = self.library.type(self._form(statement.value))
        self.lines.append(f"{form} {self._register_name(key)} = {text};")

    # --- statements

    def _local(self, buffer: Buffer) -> None:
        name, element = self.memory.fresh("s"), elementwise.memory_element(buffer.dtype)
        self.memory.buffers[buffer.name] = name
        self.lines.append(f"{element} *restrict {name} = ({element} *)(workspace + {self.workspace});")
        self.workspace += _local_bytes(buffer)

    def _load(self, statement: Load, at: Coordinates) -> str:
        if statement.value.dtype is not compute_dtype(statement.buffer.dtype):
            raise InternalError(f"a load of {statement.buffer.dtype} gives no {statement.value.dtype}")
        lane = lane_part(statement.value)
        where = access(statement.buffer, statement.index, statement.mask, at, lane)
        text = self.memory.load(statement.buffer, where, lane)
        form = self._form(statement.value)
        if statement.value.dtype is bool_ and lane is not None and form.bits != 8:
            text = f"__builtin_convertvector({text}, {self.library.type(form)})"
        return text

    def _store(self, statement: Store) -> None:
        value, buffer = statement.value, statement.buffer
        if value.dtype is not compute_dtype(buffer.dtype):
            raise InternalError(f"a store of {value.dtype} to {buffer.dtype}")
        self._settle_loads(buffer.name)
        lane = lane_part(value)
        count = lanes(value)
        wanted = (Type("i8", count) if count > 1 else Type("i32")) if value.dtype is bool_ else self._form(value)
        for at in combinations(register_parts(value)):
            where = access(buffer, statement.index, statement.mask, at, lane)
            self.memory.store(buffer, where, lane, self._operand(value, at, wanted), statement.stream)

    def _accumulator(self, statement: Accumulator) -> None:
        value = statement.value
        self._declare(value)
        form, literal = self._form(value), elementwise.literal(statement.initial, value.dtype)
        mask = value.dtype is bool_ and form.lanes > 1
        initial = self._splat(f"-({literal})" if mask else literal, form)
        name = self.library.type(form)
        for at in combinations(register_parts(value)):
            self.lines.append(f"{name} {self._register_name(register(value, at))} = {initial};")

    def _update(self, statement: Update) -> None:
        accumulator, arguments = statement.accumulator, statement.arguments
        self._settle_readers(accumulator.name)
        extents = {part.name: part for part in register_parts(accumulator)}
        for argument in arguments:  # a shorter part changes only the first elements
            for part in register_parts(argument):
                known = extents.get(part.name)
                extents[part.name] = part if known is None or part.extent < known.extent else known
        first = [part.name for part in register_parts(arguments[0])]
        order = sorted(extents.values(), key=lambda part: part.name not in first)
        form = self._form(accumulator)
        for at in combinations(order):
            target = self._register_name(register(accumulator, at))
            shorter = _shorter_lanes(accumulator, arguments)
            if shorter is not None:
                self._update_first_lanes(statement, at, target, shorter)
            elif statement.op == "fma" and form.lanes == 1:
                self.lines.append(f"{target} = {target} + {self._dot(accumulator, arguments, at)};")
            else:
                if statement.op in _OPERATOR_UPDATES:
                    operands = self._operands(arguments, at, form) if statement.op == "fma" else [self._use(arguments[0], at)]
                else:
                    operands = [self._operand(argument, at, form) for argument in arguments]
                self.lines.append(f"{target} = {self._combine(statement.op, accumulator, form, target, operands)};")

    def _update_first_lanes(self, statement: Update, at: Coordinates, target: str, count: int) -> None:
        accumulator = statement.accumulator
        form = self._form(accumulator)
        texts = [self._operand(a, at, self._form(a)) for a in statement.arguments]
        mask = accumulator.dtype is bool_
        for j in range(count):
            operands = [f"{t}[{j}]" if lanes(a) > 1 else t for a, t in zip(statement.arguments, texts, strict=True)]
            scalar = Type(form.element, 1)
            if mask:
                operands = [f"-({text} != 0)" for text in operands]
                text = elementwise.boolean(statement.op, True, [f"{target}[{j}]", *operands])
            else:
                text = self._combine(statement.op, accumulator, scalar, f"{target}[{j}]", operands)
            self.lines.append(f"{target}[{j}] = {text};")

    def _dot(self, accumulator: Value, arguments: tuple[Value, ...], at: Coordinates) -> str:
        """The product of two registers, summed over the lanes that the accumulator lacks."""
        count = max(lanes(argument) for argument in arguments)
        form = Type(self._form(accumulator).element, count)
        a, b = (self._operand(argument, at, form) for argument in arguments)
        return f"{a} * {b}" if count == 1 else f"{self.library.function('fold_add', form)}({a} * {b})"

    def _combine(self, op: str, accumulator: Value, form: Type, target: str, operands: list[str]) -> str:
        if op == "fma":
            return f"{target} + {operands[0]} * {operands[1]}"
        if op == "set":
            return operands[0]
        return self._fold_two(op, accumulator, form, target, operands[0])

    def _fold_two(self, op: str, value: Value, form: Type, a: str, b: str) -> str:
        if value.dtype is bool_:
            return elementwise.boolean(op, form.lanes > 1, [a, b])
        return elementwise.elementwise(self.library, op, value.dtype, form, [a, b])

    def _reduce(self, statement: Reduce, at: Coordinates) -> str:
        """Registers first, then lanes, each as a balanced tree: the order never depends on anything else."""
        source, names = statement.source, {part.name for part in statement.parts}
        form = self._form(source)
        folded = [part for part in register_parts(source) if part.name in names]
        items = [self._operand(source, {**at, **rest}, form) for rest in combinations(folded)]
        while len(items) > 1:
            pairs = [
                f"({self._fold_two(statement.op, source, form, a, b)})"
                for a, b in zip(items[::2], items[1::2], strict=False)
            ]
            items = pairs + (items[-1:] if len(items) % 2 else [])
        lane = lane_part(source)
        if lane is None or lane.name not in names:
            return items[0]
        name = _MASK_FOLDS[statement.op] if source.dtype is bool_ else f"fold_{statement.op}"
        return f"{self.library.function(name, form)}({items[0]})"

    # --- computed values

    def _compute(self, statement: Compute, at: Coordinates) -> str:
        value, arguments = statement.value, statement.arguments
        form, op = self._form(value), statement.op
        match op:
            case "index":
                return self._index(statement.attribute, value, at)
            case "mask":
                return self._mask(statement, at)
            case "copy":
                return self._operand(arguments[0], at, form)
            case "cast":
                return self._cast(value, arguments[0], at)
            case "bitcast":
                source = Type(elementwise.element(arguments[0].dtype), form.lanes)
                text = self._operand(arguments[0], at, source)
                return elementwise.bitcast(self.library, arguments[0].dtype, value.dtype, form.lanes, text)
            case "round16":
                text = self._operand(arguments[0], at, form)
                return f"{self.library.function(f'round_{statement.attribute.name}', form)}({text})"
            case "where":
                return self._where(value, arguments, at)
        if arguments[0].dtype is bool_:
            operands = [self._operand(argument, at, form) for argument in arguments]
            return elementwise.boolean(op, form.lanes > 1, operands)
        wanted = Type(elementwise.element(arguments[0].dtype), form.lanes)
        if elementwise.is_operator(op):
            operands = self._operands(arguments, at, wanted)
        else:
            operands = [self._operand(argument, at, wanted) for argument in arguments]
        many = math.prod(part.extent for part in register_parts(value)) > _INLINE_LIMIT
        text = elementwise.elementwise(self.library, op, arguments[0].dtype, wanted, operands, many)
        if value.dtype is bool_ and form.lanes > 1 and form.bits != wanted.bits:
            return f"__builtin_convertvector({text}, {self.library.type(form)})"
        return text

    def _where(self, value: Value, arguments: tuple[Value, ...], at: Coordinates) -> str:
        form = self._form(value)
        condition, a, b = arguments
        texts = [self._operand(a, at, form), self._operand(b, at, form)]
        if condition.name in self.literals or lanes(condition) == 1:
            return f"{self._use(condition, at)} ? {texts[0]} : {texts[1]}"
        mask = self._operand(condition, at, form.integer)
        return f"{self.library.function('select', form)}({mask}, {texts[0]}, {texts[1]})"

    def _cast(self, value: Value, source: Value, at: Coordinates) -> str:
        form = self._form(value)
        if source.dtype is bool_:
            if value.dtype is bool_:
                return self._operand(source, at, form)
            text = self._operand(source, at, form.integer)
            return elementwise.cast(self.library, bool_, value.dtype, form.lanes, text)
        operand = Type(elementwise.element(source.dtype), form.lanes)
        text = elementwise.cast(self.library, source.dtype, value.dtype, form.lanes, self._operand(source, at, operand))
        if value.dtype is bool_ and form.lanes > 1 and form.bits != operand.bits:
            return f"__builtin_convertvector({text}, {self.library.type(form)})"
        return text

    def _index(self, index: Index, value: Value, at: Coordinates) -> str:
        form, lane = self._form(value), lane_part(value)
        placed = place(index, at)
        if lane is None:
            return f"({form.name})({self.text.spell(placed)})"
        moves = along_lane(placed, lane)
        if moves is None:
            return self.memory.each_lane(lane, form, lambda: self.text.spell(placed))
        base, step = (f"({form.element})({self.text.spell(i)})" for i in moves)
        return f"{self._splat(base, form)} + {self.library.function('iota', form)}() * {step}"

    def _mask(self, statement: Compute, at: Coordinates) -> str:
        value, lane = statement.value, lane_part(statement.value)
        form = self._form(value)
        mask = place_mask(statement.attribute, at, lane)
        if lane is None:
            return self.text.conditions(mask.conditions)
        first = self.library.function("first_lanes", form)
        parts = [f"{first}({self.text.spell(n)})" for n in mask.first]
        parts += [f"~{first}({self.text.spell(n)})" for n in mask.after]
        if mask.conditions:
            holds = self.text.conditions(mask.conditions)
            parts.append(self._splat(f"({form.element})-({holds})", form))
        if mask.other:
            parts.append(self.memory.each_lane(lane, form, lambda: f"-({self.text.conditions(mask.other)})"))
        return " & ".join(parts) or self._splat(f"({form.element})-1", form)


def _indent(lines: list[str]) -> str:
    """Lines in the shape of their blocks."""
    depth, out = 1, []
    for line in lines:
        if line.startswith("}"):
            depth -= 1
        out.append(f"{line}\n" if line.startswith("#") else f"{'  ' * depth}{line}\n")
        if line.endswith("{"):
            depth += 1
    return "".join(out)


def _shorter_lanes(accumulator: Value, arguments: Sequence[Value]) -> int | None:
    """How many lanes an update changes, if not all."""
    own = accumulator.parts[-1] if accumulator.parts and accumulator.parts[-1].is_lane else None
    if own is None:
        return None
    extents = [p.extent for a in arguments for p in a.parts if p.name == own.name and p.extent < own.extent]
    return min(extents, default=None)

"""What one register of a loaded, computed or reduced value is, as a C expression."""

from __future__ import annotations

import functools
import math

from smelt.dtypes import bool_, compute_dtype, float32
from smelt.errors import InternalError
from smelt.graph import Index, IndexLike, Variable, of
from smelt.kernel import Compute, Load, Part, Place, Reduce, Value
from smelt.render import elementwise
from smelt.render.groups import Groups
from smelt.render.library import Type
from smelt.render.memory import Access, Memory, access
from smelt.render.registers import Registers, Source
from smelt.render.tiles import Coordinates, along_lane, combinations, place, place_mask

_INLINE_LIMIT = 4  # a function of more registers than this is called, which compiles faster and loses little
TOGETHER = 4  # numbers of a vector whose lanes are registers
_MASK_FOLDS = {"max": "fold_or", "min": "fold_and"}


def side_by_side(load: Load) -> Part | None:
    """The part of a load of packed numbers whose registers lie next to each other, in whole vectors."""
    buffer = load.buffer
    if buffer.place is not Place.LOCAL or buffer.dtype is not float32 or load.picks or load.mask:
        return None
    address = buffer.address(load.index)
    for part in load.value.parts:
        move = along_lane(address, part)
        if part.extent % TOGETHER == 0 and move is not None and move.step.value == 1:
            return part
    return None


class Expressions:
    """Spells the registers of one kernel."""

    def __init__(self, memory: Memory, registers: Registers, groups: Groups, summands: frozenset[str]) -> None:
        self.library, self.text, self.memory, self.registers = memory.library, memory.text, memory, registers
        self.groups, self.summands = groups, summands  # the names of values that are added to others

    def define(self, statement: Source, at: Coordinates) -> str:
        """The expression of one register."""
        match statement:
            case Load():
                return self._load(statement, at)
            case Compute():
                return self._compute(statement, at)
            case Reduce():
                return self._reduce(statement, at)

    def combine(self, op: str, value: Value, form: Type, a: str, b: str) -> str:
        """add, mul, max, min or logaddexp of two registers of a value."""
        if value.dtype is bool_:
            return elementwise.boolean(op, form.lanes > 1, [a, b])
        return elementwise.elementwise(self.library, op, form, [a, b])

    def _load(self, statement: Load, at: Coordinates) -> str:
        value, buffer = statement.value, statement.buffer
        if value.dtype is not compute_dtype(buffer.dtype):
            raise InternalError(f"a load of {buffer.dtype} gives no {value.dtype}")
        tile = self.registers.tile(value)
        along = side_by_side(statement) if tile.lane is None and self.library.dialect.extensions else None
        if along is not None:
            first = at[along.name] - at[along.name] % TOGETHER
            where = access(buffer, statement.index, (), {**at, along.name: first}, None)
            return self.memory.load_one_of(buffer, where, value.name, TOGETHER, at[along.name] - first)
        where = self._picked(statement, at)
        text = self.memory.load(buffer, where, tile.lane)
        return self.registers.mask_as(text, 8, tile.form) if value.dtype is bool_ else text

    def pointer(self, statement: Load) -> str:
        """Where a scalar is loaded from."""
        return self.memory.pointer(statement.buffer, self._picked(statement, {}).address)

    def _picked(self, statement: Load, at: Coordinates) -> Access:
        """The access of one register, with indices that are values as names of this register."""
        values: dict[Variable, IndexLike] = {}
        vectors: dict[str, str] = {}
        for variable, chosen in statement.picks:
            text = self.registers.use(chosen, at)
            own = Variable(f"[{text}]", variable.first, variable.last)
            if self.registers.tile(chosen).lanes > 1:
                vectors[own.name] = text
            else:
                self.text.names[own.name] = self.memory.integer(text)
            values[variable] = of(own)
        index = tuple(i.substitute(values) for i in statement.index) if values else statement.index
        lane = self.registers.tile(statement.value).lane
        return access(statement.buffer, index, statement.mask, at, lane, vectors)

    def _reduce(self, statement: Reduce, at: Coordinates) -> str:
        """Registers first, then lanes, each as a balanced tree: the order never depends on anything else."""
        source, names = statement.source, {part.name for part in statement.parts}
        tile = self.registers.tile(source)
        folded = [part for part in tile.parts if part.name in names]
        items = [self.registers.operand(source, {**at, **rest}, tile.form) for rest in combinations(folded)]
        while len(items) > 1:
            pairs = zip(items[::2], items[1::2], strict=False)
            odd = items[-1:] if len(items) % 2 else []
            items = [f"({self.combine(statement.op, source, tile.form, a, b)})" for a, b in pairs] + odd
        result = items[0]
        if tile.lane is not None and tile.lane.name in names:
            name = _MASK_FOLDS[statement.op] if source.dtype is bool_ else f"fold_{statement.op}"
            result = f"{self.library.function(name, tile.form)}({items[0]})"
        threads = [part for part in statement.parts if part.stride and part.extent > 1]
        if not threads or not self.library.dialect.groups:
            return result
        combine = functools.partial(self.combine, statement.op, source, tile.form.scalar)
        return self.groups.fold(tile.form.scalar, threads, result, combine)

    def _compute(self, statement: Compute, at: Coordinates) -> str:
        value, arguments, op = statement.value, statement.arguments, statement.op
        form = self.registers.tile(value).form
        match op:
            case "index":
                return self._index(statement.attribute, value, at)
            case "mask":
                return self._mask(statement, at)
            case "copy":
                return self.registers.operand(arguments[0], at, form)
            case "cast":
                return self._cast(value, arguments[0], at)
            case "cast_odd" | "bitcast":
                source = Type(elementwise.element(arguments[0].dtype), form.lanes)
                text = self.registers.operand(arguments[0], at, source)
                if op == "cast_odd":
                    return f"{self.library.function('odd', source)}({text})"
                stored, target = statement.attribute or (arguments[0].dtype, value.dtype)
                return elementwise.bitcast(self.library, stored, target, form.lanes, text)
            case "round16":
                name = self.library.function(f"round_{statement.attribute.name}", form)
                return f"{name}({self.registers.operand(arguments[0], at, form)})"
            case "where":
                return self._where(value, arguments, at)
        if arguments[0].dtype is bool_:
            operands = [self.registers.operand(argument, at, form) for argument in arguments]
            return elementwise.boolean(op, form.lanes > 1, operands)
        wanted = Type(elementwise.element(arguments[0].dtype), form.lanes)
        if elementwise.is_operator(op):
            operands = self.registers.operands(arguments, at, wanted)
        else:
            operands = [self.registers.operand(argument, at, wanted) for argument in arguments]
        many = math.prod(part.extent for part in self.registers.tile(value).parts) > _INLINE_LIMIT
        text = elementwise.elementwise(self.library, op, wanted, operands, many)
        if value.name in self.summands and value.dtype.is_float and (op == "mul" or not elementwise.is_operator(op)):
            # A value must be the same wherever it is computed: other kernels compare it with itself.
            text = f"ROUNDED({text})"
        return self.registers.mask_as(text, wanted.bits, form) if value.dtype is bool_ else text

    def _where(self, value: Value, arguments: tuple[Value, ...], at: Coordinates) -> str:
        form = self.registers.tile(value).form
        condition, a, b = arguments
        texts = [self.registers.operand(a, at, form), self.registers.operand(b, at, form)]
        if self.registers.tile(condition).lanes == 1:
            return f"{self.registers.use(condition, at)} ? {texts[0]} : {texts[1]}"
        mask = self.registers.operand(condition, at, form.integer)
        return f"{self.library.function('select', form)}({mask}, {texts[0]}, {texts[1]})"

    def _cast(self, value: Value, source: Value, at: Coordinates) -> str:
        form = self.registers.tile(value).form
        if source.dtype is bool_:
            text = self.registers.operand(source, at, form.integer)
            return elementwise.cast(self.library, bool_, value.dtype, form.lanes, text)
        operand = Type(elementwise.element(source.dtype), form.lanes)
        text = self.registers.operand(source, at, operand)
        text = elementwise.cast(self.library, source.dtype, value.dtype, form.lanes, text)
        return self.registers.mask_as(text, operand.bits, form) if value.dtype is bool_ else text

    def _index(self, index: Index, value: Value, at: Coordinates) -> str:
        tile = self.registers.tile(value)
        placed = place(index, at)
        if tile.lane is None:
            return f"({tile.form.name})({self.text.spell(placed)})"
        moves = along_lane(placed, tile.lane)
        if moves is None:
            return self.memory.each_lane(tile.lane, tile.form, lambda: self.text.spell(placed))
        base, step = (f"({tile.form.element})({self.text.spell(i)})" for i in moves)
        lanes = self.library.function("iota", tile.form)
        return f"{self.registers.splat(base, tile.form)} + {lanes}() * {step}"

    def _mask(self, statement: Compute, at: Coordinates) -> str:
        tile = self.registers.tile(statement.value)
        form, mask = tile.form, place_mask(statement.attribute, at, tile.lane)
        if tile.lane is None:
            return self.memory.holds(mask.conditions)
        first = self.library.function("first_lanes", form)
        parts = [f"{first}({self.text.spell(n)})" for n in mask.first]
        parts += [f"~{first}({self.text.spell(n)})" for n in mask.after]
        if mask.conditions:
            holds = self.memory.holds(mask.conditions)
            parts.append(self.registers.splat(f"({form.element})-({holds})", form))
        if mask.other:
            other = mask.other
            parts.append(self.memory.each_lane(tile.lane, form, lambda: f"-({self.text.conditions(other)})"))
        return " & ".join(parts) or self.registers.splat(f"({form.element})-1", form)

"""What one register of a loaded, computed or reduced value is, as a C expression."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

from smelt.dtypes import bool_, compute_dtype, float32
from smelt.errors import InternalError
from smelt.graph import Index, IndexLike, Variable, of
from smelt.kernel import Compute, Kernel, Load, Part, Place, Reduce, Value, statements, variables_of
from smelt.render import elementwise
from smelt.render.groups import Groups
from smelt.render.library import Library, Type
from smelt.render.memory import Access, access
from smelt.render.registers import Registers, Source
from smelt.render.tiles import NEVER, Affine, Coordinates, along, combinations, lane_part, near_part, place, place_mask

_INLINE_LIMIT = 4  # a function of more registers than this is called, which compiles faster and loses little
TOGETHER = 4  # numbers of a vector whose lanes are registers
_FEW_LANES = 4  # whose exchanges are about as short as a call
_WIDEST = 64  # bytes of a vector: exchanges between parts of wider ones cost more than single loads
_MASK_FOLDS = {"max": "fold_or", "min": "fold_and"}


def side_by_side(load: Load) -> Part | None:
    """The part of a load of packed numbers whose registers lie next to each other, in whole vectors."""
    buffer = load.buffer
    if buffer.place is not Place.LOCAL or buffer.dtype is not float32 or load.picks or load.mask:
        return None
    return near_part(buffer.address(load.index), [part for part in load.value.parts if part.extent % TOGETHER == 0])


def _summands(kernel: Kernel) -> frozenset[str]:
    """The names of values that others are added to or subtracted from, as they are or where a condition holds: the C
    compiler may see that it always does.
    """
    sums = [s for s in statements(kernel.body) if isinstance(s, Compute) and s.op in ("add", "sub", "neg", "where")]
    return frozenset(value.name for statement in sums for value in statement.arguments)


def _transpose(load: Load) -> tuple[Part, Part, Affine] | None:
    """The lane, the part along which memory lies, and how addresses move with the lane: if there are as many registers
    of that part as lanes, and those lie elsewhere.
    """
    lane, dtype = lane_part(load.value), load.buffer.dtype
    if lane is None or load.picks or dtype.is_bool or compute_dtype(dtype) is not dtype:
        return None
    if lane.extent < 4 or lane.extent * dtype.itemsize > _WIDEST:
        return None
    address = load.buffer.address(load.index)
    move = along(address, lane)
    if move is None or move.step.value in (0, 1):
        return None
    rows = near_part(address, [part for part in load.value.parts if part.extent == lane.extent])
    # A row is there or it is not.
    whole = rows is not None and rows.name not in {variable.name for variable in variables_of((), load.mask)}
    return (lane, rows, move) if rows is not None and whole else None


class Expressions(Registers):
    """Spells the registers of one kernel."""

    def __init__(self, library: Library, kernel: Kernel) -> None:
        super().__init__(library, kernel)
        self.groups, self._summands = Groups(kernel, self), _summands(kernel)

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
        tile = self.tile(value)
        beside = side_by_side(statement) if tile.lane is None and self.library.dialect.extensions else None
        if beside is not None:
            first = at[beside.name] - at[beside.name] % TOGETHER
            where = access(statement, {**at, beside.name: first}, None)
            return self.load_one_of(where, value.name, TOGETHER, at[beside.name] - first)
        text = self.load(self._picked(statement, at))
        return self.mask_as(text, 8, tile.form) if value.dtype is bool_ else text

    def transpose(self, load: Load) -> bool:
        """Write a load at once into an array that stands for its registers, if it is a transpose: as many rows are
        loaded as there are lanes, and exchanged in as many rounds as that number has bits.
        """
        found = _transpose(load)
        if found is None:
            return False
        lane, rows, move = found
        # The transposed part comes last in the array: its registers lie side by side.
        tile = self.declare(load.value, array=True, last=rows)
        form = Type(elementwise.memory_element(load.buffer.dtype), lane.extent)
        blocks = [{**at, rows.name: 0} for at in combinations(part for part in tile.parts if part != rows)]
        masks = [place_mask(load.mask, first, lane) for first in blocks]
        sizes, start = "".join(f"[{part.extent}]" for part in tile.parts), " = {}" if NEVER in masks else ""
        self.lines.append(f"{self.library.type(form)} {tile.name}{sizes}{start};")
        called = len(blocks) > 1 and lane.extent > _FEW_LANES
        step = self.spell(move.step)
        for first, mask in zip(blocks, masks, strict=True):
            if mask is NEVER:
                continue
            target = self.register(self.key(load.value, first))
            pointer = self.pointer(load.buffer, place(move.base, first))
            masked = bool(mask.conditions or mask.by_lane)
            kind = "masked_transposed" if masked else "called_transposed" if called else "transposed"
            name, bits = self.library.function(kind, form), f"{self.lane_bits(mask, lane)}, " if masked else ""
            self.lines.append(f"{name}({pointer}, {step}, {bits}&{target});")
        return True

    def gathered(self, statement: Load) -> str:
        """Where a scalar is loaded from."""
        return self.pointer(statement.buffer, self._picked(statement, {}).address)

    def _picked(self, statement: Load, at: Coordinates) -> Access:
        """The access of one register, with indices that are values as names of this register."""
        values: dict[Variable, IndexLike] = {}
        vectors: dict[str, str] = {}
        for variable, chosen in statement.picks:
            text = self.use(chosen, at)
            own = Variable(f"[{text}]", variable.first, variable.last)
            if self.tile(chosen).lanes > 1:
                vectors[own.name] = text
            else:
                self.names[own.name] = self.integer(text)
            values[variable] = of(own)
        if values:
            statement = replace(statement, index=tuple(i.substitute(values) for i in statement.index))
        return access(statement, at, self.tile(statement.value).lane, vectors)

    def _reduce(self, statement: Reduce, at: Coordinates) -> str:
        """Registers first, then lanes, each as a balanced tree: the order never depends on anything else."""
        source, names = statement.source, {part.name for part in statement.parts}
        tile = self.tile(source)
        folded = [part for part in tile.parts if part.name in names]
        items = [self.operand(source, {**at, **rest}, tile.form) for rest in combinations(folded)]
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
        form = self.tile(value).form
        match op:
            case "index":
                return self._index(statement.attribute, value, at)
            case "mask":
                return self._mask(statement, at)
            case "copy":
                return self.operand(arguments[0], at, form)
            case "cast":
                return self._cast(value, arguments[0], at)
            case "cast_odd" | "bitcast":
                source = Type(elementwise.element(arguments[0].dtype), form.lanes)
                text = self.operand(arguments[0], at, source)
                if op == "cast_odd":
                    return f"{self.library.function('odd', source)}({text})"
                stored, target = statement.attribute or (arguments[0].dtype, value.dtype)
                return elementwise.bitcast(self.library, stored, target, form.lanes, text)
            case "round16":
                name = self.library.function(f"round_{statement.attribute.name}", form)
                return f"{name}({self.operand(arguments[0], at, form)})"
            case "where":
                return self._where(value, arguments, at)
        if arguments[0].dtype is bool_:
            operands = [self.operand(argument, at, form) for argument in arguments]
            return elementwise.boolean(op, form.lanes > 1, operands)
        wanted = Type(elementwise.element(arguments[0].dtype), form.lanes)
        if elementwise.is_operator(op):
            operands = self.operands(arguments, at, wanted)
        else:
            operands = [self.operand(argument, at, wanted) for argument in arguments]
        many = math.prod(part.extent for part in self.tile(value).parts) > _INLINE_LIMIT
        text = elementwise.elementwise(self.library, op, wanted, operands, many)
        if value.name in self._summands and value.dtype.is_float and (op == "mul" or not elementwise.is_operator(op)):
            # A value must be the same wherever it is computed: other kernels compare it with itself.
            text = f"ROUNDED({text})"
        return self.mask_as(text, wanted.bits, form) if value.dtype is bool_ else text

    def _where(self, value: Value, arguments: tuple[Value, ...], at: Coordinates) -> str:
        form = self.tile(value).form
        condition, a, b = arguments
        texts = [self.operand(a, at, form), self.operand(b, at, form)]
        if self.tile(condition).lanes == 1:
            return f"{self.use(condition, at)} ? {texts[0]} : {texts[1]}"
        mask = self.operand(condition, at, form.integer)
        return f"{self.library.function('select', form)}({mask}, {texts[0]}, {texts[1]})"

    def _cast(self, value: Value, source: Value, at: Coordinates) -> str:
        form = self.tile(value).form
        operand = form.integer if source.dtype is bool_ else Type(elementwise.element(source.dtype), form.lanes)
        text = self.operand(source, at, operand)
        text = elementwise.cast(self.library, source.dtype, value.dtype, form.lanes, text)
        return self.mask_as(text, operand.bits, form) if value.dtype is bool_ else text

    def _index(self, index: Index, value: Value, at: Coordinates) -> str:
        tile = self.tile(value)
        placed = place(index, at)
        if tile.lane is None:
            return f"({tile.form.name})({self.spell(placed)})"
        moves = along(placed, tile.lane)
        if moves is None:
            return self.each_lane(tile.lane, tile.form, lambda: self.spell(placed))
        base, step = (f"({tile.form.element})({self.spell(i)})" for i in moves)
        lanes = self.library.function("iota", tile.form)
        return f"{self.splat(base, tile.form)} + {lanes}() * {step}"

    def _mask(self, statement: Compute, at: Coordinates) -> str:
        tile = self.tile(statement.value)
        form, mask = tile.form, place_mask(statement.attribute, at, tile.lane)
        if tile.lane is None:
            return self.holds(mask.conditions)
        first = self.library.function("first_lanes", form)
        parts = [f"{first}({self.spell(n)})" for n in mask.first]
        parts += [f"~{first}({self.spell(n)})" for n in mask.after]
        if mask.conditions:
            holds = self.holds(mask.conditions)
            parts.append(self.splat(f"({form.element})-({holds})", form))
        if mask.other:
            other = mask.other
            parts.append(self.each_lane(tile.lane, form, lambda: f"-({self.conditions(other)})"))
        return " & ".join(parts) or self.splat(f"({form.element})-1", form)

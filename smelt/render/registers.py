"""The registers of one kernel: their names and C types, and the ones that are not written yet.

A value is written when it is needed, register by register: a load stands just before its first use, and a chain of
elementwise functions is finished for one register before the next is begun, so few registers are alive at a time.
Whoever changes memory or an accumulator first settles what must still see the old state.

Loads may therefore come after stores to other buffers. Two arguments may share memory only if every element that a
kernel stores is loaded, if at all, by the same register of the same statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from smelt.dtypes import bool_
from smelt.kernel import Compute, Kernel, Load, Part, Reduce, Store, Value, defines, reads, statements
from smelt.render import elementwise
from smelt.render.library import Library, Type
from smelt.render.memory import Memory
from smelt.render.tiles import Coordinates, Register, combinations, lane_part

Source = Load | Compute | Reduce
_ZEROS = frozenset({"0.0f", "0.0", *(elementwise.integer_literal(0, f"{k}{b}") for k in "iu" for b in (8, 16, 32, 64))})


class Tile(NamedTuple):
    """What a value looks like in C."""

    name: str
    form: Type  # a boolean scalar is an int, a boolean vector a mask of integers
    lane: Part | None
    parts: tuple[Part, ...]  # those that become separate registers
    literal: str = ""  # the text of a constant, which has no registers
    array: bool = False  # the registers are elements of an array

    @property
    def lanes(self) -> int:
        return 1 if self.literal else self.form.lanes


class _Pending(NamedTuple):
    statement: Source
    at: Coordinates
    needs: tuple[Register, ...]


class Registers(Memory):
    """Names and writes registers."""

    def __init__(self, library: Library, kernel: Kernel) -> None:
        super().__init__(library, kernel)
        everything = list(statements(kernel.body))
        # Boolean vectors that could have any width are as wide as what they choose, else as the widest vector.
        vectors = [v for s in everything if (v := defines(s)) and v.dtype is not bool_ and lane_part(v)]
        choices = [s for s in everything if isinstance(s, Compute) and s.op == "where" and s.value.dtype is not bool_]
        self._usual_bits = max((v.dtype.bits for v in vectors), default=8)
        self._chosen_bits = {s.arguments[0].name: s.value.dtype.bits for s in reversed(choices)}
        # Where several arguments are stored, each may lie where another one was read.
        arguments = [buffer.name for buffer in kernel.buffers]
        stored = {s.buffer.name for s in everything if isinstance(s, Store)}.intersection(arguments)
        self._aliases = dict.fromkeys(stored, arguments) if len(stored) > 1 else {}
        self._tiles: dict[str, Tile] = {}
        self._pending: dict[Register, _Pending] = {}
        self._registers = 0

    def define(self, statement: Source, at: Coordinates) -> str:
        """What one register is."""
        raise NotImplementedError

    # --- names and types

    def declare(
        self, value: Value, bits: int = 0, literal: str = "", array: bool = False, last: Part | None = None
    ) -> Tile:
        """A new value; the name it had before, if any, is forgotten. A boolean vector is masks of so many bits, if it
        must not be as wide as what it chooses. An array has the part `last` at its end.
        """
        vectors, groups = self.library.dialect.extensions, self.library.dialect.groups
        lane = lane_part(value, vectors)
        lanes = 1 if lane is None else lane.extent
        if value.dtype is not bool_:
            form = Type(elementwise.element(value.dtype), lanes)
        else:
            bits = bits or self._chosen_bits.get(value.name, self._usual_bits)
            form = Type("i32" if lanes == 1 else f"i{bits}", lanes)
        self._registers += 1
        # Neither the lanes of a vector nor the threads of a group are registers of their own.
        parts = [part for part in value.parts if part != lane and not (part.stride and groups)]
        if last is not None:
            parts.sort(key=lambda part: part == last)
        tile = Tile(f"v{self._registers}", form, lane, tuple(parts), literal, array)
        self._tiles[value.name] = tile
        return tile

    def _mask_bits(self, statement: Source) -> int:
        """How wide masks are that something makes: bytes from memory, else as wide as what it compares or combines."""
        operands = [v for v in reads(statement) if v.dtype is not bool_ or self._tiles[v.name].lanes > 1]
        bits = max((self._tiles[v.name].form.bits for v in operands), default=0)
        return 8 if isinstance(statement, Load) else bits

    def tile(self, value: Value) -> Tile:
        return self._tiles[value.name]

    def key(self, value: Value, at: Coordinates) -> Register:
        """The register of a value that holds some coordinates; parts that the value lacks are ignored."""
        return value.name, tuple([at[part.variable.name] for part in self._tiles[value.name].parts])

    def register(self, key: Register) -> str:
        tile = self._tiles[key[0]]
        name = tile.name
        if tile.array:
            return name + "".join(f"[{n}]" for n in key[1])
        return f"{name}_{'_'.join(map(str, key[1]))}" if key[1] else name

    # --- operands

    def use(self, value: Value, at: Coordinates) -> str:
        """A register as it is, written first if it is pending."""
        literal = self._tiles[value.name].literal
        if literal:
            return literal
        key = self.key(value, at)
        if key in self._pending:
            self.write(key)
        return self.register(key)

    def operand(self, value: Value, at: Coordinates, wanted: Type) -> str:
        """A register in the given form: broadcast, or a mask of another width."""
        text, tile = self.use(value, at), self._tiles[value.name]
        boolean = value.dtype is bool_
        if wanted.lanes == 1 or (tile.lanes > 1 and not boolean):
            return text
        if tile.lanes == 1:
            return self.splat(f"({wanted.element})-({text})" if boolean else text, wanted)
        return self.mask_as(text, tile.form.bits, wanted)

    def mask_as(self, text: str, bits: int, wanted: Type) -> str:
        """A mask of some width in that of a value."""
        if wanted.lanes == 1 or wanted.bits == bits:
            return text
        return f"__builtin_convertvector({text}, {self.library.type(wanted)})"

    def operands(self, values: Sequence[Value], at: Coordinates, wanted: Type) -> list[str]:
        """Operands of an operator of C, which broadcasts scalars itself beside a vector."""
        if any(self._tiles[value.name].lanes > 1 for value in values):
            return [self.use(value, at) for value in values]
        return [self.operand(value, at, wanted) for value in values]

    def splat(self, text: str, form: Type) -> str:
        """A scalar in every lane."""
        name = self.library.type(form)
        if form.lanes == 1:
            return text
        return f"({name}){{}}" if text in _ZEROS else f"({text} - ({name}){{}})"

    # --- pending registers

    def postpone(self, statement: Source) -> None:
        """Remember how the registers of a value are made."""
        tile = self.declare(statement.value, self._mask_bits(statement))
        for at in combinations(tile.parts):
            if isinstance(statement, Reduce):
                source = statement.source
                folded = [part for part in self._tiles[source.name].parts if part.name not in at]
                needs = tuple([self.key(source, {**at, **rest}) for rest in combinations(folded)])
            else:
                used = statement.arguments if isinstance(statement, Compute) else [v for _, v in statement.picks]
                needs = tuple([self.key(value, at) for value in used if not self._tiles[value.name].literal])
            key = (statement.value.name, tuple(at.values()))
            self._pending[key] = _Pending(statement, at, needs)

    def write(self, key: Register) -> None:
        """Write a pending register after all that it needs."""
        stack = [key]
        while stack:
            top = stack[-1]
            pending = self._pending.get(top)
            if pending is None:
                stack.pop()
                continue
            missing = [need for need in reversed(pending.needs) if need in self._pending]
            if missing:
                stack += missing
                continue
            stack.pop()
            del self._pending[top]
            text = self.define(pending.statement, pending.at)
            form = self.library.type(self._tiles[top[0]].form)
            self.lines.append(f"{form} {self.register(top)} = {text};")

    def settle(self) -> None:
        """Write everything pending: a nested block may need it."""
        for key in reversed(list(self._pending)):
            self.write(key)

    def settle_readers(self, accumulator: str) -> None:
        """Write what reads an accumulator that is about to change."""
        for key, pending in list(self._pending.items()):
            if any(name == accumulator for name, _ in pending.needs):
                self.write(key)

    def settle_loads(self, buffer: str) -> None:
        """Write what loads from a buffer that is about to change, or from one that may be the same memory."""
        changing = self._aliases.get(buffer, [buffer])
        for key, pending in list(self._pending.items()):
            if isinstance(pending.statement, Load) and pending.statement.buffer.name in changing:
                self.write(key)

    def forget(self) -> None:
        """Drop what is pending at the end of a block: nothing outside can ask for it."""
        self._pending.clear()

"""The registers of one kernel: their names and C types, and the ones that are not written yet.

A value is written when it is needed, register by register: a load stands just before its first use, and a chain of
elementwise functions is finished for one register before the next is begun, so few registers are alive at a time.
Whoever changes memory or an accumulator first settles what must still see the old state.

Loads may therefore come after stores to other buffers. Two arguments may share memory only if every element that a
kernel stores is loaded, if at all, by the same register of the same statement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from smelt.dtypes import bool_
from smelt.kernel import Compute, Load, Part, Reduce, Value
from smelt.render import elementwise
from smelt.render.library import Library, Type
from smelt.render.tiles import Coordinates, Register, combinations, lane_part, register_parts

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


class Registers:
    """`define` writes one register; `masks` are the widths of boolean vectors by value name, and `aliases` the buffers
    that may be the same memory as a buffer.
    """

    def __init__(
        self, library: Library, lines: list[str], masks: dict[str, int], aliases: dict[str, list[str]]
    ) -> None:
        self.library, self.lines, self._masks, self._aliases = library, lines, masks, aliases
        self.define: Callable[[Source, Coordinates], str] | None = None
        self._tiles: dict[str, Tile] = {}
        self._pending: dict[Register, _Pending] = {}
        self._count = 0

    # --- names and types

    def declare(self, value: Value, literal: str = "", array: bool = False, last: Part | None = None) -> Tile:
        """A new value; the name it had before, if any, is forgotten. An array has the part `last` at its end."""
        vectors, groups = self.library.dialect.extensions, self.library.dialect.groups
        lane = lane_part(value, vectors)
        lanes = 1 if lane is None else lane.extent
        if value.dtype is not bool_:
            form = Type(elementwise.element(value.dtype), lanes)
        else:
            form = Type("i32") if lanes == 1 else Type(f"i{self._masks.get(value.name, 32)}", lanes)
        self._count += 1
        parts = register_parts(value, vectors, groups)
        if last is not None:
            parts = (*(part for part in parts if part != last), last)
        tile = Tile(f"v{self._count}", form, lane, parts, literal, array)
        self._tiles[value.name] = tile
        return tile

    def tile(self, value: Value) -> Tile:
        return self._tiles[value.name]

    def key(self, value: Value, at: Coordinates) -> Register:
        """The register of a value that holds some coordinates; parts that the value lacks are ignored."""
        return value.name, tuple([at[part.variable.name] for part in self._tiles[value.name].parts])

    def text(self, key: Register) -> str:
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
        return self.text(key)

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
        tile = self.declare(statement.value)
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
        assert self.define is not None
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
            self.lines.append(f"{form} {self.text(top)} = {text};")

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

"""Loads and stores of one register: contiguous, masked, broadcast, strided, or lane by lane."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from smelt.dtypes import DType
from smelt.graph import Index
from smelt.kernel import Buffer, Kernel, Load, Mask, Part, Place, Store
from smelt.render.elementwise import NARROW, memory_element
from smelt.render.library import Library, Type
from smelt.render.spell import shuffled
from smelt.render.tiles import NEVER, Affine, Coordinates, LaneMask, Sheet, along, place, place_mask

_SHORT_MASK = 4  # conditions that are written where they are asked for


class Access(NamedTuple):
    """Where one register lies in memory."""

    buffer: Buffer
    lane: Part | None
    address: Index
    moves: Affine | None
    mask: LaneMask
    vectors: Mapping[str, str] = MappingProxyType({})  # variables that are the lanes of a vector, by name

    @property
    def step(self) -> int | None:
        """The distance between lanes, if it is a known number."""
        return None if self.moves is None else self.moves.step.value

    @property
    def form(self) -> Type:
        """What it is in memory."""
        return Type(memory_element(self.buffer.dtype), 1 if self.lane is None else self.lane.extent)


def access(
    statement: Load | Store, at: Coordinates, lane: Part | None, vectors: Mapping[str, str] = MappingProxyType({})
) -> Access:
    """The access of one register to a buffer."""
    every, move = _of_all_registers(statement.buffer, statement.index, lane)
    address = place(every, at)
    uneven = bool(vectors) and any(v.name in vectors for v in address.variables())
    moves: Affine | None = None
    if not uneven:
        moves = along(address, lane) if move is None else Affine(place(move.base, at), place(move.step, at))
    return Access(statement.buffer, lane, address, moves, place_mask(statement.mask, at, lane), vectors)


@lru_cache(maxsize=64)
def _of_all_registers(buffer: Buffer, index: tuple[Index, ...], lane: Part | None) -> tuple[Index, Affine | None]:
    """The address that the registers of a tile have in common, and how it moves with the lane."""
    address = buffer.address(index)
    return address, along(address, lane)


class Memory(Sheet):
    """Writes accesses to the buffers of one kernel. Pointers to equal bases are shared within a block."""

    def __init__(self, library: Library, kernel: Kernel) -> None:
        super().__init__(library)
        self.kernel = kernel
        self.buffers: dict[str, str] = {}
        self.elements: dict[str, str] = {}  # of arguments, which views may see as others

    def integer(self, text: str) -> str:
        """The name of an integer that is a scalar register: one for each register within a block."""
        return self.once(text, "n", "const long ", lambda: text)

    def holds(self, mask: Mask) -> str:
        """Whether all conditions hold. Long masks have names, and those that begin alike share their beginnings: where
        parts of arrays lie inside of others, every load repeats the conditions of all around it.
        """
        if len(mask) <= _SHORT_MASK:
            return self.conditions(mask)
        return self.once(mask, "h", "const int ", lambda: f"{self.holds(mask[:-1])} && {self.conditions(mask[-1:])}")

    def pointer(self, buffer: Buffer, address: Index) -> str:
        """A pointer to the element at an address, as an expression."""
        base = address - address.constant
        kind, name = self._seen_as(buffer)
        if base.terms:
            start, declared = name, f"{self.space(buffer)}{kind} *"
            key = (buffer.name, kind, base)
            name = self.once(key, "p", declared, lambda: f"{start} + ({self.spell(base)})")
        return f"({name} + {address.constant})" if address.constant else name

    def _seen_as(self, buffer: Buffer) -> tuple[str, str]:
        """The type that a buffer's elements have here, and a pointer to the first."""
        element, name = memory_element(buffer.dtype), self.buffers[buffer.name]
        if self.elements.get(buffer.name, element) == element:
            return element, name
        view = self.library.view(element)
        return view, f"(({self.space(buffer)}{view} *){name})"

    def space(self, buffer: Buffer) -> str:
        """What qualifies the memory of a buffer."""
        dialect = self.library.dialect
        return dialect.space if buffer.place is Place.ARGUMENT else dialect.shared if self.kernel.threads > 1 else ""

    def lane_bits(self, mask: LaneMask, lane: Part) -> str:
        """The lanes that a mask admits, as the bits of an integer."""
        parts = [f"{self.helper('first_bits')}({self.spell(n)})" for n in mask.first]
        parts += [f"~{self.helper('first_bits')}({self.spell(n)})" for n in mask.after]
        if mask.other:
            parts.append(self._tested(mask.other, lane))
        bits = " & ".join(parts) or "-1ull"
        return f"({self.holds(mask.conditions)} ? {bits} : 0)" if mask.conditions else f"({bits})"

    def _tested(self, conditions: Mask, lane: Part) -> str:
        bits = self.fresh("m")
        self.lines.append(f"u64 {bits} = 0;")
        number, test = self._for_lane(lane, lambda: self.conditions(conditions))
        self.lines.append(f"{_lane_loop(number, lane)} {bits} |= (u64)({test}) << {number};")
        return bits

    def _for_lane(self, lane: Part, spell: Callable[[], str]) -> tuple[str, str]:
        """A name for the lane's number, and a text that was spelled with it."""
        number = self.fresh("l")
        with self.named({lane.name: number}):
            return number, spell()

    def each_lane(self, lane: Part, t: Type, spell: Callable[[], str]) -> str:
        """A vector whose elements are computed one by one from the number of the lane."""
        array = self.fresh("a")
        number, text = self._for_lane(lane, spell)
        self.lines.append(f"{t.element} {array}[{t.lanes}];")
        self.lines.append(f"{_lane_loop(number, lane)} {array}[{number}] = {text};")
        return f"*({self.library.type(t)}_u *){array}"

    # --- loads

    def load(self, where: Access) -> str:
        """An expression in the compute type of the buffer's dtype; zero where the mask does not hold."""
        self.library.type(where.form)
        return self._widen(where.buffer.dtype, where.form, self._raw(where, where.form))

    def load_one_of(self, where: Access, value: str, count: int, number: int) -> str:
        """One of some numbers that lie side by side, which are loaded together where products can pick a lane."""
        name = self.library.type(Type(where.form.element, count))
        pointer = self.pointer(where.buffer, where.address)
        key = ("side by side", value, where.address)
        vector = self.once(key, "q", f"{name} ", lambda: f"({name})*(const {name}_u *){pointer}")
        return f"LANE({vector}, {pointer}, {number})"

    def _raw(self, where: Access, t: Type) -> str:
        lane = where.lane
        zero = f"({t.name}){{{0}}}" if lane is not None else f"({t.name})0"
        if where.mask is NEVER:
            return zero
        if lane is None or (where.step == 0 and not where.mask.by_lane):
            value = f"*{self.pointer(where.buffer, where.address)}"
            if where.mask.conditions:
                value = f"({t.element})({self.holds(where.mask.conditions)} ? {value} : 0)"
            return value if lane is None else f"({value} - ({t.name}){{}})"
        second = where.step == 2 and lane.extent <= 32  # twice as many elements have bits in one word
        if where.moves is None or (where.mask.by_lane and where.step != 1 and not second):
            return self._lane_by_lane(where, lane, t)
        pointer = self.pointer(where.buffer, where.moves.base)
        if where.mask.by_lane and where.step == 2:
            bits = f"{self.helper('spread_bits')}({self.lane_bits(where.mask, lane)})"
            return f"{self.library.function('masked_every_second', t)}({pointer}, {bits})"
        if where.mask.by_lane:
            return f"{self.library.function('masked_load', t)}({pointer}, {self.lane_bits(where.mask, lane)})"
        if where.step == 1:
            value = f"({t.name})*(const {t.name}_u *){pointer}"
        elif where.step == 2:
            value = f"{self.library.function('every_second', t)}({pointer})"
        else:
            value = f"{self.library.function('gather', t)}({pointer}, {self.spell(where.moves.step)})"
        if where.mask.conditions:
            return f"({self.holds(where.mask.conditions)} ? {value} : {zero})"
        return value

    def _lane_by_lane(self, where: Access, lane: Part, t: Type) -> str:
        found = self._neighbors(where, lane, t)
        if found is not None:
            return found
        bits = self.lane_bits(where.mask, lane) if where.mask.conditions or where.mask.by_lane else ""

        def element() -> str:
            value = f"{self._seen_as(where.buffer)[1]}[{self.spell(where.address)}]"
            return f"{bits} >> {self.names[lane.name]} & 1 ? {value} : 0" if bits else value

        return self._list(lane, t, where.vectors, element) if where.vectors else self.each_lane(lane, t, element)

    def _neighbors(self, where: Access, lane: Part, t: Type) -> str | None:
        """A few neighbors in memory, each in the lanes that ask for it, as where every pixel is shown twice; None where
        lanes lie further apart, or where that is not known here.
        """
        admitted = _admitted(where.mask, lane)
        if where.vectors or not admitted:
            return None
        variable = next((v for v in where.address.variables() if v.name == lane.name), None)
        if variable is None:
            return None
        base = where.address.substitute({variable: admitted[0]})
        found = {k: (where.address.substitute({variable: k}) - base).value for k in admitted}
        offsets = {k: offset for k, offset in found.items() if offset is not None}
        if len(offsets) < len(found) or min(offsets.values()) < 0 or max(offsets.values()) >= t.lanes:
            return None
        count = 1 + max(offsets.values())
        if count == t.lanes and len(admitted) < t.lanes:  # no zero is left over
            return None
        pointer, row = self.pointer(where.buffer, base), self.fresh("r")
        held = Type(t.element, count) if count > 1 and count & (count - 1) == 0 else t
        value = f"({self.library.type(held)})*(const {held.name}_u *){pointer}"
        if count < held.lanes:
            bits = f"{self.helper('first_bits')}({count})"
            value = f"{self.library.function('masked_load', t)}({pointer}, {bits})"
        if where.mask.conditions:
            value = f"{self.holds(where.mask.conditions)} ? {value} : ({held.name}){{0}}"
        self.lines.append(f"{held.name} {row} = {value};")
        # What no lane asks for is 0.
        return shuffled(row, f"({held.name}){{0}}", (offsets.get(k, held.lanes) for k in range(t.lanes)))

    def _list(self, lane: Part, t: Type, vectors: Mapping[str, str], spell: Callable[[], str]) -> str:
        """A vector of elements written one by one, each with the elements of other vectors in its lane."""
        elements: list[str] = []
        for number in range(lane.extent):
            names = {lane.name: str(number), **{name: f"(long){vector}[{number}]" for name, vector in vectors.items()}}
            with self.named(names):
                elements.append(spell())
        return f"({self.library.type(t)}){{{', '.join(elements)}}}"

    def _widen(self, dtype: DType, t: Type, raw: str) -> str:
        if dtype.is_bool:
            return f"{raw} != 0" if t.lanes == 1 else f"({self.library.type(t.integer)})({raw} != 0)"
        if dtype in NARROW:
            return f"{self.library.function(f'widen_{dtype.name}', Type(NARROW[dtype], t.lanes))}({raw})"
        return raw

    # --- stores

    def store(self, where: Access, value: str, owner: str = "", stream: bool = False) -> None:
        """Store a register that has the compute type of the buffer's dtype (a boolean vector: a mask of bytes).

        `owner` is the condition under which a thread stores what several of a group hold.
        """
        if where.mask is NEVER:
            return
        t, lane = where.form, where.lane
        self.library.type(t)
        value = self._narrow(where.buffer.dtype, t, value)
        conditions = [self.holds(where.mask.conditions)] if where.mask.conditions else []
        conditions += [owner] if owner else []
        guard = f"if ({' && '.join(conditions)}) " if conditions and not where.mask.by_lane else ""
        if lane is None:
            self.lines.append(f"{guard}*{self.pointer(where.buffer, where.address)} = {value};")
            return
        if where.moves is None or where.step == 0 or (where.mask.by_lane and where.step != 1):
            self._store_lane_by_lane(where, lane, t, value)
            return
        pointer = self.pointer(where.buffer, where.moves.base)
        if where.mask.by_lane:
            text = f"{self.library.function('masked_store', t)}({pointer}, {value}, {self.lane_bits(where.mask, lane)})"
        elif where.step == 1:
            text = f"*({t.name}_u *){pointer} = {value}"
            text = f"{self.library.function('stream', t)}({pointer}, {value})" if stream else text
        else:
            text = f"{self.library.function('scatter', t)}({pointer}, {self.spell(where.moves.step)}, {value})"
        self.lines.append(f"{guard}{text};")

    def _store_lane_by_lane(self, where: Access, lane: Part, t: Type, value: str) -> None:
        bits, vector = self.lane_bits(where.mask, lane), self.fresh("w")
        self.lines.append(f"{t.name} {vector} = {value};")
        number, address = self._for_lane(lane, lambda: self.spell(where.address))
        target = f"{self.buffers[where.buffer.name]}[{address}]"
        admitted = f"if ({bits} >> {number} & 1)"
        self.lines.append(f"{_lane_loop(number, lane)} {admitted} {target} = {vector}[{number}];")

    def _narrow(self, dtype: DType, t: Type, value: str) -> str:
        if dtype.is_bool:
            return value if t.lanes == 1 else f"({t.name})({value} & 1)"
        if dtype in NARROW:
            return f"{self.library.function(f'narrow_{dtype.name}', Type(NARROW[dtype], t.lanes))}({value})"
        return value


def _admitted(mask: LaneMask, lane: Part) -> list[int]:
    """The lanes that a mask admits, where that is known here."""
    if mask.other or any(n.value is None for n in (*mask.first, *mask.after)):
        return []
    least, most = max([0, *(n.value or 0 for n in mask.after)]), min([lane.extent, *(n.value or 0 for n in mask.first)])
    return list(range(least, most))


def _lane_loop(number: str, lane: Part) -> str:
    return f"for (long {number} = 0; {number} < {lane.extent}; {number}++)"

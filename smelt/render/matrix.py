"""Matrix instructions (AMX) spelled out: tile registers are zeroed, loaded, multiplied and stored.

What a kernel asks for has been checked (`kernel.instructions`). Where something else reads an accumulator that lives in
tile registers, it is stored once to an array, whose vectors are read like registers.
"""

from __future__ import annotations

import math

from smelt.kernel import Accumulator, Block, Kernel, Load, Statement, Store, Tiles, Update, reads, statements, tiles_of
from smelt.render.registers import Registers
from smelt.render.tiles import Coordinates, place

_FIRST_LEFT, _FIRST_RIGHT = 4, 6  # the registers of factors; accumulators come before
# Palette 1; eight tiles, each of rows of 64 bytes (from byte 16 on, two bytes a tile), 16 of them (from byte 48 on).
_CONFIGURATION = [1, *[0] * 15, *[64, 0] * 8, *[0] * 16, *[16] * 8, *[0] * 8]


class Matrix:
    """Writes the statements of a kernel that tile registers are for, if the processor has them."""

    def __init__(self, kernel: Kernel, features: frozenset[str], sheet: Registers) -> None:
        self.sheet, self.lines = sheet, sheet.lines
        everything = list(statements(kernel.body))
        self.tiles = {name: tiles for name, tiles in tiles_of(everything).items() if tiles.row.needs <= features}
        updates = [s for s in everything if isinstance(s, Update) and s.accumulator.name in self.tiles]
        self._factors = {value.name for update in updates for value in update.arguments}
        self._loads: dict[str, Load] = {}  # of those factors, which only instructions read
        self.spilled: frozenset[str] = frozenset()  # accumulators whose vectors are up to date in the present block

    def begin(self) -> None:
        """At the start of the function: the shape of tiles."""
        if self.tiles:
            numbers = ", ".join(map(str, _CONFIGURATION))
            self.lines.append(f"static const u8 tile_shapes[64] __attribute__((aligned(64))) = {{{numbers}}};")
            self.lines.append('__asm__ volatile("ldtilecfg (%0)" : : "r"(tile_shapes) : "memory");')

    def end(self) -> None:
        if self.tiles:
            self.lines.append('__asm__ volatile("tilerelease");')

    def takes(self, statement: Statement) -> bool:
        """Write a statement, if it is done by matrix instructions; before others, what they read."""
        if not self.tiles:
            return False
        match statement:
            case Load(value) if value.name in self._factors:
                self._loads[value.name] = statement
                return True
            case Accumulator(value) if value.name in self.tiles:
                self._declare(self.tiles[value.name])
                return True
            case Update(accumulator=value) if value.name in self.tiles:
                loads = [self._loads[factor.name] for factor in statement.arguments]
                if statement.instruction:
                    self._multiply(self.tiles[value.name], statement, loads)
                else:
                    self._move("load", self.tiles[value.name], self.tiles[value.name].moved(loads[0]))
                return True
            case Store(value=value) if value.name in self.tiles and not statement.mask and not statement.stream:
                block = self.tiles[value.name].moved(statement)
                if block is not None and value.name not in self.spilled:
                    self.sheet.settle_loads(statement.buffer.name)
                    self._move("store", self.tiles[value.name], block)
                    return True
        for value in reads(statement):
            if value.name in self.tiles and value.name not in self.spilled:
                self._spill(self.tiles[value.name])
                self.spilled |= {value.name}
        return False

    def _declare(self, tiles: Tiles) -> None:
        self.spilled -= {tiles.value.name}
        tile = self.sheet.declare(tiles.value, array=True)
        sizes = "".join(f"[{part.extent}]" for part in tile.parts)
        self.lines.append(f"{self.sheet.library.type(tile.form)} {tile.name}{sizes};")
        self.lines += [f'__asm__ volatile("tilezero %tmm{tiles.number(i, j)}");' for i, j in tiles.each()]

    def _multiply(self, tiles: Tiles, update: Update, loads: list[Load]) -> None:
        """All factors are loaded, each once, before the first product: loads and products then overlap best."""
        left, right, inner = tiles.product(update, loads)
        multiplications: list[str] = []
        for i, j in tiles.each():
            at = {**tiles.at(i, j), inner.name: 0}
            if j == 0:
                self._transfer("load", _FIRST_LEFT + i, left, at)
            if i == 0:
                self._transfer("load", _FIRST_RIGHT + j, right, at)
            names = ", ".join(f"%tmm{n}" for n in (_FIRST_RIGHT + j, _FIRST_LEFT + i, tiles.number(i, j)))
            multiplications.append(f'__asm__ volatile("{tiles.row.name} {names}");')
        self.lines += multiplications

    def _move(self, direction: str, tiles: Tiles, block: Block | None) -> None:
        assert block is not None
        for i, j in tiles.each():
            self._transfer(direction, tiles.number(i, j), block, tiles.at(i, j))

    def _transfer(self, direction: str, register: int, block: Block, at: Coordinates) -> None:
        pointer = self.sheet.pointer(block.buffer, place(block.address, at))
        self._instruction(direction, register, pointer, f"4l * ({self.sheet.spell(block.stride)})")

    def _instruction(self, direction: str, register: int, pointer: str, stride: str) -> None:
        place_text, tile = "(%0,%1,1)", f"%%tmm{register}"
        spelled = f"tileloadd {place_text}, {tile}" if direction == "load" else f"tilestored {tile}, {place_text}"
        self.lines.append(f'__asm__ volatile("{spelled}" : : "r"({pointer}), "r"({stride}) : "memory");')

    def _spill(self, tiles: Tiles) -> None:
        """Store the tiles to the array that stands for the accumulator."""
        value = tiles.value
        self.sheet.settle_readers(value.name)
        parts = self.sheet.tile(value).parts
        distance = 64 * math.prod(part.extent for part in parts[parts.index(tiles.rows) + 1 :])
        for i, j in tiles.each():
            element = self.sheet.register(self.sheet.key(value, tiles.at(i, j)))
            self._instruction("store", tiles.number(i, j), f"&{element}", f"{distance}l")

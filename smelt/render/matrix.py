"""Matrix instructions (AMX) spelled out: tile registers are zeroed, loaded, multiplied and stored.

Where something else reads an accumulator that lives in tile registers, it is stored once to an array, whose vectors are
read like registers.
"""

from __future__ import annotations

from smelt.kernel.ir import Accumulator, Kernel, Statement, Store, Update
from smelt.render.library import Library
from smelt.render.matrix_plan import SIDE, Block, Plan, Product, Tiles
from smelt.render.memory import Memory
from smelt.render.registers import Registers
from smelt.render.tiles import Coordinates, IndexText, place

_FIRST_A, _FIRST_B = 4, 6  # the registers of factors; accumulators come before
# Palette 1; eight tiles, each of rows of 64 bytes (from byte 16 on, two bytes a tile), 16 of them (from byte 48 on).
_CONFIGURATION = [1, *[0] * 15, *[64, 0] * 8, *[0] * 16, *[SIDE] * 8, *[0] * 8]


class Matrix:
    """Writes what a plan says."""

    def __init__(
        self,
        kernel: Kernel,
        features: frozenset[str],
        library: Library,
        text: IndexText,
        memory: Memory,
        registers: Registers,
        lines: list[str],
    ) -> None:
        self.library, self.text, self.memory, self.registers, self.lines = library, text, memory, registers, lines
        self.plan = Plan(kernel, features)

    def begin(self) -> None:
        """At the start of the function: the shape of tiles."""
        if self.plan.tiles:
            numbers = ", ".join(map(str, _CONFIGURATION))
            self.lines.append(f"static const u8 tile_shapes[64] __attribute__((aligned(64))) = {{{numbers}}};")
            self.lines.append('__asm__ volatile("ldtilecfg (%0)" : : "r"(tile_shapes) : "memory");')

    def end(self) -> None:
        if self.plan.tiles:
            self.lines.append('__asm__ volatile("tilerelease");')

    def takes(self, statement: Statement) -> bool:
        """Write a statement, if it is done by matrix instructions; before others, what they read."""
        key = id(statement)
        for tiles in self.plan.spills.get(key, ()):
            self._spill(tiles)
        if key in self.plan.skipped:
            return True
        match statement:
            case Accumulator(value) if value.name in self.plan.tiles:
                self._declare(self.plan.tiles[value.name])
            case Update() if key in self.plan.products:
                self._multiply(self.plan.tiles[statement.accumulator.name], self.plan.products[key])
            case Update() if key in self.plan.moves:
                self._move("load", self.plan.tiles[statement.accumulator.name], self.plan.moves[key])
            case Store() if key in self.plan.moves:
                self.registers.settle_loads(statement.buffer.name)
                self._move("store", self.plan.tiles[statement.value.name], self.plan.moves[key])
            case _:
                return False
        return True

    def _declare(self, tiles: Tiles) -> None:
        tile = self.registers.declare(tiles.value, array=True)
        sizes = "".join(f"[{part.extent}]" for part in tile.parts)
        self.lines.append(f"{self.library.type(tile.form)} {tile.name}{sizes};")
        self.lines += [f'__asm__ volatile("tilezero %tmm{tiles.number(i, j)}");' for i, j in tiles.each()]

    def _multiply(self, tiles: Tiles, product: Product) -> None:
        """All factors are loaded, each once, before the first product: loads and products then overlap best."""
        multiplications: list[str] = []
        loaded: set[int] = set()
        for i, j in tiles.each():
            at = {**tiles.at(i, j), product.inner.name: 0}
            factors = {_FIRST_A + i: product.a, _FIRST_B + j: product.b}
            for register, block in factors.items():
                if register not in loaded:
                    loaded.add(register)
                    self._transfer("load", register, block, at)
            names = ", ".join(f"%tmm{n}" for n in (_FIRST_B + j, _FIRST_A + i, tiles.number(i, j)))
            multiplications.append(f'__asm__ volatile("{product.instruction} {names}");')
        self.lines += multiplications

    def _move(self, direction: str, tiles: Tiles, block: Block) -> None:
        for i, j in tiles.each():
            self._transfer(direction, tiles.number(i, j), block, tiles.at(i, j))

    def _transfer(self, direction: str, register: int, block: Block, at: Coordinates) -> None:
        pointer = self.memory.pointer(block.buffer, place(block.address, at))
        self._instruction(direction, register, pointer, f"4l * ({self.text.spell(block.stride)})")

    def _instruction(self, direction: str, register: int, pointer: str, stride: str) -> None:
        place_text, tile = "(%0,%1,1)", f"%%tmm{register}"
        spelled = f"tileloadd {place_text}, {tile}" if direction == "load" else f"tilestored {tile}, {place_text}"
        self.lines.append(f'__asm__ volatile("{spelled}" : : "r"({pointer}), "r"({stride}) : "memory");')

    def _spill(self, tiles: Tiles) -> None:
        """Store the tiles to the array that stands for the accumulator."""
        value = tiles.value
        self.registers.settle_readers(value.name)
        parts = self.registers.tile(value).parts
        distance = 64
        for part in reversed(parts):
            if part == tiles.rows:
                break
            distance *= part.extent
        for i, j in tiles.each():
            element = self.registers.text(self.registers.key(value, tiles.at(i, j)))
            self._instruction("store", tiles.number(i, j), f"&{element}", f"{distance}l")

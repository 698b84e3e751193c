"""Scans of tiles as C: along registers one after the other, along the lanes of a vector by doubling.

A vector is combined with itself moved up by one lane, then by two, by four and so on, the lanes below filled with the
identity: after that each lane holds all up to its own. The carry is combined last, so that it alone ties one vector to
the next.
"""

from __future__ import annotations

from smelt.dtypes import bool_
from smelt.graph.ops import scan_start
from smelt.kernel.ir import Scan
from smelt.render import elementwise
from smelt.render.expressions import Expressions
from smelt.render.library import Library
from smelt.render.registers import Registers, Tile
from smelt.render.tiles import Coordinates, combinations


class Scans:
    """Writes the scans of one kernel."""

    def __init__(self, library: Library, registers: Registers, expressions: Expressions, lines: list[str]) -> None:
        self.library, self.registers, self.expressions, self.lines = library, registers, expressions, lines

    def write(self, statement: Scan) -> None:
        """Every register of the value, and the carry after each."""
        registers = self.registers
        registers.settle_readers(statement.carry.name)
        tile = registers.declare(statement.value)
        scanned = {part.name for part in statement.parts}
        # Registers of other parts are independent chains: side by side they hide each other's latency.
        for at in combinations(sorted(tile.parts, key=lambda part: part.name not in scanned)):
            self._register(statement, tile, at, tile.lane is not None and tile.lane.name in scanned)

    def _register(self, statement: Scan, tile: Tile, at: Coordinates, across: bool) -> None:
        value, carry, registers = statement.value, statement.carry, self.registers
        kind = self.library.type(tile.form)
        name = registers.text(registers.key(value, at))
        target = registers.text(registers.key(carry, at))
        self.lines.append(f"{kind} {name} = {registers.operand(statement.source, at, tile.form)};")
        if across:
            self._across(statement, tile, name)
        self._combine(statement, tile, name, registers.operand(carry, at, tile.form))
        self.lines.append(f"{target} = {self._last(statement, tile, name, across)};")

    def _across(self, statement: Scan, tile: Tile, name: str) -> None:
        lanes, vector = tile.form.lanes, statement.value.dtype is bool_
        literal = elementwise.literal(scan_start(statement.op, statement.value.dtype), statement.value.dtype)
        fill = self.registers.splat(f"-({literal})" if vector else literal, tile.form)
        step = 1
        while step < lanes:
            moved = ", ".join(str(j if j < step else lanes + j - step) for j in range(lanes))
            self._combine(statement, tile, name, f"__builtin_shufflevector({fill}, {name}, {moved})")
            step *= 2

    def _combine(self, statement: Scan, tile: Tile, name: str, before: str) -> None:
        text = self.expressions.combine(statement.op, statement.value, tile.form, before, name)
        self.lines.append(f"{name} = {text};")

    def _last(self, statement: Scan, tile: Tile, name: str, across: bool) -> str:
        """What the carry becomes."""
        boolean = statement.value.dtype is bool_
        if across:
            last = f"{name}[{tile.form.lanes - 1}]"
            return f"{last} != 0" if boolean else last
        form = self.registers.tile(statement.carry).form
        return name if form == tile.form else f"__builtin_convertvector({name}, {self.library.type(form)})"

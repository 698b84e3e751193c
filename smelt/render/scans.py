"""Scans of tiles as C: along registers one after the other, along the lanes of a vector by doubling.

A vector is combined with itself moved up by one lane, then by two, by four and so on, the lanes below filled with the
identity: after that each lane holds all up to its own. The carry is combined last, so that it alone ties one vector to
the next.
"""

from __future__ import annotations

from smelt.dtypes import bool_
from smelt.graph import scan_start
from smelt.kernel import Scan
from smelt.render import elementwise
from smelt.render.expressions import Expressions
from smelt.render.registers import Registers, Tile
from smelt.render.spell import shuffled
from smelt.render.tiles import combinations


def write_scan(statement: Scan, registers: Registers, expressions: Expressions) -> None:
    """Every register of the value, and the carry after each."""
    registers.settle_readers(statement.carry.name)
    tile = registers.declare(statement.value)
    scanned = {part.name for part in statement.parts}
    across = tile.lane is not None and tile.lane.name in scanned
    value, carry, lines, kind = statement.value, statement.carry, registers.lines, registers.library.type(tile.form)
    # Registers of other parts are independent chains: side by side they hide each other's latency.
    for at in combinations(sorted(tile.parts, key=lambda part: part.name not in scanned)):
        name = registers.text(registers.key(value, at))
        lines.append(f"{kind} {name} = {registers.operand(statement.source, at, tile.form)};")
        moved = _moved(statement, tile, name, registers) if across else []
        for before in [*moved, registers.operand(carry, at, tile.form)]:
            lines.append(f"{name} = {expressions.combine(statement.op, value, tile.form, before, name)};")
        lines.append(f"{registers.text(registers.key(carry, at))} = {_last(statement, tile, name, registers, across)};")


def _moved(statement: Scan, tile: Tile, name: str, registers: Registers) -> list[str]:
    """A vector moved up by one lane, by two, by four and so on."""
    lanes, dtype = tile.form.lanes, statement.value.dtype
    literal = elementwise.literal(scan_start(statement.op, dtype), dtype)
    fill = registers.splat(f"-({literal})" if dtype is bool_ else literal, tile.form)
    steps = [1 << k for k in range((lanes - 1).bit_length())]
    return [shuffled(fill, name, (j if j < step else lanes + j - step for j in range(lanes))) for step in steps]


def _last(statement: Scan, tile: Tile, name: str, registers: Registers, across: bool) -> str:
    """What the carry becomes."""
    if across:
        last = f"{name}[{tile.form.lanes - 1}]"
        return f"{last} != 0" if statement.value.dtype is bool_ else last
    return registers.mask_as(name, tile.form.bits, registers.tile(statement.carry).form)

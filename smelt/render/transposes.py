"""Loads that are transposes in registers, where the schedule wants those: memory lies along registers, and lanes are
rows far apart.

As many rows are loaded as there are lanes, and exchanged in as many rounds as that number has bits.
"""

from __future__ import annotations

from smelt.dtypes import compute_dtype
from smelt.kernel import Load, Part
from smelt.render.elementwise import memory_element
from smelt.render.library import Type
from smelt.render.memory import Memory
from smelt.render.registers import Registers
from smelt.render.tiles import NEVER, Affine, along_lane, combinations, lane_part, place, place_mask, register_parts

_FEW_LANES = 4  # whose exchanges are about as short as a call
_WIDEST = 64  # bytes of a vector: exchanges between parts of wider ones cost more than single loads


def write_transpose(load: Load, memory: Memory, registers: Registers) -> bool:
    """Write a load at once into an array that stands for its registers, if it is a transpose."""
    found = _transpose(load)
    if found is None:
        return False
    lane, rows, move = found
    # The transposed part comes last in the array: its registers lie side by side.
    tile = registers.declare(load.value, array=True, last=rows)
    form = Type(memory_element(load.buffer.dtype), lane.extent)
    blocks = [{**at, rows.name: 0} for at in combinations(part for part in tile.parts if part != rows)]
    masks = [place_mask(load.mask, first, lane) for first in blocks]
    sizes, start = "".join(f"[{part.extent}]" for part in tile.parts), " = {}" if NEVER in masks else ""
    memory.lines.append(f"{memory.library.type(form)} {tile.name}{sizes}{start};")
    called = len(blocks) > 1 and lane.extent > _FEW_LANES
    step = memory.text.spell(move.step)
    for first, mask in zip(blocks, masks, strict=True):
        if mask is NEVER:
            continue
        target = registers.text(registers.key(load.value, first))
        pointer = memory.pointer(load.buffer, place(move.base, first))
        masked = bool(mask.conditions or mask.by_lane)
        kind = "masked_transposed" if masked else "called_transposed" if called else "transposed"
        name, bits = memory.library.function(kind, form), f"{memory.lane_bits(mask, lane)}, " if masked else ""
        memory.lines.append(f"{name}({pointer}, {step}, {bits}&{target});")
    return True


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
    move = along_lane(address, lane)
    if move is None or move.step.value in (0, 1):
        return None
    for part in register_parts(load.value):
        along = along_lane(address, part)
        if part.extent == lane.extent and along is not None and along.step.value == 1:
            # A row is there or it is not.
            names = {variable.name for less in load.mask for index in less for variable in index.variables()}
            return None if part.name in names else (lane, part, move)
    return None

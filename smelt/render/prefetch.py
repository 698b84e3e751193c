"""Software prefetch: lines of memory that are asked for before they are read, as the schedule says. It changes no
result: for what does not exist, asking does nothing.

*Streams* are arguments that a kernel walks through once, asked for some bytes ahead, at the first access to each.

*Gathered rows* are asked for some iterations before, where the index of a row is one number per iteration of a loop,
computed in the loop's own body from loads and arithmetic. The numbers of a later iteration are computed once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from smelt.graph import Index, as_index, upper
from smelt.kernel import Ask, Compute, For, Let, Load, Statement, Store, Value, defines, reads, statements, variables_of
from smelt.render.tiles import along, combinations, near_part, place

_LINE_BYTES = 64
_MOST_TILE_LINES = 32
_MOST_ROW_LINES = 8  # the processor goes on by itself


def lines_ahead(access: Load | Store, loops: Sequence[For], distance: int) -> list[Index]:
    """What to ask for so many bytes before an access, as addresses in elements; `loops` are those around it, the
    innermost last.
    """
    address = access.buffer.address(access.index)
    lines = _tile_lines(access, address)
    ahead = _ahead(address, loops, len(lines) * _LINE_BYTES, distance)
    return [line + ahead for line in lines] if ahead is not None else []


def _tile_lines(access: Load | Store, address: Index) -> tuple[Index, ...]:
    """An element of each line that a tile reads; none if its elements do not lie side by side."""
    parts = access.value.parts
    near = near_part(address, parts)
    if near is None or any(part.stride for part in parts):
        return ()
    apart = _LINE_BYTES // access.buffer.dtype.itemsize
    lines: dict[tuple[Index, int], Index] = {}
    for at in combinations(part for part in parts if part != near):
        for n in range(0, near.extent, apart):
            line = place(address, {**at, near.name: n})
            lines.setdefault((line - line.constant, line.constant // apart), line)
    return tuple(lines.values()) if len(lines) <= _MOST_TILE_LINES else ()


def _ahead(address: Index, loops: Sequence[For], covered: int, distance: int) -> Index | None:
    """How far ahead to ask: so many bytes, along the innermost loop that walks further than that."""
    for loop in reversed(loops):
        move = along(address, loop.variable)
        if not covered or move is None or move.step.value == 0:
            return None  # what comes next is not known, or what has been read is read again
        if covered * upper(loop.count) >= 2 * distance:
            return move.step * max(1, distance // covered)
        covered *= upper(loop.count)
    return None


class Row(NamedTuple):
    """The first element of a gathered row, and how many elements from there on are fetched, by line."""

    load: Load
    offsets: tuple[int, ...]


def rows_ahead(loop: For, fetched: Sequence[str]) -> tuple[list[Load | Compute], list[Row]]:
    """The numbers of a loop's body that can be computed for a later iteration, and the rows of fetched buffers that lie
    where they say.
    """
    inside = list(statements(loop.body))
    gathers = [s for s in inside if isinstance(s, Load) and s.picks and s.buffer.name in fetched]
    unknown = {name for s in inside for name in _names(s)} if gathers else set()
    numbers: list[Load | Compute] = []
    for s in loop.body if gathers else ():
        if isinstance(s, Load | Compute) and not s.value.parts and unknown.isdisjoint(_needs(s)):
            numbers.append(s)
            unknown.remove(s.value.name)
    known = {s.value.name for s in numbers}
    rows: dict[tuple[object, ...], Row] = {}
    for load in gathers:
        picks = {value.name for _, value in load.picks}
        # Else it is the same row in every iteration, or one that is not known yet.
        if picks & known and not picks & unknown and not any(value.parts for _, value in load.picks):
            row = _row(load, loop)
            rows[row.load.buffer.name, row.load.index] = row
    return numbers, list(rows.values())


def _names(statement: Statement) -> list[str]:
    """What a statement defines: values and integers."""
    defined = statement.variable if isinstance(statement, For | Let | Ask) else defines(statement)
    return [defined.name] if defined is not None else []


def _needs(statement: Load | Compute) -> set[str]:
    """The values and integers that a number is computed from."""
    index = variables_of(statement.index, statement.mask) if isinstance(statement, Load) else ()
    return {value.name for value in (*reads(statement), *index)}


def _row(load: Load, loop: For) -> Row:
    kept = {loop.variable, *(variable for variable, _ in load.picks)}
    index = tuple(
        i.substitute({v: as_index(0) for v in i.variables() if v not in kept and v.first == 0}) for i in load.index
    )
    span = load.buffer.address(load.index) - load.buffer.address(index)
    size = load.buffer.dtype.itemsize
    lines = min(_MOST_ROW_LINES, span.high * size // _LINE_BYTES + 1)
    first = Load(Value(f"{load.value.name}.ahead", load.value.dtype), load.buffer, index, (), load.picks)
    return Row(first, tuple(k * _LINE_BYTES // size for k in range(lines)))

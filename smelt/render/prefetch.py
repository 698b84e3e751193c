"""Software prefetch: lines of memory that are asked for before they are read, as the schedule says. It changes no
result: for what does not exist, asking does nothing.

*Streams* are arguments that a kernel walks through once, asked for some bytes ahead, at the first access to each.

*Gathered rows* are asked for some iterations before, where the index of a row is one number per iteration of a loop,
computed in the loop's own body from loads and arithmetic. The numbers of a later iteration are computed once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from smelt.graph import Index, as_index, upper
from smelt.kernel import Ask, Buffer, Compute, For, If, Kernel, Let, Load, Statement, Store, Value, statements
from smelt.render.tiles import along, combinations, place

_LINE_BYTES = 64
_MOST_TILE_LINES = 32
_MOST_ROW_LINES = 8  # the processor goes on by itself


class Stream(NamedTuple):
    """Lines to ask for before a load or store: addresses in elements of the buffer."""

    buffer: Buffer
    addresses: tuple[Index, ...]


def streams(kernel: Kernel) -> dict[int, Stream]:
    """What to ask for, by the identity of the statement that it precedes: the first one for every fetched argument."""
    found: dict[int, Stream] = {}
    left = set(kernel.fetched) if kernel.ahead else set()
    for statement, loops in _accesses(kernel.body, ()):
        buffer = statement.buffer
        uncertain = statement.stream if isinstance(statement, Store) else bool(statement.picks)
        if buffer.name not in left or uncertain:
            continue
        left.remove(buffer.name)
        address = buffer.address(statement.index)
        lines = _tile_lines(statement, address)
        ahead = _ahead(address, loops, len(lines) * _LINE_BYTES, kernel.ahead)
        if ahead is not None:
            found[id(statement)] = Stream(buffer, tuple(line + ahead for line in lines))
    return found


def _accesses(body: Sequence[Statement], loops: tuple[For, ...]) -> Iterator[tuple[Load | Store, tuple[For, ...]]]:
    """Every load and store with the loops around it, the innermost first."""
    for statement in body:
        match statement:
            case Load() | Store():
                yield statement, loops
            case For():
                yield from _accesses(statement.body, (statement, *loops))
            case If():
                yield from _accesses((*statement.body, *statement.other), loops)


def _tile_lines(access: Load | Store, address: Index) -> tuple[Index, ...]:
    """An element of each line that a tile reads; none if its elements do not lie side by side."""
    parts = access.value.parts
    steps = {part: along(address, part.name) for part in parts}
    near = next((part for part, move in steps.items() if move is not None and move.step.value == 1), None)
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
    for loop in loops:
        move = along(address, loop.variable.name)
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


def rows_ahead(loop: For, fetched: Sequence[str]) -> tuple[tuple[Statement, ...], tuple[Row, ...]]:
    """The statements of a loop's body that compute where gathered rows of fetched buffers lie, and the rows."""
    gathers = [s for s in statements(loop.body) if isinstance(s, Load) and s.picks and s.buffer.name in fetched]
    if not gathers:
        return (), ()
    own = {s.value.name: s for s in loop.body if isinstance(s, Load | Compute)}
    inner = {name for s in statements(loop.body) for name in _names(s)} - own.keys()
    needed: dict[str, Statement] = {}
    rows: dict[tuple[object, ...], Row] = {}
    for load in gathers:
        chain = _chain([value for _, value in load.picks], own, inner)
        if chain:  # else the same row in every iteration, or one that is not known yet
            needed |= chain
            row = _row(load, loop)
            rows[row.load.buffer.name, row.load.index] = row
    return tuple(s for s in loop.body if any(s is known for known in needed.values())), tuple(rows.values())


def _names(statement: Statement) -> list[str]:
    """What a statement defines: values and integers."""
    defined = statement.variable if isinstance(statement, For | Let | Ask) else getattr(statement, "value", None)
    return [defined.name] if defined is not None else []


def _chain(values: Sequence[Value], own: dict[str, Load | Compute], inner: set[str]) -> dict[str, Statement] | None:
    """The statements of the body that some numbers come from; None if they need anything of an inner block."""
    found: dict[str, Statement] = {}
    stack = list(values)
    while stack:
        value = stack.pop()
        if value.parts or value.name in inner:
            return None
        statement = own.get(value.name)
        if statement is None or value.name in found:
            continue  # made before the loop, or known
        found[value.name] = statement
        if isinstance(statement, Compute):
            stack += statement.arguments
            continue
        if any(v.name in inner for i in statement.index for v in i.variables()):
            return None
        stack += [chosen for _, chosen in statement.picks]
    return found


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

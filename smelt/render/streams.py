"""Memory that a kernel walks through once, asked for a page ahead of where it is read.

Processors see such streams and fetch ahead by themselves, but only to the end of a page: at every page they start anew,
and a loop that computes anything between its loads waits there. Asking costs one instruction a line; asking for what
does not exist does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from smelt.graph.index import Index, upper
from smelt.kernel.ir import For, If, Kernel, Load, Statement, Store
from smelt.kernel.region import Buffer, Place
from smelt.render.tiles import along, combinations, place

PAGE_BYTES = 4096
LINE_BYTES = 64
_LARGE_BYTES = 1 << 20  # smaller buffers stay in the caches
_MOST_LINES = 32  # of one tile


class Stream(NamedTuple):
    """Lines to ask for before a load or store: addresses in elements of the buffer."""

    buffer: Buffer
    addresses: tuple[Index, ...]


def streams(kernel: Kernel) -> dict[int, Stream]:
    """What to ask for, by the identity of the statement that it precedes: the first one for every large argument."""
    found: dict[int, Stream] = {}
    known: set[str] = set()
    for statement, loops in _accesses(kernel.body, ()):
        buffer = statement.buffer
        uncertain = statement.stream if isinstance(statement, Store) else bool(statement.picks)
        if buffer.name in known or uncertain or buffer.place is not Place.ARGUMENT or _bytes(buffer) < _LARGE_BYTES:
            continue
        known.add(buffer.name)
        address = buffer.address(statement.index)
        lines = _lines(statement, address)
        ahead = _ahead(address, loops, len(lines) * LINE_BYTES)
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
                yield from _accesses(statement.body, loops)
                yield from _accesses(statement.other, loops)


def _bytes(buffer: Buffer) -> int:
    count = 1
    for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
        count = max(count, upper(extent) * abs(upper(stride)))
    return count * buffer.dtype.itemsize


def _lines(load: Load | Store, address: Index) -> tuple[Index, ...]:
    """An element of each line that a tile reads; none if its elements do not lie side by side."""
    steps = {part: along(address, part.name) for part in load.value.parts}
    near = next((part for part, move in steps.items() if move is not None and move.step.value == 1), None)
    if near is None or any(part.stride for part in load.value.parts):
        return ()
    others = [part for part in load.value.parts if part != near]
    apart = LINE_BYTES // load.buffer.dtype.itemsize
    lines: dict[tuple[Index, int], Index] = {}
    for at in combinations(others):
        for n in range(0, near.extent, apart):
            line = place(address, {**at, near.name: n})
            lines.setdefault((line - line.constant, line.constant // apart), line)
    return tuple(lines.values()) if len(lines) <= _MOST_LINES else ()


def _ahead(address: Index, loops: Sequence[For], covered: int) -> Index | None:
    """How far ahead to ask: a page, along the innermost loop that walks further than that."""
    for loop in loops:
        move = along(address, loop.variable.name)
        if not covered or move is None or move.step.value == 0:
            return None  # what comes next is not known, or what has been read is read again
        if covered * upper(loop.count) >= 2 * PAGE_BYTES:
            return move.step * max(1, PAGE_BYTES // covered)
        covered *= upper(loop.count)
    return None

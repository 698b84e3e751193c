"""Gathered rows, asked for some iterations before they are read: no processor guesses where the next index points.

A row is worth it where its index is one number per iteration of a loop, computed in the loop's own body from loads and
arithmetic, and its table does not stay in the caches anyway. The numbers of a later iteration are computed once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from smelt.graph.index import as_index, upper
from smelt.kernel.ir import Ask, Compute, For, Let, Load, Statement, Value, statements

DISTANCE = 8  # iterations
_LINE_BYTES = 64
_MOST_LINES = 8  # of one row: the processor goes on by itself
_LARGE_BYTES = 1 << 20  # of a table


class Row(NamedTuple):
    """The first element of a gathered row, and how many elements from there on are fetched, by line."""

    load: Load
    offsets: tuple[int, ...]


class Rows(NamedTuple):
    """What to fetch, and the statements of the loop's body that compute where it lies."""

    chain: tuple[Statement, ...]
    rows: tuple[Row, ...]


def rows_ahead(loop: For) -> Rows:
    """The rows that the body of a loop gathers."""
    gathers = [s for s in statements(loop.body) if isinstance(s, Load) and s.picks and _is_large(s)]
    if not gathers:
        return Rows((), ())
    own = {s.value.name: s for s in loop.body if isinstance(s, Load | Compute)}
    inner = {name for s in statements(loop.body) for name in _names(s)} - own.keys()
    needed: dict[str, Statement] = {}
    rows: dict[tuple[object, ...], Row] = {}
    for load in gathers:
        chain = _chain([value for _, value in load.picks], own, inner)
        if not chain:  # the same row in every iteration, or one that is not known yet
            continue
        needed |= chain
        row = _row(load, loop)
        rows[row.load.buffer.name, row.load.index] = row
    return Rows(tuple(s for s in loop.body if any(s is known for known in needed.values())), tuple(rows.values()))


def _names(statement: Statement) -> list[str]:
    """What a statement defines: values and integers."""
    match statement:
        case For(variable) | Let(variable) | Ask(variable):
            return [variable.name]
    value = getattr(statement, "value", None)
    return [value.name] if value is not None else []


def _is_large(load: Load) -> bool:
    size = load.buffer.dtype.itemsize
    for extent, stride in zip(load.buffer.shape, load.buffer.strides, strict=True):
        size = max(size, upper(extent) * abs(upper(stride)) * load.buffer.dtype.itemsize)
    return size >= _LARGE_BYTES


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
        if isinstance(statement, Load):
            if any(v.name in inner for i in statement.index for v in i.variables()):
                return None
            stack += [chosen for _, chosen in statement.picks]
        else:
            stack += statement.arguments
    return found


def _row(load: Load, loop: For) -> Row:
    picked = {variable for variable, _ in load.picks}
    index = tuple(
        i.substitute({v: as_index(0) for v in i.variables() if v not in picked and v != loop.variable and v.first == 0})
        for i in load.index
    )
    span = load.buffer.address(load.index) - load.buffer.address(index)
    size = load.buffer.dtype.itemsize
    lines = min(_MOST_LINES, span.high * size // _LINE_BYTES + 1)
    first = Load(Value(f"{load.value.name}.ahead", load.value.dtype), load.buffer, index, (), load.picks)
    return Row(first, tuple(k * _LINE_BYTES // size for k in range(lines)))

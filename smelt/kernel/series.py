"""Series: kernels that run one after the other in one launch.

A launch that is too small to wake a thread for costs as much as many numbers do, and while it runs other threads wait.
A series runs small kernels as one: piece by piece, where each of them works on a piece of what those before it have
made and on nothing else of it, so that pieces can be shared out; else as one piece. Values still go through memory, but
that of the nearest cache. A series computes what its parts compute, bit for bit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from smelt.graph import Index, Variable, as_index, of
from smelt.kernel.ir import For, Kernel, Let, Load, Statement, Store, bodies
from smelt.kernel.numbers import positions
from smelt.kernel.region import variables_of
from smelt.kernel.routine import Routine, print_routine
from smelt.kernel.text import print_kernel

MOST_PIECES: Final = 16
_MOST_ELEMENTS: Final = 1 << 20  # of an access that are looked at


@dataclass(frozen=True)
class Series:
    """Kernels in order. Each is given some of the buffers and of the integer parameters of the series, by number, and
    of each piece as large a share of its tasks as of any other.
    """

    parts: tuple[Kernel | Routine, ...]
    buffers: tuple[tuple[int, ...], ...]
    integers: tuple[tuple[int, ...], ...]
    parameters: tuple[Variable, ...]
    pieces: int = 1
    name: str = ""
    threads: int = 1

    @property
    def tasks(self) -> Index:
        return as_index(self.pieces)


def print_series(series: Series) -> str:
    """The text of a series: everything that distinguishes it from another."""
    lines = [f"series of {len(series.parts)} in {series.pieces} pieces"]
    for k, part in enumerate(series.parts):
        lines.append(f"part {k} buffers {[*series.buffers[k]]} integers {[*series.integers[k]]}")
        named = replace(part, name=f"part{k}")
        lines.append(print_routine(named) if isinstance(named, Routine) else print_kernel(named))
    return "\n".join(lines)


def pieces(parts: Sequence[Kernel | Routine], buffers: Sequence[Sequence[int]], nbytes: Mapping[int, int]) -> int:
    """Into how many pieces a series can be cut at most, given the size of each of its buffers.

    What one part writes and another one touches lies piece by piece in memory, and every access of a piece is to the
    piece's own share of it: that is tried for all elements.
    """
    counts = [part.tasks.value for part in parts]
    kernels = [part for part in parts if isinstance(part, Kernel)]
    if None in counts or len(kernels) < len(parts):
        return 1
    most = math.gcd(*(count for count in counts if count is not None))
    found = [number for number in range(min(most, MOST_PIECES), 1, -1) if most % number == 0]
    touched: list[list[tuple[int, _Access]]] = []
    for part, own in zip(kernels, buffers, strict=True):
        numbers = {buffer.name: number for buffer, number in zip(part.buffers, own, strict=True)}
        accesses = ((numbers.get(access.of.buffer.name), access) for access in _accesses(part))
        touched.append([(number, access) for number, access in accesses if number is not None])
    used = Counter(number for own in touched for number in {number for number, _ in own})
    written = {number for own in touched for number, access in own if isinstance(access.of, Store)}
    for part, accesses_of in zip(kernels, touched, strict=True):
        for number, access in accesses_of:
            if found and number in written and used[number] > 1:
                found = _apart(access, found, as_index(part.tasks).high, nbytes[number])
    return found[0] if found else 1


class _Access(NamedTuple):
    """An access, the number of the task that makes it, and what integers that are named on the way stand for."""

    of: Load | Store
    task: Index
    named: dict[Variable, Index]


def _accesses(kernel: Kernel) -> Iterator[_Access]:
    """All accesses of a kernel. What stands outside of its grid is done by any task."""
    before = as_index(0)
    anyone = of(Variable("task", 0, kernel.tasks - 1))
    for statement in kernel.body:
        if isinstance(statement, For) and statement.kind == "grid":
            yield from _inside(statement.body, before + of(statement.variable), {})
            before = before + statement.count
        else:
            yield from _inside([statement], anyone, {})


def _inside(body: Iterable[Statement], task: Index, named: dict[Variable, Index]) -> Iterator[_Access]:
    named = dict(named)
    for statement in body:
        if isinstance(statement, Let):
            named[statement.variable] = statement.expression.substitute(named)
        elif isinstance(statement, Load | Store):
            yield _Access(statement, task, named)
        for inner in bodies(statement):
            yield from _inside(inner, task, named)


def _apart(access: _Access, numbers: list[int], tasks: int, nbytes: int) -> list[int]:
    """Those numbers of pieces by which every element that is accessed lies in the share of its task's piece."""
    (buffer, index, conditions), task, named = (access.of.buffer, access.of.index, access.of.mask), *access[1:]
    address = buffer.address(index).substitute(named) * buffer.dtype.itemsize
    mask = tuple(condition.substitute(named) for condition in conditions)
    variables = sorted(variables_of([address, task], mask), key=lambda v: v.name)
    sizes = tuple(v.high - v.low + 1 for v in variables)
    if math.prod(sizes) > _MOST_ELEMENTS or len({v.name for v in variables}) < len(variables):
        return []
    values = {v.name: v.low + at for v, at in zip(variables, positions(sizes), strict=True)}
    inside: Any = True
    for a, b in mask:
        inside = inside & (np.asarray(a.evaluate(values)) < np.asarray(b.evaluate(values)))
    where, by, inside = np.broadcast_arrays(address.evaluate(values), task.evaluate(values), inside)
    where, by = where[inside], by[inside]
    return [n for n in numbers if np.array_equal(where * n // nbytes, by * n // tasks)]

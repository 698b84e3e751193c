"""Loops that count: `while i < n` with `i += 1` as a loop of known length that reads and writes slices.

JAX prints every `scan` and `fori_loop` as such a `while`. Only a loop of known length can be differentiated in reverse,
and slices that a loop knows of are read and written in place. What is looked for is built by the functions that read
the text, and compared by identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from smelt import runtime
from smelt.dtypes import DType, int32, int64
from smelt.formats.stablehlo import indexing
from smelt.formats.stablehlo.rows import stand_in
from smelt.graph import (
    IndexLike,
    Loop,
    Node,
    Op,
    build,
    closed,
    constant_value,
    index,
    least,
    size_of,
    substituted,
    topological,
    upper,
    users,
    values_of,
)

_MOST = 1 << 62  # iterations


class _While(NamedTuple):
    """A loop: its first states, what stands for them in its body, and what the body gives."""

    states: list[Node]
    stand_ins: list[Node]
    following: list[Node]


class _Count(NamedTuple):
    """The state that counts iterations, its first value, and how many there are."""

    number: int
    first: int
    length: IndexLike


def counted(
    states: Sequence[Node], stand_ins: Sequence[Node], asked: Node, following: Sequence[Node]
) -> list[Node] | None:
    """The values of a loop, if it counts."""
    loop = _While(list(states), list(stand_ins), list(following))
    count = _count(loop, asked)
    if count is None:
        return None
    return _built(loop, count, _rows(loop, count))


def never_runs(states: Sequence[Node], stand_ins: Sequence[Node], asked: Node) -> bool:
    """Whether it is known that the first test of a loop, `a < b` of two numbers, fails."""
    compared = _compared(states, stand_ins, asked)
    return compared is not None and isinstance(compared[1], int) and compared[0] >= compared[1]


def filled(states: Sequence[Node], stand_ins: Sequence[Node], asked: Node) -> list[IndexLike]:
    """The size up to which a loop counts from 0: it is not 0 where the body runs."""
    compared = _compared(states, stand_ins, asked)
    return [] if compared is None or compared[0] != 0 else [compared[1]]


def _compared(states: Sequence[Node], stand_ins: Sequence[Node], asked: Node) -> tuple[int, IndexLike] | None:
    """The number and the size whose order is the first test of a loop, `a < b`."""
    if asked.op is not Op.BINARY or asked.attribute != "lt":
        return None
    first = dict(zip(stand_ins, states, strict=True))
    a, b = (_size(first.get(side, side)) for side in asked.sources)
    return None if not isinstance(a, int) or b is None else (a, b)


def _step(loop: _While, k: int) -> int | None:
    """By how much a state grows in every iteration, if it is an integer that begins with a known number."""
    old, new = loop.stand_ins[k], loop.following[k]
    if old.shape or not old.dtype.is_integer or loop.states[k].op is not Op.CONST:
        return None
    if new.op is not Op.BINARY or new.attribute != "add" or old not in new.sources:
        return None
    step = new.sources[1] if new.sources[0] is old else new.sources[0]
    return int(constant_value(step)) if step.op is Op.CONST else None


def _count(loop: _While, asked: Node) -> _Count | None:
    for k, stand_in_ in enumerate(loop.stand_ins):
        if (
            _step(loop, k) != 1
            or asked.op is not Op.BINARY
            or asked.attribute != "lt"
            or asked.sources[0] is not stand_in_
        ):
            continue
        bound = asked.sources[1]
        if bound in loop.stand_ins:  # a bound that is handed on from iteration to iteration
            at = loop.stand_ins.index(bound)
            bound = loop.states[at] if loop.following[at] is bound else bound
        last, first = _size(bound), int(constant_value(loop.states[k]))
        if last is not None:
            length = size_of(index.maximum(last - first, 0))
            return _Count(k, first, length) if upper(length) < _MOST else None
    return None


def _size(node: Node) -> IndexLike | None:
    """The number that a node is for all values of tensors."""
    if node.op is Op.CONST:
        return int(constant_value(node))
    if node.op is not Op.CAST or not node.dtype.is_integer:
        return runtime.counted(node)
    size = runtime.counted(node.sources[0])
    if size is None or least(size) < node.dtype.minimum:
        return None  # it wraps around
    # StableHLO itself has sizes in int32, however large smelt believes that they may be.
    return size if node.dtype.bits >= int32.bits or upper(size) <= node.dtype.maximum else None


class _Rows(NamedTuple):
    """States whose rows are read in turn, by the node that reads one; and those that are written in turn, with what is
    written.
    """

    reverse: bool
    read: dict[int, Node]
    written: dict[int, Node]

    @property
    def found(self) -> int:
        """How many there are."""
        return len(self.read) + len(self.written)


def _rows(loop: _While, count: _Count) -> _Rows:
    """The rows of a loop, in the order in which there are more of them."""
    places = [k for k, old in enumerate(loop.stand_ins) if old.rank and old.shape[0] == count.length]
    if not places or count.first != 0 or count.length == 0:
        return _Rows(False, {}, {})
    readers = users(topological(loop.following))
    i = loop.stand_ins[count.number]
    last = build.sub(build.sub(build.size_node(count.length, i.dtype), i), build.const(1, i.dtype))
    ahead, back = (_Rows(at is last, *_found_rows(loop, places, readers, at)) for at in (i, last))
    return back if back.found > ahead.found else ahead


def _found_rows(
    loop: _While, places: Sequence[int], readers: dict[Node, list[Node]], at: Node
) -> tuple[dict[int, Node], dict[int, Node]]:
    """Of the states at these places, those whose row number `at` is all that is read, and all that is written."""
    read: dict[int, Node] = {}
    written: dict[int, Node] = {}
    for k in places:
        old, new = loop.stand_ins[k], loop.following[k]
        reading = readers.get(old, [])
        if new is old:
            row = _row(old, at)
            if row is not None and _is_all(row, old, readers):
                read[k] = row
        elif new.op is Op.SCATTER and reading == [new] and not readers.get(new) and loop.following.count(new) == 1:
            update = new.sources[1]
            if update is not old and new is _with_row(old, update, at):
                written[k] = update
    return read, written


def _is_all(row: Node, x: Node, readers: dict[Node, list[Node]]) -> bool:
    """Whether a row is all that is read of x, or of x with a row more."""
    whole = row.sources[0]
    return set(readers.get(whole, [])) == {row} and (whole is x or set(readers.get(x, [])) == {whole})


def _row(x: Node, at: Node) -> Node | None:
    """Row number `at`, as an array of one row."""
    if x.shape[0] == 1 or 0 in x.shape or not all(isinstance(size, int) for size in x.shape[1:]):
        return None
    return indexing.dynamic_slice(x, [at] * x.rank, [1, *(upper(size) for size in x.shape[1:])], x.shape[:1])


def _with_row(x: Node, update: Node, at: Node) -> Node | None:
    """x with row number `at` replaced."""
    if x.shape[0] == 1 or update.shape != (1, *x.shape[1:]) or 0 in x.shape:
        return None
    return indexing.dynamic_update_slice(x, update, [at] * x.rank)


def _built(loop: _While, count: _Count, rows: _Rows) -> list[Node]:
    """The loop, with what counts along computed from the number of the iteration."""
    iteration = stand_in(int64, ())
    new: dict[Node, Node] = {}
    results: dict[int, Node] = {}
    slices: list[Node] = []
    carried: list[int] = []
    for k, (old, state) in enumerate(zip(loop.stand_ins, loop.states, strict=True)):
        step = _step(loop, k)
        if step is not None:
            number = build.add(build.scale(build.cast(iteration, old.dtype), step), state)
            new[old] = (
                _bounded(build.cast(iteration, old.dtype), count, old) if (step, k) == (1, count.number) else number
            )
            results[k] = _last(int(constant_value(state)), step, count.length, old.dtype)
        elif k in rows.read:
            slices.append(stand_in(old.dtype, old.shape[1:]))
            new[rows.read[k]] = build.reshape(slices[-1], (1, *old.shape[1:]))
            results[k] = state
        elif loop.following[k] is old:
            new[old] = state
            results[k] = state
        elif k not in rows.written:
            carried.append(k)
    inner = [loop.stand_ins[k] for k in carried]
    written = list(rows.written)
    updates = [build.reshape(rows.written[k], loop.stand_ins[k].shape[1:]) for k in written]
    roots = substituted([*(loop.following[k] for k in carried), *updates], new)
    if roots:
        done = closed.close([roots], [*inner, *slices, iteration], at=len(inner))
        attribute = Loop(done.bodies[0], None, len(carried), len(done.hoisted), len(slices), count.length, rows.reverse)
        xs = [loop.states[k] for k in rows.read]
        given = values_of(attribute, [*(loop.states[k] for k in carried), *done.hoisted, *xs])
    else:
        given = []
    values = dict(zip((*carried, *written), given, strict=True))
    results.update(values)
    return [results[k] for k in range(len(loop.states))]


def _last(first: int, step: int, length: IndexLike, dtype: DType) -> Node:
    """What counts along, in the end."""
    if isinstance(length, int):
        return build.const((first + step * length) & ((1 << dtype.bits) - 1), dtype)
    return build.add(build.scale(build.size_node(length, dtype), step), build.const(first, dtype))


def _bounded(turn: Node, count: _Count, old: Node) -> Node:
    """The counter, showing between which numbers it lies: indexing by it is known to stay inside then."""
    if upper(count.length) - 1 > old.dtype.maximum:  # it begins below 0, and how far it is from there does not fit
        return build.add(turn, build.const(count.first, old.dtype))
    low, high = (build.size_node(n, old.dtype) for n in (0, size_of(index.maximum(count.length - 1, 0))))
    inside = build.minimum(build.maximum(turn, low), high)
    return inside if count.first == 0 else build.add(inside, build.const(count.first, old.dtype))

"""Which updates of a kernel are matrix instructions (AMX).

An inner product of words is one where the accumulator has tiles of 16 rows and 16 lanes, and both factors are plain
loads: 16 words of each row, and 16 rows of words that lie in lanes. Then the accumulator lives in tile registers, if
nothing else changes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from smelt.dtypes import DType, bfloat16, int8, uint8
from smelt.graph.index import Index
from smelt.kernel.ir import (
    DOTS,
    Accumulator,
    Compute,
    For,
    If,
    Kernel,
    Load,
    Part,
    Reduce,
    Scan,
    Statement,
    Store,
    Update,
    Value,
    statements,
)
from smelt.kernel.region import Buffer
from smelt.render.tiles import Coordinates, along_lane

SIDE = 16  # rows of a tile, words of a row
_MOST = 2  # tiles of rows, and of columns: with their factors they take all eight registers


class _Instruction(NamedTuple):
    name: str
    feature: str


# By what the rows and the columns hold.
_INSTRUCTIONS: dict[tuple[DType, DType], _Instruction] = {
    (bfloat16, bfloat16): _Instruction("tdpbf16ps", "amx_bf16"),
    (int8, int8): _Instruction("tdpbssd", "amx_int8"),
    (int8, uint8): _Instruction("tdpbsud", "amx_int8"),
    (uint8, int8): _Instruction("tdpbusd", "amx_int8"),
    (uint8, uint8): _Instruction("tdpbuud", "amx_int8"),
}


class Block(NamedTuple):
    """Memory that tiles are loaded from or stored to: an address, and the distance of rows, both in words."""

    buffer: Buffer
    address: Index
    stride: Index


class Product(NamedTuple):
    instruction: str
    a: Block
    b: Block
    inner: Part  # that is summed


class Tiles(NamedTuple):
    """An accumulator in tile registers."""

    value: Value
    rows: Part
    columns: Part | None  # registers side by side

    def each(self) -> Iterator[tuple[int, int]]:
        """The tiles, by rows and columns."""
        width = 1 if self.columns is None else self.columns.extent
        return ((i, j) for i in range(self.rows.extent // SIDE) for j in range(width))

    def number(self, i: int, j: int) -> int:
        return i * (1 if self.columns is None else self.columns.extent) + j

    def at(self, i: int, j: int) -> Coordinates:
        """The first element of a tile."""
        found = {self.rows.name: SIDE * i, self.value.parts[-1].name: 0}
        return found if self.columns is None else {**found, self.columns.name: j}


class _Span(NamedTuple):
    """The statements of an accumulator's own body from its declaration to the last that mentions it."""

    body: Sequence[Statement]
    first: int
    last: int


class Plan:
    """What is done by matrix instructions in one kernel. Statements are known by their identity."""

    def __init__(self, kernel: Kernel, features: frozenset[str]) -> None:
        self.features = features
        self.tiles: dict[str, Tiles] = {}
        self.products: dict[int, Product] = {}
        self.moves: dict[int, Block] = {}  # updates that load an accumulator, stores of one
        self.spills: dict[int, list[Tiles]] = {}  # what is needed as vectors from a statement on
        self.skipped: set[int] = set()  # loads that became part of instructions
        self._loads: dict[str, Load] = {}
        everything = list(statements(kernel.body))
        if "amx_tile" not in features or not any(isinstance(s, Update) and s.op in DOTS for s in everything):
            return
        self._loads = {s.value.name: s for s in everything if isinstance(s, Load) and not s.mask and not s.picks}
        taken: list[tuple[int, int]] = []
        places = {id(s): at for at, s in enumerate(everything)}
        for span in _spans(kernel.body):
            inside = list(statements(span.body[span.first : span.last + 1]))
            reach = places[id(inside[0])], places[id(inside[-1])]
            if all(reach[1] < first or last < reach[0] for first, last in taken) and self._take(span):
                taken.append(reach)
        self._skip_loads(everything)

    def _take(self, span: _Span) -> bool:
        """Plan one accumulator, if all that changes it can be done by matrix instructions before anything reads it."""
        declared = span.body[span.first]
        assert isinstance(declared, Accumulator)
        tiles = _tiles(declared)
        if tiles is None:
            return False
        rest = span.body[span.first + 1 : span.last + 1]
        changed = [at for at, s in enumerate(rest) if any(_changes(u, declared.value) for u in statements([s]))]
        readers = [at for at, s in enumerate(rest) if any(_reads(u, declared.value) for u in statements([s]))]
        if not changed or (readers and readers[0] <= changed[-1]):
            return False
        products: dict[int, Product] = {}
        moves: dict[int, Block] = {}
        for body in _bodies(rest):
            for at, statement in enumerate(body):
                if not isinstance(statement, Update) or statement.accumulator != declared.value:
                    continue
                if not all(self._is_near(body, at, argument) for argument in statement.arguments):
                    return False
                if statement.op == "set":
                    block = self._restored(tiles, statement)
                    if block is None:
                        return False
                    moves[id(statement)] = block
                else:
                    product = self._product(tiles, statement)
                    if product is None:
                        return False
                    products[id(statement)] = product
        if not products:
            return False
        self.tiles[declared.value.name] = tiles
        self.products |= products
        self.moves |= moves
        self._plan_reads(tiles, rest)
        return True

    def _is_near(self, body: Sequence[Statement], at: int, argument: Value) -> bool:
        """True if a value is loaded in the same body, and nothing can have changed the memory since."""
        load = self._loads.get(argument.name)
        before = next((j for j in range(at - 1, -1, -1) if body[j] is load), None)
        return before is not None and not any(isinstance(s, Store | For | If) for s in body[before:at])

    def _restored(self, tiles: Tiles, update: Update) -> Block | None:
        """The memory of an earlier part of the sum."""
        load = self._loads[update.arguments[0].name]
        return _accumulated(tiles, load.buffer, load.index) if load.value.parts == tiles.value.parts else None

    def _product(self, tiles: Tiles, update: Update) -> Product | None:
        if update.op not in DOTS:
            return None
        kinds = dict(zip(update.arguments, DOTS[update.op][:2], strict=True))
        lane = tiles.value.parts[-1]
        a, b = sorted(update.arguments, key=lambda argument: lane in argument.parts)
        instruction = _INSTRUCTIONS[kinds[a], kinds[b]]
        inner = next((part for part in a.parts if part not in tiles.value.parts), None)
        columns = [] if tiles.columns is None else [tiles.columns]
        if instruction.feature not in self.features or inner is None or inner.extent != SIDE or len(kinds) != 2:
            return None
        if set(a.parts) != {tiles.rows, inner} or set(b.parts) != {inner, lane, *columns}:
            return None
        left, right = self._loads[a.name], self._loads[b.name]
        rows = _block(left.buffer, left.index, tiles.rows, inner)
        words = _block(right.buffer, right.index, inner, lane)
        return None if rows is None or words is None else Product(instruction.name, rows, words, inner)

    def _plan_reads(self, tiles: Tiles, body: Sequence[Statement]) -> None:
        """Stores of whole tiles are instructions; what else reads the accumulator in a body waits for its vectors."""
        for statement in body:
            if isinstance(statement, For | If):
                for inner in _own_bodies(statement):
                    self._plan_reads(tiles, inner)
            elif _reads(statement, tiles.value):
                block = None
                if isinstance(statement, Store) and not statement.mask and not statement.stream:
                    block = _accumulated(tiles, statement.buffer, statement.index)
                if block is None:
                    self.spills.setdefault(id(statement), []).append(tiles)
                    return
                self.moves[id(statement)] = block

    def _skip_loads(self, everything: Sequence[Statement]) -> None:
        """Loads that nothing but instructions needs."""
        planned = [s for s in everything if isinstance(s, Update) and (id(s) in self.products or id(s) in self.moves)]
        chosen = {id(update) for update in planned}
        others = {value.name for s in everything if id(s) not in chosen for value in _arguments(s)}
        for update in planned:
            self.skipped |= {id(self._loads[v.name]) for v in update.arguments if v.name not in others}


# --- shapes


def _tiles(declared: Accumulator) -> Tiles | None:
    """How an accumulator is cut into tiles."""
    value = declared.value
    registers = [part for part in value.parts if not part.is_lane]
    if declared.initial != 0 or not value.parts or not value.parts[-1].is_lane or value.parts[-1].extent != SIDE:
        return None
    columns = [part for part in registers if part.axis == value.parts[-1].axis and part.kind == "reg"]
    rows = [part for part in registers if part not in columns]
    if len(rows) != 1 or rows[0].extent % SIDE or rows[0].extent > _MOST * SIDE:
        return None
    if columns and columns[0].extent > _MOST:
        return None
    return Tiles(value, rows[0], columns[0] if columns else None)


def _block(buffer: Buffer, index: tuple[Index, ...], rows: Part, words: Part) -> Block | None:
    """Rows of neighboring words in memory."""
    if buffer.dtype.itemsize != 4:
        return None
    address = buffer.address(index)
    across = along_lane(address, words)
    down = None if across is None else along_lane(across.base, rows)
    if across is None or down is None or across.step.value != 1:
        return None
    return Block(buffer, address, down.step)


def _accumulated(tiles: Tiles, buffer: Buffer, index: tuple[Index, ...]) -> Block | None:
    """Memory of the accumulator's own type that tiles move to or from as they are."""
    if buffer.dtype is not tiles.value.dtype:
        return None
    return _block(buffer, index, tiles.rows, tiles.value.parts[-1])


# --- walks


def _own_bodies(statement: For | If) -> list[list[Statement]]:
    return [statement.body, statement.other] if isinstance(statement, If) else [statement.body]


def _bodies(body: Sequence[Statement]) -> Iterator[Sequence[Statement]]:
    """A body and all those inside it."""
    yield body
    for statement in body:
        if isinstance(statement, For | If):
            for inner in _own_bodies(statement):
                yield from _bodies(inner)


def _spans(body: Sequence[Statement]) -> Iterator[_Span]:
    """Every accumulator."""
    for own in _bodies(body):
        for at, statement in enumerate(own):
            if isinstance(statement, Accumulator):
                value = statement.value
                mentions = [
                    j
                    for j in range(at + 1, len(own))
                    if any(_changes(s, value) or _reads(s, value) for s in statements([own[j]]))
                ]
                yield _Span(own, at, max(mentions, default=at))


def _changes(statement: Statement, value: Value) -> bool:
    return isinstance(statement, Update) and statement.accumulator == value


def _reads(statement: Statement, value: Value) -> bool:
    return value in _arguments(statement)


def _arguments(statement: Statement) -> tuple[Value, ...]:
    """The values that a statement reads."""
    match statement:
        case Compute() | Update():
            return statement.arguments
        case Store():
            return (statement.value,)
        case Reduce():
            return (statement.source,)
        case Scan():
            return (statement.source, statement.carry)
        case Load():
            return tuple(value for _, value in statement.picks)
    return ()

"""Instructions that multiply and add many numbers at once (matrix and dot product instructions), as rows of a table.

The action `matrix` says by which row a reduction is made; the renderer spells it. A row multiplies words: int32 that
hold neighboring numbers along the sum. Either the factors are vectors in registers, or tiles that the instruction takes
from memory, as rows of words that lie side by side; then the sums live in tile registers. Where a row does not apply,
the schedule is refused with a reason, so that nothing is slower than it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from smelt.dtypes import DType, bfloat16, float32, int8, int16, int32, uint8
from smelt.errors import InternalError
from smelt.graph import Index, of
from smelt.kernel.ir import DOTS, Accumulator, Load, Part, Statement, Store, Update, Value, bodies, reads, statements
from smelt.kernel.lowering.plan import Illegal, refuse
from smelt.kernel.region import Buffer


class Instruction(NamedTuple):
    """sums[rows, lanes] += the products of `depth` words of each row with `depth` rows of words."""

    name: str
    needs: frozenset[str]  # features of a processor
    left: DType  # what the rows hold
    right: DType  # what the columns hold
    lanes: frozenset[int]  # columns: what a vector may have
    rows: int = 1
    depth: int = 1
    tiles: int = 1  # of rows, and of columns, whose sums fit the tile registers together with their factors

    @property
    def is_float(self) -> bool:
        return self.left.is_float

    @property
    def numbers(self) -> int:
        """Numbers of a word."""
        return 4 // self.left.itemsize

    @property
    def op(self) -> str:
        """The update that it does, and in which order the factors come does not matter."""
        kinds = {self.left, self.right}
        return next((op for op, dot in DOTS.items() if {dot.first, dot.second} == kinds), "fma")

    @property
    def takes_tiles(self) -> bool:
        return self.rows > 1


_TILES: Final = (frozenset({16}), 16, 16, 2)
_INT8: Final = frozenset({"amx_tile", "amx_int8"})

# The best first.
INSTRUCTIONS: Final = (
    Instruction("tdpbf16ps", frozenset({"amx_tile", "amx_bf16"}), bfloat16, bfloat16, *_TILES),
    Instruction("tdpbssd", _INT8, int8, int8, *_TILES),
    Instruction("tdpbsud", _INT8, int8, uint8, *_TILES),
    Instruction("tdpbusd", _INT8, uint8, int8, *_TILES),
    Instruction("tdpbuud", _INT8, uint8, uint8, *_TILES),
    Instruction("vdpbf16ps", frozenset({"avx512_bf16"}), bfloat16, bfloat16, frozenset({4, 8, 16})),
    Instruction("vpdpbusd", frozenset({"avx512_vnni"}), uint8, int8, frozenset({4, 8, 16})),
    Instruction("vpdpbusd_vex", frozenset({"avx_vnni"}), uint8, int8, frozenset({4, 8})),
    Instruction("vpmaddwd_512", frozenset({"avx512bw"}), int16, int16, frozenset({4, 8, 16})),
    Instruction("vpmaddwd", frozenset({"avx2"}), int16, int16, frozenset({4, 8})),
    Instruction("fma", frozenset(), float32, float32, frozenset({1, 2, 4, 8, 16})),
)
BY_NAME: Final = {row.name: row for row in INSTRUCTIONS}


def rows_of(features: frozenset[str], vector_bytes: int, result: DType) -> Iterator[Instruction]:
    """What a processor has for sums of words of this type, the best first."""
    for row in INSTRUCTIONS:
        known = row.needs <= features and any(4 * lanes <= vector_bytes for lanes in row.lanes)
        narrow = (float32 if row.is_float else int32) is result and row.numbers > 1
        if known and narrow and (not row.takes_tiles or 4 * max(row.lanes) == vector_bytes):
            yield row


# --- tiles in memory and in registers


class Block(NamedTuple):
    """Memory that tiles are loaded from or stored to: an address, and the distance of rows, both in words."""

    buffer: Buffer
    address: Index
    stride: Index


class Product(NamedTuple):
    """The factors of an instruction, and the part that it sums."""

    left: Block
    right: Block
    inner: Part


class Tiles(NamedTuple):
    """Sums in tile registers."""

    value: Value
    row: Instruction
    rows: Part
    columns: Part | None  # registers side by side

    @property
    def width(self) -> int:
        return 1 if self.columns is None else self.columns.extent

    def each(self) -> Iterator[tuple[int, int]]:
        """The tiles, by rows and columns."""
        return ((i, j) for i in range(self.rows.extent // self.row.rows) for j in range(self.width))

    def number(self, i: int, j: int) -> int:
        return i * self.width + j

    def at(self, i: int, j: int) -> dict[str, int]:
        """The first element of a tile."""
        found = {self.rows.name: self.row.rows * i, self.value.parts[-1].name: 0}
        return found if self.columns is None else {**found, self.columns.name: j}

    def moved(self, access: Load | Store) -> Block | None:
        """Memory of the sums' own type that tiles move to or from as they are."""
        own = access.buffer.dtype is self.value.dtype
        return _block(access, self.rows, self.value.parts[-1]) if own else None

    def product(self, update: Update, loads: Sequence[Load]) -> Product:
        """Where an update takes its factors from. Raises `Illegal` where the instruction cannot."""
        lane = self.value.parts[-1]
        left, right = sorted(loads, key=lambda load: lane in load.value.parts)
        kinds = dict(zip((value.name for value in update.arguments), DOTS[update.op], strict=False))
        own = (kinds[left.value.name], kinds[right.value.name]) == (self.row.left, self.row.right)
        refuse(not own, f"matrix: {self.row.name} multiplies other numbers")
        inner = next((part for part in left.value.parts if part not in self.value.parts), None)
        if inner is None or inner.extent != self.row.depth:
            raise Illegal(f"matrix: {self.row.name} sums {self.row.depth} words at a time")
        columns = [] if self.columns is None else [self.columns]
        shaped = set(left.value.parts) == {self.rows, inner} and set(right.value.parts) == {inner, lane, *columns}
        rows, words = _block(left, self.rows, inner), _block(right, inner, lane)
        if not shaped or rows is None or words is None:
            raise Illegal("matrix: the words of a factor do not lie side by side in rows")
        return Product(rows, words, inner)


def tiled(value: Value, row: Instruction) -> Tiles:
    """How sums are cut into tiles. Raises `Illegal` where they do not fit."""
    lane = value.parts[-1] if value.parts else None
    if lane is None or not lane.is_lane or lane.extent not in row.lanes:
        raise Illegal(f"matrix: a tile of {row.name} has {max(row.lanes)} lanes")
    columns = [part for part in value.parts[:-1] if part.axis == lane.axis and part.kind == "reg"]
    rows = [part for part in value.parts[:-1] if part not in columns]
    refuse(len(rows) != 1 or rows[0].extent % row.rows, f"matrix: a tile of {row.name} has {row.rows} rows")
    large = rows[0].extent > row.tiles * row.rows or any(part.extent > row.tiles for part in columns)
    refuse(large, f"matrix: there are registers for {row.tiles} by {row.tiles} tiles")
    return Tiles(value, row, rows[0], columns[0] if columns else None)


def _block(access: Load | Store, rows: Part, words: Part) -> Block | None:
    """Rows of neighboring words in memory."""
    buffer = access.buffer
    address = buffer.address(access.index)
    across, down = (address.coefficient(part.variable) for part in (words, rows))
    base = address - of(words.variable) * across - of(rows.variable) * down
    own = {words.variable, rows.variable}
    if buffer.dtype.itemsize != 4 or across.value != 1 or own & (base.variables() | down.variables()):
        return None
    return Block(buffer, address, down)


# --- legality


def check_instructions(whole: Sequence[Statement]) -> None:
    """Refuse a kernel whose sums in tiles are not what their instruction can do."""
    everything = list(statements(whole))
    tiles = tiles_of(everything)
    if not tiles:
        return
    for body in (whole, *(inner for s in everything for inner in bodies(s))):
        _check_factors(body, tiles)
        for at, statement in enumerate(body):
            if isinstance(statement, Accumulator) and statement.value.name in tiles:
                _check_sums(statement, body[at + 1 :])
    factors = {id(s) for s in everything if isinstance(s, Update) and s.accumulator.name in tiles}
    taken = {value.name for s in everything if id(s) in factors for value in reads(s)}
    again = any(value.name in taken for s in everything if id(s) not in factors for value in reads(s))
    refuse(again, "matrix: a factor is needed as vectors, too")


def tiles_of(everything: Iterable[Statement]) -> dict[str, Tiles]:
    """The sums that live in tile registers, by name."""
    named = [(s.accumulator, BY_NAME[s.instruction]) for s in everything if isinstance(s, Update) and s.instruction]
    return {value.name: tiled(value, row) for value, row in named if row.takes_tiles}


def _check_factors(body: Sequence[Statement], tiles: dict[str, Tiles]) -> None:
    """Tiles are made of what was just loaded: nothing can have changed the memory since."""
    fresh: dict[str, Load] = {}
    for s in body:
        if isinstance(s, Store) or bodies(s):
            fresh.clear()
        elif isinstance(s, Load) and not s.mask and not s.picks:
            fresh[s.value.name] = s
        elif isinstance(s, Update) and s.accumulator.name in tiles:
            loads = [fresh[value.name] for value in s.arguments if value.name in fresh]
            own = tiles[s.accumulator.name]
            fits = len(loads) == len(s.arguments) == len({value.name for value in s.arguments})
            refuse(not fits, "matrix: a factor is not read from memory where it is multiplied")
            if s.instruction:
                own.product(s, loads)
            elif s.op != "set" or loads[0].value.parts != own.value.parts or own.moved(loads[0]) is None:
                raise InternalError(f"{s.accumulator.name} is changed by something else than its instruction")


def _check_sums(declared: Accumulator, rest: Sequence[Statement]) -> None:
    """Sums begin with zero, and nothing reads them before they are done."""
    value = declared.value
    inside = [(at, s) for at, outer in enumerate(rest) for s in statements([outer])]
    changed = [at for at, s in inside if isinstance(s, Update) and s.accumulator == value]
    readers = [at for at, s in inside if value in reads(s)]
    if declared.initial != 0 or (readers and changed and readers[0] <= changed[-1]):
        raise InternalError(f"something needs {value.name} before its instruction is done")

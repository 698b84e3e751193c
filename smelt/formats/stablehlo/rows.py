"""What a row of the tables is: how one operation is read, and what of it is looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from smelt.dtypes import DType
from smelt.errors import ParseError, ShapeError
from smelt.formats import mlir
from smelt.formats.mlir import Array, Coded, Dense, Operation, Symbol, Typed
from smelt.formats.stablehlo import types
from smelt.graph import Node, Shape, pairs, row_major
from smelt.runtime import Placeholder

if TYPE_CHECKING:
    from smelt.formats.stablehlo.reader import Reading

# A tuple's value is a tuple of values; that of a token is None.
Value = Any
Scope = dict[str, Value]


class Call:
    """One operation under way: its operands, and questions about its attributes."""

    __slots__ = ("operands", "operation", "reading", "scope")

    def __init__(self, reading: Reading, operation: Operation, operands: list[Value], scope: Scope) -> None:
        self.reading, self.operation, self.operands, self.scope = reading, operation, operands, scope

    def refuse(self, reason: str, hint: str = "") -> NoReturn:
        """Say that this is a legal operation which cannot be read."""
        raise self.reading.unsupported(self.operation, reason, hint)

    def wrong(self, message: str) -> NoReturn:
        """Say that this is no legal operation."""
        raise ParseError(f"{self.reading.place(self.operation)}: {self.operation.name}: {message}")

    def misfit(self, message: str) -> NoReturn:
        """Say that shapes do not fit each other."""
        raise ShapeError(f"{self.reading.place(self.operation)}: {self.operation.name}: {message}")

    # --- types

    def type(self, k: int = 0) -> tuple[DType, Shape]:
        """The dtype and the shape that the text declares for a result."""
        if k >= len(self.operation.types):
            self.wrong(f"it has {k + 1} results or more")
        return self.reading.type(self.operation, self.operation.types[k])

    @property
    def dtype(self) -> DType:
        if not self.operation.types:
            self.wrong("it has no result")
        return self.reading.dtype(self.operation, self.operation.types[0])

    @property
    def is_known(self) -> bool:
        """Whether the text declares all sizes of the result."""
        return None not in getattr(self.operation.types[0], "sizes", (None,))

    @property
    def shape(self) -> Shape:
        return self.type()[1]

    # --- attributes

    def attribute(self, name: str) -> Any:
        """An attribute as it stands; None if there is none."""
        return self.operation.attributes.get(name)

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """A row of integers: `array<i64: …>`, `dense<…>` or a list. A splat is as long as the default."""
        value = self.attribute(name)
        if value is None:
            if default is None:
                self.wrong(f"it has no {name}")
            return tuple(default)
        found = integers_of(value, len(default) if default is not None else 0)
        if found is None:
            self.wrong(f"{name} is no row of integers")
        if default is not None and len(found) != len(default):
            self.wrong(f"{name} has {len(found)} entries, and {len(default)} are expected")
        return found

    def axes(self, name: str, rank: int, count: int | None = None) -> tuple[int, ...]:
        """Different axes of so many; `count` of them, where that is known."""
        found = self.integers(name)
        there = len(set(found)) == len(found) and all(0 <= axis < rank for axis in found)
        if not there or count not in (None, len(found)):
            self.wrong(
                f"{name} {list(found)} are not {'' if count is None else f'{count} '}different ones of {rank} axes"
            )
        return found

    def pairs(self, name: str, rank: int) -> list[tuple[int, int]]:
        """Pairs of integers, one for each axis; zeros if there are none."""
        value = self.attribute(name)
        flat = (0,) * (2 * rank) if value is None else integers_of(value, 2 * rank)
        shaped = not isinstance(value, Dense) or value.type.sizes == (rank, 2)
        if flat is None or len(flat) != 2 * rank or not shaped:
            self.wrong(f"{name} has no pair for each of {rank} axes")
        return list(zip(flat[::2], flat[1::2], strict=True))

    def integer(self, name: str, default: int | None = None) -> int:
        """One integer."""
        value = self.attribute(name)
        value = value.value if isinstance(value, Typed) else value
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool):
            self.wrong(f"it has no integer {name}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """A bool."""
        value = self.attribute(name)
        return default if value is None else value is True

    def word(self, name: str, default: str = "") -> str:
        """One of an enumeration: the last word of `#stablehlo<kind WORD>`."""
        value = self.attribute(name)
        if isinstance(value, Coded) and value.words:
            return value.words[-1]
        return value if isinstance(value, str) else default

    def symbol(self, name: str) -> str:
        """The name of a function."""
        value = self.attribute(name)
        if not isinstance(value, Symbol | str):
            self.wrong(f"it has no {name}")
        return value.name if isinstance(value, Symbol) else value

    def coded(self, name: str) -> Coded:
        """Numbers of axes and the like: `#stablehlo.gather<…>`."""
        value = self.attribute(name)
        if not isinstance(value, Coded):
            self.wrong(f"it has no {name}")
        return value

    def region(self, k: int = 0) -> mlir.Region:
        """One of its regions."""
        if k >= len(self.operation.regions) or len(self.operation.regions[k].blocks) != 1:
            self.wrong("it has no body of one block")
        return self.operation.regions[k]


def integers_of(value: Any, count: int) -> tuple[int, ...] | None:
    """The integers of an attribute, row by row; those of a splat `count` times."""
    if isinstance(value, Array):
        return None if any(isinstance(v, float) for v in value.values) else tuple(int(v) for v in value.values)
    if isinstance(value, Dense) and value.data:
        flat = types.array(value).reshape(-1)
        if flat.dtype.kind not in "iub":
            return None
        return (int(flat[0]),) * count if value.splat and count else tuple(int(v) for v in flat)
    if isinstance(value, Dense):
        return ()
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        found = [v.value if isinstance(v, Typed) else v for v in value]
        whole = [v for v in found if isinstance(v, int)]
        return tuple(whole) if len(whole) == len(found) else None
    return None


def stand_in(dtype: DType, shape: Shape) -> Node:
    """A node of a type that is nothing else: an argument of a body. Complex ones are pairs of such."""
    if dtype.is_complex:
        return pairs.paired(stand_in(dtype.part, shape), stand_in(dtype.part, shape))
    return Placeholder(dtype, shape, row_major(shape)).node()


Function = Callable[[Call], "Node | Sequence[Value]"]


class Row(NamedTuple):
    """How an operation is read: a function that gives its result or results, the attributes that it looks at, and its
    operands.
    """

    function: Function
    attributes: tuple[str, ...] = ()
    operands: int | None = None  # how many it takes, where that is always the same
    note: str = ""  # what is special about it, for the reference
    tensors: bool = True  # whether its operands must be tensors


def rows(table: dict[str, Row], dialect: str = "stablehlo") -> dict[str, Row]:
    """A table under full names."""
    return {f"{dialect}.{name}": row for name, row in table.items()}

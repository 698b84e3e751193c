"""What a text says, as a tree: types, attributes, operations, functions. Nothing here knows what an operation does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

# --- types


class Ranked(NamedTuple):
    """`tensor<2x?xf32>`: None where a size is `?`. The rest, behind a comma, is an encoding: bounds of such sizes."""

    sizes: tuple[int | None, ...]
    element: str
    encoding: str = ""

    def __str__(self) -> str:
        sizes = "".join("?x" if size is None else f"{size}x" for size in self.sizes)
        return f"tensor<{sizes}{self.element}{', ' if self.encoding else ''}{self.encoding}>"


class Tuple(NamedTuple):
    """`tuple<…>`: several values as one."""

    parts: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.parts))}>"


class FunctionType(NamedTuple):
    """`(…) -> (…)`."""

    arguments: tuple[Type, ...]
    results: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.arguments))}) -> {results_text(self.results)}"


class Opaque(NamedTuple):
    """A type or an attribute that is only kept: `i32`, `!stablehlo.token`, `#chlo<…>`."""

    text: str

    def __str__(self) -> str:
        return self.text


Type = Ranked | Tuple | FunctionType | Opaque


def results_text(types: tuple[Type, ...]) -> str:
    """The types of results behind an arrow: a single one stands alone, unless it has an arrow of its own."""
    alone = len(types) == 1 and not isinstance(types[0], FunctionType)
    return str(types[0]) if alone else f"({', '.join(map(str, types))})"


# --- attributes


class Symbol(NamedTuple):
    """`@name`, or `@name::@inner`."""

    name: str

    def __str__(self) -> str:
        return self.name


class Typed(NamedTuple):
    """A number with its type: `1 : i64`."""

    value: int | float
    type: Type


class Array(NamedTuple):
    """`array<i64: 1, 2>`."""

    element: str
    values: tuple[int | float | bool, ...]


class Dense(NamedTuple):
    """`dense<…> : type`. `data` are the little-endian bytes of its elements, one byte for each bool; of a splat those
    of one element, however many the type has. A type whose elements are not known keeps the text instead.
    """

    type: Ranked
    splat: bool
    data: bytes
    text: str = ""


class Resource(NamedTuple):
    """`dense_resource<key> : type`, whose bytes stand at the end of the text."""

    key: str
    type: Type


class Coded(NamedTuple):
    """`#dialect.name<…>`: its fields if it is a list of them, else its words."""

    name: str
    fields: tuple[tuple[str, Any], ...] = ()
    words: tuple[str, ...] = ()

    def get(self, key: str, default: Any = None) -> Any:
        """One of the fields."""
        return next((value for name, value in self.fields if name == key), default)


Attribute = Any  # bool | int | float | str | None (a unit) | tuple | dict | one of the above

# --- operations


class Argument(NamedTuple):
    """An argument of a block or of a function, whose attributes say how it is used."""

    name: str
    type: Type
    attributes: dict[str, Attribute]


@dataclass(slots=True)
class Block:
    """Operations one after the other; the last one names what it gives."""

    arguments: list[Argument]
    operations: list[Operation]


@dataclass(slots=True)
class Region:
    """The code inside of an operation. What no block defines, it reads from outside."""

    blocks: list[Block]


@dataclass(slots=True)
class Operation:
    """One operation. Operands and results are names: `%3`, `%arg0`, `%7#1`; `at` is the number of its first token."""

    name: str
    results: list[str]
    operands: list[str]
    attributes: dict[str, Attribute]
    regions: list[Region]
    operand_types: tuple[Type, ...]
    types: tuple[Type, ...]  # of its results
    at: int = field(default=0, compare=False)


@dataclass(slots=True)
class Function:
    """A function; without a body it is only declared."""

    name: str
    arguments: list[Argument]
    results: list[tuple[Type, dict[str, Attribute]]]
    body: Region | None
    attributes: dict[str, Attribute]
    visibility: str = ""
    at: int = field(default=0, compare=False)


@dataclass(slots=True)
class Module:
    """Functions by name, what else stands beside them, and the bytes of resources. `text` is what was read, for places
    in messages.
    """

    name: str
    functions: dict[str, Function]
    others: list[Operation]  # what is no function: meshes, globals
    attributes: dict[str, Attribute]
    resources: dict[str, bytes]
    text: str = field(default="", compare=False, repr=False)

"""Operations of a block, one after the other, and names for what they give."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from smelt.dtypes import DType, Scalar
from smelt.formats.mlir import Argument, Attribute, Block, Opaque, Operation, Ranked, Region, Type, Typed
from smelt.formats.stablehlo.types import NAMES

INDEX = Opaque("index")
BOOL = Opaque("i1")


class Value(NamedTuple):
    """What an operation gives."""

    name: str
    type: Type


class Code:
    """A block that is being written. Those inside of it take their names from the same numbers."""

    def __init__(self, numbers: Iterator[int] | None = None) -> None:
        self.operations: list[Operation] = []
        self.numbers = itertools.count() if numbers is None else numbers
        self._constants: dict[tuple[object, Type], Value] = {}

    def several(
        self,
        name: str,
        operands: Sequence[Value],
        types: Sequence[Type],
        regions: Sequence[Region] = (),
        **attributes: Attribute,
    ) -> list[Value]:
        """An operation with any number of results."""
        base = f"%{next(self.numbers)}" if types else ""
        names = [base] if len(types) == 1 else [f"{base}#{k}" for k in range(len(types))]
        kinds = tuple(operand.type for operand in operands)
        self.operations.append(
            Operation(name, names, [x.name for x in operands], attributes, list(regions), kinds, tuple(types))
        )
        return [Value(*pair) for pair in zip(names, types, strict=True)]

    def one(self, name: str, operands: Sequence[Value], type: Type, **attributes: Attribute) -> Value:
        """An operation with one result."""
        [value] = self.several(name, operands, [type], **attributes)
        return value

    def constant(self, number: Scalar, type: Type) -> Value:
        """A number; the same one is written once in a block."""
        key = (repr(number), type)
        if key not in self._constants:
            shown = number if isinstance(number, bool) else Typed(number, type)
            self._constants[key] = self.one("arith.constant", (), type, value=shown)
        return self._constants[key]

    def argument(self, type: Type) -> Argument:
        """An argument for a block inside."""
        return Argument(f"%arg_{next(self.numbers)}", type, {})

    def inside(self) -> Code:
        """The code of a block inside."""
        return Code(self.numbers)

    def region(self, arguments: Sequence[Argument], given: Sequence[Value], end: str = "linalg.yield") -> Region:
        """The block as a region that gives some values."""
        self.several(end, given, ())
        return Region([Block(list(arguments), self.operations)])


def scalar_type(dtype: DType) -> Opaque:
    """The type of an element. Signs are not a part of types: operations have them."""
    return Opaque(NAMES[dtype].removeprefix("u"))


def tensor_type(dtype: DType, sizes: Sequence[int]) -> Ranked:
    """The type of a tensor of elements."""
    return Ranked(tuple(sizes), scalar_type(dtype).text)

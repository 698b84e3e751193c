"""Products of matrices that have a name in linalg: where axes and types fit exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from smelt.formats.linalg.code import Code, Value
from smelt.formats.mlir import Array, Ranked
from smelt.graph import Index, Variable, of
from smelt.kernel import Expression

if TYPE_CHECKING:
    from smelt.formats.linalg.operands import Operand, Place

_NAMES: Final = {2: "linalg.matmul", 3: "linalg.batch_matmul"}


class Product(NamedTuple):
    """The name of a product, and its operands."""

    name: str
    operands: tuple[Value, Value]


def product_of(
    e: Expression, place: Place, operand: Callable[[Expression, Iterable[Variable]], Operand | None]
) -> Product | None:
    """The product that a reduction is, if (i, k) and (k, j) give (i, j), each with the same axes in front."""
    (inside,), fold = e.arguments, e.attribute
    if e.dtype.is_bool or fold.op != "add" or inside.op != "mul" or len(fold.axes) != 1 or len(place) not in _NAMES:
        return None
    if any(not i.terms for i in place):
        return None
    axes = [*(v for i in place for v in i.variables()), *fold.axes]
    *batch, row, column = place
    wanted: list[tuple[Index, ...]] = [(*batch, row, of(fold.axes[0])), (*batch, of(fold.axes[0]), column)]
    for first, second in (inside.arguments, inside.arguments[::-1]):
        if any(x.op == "load" and x.attribute.mask for x in (first, second)):
            continue
        found = [operand(x, axes) for x in (first, second)]
        if [x and x.at for x in found] == wanted:
            a, b = (x.value for x in found if x is not None)
            if _element(a) == _element(b):
                return Product(_NAMES[len(place)], (a, b))
    return None


def _element(value: Value) -> str:
    assert isinstance(value.type, Ranked)
    return value.type.element


def write_product(code: Code, product: Product, into: Value) -> Value:
    """The operation."""
    segments = Array("i32", (2, 1))
    return code.one(product.name, [*product.operands, into], into.type, operandSegmentSizes=segments)

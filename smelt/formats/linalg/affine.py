"""Index expressions as affine maps, and as arithmetic on `index`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from smelt.formats.linalg.code import BOOL, INDEX, Code, Value
from smelt.formats.linalg.scalars import select
from smelt.formats.mlir import Opaque, Typed
from smelt.graph import Atom, Index, Maximum, Minimum, Operation, Quotient, Remainder, Variable

LESS: Final = Typed(2, Opaque("i64"))  # of `arith.cmpi`, with signs


def is_sum(index: Index) -> bool:
    """Whether an index is a sum of axes, each any number of times, and a number: what can be an indexing map."""
    return all(
        len(product) == 1 and isinstance(product[0], Variable) and factor > 0 for product, factor in index.terms.items()
    )


def affine(index: Index, names: Mapping[Variable, str]) -> str:
    """Such a sum as text."""
    parts: list[str] = []
    for (axis,), factor in sorted(index.terms.items(), key=lambda term: term[0][0].text):
        assert isinstance(axis, Variable)
        parts.append(names[axis] if factor == 1 else f"{names[axis]} * {factor}")
    return " + ".join([*parts, *([str(index.constant)] if index.constant or not parts else [])])


def number(code: Code, index: Index, position: Callable[[Variable], Value]) -> Value:
    """An index computed; `position` says where each axis stands."""
    total = None
    for product, factor in sorted(index.terms.items(), key=lambda term: [atom.text for atom in term[0]]):
        term = None if factor == 1 else code.constant(factor, INDEX)
        for atom in product:
            value = _atom(code, atom, position)
            term = value if term is None else code.one("arith.muli", (term, value), INDEX)
        assert term is not None
        total = term if total is None else code.one("arith.addi", (total, term), INDEX)
    if total is None or index.constant:
        constant = code.constant(index.constant, INDEX)
        total = constant if total is None else code.one("arith.addi", (total, constant), INDEX)
    return total


_PLAIN: Final = {Minimum: "arith.minsi", Maximum: "arith.maxsi", Quotient: "arith.floordivsi", Remainder: "arith.remsi"}


def _atom(code: Code, atom: Atom, position: Callable[[Variable], Value]) -> Value:
    if isinstance(atom, Variable):
        return position(atom)
    assert isinstance(atom, Operation)
    a, b = (number(code, side, position) for side in (atom.a, atom.b))
    name = _PLAIN[type(atom)]
    if atom.a.low >= 0 and type(atom) is Quotient:
        name = "arith.divsi"
    found = code.one(name, (a, b), INDEX)
    if atom.a.low >= 0 or type(atom) is not Remainder:
        return found
    negative = code.one("arith.cmpi", (found, code.constant(0, INDEX)), BOOL, predicate=LESS)
    return select(code, negative, code.one("arith.addi", (found, b), INDEX), found)

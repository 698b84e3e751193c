"""What the terms of an index expression multiply: atoms, and the operations that the normal form cannot see through."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smelt.graph.index import Index


class Atom:
    """What a term multiplies. Compared by structure, the `parts`; `text` orders atoms and prints them."""

    __slots__ = ("depth", "hash", "high", "low", "parts", "text")
    low: int
    high: int
    depth: int  # larger than that of anything it is bounded by or made of
    text: str
    hash: int
    parts: tuple[Any, ...]

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other) is type(self) and self.hash == other.hash and self.parts == other.parts

    def __repr__(self) -> str:
        return self.text


class Operation(Atom):
    """An operation on two expressions that stays opaque to the normal form."""

    __slots__ = ("a", "b")
    symbol = "?"
    evaluate: Callable[[Any, Any], Any]  # with NumPy's arrays of integers, too

    def __init__(self, a: Index, b: Index) -> None:
        self.a, self.b = self.parts = a, b
        self.depth = 1 + max(a.depth, b.depth)
        self.text = self._spell()
        self.hash = hash((self.symbol, a, b))
        self.low, self.high = self._bounds()

    def _spell(self) -> str:
        return f"{spell_operand(self.a)} {self.symbol} {spell_operand(self.b)}"

    def _bounds(self) -> tuple[int, int]:
        """Those of its values where both sides are at their ends: most operations rise or fall with each."""
        ends = [self.evaluate(x, y) for x in (self.a.low, self.a.high) for y in (self.b.low, self.b.high)]
        return min(ends), max(ends)


class Quotient(Operation):
    __slots__ = ()
    symbol = "//"
    evaluate = staticmethod(operator.floordiv)


class Remainder(Operation):
    __slots__ = ()
    symbol = "%"
    evaluate = staticmethod(operator.mod)

    def _bounds(self) -> tuple[int, int]:
        high = self.b.high - 1
        return 0, min(high, self.a.high) if self.a.low >= 0 else high


class Minimum(Operation):
    __slots__ = ()
    symbol = "min"
    evaluate = staticmethod(lambda a, b: (a + b - abs(a - b)) // 2)

    def _spell(self) -> str:
        return f"{self.symbol}({self.a}, {self.b})"


class Maximum(Minimum):
    __slots__ = ()
    symbol = "max"
    evaluate = staticmethod(lambda a, b: (a + b + abs(a - b)) // 2)


def bounds_of(terms: Mapping[tuple[Atom, ...], int], constant: int) -> tuple[int, int]:
    """The smallest and the largest that a sum of products can be, atoms being as they like."""
    low = high = constant
    for product, coefficient in terms.items():
        if len(product) == 1:
            a, b = product[0].low, product[0].high
        else:
            a = b = 1
            for atom in product:
                ends = (a * atom.low, a * atom.high, b * atom.low, b * atom.high)
                a, b = min(ends), max(ends)
        if coefficient < 0:
            a, b = b, a
        low += coefficient * a
        high += coefficient * b
    if low < 0 <= high and (corners := _corners(terms, constant)):
        return min(corners), max(corners)
    return low, high


def _corners(terms: Mapping[tuple[Atom, ...], int], constant: int) -> list[int]:
    """The values where each atom is at one of its ends, if those are few: a sum of products of different atoms is
    linear in each, so (n - 1)*(m - 1) is no smaller than at one of them, though n*m - n - m + 1 by terms may be.
    """
    atoms = list(dict.fromkeys(atom for product in terms for atom in product))
    if len(atoms) == sum(map(len, terms)) or len(atoms) > 3 or any(len(p) > len(set(p)) for p in terms):
        return []  # where each is only once, the terms have said so
    ends = (dict(zip(atoms, values, strict=True)) for values in itertools.product(*((a.low, a.high) for a in atoms)))
    return [constant + sum(c * math.prod(at[a] for a in p) for p, c in terms.items()) for at in ends]


def spell_atom(atom: Atom, inside: bool) -> str:
    return f"({atom.text})" if inside and isinstance(atom, Quotient | Remainder) else atom.text


def spell_operand(index: Index) -> str:
    """An operand of // or %: in brackets unless it is a name or a number."""
    text = str(index)
    plain = not index.terms and index.constant >= 0
    single = len(index.terms) == 1 and index.constant == 0 and text == next(iter(index.terms))[0].text
    named = single and not isinstance(next(iter(index.terms))[0], Quotient | Remainder)
    return text if plain or named else f"({text})"


def spell(index: Index) -> str:
    """An expression as text."""
    parts: list[str] = []
    for product, c in sorted(index.terms.items(), key=lambda item: [atom.text for atom in item[0]]):
        body = "*".join(spell_atom(atom, len(product) > 1 or c != 1) for atom in product)
        sign = ("- " if c < 0 else "+ ") if parts else ("-" if c < 0 else "")
        parts.append(f"{sign}{body}" if abs(c) == 1 else f"{sign}{abs(c)}*{body}")
    if index.constant or not parts:
        sign = ("- " if index.constant < 0 else "+ ") if parts else ("-" if index.constant < 0 else "")
        parts.append(f"{sign}{abs(index.constant)}")
    return " ".join(parts)


def quoted(name: str) -> str:
    """A name of the user's as text that parses back, whatever is in it."""
    import json

    return json.dumps(name)

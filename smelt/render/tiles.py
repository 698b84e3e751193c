"""What every renderer shares: tiles as registers, index expressions as text, masks per register.

A tile has one register per combination of its parts other than the lane part; the lane part is the register's vector.
Names in generated code are made here and never contain text from outside.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from smelt.errors import InternalError
from smelt.graph import Atom, Index, Maximum, Minimum, Operation, Quotient, Variable, nonnegative, of
from smelt.kernel import Kernel, Less, Mask, Part, Routine, Value
from smelt.render.library import Library, Type

Coordinates = Mapping[str, int]  # part name -> element
Register = tuple[str, tuple[int, ...]]  # value name, one number per part other than the lane


def lane_part(value: Value, vectors: bool = True) -> Part | None:
    """The part of a value that is a vector; a single lane is a scalar. Without vectors there is none."""
    last = value.parts[-1] if vectors and value.parts else None
    return last if last is not None and last.is_lane and last.extent > 1 else None


def combinations(parts: Iterable[Part]) -> Iterator[dict[str, int]]:
    """All coordinates over some parts, the last part fastest."""
    chosen = tuple(parts)
    for numbers in itertools.product(*(range(part.extent) for part in chosen)):
        yield {part.name: n for part, n in zip(chosen, numbers, strict=True)}


def place(index: Index, at: Coordinates) -> Index:
    """An index for one register: the variables of its parts become numbers."""
    known: dict[Variable, Index | int] = {v: at[v.name] for v in index.variables() if v.name in at}
    return index.substitute(known) if known else index


class Affine(NamedTuple):
    """An index as base + step * lane."""

    base: Index
    step: Index


def along(index: Index, which: Part | Variable | None) -> Affine | None:
    """How an index moves with a lane or a variable; None if that stands below a division, a minimum or another one."""
    found = next((v for v in index.variables() if which is not None and v.name == which.name), None)
    if found is None:
        return Affine(index, Index({}, 0))
    step = index.coefficient(found)
    base = index - of(found) * step
    return None if found in base.variables() or found in step.variables() else Affine(base, step)


def near_part(address: Index, parts: Iterable[Part]) -> Part | None:
    """The part along which neighbors in memory lie."""
    moves = ((part, along(address, part)) for part in parts)
    return next((part for part, move in moves if move is not None and move.step.value == 1), None)


class LaneMask(NamedTuple):
    """A mask for one register: conditions without the lane, and the lanes below each of `first`, not below `after`.

    `other` holds the conditions in which the lane cannot be separated: they are tested lane by lane.
    """

    conditions: Mask
    first: tuple[Index, ...] = ()
    after: tuple[Index, ...] = ()
    other: Mask = ()

    @property
    def by_lane(self) -> bool:
        return bool(self.first or self.after or self.other)


NEVER = LaneMask((Less(Index({}, 0), Index({}, 0)),))


def place_mask(mask: Mask, at: Coordinates, lane: Part | None) -> LaneMask:
    """A mask for one register, without the conditions that always hold; NEVER if one cannot hold."""
    conditions: list[Less] = []
    first: list[Index] = []
    after: list[Index] = []
    other: list[Less] = []
    for a, b in mask:
        gap = place(b, at) - place(a, at)  # the condition is gap > 0
        if nonnegative(gap - 1):
            continue
        if nonnegative(-gap):
            return NEVER
        move = along(gap, lane)
        step = None if move is None else move.step.value
        if move is None or step is None:
            other.append(Less(Index({}, 0), gap))
        elif step == 0:
            conditions.append(Less(Index({}, 0), gap))
        elif step < 0:  # base > -step * lane: lanes below base / -step, rounded up
            first.append((move.base - step - 1) // -step)
        else:  # lanes from the first one with step * lane >= 1 - base
            after.append((step - move.base) // step)
    return LaneMask(tuple(conditions), tuple(first), tuple(after), tuple(other))


_HELPERS = {"//": "floor_divide", "%": "floor_remainder", "min": "least", "max": "greatest"}


class Sheet:
    """The lines of one kernel. Index expressions are spelled with the names that variables have at this point of it."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.lines: list[str] = []
        self.names: dict[str, str] = {}
        self._scopes: list[dict[Hashable, str]] = [{}]  # names of what was computed once, by block
        self._count = 0

    def fresh(self, letter: str) -> str:
        """A name that is not in use."""
        self._count += 1
        return f"{letter}{self._count}"

    def once(self, key: Hashable, letter: str, kind: str, spell: Callable[[], str]) -> str:
        """The name of a value that is computed once within a block."""
        known = next((scope[key] for scope in reversed(self._scopes) if key in scope), None)
        if known is None:
            text = spell()
            known = self._scopes[-1][key] = self.fresh(letter)
            self.lines.append(f"{kind}{known} = {text};")
        return known

    @contextmanager
    def named(self, names: Mapping[str, str]) -> Iterator[None]:
        """Variables have these names inside; none that is given there lives on."""
        outer = self.names
        self.names = {**outer, **names}
        yield
        self.names = outer

    def helper(self, name: str) -> str:
        """The name of a function of the library for integers."""
        return self.library.function(name, Type("i64"))

    def parameters(self, parameters: Sequence[Variable]) -> list[str]:
        """The declarations of a kernel's integers, which have names from here on."""
        self.names.update((parameter.name, f"d{number}") for number, parameter in enumerate(parameters))
        return [f"const long d{number} = integers[{number}];" for number in range(len(parameters))]

    def task_count(self, kernel: Kernel | Routine) -> str:
        """The function that tells how many tasks a kernel has, where that depends on its integers."""
        if kernel.tasks.value is not None:
            return ""
        lines = [*self.parameters(kernel.parameters), f"return {self.spell(kernel.tasks)};"]
        return "\n  ".join([f"\nlong {kernel.name}_tasks(const long *integers) {{", *lines]) + "\n}\n"

    def spell(self, index: Index) -> str:
        """The expression, fit to stand between brackets or operators of a comparison."""
        parts: list[str] = []
        for product, coefficient in sorted(index.terms.items(), key=lambda item: [atom.text for atom in item[0]]):
            factors = [self._atom(atom) for atom in product]
            if abs(coefficient) != 1:
                factors.insert(0, f"{abs(coefficient)}l")
            parts += ["-" if coefficient < 0 else "+", " * ".join(factors)]
        if index.constant or not parts:
            parts += ["-" if index.constant < 0 else "+", f"{abs(index.constant)}"]
        return " ".join(parts[1:] if parts[0] == "+" else parts)

    def conditions(self, mask: Mask) -> str:
        """All conditions of a mask."""
        return " && ".join(f"{self.spell(a)} < {self.spell(b)}" for a, b in mask) or "1"

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Variable):
            if atom.name not in self.names:
                raise InternalError(f"{atom.name} is used where it is not defined")
            return self.names[atom.name]
        if not isinstance(atom, Operation):
            raise InternalError(f"no text for {atom!r}")
        a, b = self.spell(atom.a), self.spell(atom.b)
        if not isinstance(atom, Maximum | Minimum) and nonnegative(atom.a):
            return f"(({a}) {'/' if isinstance(atom, Quotient) else '%'} ({b}))"
        return f"{self.helper(_HELPERS[atom.symbol])}({a}, {b})"

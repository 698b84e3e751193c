"""What every renderer shares: tiles as registers, index expressions as text, masks per register.

A tile has one register per combination of its parts other than the lane part; the lane part is the register's vector.
Names in generated code are made here and never contain text from outside.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def register_parts(value: Value, vectors: bool = True, groups: bool = False) -> tuple[Part, ...]:
    """The parts that become separate registers: neither vectors, nor threads of a group."""
    parts = value.parts if lane_part(value, vectors) is None else value.parts[:-1]
    return tuple([part for part in parts if not part.stride]) if groups else parts


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


def along_lane(index: Index, lane: Part | None) -> Affine | None:
    """How an index moves with the lane; None if the lane stands below a division, a minimum or another lane."""
    return along(index, "" if lane is None else lane.name)


def along(index: Index, name: str) -> Affine | None:
    """The same for any variable."""
    found = next((v for v in index.variables() if v.name == name), None)
    if found is None:
        return Affine(index, Index({}, 0))
    step = index.coefficient(found)
    base = index - of(found) * step
    return None if found in base.variables() or found in step.variables() else Affine(base, step)


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
        move = along_lane(gap, lane)
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


class IndexText:
    """Spells index expressions as C, with the names that variables have at this point of the kernel."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.names: dict[str, str] = {}

    @contextmanager
    def named(self, names: Mapping[str, str]) -> Iterator[None]:
        """Variables have these names inside; none that is given there lives on."""
        outer = self.names
        self.names = {**outer, **names}
        yield
        self.names = outer

    def helper(self, symbol: str) -> str:
        """The name of the function for //, %, min or max."""
        return self.library.function(_HELPERS[symbol], Type("i64"))

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
        if isinstance(atom, Maximum | Minimum):
            return f"{self.helper(atom.symbol)}({a}, {b})"
        if nonnegative(atom.a):
            return f"(({a}) {'/' if isinstance(atom, Quotient) else '%'} ({b}))"
        return f"{self.helper(atom.symbol)}({a}, {b})"

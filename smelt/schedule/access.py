"""Facts about a region that schedules are chosen by: who walks which axis with which stride, which axis is to become
vectors, how wide, and what several phases compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smelt.cost import Profile
from smelt.graph import Operation, Variable, of, upper
from smelt.kernel import Access, Expression, Load, Output, Region, extent

Accessed = Access | Output | Load


def stride(access: Accessed, axis: Variable) -> int | None:
    """How far apart neighbors on an axis lie, in elements; None if that varies."""
    address = access.buffer.address(access.index)
    for atom in address.atoms():
        if isinstance(atom, Operation) and axis in atom.a.variables() | atom.b.variables():
            return None
    return address.coefficient(axis).value


def lies_along(e: Expression, axis: Variable) -> bool:
    """Whether a value is a load that finds neighbors on an axis side by side."""
    return e.op == "load" and stride(e.attribute, axis) == 1


def lies_in_panels(load: Expression, axis: Variable, panel: int) -> bool:
    """Whether a load finds so many neighbors on an axis side by side, and the next ones elsewhere: it was packed."""
    size = upper(extent(axis))
    if load.op != "load" or load.attribute.mask or load.arguments:
        return False
    outer, inner = Variable("panel", 0, -(-size // panel) - 1), Variable("column", 0, panel - 1)
    index = tuple(i.substitute({axis: of(outer) * panel + of(inner)}) for i in load.attribute.index)
    access = load.attribute._replace(index=index)
    apart = stride(access, outer)
    return stride(access, inner) == 1 and apart is not None and apart != panel


@dataclass(frozen=True, slots=True)
class Walk:
    """One load or store: where it goes, and the bytes that it moves over the whole region.

    `scattered` are the axes that an index which is a value varies over.
    """

    access: Accessed
    nbytes: int
    scattered: frozenset[Variable]

    def along(self, axis: Variable) -> int | None:
        """The stride along an axis; None if that varies."""
        return None if axis in self.scattered else stride(self.access, axis)


def walks(region: Region) -> list[Walk]:
    """Every access of a region. A store counts double: its line is read before it is written."""
    accesses: list[tuple[Accessed, int, tuple[Expression, ...]]] = [(o, 2, ()) for o in region.outputs]
    accesses += [(e.attribute, 1, e.arguments) for e in region.order() if e.op == "load"]
    found: list[Walk] = []
    for access, nbytes, arguments in accesses:
        scattered = frozenset[Variable]().union(*(a.axes for a in arguments))
        for axis in scattered.union(*(i.variables() for i in access.index)) & set(region.axes):
            nbytes *= max(1, upper(extent(axis)))
        found.append(Walk(access, nbytes * access.buffer.dtype.itemsize, scattered))
    return found


def vector_axis(accesses: list[Walk], axes: Sequence[Variable]) -> Variable | None:
    """The axis that most memory is walked along; the last of several."""
    unit = {axis: sum(access.nbytes for access in accesses if access.along(axis) == 1) for axis in reversed(axes)}
    best = max(unit, key=lambda axis: unit[axis], default=None)
    return best if best is not None and unit[best] else None


def vector_lanes(region: Region, profile: Profile, axis: Variable | None = None) -> int:
    """Elements of a full vector of the widest values (index values aside: they are scalars but for a few).

    With an axis, only values count that vary along it: the others are scalars where it is a vector.
    """
    values = [e for e in region.order() if e.op not in ("index", "mask", "const") and (axis is None or axis in e.axes)]
    return max(1, profile.vector_bytes // max((e.dtype.itemsize for e in values), default=4))


def fitting(lanes: int, axis: Variable) -> int:
    """Lanes for an axis: no wider than the next power of two."""
    return min(lanes, 1 << max(0, upper(extent(axis)) - 1).bit_length())


def reductions(region: Region) -> list[Expression]:
    return [e for e in region.order() if e.op == "reduce"]


def shared_values(region: Region) -> dict[str, Expression]:
    """What several phases compute, by name. Each reduction is a phase, and the result, up to other reductions."""
    phases: dict[Expression, set[object]] = {e: set() for e in region.order()}
    for number, output in enumerate(region.outputs):
        phases[output.value].add(number)
    for e in reversed(region.order()):
        for argument in e.arguments:
            phases[argument] |= {e} if e.op == "reduce" else phases[e]
    names = {e: name for name, e in region.named().items()}
    shared = [e for e, own in phases.items() if len(own) > 1]
    return {names[e]: e for e in shared if e.arguments and e.op != "reduce"}

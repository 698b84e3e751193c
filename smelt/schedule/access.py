"""Facts about a region that schedules are chosen by: who walks which axis with which stride."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from smelt.graph import Index, Operation, Variable, of, upper
from smelt.kernel import Buffer, Expression, Region, extent


class Accessed(Protocol):
    """A place in a buffer: a load, a store, or what stands for one."""

    @property
    def buffer(self) -> Buffer: ...

    @property
    def index(self) -> tuple[Index, ...]: ...


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


def widest(region: Region, axis: Variable | None = None) -> int:
    """Bytes of the widest value that is computed with (index values aside: they are scalars but for a few).

    With an axis, only values count that vary along it: the others are scalars where it is a vector.
    """
    values = [e for e in region.order() if e.op not in ("index", "mask", "const") and (axis is None or axis in e.axes)]
    return max((e.dtype.itemsize for e in values), default=4)


def reductions(region: Region) -> list[Expression]:
    return [e for e in region.order() if e.op == "reduce"]


def scanned_axes(region: Region) -> list[Variable]:
    return list(dict.fromkeys(e.attribute.axis for e in region.order() if e.op == "scan"))


def shared_values(region: Region) -> dict[str, Expression]:
    """What several phases compute, by name. Each reduction is a phase, and the result, up to other reductions."""
    phases: Counter[Expression] = Counter()
    for root in [e.arguments[0] for e in reductions(region)] + [o.value for o in region.outputs]:
        seen: dict[Expression, None] = {}
        stack = [root]
        while stack:
            e = stack.pop()
            if e not in seen and e.op != "reduce":
                seen[e] = None
                stack.extend(e.arguments)
        phases.update(seen.keys())
    names = {e: name for name, e in region.named().items()}
    return {names[e]: e for e, count in phases.items() if count > 1 and e.arguments}

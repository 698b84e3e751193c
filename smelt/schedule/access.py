"""Facts about a region that schedules are chosen by: who walks which axis with which stride."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.cost.operations import instructions
from smelt.graph import Index, Operation, Variable, of, upper
from smelt.kernel import Buffer, Expression, Region, extent, walk


def stride(buffer: Buffer, index: tuple[Index, ...], axis: Variable) -> int | None:
    """How far apart neighbors on an axis lie, in elements; None if that varies."""
    address = buffer.address(index)
    for atom in address.atoms():
        if isinstance(atom, Operation) and axis in atom.a.variables() | atom.b.variables():
            return None
    return address.coefficient(axis).value


def lies_in_panels(load: Expression, axis: Variable, panel: int) -> bool:
    """Whether a load finds so many neighbors on an axis side by side, and the next ones elsewhere: it was packed."""
    size = upper(extent(axis))
    if load.op != "load" or load.attribute.mask or load.arguments:
        return False
    outer, inner = Variable("panel", 0, -(-size // panel) - 1), Variable("column", 0, panel - 1)
    access = load.attribute
    index = tuple(i.substitute({axis: of(outer) * panel + of(inner)}) for i in access.index)
    apart = stride(access.buffer, index, outer)
    return stride(access.buffer, index, inner) == 1 and apart is not None and apart != panel


@dataclass(frozen=True, slots=True)
class Walk:
    """One load or store: its buffer and index, and the bytes that it moves over the whole region.

    `scattered` are the axes that an index which is a value varies over.
    """

    buffer: Buffer
    index: tuple[Index, ...]
    nbytes: int
    scattered: frozenset[Variable] = frozenset()

    def along(self, axis: Variable) -> int | None:
        """The stride along an axis; None if that varies."""
        return None if axis in self.scattered else stride(self.buffer, self.index, axis)


def walks(region: Region) -> list[Walk]:
    """Every access of a region. A store counts double: its line is read before it is written."""
    nothing: frozenset[Variable] = frozenset()
    accesses = [(o.buffer, o.index, 2, nothing) for o in region.outputs]
    for e in region.order():
        if e.op == "load":
            scattered = nothing.union(*(a.axes for a in e.arguments))
            accesses.append((e.attribute.buffer, e.attribute.index, 1, scattered))
    found: list[Walk] = []
    for buffer, index, factor, scattered in accesses:
        nbytes = factor * buffer.dtype.itemsize
        for axis in scattered.union(*(i.variables() for i in index)) & set(region.axes):
            nbytes *= max(1, upper(extent(axis)))
        found.append(Walk(buffer, index, nbytes, scattered))
    return found


def widest(region: Region, axis: Variable | None = None) -> int:
    """Bytes of the widest value that is computed with (index values aside: they are scalars but for a few).

    With an axis, only values count that vary along it: the others are scalars where it is a vector.
    """
    values = [e for e in region.order() if e.op not in ("index", "mask", "const") and (axis is None or axis in e.axes)]
    return max((e.dtype.itemsize for e in values), default=4)


def reductions(region: Region) -> list[Expression]:
    return [e for e in region.order() if e.op == "reduce"]


def phases(region: Region) -> list[list[Expression]]:
    """For each reduction, and for the stored value, what its own loop computes: everything up to other reductions."""
    found: list[list[Expression]] = []
    for root in [e.arguments[0] for e in reductions(region)] + [o.value for o in region.outputs]:
        found.append(_within(root))
    return found


def _within(root: Expression) -> list[Expression]:
    if root.op == "reduce":
        return []
    seen: dict[Expression, None] = {}
    stack = [root]
    while stack:
        e = stack.pop()
        if e not in seen and e.op != "reduce":
            seen[e] = None
            stack.extend(e.arguments)
    return list(seen)


def again_instructions(root: Expression, axis: Variable) -> int:
    """What recomputing an expression costs for a vector along an axis; what does not vary along it is at hand."""
    return instructions(e.op for e in walk([root]) if e.op != "reduce" and axis in e.axes)

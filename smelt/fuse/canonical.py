"""Regions with other variables: the common part of merging axes and of naming parameters."""

from __future__ import annotations

from collections.abc import Callable

from smelt.graph.index import Index, Variable, of
from smelt.kernel.region import Access, Buffer, Expression, Fold, Less, Mask, Output, Prefix, Region, walk

AccessRule = Callable[[Buffer, tuple[Index, ...]], tuple[Buffer, tuple[Index, ...]]]
AxesRule = Callable[[tuple[Variable, ...], dict[Variable, Index]], tuple[Variable, ...]]


def rebuild_region(region: Region, values: dict[Variable, Index], access: AccessRule, axes: AxesRule) -> Region:
    """A region with variables replaced everywhere; `access` and `axes` say what becomes of accesses and lists of
    axes.
    """

    def masked(mask: Mask) -> Mask:
        return tuple(Less(c.a.substitute(values), c.b.substitute(values)) for c in mask)

    new: dict[Expression, Expression] = {}
    for e in walk([o.value for o in region.outputs]):
        attribute = e.attribute
        if e.op == "load":
            attribute = Access(*access(attribute.buffer, attribute.index), masked(attribute.mask), attribute.picks)
        elif e.op == "index":
            attribute = attribute.substitute(values)
        elif e.op == "mask":
            attribute = masked(attribute)
        elif e.op == "reduce":
            attribute = Fold(attribute.op, axes(attribute.axes, values))
        elif e.op == "scan":
            attribute = Prefix(attribute.op, *axes((attribute.axis,), values))
        new[e] = Expression(e.op, e.dtype, tuple(new[a] for a in e.arguments), attribute)
    outputs = tuple(Output(*access(o.buffer, o.index), new[o.value]) for o in region.outputs)
    roles = tuple((name, new[e]) for name, e in region.roles)
    return Region(outputs, axes(region.axes, values), region.parameters, roles)


def name_slots(region: Region) -> tuple[Region, dict[str, str]]:
    """Slice starts named p0, p1, … within the region, so that equal kernels are equal wherever they occur.

    Also gives what each parameter of the region is called in the graph.
    """
    slots = [v for v in region.parameters if v.name.startswith("s")]
    names = {v.name: v.name for v in region.parameters if v not in slots}
    if not slots:
        return region, names
    fresh = {v: Variable(f"p{k}", v.first, v.last) for k, v in enumerate(slots)}
    values = {old: of(new) for old, new in fresh.items()}

    def access(buffer: Buffer, index: tuple[Index, ...]) -> tuple[Buffer, tuple[Index, ...]]:
        return buffer, tuple(i.substitute(values) for i in index)

    renamed = rebuild_region(region, values, access, lambda axes, _: axes)
    parameters = tuple(fresh.get(v, v) for v in region.parameters)
    names.update((fresh[v].name, v.name) for v in slots)
    return Region(renamed.outputs, renamed.axes, parameters, renamed.roles), names
